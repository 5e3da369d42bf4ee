"""A person's choices for a turn: how much the model thinks, and which model is the fallback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.models.registry import Models
from tests.fakes import FakeAnthropic, Scripted, calls, says, thinks
from tests.fakes.chat import ChatCompletions
from tests.fakes.script import FakeReply, Script

from .conftest import PATH, Call, ask, frames

LOOK = calls("read_cells", cell_ids=["b2"])


async def test_an_effort_holds_for_each_step_of_its_turn_and_for_no_other(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[LOOK], [says("One.")], [says("Again.")]]
    first = await call("POST", "chat", body=ask("Hm?", stream=False, effort="high"))
    await call("POST", "chat", body=ask("And?", stream=False))
    efforts = [body.get("output_config") for body in fake.requests]
    assert efforts == [{"effort": "high"}, {"effort": "high"}, None]
    turn = (await call("GET", "turns", first.body["turn_id"])).body
    assert turn["effort"] == "high"
    kept = (await call("GET", "turns", first.body["turn_id"], "requests")).body
    assert [request["effort"] for request in kept] == ["high", "high"]


async def test_a_tool_that_there_is_not_cannot_be_allowed(call: Call, notebook: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    names = ["update_cell", "mcp__gone__look", "run_cels"]
    json_ = {"Content-Type": "application/json"}
    for answer in (
        await call("POST", "chat", body=ask("Hm?", allow=names)),
        await call("POST", "tools", "run_cells", body={"notebook": PATH, "allow": names}),
        await call("POST", "mcp", body=hello, params={"allow": ",".join(names)}, headers=json_),
    ):
        assert (answer.status, answer.body["reason"]) == (400, "invalid_input")
        assert answer.body["message"].startswith("No tool `run_cels`. Tools: clear_outputs, ")


@pytest.mark.parametrize("wrong", ["huge", "", 3])
async def test_an_effort_that_there_is_not_is_refused_with_those_that_there_are(
    call: Call, notebook: Path, wrong: object
) -> None:
    answer = await call("POST", "chat", body=ask("Hm?", effort=wrong))
    assert answer.status == 400
    assert "effort" in answer.body["message"]
    assert "'none', 'low', 'medium', 'high' or 'max'" in answer.body["message"]


# -- fallback models

FIRST = "anthropic:claude-sonnet-5-5"
SECOND = "anthropic:claude-opus-5-5"
BUSY = Scripted(status=529, error=("overloaded_error", "Overloaded"), headers={"retry-after": "0"})
ALWAYS_BUSY: list[FakeReply] = [BUSY] * 3
"""As many as a step has attempts."""
REFUSES = Scripted(
    blocks=[says("I would ra")],
    stop_reason="refusal",
    stop_details={
        "type": "refusal",
        "category": "cyber",
        "explanation": "It looks like an attack.",
    },
)


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], chat: ChatCompletions) -> dict[str, Any]:
    lab = {"kind": "openai", "base_url": chat.url, "needs_key": False}
    price = {"input": 1000, "output": 10_000}
    dear = {"input": 2000, "output": 20_000}
    config = jp_server_config["JupyterAgent"]
    config["providers"] |= {"lab": lab, "keyless": {"kind": "openai"}}
    config["model_facts"] = {FIRST: {"price": price}, SECOND: {"price": dear}}
    return jp_server_config


def told(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The notices of that kind in an answer."""
    parts = answer["message"]["parts"]
    return [part["data"] for part in parts if part.get("data", {}).get("kind") == kind]


async def asked(call: Call, **more: Any) -> dict[str, Any]:
    body = ask("Hm?", stream=False, **{"fallback_model": SECOND, **more})
    return dict((await call("POST", "chat", body=body)).body)


@pytest.mark.parametrize("script", [ALWAYS_BUSY, [REFUSES]], ids=["overloaded", "refusal"])
async def test_another_model_answers_for_one_turn_and_a_notice_says_why(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
    script: list[FakeReply],
) -> None:
    replies += [[thinks("Look."), LOOK], *script, [LOOK], [says("One.")], [says("Back.")]]
    answer = await asked(call)
    assert answer["state"] == "done"
    [notice] = told(answer, "fallback")
    why = "refusal" if script == [REFUSES] else "overloaded"
    assert (notice["model"], notice["instead_of"], notice["reason"]) == (SECOND, FIRST, why)
    assert SECOND in notice["text"]
    explained = "It looks like an attack." if why == "refusal" else None
    assert notice.get("explanation") == explained
    assert notice["text"].endswith(explained or "Anthropic is overloaded.")

    models = [f"anthropic:{body['model']}" for body in fake.requests]
    assert models == [FIRST, *[FIRST] * len(script), SECOND, SECOND]
    last = fake.requests[-1]["messages"]
    assert "thinking" not in str(last), "another model's thoughts are not sent"
    assert "would ra" not in str(last), "half a refusal is not part of the history"
    assert fake.refusals == []

    await asked(call)
    assert fake.requests[-1]["model"] == FIRST.partition(":")[2]


