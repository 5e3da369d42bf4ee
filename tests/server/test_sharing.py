"""Text withheld from models never reaches the service: a canary, and every tool to find it.

The model's requests never spell the canary, so wherever it appears in a request it came from the
notebook, its kernel or its files.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import Call, frames

CANARY = "KANARI"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er"
    "kJggg=="
)
SECRET = """\
def open_vault(step=1):
    ticket = 'KANARI in the source'
    raise ValueError('KANARI in an error: ' + ticket)
password = ''.join(map(chr, [75, 65, 78, 65, 82, 73]))
rows = [password]
for name in rows:
    print(name)
password"""
KEYS = ("restart_kernel", "interrupt_kernel")


def write(path: Path, *, share: str | None = None, tags: tuple[str, ...] = ()) -> None:
    """A notebook with the canary in a cell h1, in Markdown, in outputs and in attachments."""
    streams = [new_output("stream", name="stdout", text="KANARI in an output\n")]
    failed = new_output("error", ename="KANARIError", evalue="KANARI", traceback=["KANARI"])
    picture = new_output("display_data", {"image/png": PIXEL, "text/plain": "KANARI"})
    kept = {"tags": list(tags)}
    inside = "\n".join(["x = 1", "print('KANA' + 'RI')"])
    cells = [
        new_markdown_cell("# Plan\nNothing to see.", id="m1"),
        new_code_cell(SECRET if tags else "x = 0", id="h1", metadata=kept, outputs=streams),
        new_code_cell("open_vault()" if tags else "1 / 0", id="v1"),
        new_code_cell("y = 2" if tags else inside, id="v2"),
        new_code_cell("z = 3", id="v3"),
    ]
    if not tags:
        cells[2].source = "raise KeyError('KANA' + 'RI')"
        cells[1].outputs = [*streams, failed, picture]
        cells[3].execution_count = 3
    if share == "code-only":
        cells[0].source = "# KANARI\nThe plan is KANARI."
        cells[0].attachments = {"KANARI.png": {"image/png": PIXEL}}
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    if share is not None:
        about["jupyter_agent"] = {"share": share}  # type: ignore[assignment]
    nbformat.write(new_notebook(cells=cells, metadata=about), path)


def every_call() -> list[list[dict[str, Any]]]:
    """Every tool, with every way to ask for the canary."""
    some = ["m1", "h1", "v1", "v2"]
    return [
        [calls("get_notebook_state"), calls("get_notebook_state", outline=True)],
        [calls("get_notebook_state", focus="h1"), calls("read_cells", cell_ids=some, images=True)],
        [calls("read_cells", cell_ids=["h1"], output_from=3), calls("search_notebook", query="KA")],
        [calls("search_notebook", query="K.N.R|vault|plan", regex=True)],
        [calls("update_cell", cell_id="h1", old_string="rows", new_string="r")],
        [calls("update_cell", cell_id="h1", source="pass"), calls("delete_cell", cell_id="h1")],
        [calls("move_cell", cell_id="h1", after="v2"), calls("run_cell", cell_id="h1")],
        [calls("update_cell", cell_id="h1", type="markdown")],
        [calls("update_cell", cell_id="m1", source="# Mine")],
        [calls("update_cell", cell_id="m1", old_string="nowhere", new_string="")],
        [calls("update_cell", cell_id="m1", type="code"), calls("read_cells", cell_ids=["m1"])],
        [calls("run_cells", cell_ids=["h1", "v1"]), calls("run_cells", stop_on_error=False)],
        [calls("run_cell", cell_id="v1"), calls("run_cell", cell_id="v2")],
        [calls("read_cells", cell_ids=some, images=True), calls("get_notebook_state")],
        [calls("inspect_variables")],
        [calls("inspect_variables", names=["password", "rows", "name", "In", "Out", "_i1", "_"])],
        [calls("read_file", path="home.ipynb"), calls("read_file", path="copy.json")],
        [calls("read_file", path="home.txt"), calls("list_files")],
        [calls("create_cell", source="z = 3", after="h1"), calls("verify_notebook")],
        [calls("create_notebook", path="other.ipynb")],
        [calls("interrupt_kernel"), calls("restart_kernel")],
        [says("Done.")],
    ]


def ask(text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"type": "text", "text": text}]}
    common = {"id": "talk", "notebook": "home.ipynb", "mode": "auto", "allow": KEYS}
    return {**common, "messages": [message], **more}


def attachments() -> list[dict[str, Any]]:
    return [
        {"type": "cell", "cell_id": "m1"},
        {"type": "cell", "cell_id": "h1"},
        {"type": "selection", "cell_id": "h1", "text": "KANARI in the source"},
        {"type": "variable", "name": "password"},
        {"type": "file", "path": "home.ipynb"},
        {"type": "file", "path": "copy.json"},
    ]


async def tell_everything(call: Call, replies: list[FakeReply], **more: Any) -> str:
    """Two turns with every tool; returns what their person sees of them."""
    replies += every_call()
    first = await call("POST", "chat", body=ask("Look at all of it.", **more))
    assert frames(first.text)[-2]["type"] == "finish", first.text[-500:]
    return first.text


async def wait_for_a_run(call: Call, replies: list[FakeReply], **more: Any) -> None:
    """A run whose outputs another turn asks for."""
    replies += [[calls("run_cell", cell_id="v2", wait=0)], [says("It runs.")]]
    chunks = frames((await call("POST", "chat", body=ask("Run it.", **more))).text)
    (output,) = [c["output"] for c in chunks if c["type"] == "tool-output-available"
                 and not c.get("preliminary")]  # fmt: skip
    replies += [[calls("wait_for_run", run_id=output["run_id"])], [says("Done.")]]
    await call("POST", "chat", body=ask("And?", **more))


def sent(fake: FakeAnthropic) -> str:
    """Everything sent to the service, except for the tools' descriptions."""
    assert fake.refusals == []
    return json.dumps([{**request, "tools": []} for request in fake.requests], ensure_ascii=False)


