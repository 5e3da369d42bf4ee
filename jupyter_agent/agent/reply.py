"""Assembles the events of one model reply: blocks for the history, events for clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.agent.blocks import (
    broken,
    index_of,
    mapping_of,
    new_block,
    optional_text,
    parse_input,
    result_of_service,
    text_of,
    too_large,
)
from jupyter_agent.agent.limits import Limits
from jupyter_agent.errors import ModelError
from jupyter_agent.events import (
    CallFailed,
    CallInputDelta,
    CallInvalid,
    CallReady,
    CallStarted,
    Event,
    Notice,
    StepFinished,
    StepStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ThinkingDelta,
    ThinkingEnded,
    ThinkingStarted,
    Usage,
)
from jupyter_agent.models.base import (
    Block,
    Model,
    ModelEvent,
    ModelRequest,
    Omission,
    is_of_service,
    new_call_id,
    token_count,
)
from jupyter_agent.models.faults import catch_unreadable

_NO_RESULT = "The model's service gave no result."
_DEEPEST = foreign.DEEPEST + 3
"""Levels of nesting in an event of a stream, which has the input of a call inside its block."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call as the model wrote it."""

    id: str
    name: str
    input: Mapping[str, Any]
    error: str | None = None
    """Why the input is unusable; the call must not be executed then."""


