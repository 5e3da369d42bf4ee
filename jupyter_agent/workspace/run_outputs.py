"""Writes outputs of the kernel into a cell and its notebook, and saves them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

from jupyter_agent.document.carrier import SaveResult
from jupyter_agent.document.cell import CellState, Change, Output
from jupyter_agent.document.long_work import gc_frozen
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.output_writer import CellOutputs
from jupyter_agent.document.outputs import OutputList
from jupyter_agent.errors import CellNotFound, NotebookNotFound, ToolError

SAVE_EVERY = 5.0
"""Seconds between saves of late outputs."""
_MANY = 1_000
"""Outputs of a run after which Python's garbage collection would be noticeable."""
_NOTIFY_EVERY = 0.25
"""Seconds between two notifications of followers."""


class CellSink:
    """The sink of a run (kernel/outputs.py) that writes into its cell of the live document."""

    def __init__(
        self,
        notebook: Notebook,
        cell_id: str,
        *,
        limit: int,
        save: Callable[[], Awaitable[None]],
        resumes: bool = False,
        former_count: int | None = None,
    ) -> None:
        """`resumes`: an earlier server started this run, when the cell had the execution count
        `former_count`.
        """
        self._resumes = resumes
        self._former_count = former_count
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.began_at: datetime | None = None
        self.before: CellState | None = None
        self.gone = False
        """Whether the cell was deleted, or was no longer code when the run was to start."""
        self.unsaved = False
        self.followers: list[Callable[[], None]] = []
        self._notebook = notebook
        self._cell_id = cell_id
        self._limit = limit
        self._finished = False
        self._outputs: CellOutputs | None = None
        self._trailing = TrailingOutputs(notebook, cell_id, save, self._write_late)
        self._late_changes: list[Change] = []
        self._notify_timer: asyncio.TimerHandle | None = None
        self._displayed = 0
        self._aside = ExitStack()

    async def prepare(self) -> bool:
        try:
            await self._notebook.read_live()
            self.gone = self._notebook.cached_cell(self._cell_id).type != "code"
        except (CellNotFound, NotebookNotFound):
            self.gone = True
        if not self.gone:  # this keeps the notebook open, however long the kernel takes
            self._outputs = self._notebook.outputs(self._cell_id, limit=self._limit)
        return not self.gone

    def on_start(self) -> None:
        self.before = self._state()
        if self._resumes and self.before is not None:
            self._resume(self.before)
        else:
            self._writer.start()
        self.began_at = self.began_at or datetime.now(UTC)
        self.began.set_result(None)
        self._notify_later()

    def _resume(self, found: CellState) -> None:
        """Continue the outputs of this run. An execution count at the cell means that it shows
        another run: an earlier one, or one of the user.
        """
        if found.execution_count is None:
            self._writer.resume(found.outputs)
        elif found.execution_count == self._former_count:
            self._writer.start()
        else:
            self._writer.rerun_by_user = True

    def stream(self, name: str, text: str) -> None:
        self._show(partial(self._writer.stream, name, text))

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None:
        self._show(partial(self._writer.display, output, display_id))
        self._displayed += 1
        if self._displayed == _MANY and not self._finished:
            self._aside.enter_context(gc_frozen(True))

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        self._show(partial(self._writer.update_display, display_id, data, metadata))

    def clear(self, wait: bool) -> None:
        self._show(partial(self._writer.clear, wait))

    async def settle(self) -> None:
        """Wait until all outputs so far are in the cell."""
        if self._outputs is not None:
            await self._outputs.drain()

    def finish(self, execution_count: int | None) -> list[Change]:
        """End the run in the cell; returns its changes, none for a deleted cell."""
        self._aside.close()
        self._writer.finish(execution_count)
        self._finished = self.unsaved = True
        if self._notify_timer is not None:
            self._notify_timer.cancel()
        self.gone = self._state() is None
        return self._writer.changes(self._notebook.path, self.before)

    def take_late_changes(self) -> list[Change]:
        """The changes by outputs that came after the end: each once."""
        changes, self._late_changes = self._late_changes, []
        return changes

    def dismiss(self) -> None:
        """The code never started: nothing will be shown."""
        self._outputs = None

    async def close(self) -> None:
        """Save late outputs."""
        await self._trailing.close()

    @property
    def rerun_by_user(self) -> bool:
        """Whether a person ran the cell during this run, so that it shows theirs."""
        return self._outputs is not None and self._outputs.rerun_by_user

    def outputs(self) -> list[Output]:
        return self._outputs.outputs() if self._outputs is not None else []

    @property
    def _writer(self) -> CellOutputs:
        if self._outputs is None:
            raise RuntimeError("The kernel sent outputs before the code started.")
        return self._outputs

    def _state(self) -> CellState | None:
        try:
            return self._notebook.cached_cell(self._cell_id).state()
        except CellNotFound:
            return None

    def _show(self, write: Callable[[], None]) -> None:
        if self._finished:
            self._trailing.add(write)
        else:
            write()
            self._notify_later()

    def _write_late(self, writes: Sequence[Callable[[], None]]) -> None:
        before = self._state()
        for write in writes:
            write()
        self._writer.flush()
        made = self._writer.changes(self._notebook.path, before)
        self._late_changes += [change for change in made if change.before != change.after]

    def _notify_later(self) -> None:
        self.unsaved = True
        if self._notify_timer is None and self.followers:
            loop = asyncio.get_running_loop()
            self._notify_timer = loop.call_later(_NOTIFY_EVERY, self._notify)

    def _notify(self) -> None:
        self._notify_timer = None
        for follower in list(self.followers):
            follower()


