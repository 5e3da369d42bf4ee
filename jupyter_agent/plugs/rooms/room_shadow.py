"""Preserves typing in a cell that our edit, or another program in the file, deletes or replaces by
a copy at the same time.

Keystrokes and the removal cross on the wire: in the live document the letters arrive in a deleted
cell, and are lost with it. So a shadow of the document follows the live one except for these
removals of cells. Text that a removed cell gains there was typed by someone who did not know of the
removal yet.

Only rooms need this: in a tab, the page itself removes cells (structure.ts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from jupyter_ydoc import YNotebook
from pycrdt import Array, Doc, Map, Subscription, TransactionEvent

from jupyter_agent.document.cell import CellState
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.merge import merge_typing
from jupyter_agent.document.values import snapshot
from jupyter_agent.plugs.rooms.room_updates import (
    Ranges,
    RoomUpdate,
    brings_nothing,
    deletes_nothing,
    union,
)

_REMOVAL = "jupyter_agent_removal"
"""The key of a document's state that changes with each transaction that removes cells."""


@dataclass(eq=False)
class RemovedCell:
    """A cell that was removed, or replaced by a copy."""

    cell_id: str
    before: str
    """Its text when the copy was made, plus late edits that were carried over since."""
    cell: Map[Any]
    """The cell in the shadow."""
    changed: bool = True
    """It may have changed since the last call of `pending`."""
    deleted: bool = False
    """A user deleted it at the same moment."""

    @property
    def text(self) -> str:
        """The present text."""
        return str(self.cell.get("source", ""))

    @property
    def now(self) -> str | None:
        """The present text; None if a user deleted the cell."""
        return None if self.deleted else self.text

    @property
    def state(self) -> CellState:
        """The whole cell with the present text."""
        return snapshot(0, self.cell.to_py() or {}).state()


def mark_removal(document: YNotebook) -> None:
    """Tell the room's store that this transaction removes cells."""
    document.ystate[_REMOVAL] = uuid4().hex


def removal_in(document: YNotebook) -> str | None:
    """A mark that changes with each such transaction; None before the first."""
    mark: str | None = document.ystate.get(_REMOVAL)
    return mark


