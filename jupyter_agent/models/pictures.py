"""Pictures that a service refuses, because of their content or number.

Few services say which picture is wrong, and some accept only so many at once. So all pictures of a
request count as refused together and are later left out together; each alone may be fine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from jupyter_agent.models.base import Block, Message

Digests: TypeAlias = frozenset[str]
"""Hashes of pictures."""
_LEFT_OUT = {"type": "text", "text": "[a picture that the model's service refused]"}


def digests(messages: Sequence[Message]) -> Digests:
    """The digests of all pictures in a history."""
    return frozenset(_digest(block) for message in messages for block in _pictures(message))


def refused_among(messages: Sequence[Message], refused: Collection[Digests]) -> Digests:
    """The pictures of a history that were refused together. Hashes nothing if none were."""
    present = digests(messages) if refused else frozenset()
    return frozenset().union(*(together for together in refused if together <= present))


def replace_pictures(messages: Sequence[Message], left_out: Digests) -> Sequence[Message]:
    """The history with a text in place of each of these pictures."""
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
