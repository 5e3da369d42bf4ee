"""Cells that are edited while they run, or wait to."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from ..gates import Gate
from .conftest import PATH, Call, answered, ended


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """The cell continues once it is open."""
    return Gate(tmp_path / "gate")


def until_open(gate: Gate) -> str:
    return f"print('begun', flush=True)\n{gate.waits}\nprint('over')"


async def start(call: Call, cell_id: str, gate: Gate) -> str:
    """The id of a run that has started and continues until the gate is open."""
    body = {"source": until_open(gate)}
    await call("PATCH", "notebooks", PATH, "cells", cell_id, body=body)
    run = await call("POST", "notebooks", PATH, "cells", cell_id, "run", body={"wait": 0})
    run_id = str(run.body["run_id"])
    await answered(lambda: call("GET", "runs", run_id), lambda run: run["outputs"])
    return run_id


def outputs(path: Path) -> dict[str, str]:
    """Cell id -> the text of its outputs."""
    cells = nbformat.read(path, as_version=4).cells
    return {
        cell.id: "".join(output.get("text", "") for output in cell.get("outputs", []))
        for cell in cells
    }


async def test_outputs_of_a_cell_that_is_moved_while_it_runs_go_with_it(
    call: Call, notebook: Path, gate: Gate
) -> None:
    run_id = await start(call, "b2", gate)
    moved = await call("POST", "notebooks", PATH, "cells", "b2", "move", body={"index": 2})
    assert moved.status == 200
    gate.open()
    assert (await ended(call, run_id))["status"] == "ok"
    assert list(outputs(notebook).items()) == [("a1", ""), ("c3", ""), ("b2", "begun\nover\n")]


async def test_outputs_of_a_cell_that_is_deleted_while_it_runs_are_dropped_with_a_notice(
    call: Call, notebook: Path, gate: Gate
) -> None:
    run_id = await start(call, "b2", gate)
    assert (await call("DELETE", "notebooks", PATH, "cells", "b2")).status == 204
    gate.open()
    state = await ended(call, run_id)
    assert state["status"] == "deleted"
    assert "The cell was deleted, and its outputs are lost." in state["note"]
    assert outputs(notebook) == {"a1": "", "c3": ""}


@pytest.mark.full
async def test_outputs_of_a_cell_that_is_split_while_it_runs_stay_in_the_part_with_its_id(
    call: Call, notebook: Path, gate: Gate
) -> None:
    run_id = await start(call, "b2", gate)
    lines = until_open(gate).split("\n")
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "\n".join(lines[:2])})
    rest = {"source": "\n".join(lines[2:]), "after": "b2"}
    new = (await call("POST", "notebooks", PATH, "cells", body=rest)).body["id"]
    gate.open()
    assert (await ended(call, run_id))["status"] == "ok"
    assert outputs(notebook) == {"a1": "", "b2": "begun\nover\n", new: "", "c3": ""}


async def test_a_queued_cell_that_becomes_text_meanwhile_never_starts(
    call: Call, notebook: Path, gate: Gate
) -> None:
    run_id = await start(call, "b2", gate)
    queued = await call("POST", "notebooks", PATH, "cells", "c3", "run", body={"wait": 0})
    assert queued.body["status"] == "queued"
    await call("PATCH", "notebooks", PATH, "cells", "c3", body={"type": "markdown"})
    gate.open()
    await ended(call, run_id)
    assert (await ended(call, queued.body["run_id"]))["status"] == "deleted"
    assert outputs(notebook)["c3"] == ""
