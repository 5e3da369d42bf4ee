"""Answers that arrive as a stream, message by message."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class Stream:
    """The messages of one answer."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._held = b""

    def feed(self, piece: bytes) -> None:
        *frames, self._held = (self._held + piece).split(b"\n\n")
        for frame in frames:
            for line in frame.splitlines():
                if line.startswith(b"data: "):
                    self._messages.put_nowait(json.loads(line.removeprefix(b"data: ")))

    def close(self) -> None:
        self._messages.put_nowait(None)

    async def next(self) -> dict[str, Any]:
        found = await asyncio.wait_for(self._messages.get(), 30)
        assert found is not None, "the stream has ended"
        return found

    async def ended(self) -> bool:
        return await asyncio.wait_for(self._messages.get(), 30) is None

    async def rest(self) -> list[dict[str, Any]]:
        """All messages up to the end of the stream."""
        found = []
        while (each := await asyncio.wait_for(self._messages.get(), 30)) is not None:
            found.append(each)
        return found
