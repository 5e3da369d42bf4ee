"""Chat completions as OpenAI and others really write them, read into Anthropic's blocks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.chat import ChunkReader, chat_messages
from jupyter_agent.models.dialect import Dialect
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.models.registry import Models
from jupyter_agent.testing import Scripted, says, thinks
from jupyter_agent.testing.chat import ChatCompletions, LimitName
from jupyter_agent.testing.chat import serving as strictly

from .conftest import Chat, read, recording, request, serving

KEY = "sk-openai-test-0123"
TEXT = recording("openai/text.txt")


async def ask(chat: Chat, asked: ModelRequest | None = None, **more: Any) -> Reply:
    async with serving(chat):
        model = OpenAIModel("gpt-test", api_key=KEY, base_url=chat.url, **more)
        try:
            return await read(model, asked)
        finally:
            await model.close()


def chunks(*deltas: dict[str, Any], finish: str | None = "stop") -> Chat:
    """A server that answers with these deltas."""
    written = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    written.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return Chat(b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in written))


def call(**facts: Any) -> dict[str, Any]:
    function = {key: facts.pop(key) for key in ("name", "arguments") if key in facts}
    return {"tool_calls": [{"type": "function", "function": function, **facts}]}


# -- what is read


async def test_a_recorded_text_is_understood() -> None:
    reply = await ask(Chat(TEXT))
    assert reply.complete
    assert reply.stop_reason == "end_turn"
    assert [block["type"] for block in reply.content] == ["text"]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (79, 14)


async def test_recorded_parallel_calls_are_understood() -> None:
    reply = await ask(Chat(recording("openai/parallel_calls.txt")))
    assert reply.stop_reason == "tool_use"
    assert [(made.name, dict(made.input)) for made in reply.calls] == [
        ("GetWeatherArgs", {"city": "Edinburgh", "country": "GB", "units": "c"}),
        ("get_stock_price", {"ticker": "AAPL", "exchange": "NASDAQ"}),
    ]


async def test_a_recorded_cut_is_one() -> None:
    reply = await ask(Chat(recording("openai/cut_by_length.txt")))
    assert reply.stop_reason == "max_tokens"


async def test_a_recorded_error_within_the_stream_can_be_retried() -> None:
    with pytest.raises(ModelError) as caught:
        await ask(Chat(recording("pydantic-ai/groq_tool_use_failed.txt")))
    assert caught.value.retryable
    assert "did not match schema" in caught.value.message


async def test_reasoning_becomes_thinking_before_the_text() -> None:
    reply = await ask(chunks({"reasoning_content": "Hm"}, {"reasoning": "."}, {"content": "So."}))
    assert [block["type"] for block in reply.content] == ["thinking", "text"]


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [
                call(index=0, id="a", name="look", arguments='{"n"'),
                call(index=0, arguments=": 1}"),
                call(index=1, id="b", name="look", arguments='{"n": 2}'),
            ],
            id="as-documented",
        ),
        pytest.param(
            [
                call(index=0, id="a", name="look", arguments='{"n": 1}'),
                call(index=0, id="b", name="look", arguments='{"n": 2}'),
            ],
            id="all-at-index-0",
        ),
        pytest.param(
            [
                {
                    "tool_calls": [
                        {"id": "a", "function": {"name": "look", "arguments": {"n": 1}}},
                        {"id": "b", "function": {"name": "look", "arguments": {"n": 2}}},
                    ]
                }
            ],
            id="without-index-input-as-object",
        ),
        pytest.param(
            [
                call(index=0, name="look", arguments='{"n": 1}'),
                call(index=1, name="look", arguments='{"n": 2}'),
            ],
            id="without-id",
        ),
    ],
)
async def test_calls_are_read_however_a_server_writes_them(deltas: list[dict[str, Any]]) -> None:
    reply = await ask(chunks(*deltas))
    assert [dict(made.input) for made in reply.calls] == [{"n": 1}, {"n": 2}]
    assert len({made.id for made in reply.calls}) == 2


def test_an_id_that_the_history_has_already_is_replaced() -> None:
    reader = ChunkReader({"call_0"})
    delta = call(index=0, id="call_0", name="look", arguments="{}")
    events = list(reader.feed({"choices": [{"delta": delta}]}))
    assert events[1]["content_block"]["id"] != "call_0"


async def test_a_stream_without_an_end_is_never_complete() -> None:
    assert not (await ask(chunks({"content": "Half"}, finish=None))).complete


@pytest.mark.parametrize("end", range(0, len(TEXT) - 400, 97))
async def test_a_stream_cut_anywhere_is_never_complete(end: int) -> None:
    try:
        complete = (await ask(Chat(TEXT[:end]))).complete
    except ModelError as error:
        complete = not error.retryable
    assert not complete


@pytest.mark.parametrize("body", [b"", b"data: 5\n\n", b"data: {oh\n\n"])
async def test_what_is_no_stream_is_a_fault_of_the_service(body: bytes) -> None:
    try:
        complete = (await ask(Chat(body))).complete
    except ModelError as error:
        complete = error.kind != "broken_stream"
    assert not complete


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, "authentication", "does not accept the API key"),
        (404, "not_found", "no model `gpt-test`"),
        (402, "billing", "at its limit"),
        (429, "rate_limit", "limits the rate"),
        (503, "overloaded", "overloaded"),
    ],
)
async def test_each_status_has_its_sentence(status: int, kind: str, words: str) -> None:
    body = {"error": {"message": f"No, {KEY}.", "type": "x", "code": None}}
    with pytest.raises(ModelError, match=words) as caught:
        await ask(Chat(json.dumps(body).encode(), status=status))
    assert caught.value.kind == kind
    assert KEY not in caught.value.message


async def test_a_context_that_is_too_long_is_known_by_its_code() -> None:
    body = {"error": {"message": "Too much.", "code": "context_length_exceeded"}}
    with pytest.raises(ModelError) as caught:
        await ask(Chat(json.dumps(body).encode(), status=400))
    assert caught.value.kind == "context_length"


# -- what is sent


def test_the_history_is_told_in_the_shapes_of_chat_completions() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }
    asked = request(
        {"role": "user", "content": [says("Please.")]},
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
        {"role": "user", "content": [says("Please.")]},
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


async def test_a_forced_answer_keeps_the_tools_where_the_server_knows_tool_choice() -> None:
    chat = Chat(TEXT)
    await ask(chat, request(tool_choice="none"))
    assert chat.requests[0]["tool_choice"] == "none"
    assert chat.requests[0]["tools"][0]["function"]["name"] == "look"


async def test_a_forced_answer_has_no_tools_where_the_server_does_not() -> None:
    chat = Chat(TEXT)
    await ask(chat, request(tool_choice="none"), dialect=Dialect(tool_choice=False))
    assert not {"tools", "tool_choice"} & chat.requests[0].keys()


# -- the name of the limit


LIMITS: tuple[LimitName, ...] = ("max_tokens", "max_completion_tokens")


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
    async with strictly(ChatCompletions([[says("Hi.")]] * 5, limit=wanted)) as api:
        endpoint = {"kind": "openai", "base_url": api.url, "needs_key": False}
        known = Models(
            default=None, key_file=tmp_path / "keys", providers={provider: endpoint}, environment={}
        )
        for key in ("sk-first-key", "sk-second-key"):
            known.set_key(provider, key)  # makes another client
            for _ in range(2):
                reply = await read(known.get(f"{provider}:gpt"), request(max_tokens=7))
                assert reply.text == [says("Hi.")]
        assert len(api.refusals) <= 1
        learned = len(api.refusals)
        await read(known.get(f"{provider}:other"), request(max_tokens=7))
        assert len(api.refusals) == 2 * learned, "each model of a provider has its own"
        await known.close()
    assert [{name: body[name] for name in LIMITS if name in body} for body in api.requests] == [
        {wanted: 7}
    ] * 5


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            400,
            {
                "error": {
                    "message": "Unsupported parameter: 'max_tokens' is not supported with this "
                    "model. Use 'max_completion_tokens' instead.",
                    "type": "invalid_request_error",
                    "param": "max_tokens",
                    "code": "unsupported_parameter",
                }
            },
        ),
        (400, {"error": {"message": "Unrecognized request argument supplied: max_tokens"}}),
        (400, {"message": "property 'max_tokens' is unsupported", "type": "invalid_request"}),
        (
            422,
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "max_tokens"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        ),
    ],
)
async def test_a_name_is_refused_in_many_words(status: int, body: dict[str, Any]) -> None:
    refused = Scripted(status=status, body=json.dumps(body).encode())
    async with strictly(ChatCompletions([refused, [says("Hi.")]])) as api:
        model = OpenAIModel("gpt", api_key=KEY, base_url=api.url, provider="lab")
        assert (await read(model)).text == [says("Hi.")]
        await model.close()
    assert [name for body in api.requests for name in LIMITS if name in body] == list(LIMITS)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported parameter: 'temperature'."),
        (401, "Unsupported parameter: 'max_tokens'."),
        (500, "Unsupported parameter: 'max_tokens'."),
    ],
)
async def test_what_is_wrong_besides_is_not_asked_again(status: int, message: str) -> None:
    refused = Scripted(status=status, error=("invalid_request_error", message))
    async with strictly(ChatCompletions([refused])) as api:
        model = OpenAIModel("gpt", api_key=KEY, base_url=api.url, provider="lab")
        with pytest.raises(ModelError):
            await read(model)
        await model.close()
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 16000. This model supports at most 4096 tokens.",
        "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context "
        "length is 8192 tokens and your request has 2000 input tokens",
    ],
)
async def test_a_limit_that_is_too_high_for_a_model_is_left_to_the_service(message: str) -> None:
    refused = Scripted(status=400, error=("invalid_request_error", message))
    async with strictly(ChatCompletions([refused, [says("Hi.")], [says("Hi.")]])) as api:
        model = OpenAIModel("gpt", api_key=KEY, base_url=api.url, provider="lab")
        for _ in range(2):
            assert (await read(model)).text == [says("Hi.")]
        await model.close()
    sent = [[name for name in LIMITS if name in body] for body in api.requests]
    assert sent == [["max_tokens"], [], []]


async def test_a_service_that_takes_neither_name_is_sent_no_limit() -> None:
    refused = [
        Scripted(status=400, error=("e", f"Unsupported parameter: {name}")) for name in LIMITS
    ]
    async with strictly(ChatCompletions([*refused, [says("Hi.")], [says("Hi.")]])) as api:
        model = OpenAIModel("gpt", api_key=KEY, base_url=api.url, provider="lab")
        for _ in range(2):
            assert (await read(model)).text == [says("Hi.")]
        await model.close()
    sent = [[name for name in LIMITS if name in body] for body in api.requests]
    assert sent == [["max_tokens"], ["max_completion_tokens"], [], []]


async def test_a_configured_limit_that_is_taken_under_no_name_is_told_with_the_first_words() -> (
    None
):
    refused = [
        Scripted(status=400, error=("e", f"Unsupported parameter: {name}")) for name in LIMITS
    ]
    async with strictly(ChatCompletions([*refused, *refused])) as api:
        model = OpenAIModel(
            "gpt", api_key=KEY, base_url=api.url, provider="lab", options={"max_tokens": 9}
        )
        for _ in range(2):  # nothing is learned of it
            with pytest.raises(ModelError, match="Unsupported parameter: max_tokens"):
                await read(model)
        await model.close()
    assert len(api.requests) == 4


async def test_what_fails_under_the_other_name_is_told_and_the_name_is_kept() -> None:
    first = Scripted(status=400, error=("e", "Unsupported parameter: max_tokens"))
    busy = Scripted(status=429, error=("rate_limit_error", "Slow down."))
    async with strictly(ChatCompletions([first, busy, [says("Hi.")]])) as api:
        model = OpenAIModel("gpt", api_key=KEY, base_url=api.url, provider="lab")
        with pytest.raises(ModelError) as caught:
            await read(model)
        assert caught.value.kind == "rate_limit"
        await read(model)
        await model.close()
    assert [name for body in api.requests for name in LIMITS if name in body] == [
        "max_tokens",
        "max_completion_tokens",
        "max_completion_tokens",
    ]


# -- what is configured


async def asked_with(
    options: dict[str, Any], *, provider: str = "lab", **api: Any
) -> tuple[ChatCompletions, dict[str, Any]]:
    """The server and the request that it took, with these options configured."""
    async with strictly(ChatCompletions([[says("Hi.")]], **api)) as served:
        model = OpenAIModel(
            "gpt", api_key=KEY, base_url=served.url, provider=provider, options=options
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


async def test_an_option_that_the_service_does_not_know_is_told_with_its_words() -> None:
    async with strictly(ChatCompletions([])) as api:
        options = {"effort": "low"}
        model = OpenAIModel("gpt", api_key=KEY, base_url=api.url, options=options)
        with pytest.raises(ModelError, match="argument supplied: effort") as caught:
            await read(model)
        await model.close()
    assert caught.value.kind == "invalid_request"
