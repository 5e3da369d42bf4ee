"""The effort of a model's thinking: sent as each API accepts it, and adapted after refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest

from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import Effort, Message
from jupyter_agent.models.dialect import preset
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.plugs.providers.responses import ResponsesModel
from tests.fakes import FakeAnthropic, says, thinks
from tests.fakes.chat import ChatCompletions
from tests.fakes.chat import serving as completions
from tests.fakes.responses import Responses
from tests.fakes.responses import serving as responses
from tests.fakes.server import API_KEY

from .conftest import read, request

EFFORTS: tuple[Effort, ...] = get_args(Effort)
TWICE = [[says("Hi.")], [says("Again.")]]


def takes_all(body: dict[str, Any]) -> None:
    return None


def _kind(body: dict[str, Any]) -> str:
    return str(body.get("thinking", {}).get("type", ""))


def manual_only(body: dict[str, Any]) -> str | None:
    """An older model, with a budget of thinking and no effort."""
    if _kind(body) == "adaptive":
        return "adaptive thinking is not supported on this model"
    if "effort" in body.get("output_config", {}):
        return "This model does not support the effort parameter."
    return None


def thoughtless(body: dict[str, Any]) -> str | None:
    """A model that cannot think."""
    if _kind(body) in ("adaptive", "enabled"):
        return f"'claude-test' does not support thinking type {_kind(body)}"
    return manual_only(body)


def always_thinks(body: dict[str, Any]) -> str | None:
    """A model whose thinking cannot be switched off, nor have a budget; it has no `max`."""
    if _kind(body) in ("enabled", "disabled"):
        return (
            f'"thinking.type.{_kind(body)}" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if body.get("output_config", {}).get("effort") == "max":
        return "output_config.effort: Input should be 'low', 'medium' or 'high'"
    return None


@asynccontextmanager
async def claude(
    refuses: Callable[[dict[str, Any]], str | None] = takes_all, **more: Any
) -> AsyncIterator[tuple[FakeAnthropic, AnthropicModel]]:
    async with FakeAnthropic(TWICE, refuses=refuses) as api:
        model = AnthropicModel(
            "claude-test", Service(provider="anthropic", api_key=API_KEY, base_url=api.url, **more)
        )
        try:
            yield api, model
        finally:
            await model.close()


def sent(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in ("thinking", "output_config") if name in body}


async def test_nothing_is_said_of_it_where_nobody_chose() -> None:
    async with claude() as (api, model):
        await read(model)
    async with completions(ChatCompletions(TWICE)) as chat:
        await read(OpenAIModel("o9", Service(provider="openai", api_key="k", base_url=chat.url)))
    assert sent(api.requests[0]) == {}
    assert not {"reasoning_effort", "reasoning", "thinking"} & chat.requests[0].keys()


ADAPTIVE = {"type": "adaptive"}
CLAUDES = [
    (takes_all, "none", {"thinking": {"type": "disabled"}}, 0),
    (takes_all, "low", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}, 0),
    (takes_all, "max", {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}, 0),
    (manual_only, "none", {"thinking": {"type": "disabled"}}, 0),
    (manual_only, "high", {"thinking": {"type": "enabled", "budget_tokens": 8000}}, 2),
    (thoughtless, "high", {}, 3),
    (thoughtless, "none", {"thinking": {"type": "disabled"}}, 0),
    (always_thinks, "none", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}, 1),
    (always_thinks, "max", {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}, 1),
]


@pytest.mark.parametrize(("refuses", "effort", "expected", "refusals"), CLAUDES)
async def test_claude_is_told_as_the_model_takes_it_which_is_learned_once(
    refuses: Callable[[dict[str, Any]], str | None],
    effort: Effort,
    expected: dict[str, Any],
    refusals: int,
) -> None:
    async with claude(refuses) as (api, model):
        for _ in TWICE:
            assert (await read(model, request(effort=effort))).complete
    assert [sent(body) for body in api.requests] == [expected, expected]
    assert len(api.refusals) == refusals


async def test_what_was_learned_outlives_the_client() -> None:
    learned: dict[str, Any] = {}
    async with claude(manual_only, dialects=learned) as (api, model):
        await read(model, request(effort="low"))
        fresh = AnthropicModel(
            "claude-test",
            Service(provider="anthropic", api_key=API_KEY, base_url=api.url, dialects=learned),
        )
        await read(fresh, request(effort="low"))
        await fresh.close()
    assert len(api.refusals) == 2
    assert len(api.requests) == 2


@pytest.mark.parametrize("effort", EFFORTS)
async def test_the_options_of_a_provider_win(effort: Effort) -> None:
    options = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}
    async with claude(options=options) as (api, model):
        await read(model, request(effort=effort))
    assert sent(api.requests[0]) == options
    async with completions(ChatCompletions(TWICE)) as chat:
        options = {"reasoning_effort": "medium"}
        await read(
            OpenAIModel(
                "o9", Service(provider="openai", api_key="k", base_url=chat.url, options=options)
            )
        )
    assert chat.requests[0]["reasoning_effort"] == "medium"


async def test_no_thinking_is_asked_for_where_a_reply_has_no_room_for_it() -> None:
    async with claude(manual_only) as (api, model):
        await read(model, request(effort="max", max_tokens=1000))
    assert sent(api.requests[0]) == {}


@pytest.mark.parametrize(("limit", "budget"), [(4000, 3000), (64_000, 48_000)])
async def test_the_budget_is_a_share_of_the_limit_that_is_configured(
    limit: int, budget: int
) -> None:
    async with claude(manual_only, options={"max_tokens": limit}) as (api, model):
        await read(model, request(effort="max"))
    assert sent(api.requests[0])["thinking"]["budget_tokens"] == budget


def calling(*before: dict[str, Any]) -> list[Message]:
    """A turn whose first step is done."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [says("x = 1")]}
    return [
        {"role": "user", "content": [says("Please.")]},
        {"role": "assistant", "content": [*before, call]},
        {"role": "user", "content": [result]},
    ]


