"""What a scripted model answers: blocks, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import hashlib
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
    """A call; its id is given when it is sent (`toolu_1`, `toolu_2`, ...)."""
    return {"type": "tool_use", "name": tool, "input": input}


def thinks(text: str) -> Block:
    """A thinking block with the signature that the fake API accepts for this text."""
    return {"type": "thinking", "thinking": text, "signature": signature(text)}


def signature(thinking: str) -> str:
    """What the fake signs thinking with."""
    return hashlib.sha256(thinking.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """One reply, with what goes wrong on its way.

    `Scripted(blocks=[says("Hi")])` is what the plain list `[says("Hi")]` is.
    """

    blocks: Sequence[Block] = ()
    stop_reason: str | None = None
    """By default what the blocks mean."""
    stop_details: Mapping[str, Any] | None = None
    container: Mapping[str, str] | None = None
    """Where the service ran code: its `id`, and when it `expires_at`."""
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"input_tokens": 100, "output_tokens": 10}
    )
    status: int = 200
    """Anything else answers with `error` instead of a stream."""
    error: tuple[str, str] = ("api_error", "Internal server error")
    """Type and message, for `status` and for `then="error"`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    stop_after: int | None = None
    """Send only so many events, then do `then`."""
    then: Literal["eof", "cut", "reset", "error", "wait", "ping"] = "eof"
    """End the response as if complete; drop the connection, or reset it; send an error event; wait
    for `gate` and go on; or send nothing but pings until the client leaves."""
    gate: asyncio.Event | None = None
    body: bytes | None = None
    """Sent in place of the events, whatever it is."""
    piece: int | None = None
    """Bytes of each write; None for one write an event."""
    pause_s: float = 0
    """Seconds before each event, as of a model that takes its time. Only `FakeAnthropic` waits."""

    def events(self) -> Iterator[ModelEvent]:
        """The events of the whole reply."""
        for event in replay(self.blocks, stop_reason=self.stop_reason, usage=self.usage):
            if event["type"] == "message_delta":
                more = {"stop_details": self.stop_details, "container": self.container}
                told = {name: value for name, value in more.items() if value is not None}
                event = {**event, "delta": {**event["delta"], **told}}
            yield event


class Script:
    """Replies in their order; each call gets an id of its own."""

    def __init__(self, replies: Iterable[FakeReply]) -> None:
        self._left = iter(replies)
        self._calls = 0

    def next(self) -> Scripted | None:
        """The next reply; None when the script is over."""
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
