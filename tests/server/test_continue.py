"""An answer that hit a limit says so with a part that clients can offer to continue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Answer, Call, ask, frames

LOOK = calls("get_notebook_state")

pytestmark = pytest.mark.usefixtures("notebook")


async def limited(call: Call, **limits: Any) -> dict[str, Any]:
    """A turn that hit a limit."""
    return dict((await call("POST", "chat", body=ask("A lot.", stream=False, **limits))).body)


async def go_on(call: Call, turn_id: str, **more: Any) -> Answer:
    body = {"id": "talk", "continues": turn_id, "stream": False, **more}
    return await call("POST", "chat", body=body)


@pytest.mark.parametrize(
    ("limits", "limit"),
    [({"max_steps": 2}, "steps"), ({"token_budget": 1}, "tokens")],
)
async def test_an_answer_that_a_limit_ended_ends_with_a_part_to_continue_it(
    call: Call, replies: list[FakeReply], limits: dict[str, int], limit: str
) -> None:
    replies += [[LOOK], [says("So far.")]]
    chunks = frames((await call("POST", "chat", body=ask("A lot.", **limits))).text)
    turn_id = chunks[0]["messageMetadata"]["turnId"]
    data = {"turnId": turn_id, "limit": limit}
    (told,) = [chunk for chunk in chunks if chunk["type"] == "data-continue"]
    assert told["data"] == data
    assert [chunk["type"] for chunk in chunks[-3:]] == ["data-continue", "finish", "[DONE]"]
    (stored,) = (await call("GET", "conversations", "talk")).body["messages"][1:]
    assert stored["parts"][-1] == {"type": "data-continue", "data": data}


async def test_an_answer_that_no_limit_ended_has_no_such_part(
    call: Call, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("All.")]]
    done = await limited(call, max_steps=3)
    assert "data-continue" not in {part["type"] for part in done["message"]["parts"]}
    refused = await go_on(call, done["turn_id"])
    assert (refused.status, refused.body["reason"]) == (409, "not_continuable")


async def test_it_is_continued_in_the_same_way_with_limits_of_its_own(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("So far.")], [LOOK], [says("The rest.")]]
    how = {"mode": "read", "share": "code-only", "allow": ["run_cell"], "effort": "low"}
    done = await limited(call, token_budget=1, model="anthropic:claude-haiku-5-5", **how)
    more = (await go_on(call, done["turn_id"])).body
    assert more["turn_id"] != done["turn_id"]
    assert "".join(p["text"] for p in more["message"]["parts"] if p["type"] == "text") == (
        "The rest."
    )
    assert [request["tool_choice"]["type"] for request in fake.requests] == [
        "auto",
        "none",
        "auto",
        "auto",
    ]
    assert "Continue." in str(fake.requests[2]["messages"][-1]["content"])
    turn = (await call("GET", "turns", more["turn_id"])).body
    assert {name: turn[name] for name in how} == how
    assert (turn["notebook"], turn["model"]) == (PATH, "anthropic:claude-haiku-5-5")
    messages = (await call("GET", "conversations", "talk")).body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[2]["parts"] == [{"type": "text", "text": "Continue."}]


async def test_what_the_client_says_counts(call: Call, replies: list[FakeReply]) -> None:
    replies += [[LOOK], [says("So far.")], [says("The rest.")]]
    done = await limited(call, max_steps=2)
    question = {"role": "user", "parts": [{"type": "text", "text": "Weiter."}]}
    more = (await go_on(call, done["turn_id"], mode="ask", messages=[question])).body
    assert (await call("GET", "turns", more["turn_id"])).body["mode"] == "ask"
    messages = (await call("GET", "conversations", "talk")).body["messages"]
    assert messages[2]["parts"] == [{"type": "text", "text": "Weiter."}]


async def test_a_stock_client_may_send_the_whole_conversation_along(
    call: Call, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("So far.")], [says("The rest.")]]
    done = await limited(call, max_steps=2)
    messages = (await call("GET", "conversations", "talk")).body["messages"]
    assert (await go_on(call, done["turn_id"], messages=messages)).status == 200
    messages = (await call("GET", "conversations", "talk")).body["messages"]
    assert messages[2]["parts"] == [{"type": "text", "text": "Continue."}]


async def test_it_is_continued_once(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("So far.")], [says("The rest.")], [says("Again?")]]
    done = await limited(call, max_steps=2)
    both = await asyncio.gather(*(go_on(call, done["turn_id"]) for _ in range(2)))
    assert sorted(answer.status for answer in both) == [200, 409]
    late = await go_on(call, done["turn_id"])
    assert (late.status, late.body["reason"]) == (409, "not_continuable")
    assert len(fake.requests) == 3


async def test_a_turn_of_another_conversation_is_not_continued(
    call: Call, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("So far.")]]
    done = await limited(call, max_steps=2)
    assert (await go_on(call, done["turn_id"], id="other")).status == 404
    assert (await go_on(call, "t_0")).status == 404
