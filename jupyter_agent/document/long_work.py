"""Long work on the event loop: in slices, and without full garbage collections."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pycrdt import Doc


async def yield_to_loop() -> None:
    """Let everything run that is ready by now.

    A callback that becomes ready during a slice is queued behind a caller that waits for only one
    turn of the loop.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def full_update(document: Doc[Any]) -> bytes:
    """An update with the whole document; making it is a slice of its own."""
    await yield_to_loop()
    copy = document.get_update()
    await yield_to_loop()
    return copy


@contextmanager
def gc_frozen(large: bool) -> Iterator[None]:
    """During work on a large notebook, keep Python from collecting garbage among the older objects:
    that takes a fifth of a second, in whichever thread. New objects are still collected.
    """
    if not large or gc.get_freeze_count():  # already frozen, by us or other code
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
