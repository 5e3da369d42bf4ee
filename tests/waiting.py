"""Waiting for conditions, as long as slow machines need, and no longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds."""


async def until(true: Callable[[], T]) -> T:
    """Runs the event loop until `true()` is true; returns its value."""
    async with asyncio.timeout(PATIENCE):
        while not (value := true()):
            await asyncio.sleep(0.005)
    return value


async def soon(event: asyncio.Event) -> None:
    """Waits for an event."""
    async with asyncio.timeout(PATIENCE):
        await event.wait()


def eventually(look: Callable[[], T], holds: Callable[[T], object], timeout: float = PATIENCE) -> T:
    """The first value of `look` for which `holds` is true; fails with the last value."""
    deadline = time.monotonic() + timeout
    while not holds(seen := look()):
        assert time.monotonic() < deadline, f"after {timeout} s still: {seen!r}"
        time.sleep(0.02)
    return seen
