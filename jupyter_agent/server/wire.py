"""Events in the shapes of the AI SDK: each is one chunk of its stream, all of a turn one UIMessage.

Only chunk types that `ai` 6 and 7 both accept are used: a client of either stops at an unknown one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, assert_never

from jupyter_agent.events import Event, TurnFinished

Chunk = dict[str, Any]


def chunk(event: Event) -> Chunk:
    """The event as one chunk of the stream (API.md lists them)."""
    match event.type:
        case "turn_started":
            metadata = {
                "conversationId": event.conversation_id,
                "turnId": event.turn_id,
                "model": event.model,
                "notebook": event.notebook,
            }
            return {
                "type": "start",
                "messageId": event.message_id,
                "messageMetadata": metadata,
            }
        case "step_started":
            return {"type": "start-step"}
        case "step_finished":
            return {"type": "finish-step"}
        case "text_started":
            return {"type": "text-start", "id": event.part_id}
        case "text_delta":
            return {"type": "text-delta", "id": event.part_id, "delta": event.delta}
        case "text_ended":
            return {"type": "text-end", "id": event.part_id}
        case "thinking_started":
            return {"type": "reasoning-start", "id": event.part_id}
        case "thinking_delta":
            return {"type": "reasoning-delta", "id": event.part_id, "delta": event.delta}
        case "thinking_ended":
            return {"type": "reasoning-end", "id": event.part_id}
        case "call_started":
            return {
                "type": "tool-input-start",
                "toolCallId": event.call_id,
                "toolName": event.tool,
                "dynamic": True,
            }
        case "call_input_delta":
            return {
                "type": "tool-input-delta",
                "toolCallId": event.call_id,
                "inputTextDelta": event.delta,
            }
        case "call_ready":
            return {
                "type": "tool-input-available",
                "toolCallId": event.call_id,
                "toolName": event.tool,
                "input": dict(event.input),
                "dynamic": True,
            }
        case "call_invalid":
            return {
                "type": "tool-input-error",
                "toolCallId": event.call_id,
                "toolName": event.tool,
                "input": event.input,
                "errorText": event.error,
                "dynamic": True,
            }
        case "approval_requested":
            return {
                "type": "tool-approval-request",
                "approvalId": event.approval_id,
                "toolCallId": event.call_id,
            }
        case "call_output":
            output: Chunk = {
                "type": "tool-output-available",
                "toolCallId": event.call_id,
                "output": dict(event.output),
                "dynamic": True,
            }
            return {**output, "preliminary": True} if event.preliminary else output
        case "call_failed":
            return {
                "type": "tool-output-error",
                "toolCallId": event.call_id,
                "errorText": event.error,
                "dynamic": True,
            }
        case "call_denied":
            return {"type": "tool-output-denied", "toolCallId": event.call_id}
        case "cells_changed":
            data = {
                "toolCallId": event.call_id,
                "notebook": event.notebook,
                "changes": list(event.changes),
            }
            return {"type": "data-changes", "data": data}
        case "notice":
            return {
                "type": "data-notice",
                "data": {"kind": event.kind, "text": event.text, **event.facts},
            }
        case "usage_updated":
            used = {"usage": asdict(event.usage), "stepUsage": asdict(event.step)}
            return {"type": "message-metadata", "messageMetadata": used}
        case "turn_finished":
            return {
                "type": "finish",
                "finishReason": event.finish_reason,
                "messageMetadata": _ending(event),
            }
        case "turn_aborted":
            return {"type": "abort"}
        case "turn_failed":
            return {"type": "error", "errorText": event.error}
        case _:
            assert_never(event)


def _ending(event: TurnFinished) -> Chunk:
    metadata: Chunk = {
        "usage": asdict(event.usage),
        "stopReason": event.stop_reason,
        "steps": event.steps,
        "stepLimitReached": event.step_limit_reached,
    }
    if event.budget_reached:
        metadata["budgetReached"] = True
    if event.waiting:
        metadata["state"] = "waiting"
    return metadata


def message(message_id: str, events: Iterable[Event]) -> dict[str, Any]:
    """The assistant's UIMessage that a client has after these events."""
    parts: list[Chunk] = []
    by_id: dict[str, Chunk] = {}
    metadata: Chunk = {}
    for event in events:
        piece = chunk(event)
        metadata.update(piece.get("messageMetadata", {}))
        _advance(parts, by_id, piece)
    for part in by_id.values():
        part.pop("_input", None)
    return {"id": message_id, "role": "assistant", "metadata": metadata, "parts": parts}


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
            by_id[piece["id"]]["text"] += piece["delta"]
        case "text-end" | "reasoning-end":
            by_id[piece["id"]]["state"] = "done"
        case "data-changes" | "data-notice":
            parts.append({"type": kind, "data": piece["data"]})
            if piece["data"].get("kind") == "answered":
                _take_answers(parts, piece["data"]["approvals"])
        case _ if "toolCallId" in piece:
            _advance_call(parts, by_id, piece)


def _take_answers(parts: list[Chunk], approvals: Iterable[Mapping[str, Any]]) -> None:
    """What a person answered is no question any more, long before the call has an outcome."""
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
            "_input": "",
        }
        by_id[call_id] = part
        parts.append(part)
    match piece["type"]:
        case "tool-input-delta":
            part["_input"] += piece["inputTextDelta"]
            part["input"] = _parsed(part["_input"])
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


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