@pytest.fixture
def home(jp_root_dir: Path) -> Path:
    write(jp_root_dir / "home.ipynb", tags=("agent-hidden",))
    shutil.copy(jp_root_dir / "home.ipynb", jp_root_dir / "copy.json")
    (jp_root_dir / "home.txt").write_text(f"# %%\n{SECRET}\n")  # as Jupytext pairs it
    return jp_root_dir / "home.ipynb"


@pytest.mark.full
async def test_nothing_of_a_hidden_cell_is_ever_sent(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], home: Path
) -> None:
    ran = await call("POST", "notebooks", "home.ipynb", "cells", "h1", "run")  # a person may
    assert "'KANARI'" in ran.text
    told = await tell_everything(call, replies)
    await call("PATCH", "notebooks", "home.ipynb", "cells", "h1", body={"source": SECRET + "\n1"})
    await wait_for_a_run(call, replies, context=attachments())
    everything = sent(fake)
    assert CANARY not in everything
    assert "open_vault(step" not in everything
    assert "(hidden)" in everything
    assert "not shared with you" in everything
    assert "hidden from you" in everything
    cells = nbformat.read(home, as_version=4).cells
    assert [cell.source for cell in cells if cell.id == "h1"] == [SECRET + "\n1"]
    assert CANARY in told  # the person sees what their own cells show
    as_models_read_it = {"format": "text"}
    text = (await call("GET", "notebooks", "home.ipynb", params=as_models_read_it)).text
    assert CANARY not in text
    assert CANARY in (await call("GET", "notebooks", "home.ipynb")).text


