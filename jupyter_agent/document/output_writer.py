"""Writes the outputs of one run into its cell of the live document as they come.

JupyterLab's view of outputs can only append: text may change in the last output only, by one text
event per transaction, and `clear` and `append` need a transaction each (docs/carriers.md). So any
other request of a kernel (`update_display_data`, carriage returns) is first worked out in an
OutputList, then written by deleting from some place on and appending again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jupyter_ydoc import YNotebook
from pycrdt import Array, Map, Text

from jupyter_agent.document.cell import CellState, Change, Output
from jupyter_agent.document.crdt import RUN, SharedCells
from jupyter_agent.document.outputs import LIMIT, OutputEntry, OutputList, batches
from jupyter_agent.document.values import as_shared
from jupyter_agent.errors import CellNotFound

_RUN = "agent_run:"
"""Key prefix, before a cell's id, in the part of the document that is in no file.

The value is the server whose run it is. A room's document outlives the server that wrote into it,
so another server must be able to tell that this run is over.
"""


def set_running(cells: SharedCells, cell_id: str) -> None:
    """Show the cell as running. Call this within a transaction, like all functions here but
    `clear_orphans`.
    """
    cells.live_cell(cell_id)["execution_state"] = "running"
    if cells.server:
        cells.document.ystate[_RUN + cell_id] = cells.server


def set_idle(cells: SharedCells, cell_id: str) -> None:
    """Show the cell as idle."""
    cells.live_cell(cell_id)["execution_state"] = "idle"
    unmark(cells, cell_id)


def unmark(cells: SharedCells, cell_id: str) -> None:
    """Remove our mark: the cell's state now belongs to someone else, or the cell is gone."""
    if _RUN + cell_id in cells.document.ystate:
        del cells.document.ystate[_RUN + cell_id]


def clear_orphans(cells: SharedCells) -> None:
    """Show as idle the cells that another server marked as running."""
    runs = cells.document.ystate.to_py() or {}
    lost = [key for key, server in runs.items() if key.startswith(_RUN) and server != cells.server]
    for cell_id in (key.removeprefix(_RUN) for key in lost):
        with cells.transaction(RUN):
            if cell_id in cells.ids():
                set_idle(cells, cell_id)
            else:
                unmark(cells, cell_id)


INTERVAL = 0.05
"""Seconds between two writes: 20 a second look continuous, and a flood stays cheap."""

SLICE = 0.01
"""Seconds of writing before other work gets a turn."""

Displays: TypeAlias = "dict[str, list[CellOutputs]]"
"""The writers that show a display id, over all cells of a notebook that we ran."""


@dataclass
class _WrittenOutput:
    """An output as it was last written."""

    entry: OutputEntry
    revision: int
    output: dict[str, Any]
    bytes: int
    """UTF-8 size of a stream's text, which pycrdt's Text counts in."""

    @classmethod
    def from_entry(cls, entry: OutputEntry) -> _WrittenOutput:
        size = len(entry.text.encode()) if entry.is_stream else 0
        return cls(entry, entry.revision, dict(entry.output), size)

    @property
    def is_current(self) -> bool:
        return self.revision == self.entry.revision


