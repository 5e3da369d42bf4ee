"""A run that a server which is gone left behind: followed again, or reported as lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jupyter_agent.errors import KernelUnavailable
from jupyter_agent.kernel.execution import Execution, ExecutionReply
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.workspace.run_records import RunRecord

_PATIENCE_S = 60.0
"""Seconds in which a gateway that is out of reach is asked again."""
_PAUSE_S = 1.0
_RESTARTED = "The Jupyter server was started again meanwhile"
_NEVER_STARTED = f"{_RESTARTED}, and the code had not begun: it never started."
_GONE = f"{_RESTARTED}, and the kernel is gone: its variables are lost, outputs may be missing."
_UNKNOWN = f"{_RESTARTED}, and the kernel cannot be reached: how the code ended is unknown."


class Returning:
    """The execution of such a run: the kernel is looked for, and its code is followed there."""

    def __init__(
        self,
        record: RunRecord,
        path: str,
        kernels: Kernels,
        sink: OutputSink,
        found: Callable[[Kernel], None],
    ) -> None:
        """`found` is called with the kernel that still has the code."""
        self.request_id = record.request_id
        self._record = record
        self._path = path
        self._kernels = kernels
        self._sink = sink
        self._found = found
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
        self._found(kernel)
        self._execution = kernel.follow(
            self._record.request_id, self._sink, timeout=self._seconds_left()
        )
        try:
            return await self._execution
        except KernelUnavailable as error:
            if kernel.gone:
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
