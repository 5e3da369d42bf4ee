"""A finished reply as the events that would have brought it."""

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
    """The events, with texts in pieces of a word.

    Without a `stop_reason` it is what the blocks mean: `tool_use` where one is a call, else
    `end_turn`. `usage` is in Anthropic's names.
    """
    counted = dict(usage or {"input_tokens": 0, "output_tokens": 0})
    yield {
        "type": "message_start",
        "message": {
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "usage": {**counted, "output_tokens": 0},
        },
    }
    for index, block in enumerate(blocks):
        empty, deltas = _written(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    calls = any(block["type"] == "tool_use" for block in blocks)
    reason = stop_reason or ("tool_use" if calls else "end_turn")
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counted}
    yield {"type": "message_stop"}


def _written(block: Block) -> tuple[Block, Iterator[Block]]:
    """The block as it begins, and what is written into it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, _pieces("text_delta", "text", block.get("text") or "")
        case "thinking":
            thoughts = list(_pieces("thinking_delta", "thinking", block.get("thinking") or ""))
            signed = {"type": "signature_delta", "signature": block.get("signature", "")}
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            return empty, iter([*thoughts, signed])
        case "tool_use" | "server_tool_use":
            written = block.get("input") or {}
            text = written if isinstance(written, str) else json.dumps(written)
            return {**block, "input": {}}, _pieces("input_json_delta", "partial_json", text)
    return block, iter(())


def _pieces(kind: str, key: str, text: str) -> Iterator[Block]:
    for piece in re.findall(r"\s*\S{1,40}|\s+$", text):
        yield {"type": kind, key: piece}