class Shadow:
    """A copy of a live document without removals of cells that others may still type in."""

    def __init__(self, document: YNotebook, copy: bytes | None = None) -> None:
        """`copy` is an update with the document of a moment ago: making it, and making a document
        of it, are both slow for a large notebook.
        """
        self.removed: list[RemovedCell] = []
        self._deleted_items: Ranges = {}
        """Items that the removals deleted, and later items that were deleted on arrival."""
        self._expected: Mapping[str, str] | None = None
        """The known texts of the cells that the next transaction removes; None if it removes no
        cells.
        """
        self._deleted: list[int] = []
        """Indices of the cells that this transaction of the live document deletes."""
        self._doc: Doc[Any] = Doc()
        if copy is not None:
            self._doc.apply_update(copy)
        self._doc.apply_update(document.ydoc.get_update(self._doc.get_state()))
        self._cells: Array[Any] = self._doc.get("cells", type=Array)
        self._places: list[RemovedCell | None] = [None] * len(self._cells)
        """The removed cell, or None, for each cell of the shadow."""
        self._cells.observe(self._splice)
        self._cells.observe_deep(self._note_changes)
        self._followed: list[tuple[Any, Subscription]] = []
        self.follow(document)

    def follow(self, document: YNotebook) -> None:
        """Switch to this live document, which has the same content."""
        self.close()
        self._followed = [  # called in this order
            (document.ycells, document.ycells.observe(self._note_deletions)),
            (document.ydoc, document.ydoc.observe(self._follow_transaction)),
        ]

    def close(self) -> None:
        """Stop following."""
        for followed, subscription in self._followed:
            followed.unobserve(subscription)
        self._followed.clear()

    def expect_removal(self, texts: Mapping[str, str] | None = None) -> None:
        """The next transaction of the live document removes cells, and deletes nothing else.
        `texts`: their texts by id, as they were when copies were made some time ago.
        """
        self._expected = texts or {}

    def apply_client_update(self, update: bytes, *, answer: bool = False) -> None:
        """Apply a page's update before the live document does. An `answer` contains the page's
        whole state, including the removals.
        """
        if answer and brings_nothing(update):
            return  # the live document is about to delete the same
        with suppress(ValueError):  # not an update: the live document refuses it itself
            if answer:
                update = RoomUpdate.read(update).drop_deletions(self._deleted_items).encode()
            self._doc.apply_update(update)

    def pending(self) -> dict[RemovedCell, str | None]:
        """The removed cells with late edits not carried over yet, and the present text of each;
        None if a user deleted it.
        """
        pending = {}
        for removed in self.removed:
            if removed.changed:
                removed.changed = removed.now != removed.before
            if removed.changed:
                pending[removed] = removed.now
        return pending

    async def carry_over(self, cells: SharedCells) -> bool:
        """Apply the late edits to the live document: text goes into the cell's copy, or the cell is
        restored with it. Whether there were any.
        """
        pending = self.pending()
        for removed, text in pending.items():
            ids = cells.ids()
            if text is None:
                self.removed.remove(removed)
                if removed.cell_id in ids:
                    await cells.delete(removed.cell_id)
                continue
            if removed.cell_id in ids:
                now = cells.get(removed.cell_id).source
                cells.write_source(removed.cell_id, merge_typing(now, removed.before, text))
            else:
                cells.insert(self._place(removed, ids), removed.cell_id, removed.state)
            removed.before = text
        return bool(pending)

    def commit(self) -> None:
        """All edits of removed cells so far have been carried over."""
        self.removed = [removed for removed in self.removed if not removed.deleted]
        for removed in self.removed:
            removed.before = removed.text

    def _place(self, removed: RemovedCell, ids: Sequence[str]) -> int:
        """The index for restoring the cell among these of the live document: below the cells that
        it was below, or their replacements there.
        """
        at = self._places.index(removed)
        gone = set[str]()
        while at and (other := self._places[at - 1]) is not None:
            gone.add(other.cell_id)
            at -= 1
        above = str(self._cells[at - 1].get("id")) if at else ""
        index = ids.index(above) + 1 if above in ids else 0
        while index < len(ids) and ids[index] in gone:
            index += 1
        return index

    def _note_deletions(self, event: Any) -> None:
        position = 0
        for step in event.delta:
            if "delete" in step:
                self._deleted += range(position, position + step["delete"])
                position += step["delete"]
            else:
                position += step.get("retain", 0)

    def _follow_transaction(self, event: TransactionEvent) -> None:
        """Apply a transaction of the live document. Late letters are deleted there at once, and
        stay here.
        """
        update = event.update
        expected, self._expected = self._expected, None
        deleted, self._deleted = self._deleted, []
        removed = [] if expected is None else self._remove(deleted)
        if not deletes_nothing(update):
            with suppress(ValueError):  # not a notebook update; apply unchanged
                read = RoomUpdate.read(update)
                lost = read.dead_on_arrival if expected is None else read.deletes
                self._deleted_items = union(self._deleted_items, lost)
                update = read.drop_deletions(self._deleted_items).encode()
        self._doc.apply_update(update)
        for each in removed:
            each.before = (expected or {}).get(each.cell_id, each.text)

    def _remove(self, indexes: Sequence[int]) -> list[RemovedCell]:
        alive = [at for at, removed in enumerate(self._places) if removed is None]
        places = [alive[index] for index in indexes]
        removed = [
            RemovedCell(str(self._cells[at].get("id")), "", self._cells[at]) for at in places
        ]
        for at, each in zip(places, removed, strict=True):
            self._places[at] = each
        self.removed += removed
        return removed

    def _note_changes(self, events: Sequence[Any]) -> None:
        for path in filter(None, (event.path for event in events)):
            if (removed := self._places[path[0]]) is not None:
                removed.changed = True

    def _splice(self, event: Any) -> None:
        position = 0
        for step in event.delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                gone = slice(position, position + step["delete"])
                for removed in self._places[gone]:
                    if removed is not None:
                        removed.changed = removed.deleted = True
                del self._places[gone]
            else:
                self._places[position:position] = [None] * len(step["insert"])
                position += len(step["insert"])
