"""Kernels that belong to no notebook: each is started for one purpose and ended after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import zmq
import zmq.asyncio
from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.errors import KernelUnavailable
from jupyter_agent.kernel.kernel import Kernel

_FAILURES = (OSError, RuntimeError, ValueError, KeyError, HTTPError)
"""What kernel provisioners and gateways raise where a kernel does not start or is gone already."""
_GRACE = 1.0
"""Seconds that code has to end after its interrupt, before its kernel is killed."""


class FreshKernels:
    """Starts kernels beside those of the sessions, and sees to it that each of them ends."""

    def __init__(
        self, session_manager: Any, kernel_manager: Any, *, start_timeout: float = 60
    ) -> None:
        self._sessions = session_manager
        self._manager = kernel_manager
        self._start_timeout = start_timeout
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def kernel(self, path: str, name: str) -> AsyncIterator[Kernel]:
        """A new kernel of the kernelspec `name` as the notebook at `path` would get it: the same
        folder, the same environment. It is no session of that notebook.

        It is shut down at the end of the block, whatever happens; code that still runs then is
        interrupted first. Raises KernelUnavailable.
        """
        starting = asyncio.ensure_future(self._start(path, name))
        kernel: Kernel | None = None
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.RCVHWM, 0)  # as for the sessions' kernels: no output is lost
        try:
            kernel_id = await self._started(starting, name)
            kernel = Kernel(kernel_id, self._manager, context, start_timeout=self._start_timeout)
            yield kernel
        finally:
            ending = asyncio.create_task(self._end(starting, kernel, context))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            if kernel is not None:  # one that still starts is not waited for, but it will end
                await asyncio.shield(ending)

    async def close(self) -> None:
        """Wait until the last of them has ended."""
        await asyncio.gather(*self._ending)

    async def _start(self, path: str, name: str) -> str:
        # What the session manager does for a session: folder and environment of the notebook.
        contents = self._sessions.contents_manager
        folder = await ensure_async(contents.get_kernel_path(path=path))
        environment = self._sessions.get_kernel_env(path, path.rpartition("/")[2])
        kernel_id = await ensure_async(
            self._manager.start_kernel(path=folder, kernel_name=name, env=environment)
        )
        return str(kernel_id)

    async def _started(self, starting: asyncio.Future[str], name: str) -> str:
        try:
            async with asyncio.timeout(self._start_timeout):
                return await asyncio.shield(starting)
        except TimeoutError:
            why = f"it did not start within {self._start_timeout:g} s"
        except _FAILURES as error:
            why = str(error)
        raise KernelUnavailable(f"No fresh kernel `{name}`: {why}.")

    async def _end(
        self, starting: asyncio.Future[str], kernel: Kernel | None, context: zmq.asyncio.Context
    ) -> None:
        with suppress(*_FAILURES):
            kernel_id = await starting
            stopped = kernel is not None and kernel.in_use
            if kernel is not None:
                await self._leave(kernel)
            if kernel_id in self._manager:
                await ensure_async(self._manager.shutdown_kernel(kernel_id, now=stopped))
        context.destroy(linger=0)

    @staticmethod
    async def _leave(kernel: Kernel) -> None:
        """Interrupt what still runs, so that its `finally` is done, and close our channels."""
        if kernel.in_use:
            with suppress(KernelUnavailable, TimeoutError):
                await kernel.interrupt()
                async with asyncio.timeout(_GRACE), kernel.queue:  # it holds the queue to its end
                    pass
        await kernel.close()
