"""Waits until a kernel is free, or restarted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from jupyter_core.utils import ensure_async

from jupyter_agent.kernel.client import Connection
from jupyter_agent.kernel.reply import KernelProcess

LOOK_S = 0.25
"""Seconds of silence after which we check whether the kernel is alive."""


async def connect_when_free(kernel: KernelProcess) -> Connection:
    """A connection to the kernel, once it runs nothing, or has ended."""
    connection = await kernel.connect()
    waiting: asyncio.Future[None] | None = None
    try:
        while not connection.ended.done():
            await kernel.check()
            if connection.is_free or (waiting is not None and waiting.done()):
                break
            waiting = waiting or asyncio.ensure_future(connection.wait_free())
            either: list[asyncio.Future[Any]] = [waiting, connection.ended]
            await asyncio.wait(either, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if waiting is not None:
            waiting.cancel()
    return connection


async def restart_process(kernels: Any, kernel_id: str) -> None:
    """Restart a kernel of a manager and wait until the new process answers."""
    with suppress(asyncio.InvalidStateError):  # someone else has begun to restart it, too
        # The manager returns a second awaitable, done when the new process answers.
        if (answered := await ensure_async(kernels.restart_kernel(kernel_id))) is not None:
            await answered


async def wait_settled(manager: Any, known: Any, *, seconds: float) -> None:
    """Wait while someone restarts the kernel of a manager, whose last known `ready` is `known`: it
    makes a new one when it stops or starts a process. Of two restarts at once, a process would be
    left behind.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (ready := manager.ready) is not known and not ready.done():
                await asyncio.wait([asyncio.wrap_future(ready)])
