"""Records running cells on disk, so that the next server resumes them or reports them lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from jupyter_agent.carriers.leftovers import Leftovers
from jupyter_agent.errors import KernelUnavailable
from jupyter_agent.kernel import notes
from jupyter_agent.kernel.execution import Execution
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.kernel.reply import ExecutionReply

_WRITE_DELAY_S = 0.05
"""Seconds until a new run is written to disk: the many short runs never are."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The data needed to resume a run."""

    id: str
    owner: str
    turn_id: str | None
    notebook: str
    cell_id: str
    kernel_id: str
    connection_file: str
    """For a kernel that another program started; else empty."""
    request_id: str
    """The id of the message with the code; empty for a queued run."""
    began: str
    """ISO 8601; empty for a queued run."""
    timeout: float | None
    former_count: int | None
    """The execution count of the cell before this run."""


class RunRecords:
    """Stores the active runs of this server, and returns those of earlier servers."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._live: dict[str, RunRecord] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """Of runs that are not written yet."""
        self._closed = False

    async def claim(self) -> list[RunRecord]:
        """Take the records of servers of this root that are gone; each is returned only once."""
        records = []
        for entry in await self._leftovers.claim():
            with suppress(LookupError):  # of another version
                records.append(_read(entry))
        return records

    def keep(self, record: RunRecord) -> None:
        """Add or update the record of an active run."""
        if record == self._live.get(record.id):
            return
        is_new = record.id not in self._live
        self._live[record.id] = record
        if is_new and not self._closed:
            timer = asyncio.get_running_loop().call_later(_WRITE_DELAY_S, self._write, record.id)
            self._timers[record.id] = timer
        elif record.id not in self._timers:
            self._write(record.id)

    def drop(self, run_id: str) -> None:
        """Remove the record of an ended run. Runs that only end with the server stay."""
        if self._closed or self._live.pop(run_id, None) is None:
            return
        if timer := self._timers.pop(run_id, None):
            timer.cancel()
        else:
            self._leftovers.remove(run_id)

    def close(self) -> None:
        """Write the remaining records now."""
        self._closed = True
        for run_id, timer in list(self._timers.items()):
            timer.cancel()
            self._write(run_id)

    def _write(self, run_id: str) -> None:
        self._timers.pop(run_id, None)
        self._leftovers.put(run_id, asdict(self._live[run_id]))


def _read(value: Mapping[str, Any]) -> RunRecord:
    return RunRecord(**{field.name: value[field.name] for field in fields(RunRecord)})


_PATIENCE_S = 60.0
"""Seconds in which an unreachable gateway is tried again."""
_PAUSE_S = 1.0
_NEVER_STARTED = f"{notes.RESTART} while the code was queued: it never started."
_GONE = f"{notes.RESTART}, and the kernel is gone: its variables are lost, outputs may be missing."
_UNKNOWN = f"{notes.RESTART}, and the kernel cannot be reached: how the code ended is unknown."


class ResumedExecution:
    """The execution of a recorded run: finds its kernel and follows the code there."""

    def __init__(
        self,
        record: RunRecord,
        path: str,
        kernels: Kernels,
        sink: OutputSink,
        on_attached: Callable[[Kernel], None],
    ) -> None:
        """`on_attached` is called with the kernel once it is found."""
        self.request_id = record.request_id
        self._record = record
        self._path = path
        self._kernels = kernels
        self._sink = sink
        self._on_attached = on_attached
        self._execution: Execution | None = None
        self._withdrawn = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def __await__(self) -> Generator[Any, None, ExecutionReply]:
        return asyncio.shield(self._task).__await__()

    async def interrupt(self) -> None:
        """Interrupt the code, or stop looking for the kernel."""
        if self._execution is not None:
            await self._execution.interrupt()
        self._withdrawn.set()

    async def cancel(self) -> None:
        """Stop waiting without an interrupt."""
        if self._execution is not None:
            await self._execution.cancel()
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> ExecutionReply:
        if not self._record.request_id:
            return ExecutionReply(status="interrupted", note=_NEVER_STARTED)
        try:
            kernel = await self._attach()
        except KernelUnavailable as error:
            return ExecutionReply(status="error", note=f"{_UNKNOWN} {error.message}")
        if kernel is None:
            return ExecutionReply(status="died", note=_GONE)
        self._on_attached(kernel)
        self._execution = kernel.follow(
            self._record.request_id, self._sink, timeout=self._seconds_left()
        )
        try:
            return await self._execution
        except KernelUnavailable as error:
            if kernel.is_gone:
                return ExecutionReply(status="died", note=_GONE)
            return ExecutionReply(status="error", note=f"{_UNKNOWN} {error.message}")

    async def _attach(self) -> Kernel | None:
        """The kernel, or None for one that is gone. Raises KernelUnavailable if it is unreachable
        for too long or the run was interrupted.
        """
        record, until = self._record, time.monotonic() + _PATIENCE_S
        attach = self._kernels.attach
        while True:
            try:
                return await attach(self._path, record.kernel_id, record.connection_file)
            except KernelUnavailable:
                if self._withdrawn.is_set() or time.monotonic() > until:
                    raise
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_S):
                    await self._withdrawn.wait()

    def _seconds_left(self) -> float | None:
        if self._record.timeout is None:
            return None
        spent = datetime.now(UTC) - datetime.fromisoformat(self._record.began)
        return max(0.0, self._record.timeout - spent.total_seconds())
