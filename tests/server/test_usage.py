"""Tokens and costs of turns: in the stream, in REST answers, in the server's log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.client.runs import name_client
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from ..programs import jupyter_agent, jupyter_server
from .conftest import PATH, Call, ask, frames


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


# -- sums


async def asked(call: Call, id: str = "talk", **more: Any) -> dict[str, Any]:
    """Runs a turn to its end."""
    answer = await call("POST", "chat", body=ask("Hi", id=id, stream=False, **more))
    assert answer.status == 200, answer.text
    return dict(answer.body)


async def used(call: Call, **query: str) -> dict[str, Any]:
    answer = await call("GET", "usage", params=query)
    assert answer.status == 200, answer.text
    return dict(answer.body)


async def move_to(agent: Assistant, turn_id: str, day: str, seconds: int) -> None:
    """Changes the turn's start to that day and its duration to that many seconds."""
    await agent.database.execute(
        "UPDATE turns SET started = ?, ended = ? WHERE id = ?",
        f"{day}T23:59:00.000Z",
        f"{day}T23:59:{seconds:02}.500Z",
        turn_id,
    )


async def two_days(call: Call, agent: Assistant, replies: list[FakeReply]) -> None:
    """Two turns of two steps, and on the next day one of one step without a notebook."""
    replies += [[calls("get_notebook_state")], [says("Done.")], [says("Four.")]]
    first = await asked(call)
    second = await asked(call)
    third = await asked(call, "other", notebook=None, model="anthropic:claude-haiku-5-5")
    await move_to(agent, first["turn_id"], "2026-10-31", 10)
    await move_to(agent, second["turn_id"], "2026-10-31", 20)
    await move_to(agent, third["turn_id"], "2026-11-01", 30)


async def test_the_runs_of_a_program_are_added_up_as_one(call: Call) -> None:
    for program in ("jupyter agent run", "jupyter agent run", "Python", "deadbe"):
        by = {"by": program if program == "deadbe" else name_client(program)}
        assert (await call("POST", "notebooks", PATH, "run", body={}, params=by)).status == 200
    groups = (await used(call, by="model"))["groups"]
    counted = {group["model"]: group["turns"] for group in groups}
    assert counted == {"jupyter agent run": 2, "Python": 1, "deadbe": 1}


async def test_usage_is_added_up_by_day_with_averages_of_a_turn(
    call: Call, agent: Assistant, replies: list[FakeReply]
) -> None:
    await two_days(call, agent, replies)
    found = await used(call)
    assert (found["by"], found["from"], found["to"]) == ("day", None, None)
    first, second = found["groups"]
    assert first == {
        "day": "2026-10-31",
        "turns": 2,
        "priced_turns": 2,
        "steps": 4,
        "usage": {
            "input_tokens": 400,
            "output_tokens": 40,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "cost": 0.8,
        },
        "average": {"steps": 2.0, "cost": 0.4, "seconds": pytest.approx(15.5, abs=0.01)},
    }
    assert (second["day"], second["turns"], second["usage"]["input_tokens"]) == (
        "2026-11-01",
        1,
        100,
    )
    total = found["total"]
    assert (total["turns"], total["steps"], total["usage"]["output_tokens"]) == (3, 5, 50)
    assert total["usage"]["cost"] == pytest.approx(1.0)
    assert total["average"]["steps"] == pytest.approx(5 / 3, abs=1e-5)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("model", ["anthropic:claude-sonnet-5-5", "anthropic:claude-haiku-5-5"]),
        ("notebook", [PATH, None]),
    ],
)
async def test_usage_is_added_up_by_model_or_notebook_the_most_first(
    call: Call, agent: Assistant, replies: list[FakeReply], by: str, names: list[str | None]
) -> None:
    await two_days(call, agent, replies)
    groups = (await used(call, by=by))["groups"]
    assert [(group[by], group["turns"]) for group in groups] == list(
        zip(names, [2, 1], strict=True)
    )


