"""Replies of scripted models: blocks, and failures while sending them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from jupyter_agent.models.base import Block, ModelEvent
from jupyter_agent.models.replay import replay

FakeReply: TypeAlias = "Scripted | Sequence[Block]"


def says(text: str) -> Block:
    """A text block."""
    return {"type": "text", "text": text}


def calls(tool: str, /, **input: Any) -> Block:
    """A call; it gets its id when it is sent (`toolu_1`, `toolu_2`, ...)."""
    return {"type": "tool_use", "name": tool, "input": input}


def thinks(text: str) -> Block:
    """A thinking block with the signature that the fake API accepts for this text."""
    return {"type": "thinking", "thinking": text, "signature": signature(text)}


def signature(thinking: str) -> str:
    """The fake signature of a thinking text."""
    return hashlib.sha256(thinking.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """One reply, with any failure while sending it.

    `Scripted(blocks=[says("Hi")])` is the same as the plain list `[says("Hi")]`.
    """

    blocks: Sequence[Block] = ()
    stop_reason: str | None = None
    """Derived from the blocks by default."""
    stop_details: Mapping[str, Any] | None = None
    container: Mapping[str, str] | None = None
    """The container in which the service ran code: its `id`, and when it `expires_at`."""
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"input_tokens": 100, "output_tokens": 10}
    )
    status: int = 200
    """Any other status answers with `error` instead of a stream."""
    error: tuple[str, str] = ("api_error", "Internal server error")
    """Type and message, for `status` and for `then="error"`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    stop_after: int | None = None
    """Sends only this many events, then does `then`."""
    then: Literal["eof", "cut", "reset", "error", "wait", "ping"] = "eof"
    """Ends the response as if complete; drops the connection, or resets it; sends an error event;
    waits for `gate` and continues; or sends nothing but pings until the client disconnects."""
    gate: asyncio.Event | None = None
    body: bytes | None = None
    """Sent verbatim instead of the events."""
    piece: int | None = None
    """Bytes per write; None for one write per event."""
    pause_s: float = 0
    """Seconds before each event, like a slow model. Only `FakeAnthropic` supports it."""

    def events(self) -> Iterator[ModelEvent]:
        """The events of the whole reply."""
        for event in replay(self.blocks, stop_reason=self.stop_reason, usage=self.usage):
            if event["type"] == "message_delta":
                more = {"stop_details": self.stop_details, "container": self.container}
                told = {name: value for name, value in more.items() if value is not None}
                event = {**event, "delta": {**event["delta"], **told}}
            yield event

    def frame(self, event: ModelEvent) -> bytes:
        """The event as it is sent; called just before."""
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


class Script:
    """Replies in order; each call gets a unique id."""

    def __init__(self, replies: Iterable[FakeReply]) -> None:
        self._left = iter(replies)
        self._calls = 0

    def next(self) -> Scripted | None:
        """The next reply; None after the last one."""
        reply = next(self._left, None)
        if reply is None:
            return None
        scripted = reply if isinstance(reply, Scripted) else Scripted(blocks=reply)
        blocks = [self._with_id(block) for block in scripted.blocks]
        return Scripted(**{**vars(scripted), "blocks": blocks})

    def _with_id(self, block: Block) -> Block:
        if block["type"] != "tool_use" or "id" in block:
            return block
        self._calls += 1
        return {"type": "tool_use", "id": f"toolu_{self._calls}", **block}
