"""Work beside the caller's, and work that must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def begin(work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[T]]) -> asyncio.Task[T]:
    """Begin `work`, and keep its task in `tasks` until it has ended: an event loop does not keep
    those that nobody else refers to.
    """
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, in order. Where one fails, the others are cancelled, and its error is
    raised as it is once they have ended.
    """
    tasks = [asyncio.create_task(work) for work in works]
    first: Collection[asyncio.Task[T]] = ()
    try:
        if tasks:
            first, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()  # once, or what it tidies up would be cut off
        await surely(_ended(tasks))
    ended = [task for task in (*first, *tasks) if not task.cancelled()]
    for error in filter(None, [task.exception() for task in ended]):
        raise error
    return [task.result() for task in tasks]


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


async def surely(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which runs to its end even if the caller is cancelled meanwhile.

    Raises what `work` raises. A cancellation is raised once `work` has ended, so timeouts around
    it fire; an error of `work` is its cause then. What must be known of the result in that case
    belongs into `work`.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    return task.result()
