"""A notebook as everybody sees it now, and the edits that tools make in it.

Every edit goes the same way: take the lock, take in what was typed and saved so far, refuse or
change the shared document, have the carrier confirm it, look whether it is really there. What
fails is taken back.
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
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from jupyter_agent.document import edits
from jupyter_agent.document.carrier import Carrier, CarrierGone, Place, Saved
from jupyter_agent.document.cell import CarrierName, Cell, CellType, Change
from jupyter_agent.document.crdt import Retraction, SharedCells, as_json, new_id
from jupyter_agent.document.edits import EditOutcome
from jupyter_agent.document.identities import Naming, Namings
from jupyter_agent.document.insertions import Insertions, Mark
from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.merge import with_typing
from jupyter_agent.document.output_writer import CellOutputs, Displays
from jupyter_agent.document.outputs import LIMIT
from jupyter_agent.errors import (
    AgentError,
    Busy,
    CellNotFound,
    InvalidInput,
    Locked,
    ToolError,
)
from jupyter_agent.tasks import surely

_LOCKS = frozenset({"trusted", "editable", "deletable", "nbgrader"})
"""Keys of a cell's metadata that say who may change it, or what a page may run of it."""
_MAX_GONE = 2
"""Carriers that may go while an operation begins, one after the other."""
_NEIGHBOURS = 5
"""Of a cell on each side that the journal knows: people may delete some before an undo."""

Operation = Callable[[SharedCells], Coroutine[Any, Any, EditOutcome]]
"""One edit of one cell within a transaction."""

ChooseCarrier = Callable[[str, Carrier | None], Awaitable[Carrier]]
"""Where the document of a path is now, given where it was last."""


