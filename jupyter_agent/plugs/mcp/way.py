"""The way to an MCP server: what carries the messages of the SDK's session, within our bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from jupyter_agent.plugs.mcp.messages import McpError, ServerMessage

_MOST_QUESTIONS = 8
"""Requests of a server that are answered at the same time; others are dropped."""

Streams: TypeAlias = tuple[Any, Any]
"""The SDK's pair of streams of `SessionMessage`: to read from, and to write to."""


class Way(ABC):
    """The way to one server."""

    def __init__(self) -> None:
        self._questions = 0
        """Requests of the server that are not answered yet."""

    @property
    def fault(self) -> McpError | None:
        """Why the server cannot be asked any more; None while it can."""
        return None

    @abstractmethod
    def streams(self) -> AbstractAsyncContextManager[Streams]:
        """Connects, and closes for good in the end. Raises McpError."""

    def settle(self, id: int) -> McpError | None:
        """Forgets a request that has ended, and returns why it has no reply of the server."""
        return self.fault

    def _admits(self, message: ServerMessage) -> bool:
        """Whether a message of the server is passed on: not too many unanswered requests."""
        if "method" in message and "id" in message:
            if self._questions >= _MOST_QUESTIONS:
                return False
            self._questions += 1
        return True

    def _count_answer(self) -> None:
        """Counts our answer to a request of the server."""
        self._questions -= 1
