"""Messages of a kernel's channels, as they arrive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from queue import Empty
from typing import Any, Literal, NamedTuple, TypeAlias

import zmq
import zmq.asyncio
from jupyter_core.utils import ensure_async

from jupyter_agent.kernel.outputs import left_out

log = logging.getLogger(__name__)

_SLICE_S = 0.005
"""Seconds of reading messages after which the event loop gets a chance to do other work."""
KernelMessage: TypeAlias = dict[str, Any]
_THREAD_BYTES = 1_000_000
"""Bytes of a message's content from which it is parsed in a thread."""
MAX_CONTENT_BYTES = 50_000_000
"""Bytes of a content up to which it is parsed: parsing blocks all threads, and no cell can hold
more.
"""
End: TypeAlias = Literal["died", "restarted"]
"""How a kernel process ended: by itself, or on request (a restart or shutdown)."""
ConnectionEnd: TypeAlias = Literal["died", "restarted", "broke"]
"""How a connection ended: with the process, or it broke and the process may continue."""
_OTHERS = 5
"""Numbers between two messages on iopub that are not used there: most are those of replies."""
CHANNELS = ("iopub", "shell", "control")
FROM_THREADS = ("stream", "display_data", "update_display_data", "clear_output")
"""Kinds of messages that code may send after its end."""


class Received(NamedTuple):
    """A message and its channel."""

    channel: str
    kind: str
    content: Mapping[str, Any]


class Inbox:
    """The messages of the kernel about one request, in order."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self._messages: asyncio.Queue[Received] = asyncio.Queue()
        self._taking_since = 0.0
        self.has_begun = False
        """Whether a message about the request has come."""
        self.lost_some = False
        """Whether messages of the kernel were lost in the meantime."""

    def put(self, message: Received) -> None:
        self.has_begun = True
        self._messages.put_nowait(message)

    async def next(self, seconds: float) -> Received | None:
        """The next message, or None after so many seconds of silence."""
        if not self._messages.empty():
            if time.monotonic() - self._taking_since > _SLICE_S:  # outputs pour in
                await asyncio.sleep(0)
                self._taking_since = time.monotonic()
            return self._messages.get_nowait()
        try:
            async with asyncio.timeout(seconds):
                return await self._messages.get()
        except TimeoutError:
            return None


class Numbering:
    """The numbers that a kernel process gives its messages, in which lost ones leave a gap.

    A kernel drops outputs for a client that cannot take them as fast as they come, and says
    nothing. `Session.msg_id` of jupyter_client numbers all messages of a process; kernels that are
    made without it have other ids, and nothing is noticed.
    """

    def __init__(self) -> None:
        self._process = ""
        self._last = 0

    def note(self, message_id: object, waiting: Iterable[Inbox]) -> None:
        """Take the next message on iopub; who waits for messages learns of a gap before it."""
        process, _, digits = str(message_id).rpartition("_")
        if not (process and digits.isdecimal()):
            return
        number, last = int(digits), self._last if process == self._process else None
        self._process, self._last = process, max(number, last or 0)
        if last is not None and number > last + 1 + _OTHERS:
            for inbox in waiting:
                inbox.lost_some |= inbox.has_begun  # else others' messages are missing


async def from_socket(channel: Any) -> list[KernelMessage]:
    """The waiting messages of a zmq channel, in order; waits for the first one.

    Messages that cannot be read or lack the kernel's signature are logged and left out.
    """
    frames = await channel.socket.recv_multipart(copy=False)
    waiting: Any = zmq.Socket.shadow(channel.socket)
    until = time.monotonic() + _SLICE_S
    messages: list[KernelMessage] = []
    while True:
        try:
            messages.append(await _read(channel.session, frames))
        except Exception:  # of any kind: no message of a kernel may end its reader
            log.exception("A message of a kernel cannot be read and was left out.")
        if time.monotonic() > until:
            return messages
        try:
            frames = waiting.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return messages


async def from_queue(channel: Any) -> list[KernelMessage]:
    """The next message of a gateway channel.

    The channel is a queue that a thread fills; its own waiting would spin. Raises ConnectionError.
    """
    while True:
        try:
            message: KernelMessage = await channel.get_msg(timeout=0)
        except Empty:
            await asyncio.sleep(0.02)
        except RuntimeError as error:
            raise ConnectionError("its websocket was closed") from error
        else:
            return [message]


async def _read(session: Any, frames: list[Any]) -> KernelMessage:
    _, parts = session.feed_identities(frames, copy=False)
    size = len(parts[4]) if len(parts) > 4 else 0
    if size < _THREAD_BYTES:
        return _deserialize(session, parts)
    if size <= MAX_CONTENT_BYTES:
        return await asyncio.to_thread(_deserialize, session, parts)
    return await asyncio.to_thread(_without_content, session, parts)


def _deserialize(session: Any, parts: list[Any]) -> KernelMessage:
    message: KernelMessage = session.deserialize(parts, content=False, copy=False)
    raw = message["content"]
    try:
        content = session.unpack(raw)
    except RecursionError:
        content = left_out(message["header"]["msg_type"], raw, "JSON that is nested too deep")
    return {**message, "content": content}


def _without_content(session: Any, parts: list[Any]) -> KernelMessage:
    message: KernelMessage = session.deserialize(parts, content=False, copy=False)
    raw = message["content"]
    why = f"{len(raw) / 1e6:,.0f} MB in one output: too much for a notebook"
    return {**message, "content": left_out(message["header"]["msg_type"], raw, why)}


class KernelGone(ConnectionError):
    """A gateway no longer has this kernel."""


def _skip_dates(session: Any) -> None:
    """Have a session leave out the dates in the headers of its messages: nobody reads them, and
    parsing them takes half the time of a message.
    """
    unpack = session.unpack

    def without_date(text: Any) -> Any:
        value = unpack(text)
        if isinstance(value, dict) and "msg_id" in value:
            value.pop("date", None)
        return value

    session.unpack = without_date


async def start_channels(client: Any) -> None:
    _skip_dates(client.session)
    channels = client.start_channels(shell=True, iopub=True, control=True, stdin=False, hb=False)
    await ensure_async(channels)


def is_greeting(parent: Mapping[str, Any], session: Any) -> bool:
    """Whether this session sent that request only to be answered."""
    ours = parent.get("session") == session.session
    return bool(ours and parent.get("msg_type") == "kernel_info_request")
