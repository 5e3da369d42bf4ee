"""The edits that a tool can ask for, and why one is refused before anything changes.

A check raises the error of the step that it is for; `place` is where the user types now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from jupyter_agent.document import edits
from jupyter_agent.document.carrier import Place
from jupyter_agent.document.cell import Cell, CellType, Change
from jupyter_agent.document.edits import CellsView
from jupyter_agent.document.values import new_id
from jupyter_agent.errors import Busy, CellNotFound, InvalidInput, Locked

_LOCKS = frozenset({"trusted", "editable", "deletable", "nbgrader"})
"""Keys of a cell's metadata that control who may change it, or what a page may run."""


@dataclass(frozen=True, kw_only=True)
class MetadataPatch:
    """Keys of metadata to set, or to remove if the value is None, and changes of the tags."""

    items: Mapping[str, Any] = field(default_factory=dict)
    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()

    def apply_to(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """The patched metadata. Raises Locked for keys that say who may edit the cell."""
        for key in self.items:
            if key in _LOCKS:
                raise Locked(f"`{key}` is not changed here: only a person may, in JupyterLab.")
        patched = {key: item for key, item in metadata.items() if key not in self.items}
        patched |= {key: item for key, item in self.items.items() if item is not None}
        if not self.add_tags and not self.remove_tags:
            return patched
        tags = patched.get("tags", [])
        present = tags if isinstance(tags, list) else []
        wanted = dict.fromkeys([*present, *self.add_tags])
        return {**patched, "tags": [tag for tag in wanted if tag not in self.remove_tags]}


@dataclass(frozen=True, kw_only=True)
class Insert:
    """Inserts a cell after or before another or at an index; at the end if none is given."""

    source: str
    type: CellType = "code"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None
    before: str | None = None
    index: int | None = None
    cell_id: str = field(default_factory=new_id)
    """The new cell's id: a later edit can refer to it."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """Changes the text, type or metadata of a cell; id and outputs stay (another type loses the
    outputs).

    `old_string` is replaced by `new_string` in the present text: it must occur once, or all
    occurrences are replaced with `replace_all`. A whole `source` is merged with typing
    since `base`, the text it was written for; without a base it needs `expect`, the version of the
    cell that it replaces.
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
    """Deletes a cell."""

    cell_id: str
    expect: str | None = None


@dataclass(frozen=True, kw_only=True)
class Move:
    """Moves a cell after or before another or to an index; to the end if none is given."""

    cell_id: str
    after: str | None = None
    before: str | None = None
    index: int | None = None
    expect: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClearOutputs:
    """Clears the outputs and the number of a code cell."""

    cell_id: str


Step: TypeAlias = Insert | Update | Delete | Move | ClearOutputs


def may_remove(step: Step) -> bool:
    """Whether the step may delete or move a cell, or replace it by another."""
    return isinstance(step, Delete | Move) or (isinstance(step, Update) and step.type is not None)


class SimulatedCells:
    """Cells as a list of edits would leave them, to refuse all of the edits before the first is
    made.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = {cell.id: cell for cell in cells}
        self._order = [*self._cells]

    def ids(self) -> list[str]:
        return self._order

    def index(self, cell_id: str) -> int:
        self.get(cell_id)
        return self._order.index(cell_id)

    def get(self, cell_id: str) -> Cell:
        if cell_id not in self._cells:
            raise CellNotFound(cell_id, self._order)
        return self._cells[cell_id]

    def put(self, cell: Cell, index: int | None = None) -> None:
        """Add or replace the cell, at this index if it moves. Raises InvalidInput."""
        former = self._cells.get(cell.id)
        before, after = former.state() if former else None, cell.state()
        change = Change(notebook="", cell_id=cell.id, kind="update", before=before, after=after)
        edits.refuse_invalid([change])
        self._cells[cell.id] = cell
        if index is not None:
            self._order = [other for other in self._order if other != cell.id]
            self._order.insert(index, cell.id)

    def delete(self, cell_id: str) -> None:
        del self._cells[cell_id]
        self._order.remove(cell_id)


def simulate(
    cells: SimulatedCells, step: Step, *, place: Place | None, running: Collection[str]
) -> None:
    """Apply the step to the simulated cells. Raises the errors that the step would raise."""
    match step:
        case Insert():
            new = new_cell(cells, step)
            cells.put(new, new.index)
        case Update():
            cells.put(check_update(cells, step, place)[1])
        case Delete():
            cells.delete(check_delete(cells, step, place).id)
        case Move():
            cells.put(*check_move(cells, step))
        case ClearOutputs():
            check_clear(cells, step, running)


def new_cell(cells: CellsView, wanted: Insert) -> Cell:
    """The cell to insert."""
    return Cell(
        id=wanted.cell_id,
        index=edits.target_index(
            cells, after=wanted.after, before=wanted.before, index=wanted.index
        ),
        type=wanted.type,
        source=edits.text_for_cell(wanted.source),
        metadata=wanted.metadata,
    )


def check_update(cells: CellsView, wanted: Update, place: Place | None) -> tuple[Cell, Cell]:
    """The cell before and after the edit."""
    cell = edits.require_version(cells, wanted.cell_id, wanted.expect)
    after = preview(cell, wanted)
    if after.type != cell.type:
        edits.refuse_typed_in(cell, place, "Its type was not changed")
    return cell, after


def preview(cell: Cell, wanted: Update) -> Cell:
    """The cell as the edit would leave it if the cell is as given. Raises the edit's errors."""
    base, type = wanted.base, wanted.type or cell.type
    text = edits.edited_text(
        cell,
        source=wanted.source,
        base=base if wanted.expect is None or base is not None else cell.source,
        old_string=wanted.old_string,
        new_string=wanted.new_string,
        replace_all=wanted.replace_all,
    )
    bare = replace(cell, outputs=(), execution_count=None, attachments=None)
    base_cell = cell if type == cell.type else bare
    after = replace(
        base_cell, source=text, type=type, metadata=wanted.metadata.apply_to(cell.metadata)
    )
    if after != cell:
        edits.refuse_locked(cell)
    return after


def check_delete(cells: CellsView, wanted: Delete, place: Place | None) -> Cell:
    """The cell to delete."""
    cell = edits.require_version(cells, wanted.cell_id, wanted.expect)
    if not cell.deletable:
        raise Locked(f"Cell `{cell.id}` must not be deleted: its author locked it.")
    edits.refuse_typed_in(cell, place, "It was not deleted")
    return cell


def check_move(cells: CellsView, wanted: Move) -> tuple[Cell, int]:
    """The cell and its new index."""
    cell = edits.require_version(cells, wanted.cell_id, wanted.expect)
    at = edits.target_index(
        cells, after=wanted.after, before=wanted.before, index=wanted.index, moving=cell.id
    )
    return cell, at


def check_clear(cells: CellsView, wanted: ClearOutputs, running: Collection[str]) -> Cell:
    """The cell whose outputs to clear."""
    cell = cells.get(wanted.cell_id)
    if cell.type != "code":
        raise InvalidInput(f"Cell `{cell.id}` is a {cell.type} cell: it has no outputs.")
    if cell.running or cell.id in running:
        raise Busy(f"Cell `{cell.id}` runs. Clear its outputs when it has ended.")
    return cell