async def test_a_model_may_not_touch_a_hidden_cell_in_any_mode(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], home: Path
) -> None:
    before = home.read_bytes()
    inputs: list[tuple[str, dict[str, Any]]] = [
        ("update_cell", {"cell_id": "h1", "old_string": "rows", "new_string": "r"}),
        ("delete_cell", {"cell_id": "h1"}),
        ("move_cell", {"cell_id": "h1", "after": "v1"}),
        ("run_cell", {"cell_id": "h1"}),
        ("run_cells", {"cell_ids": ["v2", "h1"]}),
    ]
    for mode in ("ask", "edit", "auto"):
        for tool, given in inputs:
            body = {"notebook": "home.ipynb", "mode": mode, "allow": [tool], "input": given}
            answer = (await call("POST", "tools", tool, body=body)).body
            assert (answer["is_error"], answer["reason"]) == (True, "denied"), (mode, tool, answer)
            assert "agent-hidden" in answer["text"]
    replies += [[calls("run_cell", cell_id="h1")], [says("Denied.")]]
    chunks = frames((await call("POST", "chat", body=ask("Run it.", mode="ask"))).text)
    assert "tool-output-denied" in [chunk["type"] for chunk in chunks]
    assert "tool-approval-request" not in [chunk["type"] for chunk in chunks]
    turn = (await call("GET", "turns", chunks[0]["messageMetadata"]["turnId"])).body
    assert [entry["outcome"] for entry in turn["audit"]] == ["refused"]
    assert home.read_bytes() == before


@pytest.mark.full
@pytest.mark.parametrize(
    ("share", "by"),
    [("no-outputs", "notebook"), ("code-only", "administrator"), ("code-only", "user")],
)
async def test_what_share_keeps_back_is_never_sent(
    call: Call,
    fake: FakeAnthropic,
    replies: list[FakeReply],
    agent: Any,
    jp_root_dir: Path,
    share: str,
    by: str,
) -> None:
    home = jp_root_dir / "home.ipynb"
    write(home, share=share)
    content = json.loads(home.read_text())
    if by != "notebook":
        content["metadata"]["jupyter_agent"]["share"] = "all"
        home.write_text(json.dumps(content))
    if by == "administrator":
        access = agent.runner.access
        access._rules = replace(access._rules, share=share)
    shutil.copy(home, jp_root_dir / "copy.json")
    (jp_root_dir / "home.txt").write_text("KANARI" if share == "code-only" else "nothing")
    more = {"share": share if by == "user" else "all"}
    await tell_everything(call, replies, **more)
    await wait_for_a_run(call, replies, context=attachments()[:2] + attachments()[3:], **more)
    everything = sent(fake)
    where = everything.find(CANARY)
    assert where < 0, everything[max(0, where - 300) : where + 50]
    assert '"image"' not in everything
    assert "not shared with you" in everything
    assert "Cell `v2` [" in everything
    assert ": ok, " in everything
    assert ": error, " in everything
    assert "x = 1" in everything
    assert ("Nothing to see" in everything) == (share == "no-outputs")


@pytest.mark.full
@pytest.mark.parametrize("share", ["no-outputs", "code-only"])
async def test_the_answers_of_tools_obey_share_too(
    call: Call, jp_root_dir: Path, share: str
) -> None:
    write(jp_root_dir / "home.ipynb", share=share)
    for step in every_call()[:-1]:
        for block in step:
            body = {
                "notebook": "home.ipynb",
                "mode": "auto",
                "allow": KEYS,
                "input": block["input"],
            }
            answer = await call("POST", "tools", block["name"], body=body)
            assert answer.status == 200
            assert CANARY not in answer.text, (block, answer.text)


async def test_a_word_that_we_do_not_know_shares_the_least(call: Call, jp_root_dir: Path) -> None:
    write(jp_root_dir / "home.ipynb", share="code-only")
    text = (jp_root_dir / "home.ipynb").read_text().replace("code-only", "codeonly")
    (jp_root_dir / "home.ipynb").write_text(text)
    body = {"notebook": "home.ipynb", "input": {}}
    assert CANARY not in (await call("POST", "tools", "get_notebook_state", body=body)).text
    await call("POST", "notebooks", "home.ipynb", "cells", "v3", "run")
    asked = (await call("POST", "tools", "inspect_variables", body=body)).body
    assert (asked["is_error"], asked["reason"]) == (True, "denied")
    assert (await call("POST", "tools", "x", body={"share": "codeonly"})).status == 400