@dataclass(frozen=True, kw_only=True)
class MetadataPatch:
    """Keys of metadata that get other values, or go where the value is None; tags beside them."""

    items: Mapping[str, Any] = field(default_factory=dict)
    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()

    def onto(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """The metadata with that. Raises Locked for keys that say who may edit the cell."""
        for key in self.items:
            if key in _LOCKS:
                raise Locked(f"`{key}` is not changed here: only a person may, in JupyterLab.")
        kept = {key: item for key, item in metadata.items() if key not in self.items}
        kept |= {key: item for key, item in self.items.items() if item is not None}
        if not self.add_tags and not self.remove_tags:
            return kept
        tags = kept.get("tags", [])
        known = tags if isinstance(tags, list) else []
        wanted = dict.fromkeys([*known, *self.add_tags])
        return {**kept, "tags": [tag for tag in wanted if tag not in self.remove_tags]}


@dataclass(frozen=True, kw_only=True)
class Insert:
    """A cell that is to be inserted after or before another or at an index; at the end if none is
    given.
    """

    source: str
    type: CellType = "code"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None
    before: str | None = None
    index: int | None = None
    cell_id: str = field(default_factory=new_id)
    """Which it will have: a later edit can name it."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """Another text, type or metadata of a cell; id and outputs stay (outputs go with another type).

    `old_string` is replaced by `new_string` in the text as it is now: it occurs once there, or all
    are replaced with `replace_all`. A whole `source` is merged with what was typed since `base`,
    the text it was written for; without a base it needs `expect`, the version of the cell that it
    replaces.
    """

    cell_id: str
    source: str | None = None
    base: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False
    type: CellType | None = None
    metadata: MetadataPatch = MetadataPatch()
    expect: str | None = None


@dataclass(frozen=True, kw_only=True)
class Delete:
    """A cell that is to be deleted."""

    cell_id: str
    expect: str | None = None


@dataclass(frozen=True, kw_only=True)
class Move:
    """A cell that goes after or before another or to an index; to the end if none is given."""

    cell_id: str
    after: str | None = None
    before: str | None = None
    index: int | None = None
    expect: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClearOutputs:
    """A code cell that is to lose its outputs and its number."""

    cell_id: str


Step: TypeAlias = Insert | Update | Delete | Move | ClearOutputs


@dataclass(frozen=True)
class Edit:
    """What an edit did."""

    cell: Cell | None
    """The cell as it is now; None if it was deleted."""
    changes: list[Change]
    saved: Saved
    merged: bool = False
    """A person had changed the cell since the model read it; both changes are in it."""


@dataclass(frozen=True)
class LastEdit:
    """A text that one of our edits gave a cell."""

    turn_id: str | None
    """None: whoever acts in no turn."""
    version: str
    """Of the cell as it was then."""


class Notebook:
    """One notebook of this server, shared by everyone who works in it."""

    def __init__(self, path: str, choose: ChooseCarrier, namings: Namings) -> None:
        self.lock = asyncio.Lock()
        """Held by each operation from reading the newest state to the confirmation of its own."""
        self._path = path
        self._choose = choose
        self._namings = namings
        self._named: Naming | None = None
        """What was noted last."""
        self._carrier: Carrier | None = None
        self._holder: asyncio.Task[Any] | None = None
        """The task within `opened`."""
        self._writers: weakref.WeakSet[CellOutputs] = weakref.WeakSet()
        self._displays: Displays = {}
        self.last_edits: dict[str, LastEdit] = {}
        """By cell id: the last of our edits of its text."""

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

    @property
    def has_unsaved_outputs(self) -> bool:
        """Whether a cell runs, or has put out what is not known to be saved."""
        return bool(self._writers)

    # ---- reading

    async def read(self) -> list[Cell]:
        """All cells with everything typed up to now."""
        if await self._is_current():
            return self.cells()
        async with self._operation() as carrier:
            return carrier.cells.all()

    async def look(self, *, patience: float | None = 0.0) -> list[Cell]:
        """As `read`, but nobody is asked what was typed in a page and is still on its way; for so
        many seconds (None: however long) it waits until the edit under way, if there is one, is
        confirmed.
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

    async def content(self) -> dict[str, Any]:
        """The notebook as JSON of nbformat 4, with everything typed up to now."""
        async with self._operation() as carrier:
            values, minor = carrier.cells.values(), carrier.cells.format_minor
            metadata = carrier.metadata
        cells = await asyncio.to_thread(lambda: list(map(_nbformat_cell, values)))
        return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}

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

    def turns_behind(self, cells: Iterable[Cell]) -> Mapping[str, str]:
        """Which turns of this server wrote the texts that these cells have: cell id -> turn."""
        edits = self.last_edits
        return {
            cell.id: edit.turn_id
            for cell in cells
            if (edit := edits.get(cell.id)) and edit.turn_id and edit.version == cell.version
        }

    @property
    def place(self) -> Place | None:
        """Where the person was in the open notebook at the last operation; None if it is not
        open.
        """
        return self._carrier.place if self._carrier else None

    # ---- editing

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
        step = Insert(source=source, type=type, after=after, before=before, index=index)
        (edit,) = await self.make([step])
        return edit

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
        """Change a cell's text, type or both (Update). Raises Conflict, NotRead, NotOnce, Locked or
        Busy; nothing is changed then.
        """
        (edit,) = await self.make(
            [
                Update(
                    cell_id=cell_id,
                    source=source,
                    base=base,
                    old_string=old_string,
                    new_string=new_string,
                    type=type,
                    expect=expect,
                )
            ]
        )
        return edit

    async def delete(self, cell_id: str, *, expect: str | None = None) -> Edit:
        """Delete a cell. Raises Conflict, Locked or Busy (the person types in it); nothing is
        changed then.
        """
        (edit,) = await self.make([Delete(cell_id=cell_id, expect=expect)])
        return edit

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
        step = Move(cell_id=cell_id, after=after, before=before, index=index, expect=expect)
        (edit,) = await self.make([step])
        return edit

    async def make(self, steps: Sequence[Step]) -> list[Edit]:
        """Make several edits, of one cell or of many, in this order: all or none.

        Raises what the edit raises that could not be made, with its number from 1 as `edit` in the
        facts where there are several; nothing is changed then.
        """
        operations = [self._operation_of(step) for step in steps]
        if len(steps) > 1:
            operations[0] = self._after_a_look_at_all(operations[0], steps)
        return await self._carry_out_all(operations, removes=any(map(_may_remove, steps)))

    def _after_a_look_at_all(self, first: Operation, steps: Sequence[Step]) -> Operation:
        """The first operation; what would refuse a later one refuses all before it: a page shows
        what is done to cells at once.
        """

        async def looking(cells: SharedCells) -> EditOutcome:
            foreseen = edits.Foreseen(cells.all())
            for number, step in enumerate(steps, start=1):
                try:
                    self._foresee(foreseen, step)
                except ToolError as error:
                    none = f"None of the {len(steps)} edits was made, because of edit {number}. "
                    facts = {**error.facts, "edit": number}
                    raise error.saying(none + error.message, facts) from error
            return await first(cells)

        return looking

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
        """Give these keys of the notebook's metadata these values (None: take them out), beside
        what a run put out; they are saved with that.
        """
        if self._carrier is not None:
            self._carrier.write_metadata(items)

    async def save(self) -> Saved:
        """Have what runs have put out so far saved."""
        async with self._operation(asks=False) as carrier:
            finished = [writer for writer in self._writers if writer.finished]
            saved = await carrier.save()
            await self._note_ids(carrier.cells, ())
            self._writers.difference_update(finished)
            return saved

    async def trust(self, cell_id: str) -> None:
        """A person approved this cell's run: its outputs count as those of a cell that they ran
        themselves.
        """
        async with self._operation(asks=False) as carrier:
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

    # ---- what an edit does

    def _operation_of(self, step: Step) -> Operation:
        async def operation(cells: SharedCells) -> EditOutcome:
            match step:
                case Insert():
                    new = _new(cells, step)
                    cells.insert(new.index, new.id, new.state())
                    return EditOutcome(new.id, "insert")
                case Update():
                    return await self._update(cells, step)
                case Delete():
                    cell = self._refuse_delete(cells, step)
                    await cells.delete(cell.id)
                    return EditOutcome(cell.id, "delete", before=cell)
                case Move():
                    cell, at = _refuse_move(cells, step)
                    await self.put(cell.id, at)
                    return EditOutcome(cell.id, "move", before=cell)
                case ClearOutputs():
                    cell = self._refuse_clear(cells, step)
                    if cell.outputs or cell.execution_count is not None:
                        cells.write_outputs(cell.id, (), None)
                    return EditOutcome(cell.id, "outputs", before=cell)

        return operation

    def _foresee(self, cells: edits.Foreseen, step: Step) -> None:
        """As the operation would leave the cells. Raises what it would raise."""
        match step:
            case Insert():
                new = _new(cells, step)
                cells.put(new, new.index)
            case Update():
                cells.put(self._refuse_update(cells, step)[1])
            case Delete():
                cells.delete(self._refuse_delete(cells, step).id)
            case Move():
                cells.put(*_refuse_move(cells, step))
            case ClearOutputs():
                self._refuse_clear(cells, step)

    def _refuse_update(self, cells: edits.CellsView, wanted: Update) -> tuple[Cell, Cell]:
        """The cell as it is, and as it will be."""
        cell = edits.expected(cells, wanted.cell_id, wanted.expect)
        after = preview(cell, wanted)
        if after.type != cell.type:
            edits.refuse_typed_in(cell, self.place, "Its type was not changed")
        return cell, after

    async def _update(self, cells: SharedCells, wanted: Update) -> EditOutcome:
        cell, after = self._refuse_update(cells, wanted)
        text = after.source
        if after.type != cell.type:  # first: a copy takes the place of the cell
            bare = replace(cell.state(), type=after.type, outputs=(), execution_count=None)
            await cells.retype(cell.id, bare)
        now = cells.get(cell.id)
        within = edits.matched(cell, wanted.old_string, text, wanted.replace_all)
        if now.source == cell.source:
            cells.write_source(cell.id, text, within)
        else:
            cells.write_source(cell.id, with_typing(text, cell.source, now.source))
        if after.metadata != cell.metadata:
            cells.write_metadata(cell.id, wanted.metadata.onto(now.metadata))
        base = None if wanted.base is None else unify(wanted.base)
        merged = wanted.source is not None and base not in (None, cell.source)
        return EditOutcome(
            cell.id, "update", before=cell, source=text, within=within, merged=merged
        )

    def _refuse_delete(self, cells: edits.CellsView, wanted: Delete) -> Cell:
        cell = edits.expected(cells, wanted.cell_id, wanted.expect)
        if not cell.deletable:
            raise Locked(f"Cell `{cell.id}` must not be deleted: its author locked it.")
        edits.refuse_typed_in(cell, self.place, "It was not deleted")
        return cell

    def _refuse_clear(self, cells: edits.CellsView, wanted: ClearOutputs) -> Cell:
        cell = cells.get(wanted.cell_id)
        if cell.type != "code":
            raise InvalidInput(f"Cell `{cell.id}` is a {cell.type} cell: it has no outputs.")
        if cell.running or cell.id in self.running:
            raise Busy(f"Cell `{cell.id}` runs. Clear its outputs when it has ended.")
        return cell

    # ---- how an operation goes

    async def _is_current(self) -> bool:
        carrier = self._carrier
        if carrier is None or self.lock.locked() or not await carrier.is_current():
            return False
        return carrier is self._carrier and not self.lock.locked()

    @asynccontextmanager
    async def _operation(self, *, asks: bool = True) -> AsyncIterator[Carrier]:
        """The carrier, for one operation. It `asks` what was typed up to now; what only confirms or
        saves what is in a live document already need not.
        """
        if self._holder is asyncio.current_task() and self._carrier is not None:
            yield self._carrier
            return
        async with self.lock:
            carrier = await self._refreshed(asks=asks)
            self._follow()
            await carrier.cells.catch_up()
            yield carrier

    async def _refreshed(self, *, asks: bool) -> Carrier:
        """The carrier that has the document now, also where the one before goes meanwhile."""
        gone = 0
        while True:
            carrier = self._carrier = await self._choose(self.path, self._carrier)
            if not asks and await carrier.is_live():
                return carrier
            try:
                await carrier.refresh()
                return carrier
            except CarrierGone:
                gone += 1
                if gone > _MAX_GONE:
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
                            _with_neighbours(each, order)
                            if each.kind in ("delete", "move")
                            else each
                            for each in outcomes[-1].changes(carrier.path, cells)
                        ]
                    )
                return _net([each for changes in made for each in changes])

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
        """The ids that its cells had when we made edits, while it kept none for good."""
        return await self._namings.of(self.path)

    @property
    def keeps_ids(self) -> bool:
        """Whether whoever opens it finds the same ids: not before 4.5, nor in text notebooks."""
        return self.path.endswith(".ipynb") and self._live_cells().keeps_ids

    async def _note_ids(self, cells: SharedCells, before: Collection[str]) -> None:
        if self.keeps_ids:
            return
        every = cells.all()
        now = await asyncio.to_thread(lambda: [(cell.version, cell.id) for cell in every])
        naming = Naming(now, frozenset(before).difference(cell_id for _, cell_id in now))
        if naming != self._named:
            await surely(self._namings.note(self.path, naming))
            self._named = naming

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
        before = carrier.cells.ids()
        with Retraction(carrier.cells) as retract:
            try:
                changes = await surely(operation(carrier.cells))
                self._follow()
                edits.refuse_invalid(changes)
                mark = Mark(carrier.cells.document.ydoc)
                wrote = Insertions(carrier.cells, changes)
                await self._note_ids(carrier.cells, before)
                saved = await surely(carrier.confirm())
            except BaseException as error:
                retract()
                with suppress(AgentError):
                    await surely(carrier.withdraw())
                    if isinstance(error, asyncio.CancelledError):
                        # Nobody will journal it: if it was saved, it is saved without.
                        await surely(carrier.confirm())
                    await surely(self._note_ids(carrier.cells, ()))
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


