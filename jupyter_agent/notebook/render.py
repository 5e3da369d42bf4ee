"""The notebook as text for a model, within a budget.

A cell has a line of head, `[position type id In[n] stale]` with the position counted from 1 as
people do, then its source as it is, then what its outputs show after `->`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from jupyter_agent.errors import CellNotFound, InvalidInput
from jupyter_agent.notebook.cell import Cell
from jupyter_agent.notebook.output_text import images, output_text, plain

__all__ = [
    "Rendered",
    "head",
    "hidden",
    "images",
    "output_text",
    "render",
    "render_cells",
    "search",
]

HIDDEN = "agent-hidden"
"""Tag of cells that are kept from models."""
_OUTPUT_CHARS = 2_000
"""Characters of one cell's outputs in the overview; `read_cells` shows more."""
_LINE_CHARS = 100
_HITS = 100
_SEARCHED_CHARS = 400
_REPEATS = re.compile(r"(?<!\\)[*+{]")
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """Text for a model, and the cells whose whole source is in it."""

    text: str
    full: frozenset[str]


def hidden(cell: Cell) -> bool:
    """Whether the person keeps this cell from models: it is tagged `agent-hidden`."""
    return HIDDEN in cell.tags


def render(
    cells: Sequence[Cell],
    *,
    stale: Collection[str] = (),
    focus: str | None = None,
    budget: int = 48_000,
    outline: bool = False,
) -> Rendered:
    """A line per cell, and full cells outward from the focus within `budget` characters.

    Without a focus it is the first cell. Lines of cells far from it are left out too where they
    would take more than half of the budget. Raises CellNotFound for a focus that is not there.
    """
    if not cells:
        return Rendered(text="(no cells)", full=frozenset())
    outward = _outward(cells, focus)
    shown = {cell.id: _line(cell, cell.id in stale) for cell in cells}
    left = budget // 2
    far: set[str] = set()
    for cell in outward:
        left -= len(shown[cell.id]) + 1
        if left < 0:
            far.add(cell.id)
    full: set[str] = set()
    left = max(left, 0) + budget - budget // 2
    for cell in () if outline else outward:
        text = _full(cell, cell.id in stale, output_from=0, output_chars=_OUTPUT_CHARS) + "\n"
        cost = len(text) - len(shown[cell.id])
        if hidden(cell) or cell.id in far or cost > left:
            continue
        left -= cost
        shown[cell.id] = text
        full.add(cell.id)
    return Rendered(text="\n".join(_collapsed(cells, shown, far)), full=frozenset(full))


def render_cells(cells: Sequence[Cell], *, output_from: int = 0, output_chars: int = 12_000) -> str:
    """These cells in full; `output_from` and `output_chars` page through the outputs of each."""
    return "\n\n".join(
        _full(cell, False, output_from=output_from, output_chars=output_chars) for cell in cells
    )


def search(cells: Sequence[Cell], query: str, regex: bool) -> str:
    """Lines of sources and outputs that contain the query, case aside, each under its cell's head.

    Raises InvalidInput for an expression that is none, or that could take for ever.
    """
    pattern = _pattern(query, regex)
    hits = 0
    found: list[str] = []
    for cell in cells:
        if hidden(cell):
            continue
        lines = [*_matches(cell.source, pattern, ""), *_matches(_shown(cell), pattern, "-> ")]
        if lines:
            found += [head(cell, False), *lines[: max(_HITS - hits, 0)]]
            hits += len(lines)
        if hits > _HITS:
            found.append(f"... more than {_HITS} lines: search for something narrower ...")
            break
    return "\n".join(found) or f"Nothing in the notebook matches {query!r}."


def _outward(cells: Sequence[Cell], focus: str | None) -> list[Cell]:
    """The cells by distance from the focus; of two as far away the one above goes first."""
    places = {cell.id: place for place, cell in enumerate(cells)}
    if focus is not None and focus not in places:
        raise CellNotFound(focus, known=list(places))
    middle = places[focus] if focus is not None else 0
    return sorted(cells, key=lambda cell: abs(places[cell.id] - middle))


def _collapsed(cells: Sequence[Cell], shown: dict[str, str], far: Collection[str]) -> Iterator[str]:
    for is_far, group in groupby(cells, key=lambda cell: cell.id in far):
        run = list(group)
        if is_far:
            first, last = run[0], run[-1]
            yield (
                f"... cells {first.index + 1} (`{first.id}`) to {last.index + 1} (`{last.id}`): "
                "name one as focus, or search ..."
            )
        else:
            yield from (shown[cell.id] for cell in run)


def head(cell: Cell, stale: bool = False) -> str:
    """The line that names a cell: `[position type id In[n] stale]`."""
    words = [str(cell.index + 1), cell.type, cell.id]
    if cell.type == "code":
        count = "*" if cell.running else cell.execution_count or " "
        words.append(f"In[{count}]")
    words += [word for word, so in (("locked", cell.locked), ("stale", stale)) if so]
    return f"[{' '.join(words)}]"


def _line(cell: Cell, stale: bool) -> str:
    """A cell in one line: its head, how its text begins, how much there is."""
    if hidden(cell):
        return f"{head(cell, False)} (hidden)"
    lines = cell.source.strip().split("\n")
    begin = lines[0].strip()[:_LINE_CHARS]
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    result = _brief(cell)
    return f"{head(cell, stale)} {begin}{more}{f' -> {result}' if result else ''}"


def _brief(cell: Cell) -> str:
    """What the outputs are, in a word or two."""
    for output in cell.outputs:
        if output["output_type"] == "error":
            return f"error {output['ename']}"
    kinds = [
        "image" if any(kind.startswith("image/") for kind in output.get("data", {})) else "text"
        for output in cell.outputs
    ]
    return ", ".join(dict.fromkeys(kinds))


def _full(cell: Cell, stale: bool, *, output_from: int, output_chars: int) -> str:
    if hidden(cell):
        return _line(cell, False)
    parts = [head(cell, stale)]
    if cell.source:
        parts.append(cell.source)
    if cell.outputs:
        text = output_text(cell.outputs, limit=output_chars, start=output_from)
        parts.append(f"->{chr(10) if chr(10) in text else ' '}{text}")
    return "\n".join(parts)


def _shown(cell: Cell) -> str:
    return output_text(cell.outputs, limit=1_000_000)


def _matches(text: str, pattern: re.Pattern[str], mark: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), start=1):
        if pattern.search(line[:_SEARCHED_CHARS]):
            yield f"{mark}{number}: {plain(line[: 2 * _LINE_CHARS])}"


def _pattern(query: str, regex: bool) -> re.Pattern[str]:
    if not query:
        raise InvalidInput("What to search for? `query` is empty.")
    if not regex:
        return re.compile(re.escape(query), re.IGNORECASE)
    # An expression cannot be stopped once it matches; these shapes take exponential time.
    if _REPEATED_GROUP.search(query) or len(_REPEATS.findall(query)) > 4:
        raise InvalidInput("Too many repetitions in this expression; use a simpler one.")
    try:
        return re.compile(query, re.IGNORECASE)
    except re.error as error:
        raise InvalidInput(f"`{query}` is no regular expression: {error}.") from None
