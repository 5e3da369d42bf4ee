"""Taking changes back: the reverse of what was done to each cell, merged with what people did
since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_agent.notebook.cell import Cell, CellState, Change
from jupyter_agent.notebook.document import Notebook
from jupyter_agent.notebook.merge import MergeConflict, merge
from jupyter_agent.notebook.shared import SharedCells


@dataclass(frozen=True)
class Undone:
    """What was taken back, and what was left as it is."""

    undone: list[Change]
    """The given changes of all cells that are now without them, marked so."""
    conflicts: list[dict[str, Any]]
    """`notebook`, `cell_id`, `why` (a sentence), `current` (the cell; None where it is gone)."""


async def undo(notebook: Notebook, changes: Sequence[Change]) -> Undone:
    """Take back changes of one notebook, given in the order they happened.

    Each cell is taken back as a whole or, where somebody changed the same since, left alone.
    Deleted cells return with id, metadata, outputs and place. Outputs of later runs stay.
    Raises what an edit raises where the notebook cannot be changed; then nothing is.
    """
    conflicts: dict[str, dict[str, Any]] = {}

    def reverse(cells: SharedCells) -> list[Change]:
        conflicts.clear()
        reversal = _Reversal(notebook, cells, changes)
        done = []
        for step in reversal.steps:
            before = reversal.cell(step.cell_id)
            try:
                reversal.reverse(step)
            except _LeftAlone as why:
                conflicts[step.cell_id] = {
                    "notebook": notebook.path,
                    "cell_id": step.cell_id,
                    "why": str(why),
                    "current": before.describe() if before else None,
                }
            else:
                done.append((step.cell_id, before))
        return [_difference(notebook.path, reversal, cell_id, before) for cell_id, before in done]

    await notebook.restore(reverse)
    undone = [replace(change, undone=True) for change in changes if change.cell_id not in conflicts]
    return Undone(undone, list(conflicts.values()))


class _LeftAlone(Exception):
    """The cell cannot be taken back; the text says why."""


@dataclass(frozen=True)
class _Step:
    """All that happened to one cell: its state before the first change and after the last one."""

    cell_id: str
    before: CellState | None
    after: CellState | None
    index: int
    """Where the cell was before all changes; 0 for one that was not there."""
    moved: bool


class _Reversal:
    """Takes back one cell after the other."""

    def __init__(self, notebook: Notebook, cells: SharedCells, changes: Sequence[Change]) -> None:
        # What was inserted goes first; then places fill from the top, counted among settled cells.
        steps = [
            _fold(changes, cell_id)
            for cell_id in dict.fromkeys(change.cell_id for change in changes)
        ]
        self.steps = sorted(steps, key=lambda step: (step.before is not None, step.index))
        self._notebook = notebook
        self._cells = cells
        self._unsettled = {step.cell_id for step in steps if step.moved}

    def cell(self, cell_id: str) -> Cell | None:
        """The cell as it is now."""
        return self._cells.get(cell_id) if cell_id in self._cells.ids() else None

    def reverse(self, step: _Step) -> None:
        """Raises _LeftAlone, with the cell as it was."""
        now = self.cell(step.cell_id)
        self._unsettled.discard(step.cell_id)
        if step.before is None:
            if now is not None and step.after is not None:
                self._delete(now, step.after)
        elif now is not None and step.after is not None:
            self._restore(step, now, step.before, step.after)
        elif now is None and step.after is None:
            self._cells.insert(self._place(step), step.cell_id, step.before)
        elif now is None:
            raise _LeftAlone("The cell was deleted since.")

    def _delete(self, now: Cell, after: CellState) -> None:
        if (now.type, now.source) != (after.type, after.source):
            raise _LeftAlone("The cell was inserted by the assistant and has been changed since.")
        self._refuse_in_use(now)
        self._cells.delete(now.id)

    def _restore(self, step: _Step, now: Cell, before: CellState, after: CellState) -> None:
        source = self._merged(now, before, after)
        if before.type != after.type:
            if now.type != after.type:
                raise _LeftAlone("The type of the cell was changed again since.")
            self._refuse_in_use(now)
        if now.locked and source != now.source:
            raise _LeftAlone("The cell was locked since.")
        self._cells.write_source(now.id, source)
        if before.metadata != after.metadata:
            self._cells.write_metadata(now.id, _with_former_keys(now, before, after))
        if before.type != after.type:
            self._cells.retype(now.id, before)
        elif before.outputs != after.outputs and now.outputs == after.outputs and not now.running:
            self._cells.write_outputs(now.id, before.outputs, before.execution_count)
        if step.moved:
            self._notebook.put(now.id, self._place(step))

    def _merged(self, now: Cell, before: CellState, after: CellState) -> str:
        try:
            return merge(after.source, now.source, before.source)
        except MergeConflict:
            raise _LeftAlone("Somebody changed the same lines since.") from None

    def _refuse_in_use(self, now: Cell) -> None:
        place = self._notebook.place
        if place is not None and place.editing and place.cell_id == now.id:
            raise _LeftAlone("The user is typing in the cell right now.")
        if now.running:
            raise _LeftAlone("The cell is running.")
        if not now.deletable:
            raise _LeftAlone("The cell was locked since.")

    def _place(self, step: _Step) -> int:
        """The index that puts the cell behind as many settled cells as it had before it."""
        others = [cell_id for cell_id in self._cells.ids() if cell_id != step.cell_id]
        settled = 0
        for index, cell_id in enumerate(others):
            if cell_id not in self._unsettled:
                if settled == step.index:
                    return index
                settled += 1
        return len(others)


def _fold(changes: Sequence[Change], cell_id: str) -> _Step:
    numbers = [number for number, change in enumerate(changes) if change.cell_id == cell_id]
    first, last = changes[numbers[0]], changes[numbers[-1]]
    return _Step(
        cell_id,
        first.before,
        last.after,
        index=_index_before(changes[: numbers[0]], first.before.index) if first.before else 0,
        moved=any(changes[number].kind == "move" for number in numbers),
    )


def _index_before(earlier: Sequence[Change], index: int) -> int:
    """Where the cell that has this index after those changes (none of its own) was before them."""
    for change in reversed(earlier):
        if change.kind in ("insert", "move") and change.after and index > change.after.index:
            index -= 1
        if change.kind in ("delete", "move") and change.before and index >= change.before.index:
            index += 1
    return index


def _with_former_keys(now: Cell, before: CellState, after: CellState) -> dict[str, Any]:
    """The metadata now, with what the changes did to single keys taken back."""
    metadata = dict(now.metadata)
    for key in before.metadata.keys() | after.metadata.keys():
        if metadata.get(key) == after.metadata.get(key) != before.metadata.get(key):
            metadata.pop(key, None)
            if key in before.metadata:
                metadata[key] = before.metadata[key]
    return metadata


def _difference(path: str, reversal: _Reversal, cell_id: str, before: Cell | None) -> Change:
    """What the reversal did to a cell, for the notebook to verify."""
    now = reversal.cell(cell_id)
    return Change(
        notebook=path,
        cell_id=cell_id,
        kind="update",
        before=before.state() if before else None,
        after=now.state() if now else None,
    )
