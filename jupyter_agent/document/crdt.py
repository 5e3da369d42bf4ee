"""The cells of one shared document, by id: snapshots, and the primitive changes.

A carrier's document (a room's, a replica of an open tab's, or one loaded from a file) is changed
only here, and only in ways that JupyterLab's view can follow: text by small operations in place,
and at most one run of neighbouring cells inserted or deleted per transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol, cast

from jupyter_ydoc import YNotebook
from pycrdt import Array, Map, Subscription, Text, UndoManager

from jupyter_agent.document.cell import Cell, CellState, CellType, Change, Output
from jupyter_agent.document.line_ends import like_all, restore, unify
from jupyter_agent.document.merge import MergeConflict, Span, merge, text_operations
from jupyter_agent.document.outputs import batches, size_of
from jupyter_agent.document.values import (
    FIRST_WITH_IDS,
    append_outputs,
    as_shared,
    cell_value,
    is_cell,
    nbformat_cell,
    shared_cell,
    snapshot,
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


@dataclass
class _Partial:
    """A cached cell of which only parts have to be read again."""

    value: dict[str, Any]
    """The cell as it was last read."""
    outputs: list[dict[str, Any] | None]
    """The outputs, None for each that has to be read."""
    keys: set[str] = field(default_factory=set)
    """Other keys that have to be read."""


class SharedCells:
    """The cells of a document. Snapshots are cached until the document's observer reports a change
    of their cell.
    """

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
        self._values: list[dict[str, Any] | _Partial | None] = []
        self._identities: list[object] = []
        self._writes: list[int] = []
        """`Cell.writes` of each cell."""
        self._write_numbers = count(1)
        self._snapshots: dict[str, tuple[dict[str, Any], Cell]] = {}
        """By id, with the value each snapshot was made of: most cells of a large notebook stay the
        same.
        """
        self._ids: list[str] | None = None
        self._subscription: Subscription | None = None
        self._observe()

    def follow(self, document: YNotebook) -> None:
        """Switch to the cells of this document."""
        self.close()
        self.document = document
        self.rerun_by_user = set()
        self._observe()
        if self.on_follow is not None:
            self.on_follow(document)

    def _observe(self) -> None:
        self._ids = None
        self._values = [None] * len(self._cells)
        self._identities = [object() for _ in self._values]
        self._writes = [0] * len(self._values)
        self._snapshots.clear()
        self._subscription = self._cells.observe_deep(self._on_change)

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
        if self._subscription is not None:
            self._cells.unobserve(self._subscription)
            self._subscription = None

    # ---- reading

    async def catch_up(self) -> None:
        """Take the missing snapshots without holding up the event loop for long."""
        for index in range(len(self._values)):
            if index >= len(self._values):
                return
            if not isinstance(self._values[index], dict):
                value = self._value(index)
                if len(value.get("outputs") or ()) > _MANY:
                    outputs, writes = self._last_outputs(value), self._writes[index]
                    cell = await asyncio.to_thread(snapshot, index, value, outputs, writes)
                    self._snapshots[value["id"]] = value, cell
                else:
                    self._snapshot(index)
                if index % 50 == 0:
                    await asyncio.sleep(0)

    def ids(self) -> list[str]:
        """The ids of all cells in order. Like all that read them, it raises UnreadableNotebook if
        the document contains something that is not a cell.
        """
        if self._ids is None:
            self._ids = [self._value(index)["id"] for index in range(len(self._values))]
        return self._ids

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
        return self._value(self.index(cell_id))

    def values(self) -> list[dict[str, Any]]:
        """All cells in the form of `value`."""
        return [self._value(index) for index in range(len(self._values))]

    def get(self, cell_id: str) -> Cell:
        """A snapshot of the cell. Raises CellNotFound."""
        return self._snapshot(self.index(cell_id))

    def identity(self, cell_id: str) -> object:
        """An object that changes when a copy replaces the cell, also in another document. Anything
        written into the original after the copy was made is not in the copy.
        """
        return self._identities[self.index(cell_id)]

    def all(self) -> list[Cell]:
        """Snapshots of all cells in order."""
        return [self._snapshot(index) for index in range(len(self._values))]

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
        index, new = self.index(cell_id), len(outputs)
        with self.transaction(origin):
            append_outputs(self.live_cell(cell_id)["outputs"], outputs)
        partial = self._values[index]
        if isinstance(partial, _Partial) and partial.outputs[-new:] == [None] * new:
            # Saves reading them back.
            partial.outputs[-new:] = [as_shared(dict(output)) for output in outputs]

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
            source, (self._value(index)["source"] for index in range(len(self._values)))
        )

    async def delete(self, cell_id: str) -> None:
        """Delete the cell."""
        index = self.index(cell_id)
        if self.structural_edits is not None:
            await self.structural_edits.remove(cell_id, self._value(index)["source"])
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
            identity, at = self._identities[old], index + (index > old)
            self._insert(at, shared_cell(self._value(old)))
            self._identities[at] = identity  # the copy has everything that was written
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
        old = self._value(index)
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

    def _value(self, index: int) -> dict[str, Any]:
        value = self._values[index]
        if isinstance(value, _Partial):
            value = self._values[index] = _complete(value, cast("Map[Any]", self._cells[index]))
        if value is None:
            value = self._values[index] = cell_value(self._cells[index])
        return value

    def _snapshot(self, index: int) -> Cell:
        value = self._value(index)
        of, cell = self._snapshots.get(value["id"], (None, None))
        if cell is None or of is not value:
            cell = snapshot(index, value, self._last_outputs(value), self._writes[index])
        elif cell.index != index:
            cell = replace(cell, index=index)
        else:
            return cell
        self._snapshots[value["id"]] = value, cell
        return cell

    def _last_outputs(self, value: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[Output]]:
        """The cell's outputs in its last snapshot, both as the document holds them and as JSON."""
        if (entry := self._snapshots.get(value["id"])) is None:
            return (), ()
        of, cell = entry
        return of.get("outputs") or (), cell.outputs

    def _on_change(self, events: Sequence[Any]) -> None:
        """Invalidate what changed. Called within the commit, so it reads nothing from the
        document.
        """
        for event in events:
            if not event.path:
                self._ids = None
                self._splice(event.delta)
        for event in events:  # these paths count all insertions and deletions
            if event.path[1:] == ["outputs"]:
                self._splice_outputs(event.path[0], event.delta)
        for event in events:
            if event.path and event.path[1:] != ["outputs"]:
                self._forget(event)

    def _partial(self, index: int) -> _Partial | None:
        value = self._values[index]
        if isinstance(value, dict) and "outputs" in value:
            value = self._values[index] = _Partial(value, list(value["outputs"] or ()))
        return value if isinstance(value, _Partial) else None

    def _splice_outputs(self, index: int, delta: Sequence[Mapping[str, Any]]) -> None:
        if (partial := self._partial(index)) is None:
            self._values[index] = None
            return
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                del partial.outputs[position : position + step["delete"]]
            else:
                new = len(step["insert"])
                partial.outputs[position:position] = [None] * new
                position += new

    def _forget(self, event: Any) -> None:
        index, *path = event.path
        keys = [path[0]] if path else list(event.keys)
        partial = self._partial(index)
        if not path and event.keys.get("execution_count", {}).get("newValue") is not None:
            self._writes[index] = next(self._write_numbers)
        if partial is None or (not path and "outputs" in keys):
            self._values[index] = None
        elif path[:1] == ["outputs"]:
            partial.outputs[path[1]] = None
        else:
            partial.keys.update(keys)

    def _splice(self, delta: Sequence[Mapping[str, Any]]) -> None:
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                deleted = slice(position, position + step["delete"])
                for value in self._values[deleted]:
                    if value is not None:
                        last_value = value.value if isinstance(value, _Partial) else value
                        self._snapshots.pop(last_value["id"], None)
                del self._values[deleted], self._identities[deleted], self._writes[deleted]
            else:
                new = len(step["insert"])
                self._values[position:position] = [None] * new
                self._identities[position:position] = [object() for _ in range(new)]
                self._writes[position:position] = [0] * new
                position += new