@dataclass(kw_only=True)
class _Part:
    """One block while it is being received."""

    id: str
    block: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    open: bool = True
    shown: bool = False
    error: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Reply:
    """One reply of a model, while it is received and afterwards.

    `feed` takes the model's events and returns the events for clients. Unknown events, blocks and
    deltas are accepted; events in an impossible order are a broken stream.
    """

    def __init__(
        self,
        serial: int,
        limits: Limits,
        open_calls: Collection[str] = (),
        used_ids: set[str] | None = None,
    ) -> None:
        """`open_calls`: ids of the service's own calls whose results may come with this reply;
        `used_ids`: those of all calls before it, to which its own are added.
        """
        self.stop_reason = ""
        self.details: Mapping[str, Any] = {}
        """The service's details about a refusal."""
        self.container: str | None = None
        """Id of the container in which the service ran code."""
        self.complete = False
        """Whether the stream ended properly."""
        self._blocks_ended = True
        """Whether no block was open when the stop reason came."""
        self._open_calls = set(open_calls)
        """The service's own calls that have no result yet."""
        self._used_ids = set[str]() if used_ids is None else used_ids
        self._given_ids: set[str] = set()
        """The ids of its calls as the service gave them."""
        self._serial = serial
        self._limits = limits
        self._parts: dict[int, _Part] = {}
        self._usage: dict[str, int] = {}
        self._started = False
        self._message = ""
        """The service's id of the reply."""
        self._starts = 0
        self._size = 0

    # -- its parts

    @property
    def is_shown(self) -> bool:
        """Whether clients saw anything of it."""
        return any(part.shown for part in self._parts.values())

    @property
    def usage(self) -> Usage:
        return Usage(
            input_tokens=self._usage.get("input_tokens", 0),
            output_tokens=self._usage.get("output_tokens", 0),
            cache_read_tokens=self._usage.get("cache_read_input_tokens", 0),
            cache_write_tokens=self._usage.get("cache_creation_input_tokens", 0),
        )

    @property
    def content(self) -> list[Block]:
        """All blocks, verbatim, except blank texts, which would make the API refuse every later
        request.
        """
        blocks = (part.block for part in self._parts.values())
        return [block for block in blocks if block["type"] != "text" or block["text"].strip()]

    @property
    def text(self) -> list[Block]:
        """Its text blocks without trailing whitespace, all that may stay of a cut-off reply."""
        texts = (part.text.rstrip() for part in self._parts.values() if _is(part, "text"))
        return [{"type": "text", "text": text} for text in texts if text]

    @property
    def calls(self) -> list[Call]:
        return [
            Call(
                id=part.block["id"],
                name=part.block["name"],
                input=part.block["input"],
                error=part.error,
            )
            for part in self._parts.values()
            if _is(part, "tool_use")
        ]

    def fail_open_service_calls(self) -> list[Event]:
        """Events that end the service's own calls that got no result."""
        lost, self._open_calls = sorted(self._open_calls), set()
        return [CallFailed(call_id=id, error=_NO_RESULT, provider_executed=True) for id in lost]

    # -- its events

    def feed(self, event: ModelEvent) -> list[Event]:
        """Take one event of the model. Raises ModelError if it is invalid."""
        if isinstance(event, Omission):
            return [Notice(kind=event["kind"], text=event["text"], facts=event["facts"])]
        try:
            event = foreign.printable(event, _DEEPEST)
        except ValueError as error:
            broken(f"it is not a valid message: {error}")
        match event.get("type"):
            case "message_start":
                return self._start(mapping_of(event, "message"))
            case "content_block_start":
                return self._open(index_of(event), mapping_of(event, "content_block"))
            case "content_block_delta":
                return self._extend(self._part(event), mapping_of(event, "delta"))
            case "content_block_stop":
                return self._close(self._part(event))
            case "message_delta":
                return self._end(mapping_of(event, "delta"), event.get("usage"))
            case "message_stop":
                if not self.stop_reason:
                    broken("it ended without saying why")
                self.complete = True
        return []

    def end(self) -> None:
        """The stream is over. The reply is complete if only its last event is missing, which some
        services leave out. Raises ModelError otherwise.
        """
        if not (self.stop_reason and self._blocks_ended):
            raise ModelError(
                "The connection to the model ended in the middle of its reply.",
                kind="broken_stream",
                retryable=True,
            )
        self.complete = True

    def abandon(self, why: str) -> list[Event]:
        """Close everything that clients still see as open; no call was executed."""
        events: list[Event] = []
        for part in self._parts.values():
            if _is(part, "tool_use") and part.error is None:
                part.error = why
                events.append(_invalid_event(part, part.text if part.open else part.block["input"]))
            elif part.open and part.shown and not _is(part, "server_tool_use"):
                events.append(_end_event(part))
            part.open = False
        return events + self.fail_open_service_calls()

    def _start(self, message: Mapping[str, Any]) -> list[Event]:
        id = str(message.get("id") or "")
        if self._started and id == self._message:  # proxies repeat it
            return []
        events = self._restart() if self._started else []
        self._started = True
        self._message = id
        self._starts += 1
        self._count(message.get("usage"))
        # The first event may have the whole reply (as in programmatic tool calling).
        for index, block in enumerate(message.get("content") or ()):
            events += self._open(index, block)
            events += self._close(self._parts[index])
        self.stop_reason = optional_text(message, "stop_reason")
        self._note_container(message)
        return events

    def _restart(self) -> list[Event]:
        """Discard a reply that the service started again; parts that were shown are closed."""
        shown = self.is_shown
        events = self.abandon("The service began its reply again.")
        self._parts = {}
        self._given_ids = set()
        self._usage = {}
        self.stop_reason = ""
        self._blocks_ended = True
        return [*events, StepFinished(), StepStarted()] if shown else events

    def _open(self, index: int, block: Mapping[str, Any]) -> list[Event]:
        if not self._started or self.stop_reason or index in self._parts:
            broken("a block started out of order")
        again = f"-{self._starts}" if self._starts > 1 else ""
        part = _Part(id=f"{self._serial}-{index}{again}", block=new_block(block))
        self._parts[index] = part
        block = part.block
        match block["type"]:
            case "text" | "thinking" as kind:
                return self._write(part, block[kind])
            case "tool_use":
                return self._open_call(part)
            case "server_tool_use":
                part.shown = True
                self._open_calls.add(block["id"])
                started = CallStarted(
                    call_id=block["id"], tool=block["name"], provider_executed=True
                )
                return [started]
            case _ if is_of_service(block) and block["tool_use_id"] in self._open_calls:
                self._open_calls.remove(block["tool_use_id"])
                return [result_of_service(block)]
        return []

    def _open_call(self, part: _Part) -> list[Event]:
        block = part.block
        if block["id"] in self._given_ids:
            broken("two tool calls have the same id")
        self._given_ids.add(block["id"])
        if block["id"] in self._used_ids:  # some services begin to number their calls again
            block["id"] = new_call_id()
        self._used_ids.add(block["id"])
        if len(self.calls) > self._limits.reply_calls:
            too_large(f"more than {self._limits.reply_calls} tool calls")
        part.shown = True
        return [CallStarted(call_id=block["id"], tool=block["name"])]

    def _extend(self, part: _Part, delta: Mapping[str, Any]) -> list[Event]:
        match delta.get("type"):
            case "text_delta":
                return self._write(part, text_of(delta, "text"))
            case "thinking_delta":
                return self._write(part, text_of(delta, "thinking"))
            case "input_json_delta":
                return self._write(part, text_of(delta, "partial_json"))
            case "signature_delta":
                part.block["signature"] = text_of(delta, "signature")
            case "citations_delta":
                part.block["citations"] = [
                    *(part.block.get("citations") or ()),
                    delta.get("citation"),
                ]
            case "compaction_delta":  # the service's own summary, in one delta
                part.block.update({key: delta[key] for key in delta if key != "type"})
        return []

    def _write(self, part: _Part, piece: str) -> list[Event]:
        if not piece:
            return []
        self._size += len(piece)
        if self._size > self._limits.reply_chars:
            too_large(f"more than {self._limits.reply_chars:,} characters")
        part.pieces.append(piece)
        match part.block["type"]:
            case "text":
                started: list[Event] = [] if part.shown else [TextStarted(part_id=part.id)]
                part.shown = True
                return [*started, TextDelta(part_id=part.id, delta=piece)]
            case "thinking":
                started = [] if part.shown else [ThinkingStarted(part_id=part.id)]
                part.shown = True
                return [*started, ThinkingDelta(part_id=part.id, delta=piece)]
            case "tool_use" | "server_tool_use" if part.shown:
                return [CallInputDelta(call_id=part.block["id"], input_text_delta=piece)]
        return []

    def _close(self, part: _Part) -> list[Event]:
        part.open = False
        block = part.block
        match block["type"]:
            case "text" | "thinking" as kind:
                block[kind] = part.text
                return [_end_event(part)] if part.shown else []
            case "tool_use":
                return [self._close_call(part)]
        if part.pieces:  # the input of a tool that the service runs
            block["input"] = parse_input(part.text)[0]
        if _is(part, "server_tool_use"):
            ready = CallReady(
                call_id=block["id"],
                tool=block["name"],
                input=block.get("input") or {},
                provider_executed=True,
            )
            return [ready]
        return []

    def _close_call(self, part: _Part) -> Event:
        block = part.block
        initial = block.get("input") or {}
        text = part.text or (initial if isinstance(initial, str) else json.dumps(initial))
        block["input"], part.error = parse_input(text)
        if part.error is not None:
            return _invalid_event(part, text)
        return CallReady(call_id=block["id"], tool=block["name"], input=block["input"])

    def _end(self, delta: Mapping[str, Any], usage: Any) -> list[Event]:
        if not self._started:
            broken("it ended before it started")
        self._count(usage)
        self.stop_reason = optional_text(delta, "stop_reason") or self.stop_reason
        details = delta.get("stop_details")
        self.details = details if isinstance(details, Mapping) else {}
        self._note_container(delta)
        events: list[Event] = []
        if not self.stop_reason:  # some services report usage in the middle
            return events
        for part in self._parts.values():
            if part.open:  # a cut-off reply has no end event for its last block
                self._blocks_ended = False
                events += self._close(part)
        return events

    def _note_container(self, described: Mapping[str, Any]) -> None:
        container = described.get("container")
        if isinstance(container, Mapping) and isinstance(container.get("id"), str):
            self.container = container["id"]

    def _part(self, event: ModelEvent) -> _Part:
        part = self._parts.get(index_of(event))
        if part is None or not part.open:
            broken("it continues a block that is not open")
        return part

    def _count(self, usage: Any) -> None:
        if isinstance(usage, Mapping):  # cumulative: later counts replace earlier ones
            counts = {key: token_count(value) for key, value in usage.items()}
            self._usage.update({key: n for key, n in counts.items() if n is not None})


