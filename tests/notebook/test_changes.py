"""Undo: exactly the changes, and nothing that people did since."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.cell import Change
from jupyter_agent.document.edit_result import Edit
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, MetadataPatch, Move, Update
from jupyter_agent.document.undo import undo
from tests.notebook.editing import make_edit

from .browser import Tab
from .conftest import cells_of, code, markdown

Write = Callable[..., Path]
RICH = {"output_type": "display_data", "data": {"text/html": "<b>1</b>"}, "metadata": {"n": 1}}


@pytest.fixture
def notebook(
    notebooks: Notebooks, write: Write, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Notebook:
    write(
        "a.ipynb",
        [
            code("a", "x = 1\ny = 2\nz = 3", [RICH], execution_count=4, metadata={"tags": ["t"]}),
            markdown("b", "![](attachment:p.png)", attachments={"p.png": {"image/png": "aGk="}}),
            code("c", "print(x)"),
            code("d", "print(y)"),
        ],
    )
    return jp_asyncio_loop.run_until_complete(notebooks.get("a.ipynb"))


class Journal:
    """Collects what edits changed, as the store keeps it."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def add(self, edit: Edit) -> Edit:
        kept = [json.loads(json.dumps(change.to_json())) for change in edit.changes]
        self.changes += [Change.from_json(value) for value in kept]
        return edit


@pytest.fixture
def journal() -> Journal:
    return Journal()


async def test_everything_is_as_before_byte_by_byte(
    notebook: Notebook, journal: Journal, root: Path
) -> None:
    before = (root / "a.ipynb").read_bytes()
    new = journal.add(await make_edit(notebook, Insert(source="new", index=1))).cell
    assert new is not None
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 10", new_string="x = 100"))
    )
    journal.add(await make_edit(notebook, Delete(cell_id="b")))
    journal.add(await make_edit(notebook, Move(cell_id="d", index=0)))
    journal.add(await make_edit(notebook, Update(cell_id="c", type="markdown")))
    journal.add(
        await make_edit(notebook, Update(cell_id=new.id, old_string="new", new_string="newer"))
    )
    journal.add(await make_edit(notebook, Delete(cell_id="d")))
    result = await undo(notebook, journal.changes)
    assert result.conflicts == []
    assert [change.undone for change in result.undone] == [True] * 8
    assert (root / "a.ipynb").read_bytes() == before


async def test_changes_of_the_same_lines_are_listed_and_left_alone(
    notebook: Notebook, journal: Journal
) -> None:
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    new = journal.add(await make_edit(notebook, Insert(source="new"))).cell
    assert new is not None
    journal.add(await make_edit(notebook, Update(cell_id="c", old_string="x", new_string="y")))
    journal.add(await make_edit(notebook, Update(cell_id="d", old_string="y", new_string="x")))
    await make_edit(notebook, Update(cell_id="a", old_string="x = 10", new_string="x = 11"))
    await make_edit(notebook, Update(cell_id=new.id, old_string="new", new_string="mine"))
    await make_edit(notebook, Delete(cell_id="c"))
    result = await undo(notebook, journal.changes)
    whys = {conflict["cell_id"]: conflict["why"] for conflict in result.conflicts}
    assert "These lines" in whys["a"]
    assert "has been changed since" in whys[new.id]
    assert "deleted since" in whys["c"]
    assert {change.cell_id for change in result.undone} == {"d"}
    current = {conflict["cell_id"]: conflict["current"] for conflict in result.conflicts}
    assert current["c"] is None
    assert current["a"]["source"] == "x = 11\ny = 2\nz = 3"
    assert notebook.cached_cell("d").source == "print(y)"


async def test_a_deleted_cell_returns_whole(
    notebook: Notebook, journal: Journal, root: Path
) -> None:
    before = cells_of(root / "a.ipynb")
    journal.add(await make_edit(notebook, Delete(cell_id="a")))
    journal.add(await make_edit(notebook, Delete(cell_id="b")))
    await make_edit(notebook, Insert(source="mine"))
    await undo(notebook, journal.changes)
    assert cells_of(root / "a.ipynb")[:4] == before


async def test_a_deleted_cell_that_people_had_written_into_returns_with_that_and_keeps_what_follows(
    notebook: Notebook, journal: Journal
) -> None:
    new = journal.add(await make_edit(notebook, Insert(source="new", index=1))).cell
    assert new is not None
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    await make_edit(notebook, Update(cell_id=new.id, old_string="new", new_string="new\nmine"))
    await make_edit(notebook, Update(cell_id="a", old_string="x = 10", new_string="x = 11"))
    journal.add(await make_edit(notebook, Delete(cell_id=new.id)))
    journal.add(await make_edit(notebook, Delete(cell_id="a")))
    for _ in range(2):  # a cell that is left alone may be requested again
        result = await undo(notebook, journal.changes)
        assert {conflict["cell_id"] for conflict in result.conflicts} == {"a", new.id}
        assert [cell.id for cell in notebook.cached_cells()] == ["a", new.id, "b", "c", "d"]
        assert notebook.cached_cell(new.id).source.startswith("new\nmine")
        assert notebook.cached_cell("a").source.startswith("x = 11")
        await make_edit(notebook, Update(cell_id=new.id, old_string="mine", new_string="mine!"))
        await make_edit(notebook, Update(cell_id="a", old_string="x = 11", new_string="x = 11!"))
    assert notebook.cached_cell(new.id).source == "new\nmine!!"
    assert notebook.cached_cell("a").source.startswith("x = 11!!")


