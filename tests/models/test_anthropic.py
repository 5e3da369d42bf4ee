"""The real SDK against the strict fake: what is sent, what is read, and every way it can fail."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.registry import Models
from jupyter_agent.testing import FakeAnthropic, Scripted, calls, says, thinks
from jupyter_agent.testing.server import API_KEY

from .conftest import read, read_and_close, recording, request

BLOCKS = [thinks("Hm."), says("Grüße, wörld 🙂."), calls("look", cell_id="ä")]


@asynccontextmanager
async def talking(*replies: Any, key: str = API_KEY, **more: Any) -> AsyncIterator[Any]:
    """The fake with these replies, and a model that asks it."""
    async with FakeAnthropic(replies, **more) as api:
        model = AnthropicModel("claude-test", api_key=key, base_url=api.url)
        try:
            yield api, model
        finally:
            await model.close()


async def ask(*replies: Any, asked: ModelRequest | None = None, **more: Any) -> Reply:
    async with talking(*replies, **more) as (_, model):
        return await read(model, asked)


async def fails(*replies: Any, asked: ModelRequest | None = None, **more: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(*replies, asked=asked, **more)
    assert API_KEY not in str(caught.value)
    return caught.value


async def completes(model: AnthropicModel) -> bool:
    """Whether the reply came whole; if it did not, trying again must be right."""
    try:
        return (await read(model)).complete
    except ModelError as error:
        if not error.retryable:
            raise
        return False


# -- what is sent


async def test_the_request_is_one_that_the_api_takes() -> None:
    thought = thinks("Hm.")
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [says("x = 1")]}
    messages = [
        {"role": "user", "content": [says("Please.")]},
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]
    async with talking([says("Hi.")]) as (api, model):
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
    async with talking([says("Hi.")]) as (api, model):
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


async def test_a_forced_answer_keeps_the_tools() -> None:
    async with talking([says("Hi.")]) as (api, model):
        await read(model, request(tool_choice="none"))
    assert api.requests[0]["tool_choice"] == {"type": "none"}
    assert api.requests[0]["tools"]


async def test_options_of_the_configuration_are_passed_on() -> None:
    async with FakeAnthropic([[says("Hi.")]]) as api:
        options = {"thinking": {"type": "adaptive"}}
        model = AnthropicModel("c", api_key=API_KEY, base_url=api.url, options=options)
        await read(model)
        await model.close()
    assert api.requests[0]["thinking"] == {"type": "adaptive"}


async def test_what_is_configured_is_sent_and_wins_over_ours() -> None:
    async with FakeAnthropic([[says("Hi.")]]) as api:
        options = {
            "max_tokens": 4000,
            "output_config": {"effort": "low"},
            "extra_body": {"metadata": {"user_id": "u1"}},
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        }
        model = AnthropicModel("c", api_key=API_KEY, base_url=api.url, options=options)
        await read(model, request(max_tokens=7))
        await model.close()
    (sent,) = api.requests
    assert (sent["max_tokens"], sent["output_config"]) == (4000, {"effort": "low"})
    assert sent["metadata"] == {"user_id": "u1"}
    assert sent["tool_choice"] == options["tool_choice"]


@pytest.mark.parametrize("name", ["temperature", "effort", "max_completion_tokens", "betas"])
async def test_an_option_that_the_service_does_not_know_is_told_with_its_words(name: str) -> None:
    async with FakeAnthropic([[says("Hi.")]]) as api:
        model = AnthropicModel("c", api_key=API_KEY, base_url=api.url, options={name: 1})
        with pytest.raises(ModelError, match=f"{name}: Extra inputs are not permitted") as caught:
            await read(model)
        await model.close()
    assert caught.value.kind == "invalid_request"


async def test_the_limit_that_this_api_demands_cannot_be_left_out() -> None:
    async with FakeAnthropic([[says("Hi.")]]) as api:
        options = {"max_tokens": None, "tool_choice": None}
        model = AnthropicModel("c", api_key=API_KEY, base_url=api.url, options=options)
        await read(model, request(max_tokens=7))
        await model.close()
    assert api.requests[0]["max_tokens"] == 7
    assert "tool_choice" not in api.requests[0]


def test_the_sdk_is_not_imported_before_it_is_used() -> None:
    code = "import sys, jupyter_agent.models.registry; print('anthropic' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


# -- what is read


async def test_blocks_come_back_as_they_were_sent() -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_read_input_tokens": 11,
        "cache_creation_input_tokens": 13,
    }
    reply = await ask(Scripted(blocks=BLOCKS, usage=usage))
    assert reply.complete
    assert reply.stop_reason == "tool_use"
    assert reply.content == [
        BLOCKS[0],
        BLOCKS[1],
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"cell_id": "ä"}},
    ]
    assert reply.usage.total == 36


async def test_it_does_not_matter_how_the_bytes_are_split() -> None:
    whole = await ask(BLOCKS)
    split = await ask(Scripted(blocks=BLOCKS, piece=1))
    assert split.content == whole.content


async def test_windows_line_ends_make_no_difference() -> None:
    body = recording("anthropic/tool_use_response.txt")
    reply = await ask(Scripted(body=body.replace(b"\n", b"\r\n")))
    assert reply.content == (await ask(Scripted(body=body))).content


RECORDED = {
    "basic_response": ("end_turn", ["text"]),
    "tool_use_response": ("tool_use", ["text", "tool_use"]),
    "tool_use_invalid_json_response": ("tool_use", ["text", "tool_use"]),
    "incomplete_partial_json_response": ("max_tokens", ["text", "tool_use"]),
    "unknown_events_response": ("end_turn", ["text"]),
    "refusal_response": ("refusal", []),
    "server_tool_use_response": (
        "end_turn",
        ["server_tool_use", "web_search_tool_result", "text"],
    ),
}


@pytest.mark.parametrize("name", RECORDED)
async def test_recorded_streams_are_understood(name: str) -> None:
    body = recording(f"anthropic/{name}.txt")
    reply = await ask(Scripted(body=body[body.index(b"event: message_start") :]))
    stop_reason, kinds = RECORDED[name]
    assert reply.complete
    assert reply.stop_reason == stop_reason
    assert [block["type"] for block in reply.content] == kinds
    json.dumps(reply.content)


async def test_an_event_out_of_order_is_a_broken_stream() -> None:
    error = await fails(Scripted(body=recording("anthropic/unknown_events_response.txt")))
    assert (error.kind, error.retryable) == ("broken_stream", True)


async def test_recorded_inputs_are_executable_only_when_they_are_whole() -> None:
    errors = {}
    for name in ("tool_use", "tool_use_invalid_json", "incomplete_partial_json"):
        reply = await ask(Scripted(body=recording(f"anthropic/{name}_response.txt")))
        (call,) = reply.calls
        errors[name] = (call.error or "")[:12]
    assert errors == {
        "tool_use": "",
        "tool_use_invalid_json": "Invalid JSON",
        "incomplete_partial_json": "Invalid JSON",
    }


async def test_what_the_service_searched_is_kept_with_its_citations() -> None:
    reply = await ask(Scripted(body=recording("anthropic/server_tool_use_response.txt")))
    search, found, text = reply.content
    assert search["input"] == {"query": "anthropic claude release notes"}
    assert found["content"][0]["type"] == "web_search_result"
    assert text["citations"][0]["type"] == "web_search_result_location"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("anthropic_redacted_thinking", "redacted_thinking"), ("anthropic_thinking", "thinking")],
)
async def test_recorded_thinking_keeps_what_makes_it_valid(name: str, kinds: str) -> None:
    reply = await ask(Scripted(body=recording(f"pydantic-ai/{name}.txt")))
    thought = reply.content[0]
    assert thought["type"] == kinds
    assert thought.get("signature") or thought["data"]


# -- what goes wrong


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "words"),
    [
        ((529, "overloaded_error", "Busy"), "overloaded", True, "overloaded"),
        ((500, "api_error", "Oops"), "service", True, "failed"),
        ((503, "api_error", "Oops"), "overloaded", True, "overloaded"),
        ((403, "permission_error", "No."), "permission", False, "may not use `claude-test`"),
        ((404, "not_found_error", "model"), "not_found", False, "no model `claude-test`"),
        ((413, "request_too_large", "big"), "context_length", False, "too long"),
        ((400, "invalid_request_error", "prompt is too long: 9 > 8"), "context_length", False, ""),
        ((400, "invalid_request_error", "Your credit balance is low"), "billing", False, "limit"),
        ((400, "invalid_request_error", "bad field"), "invalid_request", False, "bad field"),
        ((429, "rate_limit_error", "spend limit"), "billing", False, "at its limit"),
    ],
)
async def test_each_status_has_its_sentence(
    reply: tuple[int, str, str], kind: str, retryable: bool, words: str
) -> None:
    status, error_type, message = reply
    error = await fails(Scripted(status=status, error=(error_type, message)))
    assert (error.kind, error.retryable) == (kind, retryable)
    assert words in error.message
    assert error.request_id


async def test_a_rate_limit_says_how_long_to_wait() -> None:
    limited = Scripted(status=429, error=("rate_limit_error", "slow"), headers={"retry-after": "7"})
    error = await fails(limited)
    assert (error.kind, error.retryable, error.retry_after) == ("rate_limit", True, 7.0)


async def test_the_sdk_itself_never_retries() -> None:
    async with talking(Scripted(status=529), [says("Hi.")]) as (api, model):
        with pytest.raises(ModelError):
            await read(model)
        assert len(api.requests) == 1


async def test_a_wrong_key_is_a_plain_sentence() -> None:
    error = await fails([says("Hi.")], key="sk-ant-wrong")
    assert error.kind == "authentication"
    assert error.message == "Anthropic does not accept the API key. Set a valid one."


async def test_an_error_names_the_provider_as_it_is_called_here() -> None:
    async with FakeAnthropic([]) as api:
        model = AnthropicModel("m", api_key="wrong", base_url=api.url, provider="gateway")
        error = await read_and_close(model)
    assert isinstance(error, ModelError)
    assert error.message == "gateway does not accept the API key. Set a valid one."


async def test_a_history_that_the_api_refuses_is_told_with_its_words() -> None:
    dangling = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    asked = request(
        {"role": "user", "content": [says("Please.")]},
        {"role": "assistant", "content": [dangling]},
        {"role": "user", "content": [says("Well?")]},
    )
    error = await fails([says("Hi.")], asked=asked)
    assert "`tool_use` ids were found without `tool_result` blocks" in error.message
    assert not error.retryable


async def test_nobody_at_the_address_is_a_network_error() -> None:
    async with FakeAnthropic([]) as api:
        url = api.url
    model = AnthropicModel("c", api_key=API_KEY, base_url=url)
    with pytest.raises(ModelError, match="Check the network") as caught:
        await read(model)
    await model.close()
    assert (caught.value.kind, caught.value.retryable) == ("network", True)


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
    error = await fails(
        Scripted(blocks=BLOCKS, stop_after=3, then="error", error=(error_type, "Oh."))
    )
    assert (error.kind, error.retryable) == (kind, retryable)


EVENTS = len(list(Scripted(blocks=[says("One two."), calls("look", cell_id="a")]).events()))


@pytest.mark.parametrize("then", ["eof", "cut", "reset"])
async def test_a_stream_that_ends_early_is_never_a_complete_reply(then: Any) -> None:
    blocks = [says("One two."), calls("look", cell_id="a")]
    async with talking(
        *(Scripted(blocks=blocks, stop_after=n, then=then) for n in range(EVENTS))
    ) as (_, model):
        for _ in range(EVENTS):
            assert not await completes(model)


async def test_input_cut_at_any_byte_is_never_executed() -> None:
    whole = recording("anthropic/tool_use_response.txt")
    start = whole.index(b"input_json_delta")
    cuts = range(start, len(whole) - len(b'data: {"type":"message_stop"}\n\n'), 7)
    async with talking(*(Scripted(body=whole[:cut]) for cut in cuts)) as (_, model):
        for _ in cuts:
            assert not await completes(model)


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Please log in</body></html>",
        b"event: message_start\ndata: {broken\n\n",
        b"event: message_start\ndata: \xff\xfe\n\n",
        b"event: message_start\ndata: 5\n\n",
        b"event: message_start\ndata: [1]\n\n",
        b'event: message_start\ndata: {"type": "message_start", "message": 3}\n\n',
        b'event: message_start\ndata: {"type": "message_start"}\n\n',
        b"",
    ],
)
async def test_anything_else_that_comes_is_a_fault_of_the_service(body: bytes) -> None:
    async with talking(Scripted(body=body)) as (_, model):
        assert not await completes(model)


@pytest.mark.parametrize("seed", range(3))
async def test_damaged_streams_raise_nothing_but_our_error(seed: int) -> None:
    chance = random.Random(seed)
    whole = recording("anthropic/tool_use_response.txt")
    damaged = []
    for _ in range(30):
        body = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        damaged.append(Scripted(body=bytes(body)))
    async with talking(*damaged) as (_, model):
        for _ in damaged:
            await completes(model)


async def test_closing_the_stream_closes_the_connection() -> None:
    gate = asyncio.Event()
    waits = Scripted(blocks=BLOCKS, stop_after=4, then="wait", gate=gate)
    async with talking(waits) as (api, model):
        stream = model.stream(request())
        async for _ in stream:
            break
        await stream.aclose()
        await asyncio.wait_for(api.left.wait(), 5)
        gate.set()
