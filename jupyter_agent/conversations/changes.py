"""The journal of all changes that turns made to cells, with each cell before and after: who changed
a cell last, and which changes people have reviewed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from jupyter_agent.conversations import blocks
from jupyter_agent.conversations.database import Database, StoredPath, now, paths_table
from jupyter_agent.document.cell import Change, version_of
from jupyter_agent.legible import quoted, quoted_id


@dataclass(frozen=True)
class JournalEntry:
    """A change and its number in the journal."""

    id: int
    change: Change


@dataclass(frozen=True)
class Author:
    """The author of a change."""

    conversation_id: str | None
    """None for a turn of another person."""
    model: str | None
    """The model, or the name of the client; None for unknown."""


class Journal:
    """Reads the changes of turns; their logs write them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_turn(self, turn_id: str) -> list[JournalEntry]:
        """The changes of a turn in the order in which they were made."""

        def read(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute("SELECT * FROM changes WHERE turn_id = ? ORDER BY id", (turn_id,))
            return [JournalEntry(row["id"], _change(db, row)) for row in rows]

        return await self._database.run(read)

    async def blame(self, notebook: str, cells: Sequence[CellText], owner: str) -> list[Blame]:
        """Who last changed each of these cells."""
        paths = [StoredPath(self._database.root, notebook)]
        return await self._database.run(lambda db: blame(db, paths, cells, owner))

    async def authors(self, turn_ids: Sequence[str]) -> dict[str, Author]:
        """The authors of these turns, as far as the store has the turns."""
        if not turn_ids:
            return {}
        marks = ", ".join("?" * len(turn_ids))
        rows = await self._database.rows(
            f"SELECT id, conversation_id, request FROM turns WHERE id IN ({marks})", *turn_ids
        )
        return {
            row["id"]: Author(row["conversation_id"], json.loads(row["request"]).get("model"))
            for row in rows
        }

    async def pending(self, notebook: str, owner: str) -> list[dict[str, Any]]:
        """An owner's changes in a notebook that have been neither kept nor undone."""
        return await self._database.run(lambda db: pending(db, notebook, owner))

    async def verdicts(self, owner: str, conversation_id: str, turn_id: str) -> list[str]:
        """Sentences for the model about the review of its changes, for the start of that turn."""
        return await self._database.run(lambda db: verdicts(db, owner, conversation_id, turn_id))


@dataclass(frozen=True, kw_only=True)
class ChangesMade:
    """Changes by a call, as docs/api.md's Change objects; may come after the end of the turn."""

    call_id: str
    changes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ChangesUndone:
    """These changes were undone; `ids` are their numbers in the journal."""

    ids: Sequence[int]


@dataclass(frozen=True)
class ChangesReviewed:
    """A person reviewed these changes and keeps them."""

    ids: Sequence[int]


@dataclass(frozen=True)
class ChangesInConflict:
    """These changes could not be undone."""

    ids: Sequence[int]
    why: str


ChangesEntry: TypeAlias = ChangesMade | ChangesUndone | ChangesReviewed | ChangesInConflict


def project(db: sqlite3.Connection, turn_id: str, entry: ChangesEntry) -> None:
    """Within a transaction: apply an entry of a turn's log to the changes."""
    match entry:
        case ChangesMade():
            _add(db, turn_id, entry.call_id, entry.changes)
        case ChangesUndone():
            _mark(db, entry.ids, "undone = 1, conflict = NULL")
        case ChangesReviewed():
            _mark(db, entry.ids, "reviewed = 1")
        case ChangesInConflict():
            _mark(db, entry.ids, "conflict = ?", entry.why)


def _mark(db: sqlite3.Connection, ids: Sequence[int], what: str, *values: str) -> None:
    db.executemany(f"UPDATE changes SET {what} WHERE id = ?", [(*values, id) for id in ids])


def _add(
    db: sqlite3.Connection, turn_id: str, call_id: str, changes: Sequence[Mapping[str, Any]]
) -> None:
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
                blocks.pack(db, turn_id, change["before"]),
                blocks.pack(db, turn_id, change["after"]),
                time,
            )
            for change in changes
        ],
    )


def _change(db: sqlite3.Connection, row: sqlite3.Row) -> Change:
    return Change.from_json(
        {
            **dict(row),
            "before": blocks.unpack(db, row["before"]),
            "after": blocks.unpack(db, row["after"]),
            "reviewed": bool(row["reviewed"]),
            "undone": bool(row["undone"]),
        }
    )


