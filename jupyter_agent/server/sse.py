"""Event streams over HTTP: of a turn, of runs, of a notebook."""

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
    """A handler that can answer with the stream of a turn. A lost client ends only the answer."""

    def on_connection_close(self) -> None:
        self._gone().set()
        super().on_connection_close()

    async def stream(self, turn: LiveTurn, after: int = 0) -> None:
        """Sends the frames from the one after number `after` on, to the turn's last."""
        await self.send(turn.follow(after))

    async def send(self, events: AsyncIterator[Sequence[tuple[int, Event]]]) -> None:
        """Sends numbered events as frames, those that come together in one write; then `[DONE]`."""
        self.set_header("x-vercel-ai-ui-message-stream", "v1")
        await self.send_data(
            [(seq, chunk(event)) for seq, event in ready] async for ready in events
        )

    async def send_data(self, values: AsyncIterator[Frames]) -> None:
        """As `send`, for any JSON with its numbers."""
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
        gone = asyncio.ensure_future(self._gone().wait())
        pending = asyncio.ensure_future(anext(values, None))
        try:
            while True:
                done, _ = await asyncio.wait(
                    (pending, gone), timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done:
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
            gone.cancel()
            pending.cancel()

    def _gone(self) -> asyncio.Event:
        if not hasattr(self, "_closed_event"):
            self._closed_event = asyncio.Event()
        return self._closed_event


def _frame(seq: int, value: Mapping[str, Any]) -> str:
    return f"id: {seq}\ndata: {json.dumps(value)}\n\n"


async def numbered(values: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[Frames]:
    """Each with its number from 1."""
    number = 0
    async for value in values:
        number += 1
        yield [(number, value)]
