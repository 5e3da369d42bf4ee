"""The event stream of a turn over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

from tornado.iostream import StreamClosedError

from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.events import Event
from jupyter_agent.server.base import AgentHandler
from jupyter_agent.server.wire import chunk

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
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache, no-transform")
        self.set_header("X-Accel-Buffering", "no")
        self.set_header("x-vercel-ai-ui-message-stream", "v1")
        self.request.connection.stream.set_nodelay(True)  # type: ignore[union-attr]
        try:
            await self._send_all(events)
            self.write("data: [DONE]\n\n")
            await self.finish()
        except StreamClosedError:
            return

    async def _send_all(self, events: AsyncIterator[Sequence[tuple[int, Event]]]) -> None:
        await self.flush()
        gone = asyncio.ensure_future(self._gone().wait())
        pending = asyncio.ensure_future(anext(events, None))
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
                self.write("".join(_frame(seq, event) for seq, event in ready))
                await self.flush()
                pending = asyncio.ensure_future(anext(events, None))
        finally:
            gone.cancel()
            pending.cancel()

    def _gone(self) -> asyncio.Event:
        if not hasattr(self, "_closed_event"):
            self._closed_event = asyncio.Event()
        return self._closed_event


def _frame(seq: int, event: Event) -> str:
    return f"id: {seq}\ndata: {json.dumps(chunk(event))}\n\n"
