"""What turns use and cost: in the stream, in the answers of REST, in the server's log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from jupyter_agent.testing import FakeAnthropic, calls, says
from jupyter_agent.testing.script import FakeReply

from .conftest import Call, ask, frames


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    price = {"input": 1000, "output": 10_000}
    jp_server_config["JupyterAgent"]["model_facts"] = {"anthropic:*": {"price": price}}
    return jp_server_config


@pytest.fixture(autouse=True)
def script(replies: list[FakeReply], notebook: Any) -> None:
    replies += [[calls("get_notebook_state")], [says("Done.")]]


async def test_usage_and_cost_are_told_by_step_by_turn_and_by_conversation(call: Call) -> None:
    chunks = frames((await call("POST", "chat", body=ask("Hi"))).text)
    told = [chunk["messageMetadata"] for chunk in chunks if chunk["type"] == "message-metadata"]
    assert [one["stepUsage"]["cost"] for one in told] == [0.2, 0.2]
    assert [one["usage"]["cost"] for one in told] == [0.2, 0.4]
    finish = next(chunk for chunk in chunks if chunk["type"] == "finish")
    assert finish["messageMetadata"]["usage"]["cost"] == 0.4

    conversation = (await call("GET", "conversations", "talk")).body
    assert conversation["usage"]["cost"] == 0.4
    turn = (await call("GET", "turns", conversation["turns"][0]["id"])).body
    assert turn["usage"]["input_tokens"] == 200
    assert [step["input_tokens"] for step in turn["step_usage"]] == [100, 100]


async def test_a_turn_may_be_given_a_budget(call: Call, fake: FakeAnthropic) -> None:
    body = ask("Hi", cost_budget=0.1, stream=False)
    message = (await call("POST", "chat", body=body)).body["message"]
    assert message["metadata"]["budgetReached"]
    assert fake.requests[-1]["tool_choice"] == {"type": "none"}


async def test_the_log_has_a_line_for_each_step_and_why_the_turn_ended(
    call: Call, caplog: pytest.LogCaptureFixture, jp_serverapp: Any
) -> None:
    caplog.set_level(logging.INFO)
    jp_serverapp.log.addHandler(caplog.handler)
    await call("POST", "chat", body=ask("Hi"))
    lines = [message for message in caplog.messages if message.startswith("Turn ")]
    assert [line.split(" ", 2)[2].split(",")[0] for line in lines] == [
        "step 1 of 25: 1 calls (get_notebook_state)",
        "step 2 of 25: 0 calls",
        "is done after 2 steps: end_turn; 200 tokens in (none cached)",
    ]
