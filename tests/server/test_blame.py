"""Provenance: over REST, and from the command line with and without a running server."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from ..programs import jupyter_agent, jupyter_server
from .conftest import PATH, Call, ask

EXAMPLE = Path(__file__).parent.parent.parent / "jupyter_agent" / "examples" / "coffee.ipynb"


async def blamed(call: Call, path: str = PATH) -> dict[str, Any]:
    answer = await call("GET", "notebooks", path, "blame")
    assert answer.status == 200
    return {cell["cell_id"]: cell for cell in answer.body["cells"]}


@pytest.mark.full
async def test_each_cell_says_which_turn_model_and_request_changed_it_last(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    before = notebook.read_bytes()
    assert {cell["turn_id"] for cell in (await blamed(call)).values()} == {None}
    assert notebook.read_bytes() == before
    edit = {"cell_id": "b2", "old_string": "x = 1", "new_string": "x = 2"}
    again = {"cell_id": "b2", "old_string": "x = 2", "new_string": "x = 3"}
    replies += [
        [calls("update_cell", **edit), calls("run_cell", cell_id="c3")],
        [says("First.")],
        [calls("update_cell", **again), calls("move_cell", cell_id="a1", after="c3")],
        [says("Second.")],
    ]
    first = (await call("POST", "chat", body=ask("Set x to 2", stream=False))).body
    cell = (await blamed(call))["b2"]
    assert cell["turn_id"] == first["turn_id"]
    assert cell["conversation_id"] == "talk"
    assert cell["model"] == "anthropic:claude-sonnet-5-5"
    assert cell["request"] == "Set x to 2"
    assert (cell["reviewed"], cell["changed_since"]) == (False, False)
    assert cell["time"].endswith("Z")
    second = (await call("POST", "chat", body=ask("Set x to 3", stream=False))).body
    cells = await blamed(call)
    assert cells["b2"]["request"] == "Set x to 3"
    assert cells["a1"]["turn_id"] is None, "its text is its author's"
    assert cells["c3"]["turn_id"] is None, "running it is no change of it"
    await call("POST", "turns", second["turn_id"], "accept")
    assert (await blamed(call))["b2"]["reviewed"] is True
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 4"})
    assert (await blamed(call))["b2"]["changed_since"] is True
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 3"})
    assert (await blamed(call))["b2"]["changed_since"] is False
    await call("POST", "turns", second["turn_id"], "undo")
    cell = (await blamed(call))["b2"]
    assert cell["turn_id"] == first["turn_id"]
    assert (cell["reviewed"], cell["changed_since"]) == (False, False)


async def test_the_journal_follows_a_notebook_that_is_renamed(
    call: Call, replies: list[FakeReply], notebook: Path, jp_serverapp: Any
) -> None:
    replies += [[calls("create_cell", source="new")], [says("Done.")]]
    done = (await call("POST", "chat", body=ask("add", stream=False))).body
    before = await blamed(call)
    await jp_serverapp.contents_manager.rename("sales, Q3", "archive")
    path = "archive/first look.ipynb"

    async def followed() -> bool:
        return (await blamed(call, path)) == before

    async with asyncio.timeout(60):
        while not await followed():  # events are sent in the background
            pass
    undone = (await call("POST", "turns", done["turn_id"], "undo")).body
    assert [change["notebook"] for change in undone["undone"]] == [path]
    assert undone["conflicts"] == []


async def test_a_missing_notebook_has_no_provenance(call: Call) -> None:
    assert (await call("GET", "notebooks", "missing.ipynb", "blame")).status == 404


@pytest.mark.full
def test_the_command_asks_the_running_server_and_reads_the_store_where_none_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    notebook = tmp_path / "work" / "coffee.ipynb"
    shutil.copy(EXAMPLE, notebook)
    nothing = jupyter_agent(tmp_path, "blame", "work/coffee.ipynb")
    assert nothing.returncode == 1
    assert "Start Jupyter there" in nothing.stderr
    question = {
        "notebook": "work/coffee.ipynb",
        "model": "demo:tour",
        "mode": "auto",
        "messages": [{"role": "user", "content": "Show me what you can do."}],
        "stream": False,
    }
    with jupyter_server(tmp_path) as server:
        server.request("POST", "chat", question)
        over_rest = server.request("GET", "notebooks/work/coffee.ipynb/blame")
        told = json.loads(jupyter_agent(tmp_path, "blame", "work/coffee.ipynb", "--json").stdout)
        assert told == over_rest
    assert any(cell["model"] == "demo:tour" for cell in told["cells"])
    written = notebook.read_bytes()
    read = jupyter_agent(tmp_path, "blame", "work/coffee.ipynb", "--json")
    assert read.stderr == ""
    assert json.loads(read.stdout)["cells"] == told["cells"]
    notebook.write_bytes(written.replace(b"\\n", b"\\r\\n"))  # as on Windows
    read = jupyter_agent(tmp_path, "blame", "work/coffee.ipynb", "--json")
    assert json.loads(read.stdout)["cells"] == told["cells"]
    notebook.write_bytes(written)
    lines = jupyter_agent(tmp_path, "blame", str(notebook)).stdout.splitlines()
    assert len(lines) == 1 + len(told["cells"])
    assert lines[0].split() == ["cell", "model", "time", "text", "request"]
    column = lines[0].index("model")
    assert {line[column - 2 : column] for line in lines} == {"  "}
    assert any("demo:tour" in line and "Show me what you can do." in line for line in lines)
    assert notebook.read_bytes() == written


@pytest.mark.full
def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    missing = jupyter_agent(tmp_path, "blame", "nothing.ipynb")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "There is no notebook at" in missing.stderr
    (tmp_path / "odd.ipynb").write_text("{", encoding="utf-8")
    assert "cannot be read as a notebook" in jupyter_agent(tmp_path, "blame", "odd.ipynb").stderr
    (tmp_path / "old.ipynb").write_text('{"cells": [{"source": ""}]}', encoding="utf-8")
    assert "has not changed it yet" in jupyter_agent(tmp_path, "blame", "old.ipynb").stderr
