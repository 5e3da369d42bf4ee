"""The pictures of a request, some of which a service may refuse for what they are.

Few services say which one is wrong, or they take only so many at once. So all of a request are
refused together, and left out together later: one of them alone may be right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from jupyter_agent.models.base import Block, Message

Digests: TypeAlias = frozenset[str]
"""What tells pictures apart."""
_LEFT_OUT = {"type": "text", "text": "[a picture that the model's service refused]"}


def digests(messages: Sequence[Message]) -> Digests:
    """Those of all pictures of a history."""
    return frozenset(_digest(block) for message in messages for block in _pictures(message))


def refused_among(messages: Sequence[Message], refused: Collection[Digests]) -> Digests:
    """Those of a history that were refused together; nothing is hashed where none were."""
    found = digests(messages) if refused else frozenset()
    return frozenset().union(*(together for together in refused if together <= found))


def without(messages: Sequence[Message], left_out: Digests) -> Sequence[Message]:
    """The history with a word in place of each of these pictures."""
    if not left_out:
        return messages
    return [
        {**message, "content": [_block(block, left_out) for block in message["content"]]}
        for message in messages
    ]


def _pictures(holder: Block) -> Iterator[Block]:
    content = holder.get("content")
    for block in content if isinstance(content, list) else ():
        if block["type"] == "image":
            yield block
        elif block["type"] == "tool_result":
            yield from _pictures(block)


def _block(block: Block, left_out: Digests) -> Block:
    if block["type"] == "image" and _digest(block) in left_out:
        return _LEFT_OUT
    if block["type"] == "tool_result" and isinstance(block["content"], list):
        return {**block, "content": [_block(part, left_out) for part in block["content"]]}
    return block


def _digest(block: Block) -> str:
    return hashlib.sha256(str(block["source"].get("data")).encode()).hexdigest()
