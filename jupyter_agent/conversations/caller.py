"""A client that calls tools without the loop: who it is, and what its turns need."""

from __future__ import annotations

import hashlib
import json
import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.options import CallOptions
from jupyter_agent.agent.people import Person
from jupyter_agent.agent.turn import Stop
from jupyter_agent.conversations.audit import EntryPoint
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.document.cell import Change
from jupyter_agent.legible import ModelText, clip, legible
from jupyter_agent.tools.base import Result
from jupyter_agent.workspace.workspace import Services

_MOST_OF_A_NAME = 60


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls, and with which options. Calls with the same `key` belong to the same client, even
    if the person's groups have changed."""

    person: Person
    name: str
    """As shown to people, such as `Claude Code`."""
    session: str
    """Distinguishes clients with that name; empty if nothing does."""
    options: CallOptions = CallOptions()
    entry: EntryPoint = "mcp"
    """How its calls come in, for the audit."""

    @property
    def owner(self) -> str:
        """The owner of the client's turns."""
        return self.person.name

    def title_of(self, notebook: str | None) -> str:
        """The title of the client's conversation about a notebook."""
        return f"{self.name}, {posixpath.basename(notebook)}" if notebook else self.name

    @property
    def key(self) -> str:
        """A hash of everything but the groups and the entry."""
        own = {"name": self.name, "session": self.session, "owner": self.owner}
        return digest({**self.options.model_dump(), **own, "allow": sorted(self.options.allow)})


@dataclass(kw_only=True)
class CallerTurn:
    """An action of the caller itself in its turn; the caller fills in the results."""

    turn_id: str
    stop: Stop
    """A person's request to stop the action."""
    result: Result = Result(text="Done.")
    changes: Sequence[Change] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a call, fit for the client's model."""

    text: ModelText
    facts: Mapping[str, Any]
    turn_id: str
    images: Sequence[tuple[str, str]] = ()
    """(media type, base64) pairs."""
    news: Sequence[ModelText] = ()
    """What others have changed since in the notebooks that the client has read."""


@dataclass(frozen=True, kw_only=True)
class ClientHost:
    """What clients use on this server."""

    runner: TurnRunner
    dispatcher: Dispatcher
    services: Services
    server_id: str
    """See `Presence`."""
    has_page: Callable[[str], bool]
    """Whether an owner has a page open."""
    max_calls: int
    """Limit for a client's turn."""
    approval_seconds: float
    clock: Callable[[], float] = time.monotonic
    """Seconds."""


def display_name(name: str) -> str:
    """A client's name as shown to people; may be empty."""
    return clip(" ".join(legible(name).split()), _MOST_OF_A_NAME)


def digest(value: Any) -> str:
    """A hash of a JSON value."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