def _is(part: _Part, kind: str) -> bool:
    return bool(part.block["type"] == kind)


def _end_event(part: _Part) -> Event:
    if _is(part, "text"):
        return TextEnded(part_id=part.id)
    return ThinkingEnded(part_id=part.id)


def _invalid_event(part: _Part, input: Any) -> Event:
    return CallInvalid(
        call_id=part.block["id"], tool=part.block["name"], input=input, error=part.error or ""
    )


async def receive(
    model: Model, request: ModelRequest, reply: Reply, *, idle_seconds: float
) -> AsyncGenerator[tuple[Event, ...], None]:
    """Send the request and fill `reply`; yields the events for clients as they come.

    Raises ModelError if the reply is not complete. A silence of more than `idle_seconds` counts as
    a broken connection.
    """
    with catch_unreadable():
        async with aclosing(_events(model, request, idle_seconds)) as events:
            async for event in events:
                if shown := tuple(reply.feed(event)):
                    yield shown
                if reply.complete:
                    return
    reply.end()


async def _events(
    model: Model, request: ModelRequest, idle_seconds: float
) -> AsyncGenerator[ModelEvent, None]:
    async with aclosing(model.stream(request)) as stream:
        while True:
            try:
                async with asyncio.timeout(idle_seconds):
                    event = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ModelError(
                    f"The model was silent for {idle_seconds:g} s.", kind="stalled", retryable=True
                ) from None
            yield event
