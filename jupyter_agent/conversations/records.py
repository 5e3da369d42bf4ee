"""Turns as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.agent.permissions import Grant
from jupyter_agent.conversations.log import TurnState
from jupyter_agent.events import Usage
from jupyter_agent.models.base import Message


@dataclass(frozen=True, kw_only=True)
class TurnQuestion:
    """The question of a turn, and who asked it."""

    id: str
    owner: str
    conversation_id: str
    question_id: str
    question: Mapping[str, Any]
    answer_id: str
    request: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TurnRecord(TurnQuestion):
    """A stored turn."""

    state: TurnState
    stop_reason: str | None
    steps: int
    usage: Usage
    started: str
    ended: str | None
    root: str | None
    """The folder to which its notebooks' paths are relative, as a real path; None if paths are not
    files."""


@dataclass(frozen=True, kw_only=True)
class NewTurn(TurnQuestion):
    """A turn to store before its question goes to the model."""

    model: str
    notebook: str | None
    title: str
    content: Sequence[Mapping[str, Any]]
    """The user's message as the model gets it."""
    server: str
    """Id of the server that runs it (`Presence.id`)."""
    idempotency_key: str | None = None
    replaces_from: str | None = None
    """Id of a stored question: that turn and all after it leave the conversation."""
    continues: str | None = None
    """Id of the turn that has to be the conversation's last."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The state of a conversation when a turn starts."""

    turn: TurnRecord
    history: Sequence[Message]
    """The messages for the model, without turns in which more was shared than now."""
    withheld: int
    """How many turns are left out for that."""
    grants: Sequence[Grant]
    """The grants of the conversation."""
    verdicts: Sequence[str]
    """Sentences for the model about the review of its earlier changes."""
