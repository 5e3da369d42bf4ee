"""Finds the cells that a turn changed in a notebook that stores no cell ids, or in which a program
has replaced them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from jupyter_agent.document.cell import Cell, CellState, Change, version_of
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.identities import (
    Naming,
    has_other_ids,
    is_in_use,
    match_cells,
)
from jupyter_agent.document.values import new_id

_SIMILAR = 0.6
"""Similarity above which two texts count as versions of one text."""
_OF_VIEW = frozenset({"trusted", "execution", "collapsed", "scrolled", "ExecuteTime"})
"""Keys of metadata that Jupyter writes when a cell is run or looked at."""


class Recognition:
    """The present cells of a turn; a program that opened the notebook since may have given them
    other ids.
    """

    def __init__(
        self,
        cells: SharedCells,
        namings: Sequence[Naming],
        changes: Sequence[Change],
        *,
        certain: bool,
        lasting: bool,
    ) -> None:
        """`certain`: an id that still exists belongs to the same cell. `lasting`: the notebook
        stores ids, and only another program gives cells others.
        """
        self.now: dict[str, str] = {}
        """Id in the changes -> id now."""
        self.doubtful = set[str]()
        """Ids of the changes whose cell is uncertain."""
        self._cells = cells.all()
        self._versions = [cell.version for cell in self._cells]
        self._ids = frozenset(cells.ids())
        self._last = {change.cell_id: change for change in changes}
        for naming in namings:
            foreign = self._has_other_ids(naming) if lasting else not is_in_use(naming, self._ids)
            if foreign or not lasting:
                self._find(naming, frozenset() if lasting else self._ids, foreign=foreign)
            if foreign or not certain:
                self._doubt(naming)
        self._find_reused_ids()

    def doubt_unnamed(self, namings: Sequence[Naming]) -> None:
        """For cells whose ids were never recorded: trust only those that are as the turn left them,
        in the same place.
        """
        for cell_id in set(self._last).difference(*(naming.ids for naming in namings)):
            change = self._last[cell_id]
            alike = self._cells_with_text(change.after)
            if (
                change.after is not None
                and change.kind != "move"
                and [cell.index for cell in alike] == [change.after.index]
            ):
                self.now[cell_id] = alike[0].id
            else:
                self.doubtful.add(cell_id)

    def _has_other_ids(self, naming: Naming) -> bool:
        """Whether a program has given the cells of the changes other ids than these. If it numbers
        the cells, they may also have had these at another time.
        """
        now = [
            (version, cell.id) for version, cell in zip(self._versions, self._cells, strict=True)
        ]
        if not has_other_ids(naming.cells, now):
            return False
        versions = {cell_id: version for version, cell_id in naming.cells}
        states = {cell_id: change.after for cell_id, change in self._last.items()}
        fitting = [
            versions.get(cell_id) == (state and version_of(state.type, state.source))
            for cell_id, state in states.items()
        ]
        return naming.ids.isdisjoint(self._ids) or 2 * sum(fitting) > len(fitting)

    def _find(self, naming: Naming, there: frozenset[str], *, foreign: bool) -> None:
        """Find cells by their position; changed cells whose position is ambiguous only if they
        resemble their former text. `there`: ids that still belong to the same cells.
        """
        ids = naming.ids
        strangers = {cell.id: cell for cell in self._cells if cell.id not in ids & there}
        for pair in match_cells([version for version, _ in naming.cells], self._versions):
            (_, former), cell = naming.cells[pair.former], self._cells[pair.now]
            if (pair.same or foreign) and former not in there and cell.id in strangers:
                self.now[former] = strangers.pop(cell.id).id
        then = Counter(version for version, _ in naming.cells)
        for cell_id in self._last.keys() & ids - there - self.now.keys():
            change = self._last[cell_id]
            if change.after is None:
                found = self._find_restored(change.before, strangers.values(), then)
            else:
                found = _most_similar(change.after, strangers.values()) if foreign else None
            if found is not None:
                self.now[cell_id] = strangers.pop(found.id).id
            elif cell_id in self._ids:  # another cell has it
                self.now[cell_id] = new_id()

    def _find_restored(
        self, state: CellState | None, strangers: Iterable[Cell], then: Mapping[str, int]
    ) -> Cell | None:
        """The cell with which someone restored what the turn deleted."""
        found = next((cell for cell in strangers if _has_text_of(cell, state)), None)
        if found is None or self._versions.count(found.version) <= then[found.version]:
            return None
        return found

    def _doubt(self, naming: Naming) -> None:
        """Mark cells as doubtful: cells with the same text cannot be distinguished once some were
        added or removed, nor can a match that lacks our edits of it.
        """
        then = Counter(version for version, _ in naming.cells)
        now = Counter(self._versions)
        by_id = {cell.id: cell for cell in self._cells}
        for cell_id in self._last.keys() & naming.ids:
            state, cell = self._last[cell_id].after, by_id.get(self.now.get(cell_id, cell_id))
            if state is None:
                continue
            version = version_of(state.type, state.source)
            alike = max(then[version], now[version]) > 1
            if (
                (alike and then[version] != now[version])
                or (alike and cell is not None and content_of(cell.state()) != content_of(state))
                or (cell is not None and not _is_similar(cell, state))
            ):
                self.doubtful.add(cell_id)

    def _find_reused_ids(self) -> None:
        """Ids that other cells have now, as after a program that numbers the cells: a deleted cell
        returns under a new one, and a move is doubtful if another cell has the text of the moved
        one. Otherwise someone wrote another text into the cell.
        """
        for cell in self._cells:
            change = self._last.get(cell.id)
            if change is None or change.undone or cell.id in self.now:
                continue
            if change.after is None and change.before is not None:
                restored = not lines_of(change.before.source) or _shares_line(cell, change.before)
                if cell.source and not restored:
                    self.now[cell.id] = new_id()
            elif change.kind == "move" and change.after and not _is_similar(cell, change.after):
                if self._cells_with_text(change.after):
                    self.doubtful.add(cell.id)

    def _cells_with_text(self, state: CellState | None) -> list[Cell]:
        return [cell for cell in self._cells if _has_text_of(cell, state)]


def _has_text_of(cell: Cell, state: CellState | None) -> bool:
    return state is not None and (cell.type, cell.source) == (state.type, state.source)


def _most_similar(state: CellState, cells: Iterable[Cell]) -> Cell | None:
    """The cell that most resembles the state; None if none does."""
    of_type = [cell for cell in cells if cell.type == state.type and _is_similar(cell, state)]
    return max(of_type, key=lambda cell: _similarity(cell, state), default=None)


def _is_similar(cell: Cell, state: CellState) -> bool:
    """Whether the cell may be a later version of that state: they share a line, or most letters."""
    return _shares_line(cell, state) or _similarity(cell, state) > _SIMILAR


def _shares_line(cell: Cell, state: CellState) -> bool:
    return not set(lines_of(state.source)).isdisjoint(lines_of(cell.source))


def _similarity(cell: Cell, state: CellState) -> float:
    """From 0 to 1."""
    return SequenceMatcher(None, cell.source, state.source, autojunk=False).quick_ratio()


def lines_of(text: str) -> list[str]:
    """The lines of a text without blank ones."""
    return [line for line in text.split("\n") if line.strip()]


def content_of(state: CellState) -> tuple[Any, ...]:
    """The parts of a cell that people write."""
    written = {key: item for key, item in state.metadata.items() if key not in _OF_VIEW}
    return state.type, state.source, written, state.attachments or {}
