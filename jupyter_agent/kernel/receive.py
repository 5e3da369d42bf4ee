"""Messages off a kernel's channels: whatever waits, without holding up the event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from queue import Empty
from typing import Any, TypeAlias

import zmq

from jupyter_agent.kernel.outputs import too_large

log = logging.getLogger(__name__)

Message: TypeAlias = dict[str, Any]
_SLICE = 0.005
"""Seconds of reading after which other work of the server has its turn."""
_OFF_LOOP = 1_000_000
"""Bytes of a content from which on it is read in a thread."""
LARGEST = 50_000_000
"""Bytes of a content that is read at all: reading JSON holds up every thread, and no cell takes
it.
"""


async def from_socket(channel: Any) -> list[Message]:
    """What waits in a zmq channel, in order; waits for one where there is none.

    Those that cannot be read, or are not signed by our kernel, are logged and left out.
    """
    frames = await channel.socket.recv_multipart(copy=False)
    waiting: Any = zmq.Socket.shadow(channel.socket)
    until = time.monotonic() + _SLICE
    messages: list[Message] = []
    while True:
        try:
            messages.append(await _read(channel.session, frames))
        except Exception:  # whatever reading raises: what a kernel sends must not end its reader
            log.exception("A message of a kernel cannot be read and was left out.")
        if time.monotonic() > until:
            return messages
        try:
            frames = waiting.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return messages


async def from_queue(channel: Any) -> list[Message]:
    """What waits in a channel of a gateway, at least one message.

    It is a queue that a thread fills; waiting in it would spin. Raises ConnectionError.
    """
    while True:
        try:
            message: Message = await channel.get_msg(timeout=0)
        except Empty:
            await asyncio.sleep(0.02)
        except RuntimeError as error:  # its websocket is closed
            raise ConnectionError from error
        else:
            return [message]


async def _read(session: Any, frames: list[Any]) -> Message:
    _, parts = session.feed_identities(frames, copy=False)
    size = len(parts[4]) if len(parts) > 4 else 0
    if size < _OFF_LOOP:
        return _deserialized(session, parts)
    if size <= LARGEST:
        return await asyncio.to_thread(_deserialized, session, parts)
    return await asyncio.to_thread(_without_content, session, parts)


def _deserialized(session: Any, parts: list[Any]) -> Message:
    message: Message = session.deserialize(parts, copy=False)
    return message


def _without_content(session: Any, parts: list[Any]) -> Message:
    message: Message = session.deserialize(parts, content=False, copy=False)
    return {**message, "content": too_large(message["header"]["msg_type"], message["content"])}
