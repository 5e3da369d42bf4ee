"""Questions that turns asked, what was answered, and the rules of "always allow here"."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Grant
from jupyter_agent.conversations.database import Database, now


class ApprovalStore:
    """The approvals of all turns, to be read; the log of a turn writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pending(self, turn_id: str) -> list[dict[str, Any]]:
        """docs/api.md's approval objects of a turn that wait for an answer."""
        rows = await self._database.rows(
            "SELECT approval FROM approvals WHERE turn_id = ? AND state = 'pending' ORDER BY rowid",
            turn_id,
        )
        return [json.loads(row["approval"]) for row in rows]

    async def state(self, turn_id: str, approval_id: str) -> str | None:
        """`pending`, `approved`, `denied` or `expired`; None for one that was never asked there."""
        row = await self._database.row(
            "SELECT state FROM approvals WHERE turn_id = ? AND id = ?", turn_id, approval_id
        )
        return str(row["state"]) if row else None


class RuleStore:
    """The rules of every conversation; the administrator's are not among them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, owner: str, conversation_id: str) -> list[Grant]:
        """What was granted in a conversation."""
        return await self._database.run(lambda db: rules_of(db, owner, conversation_id))

    async def forget(self, owner: str, conversation_id: str) -> None:
        """Asks again from now on."""
        await self._database.execute(
            "DELETE FROM rules WHERE owner = ? AND conversation_id = ?", owner, conversation_id
        )


def rules_of(db: sqlite3.Connection, owner: str, conversation_id: str) -> list[Grant]:
    """Within a transaction: what was granted in a conversation."""
    rows = db.execute(
        "SELECT tool, notebook, kernel FROM rules WHERE owner = ? AND conversation_id = ?"
        " AND is_here(root) ORDER BY tool, notebook",
        (owner, conversation_id),
    )
    return [Grant(tool=row["tool"], notebook=row["notebook"], kernel=row["kernel"]) for row in rows]


def bind_rules(db: sqlite3.Connection, turn_id: str, grants: Sequence[Grant]) -> None:
    """Within a transaction: what was granted while no kernel ran is for the one that started.

    What was taken back meanwhile stays so.
    """
    db.executemany(
        "UPDATE rules SET kernel = ? FROM turns WHERE turns.id = ? AND rules.kernel = ''"
        " AND (rules.owner, rules.conversation_id) = (turns.owner, turns.conversation_id)"
        " AND rules.tool = ? AND rules.notebook = ?",
        [(grant.kernel, turn_id, grant.tool, grant.notebook) for grant in grants],
    )


def add_questions(db: sqlite3.Connection, turn_id: str, approvals: Sequence[Approval]) -> None:
    """Within a transaction: keeps questions, before anybody is asked."""
    db.executemany(
        "INSERT INTO approvals (id, turn_id, call_id, approval, binding, state, expires)"
        " VALUES (?, ?, ?, ?, ?, 'pending', ?)",
        [
            (
                approval.id,
                turn_id,
                approval.call_id,
                json.dumps(approval.describe()),
                approval.binding,
                approval.expires.isoformat(),
            )
            for approval in approvals
        ],
    )


def add_answers(db: sqlite3.Connection, answers: Mapping[str, Answer]) -> None:
    """Within a transaction: keeps answers, by the ids of their questions."""
    time = now()
    db.executemany(
        "UPDATE approvals SET state = ?, reason = ?, answered = ? WHERE id = ?",
        [
            ("approved" if answer.approved else "denied", answer.reason, time, approval_id)
            for approval_id, answer in answers.items()
        ],
    )


def expire(db: sqlite3.Connection, approval_ids: Sequence[str]) -> None:
    """Within a transaction: nobody answered these in time."""
    time = now()
    db.executemany(
        "UPDATE approvals SET state = 'expired', answered = ? WHERE id = ? AND state = 'pending'",
        [(time, approval_id) for approval_id in approval_ids],
    )


def add_rules(db: sqlite3.Connection, turn_id: str, grants: Sequence[Grant]) -> None:
    """Within a transaction: these are granted in the turn's conversation."""
    time = now()
    db.executemany(
        "INSERT INTO rules (owner, conversation_id, tool, notebook, kernel, made, root)"
        " SELECT owner, conversation_id, ?, ?, ?, ?, root FROM turns WHERE id = ?"
        " ON CONFLICT DO UPDATE SET root = excluded.root, kernel = excluded.kernel",
        [(grant.tool, grant.notebook, grant.kernel, time, turn_id) for grant in grants],
    )
