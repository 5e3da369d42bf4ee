"""What the Messages API refuses, with the same error messages.

Based on its documented rules and error messages in public issues; stricter than the API in two
points: a request whose history has tool blocks needs `tools`, and thinking must be unchanged.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema

from jupyter_agent.models.base import VIA
from jupyter_agent.models.chat import EXTRA
from tests.fakes.script import signature

_FIELDS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking",
    "metadata", "stop_sequences", "service_tier", "output_config", "cache_control", "container",
    "diagnostics",
}  # fmt: skip
_SERVER_TOOLS = {
    "web_search_20250305": (
        "web_search", {"max_uses", "allowed_domains", "blocked_domains", "user_location"},
    ),
    "web_fetch_20250910": (
        "web_fetch",
        {"max_uses", "allowed_domains", "blocked_domains", "citations", "max_content_tokens"},
    ),
    "code_execution_20250825": ("code_execution", set()),
}  # fmt: skip
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MESSAGE_FIELDS = {"role", "content"}
_TOOL_FIELDS = {
    "name", "description", "input_schema", "input_examples", "strict", "type", "cache_control",
}  # fmt: skip
_MOST_STRICT = 20
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile("^[a-zA-Z0-9_-]+$")
_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_MAX_CACHE_MARKS = 4


class Refused(Exception):
    """The request is invalid; the message is the API's."""


def check_request(body: Any, *, max_chars: int | None = None) -> None:
    """Raises Refused for a body that `POST /v1/messages` would refuse."""
    if not isinstance(body, Mapping):
        raise Refused("The request body is not valid JSON: expected an object.")
    for field in ("model", "max_tokens", "messages"):
        if field not in body:
            raise Refused(f"{field}: Field required")
    for field in body:
        if field not in _FIELDS:
            raise Refused(f"{field}: Extra inputs are not permitted")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    _check_thinking(body)
    _check_tools(body)
    check_messages(body["messages"])
    for n, message in enumerate(body["messages"]):
        for key in (VIA, EXTRA):
            if any(key in block for block in _blocks(message)):
                raise Refused(f"messages.{n}.content.{key}: Extra inputs are not permitted")
        for m, block in enumerate(_blocks(message)):
            if block["type"] == "tool_use" and not _ID.fullmatch(block["id"]):
                where = f"messages.{n}.content.{m}.tool_use.id"
                raise Refused(f"{where}: String should match pattern '{_ID.pattern}'")
    _check_service_blocks(body)
    _check_cache_marks(body)
    _check_length(body, max_chars)