@dataclass(frozen=True, kw_only=True)
class CellText:
    """The current text of a cell."""

    id: str
    type: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Blame:
    """Who last changed a cell; all None if no turn did, or if the journal was lost."""

    cell_id: str
    index: int
    turn_id: str | None = None
    conversation_id: str | None = None
    user: str | None = None
    model: str | None = None
    time: str | None = None
    request: str | None = None
    """The question of the turn; only for the user's own turns."""
    reviewed: bool = False
    """Whether a person accepted it."""
    changed_since: bool = False
    """Whether a person or another program has changed the cell since."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def blame(
    db: sqlite3.Connection,
    paths: Sequence[StoredPath],
    cells: Sequence[CellText],
    owner: str | None,
) -> list[Blame]:
    """The blame of each cell. `paths`: the paths under which the journal may have the notebook;
    `owner`: whose requests to include, None for everyone's.
    """
    table, values = paths_table(paths)
    rows = db.execute(
        f"""
        {table} SELECT changes.*, turns.owner, turns.conversation_id, turns.request, turns.question
        FROM changes JOIN turns ON turns.id = changes.turn_id
        WHERE changes.id IN (
            SELECT max(changes.id) FROM paths JOIN changes ON changes.notebook = paths.path
            JOIN turns ON turns.id = changes.turn_id
            WHERE changes.kind IN ('insert', 'update') AND NOT changes.undone
                AND is_at(paths.root, turns.root)
            GROUP BY changes.cell_id)
        ORDER BY changes.id
        """,
        values,
    )
    latest = {row["cell_id"]: row for row in rows}
    return [
        _of_cell(db, cell, index, latest.get(cell.id), owner) for index, cell in enumerate(cells)
    ]


def _of_cell(
    db: sqlite3.Connection,
    cell: CellText,
    index: int,
    row: sqlite3.Row | None,
    owner: str | None,
) -> Blame:
    if row is None:
        return Blame(cell_id=cell.id, index=index)
    after = blocks.unpack(db, row["after"])
    own = owner in (None, row["owner"])
    return Blame(
        cell_id=cell.id,
        index=index,
        turn_id=row["turn_id"] if own else None,
        conversation_id=row["conversation_id"] if own else None,
        user=row["owner"],
        model=json.loads(row["request"]).get("model"),
        time=row["made"],
        request=_text(json.loads(row["question"])) if own else None,
        reviewed=bool(row["reviewed"]),
        changed_since=version_of(cell.type, cell.source)
        != version_of(after["type"], after["source"]),
    )


def _text(question: Mapping[str, Any]) -> str:
    """The words of a user's message."""
    parts = question.get("parts", ())
    return "\n".join(part["text"] for part in parts if part.get("type") == "text")


_MOST_CELLS = 20
"""Cells named in one sentence for a model."""


def pending(db: sqlite3.Connection, notebook: str, owner: str) -> list[dict[str, Any]]:
    """The changes of an owner's turns in a notebook that are neither kept nor undone, in the order
    in which they were made: docs/api.md's Change objects with `turn_id` and without outputs.
    """
    rows = db.execute(
        """
        SELECT changes.* FROM changes JOIN turns ON turns.id = changes.turn_id
        WHERE changes.notebook = ? AND turns.owner = ? AND changes.kind != 'outputs'
            AND is_here(turns.root)
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
            "before": _without_outputs(db, row["before"]),
            "after": _without_outputs(db, row["after"]),
            "reviewed": False,
            "undone": False,
            "conflict": row["conflict"],
        }
        for row in rows
    ]


def verdicts(db: sqlite3.Connection, owner: str, conversation_id: str, turn_id: str) -> list[str]:
    """Sentences for the model at the start of a turn about its changes: those that people have
    undone since the last turn, and those that they have not reviewed yet.
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
        sentence.format(cells=_cell_list(rows))
        for sentence, rows in (
            ("The person took back your changes to {cells}.", undone),
            ("In the notebook, not reviewed by the person yet: your changes to {cells}.", open_),
        )
        if rows
    ]


def _cell_list(rows: Sequence[sqlite3.Row]) -> str:
    cells = [
        f"`{quoted_id(row['cell_id'])}` in {quoted(row['notebook'])}" for row in rows[:_MOST_CELLS]
    ]
    more = [f"{len(rows) - _MOST_CELLS} more"] if len(rows) > _MOST_CELLS else []
    return "cell " + ", ".join(cells + more)


def _without_outputs(db: sqlite3.Connection, side: str) -> dict[str, Any] | None:
    state: dict[str, Any] | None = blocks.unpack(db, side)
    return state and {**state, "outputs": []}
