"""The audit: who decided or did what to which cell, when, and with which outcome.

An entry never changes, and stays when its conversation is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from jupyter_agent.agent.approval import Answer, Approval, Remember
from jupyter_agent.agent.attempt import Audit
from jupyter_agent.conversations.database import Database, StoredPath, now, paths_table
from jupyter_agent.tools.sources import server_of

_REMEMBERED: Mapping[Remember, str] = {
    "conversation": " From now on it is not asked here.",
    "turn": " Edits are not asked about for the rest of the turn.",
}

EntryPoint: TypeAlias = Literal["chat", "tools", "mcp", "person"]
"""A model's call in a turn, a call over REST or MCP, or a person's own action."""


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One entry, without its time."""

    owner: str
    entry: EntryPoint
    tool: str
    """The tool; `undo` or `accept` for a person's own action."""
    decision: str
    outcome: str
    """`done`, `failed`, `refused`, `stopped`; `answered` for an answer to a question."""
    turn_id: str | None = None
    call_id: str | None = None
    notebook: str | None = None
    cell_id: str | None = None
    why: str | None = None


class AuditLog:
    """The audit of all owners."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entries: Iterable[AuditEntry]) -> None:
        """Store entries."""
        await self._database.run(lambda db: add_entries(db, entries))

    async def of_turn(self, turn_id: str) -> list[dict[str, Any]]:
        """The entries of a turn and of later actions on it, in order."""
        return await self._database.run(lambda db: entries(db, turn_id=turn_id))


def entry_of(call: Audit, entry: EntryPoint) -> AuditEntry:
    """The entry for a call over that entry point."""
    return AuditEntry(
        owner=call.work.user,
        entry=entry,
        turn_id=call.work.turn_id,
        call_id=call.call_id,
        tool=call.act.tool,
        notebook=call.act.notebook,
        cell_id=_cell_of(call),
        decision=f"{call.decision.verdict}: {call.decision.reason}",
        outcome=call.outcome,
        why=call.why or None,
    )


def _cell_of(call: Audit) -> str | None:
    """The cell of the call, if it is exactly one; MCP tools have their own fields."""
    if server_of(call.act.tool) is not None:
        return None
    edits = call.input.get("edits") or ()
    named = [call.input, *edits]
    ids = {*(each.get("cell_id") for each in named), *(call.input.get("cell_ids") or ())} - {None}
    return next(iter(ids)) if len(ids) == 1 else None


def answer_entry(turn_id: str, owner: str, approval: Approval, answer: Answer) -> AuditEntry:
    """The entry for a person's answer to a question."""
    always = _REMEMBERED[answer.remember] if answer.remember else ""
    return AuditEntry(
        owner=owner,
        entry="person",
        turn_id=turn_id,
        call_id=approval.call_id,
        tool=approval.tool,
        notebook=approval.notebook,
        cell_id=approval.question.cell_id,
        decision=f"The user {'allowed' if answer.approved else 'declined'} it.{always}",
        outcome="answered",
        why=answer.reason or None,
    )


def add_entries(db: sqlite3.Connection, entries: Iterable[AuditEntry]) -> None:
    """Within a transaction: store entries, with the model of their turn."""
    time = now()
    db.executemany(
        """
        INSERT INTO audit (time, owner, entry, turn_id, call_id, model, tool, notebook,
            cell_id, decision, outcome, why)
        VALUES (:time, :owner, :entry, :turn_id, :call_id,
            (SELECT json_extract(request, '$.model') FROM turns WHERE id = :turn_id),
            :tool, :notebook, :cell_id, :decision, :outcome, :why)
        """,
        [{"time": time, **vars(entry)} for entry in entries],
    )


def entries(
    db: sqlite3.Connection,
    *,
    paths: Sequence[StoredPath] | None = None,
    turn_id: str | None = None,
) -> list[dict[str, Any]]:
    """The entries of a turn, or of a notebook by the paths that it may have, or all entries; the
    oldest first. The root of a call without a turn, or of a deleted turn, is unknown.
    """
    if paths is None:
        where = "SELECT * FROM audit WHERE ?1 IS NULL OR turn_id = ?1 ORDER BY id"
        return [dict(row) for row in db.execute(where, (turn_id,))]
    table, values = paths_table(paths)
    rows = db.execute(
        f"{table} SELECT audit.* FROM audit JOIN paths ON paths.path = audit.notebook"
        " LEFT JOIN turns ON turns.id = audit.turn_id"
        " WHERE is_at(paths.root, turns.root) AND (? IS NULL OR turn_id = ?) ORDER BY audit.id",
        (*values, turn_id, turn_id),
    )
    return [dict(row) for row in rows]
