"""Models behind OpenAI's Responses API, some of which are only available there.

Nothing is stored at the service: we send the history, with reasoning as encrypted items. Source: https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jupyter_agent.models.base import (
    VIA,
    Block,
    ModelEvent,
    ModelRequest,
    ServerTool,
    data_url,
    description_with_examples,
    short_id,
)
from jupyter_agent.models.dialect import (
    REFUSED,
    Dialect,
    learn_containers,
    learn_effort,
    learn_tools,
)
from jupyter_agent.models.kinds import Kind
from jupyter_agent.models.lines import DONE, payloads
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.plugs.providers.response_reader import ITEM, ItemReader

_SERVER_TOOLS: Mapping[ServerTool, Mapping[str, Any]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
"""Without `web_fetch`, because the service's search can open pages."""
_AS_A_FIELD = r"""["'`]{0}\b|\b(parameter|argument|field|property|body|supplied)\W+{0}\b"""
"""Forms in which a refusal names a field that is also an ordinary word."""
_LONGEST_ID = 64
_OPTIONAL = ("include", "max_output_tokens", "store", "tool_choice")
"""Fields that can be left out if a service refuses them."""


class ResponsesModel(OpenAIModel):
    """A model at a service with the Responses API."""

    async def _events(self, stream: Any, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reader = ItemReader()
        async for event in payloads(stream.response.aiter_bytes(), self.host):
            if event == DONE:
                break
            self._check(_failure(event))
            for model_event in reader.feed(event):
                yield model_event

    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        body = self._items_body(request, dialect)
        accepted = {k: value for k, value in body.items() if k not in dialect.refused_fields}
        create: Any = client.responses.create  # our JSON matches none of its overloads
        who = self._network.headers_for(request.user)
        return await create(stream=True, **self._options.merge(accepted, headers=who))

    def _learn(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        better = learn_containers(dialect, said, _containers(request))
        if better == dialect:
            better = learn_effort(dialect, said, request.effort)
        if better == dialect:
            better = learn_tools(dialect, said, _served_tools(request, dialect))
        if better != dialect:
            return better
        if not REFUSED.search(said):
            return None
        said = re.sub("encrypted.content", "'include'", said, flags=re.IGNORECASE)
        for name in _OPTIONAL:
            pattern = rf"\b{name}\b" if "_" in name else _AS_A_FIELD.format(name)
            is_named = re.search(pattern, said, re.IGNORECASE)
            if is_named and name not in dialect.refused_fields:
                return replace(dialect, refused_fields=dialect.refused_fields | {name})
        return None

    def _items_body(self, request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
        limit = self._limit[1] if self._limit else request.max_tokens
        body: dict[str, Any] = {
            "model": self._name,
            "instructions": request.system,
            "input": [
                item
                for item in items(request)
                if item.get("container_id") not in dialect.lost_containers
            ],
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **({} if limit is None else {"max_output_tokens": limit}),
        }
        level = request.effort and dialect.level(request.effort)
        if level:
            body["reasoning"] = {"effort": level}
        if request.tools:
            body["tools"] = [_SERVER_TOOLS[tool] for tool in _served_tools(request, dialect)]
            body["tools"] += [
                {
                    "type": "function",
                    "name": tool["name"],
                    "description": description_with_examples(tool),
                    "parameters": tool["input_schema"],
                    "strict": False,
                }
                for tool in request.tools
            ]
            body["tool_choice"] = request.tool_choice
        return body


def _served_tools(request: ModelRequest, dialect: Dialect) -> list[ServerTool]:
    tools = (tool for tool in request.server_tools if tool in _SERVER_TOOLS)
    return [tool for tool in tools if tool not in dialect.no_server_tools]


def _failure(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """`{"error": ...}` if the event reports an error, else empty."""
    if event.get("type") == "error":
        return {"error": event.get("error") or event}
    response = event.get("response") or {}
    if event.get("type") == "response.failed" or response.get("status") == "failed":
        return {"error": response.get("error") or {"message": "It failed without a reason."}}
    return {"error": event["error"]} if event.get("error") else {}


# -- requests


def _containers(request: ModelRequest) -> set[str]:
    """Ids of the containers in which the service ran code, according to the history."""
    return {item["container_id"] for item in items(request) if item.get("container_id")}


def items(request: ModelRequest) -> Iterator[dict[str, Any]]:
    """The history as items, in order."""
    for message in request.messages:
        if message["role"] == "assistant":
            for block in message["content"]:
                yield from _assistant_items(block)
        else:
            yield from _user_items(message["content"])


def _assistant_items(block: Block) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            content = [{"type": "output_text", "text": block["text"]}]
            yield {"type": "message", "role": "assistant", "content": content}
        case "thinking" | "server_tool_use" if block.get(VIA) == ITEM and "signature" in block:
            yield json.loads(block["signature"])
        case "tool_use":
            yield {
                "type": "function_call",
                "call_id": _own_id(block["id"]),
                "name": block["name"],
                "arguments": json.dumps(block["input"]),
            }


def _user_items(content: Sequence[Block]) -> Iterator[dict[str, Any]]:
    parts = []
    for block in content:
        if block["type"] == "tool_result":
            yield {
                "type": "function_call_output",
                "call_id": _own_id(block["tool_use_id"]),
                "output": _output(block),
            }
        elif part := _part(block):
            parts.append(part)
    if parts:
        yield {"type": "message", "role": "user", "content": parts}


def _own_id(call_id: str) -> str:
    """An id for a call that the API accepts; other services have longer ones."""
    return call_id if len(call_id) <= _LONGEST_ID else short_id(call_id)


def _output(result: Block) -> str | list[dict[str, Any]]:
    prefix = "Error: " if result.get("is_error") else ""
    if all(part["type"] == "text" for part in result["content"]):
        return prefix + "\n".join(part["text"] for part in result["content"])
    return [part for part in map(_part, result["content"]) if part]


def _part(block: Block) -> dict[str, Any] | None:
    match block["type"]:
        case "text":
            return {"type": "input_text", "text": block["text"]}
        case "image":
            return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
        case "document":
            return {"type": "input_file", "filename": block["title"], "file_data": data_url(block)}
    return None


# -- replies


RESPONSES = Kind(make=ResponsesModel, sdk="openai")
