"""The fault rows L1 to L17 and N7, by their names: a strict API on a real socket, the real SDK.

After each of them the next question is accepted: the history that it leaves is valid.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from jupyter_agent.agent.turn import Ending
from jupyter_agent.events import CallInvalid, CallReady, Notice, TextDelta, TurnFailed
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ModelEvent
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.testing import FakeAnthropic, Scripted, calls, says, thinks
from jupyter_agent.testing.chat import ChatCompletions, serving
from jupyter_agent.testing.script import FakeReply

from ..models.conftest import Chat
from ..models.conftest import serving as sending
from .conftest import Bench, with_limits

WRITE = calls("write", cell_id="a", source="x = 5")
FULL = [thinks("Hm."), says("I set it, größer."), {**WRITE, "id": "toolu_w"}]
"""A reply with a block of each kind."""
EVENTS = list(Scripted(blocks=FULL).events())


async def converse(
    bench: Bench, replies: Sequence[FakeReply], **fake: Any
) -> tuple[Ending, FakeAnthropic]:
    """A turn with these replies, then another question, which has to be accepted."""
    async with FakeAnthropic(replies, **fake) as api:
        model = AnthropicModel("claude", api_key="sk-ant-test-0123456789", base_url=api.url)
        ending = await bench.run(model)
        await accepted(bench, api, model)
        await model.close()
    return ending, api


async def accepted(bench: Bench, api: FakeAnthropic, model: AnthropicModel) -> None:
    """Whatever happened, the strict API takes the next question. Its request is not kept."""
    api.api_key, api.max_chars = "sk-ant-test-0123456789", None
    refused, asked, told = list(api.refusals), list(api.requests), list(bench.events)
    api.script = type(api.script)([[says("Fine.")]])
    assert (await bench.run(model, "And now?")).state == "done"
    assert api.refusals == refused
    api.requests, bench.events = asked, told


def frame(event: ModelEvent) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def body(events: Sequence[ModelEvent]) -> bytes:
    return b"".join(map(frame, events))


def kinds(bench: Bench) -> list[str]:
    return [notice.kind for notice in bench.told(Notice)]


def said(bench: Bench) -> str:
    return "".join(event.delta for event in bench.told(TextDelta))


def untouched(bench: Bench) -> bool:
    return bench.desk.cells["a"] == "x = 1"


LIMITED = Scripted(
    status=429, error=("rate_limit_error", "Slow down."), headers={"retry-after": "2"}
)


async def test_a_limited_rate_is_waited_for_and_told(bench: Bench) -> None:
    ending, api = await converse(bench, [LIMITED, LIMITED, [says("Hello.")]])
    assert ending.state == "done"
    assert bench.waits == [2.0, 2.0]
    assert kinds(bench) == ["retrying", "retrying"]
    assert len(api.requests) == 3


async def test_stop_works_while_waiting(bench: Bench) -> None:
    waiting = asyncio.Event()

    async def pause(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    bench._pause = pause  # type: ignore[method-assign]
    async with FakeAnthropic([LIMITED]) as api:
        model = AnthropicModel("claude", api_key=api.api_key, base_url=api.url)
        running = asyncio.create_task(bench.run(model))
        await waiting.wait()
        running.cancel()
        assert (await running).state == "stopped"
        await accepted(bench, api, model)
        await model.close()


KINDS = ("anthropic", "openai")
"""Of the APIs that providers speak."""


async def converse_with(
    bench: Bench, kind: str, replies: Sequence[FakeReply]
) -> tuple[Ending, FakeAnthropic | ChatCompletions]:
    """A turn with these replies through the API of that kind."""
    if kind == "anthropic":
        return await converse(bench, replies)
    async with serving(ChatCompletions(replies)) as api:
        model = OpenAIModel("gpt", api_key="sk-openai-test-0123", base_url=api.url)
        ending = await bench.run(model)
        await model.close()
    return ending, api


def limited(error: tuple[str, str], **headers: str) -> Scripted:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(status=429, error=error, headers=named)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("error", "headers", "waits"),
    [
        (
            ("rate_limit_error", "Number of requests has exceeded your rate limit."),
            {},
            [2.0, 4.0, 8.0],
        ),
        (("rate_limited", "Rate limit exceeded"), {"retry_after_ms": "800"}, [0.8] * 3),
        (("rate_limited", "Rate limit exceeded"), {"retry_after": "1.5"}, [1.5] * 3),
        (
            ("tokens", "Rate limit reached on tokens per min (TPM). Please try again in 6s."),
            {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "6.5s"},
            [6.5] * 3,
        ),
        (  # Groq's words: the address of its prices is no word about the account
            (
                "tokens",
                "Rate limit reached. Upgrade at https://console.groq.com/settings/billing to go on",
            ),
            {"retry_after": "3"},
            [3.0] * 3,
        ),
        (("rate_limit_exceeded", "Too many requests; suspended for now."), {}, [2.0, 4.0, 8.0]),
    ],
)
async def test_a_burst_is_waited_for_however_long_it_takes_is_said(
    bench: Bench,
    kind: str,
    error: tuple[str, str],
    headers: dict[str, str],
    waits: list[float],
) -> None:
    burst = limited(error, **headers)
    ending, api = await converse_with(bench, kind, [burst] * 3 + [[says("Hello.")]])
    assert ending.state == "done"
    assert bench.waits == waits
    assert kinds(bench) == ["retrying"] * 3
    assert [notice.facts["seconds"] for notice in bench.told(Notice)] == [
        round(seconds, 1) for seconds in waits
    ]
    assert len(api.requests) == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_moments_are_waited_for(bench: Bench, kind: str) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=40)
    error = ("rate_limit_error", "Slow down.")
    dated = limited(error, retry_after=format_datetime(moment, usegmt=True))
    reset = limited(error, anthropic_ratelimit_requests_reset=moment.isoformat())
    ending, _ = await converse_with(bench, kind, [dated, reset, [says("Hello.")]])
    assert ending.state == "done"
    assert len(bench.waits) == 2
    assert all(20 < seconds <= 41 for seconds in bench.waits)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_burst_without_an_end_ends_the_turn(bench: Bench, kind: str) -> None:
    burst = limited(("rate_limit_error", "Slow down."))
    ending, api = await converse_with(bench, kind, [burst] * 5)
    assert (ending.state, ending.stop_reason) == ("failed", "rate_limit")
    assert len(api.requests) == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_a_long_wait_is_told_with_its_end(bench: Bench, kind: str) -> None:
    burst = limited(("rate_limit_error", "Slow down."), retry_after="240")
    ending, _ = await converse_with(bench, kind, [burst, [says("Hello.")]])
    assert ending.state == "done"
    assert bench.waits == [240.0]
    (notice,) = bench.told(Notice)
    until = datetime.fromisoformat(notice.facts["until"])
    assert timedelta(seconds=180) < until - datetime.now(UTC) <= timedelta(seconds=240)
    assert f"Trying again in 4 min, at {until:%H:%M} UTC." in notice.text


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wait_that_is_too_long_ends_the_turn_and_is_told_with_its_end(
    bench: Bench, kind: str
) -> None:
    burst = limited(("rate_limit_error", "Slow down."), retry_after="7200")
    before = datetime.now(UTC)
    ending, api = await converse_with(bench, kind, [burst])
    assert (ending.state, ending.stop_reason, bench.waits) == ("failed", "rate_limit", [])
    assert len(api.requests) == 1
    assert isinstance(ending.event, TurnFailed)
    assert "limits the rate of requests" in ending.event.error
    until = before + timedelta(hours=2)
    told = {f"{until + timedelta(seconds=late):%Y-%m-%d %H:%M} UTC" for late in (0, 60)}
    assert any(f"Ask again after {moment}." in ending.event.error for moment in told)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("headers", [{}, {"retry_after": "1"}, {"retry_after_ms": "5"}])
@pytest.mark.parametrize(
    "error",
    [
        ("rate_limit_error", "Your monthly limit is reached."),
        ("rate_limit_error", "This would exceed your organization's monthly spend limit."),
        ("insufficient_quota", "You exceeded your current quota."),
        ("rate_limit_error", "You have reached your specified API usage limits."),
        ("error", "Please check your plan and billing details."),
        ("invalid_request_error", "Your credit balance is too low to access the API."),
        ("1113", "Insufficient balance or no resource package. Please recharge."),
    ],
)
async def test_a_spent_account_is_told_and_not_asked_again(
    bench: Bench, kind: str, headers: dict[str, str], error: tuple[str, str]
) -> None:
    ending, api = await converse_with(bench, kind, [limited(error, **headers)])
    assert (ending.state, ending.stop_reason) == ("failed", "billing")
    assert bench.waits == []
    assert len(api.requests) == 1
    assert isinstance(ending.event, TurnFailed)
    assert error[1] in ending.event.error


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (b'{"message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"}', "done"),
        (b'{"error": {"message": "No.", "type": "insufficient_quota", "code": 429}}', "failed"),
        (b'[{"error": {"code": 429, "message": "Resource exhausted"}}]', "done"),
        (b"<html>Too many requests</html>", "done"),
        (b"null", "done"),
    ],
)
async def test_the_body_decides_in_whatever_shape_it_comes(
    bench: Bench, body: bytes, state: str
) -> None:
    refused = Scripted(status=429, body=body)
    ending, _ = await converse_with(bench, "openai", [refused, [says("Hello.")]])
    assert ending.state == state


@pytest.mark.parametrize("kind", KINDS)
async def test_a_spent_account_is_told_too_when_the_stream_has_begun(
    bench: Bench, kind: str
) -> None:
    if kind == "anthropic":
        error = ("rate_limit_error", "You have reached your usage limit.")
        spent = Scripted(blocks=FULL, stop_after=2, then="error", error=error)
        ending, _ = await converse(bench, [spent])
    else:
        error = {"type": "insufficient_quota", "message": "You exceeded your current quota."}
        chat = Chat(f"data: {json.dumps({'error': error})}\n\n".encode())
        async with sending(chat):
            model = OpenAIModel("gpt", api_key="sk-openai-test-0123", base_url=chat.url)
            ending = await bench.run(model)
            await model.close()
    assert (ending.state, ending.stop_reason, bench.waits) == ("failed", "billing", [])


@pytest.mark.parametrize(
    ("status", "kind"), [(529, "overloaded_error"), (500, "api_error"), (503, "api_error")]
)
async def test_a_service_that_is_down_is_asked_three_times(
    bench: Bench, status: int, kind: str
) -> None:
    down = Scripted(status=status, error=(kind, "Down."))
    ending, api = await converse(bench, [down] * 3)
    assert ending.state == "failed"
    assert len(api.requests) == 3
    assert len(bench.waits) == 2
    assert 0.5 <= bench.waits[0] <= 1.0 <= bench.waits[1] <= 2.0


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


@pytest.mark.parametrize("position", range(1, len(EVENTS)))
async def test_a_reset_after_any_event_doubles_no_text(bench: Bench, position: int) -> None:
    broken = Scripted(blocks=FULL, stop_after=position, then="reset")
    ending, _ = await converse(bench, [broken, [says("Done.")]])
    assert ending.state == "done"
    assert untouched(bench)
    assert bench.history[1]["content"] == [says("Done.")]


@pytest.mark.parametrize("then", ["eof", "cut"])
@pytest.mark.parametrize("position", range(1, len(EVENTS) - 1))
async def test_an_end_before_the_reason_of_it_is_a_lost_connection(
    bench: Bench, position: int, then: Any
) -> None:
    broken = Scripted(blocks=FULL, stop_after=position, then=then)
    ending, api = await converse(bench, [broken, [says("Done.")]])
    assert ending.state == "done"
    assert untouched(bench)
    assert len(api.requests) == 2


async def test_a_reply_that_lacks_only_message_stop_is_not_asked_for_again(bench: Bench) -> None:
    """Some services leave it out; a block that is open by then was cut off."""
    whole = Scripted(blocks=FULL, stop_after=len(EVENTS) - 1)
    ending, api = await converse(bench, [whole, [says("Done.")]])
    assert (ending.state, bench.desk.cells["a"]) == ("done", "x = 5")
    assert said(bench) == "I set it, größer.Done."
    assert len(api.requests) == 2
    without_end = [event for event in EVENTS if event["type"] != "content_block_stop"][:-1]
    cut = Scripted(body=body(without_end))
    ending, api = await converse(Bench(), [cut, [says("Done.")]])
    assert (ending.state, len(api.requests)) == ("done", 2)


def begun(**block: Any) -> bytes:
    """A reply of one block that is whole when it begins."""
    start, _, *_, ending, end = Scripted(blocks=[says("x")]).events()
    opened = {"type": "content_block_start", "index": 0, "content_block": block}
    return body([start, opened, {"type": "content_block_stop", "index": 0}, ending, end])


LOOKS = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"cell_id": "a"}}
HISTORIES = {
    "an-odd-name": {**LOOKS, "name": "look at/é"},
    "no-name": {**LOOKS, "name": ""},
    "a-long-name": {**LOOKS, "name": "look" * 99},
    "an-odd-id": {**LOOKS, "id": "functions.look:0"},
    "an-empty-id": {**LOOKS, "id": ""},
    "a-signature-that-is-none": {"type": "thinking", "thinking": "Hm.", "signature": 5},
    "citations-that-are-none": {"type": "text", "text": "Hm.", "citations": "x"},
    "a-number-that-is-none": {**LOOKS, "input": '{"cell_id": 1e999}'},
    "half-a-character": {**LOOKS, "name": "look\ud83d", "input": {"cell_id": "\ud83d"}},
    "a-number-that-is-none-in-an-object": {**LOOKS, "input": {"cell_id": float("inf")}},
    "no-input-of-a-search": {"type": "server_tool_use", "id": "s", "name": "web_search"},
    "a-list": {**LOOKS, "input": [1]},
}


@pytest.mark.parametrize("name", HISTORIES)
async def test_what_a_reply_leaves_behind_is_taken_with_the_next_question(
    bench: Bench, name: str
) -> None:
    odd = Scripted(body=begun(**HISTORIES[name]))
    ending, api = await converse(bench, [odd, [says("Done.")], [says("Done.")]])
    assert ending.state == "done"
    assert api.refusals == []
    assert bench.desk.log in ([], ["look a"])


async def test_an_input_that_is_there_from_the_beginning_is_read_whatever_its_form(
    bench: Bench,
) -> None:
    for input in ({"cell_id": "a"}, '{"cell_id": "a"}'):
        bench.desk.log.clear()
        odd = Scripted(body=begun(**LOOKS | {"input": input}))
        await converse(bench, [odd, [says("Done.")]])
        assert bench.desk.log == ["look a"]


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
        pytest.param(b"<html><body>Bad gateway</body></html>", id="html"),
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


@pytest.mark.parametrize("other", [False, True], ids=["the-same", "another"])
async def test_a_reply_that_begins_twice_is_taken_once(bench: Bench, other: bool) -> None:
    def started(id: str, text: str) -> list[ModelEvent]:
        start, *rest = Scripted(blocks=[says(text)]).events()
        return [{**start, "message": {**start["message"], "id": id}}, *rest]

    whole = started("n", "Hello.")
    first = started("m", "Hel")[:3] if other else whole[:1]
    sent = [Scripted(body=body([*first, *whole]))]
    ending, _ = await converse(bench, sent)
    assert ending.state == "done"
    answers = [message["content"] for message in bench.stored if message["role"] == "assistant"]
    assert answers[0] == [says("Hello.")]
    assert kinds(bench) == []


async def test_unknown_events_and_blocks_are_let_through(bench: Bench) -> None:
    plain = list(Scripted(blocks=[says("Hello.")]).events())
    new: list[ModelEvent] = [
        {"type": "weather", "sun": True},
        {"type": "content_block_start", "index": 7, "content_block": {"type": "hologram"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "ray_delta", "ray": 1}},
        {"type": "content_block_stop", "index": 7},
    ]
    async with FakeAnthropic([Scripted(body=body([*plain[:-2], *new, *plain[-2:]]))]) as api:
        model = AnthropicModel("claude", api_key=api.api_key, base_url=api.url)
        ending = await bench.run(model)
        await model.close()
    assert ending.state == "done"
    assert said(bench) == "Hello."


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
async def test_byte_by_byte_and_any_line_end_it_is_the_same(bench: Bench, ends: bytes) -> None:
    sent = body(EVENTS).replace(b"\n", ends)
    slow = Scripted(body=sent, piece=1)
    ending, _ = await converse(bench, [slow, [says("Done.")]])
    assert ending.state == "done"
    assert bench.history[1]["content"] == FULL
    assert bench.desk.cells["a"] == "x = 5"


async def test_a_stall_is_a_broken_connection(bench: Bench) -> None:
    with_limits(bench, idle_seconds=2)
    silent = Scripted(blocks=FULL, stop_after=4, then="wait", gate=asyncio.Event())
    async with FakeAnthropic([silent, [says("Done.")]]) as api:
        model = AnthropicModel("claude", api_key=api.api_key, base_url=api.url)
        assert (await bench.run(model)).state == "done"
        await api.left.wait()  # the stalled connection was closed
        await accepted(bench, api, model)
        await model.close()
    assert "silent" in bench.told(Notice)[0].text


async def test_pings_alone_are_a_stall(bench: Bench) -> None:
    with_limits(bench, idle_seconds=2)
    pinging = Scripted(blocks=FULL, stop_after=4, then="ping")
    ending, api = await converse(bench, [pinging, [says("Done.")]])
    assert ending.state == "done"
    assert api.left.is_set()
    assert "silent" in bench.told(Notice)[0].text


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

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def receive_all(model, request, reply):
    async for _ in receive(model, request, reply, idle_seconds=60):
        pass

async def main():
    model = AnthropicModel("claude", api_key=sys.argv[2], base_url=sys.argv[1])
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


@pytest.mark.parametrize(
    "call",
    [
        calls("fly"),
        calls("look"),
        calls("look", cell_id=3),
        calls("look", cell_id=None),
        calls("look", cell_id="a", more=1),
        calls("write", cell_id=["a"], source={"x": 1}),
    ],
)
async def test_a_call_that_fits_no_tool_does_nothing(bench: Bench, call: Any) -> None:
    ending, api = await converse(bench, [[call], [says("Sorry.")]])
    assert ending.state == "done"
    assert bench.desk.log == []
    assert api.requests[1]["messages"][-1]["content"][0]["is_error"]


@pytest.mark.parametrize(
    ("limits", "limit"), [({"max_steps": 4}, "steps"), ({"token_budget": 330}, "tokens")]
)
async def test_an_endless_loop_is_made_to_answer(
    bench: Bench, limits: dict[str, int], limit: str
) -> None:
    with_limits(bench, **limits)
    looks: list[FakeReply] = [[calls("look", cell_id="a")] for _ in range(3)]
    ending, api = await converse(bench, [*looks, [says("x is 1.")]])
    assert (ending.state, ending.limit) == ("done", limit)
    assert [request["tool_choice"]["type"] for request in api.requests] == [*["auto"] * 3, "none"]
    assert said(bench) == "x is 1."


async def test_a_context_too_long_is_compacted_once_and_then_told(bench: Bench) -> None:
    bench.history = [
        {"role": "user", "content": [says("Hello. " * 100)]},
        {"role": "assistant", "content": [says("Hello you. " * 100)]},
    ]
    ending, api = await converse(bench, [[says("Greetings.")]], max_chars=100)
    assert (ending.state, ending.stop_reason) == ("failed", "context_length")
    assert len(api.refusals) <= 3
    assert isinstance(ending.event, TurnFailed)
    assert "too long" in ending.event.error


async def test_after_the_compaction_the_turn_goes_on(bench: Bench) -> None:
    bench.history = [
        {"role": "user", "content": [says("Hello. " * 1000)]},
        {"role": "assistant", "content": [says("Hello you. " * 2000)]},
    ]
    replies = [[says("Greetings were said.")], [says("Yes.")]]
    ending, api = await converse(bench, replies, max_chars=25_000)
    assert ending.state == "done"
    assert (len(api.refusals), len(api.requests)) == (1, 2)
    assert kinds(bench) == ["compacted"]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication"), (403, "permission"), (404, "not_found")]
)
async def test_what_a_person_has_to_mend_is_told_without_the_key(
    bench: Bench, status: int, kind: str
) -> None:
    """DNS, TLS and proxies: tests/models/test_network.py."""
    key = "sk-ant-test-0123456789"
    wrong = Scripted(status=status, error=("some_error", f"No: {key}"))
    ending, api = await converse(bench, [wrong])
    assert (ending.state, ending.stop_reason) == ("failed", kind)
    assert len(api.requests) == 1
    assert isinstance(ending.event, TurnFailed)
    assert key not in ending.event.error


async def test_one_of_several_calls_fails_and_all_are_answered_in_order(bench: Bench) -> None:
    several = [calls("look", cell_id=cell_id) for cell_id in ("a", "gone", "b")]
    _, api = await converse(bench, [several, [says("Done.")]])
    results = api.requests[1]["messages"][-1]["content"]
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2", "toolu_3"]
    assert [result.get("is_error", False) for result in results] == [False, True, False]


class Gate(asyncio.Event):
    """Tells when the fake has come to it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Any:
        self.reached.set()
        return await super().wait()


