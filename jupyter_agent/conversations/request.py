"""A user's request for a turn, and the administrator's rules for all turns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.options import TurnOptions
from jupyter_agent.agent.people import Person
from jupyter_agent.agent.permissions import Rule
from jupyter_agent.choices import Share
from jupyter_agent.conversations.attachments import Attachment
from jupyter_agent.models.base import ServerTool
from jupyter_agent.workspace.workspace import Authorize


def new_id(kind: str) -> str:
    """An opaque id with 128 random bits; `kind` only helps people who read logs."""
    return f"{kind}_{secrets.token_hex(16)}"


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """A user's question with its options and limits."""

    person: Person
    authorize: Authorize
    conversation_id: str
    question: Mapping[str, Any]
    """The user's UIMessage, with its id."""
    options: TurnOptions
    """With the notebook's current path."""
    limits: Limits = field(default_factory=Limits)
    attachments: Sequence[Attachment] = ()
    client: str | None = None
    idempotency_key: str | None = None
    replaces_from: str | None = None
    """Id of a stored question: this turn replaces that turn and all after it."""
    continues: str | None = None
    """Id of the turn that this one continues; refused unless it is the conversation's last."""
    undo_replaced: bool = False
    """Whether to undo the replaced turns' changes to notebooks first."""

    @property
    def owner(self) -> str:
        """The owner of the turn."""
        return self.person.name

    @property
    def title(self) -> str:
        """The title of a conversation that starts with this question."""
        parts = self.question["parts"]
        text = " ".join(part["text"] for part in parts if part["type"] == "text")
        words = " ".join(text.split())
        return (words if len(words) <= 60 else f"{words[:59].rstrip()}…") or "Conversation"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The administrator's settings for all turns."""

    rules: Sequence[Rule] = ()
    share: Share = "all"
    """How much of notebooks models may see at most."""
    trust_instructions: bool = False
    """Whether instructions of folders are followed even if the user has not trusted them."""
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that services may run themselves for their models."""
    allow_remote_content: bool = False
    """Whether edits may load from other servers in mode `auto`."""
