"""Waiting for a busy model service, unless the person wants to try sooner."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import Notice
from tests.fakes import FakeAnthropic, Scripted, says
from tests.fakes.script import FakeReply

from ..waiting import until
from .conftest import Answer, Call, ask, frames

LATER = Scripted(
    status=429, error=("rate_limit_error", "Slow down."), headers={"retry-after": "600"}
)


pytestmark = pytest.mark.usefixtures("notebook")


def notices(turn: LiveTurn) -> list[str]:
    return [event.kind for event in turn.events if isinstance(event, Notice)]


async def waiting(agent: Assistant, owner: str = "local") -> LiveTurn:
    """The turn, once it waits to ask the model again."""
    turn = await until(lambda: agent.runner.live_in(owner, "talk"))
    await until(lambda: "retrying" in notices(turn))
    return turn


async def retry(call: Call, agent: Assistant) -> Answer:
    """Presses the button until it works: the notice comes just before the pause starts."""
    while not (answer := await call("POST", "chat", "talk", "retry")).body["retried"]:
        assert agent.runner.live_in("local", "talk") is not None
    return answer


async def test_a_long_wait_is_told_with_its_end_and_ended_by_who_does_not_want_it(
    call: Call, agent: Assistant, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [LATER, [says("Hello.")]]
    asking = asyncio.create_task(call("POST", "chat", body=ask("Hi")))
    turn = await waiting(agent)
    (notice,) = [event for event in turn.events if isinstance(event, Notice)]
    left = datetime.fromisoformat(notice.facts["until"]) - datetime.now(UTC)
    assert timedelta(minutes=5) < left <= timedelta(minutes=10)
    answer = await retry(call, agent)
    assert (answer.status, answer.body["turn_id"]) == (200, turn.record.id)
    chunks = frames((await asking).text)
    told = [chunk["data"]["kind"] for chunk in chunks if chunk["type"] == "data-notice"]
    assert told == ["retrying", "retry-now"]
    assert chunks[-2]["finishReason"] == "stop"
    assert len(fake.requests) == 2
    stored = (await call("GET", "conversations", "talk")).body["messages"][-1]["parts"]
    assert [p["data"]["kind"] for p in stored if p["type"] == "data-notice"] == told


async def test_where_nothing_waits_nothing_is_tried(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    assert (await call("POST", "chat", "talk", "retry")).status == 404
    replies += [[says("Hello.")]]
    await call("POST", "chat", body=ask("Hi"))
    answer = await call("POST", "chat", "talk", "retry")
    assert (answer.status, answer.body["state"], answer.body["retried"]) == (200, "done", False)
    assert len(fake.requests) == 1


async def test_only_who_asked_can_end_the_wait(
    users: Any, agent: Assistant, replies: list[FakeReply]
) -> None:
    replies += [LATER]
    asking = asyncio.create_task(users("ada", "POST", "chat", body=ask("Hi", stream=False)))
    turn = await waiting(agent, "ada")
    assert (await users("sam", "POST", "chat", "talk", "retry")).status == 404
    assert notices(turn) == ["retrying"]
    await users("ada", "POST", "chat", "talk", "stop")
    await asking


async def test_the_wait_ends_also_where_the_store_cannot_note_it(
    call: Call,
    agent: Assistant,
    replies: list[FakeReply],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies += [LATER, [says("Hello.")]]
    asking = asyncio.create_task(call("POST", "chat", body=ask("Hi", stream=False)))
    await waiting(agent)

    write = agent.runner.stores.conversations.append
    failing = [StoreUnavailable("The disk is full.")]

    async def full_once(*given: Any, after: int = 0) -> None:
        if failing:
            raise failing.pop()
        await write(*given, after=after)

    monkeypatch.setattr(agent.runner.stores.conversations, "append", full_once)
    while (answer := await call("POST", "chat", "talk", "retry")).status == 200:
        assert not answer.body["retried"]  # the notice comes just before the pause starts
    assert answer.status == 503
    assert (await asking).body["state"] == "done"
