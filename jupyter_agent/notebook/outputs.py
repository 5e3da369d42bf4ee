"""The outputs of one run, written into its cell of the live document as they come.

JupyterLab's view of outputs can only append: text may change in the last output only, by one text
event per transaction, and `clear` and `append` need a transaction each (LIVE.md). So whatever else
a kernel asks for (`update_display_data`, carriage returns) is worked out here and written as
deletions from some place on and appended again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pycrdt import Array, Map, Text

from jupyter_agent.errors import CellNotFound
from jupyter_agent.notebook.cell import Output
from jupyter_agent.notebook.shared import RUN, SharedCells, as_shared, shared_output

INTERVAL = 0.05
"""Seconds between two writes of stream text: 20 a second look continuous, and a flood stays
cheap.
"""
LIMIT = 2_000_000
"""Characters of stream text that one cell keeps; of more, the beginning (4/5) and the end (1/5)."""

_CONTROL = re.compile("([\n\r\b])")

Displays: TypeAlias = "dict[str, list[CellOutputs]]"
"""Who shows a display id, over all cells of a notebook that we ran."""


@dataclass
class _Entry:
    output: dict[str, Any]
    display_id: str | None = None


class CellOutputs:
    """The writer of one run's outputs into one cell.

    It keeps what the run has put out, so that nothing is lost where the document is replaced under
    it (the tab was closed, reloaded or opened meanwhile): `follow` writes everything into the new
    one.
    """

    def __init__(
        self,
        cells: Callable[[], SharedCells],
        cell_id: str,
        displays: Displays,
        *,
        limit: int = LIMIT,
    ) -> None:
        self.cell_id = cell_id
        self.gone = False
        """The cell was deleted (or is no code cell any more): outputs are dropped, never put
        elsewhere.
        """
        self.finished = False
        self._cells = cells
        self._written_to: SharedCells | None = None
        self._displays = displays
        self._entries: list[_Entry] = []
        self._column = 0
        self._execution_count: int | None = None
        self._clear_before_next = False
        self._pending: list[tuple[str, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last_write = 0.0
        self._overflow = _Overflow(limit)

    @property
    def running(self) -> bool:
        """Between `start` and `finish`."""
        return self._written_to is not None and not self.finished

    # ---- what a run calls

    def start(self) -> None:
        """Clear the cell and show that it runs."""
        for shown in self._displays.values():
            shown[:] = [writer for writer in shown if writer.cell_id != self.cell_id]
        self._begin()

    def stream(self, name: str, text: str) -> None:
        """Text on `stdout` or `stderr`: shown at once, then gathered for `INTERVAL`."""
        self._pending.append((name, text))
        if self._timer is None:
            loop = asyncio.get_running_loop()
            due = max(loop.time(), self._last_write + INTERVAL)
            self._timer = loop.call_at(due, self.flush)

    def display(self, output: Output, display_id: str | None = None) -> None:
        """A `display_data`, `execute_result` or `error`, as nbformat writes it."""
        self.flush()
        self._append(_Entry(dict(output), display_id))
        if display_id is not None:
            shown = self._displays.setdefault(display_id, [])
            if self not in shown:
                shown.append(self)

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        """Show other data wherever this notebook shows that display id."""
        self.flush()
        for writer in self._displays.get(display_id, ()):
            writer._update(display_id, data, metadata)

    def clear(self, wait: bool) -> None:
        """Remove the outputs so far; with `wait` only when the next one comes."""
        self.flush()
        self._clear_before_next = wait
        if not wait:
            self._clear()

    def finish(self, execution_count: int | None) -> None:
        """The run is over: write what is left, and the count."""
        self.flush()
        if rest := self._overflow.rest():
            self._append(_Entry({"output_type": "stream", "name": "stdout", "text": rest}))
        self._execution_count = execution_count
        self.finished = True
        self._write_state()

    def outputs(self) -> list[Output]:
        """What the run has put out so far."""
        self.flush()
        return [dict(entry.output) for entry in self._entries]

    # ---- what the notebook calls

    def follow(self) -> None:
        """Write everything again if the document was replaced since."""
        if self._written_to is None or self._written_to is self._cells():
            return
        self._begin()
        cell = self._cell()
        if cell is not None:
            self._show(cell["outputs"], self._entries)
        if self.finished:
            self._write_state()

    # ---- writing

    def flush(self) -> None:
        """Write the stream text that was gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending = self._pending, []
        if pending:
            self._last_write = asyncio.get_running_loop().time()
        while pending:
            name = pending[0][0]
            same = 1
            while same < len(pending) and pending[same][0] == name:
                same += 1
            self._write_stream(name, "".join(text for _, text in pending[:same]))
            del pending[:same]

    def _write_stream(self, name: str, new: str) -> None:
        self._clear_if_due()
        new = self._overflow.within(new)
        if not new:
            return
        outputs = self._live()
        last = self._entries[-1].output if self._entries else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            old = last["text"]
            last["text"], self._column = type_onto(old, self._column, new)
            self._overflow.size += len(last["text"]) - len(old)
            if outputs is not None:
                self._retype(outputs[-1]["text"], old, last["text"])
        else:
            text, self._column = type_onto("", 0, new)
            self._overflow.size += len(text)
            self._append(_Entry({"output_type": "stream", "name": name, "text": text}))

    def _retype(self, shared: Text, old: str, new: str) -> None:
        """From the first difference on: deletion and insertion, one text event each."""
        start = old.rfind("\n") + 1
        shorter = min(len(old), len(new))
        while start < shorter and old[start] == new[start]:
            start += 1
        offset = len(old[:start].encode())
        cells = self._cells()
        if start < len(old):
            with cells.transaction(RUN):
                del shared[offset : len(old.encode())]
        if start < len(new):
            with cells.transaction(RUN):
                shared.insert(offset, new[start:])

    def _append(self, entry: _Entry) -> None:
        self._clear_if_due()
        outputs = self._live()
        self._entries.append(entry)
        if outputs is not None:
            self._show(outputs, [entry])

    def _show(self, outputs: Array[Any], entries: Sequence[_Entry]) -> None:
        for entry in entries:
            with self._cells().transaction(RUN):
                outputs.append(shared_output(entry.output))

    def _update(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        if self.finished and not self._still_shown():
            return
        outputs = self._live()
        positions = [i for i, entry in enumerate(self._entries) if entry.display_id == display_id]
        for position in positions:
            self._entries[position].output.update(data=data, metadata=metadata)
        if outputs is not None and positions:
            with self._cells().transaction(RUN):
                del outputs[positions[0] :]
            self._show(outputs, self._entries[positions[0] :])

    def _clear_if_due(self) -> None:
        if self._clear_before_next:
            self._clear_before_next = False
            self._clear()

    def _clear(self) -> None:
        outputs = self._live()
        self._entries.clear()
        self._overflow.reset()
        if outputs is not None and len(outputs):
            with self._cells().transaction(RUN):
                outputs.clear()

    def _begin(self) -> None:
        self._written_to = self._cells()
        cell = self._cell()
        if cell is not None:
            with self._cells().transaction(RUN):
                cell["outputs"].clear()
                cell["execution_count"] = None
                cell["execution_state"] = "running"

    def _write_state(self) -> None:
        cell = self._cell()
        if cell is not None:
            with self._cells().transaction(RUN):
                cell["execution_state"] = "idle"
                cell["execution_count"] = as_shared(self._execution_count)

    def _cell(self) -> Map[Any] | None:
        try:
            cell = self._cells().shared(self.cell_id)
        except CellNotFound:
            cell = None
        self.gone = cell is None or "outputs" not in cell
        return None if self.gone else cell

    def _live(self) -> Array[Any] | None:
        """The cell's outputs in the document, in step with ours."""
        self.follow()
        cell = self._cell()
        if cell is None:
            return None
        outputs: Array[Any] = cell["outputs"]
        if not len(outputs):
            self._entries.clear()  # the person cleared them meanwhile: what comes now stands alone
        elif len(outputs) != len(self._entries):
            with self._cells().transaction(RUN):
                outputs.clear()
            self._show(outputs, self._entries)
        return outputs

    def _still_shown(self) -> bool:
        """Whether the cell still has the outputs that this run left there: it may have been run
        again since.
        """
        try:
            shown = self._cells().value(self.cell_id).get("outputs", [])
        except CellNotFound:
            return False
        return bool(shown == [as_shared(entry.output) for entry in self._entries])


class _Overflow:
    """Stream text past the limit: counted, and its end kept."""

    def __init__(self, limit: int) -> None:
        self._head = limit - limit // 5
        self._kept = limit // 5
        self.reset()

    def reset(self) -> None:
        self.size = 0
        self._tail = ""
        self._column = 0
        self._left_out = 0

    def within(self, new: str) -> str:
        """The part of `new` that is still to be shown; the rest is kept for the end."""
        room = 0 if self._tail else max(0, self._head - self.size)
        if len(new) > room:
            self._tail, self._column = type_onto(self._tail, self._column, new[room:])
            excess = max(0, len(self._tail) - self._kept)
            self._left_out += excess
            self._tail = self._tail[excess:]
        return new[:room]

    def rest(self) -> str:
        """What to show at the end of the run."""
        if not self._left_out:
            return self._tail
        return f"\n[... {self._left_out:,} characters left out ...]\n{self._tail}"


def type_onto(text: str, column: int, new: str) -> tuple[str, int]:
    """The text as a terminal shows it after `new`, and the column where the next character goes.

    `column` counts in the last line of `text`. Carriage returns and backspaces move it; none
    remain in the text.
    """
    start = text.rfind("\n") + 1
    done, line = [text[:start]], text[start:]
    for piece in _CONTROL.split(new):
        if piece == "\n":
            done.append(line + "\n")
            line, column = "", 0
        elif piece == "\r":
            column = 0
        elif piece == "\b":
            column = max(0, column - 1)
        else:
            line = line[:column] + piece + line[column + len(piece) :]
            column += len(piece)
    return "".join(done) + line, column
