"""Records of running cells on disk: the next server follows them again, or reports them lost."""

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
from jupyter_agent.kernel.execution import Execution, ExecutionReply
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.outputs import OutputSink

_WRITE_DELAY_S = 0.05
"""Seconds after which a run that still goes on is written down: the many short ones never are."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What is needed to find a run again."""

    id: str
    owner: str
    turn_id: str | None
    notebook: str
    cell_id: str
    kernel_id: str
    connection_file: str
    """Of a kernel that another program started; else empty."""
    request_id: str
    """The message that has the code; empty while the run is queued."""
    began: str
    """ISO 8601; empty while the run is queued."""
    timeout: float | None
    former_count: int | None
    """The number that the cell had from an earlier run."""


class RunRecords:
    """The runs of this server that have not ended, and those that earlier ones left."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._live: dict[str, RunRecord] = {}
        self._written: Mapping[str, RunRecord] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    def claim(self) -> list[RunRecord]:
        """Those of servers of this root that are gone; returned once."""
        return self._leftovers.take("runs", _read)

    def keep(self, record: RunRecord) -> None:
        """This run has not ended."""
        self._live[record.id] = record
        self._write_soon()

    def drop(self, run_id: str) -> None:
        """It has. What ends only because the server does is kept."""
        if not self._closed and self._live.pop(run_id, None) is not None:
            self._write_soon()

    async def close(self) -> None:
        """Write now what is to be kept."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._write()

    def _write_soon(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_DELAY_S, self._start_write)

    def _start_write(self) -> None:
        if self._writing is not None and not self._writing.done():
            self._timer = asyncio.get_running_loop().call_later(_WRITE_DELAY_S, self._start_write)
            return
        self._timer = None
        self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        now = dict(self._live)
        if now != self._written:
            self._written = now
            await asyncio.to_thread(self._replace, now)

    def _replace(self, now: Mapping[str, RunRecord]) -> None:
        if now:
            self._leftovers.replace("runs", [asdict(record) for record in now.values()])
        else:
            self._leftovers.clear()


class NoRecords:
    """Where runs end with their server."""

    def claim(self) -> list[RunRecord]:
        return []

    def keep(self, record: RunRecord) -> None: ...

    def drop(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


def _read(value: Mapping[str, Any]) -> RunRecord:
    return RunRecord(**{field.name: value[field.name] for field in fields(RunRecord)})


_PATIENCE_S = 60.0
"""Seconds in which a gateway that is out of reach is asked again."""
_PAUSE_S = 1.0
_RESTARTED = "The Jupyter server was started again meanwhile"
_NEVER_STARTED = f"{_RESTARTED}, and the code had not begun: it never started."
_GONE = f"{_RESTARTED}, and the kernel is gone: its variables are lost, outputs may be missing."
_UNKNOWN = f"{_RESTARTED}, and the kernel cannot be reached: how the code ended is unknown."


class ResumedExecution:
    """The execution of such a run: the kernel is looked for, and its code is followed there."""

    def __init__(
        self,
        record: RunRecord,
        path: str,
        kernels: Kernels,
        sink: OutputSink,
        on_attached: Callable[[Kernel], None],
    ) -> None:
        """`on_attached` is called with the kernel that still has the code."""
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
        """Interrupt the code, or stop looking for it."""
        if self._execution is not None:
            await self._execution.interrupt()
        self._withdrawn.set()

    async def cancel(self) -> None:
        """Give it up without telling the kernel."""
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
        """The kernel, None where it is gone. Raises KernelUnavailable where it is out of reach for
        long, or nobody wants to wait.
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
