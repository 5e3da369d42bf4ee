"""Every recorded stream, read by us and by the SDK's own helper: the same message comes out.

If ours is deliberately stricter (or keeps more), the recording is in a table with the reason, and
the test has both results.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel
from tests.fakes import FakeAnthropic, Scripted
from tests.fakes.server import API_KEY

from .conftest import RECORDINGS, TOOLS, Chat, read_and_close, recording, serving

Anything = dict[str, Any]

OTHER = ("openai/", "pydantic-ai/openai", "pydantic-ai/groq")
STRICTER_THAN_ANTHROPIC = {
    "anthropic/unknown_events_response.txt": (
        "a delta before `message_start` is a broken stream; the SDK lets the text through"
    ),
    "anthropic/tool_use_invalid_json_response.txt": (
        "the call is answered with why its input is no JSON; the SDK ends the stream"
    ),
    "anthropic/incomplete_partial_json_response.txt": (
        "a cut input is never a call; the SDK makes an object of what came"
    ),
}
STRICTER_THAN_OPENAI = {
    "openai/cut_by_length.txt": "the cut text is kept; the SDK raises LengthFinishReasonError",
    "openai/three_choices.txt": "only the first of several answers counts; the SDK keeps all",
    "pydantic-ai/groq_tool_use_failed.txt": "the failed call is a fault that can be retried",
}


def names(of_openai: bool) -> list[str]:
    found = sorted(path.relative_to(RECORDINGS).as_posix() for path in RECORDINGS.rglob("*.txt"))
    return [name for name in found if name.startswith(OTHER) == of_openai]


# -- Anthropic


async def both(name: str) -> tuple[Reply | ModelError, Anything | Exception]:
    """Our result and that of the SDK's helper for the recording."""
    body = recording(name)
    async with FakeAnthropic([Scripted(body=body), Scripted(body=body)]) as api:
        ours = await read_and_close(
            AnthropicModel(
                "claude-test", Service(provider="anthropic", api_key=API_KEY, base_url=api.url)
            )
        )
        client = anthropic.AsyncAnthropic(api_key=API_KEY, base_url=api.url, max_retries=0)
        asked: Anything = {"model": "claude-test", "max_tokens": 16, "tools": TOOLS}
        theirs: Anything | Exception
        try:
            async with client.beta.messages.stream(
                messages=[{"role": "user", "content": "Please."}], **asked
            ) as stream:
                message = await stream.get_final_message()
            theirs = json.loads(message.to_json(exclude_none=True, warnings=False))
        except Exception as error:  # noqa: BLE001  whatever it is, the test compares it
            theirs = error
        finally:
            await client.close()
    return ours, theirs


def facts(reply: Reply) -> Anything:
    return {
        "content": without_nulls(reply.content),
        "stop_reason": reply.stop_reason,
        "tokens": (reply.usage.input_tokens, reply.usage.output_tokens),
    }


