"""The pictures of a request, of which a service may refuse one for what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from jupyter_agent.models.base import Block, Message

_LEFT_OUT = {"type": "text", "text": "[a picture that the model's service refused]"}


def digests(messages: Sequence[Message]) -> frozenset[str]:
    """What tells the pictures of a history apart."""
    return frozenset(_digest(block) for message in messages for block in _pictures(message))


def without(messages: Sequence[Message], refused: Collection[str]) -> Sequence[Message]:
    """The history with a word in place of each of these pictures."""
    if not refused:
        return messages
    return [
        {**message, "content": [_block(block, refused) for block in message["content"]]}
        for message in messages
    ]


def _pictures(holder: Block) -> Iterator[Block]:
    content = holder.get("content")
    for block in content if isinstance(content, list) else ():
        if block["type"] == "image":
            yield block
        elif block["type"] == "tool_result":
            yield from _pictures(block)


def _block(block: Block, refused: Collection[str]) -> Block:
    if block["type"] == "image" and _digest(block) in refused:
        return _LEFT_OUT
    if block["type"] == "tool_result" and isinstance(block["content"], list):
        return {**block, "content": [_block(part, refused) for part in block["content"]]}
    return block


def _digest(block: Block) -> str:
    return hashlib.sha256(str(block["source"].get("data")).encode()).hexdigest()
