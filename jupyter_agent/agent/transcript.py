"""The messages of a conversation as the model sees them: append, elide, and what may be sent.

Messages are Anthropic's JSON. One of the assistant may carry one key more, `model`, which says who
wrote it; it is taken off before sending.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from jupyter_agent.agent.repair import INTERRUPTED, error_result, repair, unanswered
from jupyter_agent.models.base import Block, Message

Persist: TypeAlias = Callable[[Message], Awaitable[None]]
"""Stores one more message of the history."""

_IMAGES_SENT = 20
"""The API refuses images above 2,000 pixels in a request that has more of them than this."""
_ELIDED_FROM = 500
"""Characters of a tool result that are worth eliding."""


class Transcript:
    """The history of one conversation: append-only, and each message stored before it counts."""

    def __init__(self, messages: Sequence[Message], persist: Persist) -> None:
        self.messages: list[Message] = list(messages)
        self._persist = persist

    async def append(
        self, role: str, content: Sequence[Block], *, model: str | None = None
    ) -> None:
        """Add a message, unless it is empty: the API would refuse it."""
        if not content:
            return
        message = {"role": role, "content": list(content)}
        if model is not None:
            message["model"] = model
        await self._persist(message)
        self.messages.append(message)

    async def finish(self) -> None:
        """Answer the calls that the last message left open, as after a crash."""
        open_calls = unanswered(self.messages)
        await self.append("user", [error_result(call_id, INTERRUPTED) for call_id in open_calls])

    def sendable(self, model: str) -> list[Message]:
        """A valid history with the same meaning, as this model takes it.

        Thinking is only valid for the model that thought it; of images the newest stay.
        """
        own = [_without_foreign_thinking(message, model) for message in self.messages]
        return _newest_images(repair(own))

    def elide(self) -> bool:
        """Shorten what older calls returned; False when there is nothing left to shorten.

        The results of the last step stay. It is done for all the others at once, because each time
        the cached prefix is lost.
        """
        last = len(self.messages) - 1
        shorter = [
            message if position == last else _elided(message)
            for position, message in enumerate(self.messages)
        ]
        changed = shorter != self.messages
        self.messages = shorter
        return changed


def _without_foreign_thinking(message: Message, model: str) -> Message:
    own = message.get("model", model) == model
    content = message["content"]
    if not isinstance(content, str):
        content = [block for block in content if own or "thinking" not in block["type"]]
    return {"role": message["role"], "content": content}


def _elided(message: Message) -> Message:
    if message["role"] != "user" or isinstance(message["content"], str):
        return message
    return {**message, "content": [_elided_result(block) for block in message["content"]]}


def _elided_result(block: Block) -> Block:
    if block["type"] != "tool_result" or not isinstance(block["content"], list):
        return block
    length = sum(len(part.get("text", "")) for part in block["content"])
    images = any(part["type"] == "image" for part in block["content"])
    if length < _ELIDED_FROM and not images:
        return block
    return {**block, "content": [_text(f"[elided, {length} characters; call again if needed]")]}


def _newest_images(messages: Iterable[Message]) -> list[Message]:
    left = _IMAGES_SENT
    newest_first: list[Message] = []
    for message in reversed(list(messages)):
        content = []
        for block in reversed(message["content"]):
            kept, left = _with_images(block, left)
            content.append(kept)
        newest_first.append({**message, "content": content[::-1]})
    return newest_first[::-1]


def _with_images(block: Block, left: int) -> tuple[Block, int]:
    if block["type"] == "image":
        return (block if left > 0 else _text("[an older image]")), left - 1
    if block["type"] == "tool_result" and isinstance(block["content"], list):
        parts = []
        for part in reversed(block["content"]):
            kept, left = _with_images(part, left)
            parts.append(kept)
        return {**block, "content": parts[::-1]}, left
    return block, left


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
