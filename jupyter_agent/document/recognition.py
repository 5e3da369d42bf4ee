"""Which of the cells that are there now are those that a turn changed, where the notebook keeps no
ids of its cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from jupyter_agent.document.cell import Cell, CellState, Change, version_of
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.identities import Naming, is_at_work, paired

_LIKE = 0.6
"""Of two texts that are taken for the same one, changed."""
_OF_VIEW = frozenset({"trusted", "execution", "collapsed", "scrolled", "ExecuteTime"})
"""Keys of metadata that Jupyter writes when a cell is run or looked at."""


class Recognition:
    """The cells of a turn as they are now, where whoever opened the notebook since may have given
    them other ids.
    """

    def __init__(
        self,
        cells: SharedCells,
        namings: Sequence[Naming],
        changes: Sequence[Change],
        *,
        certain: bool,
    ) -> None:
        """`certain`: ids that are there are those of the same cells."""
        self.now: dict[str, str] = {}
        """Id in the changes -> id now."""
        self.doubtful = set[str]()
        """Ids of the changes that may be of any cell."""
        self._cells = cells.all()
        self._versions = [cell.version for cell in self._cells]
        self._ids = frozenset(cells.ids())
        self._last = {change.cell_id: change for change in changes}
        for naming in namings:
            self._find(naming)
            if not certain or not is_at_work(naming, self._ids):
                self._doubt(naming)

    def doubt_unnamed(self, namings: Sequence[Naming]) -> None:
        """Of cells whose ids nobody noted: take those for granted that are as the turn left them,
        in the same place.
        """
        for cell_id in set(self._last).difference(*(naming.ids for naming in namings)):
            change = self._last[cell_id]
            alike = self._saying(change.after)
            if (
                change.after is not None
                and change.kind != "move"
                and [cell.index for cell in alike] == [change.after.index]
            ):
                self.now[cell_id] = alike[0].id
            else:
                self.doubtful.add(cell_id)

    def _find(self, naming: Naming) -> None:
        """By what stands where; of changed cells that the place alone does not tell, only those
        that are like what they were.
        """
        foreign, ids = not is_at_work(naming, self._ids), naming.ids
        strangers = {cell.id: cell for cell in self._cells if cell.id not in ids}
        for pair in paired([version for version, _ in naming.cells], self._versions):
            (_, former), cell = naming.cells[pair.former], self._cells[pair.now]
            if (pair.same or foreign) and former not in self._ids and cell.id in strangers:
                self.now[former] = strangers.pop(cell.id).id
        then = Counter(version for version, _ in naming.cells)
        for cell_id in self._last.keys() & ids - self._ids - self.now.keys():
            change = self._last[cell_id]
            if change.after is None:
                found = self._brought_back(change.before, strangers.values(), then)
            else:
                found = _likest(change.after, strangers.values()) if foreign else None
            if found is not None:
                self.now[cell_id] = strangers.pop(found.id).id

    def _brought_back(
        self, state: CellState | None, strangers: Iterable[Cell], then: Mapping[str, int]
    ) -> Cell | None:
        """The cell with which somebody brought back what the turn deleted."""
        found = next((cell for cell in strangers if _says(cell, state)), None)
        if found is None or self._versions.count(found.version) <= then[found.version]:
            return None
        return found

    def _doubt(self, naming: Naming) -> None:
        """Of cells that say the same nobody knows which is which, once some are gone or were added,
        or the one that is taken for it has not what was written into it.
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
                or (cell is not None and not _is_like(cell, state))
            ):
                self.doubtful.add(cell_id)

    def _saying(self, state: CellState | None) -> list[Cell]:
        return [cell for cell in self._cells if _says(cell, state)]


def _says(cell: Cell, state: CellState | None) -> bool:
    return state is not None and (cell.type, cell.source) == (state.type, state.source)


def _likest(state: CellState, cells: Iterable[Cell]) -> Cell | None:
    """The one of the cells that the state has become; None if none is like it."""
    of_type = [cell for cell in cells if cell.type == state.type and _is_like(cell, state)]
    return max(of_type, key=lambda cell: _likeness(cell, state), default=None)


def _is_like(cell: Cell, state: CellState) -> bool:
    """Whether the cell may be what that state has become: it has a line of it, or most letters."""
    lines = set(lines_of(state.source))
    return bool(lines.intersection(lines_of(cell.source))) or _likeness(cell, state) > _LIKE


def _likeness(cell: Cell, state: CellState) -> float:
    """From 0 to 1."""
    return SequenceMatcher(None, cell.source, state.source, autojunk=False).quick_ratio()


def lines_of(text: str) -> list[str]:
    """The lines of a text, without blank ones."""
    return [line for line in text.split("\n") if line.strip()]


def content_of(state: CellState) -> tuple[Any, ...]:
    """What of a cell people write."""
    written = {key: item for key, item in state.metadata.items() if key not in _OF_VIEW}
    return state.type, state.source, written, state.attachments or {}
