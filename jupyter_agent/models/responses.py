"""Models behind OpenAI's Responses API, some of which are to be had nowhere else.

Nothing is stored at the service: the history is ours, and reasoning goes back encrypted, by the id
of its item. Source: https://platform.openai.com/docs/api-reference/responses.
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
    learned_containers,
    learned_effort,
    learned_tools,
)
from jupyter_agent.models.lines import DONE, payloads
from jupyter_agent.models.openai import OpenAIModel

_ITEM = "item"
"""What VIA says of reasoning whose signature is its whole item."""
_SERVER_TOOLS: Mapping[ServerTool, Mapping[str, Any]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
"""Pages are opened by its search."""
_SERVED = {"web_search_call": "web_search", "code_interpreter_call": "code_execution"}
"""Items of what the service does itself, and the names of its tools."""
_AS_A_FIELD = r"""["'`]{0}\b|\b(parameter|argument|field|property|body|supplied)\W+{0}\b"""
"""How a refusal names a field that is a word as well."""
_LONGEST_ID = 64
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
            better = learned_tools(dialect, said, _served_tools(request, dialect))
        if better != dialect:
            return better
        if not REFUSED.search(said):
            return None
        said = re.sub("encrypted.content", "'include'", said, flags=re.IGNORECASE)
        for name in _OPTIONAL:
            pattern = rf"\b{name}\b" if "_" in name else _AS_A_FIELD.format(name)
            named = re.search(pattern, said, re.IGNORECASE)
            if named and name not in dialect.without:
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
                "call_id": _own_id(block["id"]),
                "name": block["name"],
                "arguments": json.dumps(block["input"]),
            }


def _asked(content: Sequence[Block]) -> Iterator[dict[str, Any]]:
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
    """The id of a call as the API takes it; other services have longer ones."""
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


# -- what is answered


@dataclass
class _Open:
    """An item that is being written."""

    place: int | None
    type: str
    block: int
    call_id: str = ""
    begun: bool = True
    """Whether its own beginning came, and not only a piece of it."""
    pieces: list[str] = field(default_factory=list)
    """What was written of it."""
    gap: str = ""
    """What stands before the next piece, in another part of a summary."""


