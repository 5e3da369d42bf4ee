"""Tool calls and changes of cells in words and diffs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from jupyter_agent.cli.terminal import Style
from jupyter_agent.legible import quoted

Line: TypeAlias = tuple[str, Style]
CellNamer: TypeAlias = Callable[[str], str]

_LISTED = 6
"""Cells listed on a line."""
_PLAIN = {
    "get_notebook_state": "Read the notebook",
    "wait_for_run": "Wait for a run",
    "interrupt_kernel": "Interrupt the kernel",
    "restart_kernel": "Restart the kernel",
    "run_code": "Run code",
    "write_plan": "Write a plan",
    "list_files": "List files",
    "verify_notebook": "Verify the notebook",
}
"""Tools whose input adds nothing to the line."""


class Cells:
    """The known order of a notebook's cells, updated as changes move them."""

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self._ids = list(ids)

    def name(self, cell_id: str) -> str:
        """`cell 3 (b2)`, or `cell b2` if its position is unknown."""
        if cell_id in self._ids:
            return f"cell {self._ids.index(cell_id) + 1} ({quoted(cell_id)})"
        return f"cell {quoted(cell_id)}"

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


def phrase(tool: str, given: Any, name: CellNamer) -> str:
    """A call in words: `Edit cell 3 (b2)`. The input comes from a model and may be anything."""
    if tool in _PLAIN:
        return _PLAIN[tool]
    if tool.startswith("mcp__"):
        server, _, remote = tool.removeprefix("mcp__").partition("__")
        return f"Call {quoted(remote)} on {quoted(server)}"
    wanted = given if isinstance(given, Mapping) else {}
    cell = name(str(wanted.get("cell_id", "?")))
    chosen = _list(wanted.get("cell_ids"))
    runs = " and run" if wanted.get("run") is True else ""
    match tool:
        case "create_cell":
            kind = "a Markdown cell" if wanted.get("type") == "markdown" else "a cell"
            return f"Add {kind}"
        case "create_cells":
            return f"Add {_count(wanted.get('cells'))}{runs}"
        case "update_cell":
            return f"Edit {cell}"
        case "edit_cells":
            ids = [each.get("cell_id") for each in _list(wanted.get("edits")) if _is_map(each)]
            return f"Edit{runs} {_several(ids, name)}"
        case "delete_cell":
            return f"Delete {cell}"
        case "move_cell":
            return f"Move {cell}"
        case "run_cell":
            return f"Run {cell}"
        case "clear_outputs":
            return f"Clear the outputs of {_several(chosen, name) if chosen else 'all cells'}"
        case "run_cells":
            return f"Run {_several(chosen, name)}" if chosen else "Run all cells"
        case "read_cells":
            return f"Read {_several(chosen, name)}"
        case "search_notebook":
            return f"Search for {quoted(str(wanted.get('query', '')))!r}"
        case "inspect_variables":
            names = ", ".join(map(str, _list(wanted.get("names"))))
            return f"Look at {quoted(names) or 'the variables'}"
        case "read_file":
            path = str(wanted.get("path", ""))
            return f"Read {quoted(path)}" if path else _PLAIN["list_files"]
        case "create_notebook":
            return f"Create {quoted(str(wanted.get('path', '')))}"
    return f"Use {quoted(tool)}"


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


def pluralize(number: int, word: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _count(cells: Any) -> str:
    number = len(_list(cells))
    return "a cell" if number == 1 else f"{number} cells"


def _several(ids: Sequence[Any], name: CellNamer) -> str:
    names = [name(each) for each in dict.fromkeys(ids) if isinstance(each, str)]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "cells"


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _position(place: Mapping[str, Any]) -> str:
    index = place.get("index")
    return str(index + 1) if isinstance(index, int) else "?"
