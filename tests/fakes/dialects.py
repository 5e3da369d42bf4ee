"""Chat completions services that differ from OpenAI: what they refuse, and their output format.

Each is as strict as its documentation and public issues say, with the same error messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.fakes.script import Scripted

Json: TypeAlias = dict[str, Any]
Refusal: TypeAlias = tuple[int, Any]
"""Status and body."""

_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")
_SIGNATURE = {"google": {"thought_signature": "c2lnbmVk"}}
_ANY_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
PORTAL = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Wi-Fi</body></html>"
"""A captive portal's answer to any request."""


def _nothing(body: Json) -> Refusal | None:
    return None


@dataclass(frozen=True, kw_only=True)
class FakeDialect:
    """One service."""

    refuses: Callable[[Json], Refusal | None] = _nothing
    """The answer to a request that only this service refuses."""
    fields: Collection[str] = ()
    """Accepted fields besides OpenAI's."""
    writes: Callable[[Scripted], Iterator[Any]]
    """The chunks of a reply; text is sent verbatim."""


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> Json:
    """One chunk of a stream."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [choice], **more,
    }  # fmt: skip


def _usage(reply: Scripted) -> Json:
    read, written = reply.usage["input_tokens"], reply.usage["output_tokens"]
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _finish(reply: Scripted) -> str:
    return "tool_calls" if any(block["type"] == "tool_use" for block in reply.blocks) else "stop"


def _error(message: str, kind: str = "invalid_request_error", **more: Any) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": None, **more}}


# -- OpenAI


def _reasoning_model(body: Json) -> Refusal | None:
    if "max_tokens" not in body:
        return None
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead."
    )
    return 400, _error(message, param="max_tokens", code="unsupported_parameter")


def written_as_documented(reply: Scripted, reasoning: str = "reasoning_content") -> Iterator[Json]:
    """OpenAI's format: each call in pieces, at its own index."""
    slot = 0
    for block in reply.blocks:
        match block["type"]:
            case "thinking":
                yield chunk({reasoning: block["thinking"]})
            case "text":
                yield chunk({"content": block["text"]})
            case "tool_use":
                text = json.dumps(block["input"])
                first = {"name": block["name"], "arguments": text[:5]}
                call = {"index": slot, "id": block["id"], "type": "function", "function": first}
                yield chunk({"tool_calls": [call]})
                rest = {"index": slot, "function": {"arguments": text[5:]}}
                yield chunk({"tool_calls": [rest]})
                slot += 1
    yield chunk({}, _finish(reply))
    yield {**chunk({}), "choices": [], "usage": _usage(reply)}


def whole(reply: Scripted) -> Json:
    """The answer to a request that does not ask for a stream."""
    texts = [block["text"] for block in reply.blocks if block["type"] == "text"]
    message: Json = {"role": "assistant", "content": "".join(texts) or None}
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in reply.blocks
        if block["type"] == "tool_use"
    ]
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [choice], "usage": _usage(reply),
    }  # fmt: skip


def _azure(reply: Scripted) -> Iterator[Json]:
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    results = [{"prompt_index": 0, "content_filter_results": safe}]
    yield {**chunk({}), "choices": [], "prompt_filter_results": results}
    yield from written_as_documented(reply)


# -- DeepSeek and Kimi


def _calling(body: Json) -> Iterator[tuple[int, Json]]:
    for n, message in enumerate(body["messages"]):
        if message.get("tool_calls"):
            yield n, message


def _deepseek_refuses(body: Json) -> Refusal | None:
    if body.get("thinking", {"type": "enabled"}) not in ({"type": "enabled"}, {"type": "disabled"}):
        return 400, _error("thinking: unknown variant, expected `enabled` or `disabled`")
    # An empty text is not enough: NousResearch/hermes-agent, pull request 17341.
    if all(message.get("reasoning_content") for _, message in _calling(body)):
        return None
    text = "The `reasoning_content` in the thinking mode must be passed back to the API."
    return 400, _error(text, code="invalid_request_error")


def _kimi_refuses(body: Json) -> Refusal | None:
    for n, message in _calling(body):
        if not isinstance(message.get("reasoning_content"), str):
            text = "thinking is enabled but reasoning_content is missing in assistant tool call"
            return 400, _error(f"{text} message at index {n}")
    return None


# -- Mistral

_MISTRAL_FIELDS = {
    "model", "messages", "stream", "tools", "tool_choice", "max_tokens", "temperature", "top_p",
    "stop", "random_seed", "response_format", "parallel_tool_calls", "prompt_mode",
}  # fmt: skip
_MISTRAL_MESSAGE = {"role", "content", "tool_calls", "tool_call_id", "name", "prefix"}


def _mistral_refuses(body: Json) -> Refusal | None:
    def refusal(message: str, kind: str, code: str) -> Refusal:
        return 400, {
            "object": "error", "message": message, "type": kind, "param": None, "code": code,
        }  # fmt: skip

    wrong: list[list[Any]] = [["body", field] for field in body.keys() - _MISTRAL_FIELDS]
    for n, message in enumerate(body["messages"]):
        extra = message.keys() - _MISTRAL_MESSAGE
        wrong += [["body", "messages", n, message["role"], field] for field in extra]
    if wrong:
        said = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
        detail = [{**said, "loc": where} for where in wrong]
        return 422, {"object": "error", "message": {"detail": detail}, "type": "invalid_request"}
    before = ""
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        ids += [message["tool_call_id"]] if message["role"] == "tool" else []
        for call_id in ids:
            if not _SHORT_ID.fullmatch(call_id):
                text = f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
                return refusal(text, "invalid_function_call", "3280")
        if (before, message["role"]) == ("tool", "user"):
            text = "Unexpected role 'user' after role 'tool'"
            return refusal(text, "invalid_request_message_order", "3230")
        if message["role"] == "assistant" and not (
            message.get("content") or message.get("tool_calls")
        ):
            text = "Assistant message must have either content or tool_calls, but not none."
            return refusal(text, "invalid_request_assistant_message", "3240")
        before = message["role"]
    return None