def _check_thinking(body: Mapping[str, Any]) -> None:
    config = body.get("output_config", {})
    for field in config:
        if field not in ("effort", "format"):
            raise Refused(f"output_config.{field}: Extra inputs are not permitted")
    if config.get("effort") not in (None, *_EFFORTS):
        listed = f"{', '.join(map(repr, _EFFORTS[:-1]))} or {_EFFORTS[-1]!r}"
        raise Refused(f"output_config.effort: Input should be {listed}")
    thinking = body.get("thinking")
    if thinking is None:
        return
    fields = {
        "adaptive": {"display"}, "enabled": {"display", "budget_tokens"},
        "disabled": set(), "between_tools": set(),
    }  # fmt: skip
    kind = thinking.get("type")
    if kind not in fields:
        raise Refused(f"thinking: Input tag '{kind}' does not match any of the expected tags")
    for field in thinking.keys() - {"type"} - fields[kind]:
        raise Refused(f"thinking.{kind}.{field}: Extra inputs are not permitted")
    if kind != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int):
        raise Refused("thinking.enabled.budget_tokens: Field required")
    if budget < 1024:
        text = "Input should be greater than or equal to 1024"
        raise Refused(f"thinking.enabled.budget_tokens: {text}")
    if budget >= body["max_tokens"]:
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`")
    _check_thoughts_of_turn(body["messages"])


def _check_thoughts_of_turn(messages: Sequence[Mapping[str, Any]]) -> None:
    for n, message in reversed(list(enumerate(messages))):
        kinds = [block["type"] for block in _blocks(message)]
        if message["role"] == "user" and "tool_result" not in kinds:
            return
        if message["role"] == "assistant" and not kinds[0].endswith("thinking"):
            raise Refused(
                f"messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block."
            )


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises Refused for a history that the API would refuse."""
    if not messages:
        raise Refused("messages: at least one message is required")
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        for field in message:
            if field not in _MESSAGE_FIELDS:
                raise Refused(f"messages.{n}.{field}: Extra inputs are not permitted")
        blocks = _blocks(message)
        if not blocks:
            raise Refused(
                f"messages.{n}: all messages must have non-empty content except for the optional "
                "final assistant message"
            )
        _check_results(n, message["role"], blocks, open_calls)
        for m, block in enumerate(blocks):
            _check_block(f"messages.{n}.content.{m}", block)
        open_calls = _calls(n, message["role"], blocks)
    if open_calls:
        raise Refused(_without_results(len(messages) - 1, open_calls))
    last = messages[-1]
    if last["role"] == "assistant" and _blocks(last)[-1]["type"] == "text":
        raise Refused(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )


def _check_results(n: int, role: str, blocks: Sequence[Any], open_calls: Sequence[str]) -> None:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for m, block in enumerate(blocks):
        if block["type"] == "tool_result" and block["tool_use_id"] not in open_calls:
            raise Refused(
                f"messages.{n}.content.{m}: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {block['tool_use_id']}. Each `tool_result` block must have a "
                "corresponding `tool_use` block in the previous message."
            )
    for call_id in results:
        if results.count(call_id) > 1:
            raise Refused(
                f"messages.{n}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {call_id}"
            )
    in_front = {block.get("tool_use_id") for block in blocks[: len(open_calls)]}
    missing = [call_id for call_id in open_calls if call_id not in in_front]
    if missing:
        raise Refused(_without_results(n - 1, missing))


def _without_results(n: int, call_ids: Sequence[str]) -> str:
    return (
        f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(call_ids)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )


def _calls(n: int, role: str, blocks: Sequence[Any]) -> list[str]:
    call_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if call_ids and role != "assistant":
        raise Refused(f"messages.{n}: `tool_use` blocks can only be in `assistant` messages")
    if len(set(call_ids)) < len(call_ids):
        raise Refused(f"messages.{n}: `tool_use` ids must be unique")
    return call_ids


def _check_block(where: str, block: Mapping[str, Any]) -> None:
    match block["type"]:
        case "text":
            if not block["text"]:
                raise Refused("messages: text content blocks must be non-empty")
            if not block["text"].strip():
                raise Refused("messages: text content blocks must contain non-whitespace text")
        case "thinking" if VIA in block:
            pass  # never sent; see `check_request`
        case "thinking":
            if "cache_control" in block:
                raise Refused(f"{where}.thinking.cache_control: Extra inputs are not permitted")
            if "signature" not in block:
                raise Refused(f"{where}.thinking.signature: Field required")
            if block["signature"] != signature(block["thinking"]):
                raise Refused(f"{where}: Invalid `signature` in `thinking` block")
        case "tool_use":
            if not _TOOL_NAME.fullmatch(block["name"]):
                named = f"^{_TOOL_NAME.pattern}$"
                raise Refused(f"{where}.tool_use.name: String should match pattern '{named}'")
            if not isinstance(block["input"], Mapping):
                raise Refused(f"{where}.tool_use.input: Input should be a valid dictionary")
        case "tool_result":
            content = block.get("content", ())
            for m, part in enumerate(() if isinstance(content, str) else content):
                _check_block(f"{where}.tool_result.content.{m}", part)
        case "document":
            _check_document(where, block)
        case "image":
            if block["source"].get("media_type") not in _IMAGE_TYPES:
                raise Refused(f"{where}.image.source.base64.media_type: Input should be an image")


def _check_document(where: str, block: Mapping[str, Any]) -> None:
    for field in block.keys() - {
        "type",
        "source",
        "title",
        "context",
        "citations",
        "cache_control",
    }:
        raise Refused(f"{where}.document.{field}: Extra inputs are not permitted")
    source = block["source"]
    if source.get("type") == "base64" and source.get("media_type") != "application/pdf":
        raise Refused(f"{where}.document.source.base64.media_type: Input should be application/pdf")
    if not base64.b64decode(source["data"]).startswith(b"%PDF-"):
        raise Refused(f"{where}.document.source.base64.data: The PDF specified was not valid.")


def _check_tools(body: Mapping[str, Any]) -> None:
    tools = body.get("tools") or []
    names = [tool.get("name", "") for tool in tools]
    for n, tool in enumerate(tools):
        if "type" in tool and tool["type"] != "custom":
            _check_server_tool(f"tools.{n}", tool)
            continue
        if not _TOOL_NAME.fullmatch(names[n]):
            raise Refused(f"tools.{n}.custom.name: String should match pattern")
        if tool.get("input_schema", {}).get("type") != "object":
            raise Refused(f"tools.{n}.custom.input_schema.type: Field required")
        for field in tool.keys() - _TOOL_FIELDS:
            raise Refused(f"tools.{n}.custom.{field}: Extra inputs are not permitted")
        if tool.get("strict"):
            _check_strict(f"tools.{n}.custom.input_schema", tool["input_schema"])
        for example in tool.get("input_examples", ()):
            if not jsonschema.Draft202012Validator(tool["input_schema"]).is_valid(example):
                raise Refused(f"tools.{n}.custom.input_examples: does not match the input_schema")
    if sum(bool(tool.get("strict")) for tool in tools) > _MOST_STRICT:
        raise Refused("The compiled grammar is too large: too many strict tools")
    if len(set(names)) < len(names):
        raise Refused("tools: Tool names must be unique.")
    if "tool_choice" in body and not tools:
        raise Refused("tool_choice may only be specified while providing tools")
    used = (block for message in body["messages"] for block in _blocks(message))
    if not tools and any(block["type"] in ("tool_use", "tool_result") for block in used):
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _check_strict(where: str, schema: Mapping[str, Any]) -> None:
    for limit in schema.keys() & {"maxItems", "maxLength", "minLength", "minimum", "maximum"}:
        raise Refused(f"{where}: For '{schema['type']}' type, property '{limit}' is not supported")
    if schema["type"] == "object" and schema.get("additionalProperties") is not False:
        raise Refused(f"{where}: 'additionalProperties' must be explicitly set to false")
    parts = {**schema.get("properties", {}), "items": schema.get("items")}
    for name, part in parts.items():
        if part is not None:
            _check_strict(f"{where}.{name}", part)


def _check_server_tool(where: str, tool: Mapping[str, Any]) -> None:
    name, fields = _SERVER_TOOLS.get(tool["type"], ("", set()))
    if not name:
        raise Refused(
            f"{where}: Input tag '{tool['type']}' found using 'type' does not match any of the "
            "expected tags"
        )
    if tool.get("name") != name:
        raise Refused(f"{where}.{tool['type']}.name: Input should be '{name}'")
    for field in tool.keys() - {"type", "name", "cache_control"} - fields:
        raise Refused(f"{where}.{tool['type']}.{field}: Extra inputs are not permitted")


def _check_service_blocks(body: Mapping[str, Any]) -> None:
    """Calls of the service's own tools need results, except the last ones, still running."""
    messages, container = body["messages"], body.get("container")
    declared = {tool["name"] for tool in body.get("tools", ()) if "input_schema" not in tool}
    results = {
        block["tool_use_id"]: block["type"]
        for message in messages
        for block in _blocks(message)
        if block["type"].endswith("_tool_result")
    }
    questions = [
        n
        for n, message in enumerate(messages)
        if message["role"] == "user" and any(b["type"] == "text" for b in _blocks(message))
    ]
    for n, message in enumerate(messages):
        for block in _blocks(message):
            if VIA in block or block["type"] != "server_tool_use":
                continue
            name = block["name"]
            tool = "code_execution" if name.endswith("code_execution") else name
            if tool not in declared:
                raise Refused(f"messages.{n}: `{name}` is not one of the tools of this request")
            if tool == "code_execution" and block["id"] not in results and not container:
                raise Refused(
                    "container_id is required when there are pending tool uses generated by code "
                    "execution with tools."
                )
            if block["id"] not in results and n < max(questions, default=-1):
                raise Refused(
                    f"messages.{n}: `{name}` tool use with id {block['id']} was found without a "
                    f"corresponding `{name}_tool_result` block"
                )


def _check_cache_marks(body: Mapping[str, Any]) -> None:
    marks = sum(1 for _ in _cache_marks(body))
    if marks > _MAX_CACHE_MARKS:
        raise Refused(
            f"A maximum of {_MAX_CACHE_MARKS} blocks with cache_control may be provided. "
            f"Found {marks}."
        )
    lifetimes = [each["cache_control"].get("ttl", "5m") for each in _in_order(body)]
    for ttl in lifetimes:
        if ttl not in ("5m", "1h"):
            raise Refused("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    if lifetimes != sorted(lifetimes):
        raise Refused(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def _in_order(body: Mapping[str, Any]) -> Iterator[Any]:
    """The marked blocks in the service's order of processing."""
    for part in ("tools", "system", "messages"):
        yield from _cache_marks(body.get(part))


def _cache_marks(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if "cache_control" in value:
            yield value
        for item in value.values():
            yield from _cache_marks(item)
    elif isinstance(value, list):
        for item in value:
            yield from _cache_marks(item)


def _check_length(body: Mapping[str, Any], max_chars: int | None) -> None:
    length = len(str(body["messages"]))
    if max_chars is not None and length > max_chars:
        raise Refused(f"prompt is too long: {length // 4} tokens > {max_chars // 4} maximum")


def _blocks(message: Mapping[str, Any]) -> Sequence[Any]:
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)