def without_nulls(value: Any) -> Any:
    """The SDK leaves fields out that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def facts_of_sdk(message: Anything) -> Anything:
    usage = message["usage"]
    content = message["content"]  # without empty texts, which the API would refuse
    return {
        "content": [block for block in content if block.get("text", "-").strip()],
        "stop_reason": message["stop_reason"],
        "tokens": (usage.get("input_tokens", 0), usage.get("output_tokens", 0)),
    }


@pytest.mark.parametrize("name", [n for n in names(False) if n not in STRICTER_THAN_ANTHROPIC])
async def test_a_recorded_reply_of_claude_is_what_the_sdk_makes_of_it(name: str) -> None:
    ours, theirs = await both(name)
    assert isinstance(ours, Reply), ours
    assert isinstance(theirs, dict), theirs
    assert facts(ours) == facts_of_sdk(theirs)


async def test_text_before_its_start_is_refused_where_the_sdk_takes_it() -> None:
    ours, theirs = await both("anthropic/unknown_events_response.txt")
    assert isinstance(ours, ModelError)
    assert (ours.kind, ours.retryable) == ("broken_stream", True)
    assert isinstance(theirs, dict)


async def test_a_call_with_invalid_json_is_kept_to_be_answered_where_the_sdk_gives_up() -> None:
    ours, theirs = await both("anthropic/tool_use_invalid_json_response.txt")
    assert isinstance(ours, Reply)
    assert [bool(call.error) for call in ours.calls] == [True]
    assert isinstance(theirs, ValueError)


async def test_a_call_that_was_cut_is_none_where_the_sdk_makes_one() -> None:
    ours, theirs = await both("anthropic/incomplete_partial_json_response.txt")
    assert isinstance(ours, Reply)
    assert isinstance(theirs, dict)
    (call,) = ours.calls
    assert call.error
    assert "INVALID_JSON" in call.input
    assert "INVALID_JSON" not in theirs["content"][-1]["input"]
    assert facts(ours)["content"][:-1] == theirs["content"][:-1]


# -- chat completions


async def both_chats(name: str) -> tuple[Reply | ModelError, Anything | Exception]:
    async with serving(Chat(recording(name))) as chat:
        ours = await read_and_close(
            OpenAIModel("gpt-test", Service(provider="openai", api_key="sk-x", base_url=chat.url))
        )
        client = openai.AsyncOpenAI(api_key="sk-x", base_url=chat.url, max_retries=0)
        theirs: Anything | Exception
        try:
            async with client.chat.completions.stream(
                model="gpt-test", messages=[{"role": "user", "content": "Please."}]
            ) as stream:
                completion = await stream.get_final_completion()
            theirs = completion.model_dump(mode="json", warnings=False)
        except Exception as error:  # noqa: BLE001  whatever it is, the test compares it
            theirs = error
        finally:
            await client.close()
    return ours, theirs


def chat_facts(reply: Reply) -> Anything:
    kinds = ("text", "thinking")
    written = {
        kind: "".join(block[kind] for block in reply.content if block["type"] == kind)
        for kind in kinds
    }
    return {**written, "calls": [(call.id, call.name, dict(call.input)) for call in reply.calls]}


def chat_facts_of_sdk(completion: Anything) -> Anything:
    message = completion["choices"][0]["message"]
    calls = message.get("tool_calls") or ()
    return {
        "text": message.get("content") or "",
        "thinking": message.get("reasoning") or message.get("reasoning_content") or "",
        "calls": [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in calls
        ],
    }


@pytest.mark.parametrize("name", [n for n in names(True) if n not in STRICTER_THAN_OPENAI])
async def test_a_recorded_chat_completion_is_what_the_sdk_makes_of_it(name: str) -> None:
    ours, theirs = await both_chats(name)
    assert isinstance(ours, Reply), ours
    assert isinstance(theirs, dict), theirs
    assert chat_facts(ours) == chat_facts_of_sdk(theirs)


async def test_a_refusal_is_one_although_it_ends_as_an_answer_does() -> None:
    ours, theirs = await both_chats("openai/refusal.txt")
    assert isinstance(ours, Reply)
    assert isinstance(theirs, dict)
    assert theirs["choices"][0]["finish_reason"] == "stop"
    assert ours.stop_reason == "refusal"
    assert ours.details["explanation"] == theirs["choices"][0]["message"]["refusal"]


async def test_a_text_that_was_cut_is_kept_where_the_sdk_gives_up() -> None:
    ours, theirs = await both_chats("openai/cut_by_length.txt")
    assert isinstance(ours, Reply)
    assert (ours.complete, ours.stop_reason) == (True, "max_tokens")
    assert isinstance(theirs, openai.LengthFinishReasonError)


async def test_of_several_answers_the_first_counts() -> None:
    ours, theirs = await both_chats("openai/three_choices.txt")
    assert isinstance(ours, Reply)
    assert isinstance(theirs, dict)
    assert len(theirs["choices"]) == 3
    assert chat_facts(ours) == chat_facts_of_sdk(theirs)


async def test_an_error_within_the_stream_is_a_fault_in_both() -> None:
    ours, theirs = await both_chats("pydantic-ai/groq_tool_use_failed.txt")
    assert isinstance(ours, ModelError)
    assert ours.retryable
    assert isinstance(theirs, openai.APIError)


def test_each_recording_is_compared_or_has_its_reason() -> None:
    for table in (STRICTER_THAN_ANTHROPIC, STRICTER_THAN_OPENAI):
        assert {name for name in table if (RECORDINGS / name).is_file()} == set(table)