def _mistral(reply: Scripted) -> Iterator[Json]:
    calls: list[Json] = []
    for block in reply.blocks:
        match block["type"]:
            case "thinking":
                thought = [{"type": "text", "text": block["thinking"]}]
                yield chunk({"content": [{"type": "thinking", "thinking": thought}]})
            case "text":
                yield chunk({"content": [{"type": "text", "text": block["text"]}]})
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                short = f"{sum(map(ord, block['id'])):09}"
                calls.append({"id": short, "function": function, "index": len(calls)})
    last: Json = {"content": "", **({"tool_calls": calls} if calls else {})}
    yield chunk(last, _finish(reply), usage=_usage(reply))


# -- Groq


def _cerebras_refuses(body: Json) -> Refusal | None:
    """As templates of many local models do, it takes the content of a message only as a text."""
    for n, message in enumerate(body["messages"]):
        content = message["content"] or []
        if not isinstance(content, str) and all(part["type"] == "text" for part in content):
            if content:
                return 422, _error(f"messages.{n}.content: Input should be a valid string")
    return None


def _groq_refuses(body: Json) -> Refusal | None:
    known = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning"}
    for n, message in enumerate(body["messages"]):
        for field in message.keys() - known:
            where = f"'messages.{n}' : for 'role:{message['role']}' the following must be satisfied"
            text = f"{where}[('messages.{n}' : property '{field}' is unsupported)]"
            return 400, _error(text)
    return None


def _groq(reply: Scripted) -> Iterator[Json]:
    *most, _usage_chunk = written_as_documented(reply, reasoning="reasoning")
    yield from most[:-1]
    yield {**most[-1], "x_groq": {"id": "req_1", "usage": _usage(reply)}}


# -- Ollama


def _ollama(reply: Scripted) -> Iterator[Json]:
    for block in reply.blocks:
        match block["type"]:
            case "thinking":
                thought = f"<think>\n{block['thinking']}\n</think>\n\n"
                for at in range(0, len(thought), 5):
                    yield chunk({"content": thought[at : at + 5]})
            case "text":
                yield chunk({"content": block["text"]})
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                call = {"index": 0, "id": block["id"], "type": "function", "function": function}
                yield chunk({"role": "assistant", "content": "", "tool_calls": [call]})
    yield chunk({"content": ""}, "stop")
    yield {**chunk({}), "choices": [], "usage": _usage(reply)}


# -- Gemini


def _gemini_refuses(body: Json) -> Refusal | None:
    def refusal(message: str) -> Refusal:
        error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
        return 400, [{"error": error}]

    for message in body["messages"]:
        if message["role"] == "tool" and not message.get("name"):
            return refusal("GenerateContentRequest.contents: function_response.name: Name empty.")
    for n, message in _calling(body):
        first = message["tool_calls"][0]
        if first.get("extra_content") not in (_SIGNATURE, _ANY_SIGNATURE):
            call = f"function call `default_api:{first['function']['name']}`, position {n}"
            text = "Function call is missing a thought_signature in functionCall parts."
            return refusal(f"{text} Additional data, {call}.")
    return None


def _gemini(reply: Scripted) -> Iterator[Json]:
    signature: Json = {"extra_content": _SIGNATURE}
    for block in reply.blocks:
        match block["type"]:
            case "text":
                yield chunk({"content": block["text"], "role": "assistant"})
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                call = {"id": block["id"], "type": "function", "function": function, **signature}
                signature = {}
                yield chunk({"role": "assistant", "tool_calls": [call]})
    yield chunk({"role": "assistant"}, None, usage=_usage(reply))  # the reason stays null


# -- OpenRouter


def _openrouter(reply: Scripted) -> Iterator[Any]:
    yield ": OPENROUTER PROCESSING\n\n"
    for written in written_as_documented(reply, reasoning="reasoning"):
        for choice in written["choices"]:
            if thought := choice["delta"].get("reasoning"):
                detail = {"type": "reasoning.text", "text": thought, "index": 0}
                choice["delta"]["reasoning_details"] = [detail]
        yield written


def _whole(reply: Scripted) -> Iterator[Any]:
    """A single JSON, even if a stream was requested."""
    answer = whole(reply)
    answer["choices"][0]["message"].setdefault("tool_calls", [])
    yield json.dumps(answer)


DIALECTS: Mapping[str, FakeDialect] = {
    "openai": FakeDialect(refuses=_reasoning_model, writes=written_as_documented),
    "azure": FakeDialect(refuses=_reasoning_model, writes=_azure),
    "deepseek": FakeDialect(
        refuses=_deepseek_refuses, fields=("thinking",), writes=written_as_documented
    ),
    "kimi": FakeDialect(refuses=_kimi_refuses, fields=("thinking",), writes=written_as_documented),
    "mistral": FakeDialect(refuses=_mistral_refuses, writes=_mistral),
    "cerebras": FakeDialect(refuses=_cerebras_refuses, writes=written_as_documented),
    "groq": FakeDialect(refuses=_groq_refuses, writes=_groq),
    "ollama": FakeDialect(writes=_ollama),
    "gemini": FakeDialect(refuses=_gemini_refuses, writes=_gemini),
    "openrouter": FakeDialect(fields=("reasoning",), writes=_openrouter),
    "not-streaming": FakeDialect(writes=_whole),
    "portal": FakeDialect(writes=lambda _: iter((PORTAL.decode(),))),
}
"""By the service's name."""
