"""What makes a history valid for the API, and how any history becomes so.

A history can be broken by a crash, by a stop, or by an older version of ours. The API refuses it as
a whole and for ever, so it is made valid before each request:

* messages alternate, begin with the user, and none is empty; no text block is blank;
* each `tool_use` is answered in the user message right after it, in order, before anything else;
* no `tool_result` answers anything but the message right before it (ids may occur again later);
* thinking comes with its signature, and never alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_agent.agent.reply import INVALID_INPUT
from jupyter_agent.models.base import Block, Message

INTERRUPTED = "Interrupted before it finished; it may have partially run."
_NO_OUTPUT = "(no output)"


def repair(messages: Sequence[Message]) -> list[Message]:
    """A valid history with the same meaning; equal to the given one where that was valid."""
    alternating: list[dict[str, Any]] = []
    for message in messages:
        content = _valid_blocks(message)
        if message["role"] == "assistant" and _calls(alternating[-1:]):
            alternating.append({"role": "user", "content": []})  # answers are added below
        if alternating and alternating[-1]["role"] == message["role"]:
            alternating[-1]["content"] += content
        elif content:
            alternating.append({"role": message["role"], "content": content})
    return _answered(alternating)


def unanswered(messages: Sequence[Message]) -> list[str]:
    """Ids of the calls in the last message, if it is the assistant's."""
    return _calls(messages[-1:])


def error_result(call_id: str, text: str) -> Block:
    """The answer to a call that failed, or was not executed."""
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": [{"type": "text", "text": text}],
        "is_error": True,
    }


def _answered(alternating: Sequence[Mapping[str, Any]]) -> list[Message]:
    valid: list[dict[str, Any]] = []
    for message in alternating:
        content = message["content"]
        if message["role"] == "user":
            content = _with_answers(_calls(valid[-1:]), content)
        elif not valid:
            continue  # a history begins with the user
        if not content:
            continue
        if valid and valid[-1]["role"] == message["role"]:
            valid[-1]["content"] += content
        else:
            valid.append({"role": message["role"], "content": content})
    if open_calls := _calls(valid[-1:]):
        valid.append({"role": "user", "content": _with_answers(open_calls, [])})
    return list(valid)


def _with_answers(calls: Sequence[str], content: Sequence[Block]) -> list[Block]:
    results = {
        block["tool_use_id"]: block for block in reversed(content) if block["type"] == "tool_result"
    }
    answers = [results.get(call_id) or error_result(call_id, INTERRUPTED) for call_id in calls]
    return [*answers, *(block for block in content if block["type"] != "tool_result")]


def _calls(last: Sequence[Message]) -> list[str]:
    if not last or last[0]["role"] != "assistant":
        return []
    return [block["id"] for block in last[0]["content"] if block["type"] == "tool_use"]


def _valid_blocks(message: Message) -> list[Block]:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    seen: set[str] = set()
    blocks = []
    for block in content:
        match block["type"]:
            case "text" if not block["text"].strip():
                continue
            case "thinking" if not block.get("signature"):
                continue
            case "tool_result":
                block = _valid_result(block)
            case "tool_use":
                if block["id"] in seen:
                    continue
                seen.add(block["id"])
                if not isinstance(block["input"], Mapping):
                    block = {**block, "input": {INVALID_INPUT: str(block["input"])}}
        blocks.append(block)
    only_thoughts = all("thinking" in block["type"] for block in blocks)
    return [] if only_thoughts else blocks


def _valid_result(block: Block) -> Block:
    content = block.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    kept = [part for part in content or () if part["type"] != "text" or part["text"].strip()]
    if kept == block.get("content"):
        return block
    return {**block, "content": kept or [{"type": "text", "text": _NO_OUTPUT}]}
