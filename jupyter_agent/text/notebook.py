"""The notebook as text for a model, within a budget.

A cell has a head line, `[position type id In[n] language stale]` with positions counted from 1 and
the language only if the cell has its own, then its unchanged source, then its outputs after `->`.
For a model, heads and arrows carry the mark of the turn (see `fence`), and no name or id adds a
line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NewType, cast

from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import CellNotFound
from jupyter_agent.legible import clip, legible, quoted, quoted_id
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.text.images import Picture, describe_picture, pictures_in
from jupyter_agent.text.outputs import (
    images,
    output_text,
    without_data,
)

__all__ = [
    "BUDGET",
    "MOST",
    "Rendered",
    "ShownCell",
    "head",
    "hidden",
    "images",
    "output_text",
    "pictures",
    "readable",
    "render",
    "render_cells",
    "whole",
]

HIDDEN = "agent-hidden"
"""Tag of cells that are hidden from models."""
_HEADING = re.compile(r"\s*(#{1,6})\s+(.*)")
_TITLE_CHARS = 60
BUDGET = 24_000
"""Characters of the overview of a notebook: 6,000 tokens, at 4 characters each."""
MOST = 29_000
"""The largest budget that can be requested: under 12,500 tokens even at 2.3 characters each."""
OUTLINE_BUDGET = 6_000
_FAR = "(A line [from-to id] stands for a section: name that id as focus, or search.)"
_LEAST = 20
"""Characters below which no further cell fits."""
_PROSE_CHARS = 240
"""Characters of a Markdown cell away from the focus."""
_OUTPUT_CHARS = 2_000
"""Characters of one cell's outputs in the overview; `read_cells` shows more."""
_LINE_CHARS = 80


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """Text for a model, and the ids of the cells whose whole source is in it."""

    text: str
    full: frozenset[str]
    lines_only: int = 0
    """How many cells were reduced to one line though they have more to show."""


ShownCell = NewType("ShownCell", Cell)
"""A cell as a `View` shows it to a model."""


def hidden(cell: Cell) -> bool:
    """Whether this cell is hidden from models by the tag `agent-hidden`."""
    return HIDDEN in cell.tags


def whole(cell: Cell) -> bool:
    """Whether every character of a cell's source is shown, so that it can be rewritten."""
    return not (hidden(cell) or cell.withheld) and readable(cell.source) == cell.source


def pictures(cell: Cell) -> list[Picture]:
    """The pictures of the cell that models accept: from its attachments and its outputs."""
    if hidden(cell):
        return []
    attached = (cell.attachments or {}).values()
    return [
        *(picture for data in attached for picture in pictures_in(data)),
        *images(cell.outputs),
    ]


