"""The budget of a user for a calendar month, whichever way they ask."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_notebook

from jupyter_agent.assistant import Assistant
from jupyter_agent.cli.exits import Exit
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from ..programs import jupyter_agent, jupyter_server
from .conftest import Answer, Call, ask

LOOK = calls("get_notebook_state")
"""A step has 100 tokens of input and 10 of output, and costs 0.2."""
NOTHING = {"price": {"input": 0, "output": 0}}
FREE = {"anthropic:claude-haiku-5-5": NOTHING, "nowhere:m": NOTHING}


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], request: Any) -> dict[str, Any]:
    price = {"input": 1000, "output": 10_000}
    limit = getattr(request, "param", {"monthly_token_budget": 150})
    nowhere = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "needs_key": False}
    jp_server_config["JupyterAgent"]["providers"] |= {"nowhere": nowhere}
    facts = {**FREE, "anthropic:*": {"price": price}}
    jp_server_config["JupyterAgent"] |= {"model_facts": facts, **limit}
    return jp_server_config


pytestmark = pytest.mark.usefixtures("notebook")


async def asked(call: Call, **more: Any) -> Answer:
    return await call("POST", "chat", body=ask("Go.", stream=False, **more))


def next_month() -> str:
    first = datetime.now(UTC).replace(day=1)
    return (first + timedelta(days=31)).strftime("%Y-%m-01")


def budget_notice(done: dict[str, Any]) -> str:
    parts = [part["data"] for part in done["message"]["parts"] if part["type"] == "data-notice"]
    (text,) = [data["text"] for data in parts if data["kind"] == "budget"]
    return str(text)


async def test_a_turn_that_uses_the_month_up_gives_its_answer_and_the_next_one_is_refused(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [LOOK], [says("That is all.")]]
    done = (await asked(call)).body
    assert done["state"] == "done"
    assert [request["tool_choice"]["type"] for request in fake.requests] == ["auto", "auto", "none"]
    assert done["message"]["metadata"]["budgetReached"]
    assert budget_notice(done) == (
        "Your budget for this month is used up (220 of 150 tokens, weighed by their price; the "
        f"next one begins on {next_month()} at 00:00 UTC); this is the last answer."
    )
    before = (await call("GET", "conversations", "talk")).body
    refused = await asked(call, trigger="regenerate-message", undo=True)
    assert (refused.status, refused.body["reason"]) == (429, "monthly_budget")
    assert "used up: 330 of 150 tokens" in refused.body["message"]
    assert f"begins on {next_month()} at 00:00 UTC" in refused.body["message"]
    month = refused.body["month"]
    assert (month["tokens"], month["token_budget"], month["until"]) == (330, 150, next_month())
    summary = await call("POST", "conversations", "talk", "compact")
    assert (summary.status, summary.body["reason"]) == (429, "monthly_budget")
    assert len(fake.requests) == 3
    assert (await call("GET", "conversations", "talk")).body == before


@pytest.mark.parametrize("jp_server_config", [{"monthly_cost_budget": 0.3}], indirect=True)
async def test_a_month_may_be_given_a_budget_in_costs(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [LOOK], [says("That is all.")]]
    assert "(0.40 of 0.30 in costs;" in budget_notice((await asked(call)).body)
    refused = await asked(call)
    assert "0.60 of 0.30 in costs" in refused.body["message"]
    assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("jp_server_config", "free"),
    [({"monthly_token_budget": 50}, False), ({"monthly_cost_budget": 0.1}, True)],
    indirect=["jp_server_config"],
)
async def test_what_takes_nothing_of_the_budget_is_never_refused(
    call: Call, replies: list[FakeReply], jp_server_config: dict[str, Any], free: bool
) -> None:
    """The tour uses no tokens; a model without a price uses nothing of a cost budget."""
    replies += [[says("One.")]]
    assert (await asked(call)).status == 200
    assert (await asked(call)).status == 429
    assert (await asked(call, model="demo:tour", mode="read")).body["state"] == "done"
    replies += [[LOOK], [says("Two.")]]
    local = await asked(call, model="anthropic:claude-haiku-5-5", fallback_model="")
    assert local.status == (200 if free else 429)
    paid = await asked(call, model="nowhere:m", fallback_model="anthropic:claude-sonnet-5-5")
    assert paid.status == (200 if free else 429)
    if free:
        assert paid.body["state"] == "failed", "a model that is paid for does not step in"
        assert local.body["state"] == "done"
        assert not local.body["message"]["metadata"].get("budgetReached")


@pytest.mark.parametrize("jp_server_config", [{}], indirect=True)
async def test_without_a_budget_nothing_is_refused(call: Call, replies: list[FakeReply]) -> None:
    replies += [[says("One.")], [says("Two.")]]
    assert [(await asked(call)).status for _ in range(2)] == [200, 200]
    month = (await call("GET", "usage")).body["month"]
    assert (month["tokens"], month["token_budget"], month["exhausted"]) == (220, None, False)


async def test_a_deleted_conversation_gives_nothing_back(
    call: Call, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("One.")]]
    await asked(call)
    await call("DELETE", "conversations", "talk")
    assert (await asked(call, id="other")).status == 429


async def test_a_new_month_begins_with_nothing_used(
    call: Call, agent: Assistant, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("One.")], [says("Two.")]]
    await asked(call)
    last = datetime.now(UTC).replace(day=1) - timedelta(days=1)
    await agent.database.execute("UPDATE turns SET started = ?", f"{last:%Y-%m-%d}T23:59:59.999Z")
    assert (await asked(call)).status == 200
    assert (await call("GET", "usage")).body["month"]["tokens"] == 110


async def test_what_one_user_used_is_not_held_against_another(
    users: Any, replies: list[FakeReply]
) -> None:
    replies += [[LOOK], [says("One.")], [says("Two.")]]
    body = ask("Go.", stream=False)
    assert (await users("ada", "POST", "chat", body=body)).status == 200
    assert (await users("ada", "POST", "chat", body=body)).status == 429
    assert (await users("sam", "POST", "chat", body=body)).status == 200


async def test_turns_in_other_conversations_count_while_they_run(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[calls("run_code", code="print(1)")], [says("Other.")], [says("That is all.")]]
    waiting = await asked(call, mode="ask")
    assert waiting.body["state"] == "waiting"
    assert (await asked(call, id="other")).status == 200
    (approval,) = waiting.body["approvals"]
    answer = {"approvals": [{"id": approval["id"], "approved": True}], "wait": 60}
    done = (await call("POST", "chat", "talk", "approvals", body=answer)).body
    assert done["state"] == "done"
    assert fake.requests[-1]["tool_choice"] == {"type": "none"}
    assert "(220 of 150 tokens" in budget_notice(done)


def configure(folder: Path, **traits: Any) -> None:
    (folder / ".config").mkdir()
    config = json.dumps({"JupyterAgent": traits})
    (folder / ".config" / "jupyter_server_config.json").write_text(config)


@pytest.mark.full
def test_the_command_line_says_how_much_of_the_month_is_used(tmp_path: Path) -> None:
    configure(tmp_path, monthly_cost_budget=2.5, monthly_token_budget=1000)
    with jupyter_server(tmp_path):
        last = jupyter_agent(tmp_path, "usage").stdout.splitlines()[-1]
        month = json.loads(jupyter_agent(tmp_path, "usage", "--json").stdout)["month"]
    assert last == (
        f"Used this month, until {next_month()} at 00:00 UTC: 0 of 1,000 tokens, weighed by their "
        "price and 0.00 of 2.50 in costs."
    )
    assert (month["token_budget"], month["cost_budget"]) == (1000, 2.5)


@pytest.mark.full
def test_a_command_that_asks_a_model_is_refused_like_the_panel(tmp_path: Path) -> None:
    nowhere = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "needs_key": False}
    configure(tmp_path, monthly_cost_budget=0, providers={"lab": nowhere})
    nbformat.write(new_notebook(), tmp_path / "a.ipynb")
    done = jupyter_agent(tmp_path, "ask", "a.ipynb", "Hm?", "--model", "lab:m")
    assert done.returncode == Exit.LIMIT
    assert "Your budget for this month is used up: 0.00 of 0.00 in costs" in done.stderr
