"""Questions that turns asked, their answers, and the grants of "always allow here"."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, TypeAlias

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Grant
from jupyter_agent.conversations.database import Database, now


class ApprovalStore:
    """Reads the approvals of all turns; the log of a turn writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pending(self, turn_id: str) -> list[dict[str, Any]]:
        """A turn's open questions, as docs/api.md's approval objects."""
        rows = await self._database.rows(
            "SELECT approval FROM approvals WHERE turn_id = ? AND state = 'pending' ORDER BY rowid",
            turn_id,
        )
        return [json.loads(row["approval"]) for row in rows]

    async def state(self, turn_id: str, approval_id: str) -> str | None:
        """`pending`, `approved`, `denied` or `expired`; None if the turn has no such question."""
        row = await self._database.row(
            "SELECT state FROM approvals WHERE turn_id = ? AND id = ?", turn_id, approval_id
        )
        return str(row["state"]) if row else None


class RuleStore:
    """The grants of every conversation, without the administrator's rules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, owner: str, conversation_id: str) -> list[Grant]:
        """The grants of a conversation."""
        return await self._database.run(lambda db: rules_of(db, owner, conversation_id))

    async def forget(self, owner: str, conversation_id: str) -> None:
        """Drop the grants of a conversation, so that it asks again."""
        await self._database.execute(
            "DELETE FROM rules WHERE owner = ? AND conversation_id = ?", owner, conversation_id
        )


def rules_of(db: sqlite3.Connection, owner: str, conversation_id: str) -> list[Grant]:
    """Within a transaction: the grants of a conversation."""
    rows = db.execute(
        "SELECT tool, notebook, kernel FROM rules WHERE owner = ? AND conversation_id = ?"
        " AND is_here(root) ORDER BY tool, notebook",
        (owner, conversation_id),
    )
    return [Grant(tool=row["tool"], notebook=row["notebook"], kernel=row["kernel"]) for row in rows]


@dataclass(frozen=True)
class AnswerGiven:
    """A person answered a question."""

    approval_id: str
    answer: Answer


@dataclass(frozen=True)
class QuestionClosed:
    """A question was not answered in time, or needs no answer any more."""

    approval_id: str


@dataclass(frozen=True)
class GrantAdded:
    """A new grant for the turn's conversation."""

    grant: Grant


@dataclass(frozen=True)
class GrantBound:
    """A grant from before a kernel was running is bound to the kernel that started."""

    grant: Grant


ApprovalEntry: TypeAlias = Approval | AnswerGiven | QuestionClosed | GrantAdded | GrantBound


def project(db: sqlite3.Connection, turn_id: str, entry: ApprovalEntry) -> None:
    """Within a transaction: apply an entry of a turn's log to questions and grants."""
    match entry:
        case Approval():
            db.execute(
                "INSERT INTO approvals (id, turn_id, call_id, approval, binding, state, expires)"
                " VALUES (?, ?, ?, ?, ?, 'pending', ?)",
                (
                    entry.id,
                    turn_id,
                    entry.call_id,
                    json.dumps(entry.describe()),
                    entry.binding,
                    entry.expires.isoformat(),
                ),
            )
        case AnswerGiven(answer=answer):
            state = "approved" if answer.approved else "denied"
            db.execute(
                "UPDATE approvals SET state = ?, reason = ?, answered = ? WHERE id = ?",
                (state, answer.reason, now(), entry.approval_id),
            )
        case QuestionClosed():
            db.execute(
                "UPDATE approvals SET state = 'expired', answered = ?"
                " WHERE id = ? AND state = 'pending'",
                (now(), entry.approval_id),
            )
        case GrantAdded(grant=grant):
            db.execute(
                "INSERT INTO rules (owner, conversation_id, tool, notebook, kernel, made, root)"
                " SELECT owner, conversation_id, ?, ?, ?, ?, root FROM turns WHERE id = ?"
                " ON CONFLICT DO UPDATE SET root = excluded.root, kernel = excluded.kernel",
                (grant.tool, grant.notebook, grant.kernel, now(), turn_id),
            )
        case GrantBound(grant=grant):  # a grant that was dropped since stays dropped
            db.execute(
                "UPDATE rules SET kernel = ? FROM turns WHERE turns.id = ? AND rules.kernel = ''"
                " AND (rules.owner, rules.conversation_id) = (turns.owner, turns.conversation_id)"
                " AND rules.tool = ? AND rules.notebook = ?",
                (grant.kernel, turn_id, grant.tool, grant.notebook),
            )
