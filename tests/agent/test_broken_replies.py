"""Replies that break off, are cut off, come out of order, or never end."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from typing import Any

import pytest

from jupyter_agent.events import CallInvalid, Notice, TurnFailed
from jupyter_agent.models.base import ModelEvent
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.waiting import soon

from .conftest import Bench, with_limits
from .strict import EVENTS, FULL, WRITE, accepted, body, converse, kinds, said, strict, untouched


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error"])
async def test_an_error_within_the_stream_keeps_the_text_and_runs_nothing(
    bench: Bench, kind: str
) -> None:
    broken = Scripted(blocks=FULL, stop_after=len(EVENTS) - 1, then="error", error=(kind, "Sorry."))
    ending, _ = await converse(bench, [broken] * 3)
    assert ending.state == "failed"
    assert untouched(bench)
    assert bench.history[1]["content"] == [says("I set it, größer.")]
    assert kinds(bench) == ["retrying", "retrying"]
    assert len(bench.told(CallInvalid)) == 3


@pytest.mark.sample(20)
@pytest.mark.parametrize(
    ("then", "position"),
    [
        *(("reset", position) for position in range(1, len(EVENTS))),
        *((then, position) for then in ("eof", "cut") for position in range(1, len(EVENTS) - 1)),
    ],
)
async def test_a_reply_that_ends_after_any_event_is_asked_for_again_and_doubles_no_text(
    bench: Bench, then: Any, position: int
) -> None:
    broken = Scripted(blocks=FULL, stop_after=position, then=then)
    ending, api = await converse(bench, [broken, [says("Done.")]])
    assert ending.state == "done"
    assert untouched(bench)
    assert bench.history[1]["content"] == [says("Done.")]
    assert len(api.requests) == 2


async def test_a_reply_that_lacks_only_message_stop_is_not_asked_for_again(bench: Bench) -> None:
    """Some services leave it out; a block that is still open was cut off."""
    whole = Scripted(blocks=FULL, stop_after=len(EVENTS) - 1)
    ending, api = await converse(bench, [whole, [says("Done.")]])
    assert (ending.state, bench.desk.cells["a"]) == ("done", "x = 5")
    assert said(bench) == "I set it, größer.Done."
    assert len(api.requests) == 2
    without_end = [event for event in EVENTS if event["type"] != "content_block_stop"][:-1]
    cut = Scripted(body=body(without_end))
    ending, api = await converse(Bench(), [cut, [says("Done.")]])
    assert (ending.state, len(api.requests)) == ("done", 2)


async def test_a_measure_in_the_middle_does_not_end_the_open_block(bench: Bench) -> None:
    measured: ModelEvent = {
        "type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 1},
    }  # fmt: skip
    between = [each for event in EVENTS[:-1] for each in (event, measured)]
    whole = Scripted(body=body([*between, EVENTS[-1]]))
    ending, api = await converse(bench, [whole, [says("Done.")]])
    assert (ending.state, bench.desk.cells["a"]) == ("done", "x = 5")
    assert (kinds(bench), len(api.requests)) == ([], 2)


async def test_what_is_nested_without_end_is_asked_for_again(bench: Bench) -> None:
    deep = b'event: ping\ndata: {"type": ' + b"[" * 100_000 + b"\n\n"
    ending, api = await converse(bench, [Scripted(body=deep), [says("Done.")]])
    assert (ending.state, kinds(bench)) == ("done", ["retrying"])


async def test_a_block_that_was_open_at_the_end_is_not_ended_by_a_second_one(bench: Bench) -> None:
    start, *others = Scripted(blocks=[dict(WRITE) | {"id": "toolu_w"}]).events()
    opened, ending = others[0], others[-2]
    twice = Scripted(body=body([start, opened, ending, ending]))
    assert (await converse(bench, [twice, [says("Done.")]]))[0].state == "done"
    assert untouched(bench)
    assert kinds(bench) == ["retrying"]


async def test_a_tool_input_cut_at_any_byte_is_never_executed(bench: Bench) -> None:
    raw = json.dumps(dict(WRITE["input"]))
    for end in range(len(raw) + 1):
        call = {"type": "tool_use", "name": "write", "input": raw[:end]}
        cut = Scripted(blocks=[call], stop_reason="max_tokens")
        ending, api = await converse(Bench(desk=bench.desk), [cut, [says("I see.")]])
        assert ending.state == "done"
        assert untouched(bench), raw[:end]
        (result,) = api.requests[1]["messages"][-1]["content"]
        assert result["is_error"]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"event: message_start\ndata: {not json\n\n", id="json"),
        pytest.param(body(EVENTS[:3]).replace(b"Hm.", b"\xff\xfe"), id="utf-8"),
        pytest.param(b"", id="nothing"),
        *(
            pytest.param(random.Random(seed).randbytes(3000), id=f"random-{seed}")
            for seed in range(10)
        ),
    ],
)
async def test_what_is_no_stream_is_a_typed_fault(bench: Bench, sent: bytes) -> None:
    ending, _ = await converse(bench, [Scripted(body=sent)] * 3)
    assert (ending.state, ending.stop_reason) == ("failed", "broken_stream")
    assert isinstance(ending.event, TurnFailed)
    assert "Traceback" not in ending.event.error


async def test_a_web_page_is_no_stream_whatever_it_says_it_is(bench: Bench) -> None:
    page = Scripted(body=b"<html><body>Bad gateway</body></html>")
    ending, _ = await converse(bench, [page])
    assert (ending.state, ending.stop_reason) == ("failed", "not_a_model_service")


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(EVENTS[1:], id="no-start"),
        pytest.param([EVENTS[0], *EVENTS[2:]], id="delta-of-no-block"),
        pytest.param([*EVENTS[:2], *EVENTS[1:]], id="block-twice"),
        pytest.param([*EVENTS[:-2], EVENTS[-1]], id="no-message-delta"),
    ],
)
async def test_events_in_an_impossible_order_are_a_broken_stream(
    bench: Bench, events: list[ModelEvent]
) -> None:
    ending, _ = await converse(bench, [Scripted(body=body(events))] * 3)
    assert (ending.state, ending.stop_reason) == ("failed", "broken_stream")
    assert untouched(bench)


async def test_unknown_events_and_blocks_are_let_through(bench: Bench) -> None:
    plain = list(Scripted(blocks=[says("Hello.")]).events())
    new: list[ModelEvent] = [
        {"type": "weather", "sun": True},
        {"type": "content_block_start", "index": 7, "content_block": {"type": "hologram"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "ray_delta", "ray": 1}},
        {"type": "content_block_stop", "index": 7},
    ]
    async with strict([Scripted(body=body([*plain[:-2], *new, *plain[-2:]]))]) as (_, model):
        assert (await bench.run(model)).state == "done"
    assert said(bench) == "Hello."


# -- silence


async def test_a_stall_is_a_broken_connection(bench: Bench) -> None:
    with_limits(bench, idle_seconds=2)
    silent = Scripted(blocks=FULL, stop_after=4, then="wait", gate=asyncio.Event())
    async with strict([silent, [says("Done.")]]) as (api, model):
        assert (await bench.run(model)).state == "done"
        await soon(api.left)  # the stalled connection was closed
        await accepted(bench, api, model)
    assert "silent" in bench.told(Notice)[0].text


async def test_pings_alone_are_a_stall(bench: Bench) -> None:
    with_limits(bench, idle_seconds=2)
    pinging = Scripted(blocks=FULL, stop_after=4, then="ping")
    ending, api = await converse(bench, [pinging, [says("Done.")]])
    assert ending.state == "done"
    assert api.left.is_set()
    assert "silent" in bench.told(Notice)[0].text


# -- floods


def flood(block: Any, delta: str, key: str, megabytes: int) -> Scripted:
    """A reply with one block of that size, in pieces of 100 kB."""
    piece = {"type": delta, key: "x" * 100_000}
    pieces = [{"type": "content_block_delta", "index": 0, "delta": piece}] * (10 * megabytes)
    opened = {"type": "content_block_start", "index": 0, "content_block": block}
    return Scripted(body=body([EVENTS[0], opened, *pieces, *EVENTS[-2:]]), piece=1_000_000)


MANY = Scripted(blocks=[calls("look", cell_id="a") for _ in range(10_000)])
SAY = {"type": "tool_use", "id": "toolu_s", "name": "say", "input": {}}


@pytest.mark.full
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(flood(says(""), "text_delta", "text", 10), id="10-MB-of-text"),
        pytest.param(flood(SAY, "input_json_delta", "partial_json", 5), id="5-MB-of-input"),
        pytest.param(MANY, id="10000-calls"),
    ],
)
async def test_a_reply_without_measure_ends_the_turn_with_a_reason(
    bench: Bench, reply: Scripted
) -> None:
    ending, api = await converse(bench, [reply])
    assert (ending.state, ending.stop_reason) == ("failed", "too_large")
    assert bench.desk.log == []
    assert len(api.requests) == 1
    assert len(said(bench)) <= bench.limits.reply_chars


RECEIVER = """
import asyncio, resource, sys
from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.reply import receive
from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.endpoint import Service

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def receive_all(model, request, reply):
    async for _ in receive(model, request, reply, idle_seconds=60):
        pass

async def main():
    service = Service(provider="anthropic", api_key=sys.argv[2], base_url=sys.argv[1])
    model = AnthropicModel("claude", service)
    question = {"role": "user", "content": [{"type": "text", "text": "Please."}]}
    request = ModelRequest(system="Be short.", messages=[question])
    await receive_all(model, request, Reply(1, Limits()))
    before = peak()
    try:
        await receive_all(model, request, Reply(2, Limits()))
    except ModelError as error:
        print(error.kind, peak() - before)
    await model.close()

asyncio.run(main())
"""


async def test_a_reply_of_100_MB_takes_no_more_memory_than_its_cap(bench: Bench) -> None:
    huge = flood(says(""), "text_delta", "text", 100)
    async with FakeAnthropic([[says("Hello.")], huge]) as api:
        told = await asyncio.create_subprocess_exec(
            sys.executable, "-c", RECEIVER, api.url, api.api_key, stdout=subprocess.PIPE
        )
        out, _ = await told.communicate()
    kind, grown = out.split()
    assert kind == b"too_large"
    assert int(grown) <= 3 * 4 * bench.limits.reply_chars  # a character takes up to four bytes
