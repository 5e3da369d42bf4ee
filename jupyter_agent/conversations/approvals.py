"""Questions that turns asked, what was answered, and the rules of "always allow here"."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from glob import escape
from typing import Any

from jupyter_agent.agent.approval import Answer, Approval, Remember
from jupyter_agent.agent.permissions import Rule
from jupyter_agent.conversations.audit import Deed
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.store import TurnRecord

_REMEMBERED: Mapping[Remember, str] = {
    "conversation": " From now on it is not asked here.",
    "turn": " Edits are not asked about in what is left of the turn.",
}


class ApprovalStore:
    """The approvals of all turns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, turn_id: str, approvals: Sequence[Approval]) -> None:
        """Keeps questions, before anybody is asked."""
        rows = [
            (
                approval.id,
                turn_id,
                approval.call_id,
                json.dumps(approval.describe()),
                approval.binding,
                approval.expires.isoformat(),
            )
            for approval in approvals
        ]
        await self._database.run(
            lambda db: db.executemany(
                "INSERT INTO approvals (id, turn_id, call_id, approval, binding, state, expires)"
                " VALUES (?, ?, ?, ?, ?, 'pending', ?)",
                rows,
            )
        )

    async def answer(self, answers: Mapping[str, Answer]) -> None:
        """Keeps what was said, by the ids of the questions."""
        time = now()
        rows = [
            ("approved" if answer.approved else "denied", answer.reason, time, approval_id)
            for approval_id, answer in answers.items()
        ]
        await self._database.run(
            lambda db: db.executemany(
                "UPDATE approvals SET state = ?, reason = ?, answered = ? WHERE id = ?", rows
            )
        )

    async def expire(self, approval_ids: Sequence[str]) -> None:
        """Nobody answered these in time."""
        time = now()
        await self._database.run(
            lambda db: db.executemany(
                "UPDATE approvals SET state = 'expired', answered = ? WHERE id = ?"
                " AND state = 'pending'",
                [(time, approval_id) for approval_id in approval_ids],
            )
        )

    async def pending(self, turn_id: str) -> list[dict[str, Any]]:
        """API.md's approval objects of a turn that wait for an answer."""
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


def said(turn: TurnRecord, approval: Approval, answer: Answer) -> Deed:
    """A person's answer to a question, for the audit."""
    always = _REMEMBERED[answer.remember] if answer.remember else ""
    return Deed(
        owner=turn.owner,
        entry="person",
        turn_id=turn.id,
        call_id=approval.call_id,
        tool=approval.tool,
        notebook=approval.notebook,
        cell_id=approval.question.cell_id,
        decision=f"The user {'allowed' if answer.approved else 'declined'} it.{always}",
        outcome="answered",
        why=answer.reason or None,
    )


class RuleStore:
    """The rules of every conversation; the administrator's are not among them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, owner: str, conversation_id: str) -> list[tuple[str, str]]:
        """(tool, path of the notebook) of each."""
        rows = await self._database.rows(
            "SELECT tool, notebook FROM rules WHERE owner = ? AND conversation_id = ?"
            " ORDER BY tool, notebook",
            owner,
            conversation_id,
        )
        return [(row["tool"], row["notebook"]) for row in rows]

    async def add(self, owner: str, conversation_id: str, tool: str, notebook: str) -> None:
        """From now on this tool needs no answer for this notebook in this conversation."""
        await self._database.execute(
            "INSERT INTO rules (owner, conversation_id, tool, notebook, made)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            owner,
            conversation_id,
            tool,
            notebook,
            now(),
        )

    async def forget(self, owner: str, conversation_id: str) -> None:
        """Asks again from now on."""
        await self._database.execute(
            "DELETE FROM rules WHERE owner = ? AND conversation_id = ?", owner, conversation_id
        )


def allowing(tool: str, notebook: str) -> Rule:
    """The rule for exactly that tool and that notebook."""
    return Rule(verdict="allow", tool=escape(tool), notebook=escape(notebook))