class ItemReader:
    """Makes the events of one reply out of those of a response.

    Items are told apart by type and place: proxies give them other ids in each event. What some
    servers leave out or say again is neither lost nor doubled: the beginning of an item, the place
    of a piece, pieces, the end of an item.
    """

    def __init__(self) -> None:
        self._started = False
        self._blocks = 0
        self._open: list[_Open] = []
        self._types: Counter[str] = Counter()
        """How many items of each type came so far."""
        self._over: dict[tuple[int | None, str], set[str]] = defaultdict(set)
        """What items said that are over, by place and type."""
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
            case None if event.get("object") == "response":  # it does not stream
                yield from self._close(event)

    def _find(self, place: int | None, type: str, call_id: str = "") -> _Open | None:
        """The open item that is meant: the one with that id, else at that place, else the last one
        of its type. (vLLM gives a call another id at its end.)"""
        same = [item for item in reversed(self._open) if item.type == type]
        here = [item for item in same if item.place == place]
        if type != "function_call":
            return next(iter([*here, *same]), None)
        if call_id:
            named = [item for item in same if item.call_id == call_id]
            alike = same if place is None else here
            return next(iter(named or (alike if len(alike) == 1 else [])), None)
        return next(iter(here if len(same) > 1 and place is not None else same), None)

    def _is_open(self, place: int | None, type: str, call_id: str) -> bool:
        """Whether an item is open that began just so."""
        return any(
            item.begun
            and item.type == type
            and (item.place == place if place is not None else bool(call_id))
            and item.call_id == call_id
            for item in self._open
        )

    def _begin(
        self, place: int | None, item: Mapping[str, Any], *, begun: bool = True
    ) -> Iterator[ModelEvent]:
        type = item["type"]
        if begun and self._is_open(place, type, _call_id(item)):  # it begins twice
            return
        early = self._find(place, type) if begun and type != "function_call" else None
        if early is not None and not early.begun:  # its first piece came before it
            early.place, early.begun = place, True
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
                served = {"type": "server_tool_use", "id": item["id"], "name": _SERVED[kind]}
                block = {**served, "input": {}, VIA: _ITEM}
            case _:  # what nobody switched on
                return
        self._types[type] += 1
        self._open.append(_Open(place, type, self._blocks, _call_id(item), begun))
        yield {"type": "content_block_start", "index": self._blocks, "content_block": block}
        self._blocks += 1

    def _continue(
        self, place: int | None, type: str, kind: str, piece: str
    ) -> Iterator[ModelEvent]:
        item = self._find(place, type)
        if item is None and (place, type) in self._over:  # what it says came with its end
            return
        if item is None or (not item.begun and item.place != place):
            yield from self._begin(place, {"type": type}, begun=False)
            item = self._open[-1]
        yield _delta(item, kind, piece)

    def _next_part(self, place: int | None) -> None:
        item = self._find(place, "reasoning")
        if item is not None and item.pieces:
            item.gap = "\n\n"

    def _end(self, place: int | None, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        type, said = item["type"], _said_by(item)
        again = said in self._over.get((place, type), ())
        ended = self._find(place, type, _call_id(item))
        if again and (ended is None or ended.place != place):
            return
        if ended is None:
            yield from self._begin(place, item)
            ended = self._find(place, type, _call_id(item))
        if ended is None:
            return
        self._over[place, type].add(said)
        if type in _SERVED:
            yield from self._end_served(ended, item)
            return
        kind, whole = _whole(item)
        written = "".join(ended.pieces)
        if whole.startswith(written) and whole != written and not again:
            ended.gap = ""
            yield _delta(ended, kind, whole[len(written) :])
        self._refusal = self._refusal or _refusal(item)
        if type == "reasoning":
            kept = ("type", "id", "summary", "content", "encrypted_content")
            signed = {name: item[name] for name in kept if item.get(name) is not None}
            yield _signature(ended, signed)
        yield from self._stop(ended)

    def _stop(self, item: _Open) -> Iterator[ModelEvent]:
        self._open.remove(item)
        yield {"type": "content_block_stop", "index": item.block}

    def _end_served(self, ended: _Open, item: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The end of a call by the service itself, then its result as a block of its own."""
        yield _delta(ended, "input", json.dumps(_served_input(item)))
        yield _signature(ended, item)
        yield from self._stop(ended)
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
        """The end. Of what it lists altogether, what is open ends so; where there are more of a
        type than came, the last of them are taken. (Places and ids may differ from before.)"""
        listed = response.get("output") or ()
        lacking = Counter(item["type"] for item in listed) - self._types
        new = set()
        for place, item in reversed(list(enumerate(listed))):
            if lacking[item["type"]] > 0:
                lacking[item["type"]] -= 1
                new.add(place)
        for place, item in enumerate(listed):
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
        used = response.get("usage") or {}
        cached = (used.get("input_tokens_details") or {}).get("cached_tokens")
        usage = usage_of(used.get("input_tokens"), cached, used.get("output_tokens"))
        yield {"type": "message_delta", "delta": ending, "usage": usage}
        yield {"type": "message_stop"}


def _call_id(item: Mapping[str, Any]) -> str:
    """What tells a call from others, where it says so."""
    return str(item.get("call_id") or "") if item["type"] == "function_call" else ""


def _said_by(item: Mapping[str, Any]) -> str:
    """What tells an item that ends again from another one at the same place."""
    own = item["id"] if item["type"] in _SERVED else item.get("encrypted_content")
    return json.dumps([*_whole(item), _call_id(item), own])


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
    """The item itself, for the requests after this one."""
    delta = {"type": "signature_delta", "signature": json.dumps(item, ensure_ascii=False)}
    return {"type": "content_block_delta", "index": open.block, "delta": delta}


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
