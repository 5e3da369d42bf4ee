"""Makes the steps of an edit in the live cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jupyter_agent.document import edits
from jupyter_agent.document.carrier import Place
from jupyter_agent.document.cell import Cell, CellState
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.edits import EditOutcome
from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.merge import merge_typing
from jupyter_agent.document.steps import (
    ClearOutputs,
    Delete,
    Insert,
    Move,
    SimulatedCells,
    Step,
    Update,
    check_clear,
    check_delete,
    check_move,
    check_update,
    new_cell,
    simulate,
)
from jupyter_agent.errors import ToolError

_CUT_OFF = "[... the cell was taken from its run, whose later outputs are not here ...]\n"


def check_steps(
    steps: Sequence[Step], cells: SharedCells, place: Place | None, running: Collection[str]
) -> None:
    """Raises the error of the first step that would be refused after those before it; its facts
    have the step's number from 1 as `edit`.
    """
    simulated = SimulatedCells(cells.all())
    for number, step in enumerate(steps, start=1):
        try:
            simulate(simulated, step, place=place, running=running)
        except ToolError as error:
            refusal = f"None of the {len(steps)} edits was made, because of edit {number}. "
            facts = {**error.facts, "edit": number}
            raise error.saying(refusal + error.message, facts) from error


async def make_step(
    step: Step, cells: SharedCells, place: Place | None, running: Collection[str]
) -> EditOutcome:
    """Make one step; `place` is the user's, `running` the cells with runs. Raises ToolError if it
    is refused.
    """
    match step:
        case Insert():
            new = new_cell(cells, step)
            cells.insert(new.index, new.id, new.state())
            return EditOutcome(new.id, "insert")
        case Update():
            return await _update(cells, step, place)
        case Delete():
            cell = check_delete(cells, step, place)
            await cells.delete(cell.id)
            return EditOutcome(cell.id, "delete", before=_before_loss(cell))
        case Move():
            cell, at = check_move(cells, step)
            await put(cells, cell.id, at, place)
            return EditOutcome(cell.id, "move", before=cell)
        case ClearOutputs():
            cell = check_clear(cells, step, running)
            if cell.outputs or cell.execution_count is not None:
                cells.write_outputs(cell.id, (), None)
            return EditOutcome(cell.id, "outputs", before=cell)


async def put(cells: SharedCells, cell_id: str, index: int, place: Place | None) -> None:
    """Give the cell this index. The user's current cell stays; others move."""
    if place is not None and place.cell_id == cell_id:
        await cells.move_others(cell_id, index)
    else:
        await cells.move(cell_id, index)


async def _update(cells: SharedCells, wanted: Update, place: Place | None) -> EditOutcome:
    cell, after = check_update(cells, wanted, place)
    text = after.source
    if after.type != cell.type:  # first: a copy replaces the cell
        bare = replace(cell.state(), type=after.type, outputs=(), execution_count=None)
        await cells.retype(cell.id, bare)
    now = cells.get(cell.id)
    within = edits.replaced_span(cell, wanted.old_string, text, wanted.replace_all)
    if now.source == cell.source:
        cells.write_source(cell.id, text, within)
    else:
        cells.write_source(cell.id, merge_typing(text, cell.source, now.source))
    if after.metadata != cell.metadata:
        cells.write_metadata(cell.id, wanted.metadata.apply_to(now.metadata))
    base = None if wanted.base is None else unify(wanted.base)
    merged = wanted.source is not None and base not in (None, cell.source)
    before = cell if after.type == cell.type else _before_loss(cell)
    return EditOutcome(cell.id, "update", before=before, source=text, within=within, merged=merged)


def _before_loss(cell: Cell) -> Cell:
    """The cell as an undo brings it back once its outputs are lost: those of a run that has not
    ended must not look complete.
    """
    if not cell.running:
        return cell
    last = cell.outputs[-1] if cell.outputs else {}
    name = "stdout" if last.get("name") == "stderr" else "stderr"  # a page would join two
    note = {"output_type": "stream", "name": name, "text": _CUT_OFF}
    return replace(cell, outputs=[*cell.outputs, note])


def is_cut_off(state: CellState) -> bool:
    """Whether the cell has outputs of a run that had not ended when the cell was taken from it."""
    return bool(state.outputs) and state.outputs[-1].get("text") == _CUT_OFF
