"""Server-sent events: of a turn, of runs, of a notebook."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

from tornado.iostream import StreamClosedError

from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.events import Event
from jupyter_agent.foreign import json_text
from jupyter_agent.server.base import AgentHandler
from jupyter_agent.server.wire import chunk

HEARTBEAT = 15.0
"""Seconds of silence after which a comment line keeps proxies from closing the connection."""
_FRAMES = 10**9
"""More than a turn has frames."""
_TURNS = 9_000_000
"""How many turns the id of a frame can tell apart; ids stay below 2**53."""


class FrameId(NamedTuple):
    """The id of a frame of a turn: one number on the wire, since clients may count with it."""

    turn: int
    """Tells the turn from others of its conversation; 0 in ids of earlier versions."""
    number: int
    """From 1 in each turn."""

    @classmethod
    def of(cls, turn_id: str, number: int) -> Self:
        return cls(1 + zlib.crc32(turn_id.encode()) % _TURNS, number)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None if it is not the id of a frame."""
        if not re.fullmatch("[0-9]{1,16}", text):
            return None
        return cls(*divmod(int(text), _FRAMES))

    def __str__(self) -> str:
        return str(self.turn * _FRAMES + self.number)

    def is_in(self, turn_id: str) -> bool:
        """Whether it can be of that turn."""
        return self.turn in (0, FrameId.of(turn_id, self.number).turn)


Frames: TypeAlias = Sequence[tuple[FrameId | int, Mapping[str, Any]]]
"""Events with their ids, as JSON."""


class StreamHandler(AgentHandler):
    """A handler that can answer with the stream of a turn. A client that disconnects stops
    nothing."""

    def on_connection_close(self) -> None:
        self._close_event().set()
        super().on_connection_close()

    async def stream(self, turn: LiveTurn, after: int = 0) -> None:
        """Sends the frames after number `after`, to the end of the turn."""
        await self.send(turn.record.id, turn.follow(after))

    async def send(self, turn_id: str, events: AsyncIterator[Sequence[tuple[int, Event]]]) -> None:
        """Sends numbered events of a turn as frames, one write for those that come together; then
        `[DONE]`."""
        self.set_header("x-vercel-ai-ui-message-stream", "v1")
        await self.send_data(
            [(FrameId.of(turn_id, seq), chunk(event)) for seq, event in ready]
            async for ready in events
        )

    async def send_data(self, values: AsyncIterator[Frames]) -> None:
        """Like `send`, for any JSON with its ids."""
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
                self.write("".join(_frame(id, value) for id, value in ready))
                await self.flush()
                pending = asyncio.ensure_future(anext(values, None))
        finally:
            closed.cancel()
            pending.cancel()

    def _close_event(self) -> asyncio.Event:
        if not hasattr(self, "_closed_event"):
            self._closed_event = asyncio.Event()
        return self._closed_event


def _frame(id: FrameId | int, value: Mapping[str, Any]) -> str:
    return f"id: {id}\ndata: {json_text(value)}\n\n"


async def number_frames(values: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[Frames]:
    """Adds numbers from 1."""
    number = 0
    async for value in values:
        number += 1
        yield [(number, value)]