async def test_usage_and_cost_are_those_of_the_model_that_answered(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[LOOK], *ALWAYS_BUSY, [says("One.")]]
    answer = await asked(call)
    assert answer["usage"]["cost"] == pytest.approx(0.2 + 0.4)
    turn = (await call("GET", "turns", answer["turn_id"])).body
    assert [(step.get("model"), step["cost"]) for step in turn["step_usage"]] == [
        (None, pytest.approx(0.2)),
        (SECOND, pytest.approx(0.4)),
    ]
    assert (turn["model"], turn["fallback_model"]) == (FIRST, SECOND)


async def test_a_refusal_is_counted_at_its_own_price_and_the_stream_names_who_answered(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [REFUSES, [says("One.")]]
    chunks = frames((await call("POST", "chat", body=ask("Hm?", fallback_model=SECOND))).text)
    metadata = [each["messageMetadata"] for each in chunks if each["type"] == "message-metadata"]
    assert [each["model"] for each in metadata] == [SECOND]
    steps = [each["type"] for each in chunks if each["type"] in ("start-step", "finish-step")]
    assert steps == ["start-step", "finish-step"] * 2, "what was shown of the refusal is closed"
    usage = (await call("GET", "conversations", "talk")).body["usage"]
    assert usage["cost"] == pytest.approx(0.2 + 0.4)
    assert usage["output_tokens"] == 20


async def test_the_other_model_may_be_at_another_service_which_is_told(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, chat: ChatCompletions, notebook: Path
) -> None:
    replies += [[thinks("Look."), LOOK], *ALWAYS_BUSY]
    chat.script = Script([[LOOK], [says("One.")]])
    answer = await asked(call, fallback_model="lab:llama")
    assert answer["state"] == "done"
    assert len(chat.requests) == 2
    assert "Look." not in str(chat.requests)
    assert (fake.refusals, chat.refusals) == ([], [])
    kept = (await call("GET", "turns", answer["turn_id"], "requests")).body
    assert [request["model"] for request in kept] == [*[FIRST] * 4, *["lab:llama"] * 2]
    assert "host" in kept[-1]


async def test_a_turn_fails_as_before_where_nobody_else_answers(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [*ALWAYS_BUSY, REFUSES, *ALWAYS_BUSY, *ALWAYS_BUSY]
    assert (await asked(call, fallback_model=""))["state"] == "failed"
    refused = await asked(call, fallback_model=FIRST)  # itself
    assert (refused["state"], len(told(refused, "refusal"))) == ("done", 1)
    both = await asked(call)
    assert both["state"] == "failed"
    assert len(told(both, "fallback")) == 1


async def test_another_model_answers_also_where_the_key_is_wrong(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, chat: ChatCompletions, notebook: Path
) -> None:
    fake.api_key = "another"
    chat.script = Script([[says("One.")]])
    answer = await asked(call, fallback_model="lab:llama")
    assert answer["state"] == "done"
    [notice] = told(answer, "fallback")
    assert (notice["reason"], notice["model"]) == ("authentication", "lab:llama")
    assert "Anthropic does not accept the API key." in notice["text"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [("nobody:x", 400, "unknown_model"), ("keyless:x", 400, "authentication")],
)
async def test_a_wrong_fallback_is_refused_before_anything_is_asked(
    call: Call, fake: FakeAnthropic, notebook: Path, name: str, status: int, reason: str
) -> None:
    answer = await call("POST", "chat", body=ask("Hm?", fallback_model=name))
    assert (answer.status, answer.body["reason"]) == (status, reason)
    assert fake.requests == []


class TestOfTheServer:
    """The administrator's choice."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        jp_server_config["JupyterAgent"]["fallback_model"] = SECOND
        return jp_server_config

    async def test_it_holds_for_turns_that_do_not_say_otherwise(
        self, call: Call, replies: list[FakeReply], notebook: Path
    ) -> None:
        replies += [REFUSES, [says("One.")], REFUSES]
        answer = await asked(call, fallback_model=None)
        assert [each["model"] for each in told(answer, "fallback")] == [SECOND]
        assert told(await asked(call, fallback_model=""), "fallback") == []


class TestWithoutItsKey:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        jp_server_config["JupyterAgent"]["fallback_model"] = "keyless:x"
        return jp_server_config

    async def test_a_fallback_that_cannot_be_asked_keeps_no_turn_from_starting(
        self, call: Call, replies: list[FakeReply], notebook: Path
    ) -> None:
        replies += [[says("One.")]]
        assert (await asked(call, fallback_model=None))["state"] == "done"


def test_a_fallback_of_no_provider_is_refused_when_the_server_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fallback_model: `nobody:x` is not a model"):
        Models(default=None, key_file=tmp_path / "keys.json", fallback="nobody:x")
