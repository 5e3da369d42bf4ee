"""Turns a finished reply into the events that would have streamed it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from jupyter_agent.models.base import Block, ModelEvent


def replay(
    blocks: Sequence[Block],
    *,
    stop_reason: str | None = None,
    usage: Mapping[str, int] | None = None,
) -> Iterator[ModelEvent]:
    """The events, with texts in pieces of one word.

    The default `stop_reason` is `tool_use` if a block is a call, else `end_turn`. `usage` has
    Anthropic's names.
    """
    counts = dict(usage or {"input_tokens": 0, "output_tokens": 0})
    yield {
        "type": "message_start",
        "message": {
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "usage": {**counts, "output_tokens": 0},
        },
    }
    for index, block in enumerate(blocks):
        empty, deltas = _split(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    calls = any(block["type"] == "tool_use" for block in blocks)
    reason = stop_reason or ("tool_use" if calls else "end_turn")
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts}
    yield {"type": "message_stop"}


def _split(block: Block) -> tuple[Block, Iterator[Block]]:
    """The empty block with which it starts, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, _pieces("text_delta", "text", block.get("text") or "")
        case "thinking":
            thoughts = list(_pieces("thinking_delta", "thinking", block.get("thinking") or ""))
            signature = {"type": "signature_delta", "signature": block.get("signature", "")}
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            return empty, iter([*thoughts, signature])
        case "tool_use" | "server_tool_use":
            input = block.get("input") or {}
            text = input if isinstance(input, str) else json.dumps(input)
            return {**block, "input": {}}, _pieces("input_json_delta", "partial_json", text)
    return block, iter(())


def _pieces(kind: str, key: str, text: str) -> Iterator[Block]:
    for piece in re.findall(r"\s*\S{1,40}|\s+$", text):
        yield {"type": kind, key: piece}
