"""The stores that running turns write to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jupyter_agent.conversations.approvals import (
    ApprovalStore,
    RuleStore,
)
from jupyter_agent.conversations.audit import AuditLog
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.instructions import TrustStore
from jupyter_agent.conversations.requests import RequestStore
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.conversations.usage import UsageStore


class Announce(Protocol):
    """Tells every open page, in a moment, to read a conversation again, or one of its turns."""

    def __call__(self, conversation_id: str, turn_id: str | None = None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class TurnStores:
    """The stores of running turns, and the announcement of changes to pages."""

    conversations: ConversationStore
    journal: Journal
    approvals: ApprovalStore
    requests: RequestStore
    rules: RuleStore
    trust: TrustStore
    usage: UsageStore
    audit: AuditLog
    announce: Announce

    @classmethod
    def on(cls, database: Database, announce: Announce) -> TurnStores:
        """All stores in one file."""
        return cls(
            conversations=ConversationStore(database),
            journal=Journal(database),
            approvals=ApprovalStore(database),
            requests=RequestStore(database),
            rules=RuleStore(database),
            trust=TrustStore(database),
            usage=UsageStore(database),
            audit=AuditLog(database),
            announce=announce,
        )
