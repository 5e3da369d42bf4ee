"""Models behind OpenAI's Responses API, some of which are only available there.

Nothing is stored at the service: we send the history, with reasoning as encrypted items. Source: https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    usage_of,
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

_ITEM = "item"
"""Value of VIA for reasoning whose signature is its whole item."""
_SERVER_TOOLS: Mapping[ServerTool, Mapping[str, Any]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
"""Without `web_fetch`, because the service's search can open pages."""
_SERVED = {"web_search_call": "web_search", "code_interpreter_call": "code_execution"}
"""Types of items for the service's own calls, and the names of their tools."""
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
        case "thinking" | "server_tool_use" if block.get(VIA) == _ITEM and "signature" in block:
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


@dataclass
class _Open:
    """An item that is being received."""

    place: int | None
    type: str
    block: int
    call_id: str = ""
    has_start: bool = True
    """Whether its start event came, not only a piece."""
    pieces: list[str] = field(default_factory=list)
    """Its pieces so far."""
    gap: str = ""
    """Separator before the next piece, if that belongs to another part of a summary."""


class ItemReader:
    """Turns the events of a response into those of one reply.

    Items are distinguished by type and place, because proxies change their ids in each event. Some
    servers leave out or repeat events: starts of items, places of pieces, pieces, ends of items.
    Nothing is lost or doubled then.
    """

    def __init__(self) -> None:
        self._started = False
        self._blocks = 0
        self._open: list[_Open] = []
        self._types: Counter[str] = Counter()
        """Number of items of each type so far."""
        self._finished: dict[tuple[int | None, str], set[str]] = defaultdict(set)
        """Fingerprints of finished items, by place and type."""
        self._refusal = ""

    def feed(self, event: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The events of one event of the service."""
        if not self._started:
            self._started = True
            yield {"type": "message_start", "message": {"content": [], "usage": {}}}
        place = event.get("output_index")
        match event.get("type"):
            case "response.output_item.added":
                yield from self._begin(place, event["item"])
            case "response.output_text.delta":
                yield from self._continue(place, "message", "text", event["delta"])
            case "response.refusal.delta":
                self._refusal += event["delta"]
            case "response.reasoning_summary_part.added":
                self._next_part(place)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._continue(place, "reasoning", "thinking", event["delta"])
            case "response.function_call_arguments.delta":
                if call := self._find(place, "function_call"):
                    yield _delta(call, "input", event["delta"])
            case "response.output_item.done":
                yield from self._end(place, event["item"])
            case "response.completed" | "response.incomplete":
                yield from self._close(event.get("response") or {})
            case None if event.get("object") == "response":  # a service that does not stream
                yield from self._close(event)

    def _find(self, place: int | None, type: str, call_id: str = "") -> _Open | None:
        """The open item of that type with that id, else at that place, else the last one. (vLLM
        changes the id of a call at its end.)"""
        same = [item for item in reversed(self._open) if item.type == type]
        here = [item for item in same if item.place == place]
        if type != "function_call":
            return next(iter([*here, *same]), None)
        if call_id:
            with_id = [item for item in same if item.call_id == call_id]
            candidates = same if place is None else here
            return next(iter(with_id or (candidates if len(candidates) == 1 else [])), None)
        return next(iter(here if len(same) > 1 and place is not None else same), None)

    def _is_open(self, place: int | None, type: str, call_id: str) -> bool:
        """Whether an item with the same start is open."""
        return any(
            item.has_start
            and item.type == type
            and (item.place == place if place is not None else bool(call_id))
            and item.call_id == call_id
            for item in self._open
        )

    def _begin(
        self, place: int | None, item: Mapping[str, Any], *, has_start: bool = True
    ) -> Iterator[ModelEvent]:
        type = item["type"]
        if has_start and self._is_open(place, type, _call_id(item)):  # a repeated start
            return
        early = self._find(place, type) if has_start and type != "function_call" else None
        if early is not None and not early.has_start:  # its first piece came before its start
            early.place, early.has_start = place, True
            return
        block: dict[str, Any]
        match type:
            case "message":
                block = {"type": "text", "text": ""}
            case "reasoning":
                block = {"type": "thinking", "thinking": "", VIA: _ITEM}
            case "function_call":
                id = item.get("call_id") or item["id"]
                block = {"type": "tool_use", "id": id, "name": item["name"], "input": {}}
            case str(kind) if kind in _SERVED:
                call = {"type": "server_tool_use", "id": item["id"], "name": _SERVED[kind]}
                block = {**call, "input": {}, VIA: _ITEM}
            case _:  # a feature that we do not use
                return
        self._types[type] += 1
        self._open.append(_Open(place, type, self._blocks, _call_id(item), has_start))
        yield {"type": "content_block_start", "index": self._blocks, "content_block": block}
        self._blocks += 1

    def _continue(
        self, place: int | None, type: str, kind: str, piece: str
    ) -> Iterator[ModelEvent]:
        item = self._find(place, type)
        if item is None and (place, type) in self._finished:  # the end already had its text
            return
        if item is None or (not item.has_start and item.place != place):
            yield from self._begin(place, {"type": type}, has_start=False)
            item = self._open[-1]
        yield _delta(item, kind, piece)

    def _next_part(self, place: int | None) -> None:
        item = self._find(place, "reasoning")
        if item is not None and item.pieces:
            item.gap = "\n\n"

    def _end(self, place: int | None, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        type, fingerprint = item["type"], _fingerprint(item)
        again = fingerprint in self._finished.get((place, type), ())
        open_item = self._find(place, type, _call_id(item))
        if again and (open_item is None or open_item.place != place):
            return
        if open_item is None:
            yield from self._begin(place, item)
            open_item = self._find(place, type, _call_id(item))
        if open_item is None:
            return
        self._finished[place, type].add(fingerprint)
        if type in _SERVED:
            yield from self._end_served(open_item, item)
            return
        kind, whole = _full_text(item)
        text = "".join(open_item.pieces)
        if whole.startswith(text) and whole != text and not again:
            open_item.gap = ""
            yield _delta(open_item, kind, whole[len(text) :])
        self._refusal = self._refusal or _refusal(item)
        if type == "reasoning":
            keys = ("type", "id", "summary", "content", "encrypted_content")
            signature = {key: item[key] for key in keys if item.get(key) is not None}
            yield _signature(open_item, signature)
        yield from self._stop(open_item)

    def _stop(self, item: _Open) -> Iterator[ModelEvent]:
        self._open.remove(item)
        yield {"type": "content_block_stop", "index": item.block}

    def _end_served(self, open_item: _Open, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The end of one of the service's own calls, then its result as a separate block."""
        yield _delta(open_item, "input", json.dumps(_served_input(item)))
        yield _signature(open_item, item)
        yield from self._stop(open_item)
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
        """The end of the response, which lists all its items: end the open ones with it. If it has
        more items of a type than came, the last of these are new. (Places and ids may differ.)"""
        output = response.get("output") or ()
        missing = Counter(item["type"] for item in output) - self._types
        new = set()
        for place, item in reversed(list(enumerate(output))):
            if missing[item["type"]] > 0:
                missing[item["type"]] -= 1
                new.add(place)
        for place, item in enumerate(output):
            if place in new or self._find(place, item["type"], _call_id(item)):
                yield from self._end(place, item)
            self._refusal = self._refusal or _refusal(item)
        for left in list(self._open):
            yield from self._stop(left)
        calls = self._types["function_call"]
        ending: dict[str, Any] = {"stop_reason": "tool_use" if calls else "end_turn"}
        why = (response.get("incomplete_details") or {}).get("reason")
        if self._refusal or why == "content_filter":
            ending = {"stop_reason": "refusal", "stop_details": {"explanation": self._refusal}}
        elif why:
            ending = {"stop_reason": "max_tokens"}
        counts = response.get("usage") or {}
        cached = (counts.get("input_tokens_details") or {}).get("cached_tokens")
        usage = usage_of(counts.get("input_tokens"), cached, counts.get("output_tokens"))
        yield {"type": "message_delta", "delta": ending, "usage": usage}
        yield {"type": "message_stop"}


def _call_id(item: Mapping[str, Any]) -> str:
    """The id of a call; empty without an id, or if the item is not a call."""
    return str(item.get("call_id") or "") if item["type"] == "function_call" else ""


def _fingerprint(item: Mapping[str, Any]) -> str:
    """Distinguishes a repeated end of an item from the end of another one at the same place."""
    own = item["id"] if item["type"] in _SERVED else item.get("encrypted_content")
    return json.dumps([*_full_text(item), _call_id(item), own])


def _delta(item: _Open, kind: str, piece: str) -> ModelEvent:
    """The next piece of an item."""
    text = item.gap + piece
    item.gap = ""
    item.pieces.append(text)
    delta = {"type": f"{kind}_delta", kind: text}
    if kind == "input":
        delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": item.block, "delta": delta}


def _signature(open: _Open, item: Mapping[str, Any]) -> ModelEvent:
    """The item itself as a signature, for later requests."""
    delta = {"type": "signature_delta", "signature": json.dumps(item, ensure_ascii=False)}
    return {"type": "content_block_delta", "index": open.block, "delta": delta}


def _refusal(item: Mapping[str, Any]) -> str:
    """The text with which a model refuses, from a part of its message."""
    parts = item.get("content") if item["type"] == "message" else None
    return "".join(part.get("refusal") or "" for part in parts or ())


def _full_text(item: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of delta for a complete item, and its whole text."""
    match item["type"]:
        case "message":
            return "text", "".join(part.get("text") or "" for part in item.get("content") or ())
        case "reasoning":
            summary = [part["text"] for part in item.get("summary") or ()]
            content = [part.get("text") or "" for part in item.get("content") or ()]
            return "thinking", "\n\n".join(summary) or "".join(content)
    return "input", item.get("arguments") or ""


def _served_input(item: Mapping[str, Any]) -> dict[str, Any]:
    """The input of the service's own tool, under Anthropic's names."""
    action = item.get("action") or {}
    queries = action.get("queries") or []
    input = {
        "query": action.get("query") or ", ".join(queries),
        "url": action.get("url"),
        "code": item.get("code"),
    }
    return {name: value for name, value in input.items() if value}


RESPONSES = Kind(make=ResponsesModel, sdk="openai")
