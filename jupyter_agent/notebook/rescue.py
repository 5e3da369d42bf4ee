"""What people type into a cell at the very moment when an edit deletes it or puts a copy in its
place.

Their keys and our edit pass each other on the way: in the live document the letters arrive in a
cell that is gone, and go with it. So a fork of the document from before the edit takes in the same
updates without the edit; what its cell says more than before was typed too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pycrdt import Array, Doc, Map, Text

from jupyter_agent.notebook.carriers.base import Carrier
from jupyter_agent.notebook.shared import SharedCells, rewrite


@dataclass(frozen=True)
class Late:
    """The text of a cell when an edit took it away, and what it would be by now."""

    before: str
    now: str | None
    """None: they deleted the cell at the same moment."""

    def into(self, text: str) -> str:
        """`text`, made of `before` by the edit, with what was typed; letters are never refused."""
        ours: Doc[Text] = Doc()
        merged = ours.get("text", type=Text)
        merged += self.before
        theirs: Doc[Text] = Doc()
        theirs.apply_update(ours.get_update())
        rewrite(theirs.get("text", type=Text), self.now or "")
        rewrite(merged, text)
        ours.apply_update(theirs.get_update())
        return str(merged)


class Rescue:
    """Follows, in its `with` block, the cells of a carrier that an edit takes away."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._cells: SharedCells = carrier.cells
        self._fork: Doc[Array[Map[str]]] | None = None
        self._before: dict[str, str] = {}

    def __enter__(self) -> Rescue:
        if self._carrier.name != "file":  # nobody types in a file
            self._cells.on_removal = self._follow
        return self

    def __exit__(self, *_: object) -> None:
        self._cells.on_removal = None
        self._carrier.overhear(None)
        self._fork = None  # not left to the garbage collector: see Retraction

    def late(self) -> Mapping[str, Late]:
        """Cell id -> what was done to it too late, as far as it has arrived here."""
        if self._fork is None:
            return {}
        now = _texts(self._fork)
        found = {
            cell_id: Late(before, now.get(cell_id)) for cell_id, before in self._before.items()
        }
        return {cell_id: late for cell_id, late in found.items() if late.now != late.before}

    def _follow(self, cell_id: str) -> None:
        if self._fork is None:
            self._fork = Doc()
            self._fork.apply_update(self._cells.document.ydoc.get_update())
            self._carrier.overhear(self._fork.apply_update)
        texts = _texts(self._fork)
        if cell_id in texts:  # else the edit itself made it
            self._before.setdefault(cell_id, texts[cell_id])


def _texts(document: Doc[Array[Map[str]]]) -> dict[str, str]:
    return {cell["id"]: str(cell["source"]) for cell in document.get("cells", type=Array)}
