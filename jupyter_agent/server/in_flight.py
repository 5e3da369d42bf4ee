"""Requests that a server still has to answer, so that it can end in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_agent.tasks import begin

_GRACE = 0.2
"""Seconds for the next of the requests whose turns were just stopped to send its answer."""
_LONGEST_END = 4.0
"""Seconds to wait for cancelled requests: a fresh kernel takes about one to end."""


class InFlightRequests:
    """The requests that are being answered.

    None of them outlives the server: a task that never ends keeps AnyIO's worker threads alive,
    and with them the process.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    @property
    def count(self) -> int:
        """How many requests are being answered."""
        return len(self._tasks)

    @contextmanager
    def track(self, on_stop: Callable[[], None]) -> Iterator[None]:
        """Tracks a request, in its task; if the server stops, it ends with `on_stop`."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self.closed:
                raise
            task.uncancel()
            on_stop()
        finally:
            self._tasks.discard(task)

    def finish_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the rest of a request after its answer was sent."""
        begin(work, self._tasks)

    def refuse_more(self) -> None:
        """From now on, requests are refused."""
        self.closed = True

    async def close(self) -> None:
        """Cancels the requests that wait and returns when they have ended; refuses new ones."""
        self.refuse_more()
        while self._tasks:
            ended, _ = await asyncio.wait(
                self._tasks, timeout=_GRACE, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended:
                break
        waiting = set(self._tasks)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_LONGEST_END)