async def test_calls_of_another_model_have_no_thoughts_and_none_are_asked_for() -> None:
    async with claude(manual_only) as (api, model):
        await read(model, request(*calling(thinks("Hm.")), effort="high"))
        await read(model, request(*calling(), effort="high"))
    assert [_kind(body) for body in api.requests] == ["enabled", ""]
    assert not any("Expected" in refusal for refusal in api.refusals)


async def test_a_refusal_that_nothing_cures_is_told_in_its_first_words() -> None:
    def never(body: dict[str, Any]) -> str:
        return f"messages.1: `thinking` blocks cannot be modified (asked with {_kind(body)})"

    async with claude(never) as (_, model):
        with pytest.raises(ModelError, match=r"asked with adaptive"):
            await read(model, request(effort="high"))


# -- services that speak OpenAI's APIs

CHATS = [
    (None, "none", "none", 0),
    (None, "max", "max", 0),
    (("low", "medium", "high"), "none", "low", 1),
    (("low", "medium", "high"), "max", "high", 1),
    (("minimal", "low", "medium", "high"), "none", "minimal", 1),
    (("none", "low"), "high", "low", 1),
    (("none",), "high", None, 1),
    ((), "high", None, 1),
    ((), "none", None, 1),
]


@pytest.mark.parametrize(("efforts", "effort", "expected", "refusals"), CHATS)
async def test_chat_completions_get_the_nearest_level_that_there_is(
    efforts: tuple[str, ...] | None, effort: Effort, expected: str | None, refusals: int
) -> None:
    async with completions(ChatCompletions(TWICE, efforts=efforts)) as api:
        model = OpenAIModel("o9", Service(provider="openai", api_key="k", base_url=api.url))
        for _ in TWICE:
            assert (await read(model, request(effort=effort))).complete
        await model.close()
    assert [body.get("reasoning_effort") for body in api.requests] == [expected, expected]
    assert len(api.refusals) == refusals


REFUSALS = {
    "ollama": '"llama3" does not support thinking',
    "groq": "`reasoning_effort` must be one of `none` or `default`",
    "gpt": "Function tools with reasoning_effort are not supported for gpt-9 in "
    "/v1/chat/completions. Please use /v1/responses or set reasoning_effort to 'none'.",
    "plain": "Unrecognized request argument supplied: reasoning_effort",
    "azure": "Unsupported value: 'reasoning_effort' does not support 'high' with this model.",
}


@pytest.mark.parametrize("said", REFUSALS.values(), ids=REFUSALS)
async def test_the_turn_continues_whatever_words_a_service_refuses_it_with(said: str) -> None:
    api = ChatCompletions(TWICE)
    api.refuses_field = lambda body: (  # type: ignore[method-assign]
        said if body.get("reasoning_effort") == "high" else None
    )
    async with completions(api):
        model = OpenAIModel("m", Service(api_key="k", base_url=api.url, provider="lab"))
        for _ in TWICE:
            assert (await read(model, request(effort="high"))).complete
        await model.close()
    assert len(api.refusals) == 1
    assert api.requests[0].get("reasoning_effort") in (None, "xhigh", "medium")


DIALECTS = {
    "openai": ({"reasoning_effort": "high"}, {"reasoning_effort": "none"}),
    "deepseek": ({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
    "kimi": ({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
    "openrouter": ({"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}),
    "mistral": ({}, {}),
}


@pytest.mark.parametrize("service", DIALECTS)
async def test_each_service_is_told_in_its_own_field(service: str) -> None:
    async with completions(ChatCompletions(TWICE, dialect=service)) as api:
        model = OpenAIModel(
            "m",
            Service(
                api_key="k",
                base_url=api.url,
                provider="lab",
                dialect=preset(service, provider="lab", base_url=None),
            ),
        )
        await read(model, request(effort="high"))
        await read(model, request(effort="none"))
        await model.close()
    fields = ("reasoning_effort", "thinking", "reasoning")
    told = [{name: body[name] for name in fields if name in body} for body in api.requests]
    assert told == list(DIALECTS[service])


async def test_the_responses_api_is_told_too_and_its_refusal_is_learned() -> None:
    async with responses(Responses([*TWICE, *TWICE])) as api:
        model = ResponsesModel("o9", Service(provider="openai", api_key="k", base_url=api.url))
        for effort in ("none", "max", "max"):
            await read(model, request(effort=effort))
        await model.close()
    assert [body["reasoning"] for body in api.requests] == [
        {"effort": "none"},
        {"effort": "xhigh"},
        {"effort": "xhigh"},
    ]
    assert len(api.refusals) == 1
