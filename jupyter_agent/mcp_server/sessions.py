"""Sessions of clients of the earlier era."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_SESSIONS = 500
"""A client whose session was dropped starts a new one."""


@dataclass(kw_only=True)
class Session:
    """A client's description of itself, and its open requests."""

    id: str
    owner: str
    version: str
    client: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    requests: dict[str | int, asyncio.Task[Any]] = field(default_factory=dict)
    """The client's unanswered requests, by their ids."""
    questions: dict[str, asyncio.Future[Mapping[str, Any]]] = field(default_factory=dict)
    """Our unanswered requests, by their ids."""

    def cancel(self, request_id: Any) -> None:
        """Cancels a request of the client."""
        task = self.requests.get(request_id) if isinstance(request_id, str | int) else None
        if task is not None:
            task.cancel()

    def take(self, reply: Mapping[str, Any]) -> bool:
        """Takes the client's answer to our request; False if no one waits for it."""
        answer = self.questions.get(str(reply.get("id")))
        if answer is None or answer.done():
            return False
        result = reply.get("result")
        answer.set_result(result if isinstance(result, Mapping) else {"action": "cancel"})
        return True


class Sessions:
    """All sessions of a server."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def begin(
        self, owner: str, version: str, client: Mapping[str, Any], capabilities: Mapping[str, Any]
    ) -> Session:
        """Starts a session with an id that no one can guess."""
        session = Session(
            id=secrets.token_hex(16),
            owner=owner,
            version=version,
            client=client,
            capabilities=capabilities,
        )
        self._sessions[session.id] = session
        for old in list(self._sessions)[:-_MOST_SESSIONS]:
            del self._sessions[old]
        return session

    def find(self, owner: str, session_id: str) -> Session | None:
        """The session of that id, if it is this owner's."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._sessions[session_id] = session  # most recently used
        return session if session is not None and session.owner == owner else None
