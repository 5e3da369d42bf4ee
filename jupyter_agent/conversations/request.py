"""What a user asks for, and what the administrator decided for all turns."""

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
    """What a user asks, and within which bounds."""

    person: Person
    authorize: Authorize
    conversation_id: str
    question: Mapping[str, Any]
    """The user's UIMessage, with its id."""
    options: TurnOptions
    """With the notebook's path as it is now."""
    limits: Limits = field(default_factory=Limits)
    attachments: Sequence[Attachment] = ()
    client: str | None = None
    idempotency_key: str | None = None
    replaces_from: str | None = None
    """Id of a stored question: that turn and all after it are replaced by this one."""
    continues: str | None = None
    """Id of the turn that this one continues: the last of the conversation, or it is refused."""
    undo_replaced: bool = False
    """Whether what the replaced turns did to notebooks is taken back first."""

    @property
    def owner(self) -> str:
        """To whom the turn belongs."""
        return self.person.name

    @property
    def title(self) -> str:
        """What a conversation that begins with it is called."""
        parts = self.question["parts"]
        text = " ".join(part["text"] for part in parts if part["type"] == "text")
        words = " ".join(text.split())
        return (words if len(words) <= 60 else f"{words[:59].rstrip()}…") or "Conversation"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the administrator decided for all turns."""

    rules: Sequence[Rule] = ()
    share: Share = "all"
    """How much of notebooks models may see at most."""
    trust_instructions: bool = False
    """Whether instructions of folders are followed though nobody trusted them."""
    server_tools: tuple[ServerTool, ...] = ()
    """What services may do themselves for their models."""
    allow_remote_content: bool = False
    """Whether edits may load from elsewhere in mode `auto`."""
