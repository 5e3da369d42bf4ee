"""How full a model's context window is, estimated before each request."""

from __future__ import annotations

import json

from jupyter_agent.events import Usage
from jupyter_agent.models.base import Block, ModelRequest

_FULL = 0.8
"""The share from which on room is made: estimates err, and the reply needs room too."""
_TOKENS_OF_CHARACTER = 0.25
_IMAGE_CHARACTERS = 6_000
"""What an image counts, however many bytes it has: about 1,500 tokens."""


class Window:
    """The window of one model in one turn; each reply tells how far the estimate was off."""

    def __init__(self, tokens: int | None) -> None:
        self._tokens = tokens
        self._rate = _TOKENS_OF_CHARACTER

    def is_full(self, request: ModelRequest) -> bool:
        """Whether the request leaves too little room. Never, where the size is not known."""
        return self._tokens is not None and size(request) * self._rate > self._tokens * _FULL

    def learn(self, request: ModelRequest, usage: Usage) -> None:
        """A reply tells how many tokens its request had."""
        tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if tokens:
            self._rate = tokens / size(request)


def size(request: ModelRequest) -> int:
    """Characters of everything that is sent."""
    blocks = (block for message in request.messages for block in message["content"])
    tools = len(json.dumps(list(request.tools), ensure_ascii=False))
    return len(request.system) + tools + sum(map(block_size, blocks))


def block_size(block: Block) -> int:
    """Characters of one block."""
    if block["type"] == "image":
        return _IMAGE_CHARACTERS
    if block["type"] == "tool_result" and isinstance(block["content"], list):
        return sum(map(block_size, block["content"]))
    return len(json.dumps(block, ensure_ascii=False))
