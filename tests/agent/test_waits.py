"""How long a turn waits for a rate-limited service, and when it gives up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from jupyter_agent.agent.turn import Ending
from jupyter_agent.events import Notice, TurnFailed
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel
from tests.fakes import FakeAnthropic, Scripted, says
from tests.fakes.chat import ChatCompletions, serving
from tests.fakes.script import FakeReply

from ..models.conftest import Chat
from ..models.conftest import serving as sending
from .conftest import Bench
from .strict import FULL, accepted, converse, kinds, strict

KINDS = ("anthropic", "openai")
"""Kinds of API."""


async def converse_with(
    bench: Bench, kind: str, replies: Sequence[FakeReply]
) -> tuple[Ending, FakeAnthropic | ChatCompletions]:
    """A turn with these replies through an API of that kind."""
    if kind == "anthropic":
        return await converse(bench, replies)
    async with serving(ChatCompletions(replies)) as api:
        model = OpenAIModel(
            "gpt", Service(provider="openai", api_key="sk-openai-test-0123", base_url=api.url)
        )
        ending = await bench.run(model)
        await model.close()
    return ending, api


def limited(error: tuple[str, str], **headers: str) -> Scripted:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(status=429, error=error, headers=named)


BURST = limited(("rate_limit_error", "Slow down."))


async def test_stop_works_while_waiting(bench: Bench) -> None:
    waiting = asyncio.Event()

    async def pause(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    bench._pause = pause  # type: ignore[method-assign]
    async with strict([BURST]) as (api, model):
        running = asyncio.create_task(bench.run(model))
        await waiting.wait()
        running.cancel()
        assert (await running).state == "stopped"
        await accepted(bench, api, model)


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
        (  # Groq's message: the address of its billing page is not about the account
            (
                "tokens",
                "Rate limit reached. Upgrade at https://console.groq.com/settings/billing to go on",
            ),
            {"retry_after": "3"},
            [3.0] * 3,
        ),
        (("rate_limit_exceeded", "Too many requests; suspended for now."), {}, [2.0, 4.0, 8.0]),
        (("rate_limited", "Rate limit exceeded"), {"retry_after": "0"}, [2.0, 4.0, 8.0]),
        (("rate_limited", "Rate limit exceeded"), {"retry_after": "-5"}, [2.0, 4.0, 8.0]),
        (("rate_limited", "Rate limit exceeded"), {"retry_after_ms": "6"}, [2.0, 4.0, 8.0]),
    ],
)
async def test_a_burst_is_waited_for_however_long_it_takes_is_said(
    bench: Bench, kind: str, error: tuple[str, str], headers: dict[str, str], waits: list[float]
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
async def test_a_burst_without_an_end_ends_the_turn(bench: Bench, kind: str) -> None:
    ending, api = await converse_with(bench, kind, [BURST] * 5)
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


@pytest.mark.sample(14)
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
            model = OpenAIModel(
                "gpt", Service(provider="openai", api_key="sk-openai-test-0123", base_url=chat.url)
            )
            ending = await bench.run(model)
            await model.close()
    assert (ending.state, ending.stop_reason, bench.waits) == ("failed", "billing", [])
