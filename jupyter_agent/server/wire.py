"""Events in the AI SDK's format: each event is a chunk of its stream, each turn a UIMessage.

Only chunk types that `ai` 6 and 7 both accept are used: a client of either stops at unknown ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.events import Event, Notice, Usage, from_json

Chunk = dict[str, Any]

_NAMES = {
    "part_id": "id",
    "call_id": "toolCallId",
    "tool": "toolName",
    "error": "errorText",
    "step": "stepUsage",
}
"""Fields with another name in a chunk."""
_NESTED_IN = {
    "start": "messageMetadata",
    "finish": "messageMetadata",
    "message-metadata": "messageMetadata",
    "data-changes": "data",
    "data-notice": "data",
    "data-continue": "data",
}
"""Chunks with their fields in a nested object of that name."""
_TOP_LEVEL = ("type", "messageId", "finishReason")
"""Fields that stay outside of that object."""
_ONLY_IF_SET = ("model", "provider_executed", "preliminary", "budget_reached", "state")
_UNSENT = ("approval",)
"""The question itself: a notice carries it."""
_DYNAMIC = ("input-start", "input-available", "input-error", "output-available", "output-error")
"""Tool chunks whose tools clients have no schema for."""
_PIECES = "_pieces"
"""The streamed pieces of a part, joined once at the end."""
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}


def chunk(event: Event) -> Chunk:
    """The event as one chunk of the stream (docs/api.md lists them)."""
    fields = {name: value for name, value in vars(event).items() if name not in _UNSENT}
    facts = fields.pop("facts", {})
    named = {
        _NAMES.get(name) or _camel(name): _plain(value)
        for name, value in fields.items()
        if value or name not in _ONLY_IF_SET
    }
    if event.type.removeprefix("tool-") in _DYNAMIC:
        named["dynamic"] = True
    nested_in = _NESTED_IN.get(event.type)
    if nested_in is None:
        return named
    top_level = {name: named.pop(name) for name in _TOP_LEVEL if name in named}
    return {**top_level, nested_in: {**named, **facts}}


def event(piece: Chunk) -> Event:
    """The event for a chunk of our own stream, without the unsent fields: the question of a
    `tool-approval-request` is empty.

    Raises KeyError for a type unknown to this version.
    """
    top_level = dict(piece)
    nested = top_level.pop(_NESTED_IN.get(piece["type"], ""), {})
    top_level.pop("dynamic", None)
    named = {_snake(name): value for name, value in {**top_level, **nested}.items()}
    if piece["type"] == "data-notice":
        named = {"type": piece["type"], "kind": nested["kind"], "text": nested["text"]}
        named["facts"] = {key: nested[key] for key in nested if key not in named}
    for name in _UNSENT if piece["type"] == "tool-approval-request" else ():
        named[name] = {}
    return from_json(named)


def _snake(name: str) -> str:
    return _OURS.get(name) or "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _plain(value: Any) -> Any:
    if isinstance(value, Usage):
        return asdict(value)
    return list(value) if isinstance(value, tuple) else value


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def message(message_id: str, events: Iterable[Event]) -> dict[str, Any]:
    """The assistant's UIMessage after these events."""
    parts: list[Chunk] = []
    by_id: dict[str, Chunk] = {}
    metadata: Chunk = {}
    for event in events:
        piece = chunk(event)
        metadata.update(piece.get("messageMetadata", {}))
        if error := failure(event):
            metadata["error"] = error
        _advance(parts, by_id, piece)
    for part in by_id.values():
        text = "".join(part.pop(_PIECES, ()))
        if "text" in part:
            part["text"] = text
        elif text and part["state"] == "input-streaming":
            part["input"] = _parse_or_none(text)
    return {"id": message_id, "role": "assistant", "metadata": metadata, "parts": parts}


def failure(event: Event) -> dict[str, Any] | None:
    """Why a turn failed, if the event is the notice of that."""
    if not (isinstance(event, Notice) and event.kind == "failed"):
        return None
    request_id = event.facts.get("request_id")
    message = str(event.facts.get("error") or "").removesuffix(f" (request {request_id})")
    return {"kind": event.facts.get("reason"), "message": message, "request_id": request_id}


def failure_in(events: Iterable[Event]) -> dict[str, Any] | None:
    """Why the turn of these events failed; None if it did not."""
    return next(filter(None, map(failure, events)), None)


def _advance(parts: list[Chunk], by_id: dict[str, Chunk], piece: Chunk) -> None:
    kind = piece["type"]
    match kind:
        case "start-step":
            parts.append({"type": "step-start"})
        case "text-start" | "reasoning-start":
            part = {"type": kind.removesuffix("-start"), "text": "", "state": "streaming"}
            by_id[piece["id"]] = part
            parts.append(part)
        case "text-delta" | "reasoning-delta":
            by_id[piece["id"]].setdefault(_PIECES, []).append(piece["delta"])
        case "text-end" | "reasoning-end":
            by_id[piece["id"]]["state"] = "done"
        case "data-changes" | "data-notice" | "data-continue":
            parts.append({"type": kind, "data": piece["data"]})
            if piece["data"].get("kind") == "answered":
                _take_answers(parts, piece["data"]["approvals"])
        case "tool-input-delta":
            part = by_id[piece["toolCallId"]]
            part.setdefault(_PIECES, []).append(piece["inputTextDelta"])
        case _ if "toolCallId" in piece:
            _advance_call(parts, by_id, piece)


def _take_answers(parts: list[Chunk], approvals: Iterable[Mapping[str, Any]]) -> None:
    """Marks answered questions as such, long before the call has an outcome."""
    answers = {approval["id"]: approval for approval in approvals}
    for part in parts:
        if part.get("state") == "approval-requested" and part["approval"]["id"] in answers:
            part.update(state="approval-responded", approval=dict(answers[part["approval"]["id"]]))


def _advance_call(parts: list[Chunk], by_id: dict[str, Chunk], piece: Chunk) -> None:
    call_id = piece["toolCallId"]
    part = by_id.get(call_id)
    if part is None:
        part = {
            "type": "dynamic-tool",
            "toolName": piece["toolName"],
            "toolCallId": call_id,
            "state": "input-streaming",
        }
        if piece.get("providerExecuted"):
            part["providerExecuted"] = True
        by_id[call_id] = part
        parts.append(part)
    match piece["type"]:
        case "tool-input-available":
            part.update(state="input-available", input=piece["input"])
        case "tool-input-error":
            part.update(state="output-error", input=piece["input"], errorText=piece["errorText"])
        case "tool-approval-request":
            part.update(state="approval-requested", approval={"id": piece["approvalId"]})
        case "tool-output-available":
            part.update(state="output-available", output=piece["output"])
            part.pop("preliminary", None)
            if piece.get("preliminary"):
                part["preliminary"] = True
        case "tool-output-error":
            part.update(state="output-error", errorText=piece["errorText"])
        case "tool-output-denied":
            part.update(state="output-denied")


def _parse_or_none(text: str) -> Any:
    try:
        return foreign.parse(text)
    except ValueError:
        return None
