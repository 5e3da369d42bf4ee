"""The cells of one shared document, by id: snapshots, and the primitive changes.

A carrier's document (a room's, a replica of an open tab's, or one loaded from a file) is changed
only here, and only in ways that JupyterLab's view can follow: text by small operations in place,
and at most one run of neighbouring cells inserted or deleted per transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol, cast

from jupyter_ydoc import YNotebook
from pycrdt import Array, Map, Text

from jupyter_agent.document.cell import Cell, CellState, CellType, Output
from jupyter_agent.document.line_ends import like_all, restore, unify
from jupyter_agent.document.merge import Span, text_operations
from jupyter_agent.document.observed_cells import ObservedCells
from jupyter_agent.document.outputs import batches, size_of
from jupyter_agent.document.values import (
    FIRST_WITH_IDS,
    append_outputs,
    as_shared,
    nbformat_cell,
    shared_cell,
)
from jupyter_agent.errors import CellNotFound

EDIT = "jupyter_agent: edit"
"""Origin of transactions that `Retraction` can take back."""
FILE = "jupyter_agent: file"
"""Origin of transactions that load what others wrote into the file."""
RUN = "jupyter_agent: run"
"""Origin of transactions that write outputs."""
OWN_METHODS = frozenset(
    "id cell_type source metadata outputs execution_count execution_state".split()
)
"""Keys of a cell that only methods of their own may write."""
_MANY = 500
"""Cells with more outputs than this are converted in a thread."""


class StructuralEdits(Protocol):
    """Deletes, moves and retypes cells where the document lives, so that no one can type into a
    cell that is already gone. When a method returns, its result is in the document here. Raises
    ToolError if nothing was done, NotConfirmed if that is unknown.

    After such an await, do not write anything that was read before it: merge instead.
    """

    async def remove(self, cell_id: str, source: str) -> None:
        """Delete the cell if it still has this text."""

    async def move(self, cell_id: str, index: int) -> None:
        """Give the cell this index. The user's current cell stays in place; others move around
        it.
        """

    async def retype(self, cell_id: str, type: CellType) -> None:
        """Give the cell this type; it loses its trust and what only its former type has."""


class SharedCells:
    """The cells of a document."""

    def __init__(self, document: YNotebook, *, keeps_line_ends: bool = False) -> None:
        r"""`keeps_line_ends`: no one types in the document, so its cells may have `\r\n`."""
        self.document = document
        self._keeps_line_ends = keeps_line_ends
        self.on_removal: Callable[[str], None] | None = None
        """Called with the cell's id just before it is deleted."""
        self.structural_edits: StructuralEdits | None = None
        """Makes the structural edits; None if they are transactions of this document."""
        self.rerun_by_user: set[str] = set()
        """Cells that the user has run since our last run started in them."""
        self.server = ""
        """The server whose runs the cells show, if the document outlives a server."""
        self.on_follow: Callable[[YNotebook], None] | None = None
        """Called when the cells become those of another replica of the document."""
        self._write_numbers = count(1)
        self._observed = ObservedCells(self._cells, self._write_numbers)

    def follow(self, document: YNotebook) -> None:
        """Switch to the cells of this document."""
        self.close()
        self.document = document
        self.rerun_by_user = set()
        self._observed = ObservedCells(self._cells, self._write_numbers)
        if self.on_follow is not None:
            self.on_follow(document)

    @property
    def keeps_ids(self) -> bool:
        """Whether cells have the same ids each time the notebook is opened: only since format
        4.5.
        """
        return self.format_minor >= FIRST_WITH_IDS

    @property
    def format_minor(self) -> int:
        """The minor version of the notebook's format 4."""
        meta: Map[Any] = self.document.ydoc.get("meta", type=Map)
        minor = meta.get("nbformat_minor", FIRST_WITH_IDS)
        return int(minor) if isinstance(minor, int | float) else FIRST_WITH_IDS

    def close(self) -> None:
        """Stop observing the document."""
        self._observed.close()

    # ---- reading

    async def catch_up(self) -> None:
        """Take the missing snapshots without holding up the event loop for long."""
        await self._observed.catch_up()

    def ids(self) -> list[str]:
        """The ids of all cells in order. Like all that read them, it raises UnreadableNotebook if
        the document contains something that is not a cell.
        """
        return self._observed.ids()

    def index(self, cell_id: str) -> int:
        """The current index of the cell. Raises CellNotFound."""
        try:
            return self.ids().index(cell_id)
        except ValueError:
            raise CellNotFound(cell_id, self.ids()) from None

    def value(self, cell_id: str) -> dict[str, Any]:
        """The cell as the shared document holds it; the same object while the cell is unchanged.
        Read only.
        """
        return self._observed.value(self.index(cell_id))

    def values(self) -> list[dict[str, Any]]:
        """All cells in the form of `value`."""
        return self._observed.values()

    def get(self, cell_id: str) -> Cell:
        """A snapshot of the cell. Raises CellNotFound."""
        return self._observed.snapshot(self.index(cell_id))

    def identity(self, cell_id: str) -> object:
        """An object that changes when a copy replaces the cell, also in another document. Anything
        written into the original after the copy was made is not in the copy.
        """
        return self._observed.identities[self.index(cell_id)]

    @property
    def arrangement(self) -> object:
        """An object that is replaced when any `identity` changes."""
        return self._observed.arrangement

    def all(self) -> list[Cell]:
        """Snapshots of all cells in order."""
        return self._observed.snapshots()

    def live_cell(self, cell_id: str) -> Map[Any]:
        """The live cell. Do not store it: a move, a revert or a new attachment replaces it."""
        return cast("Map[Any]", self._cells[self.index(cell_id)])

    # ---- changing, one transaction each

    @contextmanager
    def transaction(self, origin: str = EDIT) -> Iterator[None]:
        """One step that everyone sees at once; marks the document as unsaved, which Lab does not
        notice by itself.
        """
        with self.document.ydoc.transaction(origin=origin):
            yield
            self.document.ystate["dirty"] = True

    def write_source(
        self,
        cell_id: str,
        source: str,
        within: Span | None = None,
        *,
        stored: str | None = None,
        origin: str = EDIT,
    ) -> None:
        """Change the text in place by small operations; only the part `within`, if it is given and
        snapshots have the text exactly as stored. If line endings are kept, the text gets those of
        `stored` if that is the same text, else those that the cell has.
        """
        text: Text = self.live_cell(cell_id)["source"]
        now = str(text)
        if self._keeps_line_ends:
            source = self._with_line_ends(source, stored, now)
        if now != source:
            with self.transaction(origin):
                rewrite(text, source, within if now == unify(now) else None)

    def write_metadata(
        self, cell_id: str, metadata: Mapping[str, Any], *, origin: str = EDIT
    ) -> None:
        """Change the keys that differ."""
        shared: Map[Any] = self.live_cell(cell_id)["metadata"]
        self._write_items(shared, shared.to_py() or {}, as_shared(dict(metadata)), origin)

    def write_outputs(
        self,
        cell_id: str,
        outputs: Sequence[Output],
        execution_count: int | None,
        *,
        origin: str = EDIT,
    ) -> None:
        """Replace the outputs by these. Lab's view can only clear and append, each in its own
        transaction.
        """
        cell = self.live_cell(cell_id)
        with self.transaction(origin):
            cell["outputs"].clear()
            cell["execution_count"] = as_shared(execution_count)
        for batch in batches(outputs, size_of):
            self.append_outputs(cell_id, batch, origin)

    def write_rest(self, cell_id: str, rest: Mapping[str, Any], *, origin: str = EDIT) -> None:
        """Change the keys that differ among those without a method of their own, such as
        `attachments`.
        """
        wanted = as_shared(dict(rest))
        self._write_items(self.live_cell(cell_id), self._rest(cell_id), wanted, origin)

    def _rest(self, cell_id: str) -> dict[str, Any]:
        return {key: item for key, item in self.value(cell_id).items() if key not in OWN_METHODS}

    def _write_items(
        self, shared: Map[Any], now: Mapping[str, Any], wanted: Mapping[str, Any], origin: str
    ) -> None:
        changed = [key for key, item in wanted.items() if key not in now or now[key] != item]
        gone = now.keys() - wanted.keys()
        if changed or gone:
            with self.transaction(origin):
                for key in gone:
                    del shared[key]
                for key in changed:
                    shared[key] = wanted[key]

    def append_outputs(self, cell_id: str, outputs: Sequence[Output], origin: str = EDIT) -> None:
        """Append outputs to the cell, in one transaction: see `batches`."""
        index = self.index(cell_id)
        with self.transaction(origin):
            append_outputs(self.live_cell(cell_id)["outputs"], outputs)
        self._observed.fill_in_outputs(index, outputs)

    def insert(self, index: int, cell_id: str, state: CellState) -> None:
        """Insert a cell in this state."""
        cell = nbformat_cell(cell_id, state)
        if self._keeps_line_ends:
            cell["source"] = self._with_line_ends(state.source, state.stored, "")
        self._insert(index, shared_cell(cell))

    def _with_line_ends(self, source: str, stored: str | None, now: str) -> str:
        """The text as it was stored, else with the line endings that the cell has now, else with
        those of all other cells.
        """
        if stored is not None and unify(stored) == source:
            return stored
        if "\n" in now or "\n" not in source:
            return restore(source, now)
        return like_all(
            source, (self._observed.value(index)["source"] for index in range(len(self._observed)))
        )

    async def delete(self, cell_id: str) -> None:
        """Delete the cell."""
        index = self.index(cell_id)
        if self.structural_edits is not None:
            await self.structural_edits.remove(cell_id, self._observed.value(index)["source"])
        else:
            self._remove(cell_id, index)

    async def move(self, cell_id: str, index: int) -> None:
        """Move the cell to this index: insert a copy, then delete the original.

        In two transactions: Lab 4.6 loses the active cell if one transaction inserts and deletes
        cells.
        """
        old = self.index(cell_id)
        if old == index:
            return
        if self.structural_edits is not None:
            await self.structural_edits.move(cell_id, index)
        else:
            identity, at = self._observed.identities[old], index + (index > old)
            self._insert(at, shared_cell(self._observed.value(old)))
            self._observed.identities[at] = identity  # the copy has everything that was written
            self._remove(cell_id, old + (at <= old))

    async def move_others(self, cell_id: str, index: int) -> None:
        """The same final order, but the neighbours move: for the user's current cell."""
        if self.structural_edits is not None:
            return await self.move(cell_id, index)  # the page knows better where the user is
        while (now := self.index(cell_id)) != index:
            neighbour = now + (1 if index > now else -1)
            await self.move(self.ids()[neighbour], now)

    async def retype(self, cell_id: str, state: CellState) -> None:
        """Replace the cell by one of the state's type, with the parts that only that type has taken
        from the state.

        Id, text and metadata stay, but not the trust: it was given to other outputs.
        """
        index = self.index(cell_id)
        if self.structural_edits is not None:
            await self.structural_edits.retype(cell_id, state.type)
            if state.type != "code" and state.attachments:
                self.write_rest(cell_id, {**self._rest(cell_id), "attachments": state.attachments})
            elif state.outputs or state.execution_count is not None:
                self.write_outputs(cell_id, state.outputs, state.execution_count)
            return
        old = self._observed.value(index)
        common = {key: item for key, item in old.items() if key not in _OF_ONE_TYPE}
        metadata = {key: item for key, item in old["metadata"].items() if key != "trusted"}
        value = {**nbformat_cell(cell_id, state), **common, "metadata": metadata}
        self._insert(index, shared_cell(value))
        self._remove(cell_id, index + 1)

    def _remove(self, cell_id: str, index: int) -> None:
        with self.transaction():
            if self.on_removal is not None:
                self.on_removal(cell_id)
            del self._cells[index]

    def _insert(self, index: int, cell: Map[Any]) -> None:
        with self.transaction():
            self._cells.insert(index, cell)

    # ---- snapshots

    @property
    def _cells(self) -> Array[Any]:
        return cast("Array[Any]", self.document.ycells)


_OF_ONE_TYPE = ("cell_type", "outputs", "execution_count", "execution_state", "attachments")


def rewrite(text: Text, new: str, within: Span | None = None) -> None:
    """Change the text in place by small operations (`text_operations`)."""
    old = str(text)
    operations = list(text_operations(old, new, within))
    size = _byte_offsets(old, operations)
    for start, end, replacement in operations:
        if replacement:  # before the deletion: keeps a cursor at the end of the range there
            text.insert(size[end], replacement)
        if end > start:
            del text[size[start] : size[end]]


def _byte_offsets(text: str, operations: Sequence[tuple[int, int, str]]) -> dict[int, int]:
    """UTF-8 offsets, which pycrdt's Text counts in, of the code point offsets in the operations."""
    offsets: dict[int, int] = {0: 0}
    last = 0
    for offset in sorted({bound for start, end, _ in operations for bound in (start, end)}):
        offsets[offset] = offsets[last] + len(text[last:offset].encode())
        last = offset
    return offsets
