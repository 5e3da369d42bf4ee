"""The key is in nothing that we write or send, and models read no hidden text."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply, Scripted

from ..gates import Gate
from .conftest import Call, frames, live, shown_early

KEY = "sk-ant-canary-0123456789abcdef"
PRINTS = """\
import os, sys
key = os.environ['ANTHROPIC_API_KEY']
print(key)
print(key, file=sys.stderr)
display(key)
{waits}
raise ValueError(f'no good: {{key}}')"""
HIDDEN = "\x1b\u202e\u200b\u2066\u2069\ufeff\x9b\U000e0041"
"""Starts of terminal commands, changes of direction, and characters of no width."""


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any],
    fake: FakeAnthropic,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> dict[str, Any]:
    if "home" in request.fixturenames:
        fake.api_key = KEY
        monkeypatch.setitem(os.environ, "ANTHROPIC_API_KEY", KEY)  # kernels inherit it
        del jp_server_config["JupyterAgent"]["providers"]["anthropic"]["api_key"]
    return jp_server_config


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """The cell prints the key, and continues once the gate is open."""
    return Gate(tmp_path / "gate")


@pytest.fixture
def home(jp_root_dir: Path, gate: Gate) -> Path:
    code = PRINTS.format(waits=gate.waits)
    cells = [new_markdown_cell("# Plan", id="m1"), new_code_cell(code, id="k1")]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "home.ipynb")
    return jp_root_dir / "home.ipynb"


def ask(text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"id": "talk", "notebook": "home.ipynb", "mode": "auto", "messages": [message], **more}


async def test_the_key_is_in_no_byte_that_we_write_or_send(
    call: Call,
    agent: Assistant,
    gate: Gate,
    fake: FakeAnthropic,
    replies: list[FakeReply],
    home: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    # Both are messages of a service that repeats the key.
    again = Scripted(status=500, error=("api_error", f"{KEY} failed"), headers={"retry-after": "0"})
    wrong = Scripted(status=401, error=("authentication_error", f"{KEY} is wrong"))
    replies += [
        again,
        [calls("run_cell", cell_id="k1"), calls("read_cells", cell_ids=["k1"])],
        [calls("inspect_variables"), calls("search_notebook", query="sk-")],
        [calls("update_cell", cell_id="k1", source="other"), calls("verify_notebook")],
        [says("Done.")],
        wrong,
    ]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Run it.")))
    await live(agent, shown_early)
    gate.open()
    told = {"events": (await asking).text}
    told["failed"] = (await call("POST", "chat", body=ask("And now?"))).text
    assert '"type":"error"' in told["failed"].replace(" ", "")
    turn = frames(told["events"])[0]["messageMetadata"]["turnId"]
    for path in (
        ("turns", turn),
        ("turns", turn, "changes"),
        ("turns", turn, "requests"),
        ("conversations", "talk"),
        ("conversations", "talk", "export"),
        ("conversations",),
        ("models",),
        ("status",),
    ):
        told["/".join(path)] = (await call("GET", *path)).text
    told["markdown"] = (
        await call("GET", "conversations", "talk", "export", params={"format": "md"})
    ).text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "conversations.db" in [path.name for path in files]
    # Printed text is in the notebook and its checkpoint: it is the person's, and true.
    having = {path for path in files if KEY.encode() in path.read_bytes()}
    assert {path.name.replace("-checkpoint", "") for path in having} == {"home.ipynb"}
    body = {"notebook": "home.ipynb", "mode": "auto", "input": {"cell_id": "k1"}}
    told["tool"] = (await call("POST", "tools", "run_cell", body=body)).text
    told["log"] = caplog.text
    told["streams"] = "".join(capfd.readouterr())
    told["requests"] = json.dumps(fake.requests)
    assert {name for name, text in told.items() if KEY in text} == set()
    assert "***" in told["events"]
    assert '"preliminary":true' in told["events"].replace(" ", "")
    assert "***" in told["requests"]
    assert "***" in told["tool"]


async def test_a_model_reads_nothing_that_a_person_cannot_see(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], jp_root_dir: Path
) -> None:
    trick = f"see{HIDDEN}n\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x1b[31mred\x1b[0m"
    shown = [
        new_output("stream", name="stdout", text=trick),
        new_output("display_data", {"text/plain": trick}),
        new_output("error", ename=trick, evalue=trick, traceback=[trick]),
    ]
    cells = [
        new_markdown_cell(f"# {trick}", id="m1"),
        new_code_cell(f"x = {trick!r}\ny = '{trick}'", id="v1", outputs=shown),
    ]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "home.ipynb")
    (jp_root_dir / "notes.txt").write_text(trick)
    (jp_root_dir / f"{trick.replace('/', '')}.csv").write_text("1")
    replies += [
        [calls("get_notebook_state"), calls("read_cells", cell_ids=["m1", "v1"])],
        [calls("read_file", path="notes.txt"), calls("list_files")],
        [calls("search_notebook", query="see"), calls("update_cell", cell_id="v1", source="z")],
        [says("Done.")],
    ]
    context = [{"type": "cell", "cell_id": "m1"}, {"type": "file", "path": "notes.txt"}]
    before = (jp_root_dir / "home.ipynb").read_bytes()
    await call("POST", "chat", body=ask("Look.", context=context))
    sent = json.dumps(fake.requests, ensure_ascii=False)
    assert "seen" in sent
    # JSON escapes characters below a space; DEL and above are verbatim.
    spelled = {json.dumps(letter, ensure_ascii=False)[1:-1] for letter in HIDDEN}
    code = repr(trick).replace("\\", "\\\\")[1:-1]  # what a person wrote visibly stays
    assert {letter for letter in spelled if letter in sent.replace(code, "")} == set()
    assert "evil.example" not in sent.replace(code, "")
    assert (jp_root_dir / "home.ipynb").read_bytes() == before


@pytest.mark.full
async def test_the_code_that_is_asked_about_is_the_code_that_runs(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], jp_root_dir: Path
) -> None:
    source = f"text = '{HIDDEN}\\r'  # \u202edne\nprint([ord(letter) for letter in text])\n\n "
    nbformat.write(new_notebook(cells=[new_code_cell(source, id="v1")]), jp_root_dir / "home.ipynb")
    replies += [[calls("run_cell", cell_id="v1")], [says("Done.")]]
    turn = (await call("POST", "chat", body=ask("Run it.", mode="ask", stream=False))).body
    (question,) = turn["approvals"]
    assert question["code"] == source
    body = {"approvals": [{"id": question["id"], "approved": True}], "wait": 60}
    done = (await call("POST", "chat", "talk", "approvals", body=body)).body
    assert done["state"] == "done"
    cell = (await call("GET", "notebooks", "home.ipynb", "cells", "v1")).body
    assert cell["source"] == source
    assert cell["outputs"][0]["text"] == f"{[ord(letter) for letter in HIDDEN + chr(13)]}\n"


# -- no paging, search or cut splits a secret


def fragments(text: str) -> list[str]:
    """Parts of the key in a text that are long enough to matter."""
    return [
        KEY[i : i + 4] for i in range(len(KEY) - 3) if KEY[i : i + 4] in text.replace("***", "")
    ]


def html(page: str) -> Any:
    return new_output("display_data", data={"text/html": page})


@pytest.fixture
def telling(home: Path, jp_root_dir: Path) -> None:
    """A key in a cell, in its outputs, in a file, each where something else may cut it."""
    stream = new_output("stream", name="stdout", text=["key: sk-ant-canary", KEY[13:], "\n"])
    coloured = new_output("stream", name="stderr", text="\x1b[31m".join(KEY) + "\n")
    error = new_output("error", ename="ValueError", evalue=KEY, traceback=[f"no good: {KEY}"])
    result = new_output("execute_result", data={"text/plain": f"'{KEY}'"}, execution_count=1)
    half, rest = KEY[:13], KEY[13:]
    spelled = [
        new_output("stream", name="stdout", text=half),
        new_output("stream", name="stdout", text=f"{rest}\n"),
        new_output("stream", name="stdout", text=KEY + " " + "\x1b[1m".join(KEY) + "\n"),
        new_output("stream", name="stdout", text="\u200b".join(KEY) + "\n"),
        html(f"<b>{half}</b>{rest}"),
        html(KEY.replace("-", "&#45;")),
        html(f"<table class='dataframe'><tr><td>{KEY.replace('-', '&#45;')}</td></tr></table>"),
        new_output("display_data", data={"application/json": {KEY: 1}}),
        new_output("display_data", data={f"application/{KEY}": "x"}),
    ]
    outputs = [stream, coloured, result, error, *spelled]
    source = f"# {'-' * 60}\nkey = '{KEY}'  # {'=' * 60}"
    cells = [new_code_cell(source, id="k1", outputs=outputs)]
    nbformat.write(new_notebook(cells=cells), home)
    (jp_root_dir / "long.txt").write_text(f"{'x' * 19_985}{KEY}\n")
    (jp_root_dir / "copy.json").write_text(home.read_text())


async def use(call: Call, tool: str, **input: Any) -> str:
    body = {"notebook": "home.ipynb", "mode": "auto", "input": input}
    return (await call("POST", "tools", tool, body=body)).text


async def test_pages_of_outputs_have_no_part_of_a_key(call: Call, telling: None) -> None:
    whole = await use(call, "read_cells", cell_ids=["k1"])
    assert whole.count("***") >= 5
    for start in range(0, 300, 3):
        for chars in (10, 17, 40):
            page = {"output_from": start, "output_chars": chars}
            told = await use(call, "read_cells", cell_ids=["k1"], **page)
            assert fragments(told) == []


async def test_a_search_is_no_oracle_for_a_key(call: Call, telling: None) -> None:
    for query, regex in (("sk-ant", False), ("sk-[a-m]", True), ("canary", False), ("cdef.", True)):
        told = await use(call, "search_notebook", query=query, regex=regex)
        assert "Nothing in the notebook matches" in told, query


async def test_what_is_cut_shows_no_beginning_of_a_key(call: Call, telling: None) -> None:
    for path in ("long.txt", "copy.json", "home.ipynb"):
        assert fragments(await use(call, "read_file", path=path)) == [], path
    code = f"a = '{KEY}'; b = 'x' * 45 + a; c = [b]; d = {{b: a}}"
    await use(call, "run_code", code=code)
    told = await use(call, "inspect_variables")
    assert "*** (74)" in told.replace("'...", "") or "***" in told
    assert fragments(told) == []


async def test_a_cell_with_a_key_is_edited_but_not_rewritten_whole(
    call: Call, telling: None, home: Path
) -> None:
    """In a rewrite, the stars would replace the key."""
    await use(call, "read_cells", cell_ids=["k1"])
    assert 'is_error": true' in await use(call, "update_cell", cell_id="k1", source="key = '***'")
    edit = {"cell_id": "k1", "old_string": "key = ", "new_string": "secret = "}
    assert 'is_error": false' in await use(call, "update_cell", **edit)
    assert f"secret = '{KEY}'" in nbformat.read(home, as_version=4).cells[0].source