class Retraction:
    """Takes back the transactions made on a document in its `with` block, without touching what
    others did in the meantime.
    """

    def __init__(self, cells: SharedCells) -> None:
        self._cells = cells
        self._histories: list[tuple[YNotebook, UndoManager]] = []
        """One for each replica in which edits were made, the latest last."""

    def __enter__(self) -> Retraction:
        self._follow(self._cells.document)
        self._cells.on_follow = self._follow
        return self

    def __exit__(self, *_: object) -> None:
        # Undo managers need the document to themselves when they are freed. The garbage collector,
        # which would find them in the cycle that a raised exception makes, sometimes frees them in
        # the middle of a transaction.
        self._cells.on_follow = None
        self._histories.clear()

    def __call__(self, changes: Sequence[Change] = ()) -> None:
        """`changes`: what the transactions did, if it is known. A replaced word returns beside its
        replacement, so text that others have inserted since is sometimes between its letters: then
        the text is merged instead.
        """
        merged = {change.cell_id: self._text_without(change) for change in changes}
        for document, history in reversed(self._histories):
            while history.can_undo():
                history.undo()
                document.ystate["dirty"] = True  # the edit may have been saved in the meantime
        for cell_id, text in merged.items():
            if text is not None and cell_id in self._cells.ids():
                self._cells.write_source(cell_id, text)

    def _text_without(self, change: Change) -> str | None:
        """The cell's text without the change; None if the change is not one of text, or others have
        changed the same lines since.
        """
        before, after = change.before, change.after
        if before is None or after is None or before.source == after.source:
            return None
        if change.cell_id not in self._cells.ids():
            return None
        with suppress(MergeConflict):
            return merge(after.source, self._cells.get(change.cell_id).source, before.source)
        return None

    def _follow(self, document: YNotebook) -> None:
        history = UndoManager(scopes=[document.ycells], capture_timeout_millis=0)
        history.include_origin(EDIT)
        self._histories.append((document, history))


_OF_ONE_TYPE = ("cell_type", "outputs", "execution_count", "execution_state", "attachments")


def _complete(partial: _Partial, shared: Map[Any]) -> dict[str, Any] | None:
    """The cell's value with its missing parts read; None if the whole cell has to be read."""
    value, live = dict(partial.value), shared["outputs"]
    if len(partial.outputs) != len(live):
        return None
    for key in partial.keys:
        value.pop(key, None)
        if key in shared:
            value[key] = _as_python(shared[key])
    read = [place for place, output in enumerate(partial.outputs) if output is None]
    outputs = [*partial.outputs]
    for place in read:
        outputs[place] = _as_python(live[place])
    value["outputs"] = [outputs[place] for place in read]
    if not is_cell(value):
        return None
    value["outputs"] = outputs
    return value


def _as_python(shared: Any) -> Any:
    return shared.to_py() if isinstance(shared, Map | Array | Text) else shared


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