async def test_usage_is_that_of_the_days_which_are_asked_for(
    call: Call, agent: Assistant, replies: list[FakeReply]
) -> None:
    await two_days(call, agent, replies)
    for query, turns in (
        ({"from": "2026-11-01"}, 1),
        ({"to": "2026-10-31"}, 2),
        ({"from": "2026-10-31", "to": "2026-11-01"}, 3),
        ({"from": "2026-11-02"}, 0),
        ({"to": "9999-12-31"}, 3),
    ):
        assert (await used(call, **query))["total"]["turns"] == turns, query
    assert (await used(call, **{"from": "2026-11-02"}))["total"]["average"] == {
        "steps": None,
        "cost": None,
        "seconds": None,
    }


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"by": "hour"}, "`by` has to be one of day, model, notebook"),
        ({"from": "yesterday"}, "`from` has to be a day such as 2026-11-23"),
        ({"from": "2026-11-02", "to": "2026-11-01"}, "`from` has to be no later than `to`"),
    ],
)
async def test_usage_that_cannot_be_asked_for_is_refused_with_the_field(
    call: Call, query: dict[str, str], says: str
) -> None:
    answer = await call("GET", "usage", params=query)
    assert answer.status == 400
    assert says in answer.body["message"]


async def test_what_was_used_stays_when_its_conversation_is_deleted(
    call: Call, agent: Assistant, replies: list[FakeReply]
) -> None:
    await two_days(call, agent, replies)
    before = [await used(call, by=by) for by in ("day", "model", "notebook")]
    assert (await call("DELETE", "conversations", "talk")).status == 204
    assert [await used(call, by=by) for by in ("day", "model", "notebook")] == before


async def test_each_user_sees_their_own_usage(users: Any, replies: list[FakeReply]) -> None:
    body = ask("Hi", stream=False)
    await users("ada", "POST", "chat", body=body)
    assert (await users("ada", "GET", "usage")).body["total"]["turns"] == 1
    assert (await users("sam", "GET", "usage")).body["total"]["turns"] == 0


async def test_the_cost_of_a_model_without_a_price_is_unknown(
    call: Call, agent: Assistant, replies: list[FakeReply]
) -> None:
    await asked(call)
    await agent.database.execute(
        "UPDATE turns SET usage = json_remove(usage, '$.cost') WHERE conversation_id = 'talk'"
    )
    total = (await used(call))["total"]
    assert (total["usage"]["input_tokens"], total["usage"]["cost"]) == (200, None)
    assert (total["priced_turns"], total["average"]["cost"]) == (0, None)


# -- from the command line


@pytest.mark.full
def test_the_command_asks_a_running_server_and_reads_the_store_where_none_runs(
    tmp_path: Path,
) -> None:
    nothing = jupyter_agent(tmp_path, "usage")
    assert nothing.returncode == 1
    assert "No Jupyter server with the assistant runs. There is no store" in nothing.stderr
    question = {
        "id": "tour",
        "model": "demo:tour",
        "messages": [{"role": "user", "content": "Show me what you can do."}],
        "mode": "read",
        "stream": False,
    }
    with jupyter_server(tmp_path) as server:
        server.request("POST", "chat", question)
        over_rest = server.request("GET", "usage?by=model")
        told = json.loads(jupyter_agent(tmp_path, "usage", "--by", "model", "--json").stdout)
        assert told == over_rest
        assert told["groups"][0]["model"] == "demo:tour"
        refused = jupyter_agent(tmp_path, "usage", "--from", "2026-11-02", "--to", "2026-11-01")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "no later than" in refused.stderr
    read = json.loads(jupyter_agent(tmp_path, "usage", "--by", "model", "--json").stdout)
    assert read["groups"] == told["groups"]
    head, line, total = jupyter_agent(tmp_path, "usage", "--by", "model").stdout.splitlines()
    assert head.split()[:3] == ["model", "turns", "steps"]
    assert line.split()[:2] == ["demo:tour", "1"]
    assert total.split()[0] == "all"
    assert len({len(each) for each in (head, line, total)}) == 1
    odd = jupyter_agent(tmp_path, "usage", "--from", "soon")
    assert (odd.returncode, odd.stdout) == (2, "")
    assert "`soon` is not a day such as 2026-11-23" in odd.stderr
