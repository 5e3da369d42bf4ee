"""A gate that a model waits at in the middle of an answer."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal


class Gate(asyncio.Event):
    """Opened by the test, waited for in the thread of the fake."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = threading.Event()

    async def wait(self) -> Literal[True]:
        await asyncio.to_thread(self._opened.wait)
        return True

    def set(self) -> None:
        self._opened.set()
