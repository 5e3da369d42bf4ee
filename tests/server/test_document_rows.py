"""Rows D2 and D3 of the faults over HTTP, with a real kernel; D1, D13 and D15 with tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pycrdt import UndoManager

from jupyter_agent.assistant import Assistant
from jupyter_agent.testing import calls, says
from jupyter_agent.testing.script import FakeReply

from ..notebook.browser import Tab
from .conftest import PATH, Call, ask

UNTIL_GO = (
    "import pathlib, time\nprint('begun', flush=True)\n"
    "while not pathlib.Path('go').exists():\n    time.sleep(0.01)\nprint('over')"
)


async def start(call: Call, cell_id: str) -> str:
    """The id of a run that has begun and goes on until there is a file `go`."""
    body = {"source": UNTIL_GO}
    await call("PATCH", "notebooks", PATH, "cells", cell_id, body=body)
    run = await call("POST", "notebooks", PATH, "cells", cell_id, "run", body={"wait": 0})
    async with asyncio.timeout(60):
        while not (state := (await call("GET", "runs", run.body["run_id"])).body)["outputs"]:
            pass
    return str(state["run_id"])


async def end(call: Call, folder: Path, run_id: str) -> Any:
    (folder / "go").touch()
    async with asyncio.timeout(60):
        while (state := (await call("GET", "runs", run_id)).body)["status"] == "running":
            pass
    return state


def outputs(path: Path) -> dict[str, str]:
    """Cell id -> what its outputs say."""
    cells = nbformat.read(path, as_version=4).cells
    return {
        cell.id: "".join(output.get("text", "") for output in cell.get("outputs", []))
        for cell in cells
    }


async def test_outputs_of_a_cell_that_is_moved_while_it_runs_go_with_it(
    call: Call, notebook: Path
) -> None:
    run_id = await start(call, "b2")
    moved = await call("POST", "notebooks", PATH, "cells", "b2", "move", body={"index": 2})
    assert moved.status == 200
    assert (await end(call, notebook.parent, run_id))["status"] == "ok"
    assert list(outputs(notebook).items()) == [("a1", ""), ("c3", ""), ("b2", "begun\nover\n")]


async def test_outputs_of_a_cell_that_is_deleted_while_it_runs_are_dropped_with_a_notice(
    call: Call, notebook: Path
) -> None:
    run_id = await start(call, "b2")
    assert (await call("DELETE", "notebooks", PATH, "cells", "b2")).status == 204
    state = await end(call, notebook.parent, run_id)
    assert state["status"] == "deleted"
    assert "The cell was deleted: its outputs are nowhere." in state["note"]
    assert outputs(notebook) == {"a1": "", "c3": ""}


@pytest.mark.full
async def test_outputs_of_a_cell_that_is_split_while_it_runs_stay_in_the_part_with_its_id(
    call: Call, notebook: Path
) -> None:
    run_id = await start(call, "b2")
    lines = UNTIL_GO.split("\n")
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "\n".join(lines[:2])})
    rest = {"source": "\n".join(lines[2:]), "after": "b2"}
    new = (await call("POST", "notebooks", PATH, "cells", body=rest)).body["id"]
    assert (await end(call, notebook.parent, run_id))["status"] == "ok"
    assert outputs(notebook) == {"a1": "", "b2": "begun\nover\n", new: "", "c3": ""}


@pytest.mark.full
async def test_a_cell_that_is_no_code_any_more_is_not_run(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [calls("update_cell", cell_id="c3", type="markdown")],
        [calls("run_cell", cell_id="c3")],
        [says("So be it.")],
    ]
    done = (await call("POST", "chat", body=ask("run it", stream=False))).body
    (part,) = [part for part in done["message"]["parts"] if part.get("toolName") == "run_cell"]
    assert part["state"] == "output-error"
    assert "is a markdown cell: there is nothing to run" in part["errorText"]
    assert outputs(notebook)["c3"] == ""


async def test_a_queued_cell_that_becomes_text_meanwhile_never_starts(
    call: Call, notebook: Path
) -> None:
    run_id = await start(call, "b2")
    queued = await call("POST", "notebooks", PATH, "cells", "c3", "run", body={"wait": 0})
    assert queued.body["status"] == "queued"
    await call("PATCH", "notebooks", PATH, "cells", "c3", body={"type": "markdown"})
    await end(call, notebook.parent, run_id)
    async with asyncio.timeout(60):
        while (state := (await call("GET", "runs", queued.body["run_id"])).body)["status"] in (
            "queued",
            "running",
        ):
            pass
    assert state["status"] == "deleted"
    assert outputs(notebook)["c3"] == ""


async def test_two_agents_in_one_cell_merge_or_are_told_the_current_text(
    call: Call, notebook: Path
) -> None:
    async def tool(who: str, name: str, **input: Any) -> Any:
        body = {"notebook": PATH, "mode": "auto", "conversation_id": who, "input": input}
        return (await call("POST", "tools", name, body=body)).body

    text = "x = 1\n\ny = 2"
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": text})
    for who in ("one", "two"):
        await tool(who, "read_cells", cell_ids=["b2"])
    first = await tool("one", "update_cell", cell_id="b2", source=text.replace("1", "10"))
    second = await tool("two", "update_cell", cell_id="b2", source=text.replace("2", "20"))
    assert (first["is_error"], second["is_error"]) == (False, False)
    assert "merged, it is now:\nx = 10\n\ny = 20" in second["text"]
    late = await tool("one", "update_cell", cell_id="b2", source="x = 10\n\ny = 30")
    assert late["reason"] == "changed"
    assert late["current"]["source"] == "x = 10\n\ny = 20"
    assert "x = 10\n\ny = 20" in late["text"]


async def test_each_takes_back_their_own_steps_only(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path, jp_serverapp: Any
) -> None:
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 1\n\ny = 2"})
    tab = await Tab(agent.tabs, jp_serverapp.contents_manager, PATH).open()
    # As JupyterLab's: it takes back what has no origin, the person's own steps.
    own = UndoManager(scopes=[tab.notebook.ycells], capture_timeout_millis=0)
    tab.type("b2", "  # mine", 5)
    replies += [
        [calls("read_cells", cell_ids=["b2"])],
        [calls("update_cell", cell_id="b2", source="x = 1  # mine\n\ny = 20")],
        [says("Done.")],
    ]
    done = (await call("POST", "chat", body=ask("y", stream=False))).body
    tab.type("b2", "\nz = 3")
    assert tab.source("b2") == "x = 1  # mine\n\ny = 20\nz = 3"
    own.undo()
    assert tab.source("b2") == "x = 1  # mine\n\ny = 20"
    undone = (await call("POST", "turns", done["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    assert tab.source("b2") == "x = 1  # mine\n\ny = 2"
    own.undo()
    assert tab.source("b2") == "x = 1\n\ny = 2"
