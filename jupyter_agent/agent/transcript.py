"""The messages of a conversation as the model sees them: append, repair, elide.

What makes a history valid is told at `repair`. Everything here keeps to Anthropic's message JSON; an assistant
message carries one key more, `model`, which says who wrote it and is taken off before it is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jupyter_agent.models.base import Block, Message

Persist: TypeAlias = Callable[[int, Sequence[Message]], Awaitable[None]]
"""From position `start` on, the history is now these messages."""

INTERRUPTED = "Interrupted before it finished; it may have partially run."


class Transcript:
    """The history of one conversation; whatever changes it is stored before the call returns."""

    def __init__(self, messages: Sequence[Message], persist: Persist) -> None:
        self.messages: list[Message] = list(messages)
        self._persist = persist

    async def append(self, role: str, content: Sequence[Block], **more: Any) -> None:
        """Add a message; a user message right after another one becomes part of it."""
        raise NotImplementedError

    async def repair(self) -> None:
        """Make the history valid, whatever happened before."""
        raise NotImplementedError

    def sendable(self, model: str) -> list[Message]:
        """The messages as this model takes them: without thinking of another one, with few images."""
        raise NotImplementedError


def repair(messages: Sequence[Message]) -> list[Message]:
    """A valid history with the same meaning; the same list of messages where it was valid."""
    raise NotImplementedError


def user_text(message: Mapping[str, Any]) -> str:
    """What the person wrote in a user message."""
    raise NotImplementedError
