"""Server-sent events: of a turn, of runs, of a notebook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeAlias

from tornado.iostream import StreamClosedError

from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.events import Event
from jupyter_agent.server.base import AgentHandler
from jupyter_agent.server.wire import chunk

Frames: TypeAlias = Sequence[tuple[int, Mapping[str, Any]]]
"""Events with their numbers, as JSON."""
HEARTBEAT = 15.0
"""Seconds of silence after which a comment line keeps proxies from closing the connection."""


class StreamHandler(AgentHandler):
    """A handler that can answer with the stream of a turn. A client that disconnects stops
    nothing."""

    def on_connection_close(self) -> None:
        self._close_event().set()
        super().on_connection_close()

    async def stream(self, turn: LiveTurn, after: int = 0) -> None:
        """Sends the frames after number `after`, to the end of the turn."""
        await self.send(turn.follow(after))

    async def send(self, events: AsyncIterator[Sequence[tuple[int, Event]]]) -> None:
        """Sends numbered events as frames, one write for those that come together; then
        `[DONE]`."""
        self.set_header("x-vercel-ai-ui-message-stream", "v1")
        await self.send_data(
            [(seq, chunk(event)) for seq, event in ready] async for ready in events
        )

    async def send_data(self, values: AsyncIterator[Frames]) -> None:
        """Like `send`, for any JSON with its numbers."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache, no-transform")
        self.set_header("X-Accel-Buffering", "no")
        self.request.connection.stream.set_nodelay(True)  # type: ignore[union-attr]
        try:
            await self._send_all(values)
            self.write("data: [DONE]\n\n")
            await self.finish()
        except StreamClosedError:
            return

    async def _send_all(self, values: AsyncIterator[Frames]) -> None:
        await self.flush()
        closed = asyncio.ensure_future(self._close_event().wait())
        pending = asyncio.ensure_future(anext(values, None))
        try:
            while True:
                done, _ = await asyncio.wait(
                    (pending, closed), timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
                )
                if closed in done:
                    raise StreamClosedError
                if not done:
                    self.write(": still here\n\n")
                    await self.flush()
                    continue
                ready = pending.result()
                if ready is None:
                    return
                self.write("".join(_frame(seq, value) for seq, value in ready))
                await self.flush()
                pending = asyncio.ensure_future(anext(values, None))
        finally:
            closed.cancel()
            pending.cancel()

    def _close_event(self) -> asyncio.Event:
        if not hasattr(self, "_closed_event"):
            self._closed_event = asyncio.Event()
        return self._closed_event


def _frame(seq: int, value: Mapping[str, Any]) -> str:
    return f"id: {seq}\ndata: {json.dumps(value)}\n\n"


async def number_frames(values: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[Frames]:
    """Adds numbers from 1."""
    number = 0
    async for value in values:
        number += 1
        yield [(number, value)]
