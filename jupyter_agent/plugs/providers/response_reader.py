"""Reads the events of OpenAI's Responses API into events of a model."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_agent.models.base import (
    VIA,
    ModelEvent,
    usage_of,
)

_SERVED = {"web_search_call": "web_search", "code_interpreter_call": "code_execution"}
"""Types of items for the service's own calls, and the names of their tools."""
ITEM = "item"
"""Value of VIA for reasoning whose signature is its whole item."""


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
                block = {"type": "thinking", "thinking": "", VIA: ITEM}
            case "function_call":
                id = item.get("call_id") or item["id"]
                block = {"type": "tool_use", "id": id, "name": item["name"], "input": {}}
            case str(kind) if kind in _SERVED:
                call = {"type": "server_tool_use", "id": item["id"], "name": _SERVED[kind]}
                block = {**call, "input": {}, VIA: ITEM}
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
            VIA: ITEM,
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
