"""Fields of a model's events and blocks, checked; inputs of calls; results of a service's tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from jupyter_agent import foreign
from jupyter_agent.errors import ModelError
from jupyter_agent.events import (
    CallFailed,
    CallOutput,
    Event,
)
from jupyter_agent.legible import clip
from jupyter_agent.models.base import (
    Block,
    ModelEvent,
    is_of_service,
)

INVALID_INPUT = "INVALID_JSON"
"""Key under which the history keeps the raw text of an input that is not a JSON object."""
_MOST_SHOWN = 12_000
"""Characters of a service's result in the stream."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "tool_use": ("id", "name"),
    "server_tool_use": ("id", "name"),
    "mcp_tool_use": ("id", "name"),
    "mcp_tool_result": ("tool_use_id",),
    "redacted_thinking": ("data",),
}
"""Text fields without which no later request can contain the block."""


def result_of_service(block: Block) -> Event:
    """The event for the result of a tool that the service ran."""
    content = block.get("content")
    call_id = block["tool_use_id"]
    if isinstance(content, Mapping) and "error_code" in content:
        error = f"The model's service could not do that ({content['error_code']})."
        return CallFailed(call_id=call_id, error=error, provider_executed=True)
    text = "\n".join(_readable_texts(content))
    output = {"text": clip(text, _MOST_SHOWN)}
    return CallOutput(call_id=call_id, output=output, provider_executed=True)


def _readable_texts(content: Any) -> Iterator[str]:
    """The readable texts of a result: titles, addresses, the output of code."""
    if isinstance(content, list):
        for each in content:
            yield from _readable_texts(each)
    elif isinstance(content, Mapping):
        for name in ("title", "url", "stdout", "stderr", "logs"):
            if isinstance(content.get(name), str) and content[name]:
                yield content[name]
        yield from _readable_texts(content.get("content"))


def index_of(event: ModelEvent) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        broken("an event has no index")
    return index


def mapping_of(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = event.get(key)
    if not isinstance(value, Mapping):
        broken(f"an event has no `{key}`")
    return value


def optional_text(described: Mapping[str, Any], key: str) -> str:
    """A text field that may be missing or null."""
    value = described.get(key)
    if value is not None and not isinstance(value, str):
        broken(f"its `{key}` is not text")
    return value or ""


def new_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A new block with the fields that its kind must have. Raises ModelError."""
    kind = text_of(block, "type")
    needed = _NEEDED.get(kind, ("tool_use_id",) if is_of_service(block) else ())
    made = {**block, "type": kind, **{key: text_of(block, key) for key in needed}}
    if kind in ("text", "thinking"):
        made[kind] = optional_text(block, kind)
    for key, type in (("citations", list), ("signature", str)):
        if not isinstance(made.get(key, type()), type):
            del made[key]
    if kind == "server_tool_use" and not isinstance(block.get("input"), Mapping):
        made["input"] = {}
    return made


def text_of(delta: Mapping[str, Any], key: str) -> str:
    value = delta.get(key)
    if not isinstance(value, str):
        broken(f"an event has no `{key}`")
    return value


def broken(what: str) -> NoReturn:
    raise ModelError(
        f"The model's reply could not be read: {what}.", kind="broken_stream", retryable=True
    )


def too_large(what: str) -> NoReturn:
    raise ModelError(
        f"The model's reply was given up: {what}. Ask for less at a time.", kind="too_large"
    )


def parse_input(text: str) -> tuple[dict[str, Any], str | None]:
    """The input of a call from its JSON text, and the reason if it is unusable. Never raises."""
    try:
        value = foreign.parse(text or "{}")
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be stored
    except ValueError as error:
        return {INVALID_INPUT: text}, f"Invalid JSON in tool input: {error}"
    if not isinstance(value, dict):
        return {INVALID_INPUT: text}, "Invalid JSON in tool input: it is not an object."
    return value, None
