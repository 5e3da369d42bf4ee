"""Work that must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
