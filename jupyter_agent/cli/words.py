"""Changes of cells in words and diffs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from jupyter_agent.cli.terminal import Style
from jupyter_agent.words import CellNamer, show_id

Line: TypeAlias = tuple[str, Style]


class Cells:
    """The known order of a notebook's cells, updated as changes move them."""

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self._ids = list(ids)

    def name(self, cell_id: str) -> str:
        """`cell 3 (b2)`, or `cell b2` if its position is unknown."""
        if cell_id in self._ids:
            return f"cell {self._ids.index(cell_id) + 1} ({show_id(cell_id)})"
        return f"cell {show_id(cell_id)}"

    def follow(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Applies these changes."""
        for change in changes:
            cell_id, after = change["cell_id"], change["after"]
            if change["kind"] in ("delete", "move") and cell_id in self._ids:
                self._ids.remove(cell_id)
            if (
                change["kind"] in ("insert", "move")
                and after is not None
                and self._is_position(after)
            ):
                self._ids.insert(after["index"], cell_id)

    def _is_position(self, place: Mapping[str, Any]) -> bool:
        return isinstance(place.get("index"), int) and 0 <= place["index"] <= len(self._ids)


def describe_change(change: Mapping[str, Any], name: CellNamer) -> Iterator[Line]:
    """A change of a cell: a headline, then added and removed lines."""
    before, after = change["before"] or {}, change["after"] or {}
    cell = name(change["cell_id"])
    match change["kind"]:
        case "insert":
            head = f"{cell} added"
        case "delete":
            head = f"{cell} deleted"
        case "move":
            head = f"{cell} moved from {_position(before)} to {_position(after)}"
        case "outputs":
            head = f"{cell} has other outputs"
        case _:
            head = f"{cell} edited"
    if before and after and before.get("type") != after.get("type"):
        head += f", now {after.get('type')}"
    yield head, "strong"
    if change["kind"] not in ("move", "outputs"):
        yield from diff(str(before.get("source", "")), str(after.get("source", "")))


def diff(before: str, after: str) -> Iterator[Line]:
    """The lines that differ, with two lines of context."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    hunks = 0
    for line in islice(lines, 2, None):  # skip the names of the two files
        if not line.startswith("@@"):
            yield style_diff_line(line)
            continue
        if hunks:
            yield "...", "faint"
        hunks += 1


def style_diff_line(line: str) -> Line:
    """A line of a diff with its style."""
    styles: Mapping[str, Style] = {"+": "added", "-": "removed", "@": "faint"}
    return line, styles.get(line[:1], "plain")


def _position(place: Mapping[str, Any]) -> str:
    index = place.get("index")
    return str(index + 1) if isinstance(index, int) else "?"