def _nbformat_cell(value: Mapping[str, Any]) -> dict[str, Any]:
    """A value of `SharedCells` without what no file has."""
    cell: dict[str, Any] = as_json(
        {key: item for key, item in value.items() if key != "execution_state"}
    )
    metadata = {key: item for key, item in cell["metadata"].items() if key != "trusted"}
    return {**cell, "metadata": metadata}


def _new(cells: edits.CellsView, wanted: Insert) -> Cell:
    return Cell(
        id=wanted.cell_id,
        index=edits.place(cells, after=wanted.after, before=wanted.before, index=wanted.index),
        type=wanted.type,
        source=edits.text_for_cell(wanted.source),
        metadata=wanted.metadata,
    )


def preview(cell: Cell, wanted: Update) -> Cell:
    """The cell as the edit would leave it, were it as it is here. Raises what the edit raises."""
    base, type = wanted.base, wanted.type or cell.type
    text = edits.proposed(
        cell,
        source=wanted.source,
        base=base if wanted.expect is None or base is not None else cell.source,
        old_string=wanted.old_string,
        new_string=wanted.new_string,
        replace_all=wanted.replace_all,
    )
    bare = replace(cell, outputs=(), execution_count=None, attachments=None)
    kept = cell if type == cell.type else bare
    after = replace(kept, source=text, type=type, metadata=wanted.metadata.onto(cell.metadata))
    if after != cell:
        edits.refuse_locked(cell)
    return after


def _may_remove(step: Step) -> bool:
    return isinstance(step, Delete | Move) or (isinstance(step, Update) and step.type is not None)


def _refuse_move(cells: edits.CellsView, wanted: Move) -> tuple[Cell, int]:
    """The cell, and where it goes."""
    cell = edits.expected(cells, wanted.cell_id, wanted.expect)
    at = edits.place(
        cells, after=wanted.after, before=wanted.before, index=wanted.index, moving=cell.id
    )
    return cell, at


def _net(changes: Sequence[Change]) -> list[Change]:
    """What these changes together did to each cell: an earlier one may be gone in a later one."""
    net: dict[str, Change] = {}
    for change in changes:
        first = net.get(change.cell_id)
        net[change.cell_id] = replace(change, before=first.before, within=None) if first else change
    return [each for each in net.values() if each.before or each.after]


def _with_neighbours(change: Change, order: Sequence[str]) -> Change:
    """The change with what stood above and below the cell."""
    if change.before is None:
        return change
    index = change.before.index
    above, below = order[:index][-_NEIGHBOURS:], order[index + 1 :][:_NEIGHBOURS]
    return replace(change, before=replace(change.before, above=above[::-1], below=below))
