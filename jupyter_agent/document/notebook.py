"""A notebook as everyone sees it now, and the edits that tools make in it.

Every edit takes the same steps: take the lock, load all typing and saves so far, refuse or
change the shared document, have the carrier confirm it, and check that the change is really there.
A failed edit is taken back.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from jupyter_agent.document import edits
from jupyter_agent.document.carrier import Carrier, CarrierGone, Place, SaveResult
from jupyter_agent.document.cell import CarrierName, Cell, Change
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.edit_result import Edit, LastEdit, net_changes, with_neighbours
from jupyter_agent.document.edits import EditOutcome
from jupyter_agent.document.identities import Naming, Namings
from jupyter_agent.document.insertions import Insertions, Mark
from jupyter_agent.document.make_steps import check_steps, make_step, put
from jupyter_agent.document.output_writer import CellOutputs, Displays
from jupyter_agent.document.outputs import LIMIT
from jupyter_agent.document.retraction import Retraction
from jupyter_agent.document.steps import (
    Step,
    may_remove,
)
from jupyter_agent.document.values import as_json
from jupyter_agent.errors import AgentError, CellNotFound, Locked, NotebookNotFound
from jupyter_agent.tasks import surely

_MAX_GONE = 2
"""Carriers that may disappear, one after the other, while an operation starts."""

Operation = Callable[[SharedCells], Coroutine[Any, Any, EditOutcome]]
"""One edit of one cell within a transaction."""

ChooseCarrier = Callable[[str, Carrier | None], Awaitable[Carrier]]
"""Chooses where the document of a path is now, given its last carrier."""


class Notebook:
    """One notebook of this server, shared by everyone who works in it."""

    def __init__(self, path: str, choose: ChooseCarrier, namings: Namings) -> None:
        self.lock = asyncio.Lock()
        """Held by each operation from reading the newest state to confirming its own change."""
        self._path = path
        self._choose = choose
        self._namings = namings
        self._last_naming: Naming | None = None
        """The naming that was recorded last."""
        self._edited = False
        """Whether we made edits since the document was opened."""
        self._carrier: Carrier | None = None
        self._holder: asyncio.Task[Any] | None = None
        """The task within `hold`."""
        self._writers: weakref.WeakSet[CellOutputs] = weakref.WeakSet()
        self._followed: object = None
        """The arrangement of the cells that the writers have followed."""
        self._displays: Displays = {}
        self.last_edits: dict[str, LastEdit] = {}
        """By cell id: our last edit of its text."""

    @property
    def path(self) -> str:
        return self._carrier.path if self._carrier else self._path

    @property
    def carrier(self) -> CarrierName:
        """Where the live document is, or was last."""
        return self._carrier.name if self._carrier else "file"

    @property
    def busy(self) -> bool:
        """Whether an operation is in progress, or a cell runs or is about to."""
        return self.lock.locked() or bool(self.running)

    @property
    def running(self) -> set[str]:
        """The cells that run or are about to."""
        return {writer.cell_id for writer in self._writers if not writer.finished}

    @property
    def has_unsaved_outputs(self) -> bool:
        """Whether a cell runs, or has outputs not known to be saved."""
        return bool(self._writers)

    # ---- reading

    async def read(self) -> list[Cell]:
        """All cells with everything typed up to now."""
        if await self._is_current():
            return self.cached_cells()
        async with self._operation() as carrier:
            return carrier.cells.all()

    async def read_live(self, *, patience: float | None = 0.0) -> list[Cell]:
        """Like `read`, but if the document is live here already, without asking its page for typing
        that is still on its way. `patience`: seconds to wait for the confirmation of an edit in
        progress (None: no limit).
        """
        if patience != 0 and self.lock.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(patience), self.lock:
                    pass
        carrier = self._carrier
        if carrier is not None and await carrier.is_live() and carrier is self._carrier:
            return carrier.cells.all()
        return await self.read()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[list[Cell]]:
        """All cells with everything typed up to now. Until the end of the block this task holds the
        notebook: its operations need not refresh again, and those of others wait.
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
            return self.cached_cell(cell_id)
        async with self._operation() as carrier:
            return carrier.cells.get(cell_id)

    async def metadata(self) -> dict[str, Any]:
        """The notebook's metadata: `kernelspec`, `language_info` and others."""
        async with self._operation() as carrier:
            return carrier.metadata

    async def content(self) -> dict[str, Any]:
        """The notebook as JSON of nbformat 4, with everything typed up to now."""
        async with self._operation() as carrier:
            values, minor = carrier.cells.values(), carrier.cells.format_minor
            metadata = carrier.metadata
        cells = await asyncio.to_thread(lambda: list(map(_nbformat_cell, values)))
        return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}

    @property
    def cached_metadata(self) -> Mapping[str, Any]:
        """The metadata as last read; empty before the first read."""
        return self._carrier.metadata if self._carrier else {}

    def cached_cells(self) -> list[Cell]:
        """All cells as last read, without any request; empty before the first read."""
        return self._carrier.cells.all() if self._carrier else []

    def cached_cell(self, cell_id: str) -> Cell:
        """One cell as last read. Raises CellNotFound."""
        if self._carrier is None:
            raise CellNotFound(cell_id, [])
        return self._carrier.cells.get(cell_id)

    def turns_behind(self, cells: Iterable[Cell]) -> Mapping[str, str]:
        """The turns of this server that wrote the present texts of these cells: cell id -> turn."""
        edits = self.last_edits
        return {
            cell.id: edit.turn_id
            for cell in cells
            if (edit := edits.get(cell.id)) and edit.turn_id and edit.version == cell.version
        }

    @property
    def place(self) -> Place | None:
        """The user's position in the open notebook at the last operation; None if it is not
        open.
        """
        return self._carrier.place if self._carrier else None

    # ---- editing

    async def make(self, steps: Sequence[Step]) -> list[Edit]:
        """Make several edits, of one cell or of many, in this order: all or none.

        If an edit cannot be made, raises its error and changes nothing. With several edits, the
        error's facts have the edit's number from 1 as `edit`.
        """
        operations = [partial(self._make_step, step) for step in steps]
        if len(steps) > 1:
            operations[0] = partial(self._make_first_step, steps)
        return await self._carry_out_all(operations, removes=any(map(may_remove, steps)))

    async def _make_step(self, step: Step, cells: SharedCells) -> EditOutcome:
        return await make_step(step, cells, self.place, self.running)

    async def _make_first_step(self, steps: Sequence[Step], cells: SharedCells) -> EditOutcome:
        """Check first that no later step would be refused: a page shows each change at once."""
        check_steps(steps, cells, self.place, self.running)
        return await self._make_step(steps[0], cells)

    async def put(self, cell_id: str, index: int) -> None:
        """Within an edit: give the cell this index. The user's current cell stays; others move."""
        await put(self._live_cells(), cell_id, index, self.place)

    async def restore(
        self,
        operation: Callable[[SharedCells], Coroutine[Any, Any, Sequence[Change]]],
        *,
        removes: bool,
    ) -> SaveResult:
        """Carry out several changes as one edit: all are confirmed or none. Used to undo.
        `removes`: it may delete or move a cell.
        """
        async with self._operation() as carrier:
            _, saved = await self._carry_out(carrier, operation, removes=removes)
            return saved

    # ---- running

    def outputs(self, cell_id: str, *, limit: int = LIMIT) -> CellOutputs:
        """A writer for a run's outputs in that cell, with at most `limit` characters of text."""
        writer = CellOutputs(self._live_cells, cell_id, self._displays, limit=limit)
        self._writers.add(writer)
        return writer

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        """Set these keys of the notebook's metadata (None removes a key); they are saved with the
        outputs of a run.
        """
        if self._carrier is not None:
            self._carrier.write_metadata(items)

    async def save(self) -> SaveResult:
        """Save the outputs that runs have produced so far."""
        async with self._operation(asks=False) as carrier:
            finished = [writer for writer in self._writers if writer.finished]
            saved = await carrier.save()
            await self._note_ids(carrier.cells, ())
            self._writers.difference_update(finished)
            return saved

    async def trust(self, cell_id: str) -> None:
        """The user approved this cell's run: its outputs count like those of a cell that they ran
        themselves.
        """
        async with self._operation(asks=False) as carrier:
            await carrier.trust(cell_id)

    def note_rename(self, path: str) -> None:
        """The notebook was renamed to this path."""
        self._path = path
        if self._carrier is not None:
            self._carrier.note_rename(path)

    async def close(self) -> None:
        """Release the document; the next operation opens it again."""
        async with self.lock:
            carrier, self._carrier = self._carrier, None
            if carrier is not None:
                self._path = carrier.path
                try:
                    if self._edited:  # in case a program gives the cells other ids until an undo
                        with suppress(AgentError):
                            await self._note_naming(carrier.cells, ())
                finally:
                    self._edited = False
                    await carrier.close()

    # ---- how an operation goes

    async def _is_current(self) -> bool:
        carrier = self._carrier
        if carrier is None or self.lock.locked():
            return False
        try:
            if not await carrier.is_current():
                return False
        except NotebookNotFound:  # or only renamed: a refresh finds that out
            return False
        return carrier is self._carrier and not self.lock.locked()

    @asynccontextmanager
    async def _operation(self, *, asks: bool = True) -> AsyncIterator[Carrier]:
        """The carrier for one operation. `asks`: ask the page for recent typing; not needed to
        confirm or save something that is in a live document already.
        """
        if self._holder is asyncio.current_task() and self._carrier is not None:
            yield self._carrier
            return
        async with self.lock:
            carrier = await self._refreshed_carrier(asks=asks)
            self._follow()
            await carrier.cells.catch_up()
            yield carrier

    async def _refreshed_carrier(self, *, asks: bool) -> Carrier:
        """The carrier that has the document now, even if during the refresh the previous one
        disappears or the notebook is renamed.
        """
        attempts = 0
        while True:
            path, noted = self.path, self._path
            carrier = self._carrier = await self._choose(path, self._carrier)
            if self._path != noted:  # while a page was waited for
                carrier.note_rename(self._path)
            if not asks and await carrier.is_live():
                return carrier
            try:
                await carrier.refresh()
                return carrier
            except NotebookNotFound:
                if self.path == path:
                    raise
                # It was renamed a moment ago, and is at its new path.
            except CarrierGone:
                attempts += 1
                if attempts > _MAX_GONE:
                    raise

    async def _carry_out_all(self, operations: Sequence[Operation], *, removes: bool) -> list[Edit]:
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
                            with_neighbours(each, order)
                            if each.kind in ("delete", "move")
                            else each
                            for each in outcomes[-1].changes(carrier.path, cells)
                        ]
                    )
                net = net_changes([each for changes in made for each in changes])
                edits.refuse_invalid(net)
                return net

            _, saved = await self._carry_out(carrier, change, removes=removes)
            return [
                Edit(
                    carrier.cells.get(outcome.cell_id)
                    if outcome.cell_id in carrier.cells.ids()
                    else None,
                    changes,
                    saved,
                    outcome.merged,
                )
                for outcome, changes in zip(outcomes, made, strict=True)
            ]

    async def namings(self) -> Sequence[Naming]:
        """The namings under which we made edits, as far as the notebook stored no lasting ids; of
        others those from when it was last closed, or before a program gave all cells other ids.
        """
        return await self._namings.of(self.path)

    @property
    def keeps_ids(self) -> bool:
        """Whether everyone who opens the notebook finds the same ids: not before 4.5, nor in text
        notebooks.
        """
        return self.path.endswith(".ipynb") and self._live_cells().keeps_ids

    async def _note_ids(self, cells: SharedCells, before: Collection[str]) -> None:
        if not self.keeps_ids:
            await self._note_naming(cells, before)

    async def _note_naming(self, cells: SharedCells, before: Collection[str]) -> None:
        every = cells.all()
        now = await asyncio.to_thread(lambda: [(cell.version, cell.id) for cell in every])
        naming = Naming(now, frozenset(before).difference(cell_id for _, cell_id in now))
        if naming != self._last_naming:
            await surely(self._namings.note(self.path, naming))
            self._last_naming = naming

    async def _carry_out(
        self,
        carrier: Carrier,
        operation: Callable[[SharedCells], Coroutine[Any, Any, Sequence[Change]]],
        *,
        removes: bool,
    ) -> tuple[Sequence[Change], SaveResult]:
        """Change the document, confirm and verify; take back a change that could not be
        confirmed.
        """
        if not carrier.writable:
            raise Locked(f"`{carrier.path}` is read-only.")
        await carrier.begin(removes=removes)
        before = carrier.cells.ids()
        changes: Sequence[Change] = ()
        with Retraction(carrier.cells) as retract:
            try:
                changes = await surely(operation(carrier.cells))
                self._follow()
                mark = Mark(carrier.cells.document.ydoc)
                wrote = Insertions(carrier.cells, changes)
                await self._note_ids(carrier.cells, before)
                saved = await surely(carrier.confirm())
            except BaseException as error:
                retract(changes)
                with suppress(AgentError):
                    await surely(carrier.withdraw())
                    if isinstance(error, asyncio.CancelledError):
                        # The journal will not have it: if it was saved, save the notebook without
                        # it.
                        await surely(carrier.confirm())
                    await surely(self._note_ids(carrier.cells, ()))
                raise
        self._edited = True
        arrived = mark.is_in(carrier.cells.document.ydoc)
        edits.verify(carrier.cells, changes, wrote, arrived=arrived)
        return changes, saved

    def _follow(self) -> None:
        """Have runs write their outputs again if the document, or a cell, was replaced."""
        arrangement = self._live_cells().arrangement
        if arrangement is not self._followed:
            for writer in self._writers:
                writer.follow()
            self._followed = arrangement

    def _live_cells(self) -> SharedCells:
        if self._carrier is None:
            raise RuntimeError(f"{self._path} is closed")
        return self._carrier.cells


def _nbformat_cell(value: Mapping[str, Any]) -> dict[str, Any]:
    """A value of `SharedCells` without the keys that no file has."""
    cell: dict[str, Any] = as_json(
        {key: item for key, item in value.items() if key != "execution_state"}
    )
    metadata = {key: item for key, item in cell["metadata"].items() if key != "trusted"}
    return {**cell, "metadata": metadata}
