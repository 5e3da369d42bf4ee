"""Tests for each kind of API: Anthropic's messages, chat completions and OpenAI's responses.

Each test runs once for each kind; features of a single kind are tested in its own file.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tornado.web import RequestHandler

from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.reply import Reply, receive
from jupyter_agent.errors import ModelError
from jupyter_agent.models.endpoint import Service
from tests.fakes import says
from tests.fakes.service import drop, http_service
from tests.waiting import soon

from .conftest import read, request
from .kinds import KEY, Kind

# -- a service that answers with any bytes


@dataclass(frozen=True, kw_only=True)
class Answer:
    pieces: Sequence[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    then: str = "end"
    """Or `cut` or `reset` the connection, or `wait` for ever."""


class Answering:
    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.left = asyncio.Event()
        """The client has closed the connection."""


@asynccontextmanager
async def asking(kind: Kind, answers: Sequence[Answer]) -> AsyncIterator[tuple[Answering, Any]]:
    """A service with these answers, and a model that uses it."""
    service = Answering(answers)

    class Create(RequestHandler):
        async def post(self) -> None:
            service.requests.append(json.loads(self.request.body))
            answer = service.answers.pop(0)
            self.set_status(answer.status)
            media = "text/event-stream" if answer.status == 200 else "application/json"
            for name, value in {"Content-Type": media, **answer.headers}.items():
                self.set_header(name, value)
            for piece in answer.pieces:
                self.write(piece)
                await self.flush()
            if answer.then == "wait":
                await asyncio.Event().wait()
            elif answer.then in ("cut", "reset"):
                await self.flush()
                drop(self, reset=answer.then == "reset")

        def on_connection_close(self) -> None:
            service.left.set()

    async with http_service((".*", Create)) as address:
        own = Service(provider="lab", api_key=KEY, base_url=f"{address}{kind.root}")
        model = kind.model("m", own)
        try:
            yield service, model
        finally:
            await model.close()


async def ask(kind: Kind, *pieces: bytes) -> Reply:
    async with asking(kind, [Answer(pieces=pieces)]) as (_, model):
        return await read(model)


async def fault(kind: Kind, answer: Answer) -> ModelError:
    """The error that is raised instead of a reply, after one request."""
    async with asking(kind, [answer]) as (service, model):
        with pytest.raises(ModelError) as caught:
            await read(model)
    assert len(service.requests) == 1
    assert KEY not in str(caught.value)
    return caught.value


async def completes(model: Any) -> bool:
    """Whether the reply was complete; if not, its error must be retryable."""
    try:
        return (await read(model)).complete
    except ModelError as error:
        if not error.retryable:
            raise
        return False


async def consume(events: AsyncIterator[object]) -> None:
    async for _ in events:
        pass


# -- replies


async def test_a_reply_is_its_thoughts_its_text_and_its_calls(kind: Kind) -> None:
    reply = await ask(kind, *kind.frames())
    assert (reply.complete, reply.stop_reason) == (True, "tool_use")
    assert [block["type"] for block in reply.content] == ["thinking", "text", "tool_use"]
    assert reply.content[0]["thinking"] == "Hm."
    assert reply.text == [says("Grüße, wörld 🙂.")]
    (made,) = reply.calls
    assert (made.name, dict(made.input), made.error) == ("look", {"cell_id": "ä"}, None)


async def test_an_error_of_no_type_in_a_stream_is_an_error(kind: Kind) -> None:
    first = kind.frames()[0]
    error = b'event: error\ndata: {"error": {"message": "Out of order."}}\n\n'
    assert "Out of order." in (await fault(kind, Answer(pieces=[first, error]))).message


async def test_an_event_of_no_type_is_skipped(kind: Kind) -> None:
    first, *frames = kind.frames()
    for odd in (b'{"x": 1}', b"{}", b'{"type": null}'):
        assert (await ask(kind, first, b"event: x\ndata: " + odd + b"\n\n", *frames)).complete


async def test_it_does_not_matter_how_bytes_are_split_and_lines_end(kind: Kind) -> None:
    whole = b"".join(kind.frames())
    expected = (await ask(kind, whole)).content
    for end in (b"\n", b"\r\n", b"\r"):
        sent = whole.replace(b"\n", end)
        assert (await ask(kind, *(sent[n : n + 1] for n in range(len(sent))))).content == expected


@pytest.mark.parametrize("then", ["end", "cut", "reset"])
async def test_a_stream_that_ends_after_any_event_is_never_complete(kind: Kind, then: str) -> None:
    frames = kind.frames()
    last = next(n for n, each in enumerate(frames) if kind.end in each)
    early = [Answer(pieces=frames[:count], then=then) for count in range(last + 1)]
    async with asking(kind, early) as (_, model):
        for _ in early:
            assert not await completes(model)


async def test_a_stream_that_is_cut_at_any_byte_is_never_complete(kind: Kind) -> None:
    whole = b"".join(kind.frames())
    cuts = [Answer(pieces=[whole[:end]]) for end in range(0, whole.index(kind.end), 11)]
    async with asking(kind, cuts) as (_, model):
        for _ in cuts:
            assert not await completes(model)


NO_EVENTS = (
    b"5", b"[1]", b"{broken", b"\xff\xfe", b'{"type": "message_start"}',
    b'{"type": "message_start", "message": 3}',
)  # fmt: skip
HEADS = (b"data: ", b"event: message_start\ndata: ")
NO_STREAMS = (b"", b"Please log in", *(head + each for head in HEADS for each in NO_EVENTS))


@pytest.mark.parametrize("body", NO_STREAMS)
async def test_what_is_no_stream_is_a_fault_of_the_service(kind: Kind, body: bytes) -> None:
    async with asking(kind, [Answer(pieces=[body + b"\n\n" if body else b""])]) as (_, model):
        assert not await completes(model)


@pytest.mark.parametrize("seed", range(3))
async def test_damaged_streams_raise_nothing_but_our_error(kind: Kind, seed: int) -> None:
    chance = random.Random(seed)
    whole = b"".join(kind.frames())
    damaged = []
    for _ in range(30):
        body = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        damaged.append(Answer(pieces=[bytes(body)]))
    async with asking(kind, damaged) as (_, model):
        for _ in damaged:
            try:
                await consume(receive(model, request(), Reply(1, Limits()), idle_seconds=60))
            except ModelError as error:
                assert error.retryable, error  # noqa: PT017


# -- errors


@pytest.mark.parametrize(
    ("status", "fault_kind", "retryable", "words"),
    [
        (400, "invalid_request", False, "No, ***."),
        (401, "authentication", False, "lab does not accept the API key. Set a valid one."),
        (402, "billing", False, "at its limit"),
        (403, "permission", False, "may not use `m`"),
        (404, "not_found", False, "no model `m`"),
        (413, "context_length", False, "too long"),
        (429, "rate_limit", True, "limits the rate"),
        (500, "service", True, "failed"),
        (503, "overloaded", True, "overloaded"),
        (529, "overloaded", True, "overloaded"),
    ],
)
async def test_each_status_has_its_sentence_without_the_key_and_is_not_asked_again(
    kind: Kind, status: int, fault_kind: str, retryable: bool, words: str
) -> None:
    body = {"type": "error", "error": {"type": "x", "message": f"No, {KEY}.", "code": None}}
    error = await fault(kind, Answer(pieces=[json.dumps(body).encode()], status=status))
    assert (error.kind, error.retryable) == (fault_kind, retryable)
    assert words in error.message


async def test_a_rate_limit_says_how_long_to_wait(kind: Kind) -> None:
    error = await fault(kind, Answer(pieces=[], status=429, headers={"Retry-After": "7"}))
    assert (error.kind, error.retryable, error.retry_after) == ("rate_limit", True, 7.0)


async def test_nobody_at_the_address_is_a_network_error(kind: Kind) -> None:
    model = kind.model("m", Service(provider="lab", api_key=KEY, base_url="http://127.0.0.1:9"))
    with pytest.raises(ModelError, match="The connection to 127.0.0.1:9 failed") as caught:
        await read(model)
    await model.close()
    assert (caught.value.kind, caught.value.retryable) == ("network", True)
    assert "Check the network" in caught.value.message


# -- requests


async def test_a_forced_answer_keeps_the_tools(kind: Kind) -> None:
    async with asking(kind, [Answer(pieces=kind.frames())]) as (service, model):
        await read(model, request(tool_choice="none"))
    (sent,) = service.requests
    assert sent["tool_choice"] == kind.no_tools
    assert "look" in json.dumps(sent["tools"])


async def test_closing_the_stream_closes_the_connection(kind: Kind) -> None:
    waits = Answer(pieces=kind.frames()[:4], then="wait")
    async with asking(kind, [waits]) as (service, model):
        async with aclosing(model.stream(request())) as stream:
            await anext(stream)
        await soon(service.left)
