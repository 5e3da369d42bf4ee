"""Features of Anthropic's API only, with the real SDK against the strict fake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.registry import Models
from tests.fakes import FakeAnthropic, Scripted, calls, says, thinks
from tests.fakes.server import API_KEY

from .conftest import read, request

BLOCKS = [thinks("Hm."), says("Grüße, wörld 🙂."), calls("look", cell_id="ä")]


@asynccontextmanager
async def talking(*replies: Any, **options: Any) -> AsyncIterator[Any]:
    """The fake with these replies, and a model with these options that uses it."""
    async with FakeAnthropic(replies or [[says("Hi.")]]) as api:
        model = AnthropicModel(
            "claude-test",
            Service(provider="anthropic", api_key=API_KEY, base_url=api.url, options=options),
        )
        try:
            yield api, model
        finally:
            await model.close()


async def fails(reply: Scripted) -> ModelError:
    async with talking(reply) as (_, model):
        with pytest.raises(ModelError) as caught:
            await read(model)
    return caught.value


# -- requests


async def test_the_request_is_one_that_the_api_takes() -> None:
    thought = thinks("Hm.")
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [says("x = 1")]}
    messages = [
        {"role": "user", "content": [says("Please.")]},
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]
    async with talking() as (api, model):
        await read(model, request(*messages, max_tokens=99))
    (sent,) = api.requests
    marked = {"cache_control": {"type": "ephemeral"}}
    assert sent["model"] == "claude-test"
    assert sent["max_tokens"] == 99
    assert sent["tool_choice"] == {"type": "auto"}
    assert sent["system"] == [{**says("Be short."), **marked}]
    assert sent["messages"] == [
        {"role": "user", "content": [{**says("Please."), **marked}]},
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [{**result, **marked}]},
    ]


async def test_only_the_last_two_user_messages_are_marked_for_the_cache() -> None:
    messages = []
    for n in range(5):
        messages += [
            {"role": "user", "content": [says(f"Question {n}.")]},
            {"role": "assistant", "content": [says(f"Answer {n}.")]},
        ]
    async with talking() as (api, model):
        await read(model, request(*messages[:-1]))
    marked = [
        block["text"]
        for message in api.requests[0]["messages"]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert marked == ["Question 3.", "Question 4."]


async def test_tools_and_system_prompt_stay_in_the_cache_for_an_hour_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    async with FakeAnthropic([[says("Hi.")], [says("Hi.")]]) as api:
        for ttl, expected in (("1h", {"ttl": "1h"}), ("5m", {})):
            models = Models(
                default=None,
                key_file=tmp_path / "keys.json",
                providers={"anthropic": {"base_url": api.url, "api_key": api.api_key}},
                cache_ttl=ttl,
                environment={},
            )
            await read(models.get("anthropic:claude-sonnet-5-5"), request())
            await models.close()
            sent = api.requests[-1]
            for block in (sent["tools"][-1], sent["system"][0]):
                assert block["cache_control"] == {"type": "ephemeral", **expected}
            assert "ttl" not in str(sent["messages"])
    assert api.refusals == []


STRICT: dict[str, Any] = {
    "name": "edit",
    "description": "Edit.",
    "input_schema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "additionalProperties": False,
    },
    "input_examples": [{"text": "x"}],
    "strict": True,
}


@pytest.mark.parametrize(
    ("field", "said", "sent"),
    [
        ("none", "", STRICT),
        (
            "strict",
            "tools.0.custom.strict: Extra inputs are not permitted",
            {name: value for name, value in STRICT.items() if name != "strict"},
        ),
        (
            "strict",
            "The compiled grammar is too large. Simplify your tool schemas.",
            {name: value for name, value in STRICT.items() if name != "strict"},
        ),
        (
            "input_examples",
            "tools.0.custom.input_examples: Extra inputs are not permitted",
            {
                **{name: value for name, value in STRICT.items() if name != "input_examples"},
                "description": 'Edit. Example: {"text": "x"}.',
            },
        ),
    ],
)
async def test_what_tools_may_say_is_learned_once_where_a_model_takes_less(
    field: str, said: str, sent: dict[str, Any]
) -> None:
    def refuses(body: dict[str, Any]) -> str | None:
        return said if field in body["tools"][-1] else None

    async with FakeAnthropic([[says("Hi.")], [says("Hi.")]], refuses=refuses) as api:
        model = AnthropicModel(
            "claude-test", Service(provider="anthropic", api_key=API_KEY, base_url=api.url)
        )
        for _ in range(2):
            reply = await read(model, request(tools=[STRICT], server_tools=("web_search",)))
            assert reply.complete
        await model.close()
    for asked in api.requests:
        *_, tool = asked["tools"]
        assert {name: tool[name] for name in tool if name != "cache_control"} == sent
        assert any(each.get("name") == "web_search" for each in asked["tools"])
    assert len(api.refusals) == (field != "none")


async def test_what_is_configured_is_sent_and_wins_over_ours() -> None:
    options = {
        "max_tokens": 4000,
        "output_config": {"effort": "low"},
        "extra_body": {"metadata": {"user_id": "u1"}},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    async with talking(**options) as (api, model):
        await read(model, request(max_tokens=7))
    (sent,) = api.requests
    assert (sent["max_tokens"], sent["output_config"]) == (4000, {"effort": "low"})
    assert sent["metadata"] == {"user_id": "u1"}
    assert sent["tool_choice"] == options["tool_choice"]


@pytest.mark.parametrize("name", ["temperature", "effort", "max_completion_tokens", "betas"])
async def test_an_option_that_the_service_does_not_know_is_told_with_its_words(name: str) -> None:
    async with talking(**{name: 1}) as (_, model):
        with pytest.raises(ModelError, match=f"{name}: Extra inputs are not permitted") as caught:
            await read(model)
    assert caught.value.kind == "invalid_request"


async def test_the_limit_that_this_api_demands_cannot_be_left_out() -> None:
    async with talking(max_tokens=None, tool_choice=None) as (api, model):
        await read(model, request(max_tokens=7))
    assert api.requests[0]["max_tokens"] == 7
    assert "tool_choice" not in api.requests[0]


def test_the_sdk_is_not_imported_before_it_is_used() -> None:
    code = "import sys, jupyter_agent.models.registry; print('anthropic' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


# -- replies


async def test_blocks_come_back_as_they_were_sent() -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_read_input_tokens": 11,
        "cache_creation_input_tokens": 13,
    }
    async with talking(Scripted(blocks=BLOCKS, usage=usage)) as (_, model):
        reply = await read(model)
    assert reply.content == [*BLOCKS[:2], {**BLOCKS[2], "id": "toolu_1"}]
    assert reply.usage.total == 36


# -- errors


@pytest.mark.parametrize(
    ("status", "error_type", "message", "kind", "words"),
    [
        (400, "invalid_request_error", "prompt is too long: 9 > 8", "context_length", "too long"),
        (400, "invalid_request_error", "Your credit balance is low", "billing", "limit"),
        (429, "rate_limit_error", "spend limit", "billing", "at its limit"),
    ],
)
async def test_what_is_wrong_is_known_by_its_words(
    status: int, error_type: str, message: str, kind: str, words: str
) -> None:
    error = await fails(Scripted(status=status, error=(error_type, message)))
    assert (error.kind, error.retryable) == (kind, False)
    assert words in error.message
    assert error.request_id


@pytest.mark.parametrize(
    ("error_type", "kind", "retryable"),
    [
        ("overloaded_error", "overloaded", True),
        ("api_error", "service", True),
        ("rate_limit_error", "service", True),
        ("invalid_request_error", "invalid_request", False),
    ],
)
async def test_an_error_within_the_stream_is_judged_by_its_type(
    error_type: str, kind: str, retryable: bool
) -> None:
    broken = Scripted(blocks=BLOCKS, stop_after=3, then="error", error=(error_type, "Oh."))
    error = await fails(broken)
    assert (error.kind, error.retryable) == (kind, retryable)
