"""Models behind OpenAI's Responses API, some of which are to be had nowhere else.

Nothing is stored at the service: the history is ours, and reasoning goes back encrypted, by the id
of its item. Source: https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_agent.models.base import VIA, Block, ModelEvent, ModelRequest, data_url, usage_of
from jupyter_agent.models.dialect import (
    REFUSED,
    Dialect,
    learned_containers,
    learned_effort,
    learned_tools,
)
from jupyter_agent.models.lines import DONE, payloads
from jupyter_agent.models.openai import OpenAIModel

_ITEM = "item"
"""What VIA says of reasoning whose signature is its whole item."""
_SERVER_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
"""Pages are opened by its search."""
_SERVED = {"web_search_call": "web_search", "code_interpreter_call": "code_execution"}
"""Items of what the service does itself, and the names of its tools."""
_OPTIONAL = ("include", "max_output_tokens", "store", "tool_choice")
"""Fields that can be left out where a service refuses them."""


class ResponsesModel(OpenAIModel):
    """A model at a service that speaks the Responses API."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply's events. Raises ModelError."""
        client = await self._connected()
        reader = ItemReader()
        with self._own_errors():
            stream, left_out = await self._open(client, request)
            for notice in left_out:
                yield notice
            async with stream:
                async for event in payloads(stream.response.aiter_bytes(), self.host):
                    if event == DONE:
                        break
                    self._check(_failure(event))
                    for made in reader.feed(event):
                        yield made

    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        body = self._items_body(request, dialect)
        kept = {name: value for name, value in body.items() if name not in dialect.without}
        create: Any = client.responses.create  # our JSON fits no overload of it
        who = self._network.headers_for(request.user)
        return await create(stream=True, **self._options.over(kept, headers=who))

    def _learned(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        better = learned_containers(dialect, said, _containers(request))
        if better == dialect:
            better = learned_effort(dialect, said, request.effort)
        if better == dialect:
            better = learned_tools(dialect, said, request.server_tools)
        if better != dialect:
            return better
        if not REFUSED.search(said):
            return None
        told = said.replace("encrypted content", "include").replace("encrypted_content", "include")
        for name in _OPTIONAL:
            if name in told.lower() and name not in dialect.without:
                return replace(dialect, without=dialect.without | {name})
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
            body["tools"] = [
                _SERVER_TOOLS[tool]
                for tool in request.server_tools
                if tool in _SERVER_TOOLS and tool not in dialect.no_server_tools
            ]
            body["tools"] += [
                {
                    "type": "function",
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["input_schema"],
                    "strict": False,
                }
                for tool in request.tools
            ]
            body["tool_choice"] = request.tool_choice
        return body


def _failure(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event as one of its own with an `error`, where it tells one."""
    if event.get("type") == "error":
        return {"error": event.get("error") or event}
    response = event.get("response") or {}
    if event.get("type") == "response.failed" or response.get("status") == "failed":
        return {"error": response.get("error") or {"message": "It failed without a reason."}}
    return {"error": event["error"]} if event.get("error") else {}


# -- what is asked


def _containers(request: ModelRequest) -> set[str]:
    """Where the service ran the code of the history."""
    return {item["container_id"] for item in items(request) if item.get("container_id")}


def items(request: ModelRequest) -> Iterator[dict[str, Any]]:
    """The history as items, in their order."""
    for message in request.messages:
        if message["role"] == "assistant":
            for block in message["content"]:
                yield from _said(block)
        else:
            yield from _asked(message["content"])


def _said(block: Block) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            content = [{"type": "output_text", "text": block["text"]}]
            yield {"type": "message", "role": "assistant", "content": content}
        case "thinking" | "server_tool_use" if block.get(VIA) == _ITEM and "signature" in block:
            yield json.loads(block["signature"])
        case "tool_use":
            yield {
                "type": "function_call",
                "call_id": block["id"],
                "name": block["name"],
                "arguments": json.dumps(block["input"]),
            }


def _asked(content: Sequence[Block]) -> Iterator[dict[str, Any]]:
    parts = []
    for block in content:
        if block["type"] == "tool_result":
            yield {
                "type": "function_call_output",
                "call_id": block["tool_use_id"],
                "output": _output(block),
            }
        elif part := _part(block):
            parts.append(part)
    if parts:
        yield {"type": "message", "role": "user", "content": parts}


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


# -- what is answered


@dataclass
class _Open:
    """An item that is being written."""

    block: int
    type: str
    written: bool = False
    parts: int = 0
    """Parts of a summary that began."""


class ItemReader:
    """Makes the events of one reply out of those of a response.

    Items are told apart by their place: proxies give them other ids in each event.
    """

    def __init__(self) -> None:
        self._started = False
        self._blocks = 0
        self._open: dict[int, _Open] = {}
        self._types: set[str] = set()
        """Of the items that came so far."""
        self._refusal = ""

    def feed(self, event: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The events of one event of the service."""
        if not self._started:
            self._started = True
            yield {"type": "message_start", "message": {"content": [], "usage": {}}}
        place = event.get("output_index") or 0
        match event.get("type"):
            case "response.output_item.added":
                yield from self._begin(place, event["item"])
            case "response.output_text.delta":
                yield from self._continue(place, "message", "text", event["delta"])
            case "response.refusal.delta":
                self._refusal += event["delta"]
            case "response.reasoning_summary_part.added":
                yield from self._next_part(place)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._continue(place, "reasoning", "thinking", event["delta"])
            case "response.function_call_arguments.delta":
                yield from self._write(place, "input", event["delta"])
            case "response.output_item.done":
                yield from self._end(place, event["item"])
            case "response.completed" | "response.incomplete":
                yield from self._close(event.get("response") or {})
            case None if event.get("object") == "response":  # it does not stream
                yield from self._close(event)

    def _begin(self, place: int, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        block: dict[str, Any]
        match item["type"]:
            case "message":
                block = {"type": "text", "text": ""}
            case "reasoning":
                block = {"type": "thinking", "thinking": "", VIA: _ITEM}
            case "function_call":
                block = {
                    "type": "tool_use",
                    "id": item.get("call_id") or item["id"],
                    "name": item["name"],
                    "input": {},
                }
            case str(kind) if kind in _SERVED:
                served = {"type": "server_tool_use", "id": item["id"], "name": _SERVED[kind]}
                block = {**served, "input": {}, VIA: _ITEM}
            case _:  # what nobody switched on
                return
        yield from self._stop(place)
        self._types.add(item["type"])
        self._open[place] = _Open(self._blocks, item["type"])
        yield {"type": "content_block_start", "index": self._blocks, "content_block": block}
        self._blocks += 1

    def _continue(self, place: int, type: str, kind: str, piece: str) -> Iterator[ModelEvent]:
        """A piece of an item, whose beginning some servers leave out."""
        if not self._is_open(place, type):
            yield from self._begin(place, {"type": type})
        yield from self._write(place, kind, piece)

    def _is_open(self, place: int, type: str) -> bool:
        return place in self._open and self._open[place].type == type

    def _stop(self, place: int) -> Iterator[ModelEvent]:
        if item := self._open.pop(place, None):
            yield {"type": "content_block_stop", "index": item.block}

    def _write(self, place: int, kind: str, piece: str) -> Iterator[ModelEvent]:
        item = self._open.get(place)
        if item is None or not piece:
            return
        item.written = True
        delta = {"type": f"{kind}_delta", kind: piece}
        if kind == "input":
            delta = {"type": "input_json_delta", "partial_json": piece}
        yield {"type": "content_block_delta", "index": item.block, "delta": delta}

    def _next_part(self, place: int) -> Iterator[ModelEvent]:
        item = self._open.get(place)
        if item is not None:
            item.parts += 1
            if item.parts > 1:
                yield from self._write(place, "thinking", "\n\n")

    def _end(self, place: int, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        if not self._is_open(place, item["type"]):
            yield from self._begin(place, item)
        if not self._is_open(place, item["type"]):
            return
        if item["type"] in _SERVED:
            yield from self._end_served(place, item)
            return
        if not self._open[place].written:
            yield from self._write(place, *_whole(item))
        self._refusal = self._refusal or _refusal(item)
        if item["type"] == "reasoning":
            kept = ("type", "id", "summary", "content", "encrypted_content")
            signed = {name: item[name] for name in kept if item.get(name) is not None}
            yield self._sign(place, signed)
        yield from self._stop(place)

    def _sign(self, place: int, item: Mapping[str, Any]) -> ModelEvent:
        """The item itself, for the requests after this one."""
        delta = {"type": "signature_delta", "signature": json.dumps(item, ensure_ascii=False)}
        return {"type": "content_block_delta", "index": self._open[place].block, "delta": delta}

    def _end_served(self, place: int, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The end of a call by the service itself, then its result as a block of its own."""
        yield from self._write(place, "input", json.dumps(_served_input(item)))
        yield self._sign(place, item)
        yield from self._stop(place)
        name = _SERVED[item["type"]]
        outputs = item.get("outputs") or (item.get("action") or {}).get("sources") or []
        block = {
            "type": f"{name}_tool_result",
            "tool_use_id": item["id"],
            "content": outputs,
            VIA: _ITEM,
        }
        if item.get("status") == "failed":
            error = {"type": f"{name}_tool_result_error", "error_code": "failed"}
            block["content"] = error
        yield {"type": "content_block_start", "index": self._blocks, "content_block": block}
        yield {"type": "content_block_stop", "index": self._blocks}
        self._blocks += 1

    def _close(self, response: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The end. Of all that it lists, what is open ends so, and types of which nothing came are
        taken: places and ids may differ from those in the events before, so what came of a type is
        all of it."""
        came = frozenset(self._types)
        for place, item in enumerate(response.get("output") or ()):
            if self._is_open(place, item["type"]) or item["type"] not in came:
                yield from self._end(place, item)
            self._refusal = self._refusal or _refusal(item)
        for place in list(self._open):
            yield from self._stop(place)
        calls = "function_call" in self._types
        ending: dict[str, Any] = {"stop_reason": "tool_use" if calls else "end_turn"}
        why = (response.get("incomplete_details") or {}).get("reason")
        if self._refusal or why == "content_filter":
            ending = {"stop_reason": "refusal", "stop_details": {"explanation": self._refusal}}
        elif why:
            ending = {"stop_reason": "max_tokens"}
        used = response.get("usage") or {}
        cached = (used.get("input_tokens_details") or {}).get("cached_tokens")
        usage = usage_of(used.get("input_tokens"), cached, used.get("output_tokens"))
        yield {"type": "message_delta", "delta": ending, "usage": usage}
        yield {"type": "message_stop"}


def _refusal(item: Mapping[str, Any]) -> str:
    """The words with which a model refuses, as a part of its message."""
    parts = item.get("content") if item["type"] == "message" else None
    return "".join(part.get("refusal") or "" for part in parts or ())


def _whole(item: Mapping[str, Any]) -> tuple[str, str]:
    """What an item has that came in one piece: what it is written as, and its text."""
    match item["type"]:
        case "message":
            return "text", "".join(part.get("text") or "" for part in item.get("content") or ())
        case "reasoning":
            summary = [part["text"] for part in item.get("summary") or ()]
            content = [part.get("text") or "" for part in item.get("content") or ()]
            return "thinking", "\n\n".join(summary) or "".join(content)
    return "input", item.get("arguments") or ""


def _served_input(item: Mapping[str, Any]) -> dict[str, Any]:
    """What the service's own tool was asked for, in the words of Anthropic's."""
    action = item.get("action") or {}
    queries = action.get("queries") or []
    found = {
        "query": action.get("query") or ", ".join(queries),
        "url": action.get("url"),
        "code": item.get("code"),
    }
    return {name: value for name, value in found.items() if value}
