"""Students and teachers of a hub on one server: the asker's name and groups decide."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.entries import entries_of
from jupyter_agent.agent.people import Person
from jupyter_agent.agent.permissions import Rule
from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.allowances import Allowance, Allowances
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from ..mcp_server.conftest import NEW, envelope, headers, message
from .conftest import PATH, Answer, Call, ask

STUDENT, TEACHER = ("sam", "students"), ("ada", "teachers staff")
SMALL = "anthropic:claude-haiku-5-5"
LARGE = "anthropic:claude-sonnet-5-5"

As = Callable[..., Awaitable[Answer]]


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    jp_server_config["JupyterAgent"]["providers"]["anthropic"] |= {
        "headers": {"X-Asked-By": {"user": "name"}, "X-Team": "atlas"}
    }
    jp_server_config["JupyterAgent"] |= {
        "max_mode": "edit",
        "monthly_token_budget": 1_000,
        "fallback_model": LARGE,
        "allowances": [
            {
                "group": "students",
                "max_mode": "ask",
                "models": ["anthropic:*haiku*", "demo:tour"],
                "monthly_token_budget": 150,
            },
            {"group": "teach*", "max_mode": "auto", "monthly_token_budget": None},
            {"user": "sam", "max_mode": "auto", "default_model": SMALL},
        ],
        "rules": [
            {"verdict": "deny", "tool": "create_cell", "group": "students"},
            {"verdict": "ask", "tool": "update_cell", "user": "a*"},
        ],
    }
    return jp_server_config


@pytest.fixture
def as_(call: Call, named_users: None, notebook: Path) -> As:
    """A request by (name, groups)."""

    async def as_(who: tuple[str, str], method: str, *path: str, **more: Any) -> Answer:
        name, groups = who
        return await call(method, *path, headers={"X-User": name, "X-Groups": groups}, **more)

    return as_


async def outcome(as_: As, who: tuple[str, str], tool: str, mode: str, **input: Any) -> Any:
    body = {"notebook": PATH, "input": input, "mode": mode}
    return (await as_(who, "POST", "tools", tool, body=body)).body


@pytest.mark.full
async def test_the_freest_mode_is_that_of_who_asks(as_: As) -> None:
    change = {"cell_id": "b2", "source": "x = 2"}
    refused = await outcome(as_, STUDENT, "update_cell", "auto", **change)
    assert (refused["is_error"], refused["reason"]) == (True, "needs_approval")
    stranger = await outcome(as_, ("eve", ""), "run_cell", "auto", cell_id="b2")
    assert stranger["reason"] == "needs_approval"
    assert not (await outcome(as_, TEACHER, "run_cell", "auto", cell_id="b2"))["is_error"]
    read = await outcome(as_, ("eve", "students teachers"), "run_cell", "auto", cell_id="b2")
    assert read["is_error"]  # the first matching entry decides


async def test_a_rule_holds_for_the_people_that_it_names(as_: As) -> None:
    new = {"source": "y = 1"}
    refused = await outcome(as_, STUDENT, "create_cell", "auto", **new)
    assert "A rule forbids `create_cells`" in refused["text"]
    asked = await outcome(as_, TEACHER, "update_cell", "auto", cell_id="b2", source="x = 2")
    assert asked["reason"] == "needs_approval"
    assert not (await outcome(as_, TEACHER, "create_cell", "auto", **new))["is_error"]


async def test_a_turn_asks_the_models_that_its_person_may_ask(
    as_: As, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[says("By the small one.")], [says("By the large one.")]]
    assert (await as_(STUDENT, "POST", "chat", body=ask("Hi.", stream=False))).status == 200
    assert (await as_(TEACHER, "POST", "chat", body=ask("Hi.", stream=False))).status == 200
    assert [f"anthropic:{one['model']}" for one in fake.requests] == [SMALL, LARGE]
    refused = await as_(STUDENT, "POST", "chat", body=ask("Hi.", stream=False, model=LARGE))
    assert (refused.status, refused.body["reason"]) == (403, "model_not_allowed")
    assert refused.body["message"] == (
        f"Your administrator does not allow you the model `{LARGE}`. "
        "Allowed: `anthropic:*haiku*`, `demo:tour`."
    )
    wanted = ask("Hi.", stream=False, fallback_model=LARGE)
    assert (await as_(STUDENT, "POST", "chat", body=wanted)).status == 403
    assert len(fake.requests) == 2


async def test_each_is_offered_their_own_models(as_: As) -> None:
    mine = (await as_(STUDENT, "GET", "models")).body
    names = {one["name"]: one["models"] for one in mine["providers"]}
    assert names == {"anthropic": ["claude-haiku-5-5"], "demo": ["tour"]}
    assert (mine["default"], mine["fallback"]) == (SMALL, None)
    theirs = (await as_(TEACHER, "GET", "models")).body
    assert (theirs["default"], theirs["fallback"]) == (LARGE, LARGE)
    assert {"ollama", "openai"} < {one["name"] for one in theirs["providers"]}
    listed = await as_(STUDENT, "POST", "providers", "anthropic", "models")
    assert listed.body == {"models": ["claude-haiku-5-5"]}


async def test_each_has_the_budget_of_their_group(as_: As, replies: list[FakeReply]) -> None:
    replies += [[calls("get_notebook_state")], [says("One.")]]
    replies += [[says("Two.")]] * 2
    body = ask("Go.", stream=False)
    assert (await as_(STUDENT, "POST", "chat", body=body)).status == 200
    refused = await as_(STUDENT, "POST", "chat", body=body)
    assert (refused.status, refused.body["reason"]) == (429, "monthly_budget")
    assert "220 of 150 tokens" in refused.body["message"]
    for who, budget in ((STUDENT, 150), (TEACHER, None), (("eve", ""), 1_000)):
        month = (await as_(who, "GET", "usage")).body["month"]
        assert (who, month["token_budget"]) == (who, budget)
    summary = await as_(STUDENT, "POST", "conversations", "talk", "compact")
    assert summary.status == 429
    assert (await as_(TEACHER, "POST", "chat", body=body)).status == 200


async def test_another_agent_may_do_what_the_person_behind_it_may(
    call: Call, named_users: None, notebook: Path
) -> None:
    async def create_cell(name: str, groups: str) -> str:
        tool = {
            "name": "create_cell",
            "arguments": {"notebook": PATH, "source": "y = 1"},
            "_meta": envelope("Claude Code", {}),
        }
        sent = headers(MCP_Protocol_Version=NEW, Mcp_Method="tools/call", Mcp_Name="create_cell")
        who = {"X-User": name, "X-Groups": groups}
        body = message("tools/call", tool)
        done = await call(
            "POST", "mcp", body=body, headers={**sent, **who}, params={"mode": "auto"}
        )
        return str(done.text)

    assert "A rule forbids `create_cells`" in await create_cell(*STUDENT)
    assert "A rule" not in await create_cell(*TEACHER)
    cells = json.loads(notebook.read_text())["cells"]
    assert ["".join(cell["source"]) for cell in cells].count("y = 1") == 1


async def test_everybody_reads_what_holds_for_them(as_: As) -> None:
    policy = (await as_(STUDENT, "GET", "status")).body["policy"]
    assert (policy["user"], policy["groups"]) == ("sam", ["students"])
    assert (policy["max_mode"], policy["models"]) == ("ask", ["anthropic:*haiku*", "demo:tour"])
    assert [rule["tool"] for rule in policy["rules"]] == ["create_cell"]
    theirs = (await as_(TEACHER, "GET", "status")).body["policy"]
    assert (theirs["groups"], theirs["max_mode"]) == (["staff", "teachers"], "auto")
    assert [rule["tool"] for rule in theirs["rules"]] == ["update_cell"]


def test_the_first_entry_that_has_a_field_decides_it() -> None:
    entries: list[dict[str, Any]] = [
        {"user": "ada", "max_mode": "read"},
        {"group": "staff", "max_mode": "auto", "monthly_cost_budget": 5},
        {"monthly_cost_budget": 1, "models": []},
    ]
    allowances = Allowances(Allowance(max_mode="edit", monthly_token_budget=7), entries)
    ada = allowances.of(Person(name="ada", groups=frozenset({"staff", "x"})))
    assert (ada.max_mode, ada.monthly_cost_budget, ada.monthly_token_budget) == ("read", 5, 7)
    eve = allowances.of(Person(name="eve"))
    assert (eve.max_mode, eve.monthly_cost_budget, eve.permits("demo:tour")) == ("edit", 1, False)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"max_mode": "free"}, "allowances.0.max_mode: "),
        ({"groups": ["students"]}, "allowances.0.groups: "),
        ({"models": "demo:*"}, "allowances.0.models: "),
        ({"monthly_token_budget": 0}, "allowances.0.monthly_token_budget: "),
        ({"models": ["demo:*"], "default_model": "lab:x"}, "allowances.0.default_model: "),
    ],
)
def test_an_entry_that_does_not_fit_is_named(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Allowances(Allowance(), [entry])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"verdict": "forbid"}, "rules.1.verdict: Input should be 'deny', 'ask' or 'allow'."),
        ({"tool": "run_code"}, "rules.1.verdict: Field required."),
        ({"verdict": "deny", "tols": "run_code"}, "rules.1.tols: Unexpected keyword argument."),
        ({"verdict": "deny", "tool": ["run_code"]}, "rules.1.tool: Input should be a valid str"),
    ],
)
def test_a_rule_that_does_not_fit_is_named(rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entries_of(Rule, "rules", [{"verdict": "ask"}, rule])


def test_a_rule_for_a_group_is_about_its_members_only() -> None:
    rule = Rule(verdict="deny", group="stud*")
    assert rule.is_for(Person(name="sam", groups=frozenset({"staff", "students"})))
    assert not rule.is_for(Person(name="students"))


async def test_a_gateway_is_told_who_asks_on_a_server_of_several_people(
    as_: As, fake: FakeAnthropic, replies: list[FakeReply], agent: Assistant
) -> None:
    replies += [[says("One.")], [says("Two.")], [says("Three.")]]
    for who in (STUDENT, TEACHER, ("zoë@example.org", "")):
        assert (await as_(who, "POST", "chat", body=ask("Hi.", stream=False))).status == 200
    names = [headers["X-Asked-By"] for headers in fake.headers]
    assert names == ["sam", "ada", "zo%C3%AB@example.org"]
    assert {headers["X-Team"] for headers in fake.headers} == {"atlas"}
    assert "ada" in agent.redactor.text("ada")  # a name is not a secret
