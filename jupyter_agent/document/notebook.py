"""A notebook as everybody sees it now, and the edits that tools make in it.

Every edit goes the same way: take the lock, take in what was typed and saved so far, refuse or
change the shared document, have the carrier confirm it, look whether it is really there. What
fails is taken back.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from jupyter_agent.document import edits
from jupyter_agent.document.carrier import Carrier, Place, Saved
from jupyter_agent.document.cell import CarrierName, Cell, CellState, CellType, Change
from jupyter_agent.document.clocks import Mark
from jupyter_agent.document.crdt import Retraction, SharedCells, new_id
from jupyter_agent.document.edits import EditOutcome
from jupyter_agent.document.insertions import Insertions
from jupyter_agent.document.merge import with_typing
from jupyter_agent.document.output_writer import CellOutputs, Displays
from jupyter_agent.document.outputs import LIMIT
from jupyter_agent.errors import AgentError, CellNotFound, Locked
from jupyter_agent.tasks import surely

_NEIGHBOURS = 5
"""Of a cell on each side that the journal knows: people may delete some before an undo."""

Operation = Callable[[SharedCells], Coroutine[Any, Any, EditOutcome]]
"""One edit of one cell within a transaction."""

ChooseCarrier = Callable[[str, Carrier | None], Awaitable[Carrier]]
"""Where the document of a path is now, given where it was last."""


@dataclass(frozen=True, kw_only=True)
class NewCell:
    """A cell that is to be inserted."""

    source: str
    type: CellType = "code"


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """The text that an edit gives a cell, and the text that it was made for."""

    cell_id: str
    source: str
    base: str
    expect: str | None = None
    """The version that the cell must have; None for any that the edit merges with."""


@dataclass(frozen=True)
class Edit:
    """What an edit did."""

    cell: Cell | None
    """The cell as it is now; None if it was deleted."""
    changes: list[Change]
    saved: Saved
    merged: bool = False
    """A person had changed the cell since the model read it; both changes are in it."""


class Notebook:
    """One notebook of this server, shared by everyone who works in it."""

    def __init__(self, path: str, choose: ChooseCarrier) -> None:
        self.lock = asyncio.Lock()
        """Held by each operation from reading the newest state to the confirmation of its own."""
        self._path = path
        self._choose = choose
        self._carrier: Carrier | None = None
        self._holder: asyncio.Task[Any] | None = None
        """The task within `opened`."""
        self._writers: weakref.WeakSet[CellOutputs] = weakref.WeakSet()
        self._displays: Displays = {}

    @property
    def path(self) -> str:
        return self._carrier.path if self._carrier else self._path

    @property
    def carrier(self) -> CarrierName:
        """Where the live document is, or was last."""
        return self._carrier.name if self._carrier else "file"

    @property
    def busy(self) -> bool:
        """Whether an operation is under way, or a cell runs or is about to."""
        return self.lock.locked() or bool(self.running)

    @property
    def running(self) -> set[str]:
        """The cells that run, or are about to."""
        return {writer.cell_id for writer in self._writers if not writer.finished}

    # ---- reading

    async def read(self) -> list[Cell]:
        """All cells with everything typed up to now."""
        if await self._is_current():
            return self.cells()
        async with self._operation() as carrier:
            return carrier.cells.all()

    async def look(self) -> list[Cell]:
        """As `read`, but nobody is asked what was typed in a page and is still on its way."""
        if self._carrier is not None and self._carrier.live:
            return self._carrier.cells.all()
        return await self.read()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[list[Cell]]:
        """All cells with everything typed up to now. Until the end of the block the notebook is
        this task's: its operations there need not look again, and those of others wait.
        """
        async with self._operation() as carrier:
            self._holder = asyncio.current_task()
            try:
                yield carrier.cells.all()
            finally:
                self._holder = None

    async def cell(self, cell_id: str) -> Cell:
        """One cell with everything typed up to now. Raises CellNotFound."""
        if await self._is_current():
            return self.peek(cell_id)
        async with self._operation() as carrier:
            return carrier.cells.get(cell_id)

    async def metadata(self) -> dict[str, Any]:
        """The notebook's metadata: `kernelspec`, `language_info` and others."""
        async with self._operation() as carrier:
            return carrier.metadata

    @property
    def known_metadata(self) -> Mapping[str, Any]:
        """As `metadata`, as last known; empty before the first reading."""
        return self._carrier.metadata if self._carrier else {}

    def cells(self) -> list[Cell]:
        """All cells as last known, without asking anybody; none before the first reading."""
        return self._carrier.cells.all() if self._carrier else []

    def peek(self, cell_id: str) -> Cell:
        """One cell as last known. Raises CellNotFound."""
        if self._carrier is None:
            raise CellNotFound(cell_id, [])
        return self._carrier.cells.get(cell_id)

    @property
    def place(self) -> Place | None:
        """Where the person was in the open notebook at the last operation; None if it is not
        open.
        """
        return self._carrier.place if self._carrier else None

    # ---- editing

    @staticmethod
    def proposal(
        cell: Cell,
        *,
        source: str | None = None,
        base: str | None = None,
        old_string: str | None = None,
        new_string: str | None = None,
    ) -> str:
        """The text that `update` would give the cell as it is here; raises as `update` does."""
        return edits.proposed(
            cell, source=source, base=base, old_string=old_string, new_string=new_string
        )

    async def insert(
        self,
        *,
        source: str,
        type: CellType = "code",
        after: str | None = None,
        before: str | None = None,
        index: int | None = None,
    ) -> Edit:
        """Insert a cell after or before another or at an index; at the end if none is given."""
        (edit,) = await self.insert_all(
            [NewCell(source=source, type=type)], after=after, before=before, index=index
        )
        return edit

    async def insert_all(
        self,
        new: Sequence[NewCell],
        *,
        after: str | None = None,
        before: str | None = None,
        index: int | None = None,
    ) -> list[Edit]:
        """Insert cells one below the other, the first of them as `insert` does; all or none."""
        first = 0

        def insertion(nth: int, cell: NewCell) -> Operation:
            async def operation(cells: SharedCells) -> EditOutcome:
                nonlocal first
                edits.refuse_half_characters(cell.source)
                if nth == 0:
                    first = edits.place(cells, after=after, before=before, index=index)
                cell_id = new_id()
                state = CellState(
                    type=cell.type,
                    source=cell.source,
                    metadata={},
                    index=first + nth,
                    outputs=(),
                    execution_count=None,
                )
                cells.insert(first + nth, cell_id, state)
                return EditOutcome(cell_id, "insert")

            return operation

        return await self._edit_all([insertion(nth, cell) for nth, cell in enumerate(new)])

    async def rewrite_all(self, rewrites: Sequence[Rewrite]) -> list[Edit]:
        """Give several cells other texts, each merged with what was typed since its base; all or
        none. Raises what `update` raises; nothing is changed then.
        """

        def rewriting(wanted: Rewrite) -> Operation:
            async def operation(cells: SharedCells) -> EditOutcome:
                cell = edits.expected(cells, wanted.cell_id, wanted.expect)
                text = edits.proposed(
                    cell, source=wanted.source, base=wanted.base, old_string=None, new_string=None
                )
                edits.refuse_half_characters(text)
                if text != cell.source:
                    edits.refuse_locked(cell)
                    cells.write_source(cell.id, text)
                return EditOutcome(cell.id, "update", before=cell, source=text)

            return operation

        return await self._edit_all([rewriting(wanted) for wanted in rewrites])

    async def update(
        self,
        cell_id: str,
        *,
        source: str | None = None,
        base: str | None = None,
        old_string: str | None = None,
        new_string: str | None = None,
        type: CellType | None = None,
        expect: str | None = None,
    ) -> Edit:
        """Change a cell's text, type or both; id, metadata and outputs stay (outputs go with
        another type).

        `old_string` is replaced by `new_string` in the text as it is now. A whole `source` is
        merged with what was typed since `base`, the text it was written for; without a base it
        needs `expect`, the version of the cell that it replaces. Raises Conflict, NotRead,
        NotOnce, Locked or Busy; nothing is changed then.
        """

        async def operation(cells: SharedCells) -> EditOutcome:
            cell = edits.expected(cells, cell_id, expect)
            text = edits.proposed(
                cell,
                source=source,
                base=base if expect is None or base is not None else cell.source,
                old_string=old_string,
                new_string=new_string,
            )
            edits.refuse_half_characters(text)
            retyped = type is not None and type != cell.type
            if (text, retyped) != (cell.source, False):
                edits.refuse_locked(cell)
            if retyped:
                edits.refuse_typed_in(cell, self.place, "Its type was not changed")
            if type is not None and retyped:  # first: a copy takes the place of the cell
                bare = replace(cell.state(), type=type, outputs=(), execution_count=None)
                await cells.retype(cell_id, bare)
            now = cells.get(cell_id).source
            cells.write_source(
                cell_id, text if now == cell.source else with_typing(text, cell.source, now)
            )
            merged = source is not None and base not in (None, cell.source)
            return EditOutcome(cell_id, "update", before=cell, source=text, merged=merged)

        return await self._edit(operation, removes=type is not None)

    async def delete(self, cell_id: str, *, expect: str | None = None) -> Edit:
        """Delete a cell. Raises Conflict, Locked or Busy (the person types in it); nothing is
        changed then.
        """

        async def operation(cells: SharedCells) -> EditOutcome:
            cell = edits.expected(cells, cell_id, expect)
            if not cell.deletable:
                raise Locked(f"Cell `{cell_id}` must not be deleted: its author locked it.")
            edits.refuse_typed_in(cell, self.place, "It was not deleted")
            await cells.delete(cell_id)
            return EditOutcome(cell_id, "delete", before=cell)

        return await self._edit(operation, removes=True)

    async def move(
        self,
        cell_id: str,
        *,
        after: str | None = None,
        before: str | None = None,
        index: int | None = None,
        expect: str | None = None,
    ) -> Edit:
        """Move a cell after or before another or to an index; to the end if none is given."""

        async def operation(cells: SharedCells) -> EditOutcome:
            cell = edits.expected(cells, cell_id, expect)
            at = edits.place(cells, after=after, before=before, index=index, moving=cell_id)
            await self.put(cell_id, at)
            return EditOutcome(cell_id, "move", before=cell)

        return await self._edit(operation, removes=True)

    async def put(self, cell_id: str, index: int) -> None:
        """Within an edit: give the cell this index. The cell the user is in stays; others move."""
        cells = self._live_cells()
        if self.place is not None and self.place.cell_id == cell_id:
            await cells.move_others(cell_id, index)
        else:
            await cells.move(cell_id, index)

    async def restore(
        self,
        operation: Callable[[SharedCells], Coroutine[Any, Any, Sequence[Change]]],
        *,
        removes: bool,
    ) -> Saved:
        """Carry out several changes as one edit: all are confirmed or none. Used to undo.
        `removes`: it may delete or move a cell.
        """
        async with self._operation() as carrier:
            _, saved = await self._carry_out(carrier, operation, removes=removes)
            return saved

    # ---- running

    def outputs(self, cell_id: str, *, limit: int = LIMIT) -> CellOutputs:
        """The writer of a run's outputs into that cell, of so many characters at most."""
        writer = CellOutputs(self._live_cells, cell_id, self._displays, limit=limit)
        self._writers.add(writer)
        return writer

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        """Give these keys of the notebook's metadata these values, beside what a run put out; they
        are saved with that.
        """
        if self._carrier is not None:
            self._carrier.write_metadata(items)

    async def save(self) -> Saved:
        """Have what runs have put out so far saved."""
        async with self._operation() as carrier:
            finished = [writer for writer in self._writers if writer.finished]
            saved = await carrier.save()
            self._writers.difference_update(finished)
            return saved

    async def trust(self, cell_id: str) -> None:
        """A person approved this cell's run: its outputs count as those of a cell that they ran
        themselves.
        """
        async with self._operation() as carrier:
            await carrier.trust(cell_id)

    def moved(self, path: str) -> None:
        """The notebook has another path now."""
        self._path = path
        if self._carrier is not None:
            self._carrier.moved(path)

    async def close(self) -> None:
        """Let go of the document; the next operation opens it again."""
        async with self.lock:
            carrier, self._carrier = self._carrier, None
            if carrier is not None:
                self._path = carrier.path
                await carrier.close()

    # ---- how an operation goes

    async def _is_current(self) -> bool:
        carrier = self._carrier
        if carrier is None or self.lock.locked() or not await carrier.is_current():
            return False
        return carrier is self._carrier and not self.lock.locked()

    @asynccontextmanager
    async def _operation(self) -> AsyncIterator[Carrier]:
        if self._holder is asyncio.current_task() and self._carrier is not None:
            yield self._carrier
            return
        async with self.lock:
            carrier = self._carrier = await self._choose(self.path, self._carrier)
            await carrier.refresh()
            self._follow()
            await carrier.cells.catch_up()
            yield carrier

    async def _edit(self, operation: Operation, *, removes: bool = False) -> Edit:
        (edit,) = await self._edit_all([operation], removes=removes)
        return edit

    async def _edit_all(
        self, operations: Sequence[Operation], *, removes: bool = False
    ) -> list[Edit]:
        """Edits of different cells as one: all are confirmed, or none is made."""
        async with self._operation() as carrier:
            outcomes: list[EditOutcome] = []
            made: list[list[Change]] = []

            async def change(cells: SharedCells) -> Sequence[Change]:
                for operation in operations:
                    order = list(cells.ids())
                    outcomes.append(await operation(cells))
                    made.append(
                        [
                            _with_neighbours(each, order)
                            if _needs_neighbours(each, cells)
                            else each
                            for each in outcomes[-1].changes(carrier.path, cells)
                        ]
                    )
                return [each for changes in made for each in changes]

            _, saved = await self._carry_out(carrier, change, removes=removes)
            return [
                Edit(
                    None if outcome.kind == "delete" else carrier.cells.get(outcome.cell_id),
                    changes,
                    saved,
                    outcome.merged,
                )
                for outcome, changes in zip(outcomes, made, strict=True)
            ]

    async def _carry_out(
        self,
        carrier: Carrier,
        operation: Callable[[SharedCells], Coroutine[Any, Any, Sequence[Change]]],
        *,
        removes: bool,
    ) -> tuple[Sequence[Change], Saved]:
        """Change the document, confirm and verify; take back what could not be confirmed."""
        if not carrier.writable:
            raise Locked(f"`{carrier.path}` is read-only.")
        await carrier.begin(removes=removes)
        with Retraction(carrier.cells) as retract:
            try:
                changes = await surely(operation(carrier.cells))
                self._follow()
                edits.refuse_invalid(carrier.cells, changes)
                mark = Mark(carrier.cells.document.ydoc)
                wrote = Insertions(carrier.cells, changes)
                saved = await surely(carrier.confirm())
            except BaseException as error:
                retract()
                with suppress(AgentError):
                    await surely(carrier.withdraw())
                    if isinstance(error, asyncio.CancelledError):
                        # Nobody will journal it: if it was saved, it is saved without.
                        await surely(carrier.confirm())
                raise
        arrived = mark.is_in(carrier.cells.document.ydoc)
        edits.verify(carrier.cells, changes, wrote, arrived=arrived)
        return changes, saved

    def _follow(self) -> None:
        """Have runs write again what they wrote while the document, or a cell, was replaced."""
        for writer in self._writers:
            writer.follow()

    def _live_cells(self) -> SharedCells:
        if self._carrier is None:
            raise RuntimeError(f"{self._path} is closed")
        return self._carrier.cells


def _needs_neighbours(change: Change, cells: SharedCells) -> bool:
    """Whether the cell's place has to be known by its neighbours: where it was taken from there, or
    will not be known by its id after a restart.
    """
    return change.kind in ("delete", "move") or (change.kind == "update" and not cells.keeps_ids)


def _with_neighbours(change: Change, order: Sequence[str]) -> Change:
    """The change with what stood above and below the cell."""
    if change.before is None:
        return change
    index = change.before.index
    above, below = order[:index][-_NEIGHBOURS:], order[index + 1 :][:_NEIGHBOURS]
    return replace(change, before=replace(change.before, above=above[::-1], below=below))