class CellOutputs:
    """Writes one run's outputs into one cell.

    It stores all outputs of the run, so that nothing is lost if the document is replaced (the tab
    was closed, reloaded or opened): `follow` writes everything into the new one. Outputs after the
    end (from threads) are written as long as the cell still shows the outputs of this run.
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
        """The cell was deleted (or is no longer a code cell): outputs are dropped, never put
        elsewhere.
        """
        self.rerun_by_user = False
        """The user has run the cell since: it is theirs, and outputs of this run are dropped."""
        self.finished = False
        self._cells = cells
        self._written_to: tuple[YNotebook, object] | None = None
        """Document and identity of the cell that was written to; None before the start."""
        self._displays = displays
        self._updated: dict[CellOutputs, CellState] = {}
        """Cells of ended runs whose displays this run updates, as they were before."""
        self._list = OutputList(limit)
        self._written: list[_WrittenOutput] = []
        self._current = (-1, 0)
        """(rewrites of the list, number of leading outputs known to be up to date while that is
        unchanged).
        """
        self._execution_count: int | None = None
        self._timer: asyncio.Handle | None = None
        self._last_write = 0.0

    # ---- what a run calls

    def start(self) -> None:
        """Clear the cell and show that it runs."""
        for shown in self._displays.values():
            shown[:] = [writer for writer in shown if writer.cell_id != self.cell_id]
        self._cells().rerun_by_user.discard(self.cell_id)
        self._begin()

    def resume(self, outputs: Sequence[Output]) -> None:
        """Like `start`, below these outputs, which the same run wrote there before."""
        for output in outputs:
            if output["output_type"] == "stream":
                text = output["text"]
                self._list.stream(output["name"], text if isinstance(text, str) else "".join(text))
            else:
                self._list.display(output)
        self.start()
        self._write()

    def stream(self, name: str, text: str) -> None:
        """Text on `stdout` or `stderr`."""
        self._list.stream(name, text)
        self._write_soon()

    def display(self, output: Output, display_id: str | None = None) -> None:
        """A `display_data`, `execute_result` or `error`, as nbformat writes it."""
        self._list.display(output, display_id)
        self._write_soon()
        if display_id is not None:
            shown = self._displays.setdefault(display_id, [])
            if self not in shown:
                shown.append(self)

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        """Replace the data wherever this notebook shows that display id."""
        for writer in self._displays.get(display_id, ()):
            if not writer.finished or writer._is_still_shown():
                if writer.finished and writer is not self and writer not in self._updated:
                    self._updated[writer] = self._cells().get(writer.cell_id).state()
                writer._list.update(display_id, data, metadata)
                writer._write_soon()

    def clear(self, wait: bool) -> None:
        """Remove the outputs so far; with `wait` only when the next one comes."""
        self._list.clear(wait)
        self._write_soon()

    async def drain(self) -> None:
        """Write everything pending, however much, in slices that let others work."""
        while not self._flush(SLICE):
            await asyncio.sleep(0)

    def finish(self, execution_count: int | None) -> None:
        """End the run: write the remaining outputs and the count."""
        self.flush()
        self.finished = True
        self._execution_count = execution_count
        self._write()  # now also the end of an output that was too long
        self._write_state()

    def changes(self, path: str, before: CellState | None) -> list[Change]:
        """The changes of the run, which has ended, for the journal: of its cell, which was as
        `before`, and of those whose displays it updated since this was last asked.
        """
        states = {self: before, **self._updated}
        for writer in self._updated:
            writer.flush()
        self._updated = {}
        cells = self._cells()
        return [
            Change(
                notebook=path,
                cell_id=writer.cell_id,
                kind="outputs",
                before=state,
                after=cells.get(writer.cell_id).state(),
            )
            for writer, state in states.items()
            if state is not None
            and writer.cell_id in cells.ids()
            and cells.get(writer.cell_id).type == "code"
        ]

    def outputs(self) -> list[Output]:
        """The outputs of the run so far."""
        return [dict(entry.output) for entry in self._list.entries(complete=True)]

    # ---- what the notebook calls

    def follow(self) -> None:
        """Write everything again if the document, or the cell in it, was replaced: recent writes
        may be missing from the copy.
        """
        if self._written_to is None or self.rerun_by_user:
            return
        document, identity = place = self._place()
        if document is self._written_to[0]:
            if identity is None or identity is self._written_to[1]:
                return
            if self.finished and not self._is_stale_copy():
                self._written_to = place
                return
        self._begin()
        self._write()
        if self.finished:
            self._write_state()

    def _place(self) -> tuple[YNotebook, object]:
        """The present document and the identity of the cell in it; None if the cell is gone."""
        cells = self._cells()
        there = self.cell_id in cells.ids()
        return cells.document, cells.identity(self.cell_id) if there else None

    def _is_stale_copy(self) -> bool:
        """Whether a page copied the cell before it knew that this run has ended."""
        cells = self._cells()
        return (
            cells.structural_edits is not None
            and self.cell_id not in cells.rerun_by_user
            and cells.value(self.cell_id).get("execution_state") == "running"
        )

    # ---- writing

    def flush(self) -> None:
        """Write everything pending."""
        self._flush()

    def _flush(self, seconds: float = math.inf) -> bool:
        """Write for at most so many seconds; whether everything is written."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        self._last_write = loop.time()
        if self.finished and not self._is_still_shown():
            return True
        self.follow()
        return self._write(self._last_write + seconds)

    def _write_slice(self) -> None:
        if not self._flush(SLICE):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_soon(self._write_slice)

    def _write_soon(self) -> None:
        """At once, but at least `INTERVAL` after the last write."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            due = max(loop.time(), self._last_write + INTERVAL)
            self._timer = loop.call_at(due, self._write_slice)

    def _write(self, until: float = math.inf) -> bool:
        """Make the cell show the outputs of the list, touching only those that differ. Stops once
        the event loop's clock is past `until`; whether the cell is up to date.
        """
        outputs = self._live_outputs()
        if outputs is None:
            return True
        wanted = self._list.entries(complete=self.finished)
        rewrites, same = self._current
        if rewrites != self._list.rewrites or self.finished or same > len(self._written):
            same = 0
        for shown, entry in zip(self._written[same:], wanted[same:], strict=False):
            if shown.entry is not entry or not shown.is_current:
                break
            same += 1
        if same < min(len(self._written), len(wanted)) and same == len(self._written) - 1:
            last, entry = self._written[same], wanted[same]
            if last.entry is entry and entry.is_stream:
                self._retype(outputs[same]["text"], last, entry.text)
                self._written[same] = _WrittenOutput.from_entry(entry)
                same += 1
        if same < len(self._written):
            with self._cells().transaction(RUN):
                del outputs[same:]
            del self._written[same:]
        clock = asyncio.get_running_loop().time
        for batch in batches(wanted[same:], lambda entry: entry.size):
            self._cells().append_outputs(self.cell_id, [entry.output for entry in batch], RUN)
            self._written += [_WrittenOutput.from_entry(entry) for entry in batch]
            if clock() > until:
                break
        self._current = self._list.rewrites, max(0, len(self._written) - 1)
        return len(self._written) == len(wanted)

    def _retype(self, shared: Text, shown: _WrittenOutput, new: str) -> None:
        """Change a stream's text from the first difference on: a deletion and an insertion, one
        text event each.
        """
        old = shown.output["text"]
        start, offset = len(old), shown.bytes
        if not new.startswith(old):
            start = old.rfind("\n") + 1
            shorter = min(len(old), len(new))
            while start < shorter and old[start] == new[start]:
                start += 1
            offset = shown.bytes - len(old[start:].encode())
            if not new.startswith(old[:start]):
                start = offset = 0
        cells = self._cells()
        if start < len(old):
            with cells.transaction(RUN):
                del shared[offset : shown.bytes]
        if start < len(new):
            with cells.transaction(RUN):
                shared.insert(offset, new[start:])

    def _begin(self) -> None:
        self._written_to = self._place()
        self._written.clear()
        cell = self._cell()
        if cell is not None:
            with self._cells().transaction(RUN):
                cell["outputs"].clear()
                cell["execution_count"] = None
                set_running(self._cells(), self.cell_id)

    def _write_state(self) -> None:
        cell = self._cell()
        if cell is not None:
            with self._cells().transaction(RUN):
                set_idle(self._cells(), self.cell_id)
                cell["execution_count"] = as_shared(self._execution_count)

    def _cell(self) -> Map[Any] | None:
        """The cell, while it exists and belongs to this run."""
        if self.rerun_by_user:
            return None
        try:
            cell = self._cells().live_cell(self.cell_id)
        except CellNotFound:
            cell = None
        self.gone = cell is None or "outputs" not in cell
        self.rerun_by_user = self.cell_id in self._cells().rerun_by_user
        if cell is not None and self.rerun_by_user and not self.gone:
            with self._cells().transaction(RUN):  # the user's run waits for ours: no output yet
                cell["outputs"].clear()
                unmark(self._cells(), self.cell_id)
        return None if self.gone or self.rerun_by_user else cell

    def _live_outputs(self) -> Array[Any] | None:
        """The cell's outputs in the document, consistent with our record of them."""
        cell = self._cell()
        if cell is None:
            return None
        outputs: Array[Any] = cell["outputs"]
        if self._written and not len(outputs):
            # The user cleared them: later outputs stand alone.
            self._list.forget(len(self._written), self._written[-1].output.get("text", ""))
            self._written.clear()
        elif len(outputs) != len(self._written):
            with self._cells().transaction(RUN):
                outputs.clear()
            self._written.clear()
        return outputs

    def _is_still_shown(self) -> bool:
        """Whether the cell still shows the outputs of this run: it may have been run again
        since.
        """
        try:
            cell = self._cells().value(self.cell_id)
        except CellNotFound:
            return False
        shown = [as_shared(output.output) for output in self._written]
        if cell.get("outputs") != shown or cell["execution_count"] != self._execution_count:
            return False
        self._written_to = self._place()  # a document that was loaded again has the saved outputs
        return True
