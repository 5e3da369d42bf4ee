"""Long work on the event loop, in slices."""

from __future__ import annotations

import asyncio
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