def render(
    cells: Sequence[ShownCell],
    *,
    stale: Collection[str] = (),
    focus: str | None = None,
    budget: int | None = None,
    outline: bool = False,
    fence: Fence = NO_FENCE,
) -> Rendered:
    """A line per cell, and full cells outward from the focus within `budget` characters.

    The default focus is the first cell. Long prose elsewhere is cut to its start. An `outline` has
    only the lines, under their headings. If lines take more than half of the budget (all of it for
    an outline), the cells far from the focus are replaced with a line per section. Raises
    CellNotFound for an unknown focus.
    """
    if not cells:
        return Rendered(text="(no cells)", full=frozenset())
    budget = budget or (OUTLINE_BUDGET if outline else BUDGET)
    outward = _outward(cells, focus)
    shown = {cell.id: _line(cell, cell.id in stale, fence) for cell in cells}
    sections = Sections(cells, stale, budget // 3, fence)
    if outline:
        shown = {cell.id: sections.indent(cell, shown[cell.id]) for cell in cells}
    left = budget if outline else budget // 2
    far: set[str] = set()
    if sum(len(line) + 1 for line in shown.values()) > left:
        left -= sections.size
        for cell in outward:
            left -= len(shown[cell.id]) + 1
            if left < 0:
                far.add(cell.id)
    full: set[str] = set()
    shortened = {cell.id for cell in cells if not hidden(cell)}
    left = budget - sum(len(line) + 1 for line in sections.collapse(shown, far))
    for cell in () if outline else outward:
        if left < _LEAST:
            break
        text, is_whole = _overview(cell, cell.id in stale, fence, near=cell is outward[0])
        cost = len(text) - len(shown[cell.id])
        if hidden(cell) or cell.id in far or cost > left:
            continue
        left -= cost
        shown[cell.id] = text
        shortened.discard(cell.id)
        if is_whole:
            full.add(cell.id)
    lines = [*sections.collapse(shown, far), *([_FAR] if far else [])]
    return Rendered(text="\n".join(lines), full=frozenset(full), lines_only=len(shortened))


def render_cells(
    cells: Sequence[ShownCell],
    *,
    output_from: int = 0,
    output_chars: int = 12_000,
    fence: Fence = NO_FENCE,
) -> str:
    """These cells in full; `output_from` and `output_chars` page through the outputs of each."""
    return "\n\n".join(
        _full(
            cell,
            False,
            fence,
            output_text(
                cell.outputs, limit=output_chars, start=output_from, rows=None, mask=fence.mask
            ),
        )
        for cell in cells
    )


def _outward(cells: Sequence[Cell], focus: str | None) -> list[Cell]:
    """The cells by distance from the focus; of two equally distant ones the upper comes first."""
    places = {cell.id: place for place, cell in enumerate(cells)}
    if focus is not None and focus not in places:
        raise CellNotFound(focus, known=list(places))
    middle = places[focus] if focus is not None else 0
    return sorted(cells, key=lambda cell: abs(places[cell.id] - middle))


def head(cell: Cell, stale: bool = False, fence: Fence = NO_FENCE) -> str:
    """The line that names a cell: `[position type id In[n] stale mark]`."""
    words = [str(cell.index + 1), cell.type, quoted_id(cell.id)]
    if cell.type == "code":
        count = "*" if cell.running else cell.execution_count or " "
        words += [f"In[{count}]", cell.language] if cell.language else [f"In[{count}]"]
    words += [word for word, so in (("locked", cell.locked), ("stale", stale)) if so]
    return fence.head(" ".join(words))


def readable(source: str) -> str:
    """A source without embedded files and invisible characters."""
    return without_data(legible(source))


def _source(cell: Cell, fence: Fence) -> str:
    return fence.inside(readable(cell.source))


class _Texts:
    """Cached renderings of one snapshot of a cell with one fence."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        self.lines: dict[bool, str] = {}
        self.overviews: dict[tuple[bool, bool], tuple[str, bool]] = {}


def _texts(cell: Cell, fence: Fence) -> _Texts:
    texts = cell.derived.get(_Texts)
    if texts is None or (texts.fence is not fence and texts.fence != fence):
        texts = cell.derived[_Texts] = _Texts(fence)
    return cast(_Texts, texts)


def _line(cell: Cell, stale: bool, fence: Fence) -> str:
    """A cell in one line: its head, the start of its text, and how long it is."""
    lines = _texts(cell, fence).lines
    if stale not in lines:
        lines[stale] = _new_line(cell, stale, fence)
    return lines[stale]


def _new_line(cell: Cell, stale: bool, fence: Fence) -> str:
    if hidden(cell):
        return f"{head(cell, False, fence)} (hidden)"
    lines = _source(cell, fence).strip().split("\n")
    begin = lines[0].splitlines()[0].strip() if lines[0] else ""
    begin = clip(begin, _LINE_CHARS)
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    result = _brief(cell)
    return f"{head(cell, stale, fence)} {begin}{more}{f' -> {result}' if result else ''}"


def _brief(cell: Cell) -> str:
    """The kinds of the outputs in a word or two."""
    for output in cell.outputs:
        if output["output_type"] == "error":
            return f"error {quoted(str(output['ename']))}"
    kinds = [
        "image" if any(kind.startswith("image/") for kind in output.get("data", {})) else "text"
        for output in cell.outputs
    ]
    return ", ".join(dict.fromkeys(kinds))


def _overview(cell: Cell, stale: bool, fence: Fence, *, near: bool) -> tuple[str, bool]:
    """The cell in the overview, and whether its whole source is in it."""
    overviews = _texts(cell, fence).overviews
    if (stale, near) not in overviews:
        overviews[stale, near] = _new_overview(cell, stale, fence, near=near)
    return overviews[stale, near]


def _new_overview(cell: Cell, stale: bool, fence: Fence, *, near: bool) -> tuple[str, bool]:
    outputs = output_text(cell.outputs, limit=_OUTPUT_CHARS, mask=fence.mask)
    source = _source(cell, fence)
    if near or cell.type != "markdown" or len(source) <= _PROSE_CHARS:
        return f"{_full(cell, stale, fence, outputs)}\n", whole(cell)
    begin = clip(source, _PROSE_CHARS, "... ({left:,} more characters)")
    return f"{_full(cell, stale, fence, outputs, begin)}\n", False


def _full(cell: Cell, stale: bool, fence: Fence, outputs: str, source: str | None = None) -> str:
    if hidden(cell):
        return _line(cell, False, fence)
    parts = [head(cell, stale, fence), _source(cell, fence) if source is None else source]
    if cell.attachments:
        parts.append(fence.line(f"(attached: {', '.join(_attachment_labels(cell.attachments))})"))
    if outputs:
        arrow = fence.line("->")
        parts.append(f"{arrow}{chr(10) if chr(10) in outputs else ' '}{fence.inside(outputs)}")
    return "\n".join(filter(None, parts))


def _attachment_labels(attachments: Mapping[str, Any]) -> Iterator[str]:
    """Name, kind and size of each attachment; their contents are never text."""
    for name, data in attachments.items():
        kinds = data.items() if isinstance(data, Mapping) else ()
        yield " ".join(
            [quoted(name), *(describe_picture(kind, "".join(value)) for kind, value in kinds)]
        )


class Sections:
    """The cells of a notebook under their headings.

    Lower heading levels are ignored if a line per section would take more than `most` characters.
    """

    def __init__(
        self, cells: Sequence[Cell], stale: Collection[str], most: int, fence: Fence
    ) -> None:
        self._cells = cells
        self._fence = fence
        self._stale = stale
        self._titles = [_heading(cell) for cell in cells]
        self._level = 6
        self._starts = self._section_starts()
        while self._level and self.size > most:
            self._level -= 1
            self._starts = self._section_starts()

    @property
    def size(self) -> int:
        """Characters of all lines for sections."""
        return sum(len(line) + 1 for line in self._lines(self._cells))

    def indent(self, cell: Cell, line: str) -> str:
        """A cell's line in an outline: indented below a heading."""
        under = any(self._titles[: cell.index]) and self._titles[cell.index] is None
        return f"  {line}" if under else line

    def collapse(self, shown: Mapping[str, str], far: Collection[str]) -> Iterator[str]:
        """The text of each cell; for the `far` cells a line per section instead."""
        for is_far, group in groupby(self._cells, key=lambda cell: cell.id in far):
            if is_far:
                yield from self._lines(list(group))
            else:
                yield from (shown[cell.id] for cell in group)

    def _section_starts(self) -> list[int]:
        """For each cell the index of its section's heading; -1 before the first."""
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
        failed = sum(cell.failed for cell in cells)
        stale = sum(cell.id in self._stale for cell in cells)
        counts = [f"{len(cells)} cell{'s' if len(cells) > 1 else ''}"]
        counts += [f"{failed} with an error"] if failed else []
        counts += [f"{stale} stale"] if stale else []
        text = self._fence.inside(legible(title[1]))[:_TITLE_CHARS] if title else ""
        name = f"{'#' * title[0]} {text}: " if title else ""
        places = f"{first.index + 1}-{last.index + 1}" if len(cells) > 1 else f"{first.index + 1}"
        return f"{self._fence.head(f'{places} {quoted_id(first.id)}')} {name}{', '.join(counts)}"


def _heading(cell: Cell) -> tuple[int, str] | None:
    """Level and text of the heading at the start of a Markdown cell, if any."""
    found = _HEADING.match(cell.source) if cell.type == "markdown" else None
    return (len(found[1]), found[2].strip()) if found and "agent-hidden" not in cell.tags else None
