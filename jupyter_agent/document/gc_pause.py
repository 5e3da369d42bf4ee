"""Long work in slices beside the event loop, with the garbage collector paused."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pycrdt import Doc


async def give_way() -> None:
    """Let everything run that has become ready by now.

    What becomes ready in a slice is queued behind one who waits for a single turn of the loop.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def copied(document: Doc[Any]) -> bytes:
    """An update that makes the document as it is; to make it is a slice of its own."""
    await give_way()
    copy = document.get_update()
    await give_way()
    return copy


@contextmanager
def set_aside(large: bool) -> Iterator[None]:
    """While work on a large notebook is done, Python does not look for garbage in what there was
    before, but in what is made meanwhile: that takes a fifth of a second, in whichever thread.
    """
    if not large or gc.get_freeze_count():  # somebody else's, or that of other work of ours
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
