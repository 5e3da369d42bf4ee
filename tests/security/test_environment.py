"""Secrets of the server's environment reach no model, on any way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.server.conftest import Call

CORPUS = json.loads((Path(__file__).parent / "environment.json").read_text())
SECRET: dict[str, str] = CORPUS["secret"]
ORDINARY: dict[str, str] = CORPUS["ordinary"]
LINES = {line for value in SECRET.values() for line in value.split("\n") if "-----" not in line}
PIECES = sorted({*LINES, *CORPUS["secret in its value"]})


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name, value in {**SECRET, **ORDINARY}.items():
        monkeypatch.setitem(os.environ, name, value)  # kernels inherit it
    return jp_server_config


@pytest.fixture
def leaky(jp_root_dir: Path) -> str:
    """Every secret in each place of a notebook, and in a file."""
    text = "\n".join([*SECRET.values(), *ORDINARY.values()])
    shown = [
        new_output("stream", name="stdout", text=text),
        new_output("display_data", {"text/html": f"<pre>{text}</pre>"}),
        new_output("error", ename="E", evalue=text, traceback=text.split("\n")),
    ]
    names = [*SECRET, *ORDINARY]
    prints = f"import os\nfor name in {names!r}:\n    print(name, '=', os.environ[name])\n1 / 0"
    cells = [
        new_markdown_cell(text, id="m1", attachments={"a.txt": {"text/plain": text}}),
        new_code_cell(text, id="k1", outputs=shown),
        new_code_cell(prints, id="p1"),
    ]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "home.ipynb")
    (jp_root_dir / "env.txt").write_text(text)
    (jp_root_dir / "AGENTS.md").write_text(text)
    return text


async def test_no_secret_of_the_environment_reaches_a_model(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], leaky: str, tmp_path: Path
) -> None:
    replies += [
        [calls("get_notebook_state"), calls("read_cells", cell_ids=["m1", "k1"])],
        [calls("read_file", path="env.txt"), calls("search_notebook", query="canary")],
        [calls("run_cell", cell_id="p1"), calls("inspect_variables")],
        [calls("update_cell", cell_id="k1", source="other"), calls("read_file", path=leaky[:60])],
        [calls("create_cell", source=leaky, after="k1"), calls("verify_notebook")],
        [says("Done.")],
    ]
    context = [
        {"type": "cell", "cell_id": "k1"},
        {"type": "selection", "text": leaky, "cell_id": "k1"},
        {"type": "file", "path": "env.txt"},
        {"type": "file", "path": leaky[:60]},
    ]
    message = {"role": "user", "content": "Run it."}
    body = {"id": "talk", "notebook": "home.ipynb", "mode": "auto", "messages": [message]}
    turn = (await call("POST", "chat", body={**body, "context": context, "stream": False})).body
    assert turn["state"] == "done", turn
    told = {"requests": json.dumps(fake.requests, ensure_ascii=False)}
    told["kept"] = (await call("GET", "turns", turn["turn_id"], "requests")).text
    assert {(name, piece) for name in told for piece in PIECES if piece in told[name]} == set()
    for value in ORDINARY.values():
        assert value in told["requests"], value


async def test_tools_over_rest_tell_no_secret_of_the_environment(call: Call, leaky: str) -> None:
    told = {}
    for tool, given in [
        ("get_notebook_state", {}),
        ("read_cells", {"cell_ids": ["m1", "k1"]}),
        ("read_file", {"path": "env.txt"}),
        ("run_cell", {"cell_id": "p1"}),
        ("update_cell", {"cell_id": "k1", "source": "other"}),
        ("delete_cell", {"cell_id": "k1"}),
    ]:
        body = {"notebook": "home.ipynb", "mode": "auto", "input": given}
        told[tool] = (await call("POST", "tools", tool, body=body)).text
    assert {(tool, piece) for tool in told for piece in PIECES if piece in told[tool]} == set()


async def test_what_is_no_secret_is_told_as_it_is(call: Call, jp_root_dir: Path) -> None:
    names = "\n".join([*SECRET, *ORDINARY, *ORDINARY.values()])
    (jp_root_dir / "names.txt").write_text(names)
    body = {"input": {"path": "names.txt"}}
    assert (await call("POST", "tools", "read_file", body=body)).body["text"] == names


async def test_the_place_of_a_secret_is_no_secret(
    call: Call, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = jp_root_dir / "id_rsa-2026"
    key.write_text("canary")
    monkeypatch.setitem(os.environ, "DEPLOY_KEY", str(key))
    (jp_root_dir / "notes.txt").write_text(f"It is in {key}.")
    body = {"input": {"path": "notes.txt"}}
    assert (await call("POST", "tools", "read_file", body=body)).body["text"] == f"It is in {key}."


async def test_a_secret_that_is_shown_masked_is_not_lost_by_a_whole_rewrite(
    call: Call, jp_root_dir: Path
) -> None:
    token = SECRET["GITHUB_TOKEN"]
    path = jp_root_dir / "home.ipynb"
    cell = new_code_cell(f"token = '{token}'\nx = 1", id="a1")
    nbformat.write(new_notebook(cells=[cell]), path)
    body: dict[str, Any] = {"notebook": "home.ipynb", "mode": "edit", "input": {"cell_ids": ["a1"]}}
    read = (await call("POST", "tools", "read_cells", body=body)).body
    assert "token = '***'" in read["text"]
    body["input"] = {"cell_id": "a1", "source": "token = '***'\nx = 2"}
    answer = (await call("POST", "tools", "update_cell", body=body)).body
    assert (answer["is_error"], answer["reason"]) == (True, "not_read")
    assert "old_string" in answer["text"]
    assert token not in json.dumps(answer)
    assert token in path.read_text()
    body["input"] = {"cell_id": "a1", "old_string": "x = 1", "new_string": "x = 2"}
    assert not (await call("POST", "tools", "update_cell", body=body)).body["is_error"]
    assert nbformat.read(path, as_version=4).cells[0].source == f"token = '{token}'\nx = 2"
    edit = {"source": "a person may"}
    assert (await call("PATCH", "notebooks", "home.ipynb", "cells", "a1", body=edit)).status == 200
