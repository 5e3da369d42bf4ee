"""Long work on the event loop, in slices."""

from __future__ import annotations

import asyncio


async def give_way() -> None:
    """Let everything run that has become ready by now.

    What becomes ready in a slice is queued behind one who waits for a single turn of the loop.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)
