"""`agent.notebook`: read, edit and run a live notebook without a model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent import Agent, SyncAgent
from jupyter_agent.errors import CellNotFound, Conflict, InvalidInput, NotOnce, RequestError

from ..cli.conftest import NOTEBOOK, Desk
from ..gates import FOREVER
from ..programs import Server
from ..waiting import until

pytestmark = pytest.mark.usefixtures("at_home")


@pytest.mark.full
def test_cells_are_read_inserted_edited_moved_and_deleted(somewhere: Desk) -> None:
    with SyncAgent(NOTEBOOK) as agent:
        nb = agent.notebook
        assert [cell.id for cell in nb.cells()] == ["a1", "b2", "c3"]
        assert "x = 1" in nb.text()
        total = nb.insert("x + 1", after="b2")
        assert (total.index, total.type) == (2, "code")
        edited = nb.edit(total, old_string="1", new_string="2")
        assert edited.source == "x + 2"
        assert nb.edit("a1", "## Sales").source == "## Sales"
        assert nb.edit("a1", type="raw").type == "raw"
        assert nb.move(edited, index=0).index == 0
        nb.delete("a1")
        assert [cell.id for cell in nb.cells()] == [total.id, "b2", "c3"]
        assert nb.path == somewhere.notebook
    assert somewhere.sources() == {total.id: "x + 2", "b2": "x = 1", "c3": "print('x is', x)"}


@pytest.mark.full
def test_a_cell_that_changed_since_it_was_read_is_left_alone(desk: Desk) -> None:
    with SyncAgent(NOTEBOOK) as agent:
        nb = agent.notebook
        read = nb.cell("b2")
        nb.edit("b2", "x = 5")
        for act in (
            lambda: nb.edit(read, "x = 6"),
            lambda: nb.delete(read),
            lambda: nb.move(read, index=0),
        ):
            with pytest.raises(Conflict) as conflict:
                act()
            assert conflict.value.facts["current"]["source"] == "x = 5"
        with pytest.raises(NotOnce):
            nb.edit("b2", old_string="y", new_string="z")
        with pytest.raises(CellNotFound, match="Cells now: a1, b2, c3"):
            nb.cell("d4")
        with pytest.raises(InvalidInput):
            nb.edit("b2", "x = 7", old_string="x", new_string="y")
        with pytest.raises(InvalidInput, match="between 0 and 3; leave it out for the end"):
            nb.insert("y = 1", index=4)
        with pytest.raises(RequestError, match="index"):
            nb.insert("y = 1", index=-1)
        wrong: Any = 1
        for act in (
            lambda: nb.cell(wrong),
            lambda: nb.edit(wrong, "y = 1"),
            lambda: nb.delete(wrong),
            lambda: nb.move(wrong, index=0),
            lambda: nb.insert("y = 1", after=wrong),
            lambda: nb.run(wrong),
        ):
            with pytest.raises(InvalidInput, match="`1` does not name a cell: give its id"):
                act()
        with pytest.raises(InvalidInput, match="`1` does not name a turn: give its id"):
            agent.undo(wrong)
    assert desk.sources()["b2"] == "x = 5"


@pytest.mark.full
def test_what_an_agent_edited_itself_is_taken_back_in_one_call(somewhere: Desk) -> None:
    before = somewhere.sources()
    with SyncAgent(NOTEBOOK) as agent, SyncAgent(NOTEBOOK) as other:
        nb = agent.notebook
        with pytest.raises(InvalidInput, match="not edited or run anything"):
            nb.undo()
        nb.insert("y = 2", after="b2")
        nb.edit("c3", "print(y)")
        nb.delete("a1")
        other.notebook.edit("b2", "x = 9")
        undone = nb.undo()
        assert sorted(change.kind for change in undone.changes) == ["delete", "insert", "update"]
        assert undone.conflicts == []
        assert [cell.source for cell in nb.cells()] == ["# Sales", "x = 9", "print('x is', x)"]
        nb.delete("a1")
        assert [change.cell_id for change in nb.undo().changes] == ["a1"]
        other.notebook.undo()
    assert somewhere.sources() == before


@pytest.mark.full
def test_what_an_agent_ran_itself_is_taken_back_and_its_kernel_ended(
    served: Server, desk: Desk
) -> None:
    before = nbformat.read(desk.notebook, as_version=4).cells
    with SyncAgent(NOTEBOOK) as agent:
        nb = agent.notebook
        assert [run.ok for run in nb.run(keep_kernel=False)] == [True, True]
        route = f"notebooks/{NOTEBOOK}"
        assert served.request("GET", route)["kernel"] is None
        nb.edit("b2", "x = 2")
        assert [run.text for run in nb.run()] == ["", "x is 2"]
        nb.run(keep_kernel=False)
        assert served.request("GET", route)["kernel"] is not None
        undone = nb.undo()
        assert {change.kind for change in undone.changes} == {"outputs", "update"}
        assert undone.conflicts == []
    assert nbformat.read(desk.notebook, as_version=4).cells == before


@pytest.mark.full
def test_runs_tell_how_they_ended_and_what_they_show(somewhere: Desk) -> None:
    with SyncAgent(NOTEBOOK) as agent:
        nb = agent.notebook
        first, second = nb.run()
        assert (first.ok, first.text) == (True, "")
        assert (second.ok, second.text, second.saved) == (True, "x is 1", True)
        wrong = nb.insert("1 / 0", before="c3")
        ended = nb.run()
        assert [run.status for run in ended] == ["ok", "error"]
        assert "ZeroDivisionError" in ended[-1].text
        assert [run.ok for run in nb.run(keep_going=True)] == [True, False, True]
        nb.edit(wrong.id, FOREVER)
        (late,) = nb.run(wrong.id, timeout=0.5)
        assert (late.status, late.ok) == ("timeout", False)
        nb.edit("b2", "x = 3")
        assert "c3" in nb.stale()
    cells = json.loads(somewhere.notebook.read_text())["cells"]
    assert cells[-1]["outputs"][0]["text"] in (["x is 1\n"], "x is 1\n")


@pytest.mark.full
def test_a_cancelled_run_is_interrupted(desk: Desk, tmp_path: Path) -> None:
    flag = desk.folder / ".cache-begun"
    code = f"open({str(flag)!r}, 'w').close()\n{FOREVER}"

    async def script() -> None:
        async with Agent(NOTEBOOK) as agent:
            nb = agent.notebook
            cell = await nb.insert(code)
            running = asyncio.ensure_future(nb.run(cell, "b2", keep_going=True))
            await until(flag.exists)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            outputs = (await nb.cell(cell.id)).outputs
            assert outputs[-1]["ename"] == "KeyboardInterrupt"
            assert (await nb.cell("b2")).execution_count is None
            (after,) = await nb.run("b2")
            assert after.ok

    asyncio.run(script())
    flag.unlink()


@pytest.mark.full
def test_a_notebook_is_verified(desk: Desk) -> None:
    with SyncAgent(NOTEBOOK) as agent:
        agent.notebook.run()
        assert agent.notebook.verify()["ok"]
        agent.notebook.edit("b2", "x = 2")
        assert not agent.notebook.verify()["ok"]


def test_cells_that_end_at_once_are_each_shown_once_with_what_they_print(
    desk: Desk, served: Server
) -> None:
    cells = [new_code_cell(f"print('line', {number})") for number in range(12)]
    nbformat.write(new_notebook(cells=cells), desk.notebook)
    lines = [f"line {number}" for number in range(12)]
    with SyncAgent(NOTEBOOK) as agent:
        for _ in range(2):  # the first time the kernel has to start
            assert [run.text for run in agent.notebook.run()] == lines
    done = desk.type("run", NOTEBOOK)
    assert done.code == 0, done.err
    assert [line.strip() for line in done.out.splitlines() if "line" in line] == lines
