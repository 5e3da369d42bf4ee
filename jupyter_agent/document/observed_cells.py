"""Cells of a shared array, read once and again when the array's observer reports a change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pycrdt import Array, Map, Subscription, Text

from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.document.values import as_shared, cell_value, is_cell, snapshot

_MANY = 500
"""Cells with more outputs than this are converted in a thread."""


@dataclass
class _Partial:
    """A cached cell of which only parts have to be read again."""

    value: dict[str, Any]
    """The cell as it was last read."""
    outputs: list[dict[str, Any] | None]
    """The outputs, None for each that has to be read."""
    keys: set[str] = field(default_factory=set)
    """Other keys that have to be read."""


class ObservedCells:
    """Values and snapshots of an array's cells by index, until `close`."""

    def __init__(self, cells: Array[Any], write_numbers: Iterator[int]) -> None:
        """`write_numbers`: increasing numbers for `Cell.writes`, also over several arrays."""
        self._cells = cells
        self._write_numbers = write_numbers
        self._values: list[dict[str, Any] | _Partial | None] = [None] * len(cells)
        self.identities: list[object] = [object() for _ in self._values]
        """An object for each cell that changes when a copy replaces the cell."""
        self._writes = [0] * len(self._values)
        """`Cell.writes` of each cell."""
        self._snapshots: dict[str, tuple[dict[str, Any], Cell]] = {}
        """By id, with the value each snapshot was made of: most cells of a large notebook stay the
        same.
        """
        self.arrangement = object()
        """Another object after each insertion, removal or replacement of cells."""
        self._ids: list[str] | None = None
        self._all: list[Cell] | None = None
        """The snapshots of all cells; None after a change. A run lists the cells many times."""
        self._subscription: Subscription | None = cells.observe_deep(self._on_change)

    def close(self) -> None:
        """Stop observing the array."""
        if self._subscription is not None:
            self._cells.unobserve(self._subscription)
            self._subscription = None

    def __len__(self) -> int:
        return len(self._values)

    async def catch_up(self) -> None:
        """Take the missing snapshots without holding up the event loop for long."""
        for index in range(len(self._values)):
            if self._all is not None or index >= len(self._values):
                return
            if not isinstance(self._values[index], dict):
                value = self.value(index)
                if len(value.get("outputs") or ()) > _MANY:
                    outputs, writes = self._last_outputs(value), self._writes[index]
                    cell = await asyncio.to_thread(snapshot, index, value, outputs, writes)
                    self._snapshots[value["id"]] = value, cell
                else:
                    self.snapshot(index)
                if index % 50 == 0:
                    await asyncio.sleep(0)

    def ids(self) -> list[str]:
        """The ids of all cells in order. Raises UnreadableNotebook, like all that read them, if the
        array contains something that is not a cell.
        """
        if self._ids is None:
            self._ids = [self.value(index)["id"] for index in range(len(self._values))]
        return self._ids

    def values(self) -> list[dict[str, Any]]:
        """All cells in the form of `value`."""
        return [self.value(index) for index in range(len(self._values))]

    def snapshots(self) -> list[Cell]:
        """Snapshots of all cells in order."""
        if self._all is None:
            self._all = [self.snapshot(index) for index in range(len(self._values))]
        return [*self._all]

    def value(self, index: int) -> dict[str, Any]:
        """The cell as the shared document holds it; the same object while the cell is unchanged."""
        value = self._values[index]
        if isinstance(value, _Partial):
            value = self._values[index] = _complete(value, cast("Map[Any]", self._cells[index]))
        if value is None:
            value = self._values[index] = cell_value(self._cells[index])
        return value

    def snapshot(self, index: int) -> Cell:
        """A snapshot of the cell; the same object while the cell and its index are unchanged."""
        value = self.value(index)
        of, cell = self._snapshots.get(value["id"], (None, None))
        if cell is None or of is not value:
            cell = snapshot(index, value, self._last_outputs(value), self._writes[index])
        elif cell.index != index:
            cell = replace(cell, index=index)
        else:
            return cell
        self._snapshots[value["id"]] = value, cell
        return cell

    def fill_in_outputs(self, index: int, outputs: Sequence[Output]) -> None:
        """These outputs were just appended to the cell: they need not be read back."""
        partial, new = self._values[index], len(outputs)
        if isinstance(partial, _Partial) and partial.outputs[-new:] == [None] * new:
            partial.outputs[-new:] = [as_shared(dict(output)) for output in outputs]

    def _last_outputs(self, value: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[Output]]:
        """The cell's outputs in its last snapshot, both as the document holds them and as JSON."""
        if (entry := self._snapshots.get(value["id"])) is None:
            return (), ()
        of, cell = entry
        return of.get("outputs") or (), cell.outputs

    def _on_change(self, events: Sequence[Any]) -> None:
        """Invalidate what changed. Called within the commit, so it reads nothing from the
        document.
        """
        self._all = None
        for event in events:
            if not event.path:
                self._ids, self.arrangement = None, object()
                self._splice(event.delta)
        for event in events:  # these paths count all insertions and deletions
            if event.path[1:] == ["outputs"]:
                self._splice_outputs(event.path[0], event.delta)
        for event in events:
            if event.path and event.path[1:] != ["outputs"]:
                self._forget(event)

    def _partial(self, index: int) -> _Partial | None:
        value = self._values[index]
        if isinstance(value, dict) and "outputs" in value:
            value = self._values[index] = _Partial(value, list(value["outputs"] or ()))
        return value if isinstance(value, _Partial) else None

    def _splice_outputs(self, index: int, delta: Sequence[Mapping[str, Any]]) -> None:
        if (partial := self._partial(index)) is None:
            self._values[index] = None
            return
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                del partial.outputs[position : position + step["delete"]]
            else:
                new = len(step["insert"])
                partial.outputs[position:position] = [None] * new
                position += new

    def _forget(self, event: Any) -> None:
        index, *path = event.path
        keys = [path[0]] if path else list(event.keys)
        partial = self._partial(index)
        if not path and event.keys.get("execution_count", {}).get("newValue") is not None:
            self._writes[index] = next(self._write_numbers)
        if partial is None or (not path and "outputs" in keys):
            self._values[index] = None
        elif path[:1] == ["outputs"]:
            partial.outputs[path[1]] = None
        else:
            partial.keys.update(keys)

    def _splice(self, delta: Sequence[Mapping[str, Any]]) -> None:
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                deleted = slice(position, position + step["delete"])
                for value in self._values[deleted]:
                    if value is not None:
                        last_value = value.value if isinstance(value, _Partial) else value
                        self._snapshots.pop(last_value["id"], None)
                del self._values[deleted], self.identities[deleted], self._writes[deleted]
            else:
                new = len(step["insert"])
                self._values[position:position] = [None] * new
                self.identities[position:position] = [object() for _ in range(new)]
                self._writes[position:position] = [0] * new
                position += new


def _complete(partial: _Partial, shared: Map[Any]) -> dict[str, Any] | None:
    """The cell's value with its missing parts read; None if the whole cell has to be read."""
    value, live = dict(partial.value), shared["outputs"]
    if len(partial.outputs) != len(live):
        return None
    for key in partial.keys:
        value.pop(key, None)
        if key in shared:
            value[key] = _as_python(shared[key])
    read = [place for place, output in enumerate(partial.outputs) if output is None]
    outputs = [*partial.outputs]
    for place in read:
        outputs[place] = _as_python(live[place])
    value["outputs"] = [outputs[place] for place in read]
    if not is_cell(value):
        return None
    value["outputs"] = outputs
    return value


def _as_python(shared: Any) -> Any:
    return shared.to_py() if isinstance(shared, Map | Array | Text) else shared
