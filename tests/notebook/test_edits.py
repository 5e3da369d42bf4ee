"""Valid edits, and whether a made edit is there afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from jupyter_ydoc import YNotebook
from nbformat.v4 import new_code_cell, new_notebook
from pycrdt import Doc

from jupyter_agent.document import insertions
from jupyter_agent.document.cell import Change
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.edits import text_for_cell, verify
from jupyter_agent.document.insertions import Insertions, deletions
from jupyter_agent.errors import InvalidInput, Overtaken


@pytest.fixture
def cells() -> SharedCells:
    document = YNotebook()
    document.set(new_notebook(cells=[new_code_cell("x = 1", id="a")]))
    return SharedCells(document)


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize(
    ("cell_id", "after", "why"),
    [
        ("a", None, "still there although it was deleted"),
        ("gone", {"source": "x = 2"}, "was deleted at the same moment"),
        ("a", {"source": "x = 2"}, "is not in it now: someone changed it"),
        ("a", {"type": "markdown"}, "is not in it now: someone changed it"),
    ],
)
def test_a_change_that_is_not_there_is_not_called_done(
    cells: SharedCells, arrived: bool, cell_id: str, after: dict[str, Any] | None, why: str
) -> None:
    before = cells.get("a").state()
    change = Change(
        notebook="n.ipynb",
        cell_id=cell_id,
        kind="delete" if after is None else "update",
        before=before,
        after=None if after is None else replace(before, **after),
    )
    with pytest.raises(Overtaken, match=why) as caught:
        verify(cells, [change], Insertions(cells, []), arrived=arrived)
    assert bool(caught.value.changes) is arrived


def test_half_a_character_goes_into_no_cell() -> None:
    with pytest.raises(InvalidInput, match="half a character"):
        text_for_cell("x = '\ud83d'")


def test_of_many_edits_the_document_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document lists every deletion it ever had: for 2,000 edits that took seconds."""
    document = YNotebook()
    document.set(new_notebook(cells=[new_code_cell("x = 1", id=f"c{n}") for n in range(5)]))
    cells = SharedCells(document)
    changes = []
    for cell_id in cells.ids():
        before = cells.get(cell_id).state()
        cells.write_source(cell_id, "x = 21")
        after = cells.get(cell_id).state()
        change = Change(
            notebook="n.ipynb", cell_id=cell_id, kind="update", before=before, after=after
        )
        changes.append(change)
    wrote = Insertions(cells, changes)
    asked: list[object] = []

    def ask(doc: Doc[Any]) -> dict[int, list[tuple[int, int]]] | None:
        asked.append(doc)
        return deletions(doc)

    monkeypatch.setattr(insertions, "deletions", ask)
    verify(cells, changes, wrote, arrived=True)
    assert len(asked) == 1
    cells.write_source("c1", "x = 1")
    assert wrote.intact(cells) == {"c0", "c2", "c3", "c4"}