class DetachedSink:
    """The sink of code outside of cells, which stores the outputs with the run."""

    gone = False
    rerun_by_user = False
    unsaved = False
    before: CellState | None = None

    def __init__(self, *, limit: int) -> None:
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.began_at: datetime | None = None
        self.followers: list[Callable[[], None]] = []
        self._outputs = OutputList(limit)
        self._finished = False
        self._notify_timer: asyncio.TimerHandle | None = None

    async def prepare(self) -> bool:
        return True

    def on_start(self) -> None:
        self.began_at = datetime.now(UTC)
        self.began.set_result(None)

    def stream(self, name: str, text: str) -> None:
        self._outputs.stream(name, text)
        self._notify_later()

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None:
        self._outputs.display(output, display_id)
        self._notify_later()

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        self._outputs.update(display_id, data, metadata)
        self._notify_later()

    def clear(self, wait: bool) -> None:
        self._outputs.clear(wait)
        self._notify_later()

    async def settle(self) -> None:
        """Nothing to wait for."""

    def finish(self, execution_count: int | None) -> list[Change]:
        """End the run; there is no cell."""
        self._finished = True
        if self._notify_timer is not None:
            self._notify_timer.cancel()
        return []

    def take_late_changes(self) -> list[Change]:
        """None: there is no cell."""
        return []

    def dismiss(self) -> None:
        """The code never started: nothing will be shown."""

    async def close(self) -> None:
        """Nothing to save."""

    def outputs(self) -> list[Output]:
        entries = self._outputs.entries(complete=True)
        return [dict(entry.output) for entry in entries]

    def _notify_later(self) -> None:
        if self._notify_timer is None and self.followers and not self._finished:
            loop = asyncio.get_running_loop()
            self._notify_timer = loop.call_later(_NOTIFY_EVERY, self._notify)

    def _notify(self) -> None:
        self._notify_timer = None
        for follower in list(self.followers):
            follower()


class TrailingOutputs:
    """Writes outputs that arrive after the end of a run into the cell and saves them."""

    def __init__(
        self,
        notebook: Notebook,
        cell_id: str,
        save: Callable[[], Awaitable[None]],
        write: Callable[[Sequence[Callable[[], None]]], None],
    ) -> None:
        """`write` makes some of the writes that `add` got, in order."""
        self._notebook = notebook
        self._cell_id = cell_id
        self._save = save
        self._write_all = write
        self._writes: list[Callable[[], None]] = []
        self._more = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def add(self, write: Callable[[], None]) -> None:
        """Add a write."""
        self._writes.append(write)
        self._more.set()
        if not self._closing and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Save the outputs so far now; later ones are dropped."""
        self._closing = True
        self._more.set()
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        due = clock() + SAVE_EVERY
        while not self._closing and (left := due - clock()) > 0:
            self._more.clear()
            if not await self._write():
                return
            try:
                async with asyncio.timeout(left):
                    await self._more.wait()
            except TimeoutError:
                break
        if await self._write():
            await self._save()

    async def _write(self) -> bool:
        """Open the notebook and write; False if the cell no longer exists."""
        try:
            await self._notebook.cell(self._cell_id)
        except ToolError:
            self._writes.clear()
            return False
        writes, self._writes = self._writes, []
        self._write_all(writes)
        return True


SAVE_DELAY = 1.0
"""Seconds until a save starts that no one waits for."""
MAX_SAVE_DELAY = 5.0
"""Longest such delay, if saves are slow."""
_SHARE = 10
"""Saves that no one waits for take at most about one in this many parts of the time."""


class Saves:
    """The saves of one notebook's outputs. They belong to no caller, so a cancelled caller does not
    cancel them.

    The futures have the results and errors of `Notebook.save`.
    """

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._next: asyncio.Future[SaveResult] | None = None
        """The future of the next save, which is scheduled but has not started."""
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[SaveResult] | None = None
        self._pause = SAVE_DELAY

    def schedule(self) -> asyncio.Future[SaveResult]:
        """Schedule a save of the current document; calls within a second share one save."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
            self._timer = loop.call_later(self._pause, self.start_now)
        return self._next

    def start_now(self) -> None:
        """Start the scheduled save, if any, at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if self._saving is None:
                self._begin()

    async def close(self) -> None:
        """Finish all scheduled saves."""
        self.start_now()
        while self._saving is not None:
            await asyncio.wait([self._saving])

    def _begin(self) -> None:
        """Start the next save, unless none is scheduled or it waits for its timer."""
        coming = None if self._timer is not None else self._next
        self._saving = None
        if coming is not None:
            self._next = None
            self._saving = asyncio.create_task(self._notebook.save())
            began = asyncio.get_running_loop().time()
            self._saving.add_done_callback(partial(self._on_saved, coming, began))

    def _on_saved(
        self, coming: asyncio.Future[SaveResult], began: float, saving: asyncio.Task[SaveResult]
    ) -> None:
        if saving.cancelled():
            coming.cancel()
        elif (error := saving.exception()) is not None:
            coming.set_exception(error)
        else:
            coming.set_result(saving.result())
        took = asyncio.get_running_loop().time() - began
        self._pause = min(MAX_SAVE_DELAY, max(SAVE_DELAY, _SHARE * took))
        self._begin()
