"""The sections that a notebook's Markdown headings make: what an outline is grouped by."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from jupyter_agent.document.cell import Cell

_HEADING = re.compile(r"\s*(#{1,6})\s+(.*)")
_TITLE_CHARS = 60


class Sections:
    """The cells of a notebook under their headings.

    The headings of lower levels are left aside where a line for each section would take more than
    `most` characters.
    """

    def __init__(self, cells: Sequence[Cell], stale: Collection[str], most: int) -> None:
        self._cells = cells
        self._stale = stale
        self._titles = [_heading(cell) for cell in cells]
        self._level = 6
        self._starts = self._made()
        while self._level and self.size > most:
            self._level -= 1
            self._starts = self._made()

    @property
    def size(self) -> int:
        """Characters of a line for each section."""
        return sum(len(line) + 1 for line in self._lines(self._cells))

    def indented(self, cell: Cell, line: str) -> str:
        """A cell's line in an outline: what is under a heading is set in."""
        under = any(self._titles[: cell.index]) and self._titles[cell.index] is None
        return f"  {line}" if under else line

    def collapsed(self, shown: Mapping[str, str], far: Collection[str]) -> Iterator[str]:
        """What is shown of each cell; for cells that are far a line for each of their sections."""
        for is_far, group in groupby(self._cells, key=lambda cell: cell.id in far):
            if is_far:
                yield from self._lines(list(group))
            else:
                yield from (shown[cell.id] for cell in group)

    def _made(self) -> list[int]:
        """For each cell the place of its section's heading; -1 before the first."""
        starts, start = [], -1
        for place, title in enumerate(self._titles):
            if title is not None and title[0] <= self._level:
                start = place
            starts.append(start)
        return starts

    def _lines(self, cells: Sequence[Cell]) -> Iterator[str]:
        for start, group in groupby(cells, key=lambda cell: self._starts[cell.index]):
            yield self._line(start, list(group))

    def _line(self, start: int, cells: Sequence[Cell]) -> str:
        """`[41-80 1f2e3d4c] ## Training: 40 cells, 1 with an error, 2 stale`"""
        first, last = cells[0], cells[-1]
        title = self._titles[start] if start >= 0 else None
        failed = sum(any(o["output_type"] == "error" for o in cell.outputs) for cell in cells)
        stale = sum(cell.id in self._stale for cell in cells)
        counts = [f"{len(cells)} cell{'s' if len(cells) > 1 else ''}"]
        counts += [f"{failed} with an error"] if failed else []
        counts += [f"{stale} stale"] if stale else []
        name = f"{'#' * title[0]} {title[1][:_TITLE_CHARS]}: " if title else ""
        places = f"{first.index + 1}-{last.index + 1}" if len(cells) > 1 else f"{first.index + 1}"
        return f"[{places} {first.id}] {name}{', '.join(counts)}"


def _heading(cell: Cell) -> tuple[int, str] | None:
    """Level and text of the heading that a Markdown cell begins with."""
    found = _HEADING.match(cell.source) if cell.type == "markdown" else None
    return (len(found[1]), found[2].strip()) if found and "agent-hidden" not in cell.tags else None
