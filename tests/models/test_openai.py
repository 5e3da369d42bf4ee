"""Features of chat completions only; the quirks of services are in `test_quirks.py`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.chat import chat_messages
from jupyter_agent.models.dialect import Dialect
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.models.registry import Models
from tests.fakes import Scripted, says, thinks
from tests.fakes.chat import ChatCompletions, LimitName
from tests.fakes.chat import serving as strictly
from tests.fakes.script import FakeReply

from .conftest import Chat, read, recording, request, serving

KEY = "sk-openai-test-0123"
TEXT = recording("openai/text.txt")


HI = [says("Hi.")]
LIMITS: tuple[LimitName, ...] = ("max_tokens", "max_completion_tokens")


async def ask(chat: Chat, asked: ModelRequest | None = None, **more: Any) -> Reply:
    async with serving(chat):
        model = OpenAIModel(
            "gpt-test",
            Service(**{"provider": "openai", "api_key": KEY, "base_url": chat.url, **more}),
        )
        try:
            return await read(model, asked)
        finally:
            await model.close()


@asynccontextmanager
async def lab(
    *replies: FakeReply, **options: Any
) -> AsyncIterator[tuple[ChatCompletions, OpenAIModel]]:
    """A strict service of that name with these replies, and a model with these options."""
    async with strictly(ChatCompletions(replies)) as api:
        model = OpenAIModel(
            "gpt", Service(api_key=KEY, base_url=api.url, provider="lab", options=options)
        )
        try:
            yield api, model
        finally:
            await model.close()


def names_of_limit(api: ChatCompletions) -> list[list[str]]:
    """The names of the limit in each request."""
    return [[name for name in LIMITS if name in body] for body in api.requests]


async def test_a_context_that_is_too_long_is_known_by_its_code() -> None:
    body = {"error": {"message": "Too much.", "code": "context_length_exceeded"}}
    with pytest.raises(ModelError) as caught:
        await ask(Chat(json.dumps(body).encode(), status=400))
    assert caught.value.kind == "context_length"


# -- requests


def test_the_history_is_told_in_the_shapes_of_chat_completions() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }
    asked = request(
        {"role": "user", "content": [says("Now."), says("Please.")]},
        {
            "role": "assistant",
            "content": [
                thinks("Hm."),
                says("I look."),
                {"type": "tool_use", "id": "1", "name": "look", "input": {"a": 1}},
                {"type": "tool_use", "id": "2", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [says("seen"), image]},
                {
                    "type": "tool_result",
                    "tool_use_id": "2",
                    "content": [says("No cell.")],
                    "is_error": True,
                },
                says("Go on."),
            ],
        },
        {"role": "assistant", "content": [says("Done.")]},
    )
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    ids = ["6b86b273f", "d4735e3a2"]
    written = [{"name": "look", "arguments": text} for text in ('{"a": 1}', "{}")]
    calls = [
        {"id": id, "type": "function", "function": each}
        for id, each in zip(ids, written, strict=True)
    ]
    assert chat_messages(asked, Dialect()) == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Now.\n\nPlease."},
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        {
            "role": "tool",
            "tool_call_id": ids[0],
            "name": "look",
            "content": "seen\n(image follows)",
        },
        {"role": "tool", "tool_call_id": ids[1], "name": "look", "content": "Error: No cell."},
        {"role": "user", "content": [url, says("Go on.")]},
        {"role": "assistant", "content": "Done."},
    ]


@pytest.mark.parametrize(
    ("id", "short", "sent"),
    [
        ("toolu_01AbCdEfGhIj", False, None),
        ("call_3fQz", False, None),
        ("", False, None),
        ("aB3dE6gH9", False, "aB3dE6gH9"),
        ("functions.look:0", False, "functions.look:0"),
        ("functions.look:0", True, None),
        ("functions.mcp__jupyter__read_notebook_cells:12", False, None),
    ],
)
def test_ids_of_calls_are_such_that_every_service_takes_them(
    id: str, short: bool, sent: str | None
) -> None:
    call = {"type": "tool_use", "id": id, "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": id, "content": [says("seen")]}
    asked = request(
        {"role": "user", "content": [says("Please.")]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    )
    _, _, made, answered = chat_messages(asked, Dialect(short_ids=short))
    (found,) = made["tool_calls"]
    assert answered["tool_call_id"] == found["id"]
    assert found["id"] == sent or (sent is None and re.fullmatch("[A-Za-z0-9]{9}", found["id"]))


async def test_a_forced_answer_has_no_tools_where_the_server_does_not() -> None:
    chat = Chat(TEXT)
    await ask(chat, request(tool_choice="none"), dialect=Dialect(tool_choice=False))
    assert not {"tools", "tool_choice"} & chat.requests[0].keys()


# -- the name of the limit


@pytest.mark.parametrize(
    ("provider", "field"), [("openai", "max_completion_tokens"), ("ollama", "max_tokens")]
)
async def test_the_limit_has_the_name_that_the_service_knows(provider: str, field: str) -> None:
    chat = Chat(TEXT)
    await ask(chat, request(max_tokens=7), provider=provider)
    assert chat.requests[0][field] == 7


@pytest.mark.parametrize("provider", ["openai", "azure"])
@pytest.mark.parametrize("wanted", LIMITS)
async def test_the_name_that_a_service_takes_is_learned_once(
    tmp_path: Path, provider: str, wanted: LimitName
) -> None:
    async with strictly(ChatCompletions([HI] * 5, limit=wanted)) as api:
        endpoint = {"kind": "openai", "base_url": api.url, "needs_key": False}
        known = Models(
            default=None, key_file=tmp_path / "keys", providers={provider: endpoint}, environment={}
        )
        for key in ("sk-first-key", "sk-second-key"):
            known.set_key(provider, key)  # makes another client
            for _ in range(2):
                reply = await read(known.get(f"{provider}:gpt"), request(max_tokens=7))
                assert reply.text == HI
        assert len(api.refusals) <= 1
        learned = len(api.refusals)
        await read(known.get(f"{provider}:other"), request(max_tokens=7))
        assert len(api.refusals) == 2 * learned, "each model of a provider has its own"
        await known.close()
    assert names_of_limit(api) == [[wanted]] * 5
    assert {body[wanted] for body in api.requests} == {7}


def wrong(message: str, status: int = 400) -> Scripted:
    return Scripted(status=status, error=("invalid_request_error", message))


def refusal(body: Any, status: int = 400) -> Scripted:
    return Scripted(status=status, body=json.dumps(body).encode())


EXTRA = {"type": "extra_forbidden", "loc": ["body", "max_tokens"], "msg": "Extra inputs"}
NEITHER = [wrong(f"Unsupported parameter: {name}") for name in LIMITS]
UNDER_THE_OTHER = [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]
UNDER_NO_NAME = [["max_tokens"], [], []]


@pytest.mark.parametrize(
    ("refusals", "sent"),
    [
        pytest.param(
            [
                wrong(
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                    "'max_completion_tokens' instead."
                )
            ],
            UNDER_THE_OTHER,
            id="openai",
        ),
        pytest.param(
            [refusal({"error": {"message": "Unrecognized request argument supplied: max_tokens"}})],
            UNDER_THE_OTHER,
            id="azure",
        ),
        pytest.param(
            [refusal({"message": "property 'max_tokens' is unsupported", "type": "invalid"})],
            UNDER_THE_OTHER,
            id="groq",
        ),
        pytest.param([refusal({"detail": [EXTRA]}, 422)], UNDER_THE_OTHER, id="mistral"),
        pytest.param(
            NEITHER, [["max_tokens"], ["max_completion_tokens"], [], []], id="neither-name"
        ),
        pytest.param(
            [wrong("max_tokens is too large: 16000. This model supports at most 4096 tokens.")],
            UNDER_NO_NAME,
            id="too-high",
        ),
        pytest.param(
            [
                wrong(
                    "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's "
                    "maximum context length is 8192 tokens and your request has 2000 input tokens"
                )
            ],
            UNDER_NO_NAME,
            id="too-high-under-both-names",
        ),
    ],
)
async def test_how_a_limit_is_taken_is_learned_from_its_refusal(
    refusals: list[Scripted], sent: list[list[str]]
) -> None:
    async with lab(*refusals, HI, HI) as (api, model):
        for _ in range(2):
            assert (await read(model)).text == HI
    assert names_of_limit(api) == sent


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported parameter: 'temperature'."),
        (401, "Unsupported parameter: 'max_tokens'."),
        (500, "Unsupported parameter: 'max_tokens'."),
    ],
)
async def test_what_is_wrong_besides_is_not_asked_again(status: int, message: str) -> None:
    async with lab(wrong(message, status)) as (api, model):
        with pytest.raises(ModelError):
            await read(model)
    assert len(api.requests) == 1


async def test_a_configured_limit_that_is_taken_under_no_name_is_told_with_the_first_words() -> (
    None
):
    async with lab(*NEITHER, *NEITHER, max_tokens=9) as (api, model):
        for _ in range(2):  # it teaches nothing
            with pytest.raises(ModelError, match="Unsupported parameter: max_tokens"):
                await read(model)
    assert len(api.requests) == 4


async def test_what_fails_under_the_other_name_is_told_and_the_name_is_kept() -> None:
    busy = Scripted(status=429, error=("rate_limit_error", "Slow down."))
    async with lab(NEITHER[0], busy, HI) as (api, model):
        with pytest.raises(ModelError) as caught:
            await read(model)
        assert caught.value.kind == "rate_limit"
        await read(model)
    assert names_of_limit(api) == UNDER_THE_OTHER


# -- configured options


async def asked_with(
    options: dict[str, Any], *, provider: str = "lab", **api: Any
) -> tuple[ChatCompletions, dict[str, Any]]:
    """The server and the request that it accepted, with these options configured."""
    async with strictly(ChatCompletions([HI], **api)) as served:
        model = OpenAIModel(
            "gpt", Service(api_key=KEY, base_url=served.url, provider=provider, options=options)
        )
        assert (await read(model)).complete
        await model.close()
    (sent,) = served.requests
    return served, sent


@pytest.mark.parametrize("provider", ["openai", "lab"])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", LIMITS)
async def test_a_configured_limit_is_the_only_one(provider: str, wrapped: bool, name: str) -> None:
    options = {"extra_body": {name: 4000}} if wrapped else {name: 4000}
    api, sent = await asked_with(options, provider=provider)
    assert {each: sent[each] for each in LIMITS if each in sent} == {name: 4000}
    assert api.refusals == []


@pytest.mark.parametrize(("name", "wanted"), [LIMITS, LIMITS[::-1]])
async def test_a_configured_limit_goes_by_the_name_that_the_service_takes(
    name: str, wanted: LimitName
) -> None:
    _, sent = await asked_with({name: 4000}, limit=wanted)
    assert {each: sent[each] for each in LIMITS if each in sent} == {wanted: 4000}


async def test_what_is_configured_is_sent_whether_the_sdk_knows_it_or_not() -> None:
    options = {
        "temperature": 0.2,
        "effort": "low",
        "top_k": 5,
        "extra_body": {"chat_template_kwargs": {"thinking": False}, "top_k": 6},
        "extra_headers": {"X-Team": "atlas"},
        "timeout": 30,
    }
    more = ("effort", "top_k", "chat_template_kwargs")
    _, sent = await asked_with(options, more_fields=more)
    assert (sent["temperature"], sent["effort"], sent["top_k"]) == (0.2, "low", 6)
    assert sent["chat_template_kwargs"] == {"thinking": False}
    assert sent["messages"][0]["role"] == "system"


async def test_what_is_configured_wins_and_none_leaves_ours_out() -> None:
    choice = {"tool_choice": "required", "stream_options": None, "max_tokens": None}
    _, sent = await asked_with(choice)
    assert sent["tool_choice"] == "required"
    assert not {"stream_options", *LIMITS} & sent.keys()
