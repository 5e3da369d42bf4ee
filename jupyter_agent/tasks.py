"""Background work, and work that must not be interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def begin(work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[T]]) -> asyncio.Task[T]:
    """Starts `work` and keeps its task in `tasks` until it has ended: an event loop only holds weak
    references.
    """
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def gather_or_cancel(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, in order. If one fails, the others are cancelled, and its error is raised
    once they have ended.
    """
    tasks = [asyncio.create_task(work) for work in works]
    first: Collection[asyncio.Task[T]] = ()
    try:
        if tasks:
            first, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()  # only once, or its cleanup would be cut off
        await surely(_wait_for(tasks))
    ended = [task for task in (*first, *tasks) if not task.cancelled()]
    for error in filter(None, [task.exception() for task in ended]):
        raise error
    return [task.result() for task in tasks]


async def _wait_for(tasks: Collection[asyncio.Task[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


async def surely(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which runs to its end even if the caller is cancelled.

    Raises what `work` raises. A cancellation is raised once `work` has ended, so timeouts around
    it fire; an error of `work` is its cause then. Anything that depends on the result must be done
    in `work`.
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