@pytest.mark.parametrize("position", range(len(EVENTS)))
async def test_after_a_stop_at_any_event_the_next_question_is_accepted(
    bench: Bench, position: int
) -> None:
    gate = Gate()
    waits = Scripted(blocks=FULL, stop_after=position, then="wait", gate=gate)
    async with FakeAnthropic([waits]) as api:
        model = AnthropicModel("claude", api_key=api.api_key, base_url=api.url)
        running = asyncio.create_task(bench.run(model))
        await gate.reached.wait()
        running.cancel()
        assert (await running).state == "stopped"
        assert untouched(bench)
        await accepted(bench, api, model)
        await model.close()


STOPS = ["end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "pause_turn",
         "refusal", "tool_use", "something_new"]  # fmt: skip


@pytest.mark.parametrize("blocks", [[], [says("So far")], FULL], ids=["empty", "text", "calls"])
@pytest.mark.parametrize("stop_reason", STOPS)
async def test_after_any_stop_reason_the_next_question_is_accepted(
    bench: Bench, stop_reason: str, blocks: Any
) -> None:
    first = Scripted(blocks=blocks, stop_reason=stop_reason)
    ending, api = await converse(bench, [first, [says("Done.")], [says("Done.")]])
    assert ending.state == "done"
    assert api.refusals == []
    executes = blocks == FULL and stop_reason not in (
        "max_tokens", "model_context_window_exceeded", "refusal"
    )  # fmt: skip
    assert untouched(bench) != executes
    assert len(bench.told(CallReady)) == (blocks == FULL)
