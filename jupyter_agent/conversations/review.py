"""What people have and have not reviewed of what turns did, from the journal and the audit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

_MOST_CELLS = 20
"""Named in one sentence for a model."""


def pending(db: sqlite3.Connection, notebook: str, owner: str) -> list[dict[str, Any]]:
    """The changes of an owner's turns in a notebook that are neither kept nor taken back, in the
    order in which they were made: API.md's Change objects with `turn_id` and without outputs.
    """
    rows = db.execute(
        """
        SELECT changes.* FROM changes JOIN turns ON turns.id = changes.turn_id
        WHERE changes.notebook = ? AND turns.owner = ? AND changes.kind != 'outputs'
            AND NOT changes.reviewed AND NOT changes.undone
        ORDER BY changes.id
        """,
        (notebook, owner),
    )
    return [
        {
            "turn_id": row["turn_id"],
            "notebook": row["notebook"],
            "cell_id": row["cell_id"],
            "call_id": row["call_id"],
            "kind": row["kind"],
            "before": _without_outputs(row["before"]),
            "after": _without_outputs(row["after"]),
            "reviewed": False,
            "undone": False,
            "conflict": row["conflict"],
        }
        for row in rows
    ]


def verdicts(db: sqlite3.Connection, owner: str, conversation_id: str, turn_id: str) -> list[str]:
    """What a model is told at the beginning of a turn of what people did with its changes: what
    they took back since the turn before, and what they have not reviewed yet.
    """
    undone = db.execute(
        """
        SELECT DISTINCT audit.notebook, audit.cell_id
        FROM audit JOIN turns ON turns.id = audit.turn_id
        WHERE turns.owner = ?1 AND turns.conversation_id = ?2
            AND audit.tool = 'undo' AND audit.outcome = 'done' AND audit.time >= (
                SELECT max(started) FROM turns
                WHERE owner = ?1 AND conversation_id = ?2 AND id != ?3)
        ORDER BY audit.id
        """,
        (owner, conversation_id, turn_id),
    ).fetchall()
    open_ = db.execute(
        """
        SELECT DISTINCT changes.notebook, changes.cell_id
        FROM changes JOIN turns ON turns.id = changes.turn_id
        WHERE turns.owner = ? AND turns.conversation_id = ? AND changes.kind != 'outputs'
            AND NOT changes.reviewed AND NOT changes.undone
        ORDER BY changes.id
        """,
        (owner, conversation_id),
    ).fetchall()
    return [
        sentence.format(cells=_named(rows))
        for sentence, rows in (
            ("The person took back your changes to {cells}.", undone),
            ("In the notebook, not reviewed by the person yet: your changes to {cells}.", open_),
        )
        if rows
    ]


def _named(rows: Sequence[sqlite3.Row]) -> str:
    cells = [f"`{row['cell_id']}` in {row['notebook']}" for row in rows[:_MOST_CELLS]]
    more = [f"{len(rows) - _MOST_CELLS} more"] if len(rows) > _MOST_CELLS else []
    return "cell " + ", ".join(cells + more)


def _without_outputs(side: str) -> dict[str, Any] | None:
    state: dict[str, Any] | None = json.loads(side)
    return state and {**state, "outputs": []}
