"""The journal: every change that turns made to cells, with before and after."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.conversations.blame import Blame, CellText, blame
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.review import pending, verdicts
from jupyter_agent.document.cell import Change


@dataclass(frozen=True)
class Entry:
    """A change and its number in the journal."""

    id: int
    change: Change


class Journal:
    """Reads and marks the changes of turns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, turn_id: str, call_id: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Keeps what a call changed; `changes` are API.md's Change objects."""
        await self._database.run(lambda db: add_changes(db, turn_id, call_id, changes))

    async def of_turn(self, turn_id: str) -> list[Entry]:
        """The changes of a turn in the order in which they were made."""
        rows = await self._database.rows(
            "SELECT * FROM changes WHERE turn_id = ? ORDER BY id", turn_id
        )
        return [Entry(row["id"], _change(row)) for row in rows]

    async def blame(self, notebook: str, cells: Sequence[CellText], owner: str) -> list[Blame]:
        """Who last changed each of these cells."""
        return await self._database.run(lambda db: blame(db, [notebook], cells, owner))

    async def pending(self, notebook: str, owner: str) -> list[dict[str, Any]]:
        """What an owner's turns changed in a notebook and nobody has kept or taken back."""
        return await self._database.run(lambda db: pending(db, notebook, owner))

    async def verdicts(self, owner: str, conversation_id: str, turn_id: str) -> list[str]:
        """What a model is told of the review of its changes when that turn begins."""
        return await self._database.run(lambda db: verdicts(db, owner, conversation_id, turn_id))

    async def mark_undone(self, ids: Sequence[int]) -> None:
        """These were taken back."""
        await self._mark("undone = 1, conflict = NULL", ids)

    async def mark_reviewed(self, ids: Sequence[int]) -> None:
        """A person looked at these and keeps them."""
        await self._mark("reviewed = 1", ids)

    async def mark_conflict(self, ids: Sequence[int], why: str) -> None:
        """These could not be taken back, and why."""
        await self._database.run(
            lambda db: db.executemany(
                "UPDATE changes SET conflict = ? WHERE id = ?", [(why, id) for id in ids]
            )
        )

    async def _mark(self, what: str, ids: Sequence[int]) -> None:
        await self._database.run(
            lambda db: db.executemany(
                f"UPDATE changes SET {what} WHERE id = ?", [(id,) for id in ids]
            )
        )


def add_changes(
    db: sqlite3.Connection, turn_id: str, call_id: str, changes: Sequence[Mapping[str, Any]]
) -> None:
    """Within a transaction: what a call changed; `changes` are API.md's Change objects."""
    time = now()
    db.executemany(
        "INSERT INTO changes (turn_id, call_id, notebook, cell_id, kind, before, after, made)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                turn_id,
                call_id,
                change["notebook"],
                change["cell_id"],
                change["kind"],
                json.dumps(change["before"]),
                json.dumps(change["after"]),
                time,
            )
            for change in changes
        ],
    )


def _change(row: sqlite3.Row) -> Change:
    return Change.from_json(
        {
            **dict(row),
            "before": json.loads(row["before"]),
            "after": json.loads(row["after"]),
            "reviewed": bool(row["reviewed"]),
            "undone": bool(row["undone"]),
        }
    )