async def test_a_cell_that_returned_with_a_conflict_and_was_deleted_again_is_the_later_turns(
    notebook: Notebook, journal: Journal
) -> None:
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    await make_edit(notebook, Update(cell_id="a", old_string="x = 10", new_string="x = 11"))
    journal.add(await make_edit(notebook, Delete(cell_id="a")))
    first = await undo(notebook, journal.changes)
    assert [change.kind for change in first.undone] == ["delete"]
    await make_edit(
        notebook, Update(cell_id="a", old_string="x = 11", new_string="x = 11  # newer")
    )
    later = (await make_edit(notebook, Delete(cell_id="a"))).changes
    left = [change for change in journal.changes if change.kind != "delete"]
    again = await undo(notebook, left, journal.changes)
    assert [conflict["reason"] for conflict in again.conflicts] == ["deleted"]
    assert "a" not in [cell.id for cell in notebook.cached_cells()]
    assert (await undo(notebook, later)).conflicts == []
    assert notebook.cached_cell("a").source == "x = 11  # newer\ny = 2\nz = 3"


async def test_updates_of_a_cell_whose_deletion_was_taken_back_by_hand_are_taken_back(
    notebook: Notebook, journal: Journal
) -> None:
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    deleted = journal.add(await make_edit(notebook, Delete(cell_id="a")))
    await undo(notebook, deleted.changes)
    assert notebook.cached_cell("a").source.startswith("x = 10")
    assert (await undo(notebook, journal.changes)).conflicts == []
    assert notebook.cached_cell("a").source == "x = 1\ny = 2\nz = 3"


async def test_outputs_of_the_turn_are_taken_back_and_later_ones_stay(
    notebook: Notebook, root: Path
) -> None:
    async def run(cell_id: str, text: str) -> Change:
        before = notebook.cached_cell(cell_id).state()
        outputs = notebook.outputs(cell_id)
        outputs.start()
        outputs.stream("stdout", text)
        outputs.finish(9)
        await notebook.save()
        after = notebook.cached_cell(cell_id).state()
        return Change(
            notebook="a.ipynb", cell_id=cell_id, kind="outputs", before=before, after=after
        )

    changes = [await run("a", "1"), await run("c", "2")]
    await run("c", "mine")
    result = await undo(notebook, changes)
    assert result.conflicts == []
    assert notebook.cached_cell("a").outputs == [RICH]
    assert notebook.cached_cell("a").execution_count == 4
    assert cells_of(root / "a.ipynb")[2]["outputs"][0]["text"] == ["mine"]


async def test_undo_twice_does_nothing_more(
    notebook: Notebook, journal: Journal, root: Path
) -> None:
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    journal.add(await make_edit(notebook, Delete(cell_id="d")))
    await undo(notebook, journal.changes)
    after = (root / "a.ipynb").read_bytes()
    assert (await undo(notebook, journal.changes)).conflicts == []
    assert (root / "a.ipynb").read_bytes() == after


async def test_undo_in_a_tab_leaves_unsaved_typing_and_the_cell_under_the_cursor(
    notebooks: Notebooks, contents: Any, tabs: Tabs, notebook: Notebook, journal: Journal
) -> None:
    tab = await Tab(tabs, contents, "a.ipynb").open()
    new = journal.add(await make_edit(notebook, Insert(source="new"))).cell
    assert new is not None
    journal.add(
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    )
    tab.type("a", "\n# typed")
    tab.edit_in(new.id)
    result = await undo(notebook, journal.changes)
    assert tab.source("a") == "x = 1\ny = 2\nz = 3\n# typed"
    assert [conflict["why"] for conflict in result.conflicts] == [
        "The user was typing in the cell."
    ]
    assert new.id in tab.ids()


async def test_a_key_of_the_view_that_a_turn_wrote_is_taken_back(
    notebook: Notebook, journal: Journal, root: Path
) -> None:
    before = (root / "a.ipynb").read_bytes()
    patch = MetadataPatch(items={"collapsed": True, "scrolled": True})
    (edit,) = await notebook.make([Update(cell_id="a", metadata=patch)])
    journal.add(edit)
    assert (root / "a.ipynb").read_bytes() != before
    result = await undo(notebook, journal.changes)
    assert (len(result.undone), result.conflicts) == (1, [])
    assert (root / "a.ipynb").read_bytes() == before
