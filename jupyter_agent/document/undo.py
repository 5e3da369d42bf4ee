"""Undoing changes: the reverse of each cell's changes, merged with what people did since.

Texts, keys of metadata, outputs and types are undone change by change, so that edits that people
made between two changes stay too. Positions are undone on a list of ids, by neighbours, and then
restored with as few moves as there were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from jupyter_agent.document.cell import Cell, CellState, Change
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.make_steps import is_cut_off
from jupyter_agent.document.merge import merge_typing
from jupyter_agent.document.merge_cells import merge_objects
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.recognition import Recognition, content_of, lines_of
from jupyter_agent.document.revert import UndoConflict, outputs_of, revert_changes
from jupyter_agent.legible import quoted_id

IN_USE = {
    "typing": "The user was typing in the cell.",
    "running": "The cell was running.",
}
"""Why a cell in use was left alone, by reason; shown at the cell until it is undone."""
_UNKNOWN = "The cells have no lasting ids, so it is unknown which of them this was."
_GONE = "The cell was deleted since, or a program gave it another id."
_MOVED_LINES = (
    "The text written into cell `{cell_id}` is no longer there; the same lines are in {cells}."
)
_RUN_AGAIN = "Cell `{cell_id}` was run again since: those outputs stay."
_CUT_OFF = (
    "Cell `{cell_id}` is back with outputs of a run that had not ended, and not with those from "
    "before that run."
)
_MOST = 3
"""Cells listed in one sentence."""
_SHORT = 3
"""Lines of up to so many characters do not identify their origin."""


@dataclass(frozen=True)
class UndoOutcome:
    """The undone changes, and the conflicts."""

    undone: list[Change]
    """The given changes that the cells no longer have, marked as undone. For a cell in conflict
    this is only its deletion, if the cell was restored with the rest.
    """
    conflicts: list[dict[str, Any]]
    """`notebook`, `cell_id`, `reason` (`changed`, `deleted`, `locked`, `running`, `typing`), `why`
    (a sentence), `current` (the cell; None if it is gone).
    """
    remarks: list[str]
    """Sentences on what stays without a conflict: outputs of later runs, and written lines that
    someone moved to other cells since, for example by splitting one.
    """


async def undo(
    notebook: Notebook, changes: Sequence[Change], turn: Sequence[Change] | None = None
) -> UndoOutcome:
    """Undo changes of one notebook, given in the order they happened, from among all changes of
    their turn there (these alone by default).

    Each cell is undone as a whole, or left alone if someone changed the same part since. Deleted
    cells return with id, metadata, outputs and position. Outputs of later runs stay; a
    change that was nothing but an earlier run is not undone then. Raises the errors of an edit if
    the notebook cannot be changed; nothing is undone then.
    """
    conflicts: dict[str, UndoConflict] = {}
    returned: set[str] = set()
    run_again: set[str] = set()
    current: dict[str, Cell | None] = {}
    remarks: list[str] = []

    async def reverse(cells: SharedCells) -> list[Change]:
        every = changes if turn is None else turn
        recognition = await _recognize(notebook, cells, every)
        now = recognition.now
        doubtful = {now.get(old, old) for old in recognition.doubtful}
        own = [_with_new_ids(change, now) for change in changes]
        before = {cell_id: _get(cells, cell_id) for cell_id in _cell_ids(own)}
        turn_now = [_with_new_ids(change, now) for change in every]
        reversal = _Reversal(notebook, cells, own, turn_now, doubtful)
        ids = {cell_id: now.get(cell_id, cell_id) for cell_id in _cell_ids(changes)}
        conflicts.clear()
        conflicts.update(
            {old: reversal.conflicts[new] for old, new in ids.items() if new in reversal.conflicts}
        )
        returned.clear()
        returned.update(old for old, new in ids.items() if new in reversal.returned)
        run_again.clear()
        run_again.update(old for old, new in ids.items() if new in reversal.run_again)
        current.clear()
        current.update({old: before[new] for old, new in ids.items()})
        await reversal.carry_out()
        remarks[:] = [*reversal.later_runs(), *reversal.cut_off(), *reversal.moved_lines()]
        return [
            _difference(notebook.path, cell_id, cell, _get(cells, cell_id))
            for cell_id, cell in before.items()
            if cell_id not in reversal.conflicts
        ]

    moves = any(change.kind in ("insert", "delete", "move") for change in changes)
    await notebook.restore(reverse, removes=moves)
    undone = [
        replace(change, undone=True)
        for change in changes
        if change.cell_id not in conflicts.keys() | run_again
        or (change.cell_id in returned and change.kind == "delete")
    ]
    conflict_facts = [
        _describe(notebook.path, cell_id, alone, current[cell_id])
        for cell_id, alone in conflicts.items()
    ]
    return UndoOutcome(undone, conflict_facts, remarks)


def _describe(path: str, cell_id: str, left: UndoConflict, cell: Cell | None) -> dict[str, Any]:
    """A cell that was left alone, for the user who undoes."""
    return {
        "notebook": path,
        "cell_id": cell_id,
        "reason": left.reason,
        "why": left.why,
        "current": cell.describe() if cell else None,
    }


async def _recognize(
    notebook: Notebook, cells: SharedCells, changes: Sequence[Change]
) -> Recognition:
    namings = await notebook.namings()
    certain = notebook.keeps_ids or notebook.carrier != "file"
    lasting = notebook.keeps_ids
    recognition = Recognition(cells, namings, changes, certain=certain, lasting=lasting)
    if not notebook.keeps_ids:
        recognition.doubt_unnamed(namings)
    return recognition


def _with_new_ids(change: Change, now: Mapping[str, str]) -> Change:
    before = change.before
    if before is not None:
        above, below = ([now.get(key, key) for key in ids] for ids in (before.above, before.below))
        before = replace(before, above=above, below=below)
    return replace(change, cell_id=now.get(change.cell_id, change.cell_id), before=before)


def order_before(order: Sequence[str], changes: Sequence[Change]) -> list[str]:
    """The present ids in the order they would have without these changes."""
    ids = list(order)
    for at, change in reversed([*enumerate(changes)]):
        if change.kind not in ("insert", "move", "delete"):
            continue
        exists = change.cell_id in ids
        if exists and change.kind in ("insert", "move"):
            ids.remove(change.cell_id)
        if change.before and (change.kind == "move" if exists else change.kind == "delete"):
            elsewhere = {
                each.cell_id for each in changes[:at] if each.undone and each.kind == "move"
            }
            ids.insert(_place(ids, change.before, elsewhere), change.cell_id)
    return ids


def _place(ids: Sequence[str], before: CellState, elsewhere: Collection[str]) -> int:
    """The index next to the nearest of its former neighbours, but for those that are `elsewhere`
    now.
    """
    there = set(ids).difference(elsewhere)
    for above, below in zip_longest(before.above, before.below):
        if above in there:
            return ids.index(above) + 1
        if below in there:
            return ids.index(below)
    if not before.below and before.above:
        return len(ids)  # it was the last one
    return min(before.index, len(ids))


class _Reversal:
    """The plan of what to do to each cell: everything that can be refused is refused before
    anything is done.
    """

    def __init__(
        self,
        notebook: Notebook,
        cells: SharedCells,
        changes: Sequence[Change],
        turn: Sequence[Change],
        doubtful: Collection[str],
    ) -> None:
        self.conflicts: dict[str, UndoConflict] = {}
        """Cell id -> why it is left alone."""
        self.returned = set[str]()
        """Cells in conflict that are restored as they were when deleted: what someone does to them
        from then on, even a later deletion, is not part of these changes.
        """
        self._notebook = notebook
        self._cells = cells
        self._turn = turn
        self._doubtful = doubtful
        self._displaced = {
            change.cell_id for change in turn if change.kind == "move" and not change.undone
        }
        self._planned: dict[str, CellState] = {}
        """The existing cells at the time of planning."""
        self._former: dict[str, CellState | None] = {}
        """The final state of each cell that is not left alone; None if it must not exist."""
        self.run_again: set[str] = set()
        """Cells that were only run, and have the outputs of a later run: these stay, and the change
        can be undone once they are gone.
        """
        self._missing: dict[str, set[str]] = {}
        """Lines that the changes wrote into a cell and that it no longer has."""
        of_cell = defaultdict[str, list[Change]](list)
        for change in changes:
            of_cell[change.cell_id].append(change)
        for cell_id, own in of_cell.items():
            now = _get(cells, cell_id)
            if now is not None:
                self._planned[cell_id] = now.state()
            try:
                self._former[cell_id] = former = self._reverse(now, own)
                if now and former and _is_run_again(now.state(), former, own):
                    self.run_again.add(cell_id)
            except UndoConflict as left:
                self.conflicts[cell_id] = left
                if now is None and own[-1].after is None:
                    self._former[cell_id] = own[-1].before
                    self.returned.add(cell_id)
            if now is None or cell_id not in self.conflicts:
                if missing := _added_lines(own).difference(lines_of(now.source if now else "")):
                    self._missing[cell_id] = missing

    async def carry_out(self) -> None:
        """First the steps that others may do for us, which take a while and replace cells by
        copies; then our own writes.
        """
        for cell_id, former in self._former.items():
            if cell_id not in self._cells.ids():
                continue
            if former is None:
                await self._cells.delete(cell_id)
            elif former.type != self._cells.get(cell_id).type:
                await self._cells.retype(cell_id, former)
        order = self._order()
        await self._move_back(order)
        self._bring_back(order)
        for cell_id, former in self._former.items():
            planned = self._planned.get(cell_id)
            if former is not None and planned is not None and cell_id in self._cells.ids():
                self._restore(self._cells.get(cell_id), planned, former)

    def later_runs(self) -> list[str]:
        """What stays of cells that were only run."""
        return [_RUN_AGAIN.format(cell_id=quoted_id(each)) for each in sorted(self.run_again)]

    def cut_off(self) -> list[str]:
        """Which cells are back without the outputs of before a run that lost its cell."""
        return [
            _CUT_OFF.format(cell_id=quoted_id(cell_id))
            for cell_id, former in self._former.items()
            if former is not None and is_cut_off(former)
            if cell_id not in self._planned or not is_cut_off(self._planned[cell_id])
        ]

    def moved_lines(self) -> list[str]:
        """Where lines are now that the changes wrote and that are no longer in their cells."""
        own = {
            change.cell_id: lines_of(change.before.source)
            for change in reversed(self._turn)
            if change.before is not None
        }
        sentences = []
        for cell_id, lines in self._missing.items():
            holders = [
                cell.id
                for cell in self._cells.all()
                if lines.intersection(lines_of(cell.source)).difference(own.get(cell.id, ()))
            ]
            cells = " and ".join(f"`{quoted_id(each)}`" for each in holders[:_MOST])
            if holders:
                sentences.append(_MOVED_LINES.format(cell_id=quoted_id(cell_id), cells=cells))
        return sentences

    def _order(self) -> list[str]:
        """The ids in their final order, including some of cells that do not exist."""
        returned = {change.cell_id for change in self._turn if change.after is None}
        order = [cell_id for cell_id in self._cells.ids() if cell_id not in returned]
        turn = [
            change
            for change in self._turn
            if change.kind != "insert" or change.cell_id not in self.conflicts
        ]
        return order_before(order, turn)

    async def _move_back(self, order: Sequence[str]) -> None:
        """Put each moved cell below the next one above it that is already in place."""
        above: str | None = None
        for cell_id in order:
            if cell_id not in self._cells.ids():
                continue
            if cell_id in self._displaced:
                if self._former.get(cell_id) is None:
                    continue
                await self._notebook.put(cell_id, self._below(above, cell_id))
            above = cell_id

    def _bring_back(self, order: Sequence[str]) -> None:
        """Do the same for the deleted cells."""
        above: str | None = None
        for cell_id in order:
            former = self._former.get(cell_id)
            if cell_id not in self._cells.ids():
                if former is None:
                    continue
                there = replace(former, stored=former.text_as_stored)
                self._cells.insert(self._below(above, cell_id), cell_id, there)
            elif cell_id in self._displaced and former is None:
                continue
            above = cell_id

    def _below(self, above: str | None, cell_id: str) -> int:
        others = [other for other in self._cells.ids() if other != cell_id]
        return others.index(above) + 1 if above is not None else 0

    def _restore(self, now: Cell, planned: CellState, former: CellState) -> None:
        """Apply the difference between the planned and the former state to the cell as it is
        now.
        """
        self._cells.write_source(
            now.id,
            former.source
            if now.source == planned.source
            else merge_typing(former.source, planned.source, now.source),
            stored=former.stored,
        )
        metadata = merge_objects(planned.metadata, now.metadata, former.metadata)
        self._cells.write_metadata(now.id, metadata)
        if planned.type == former.type == now.type and outputs_of(now.state()) == outputs_of(
            planned
        ):
            if outputs_of(planned) != outputs_of(former):
                self._cells.write_outputs(now.id, former.outputs, former.execution_count)

    # ---- one cell

    def _reverse(self, now: Cell | None, changes: Sequence[Change]) -> CellState | None:
        """The cell without its changes. Raises UndoConflict."""
        first, last = changes[0], changes[-1]
        if first.cell_id in self._doubtful:
            raise UndoConflict("deleted" if now is None else "changed", _UNKNOWN)
        if now is not None and first.before is not None and _equals(now.state(), first.before):
            return now.state()  # someone reverted it, or an undo that could not report it
        if now is not None:
            state = now.state()  # also if it was deleted and someone has restored it
        elif last.after is None and last.before is not None:
            state = last.before
        elif first.before is None:
            return None
        else:
            raise UndoConflict("deleted", _GONE)
        former = revert_changes(state, changes)
        if first.before is not None:
            if now is not None:
                self._refuse(now, former)
            return former
        if first.after is None or content_of(former) != content_of(first.after):
            raise UndoConflict(
                "changed", "The cell was inserted by the assistant and has been changed since."
            )
        if now is not None:
            self._refuse_in_use(now)
        return None

    def _refuse(self, now: Cell, former: CellState) -> None:
        if now.locked and (now.type, now.source) != (former.type, former.source):
            raise UndoConflict("locked", "The cell was locked since.")
        if now.type != former.type:
            self._refuse_in_use(now)
        if now.running and outputs_of(now.state()) != outputs_of(former):
            raise UndoConflict("running", IN_USE["running"])

    def _refuse_in_use(self, now: Cell) -> None:
        place = self._notebook.place
        if place is not None and place.editing and place.cell_id == now.id:
            raise UndoConflict("typing", IN_USE["typing"])
        if now.running:
            raise UndoConflict("running", IN_USE["running"])
        if not now.deletable:
            raise UndoConflict("locked", "The cell was locked since.")


def _added_lines(changes: Sequence[Change]) -> set[str]:
    """The lines that the changes added to a cell, without short ones like `)`."""
    first, last = changes[0].before, changes[-1].after
    lines = {line for line in lines_of(last.source) if len(line.strip()) > _SHORT} if last else ()
    return set(lines).difference(lines_of(first.source) if first else ())


def _equals(state: CellState, before: CellState) -> bool:
    written, former = (
        (each.type, each.source, dict(each.metadata), each.attachments or {}, outputs_of(each))
        for each in (state, before)
    )
    return written == former


def _is_run_again(now: CellState, former: CellState, changes: Sequence[Change]) -> bool:
    before = changes[0].before
    if before is None or any(change.kind != "outputs" for change in changes):
        return False
    return outputs_of(now) == outputs_of(former) != outputs_of(before)


def _cell_ids(changes: Sequence[Change]) -> list[str]:
    return list(dict.fromkeys(change.cell_id for change in changes))


def _get(cells: SharedCells, cell_id: str) -> Cell | None:
    return cells.get(cell_id) if cell_id in cells.ids() else None


def _difference(path: str, cell_id: str, before: Cell | None, now: Cell | None) -> Change:
    """The change of a cell, for the notebook to verify."""
    return Change(
        notebook=path,
        cell_id=cell_id,
        kind="update",
        before=before.state() if before else None,
        after=now.state() if now else None,
    )
