"""Provenance, from the journal: which turn, model and request last changed each cell's text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jupyter_agent.document.cell import version_of


@dataclass(frozen=True, kw_only=True)
class CellText:
    """A cell as it is now, as far as it matters here."""

    id: str
    type: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Blame:
    """Who last changed a cell; all None where no turn did, or where the journal is gone."""

    cell_id: str
    index: int
    turn_id: str | None = None
    conversation_id: str | None = None
    user: str | None = None
    model: str | None = None
    time: str | None = None
    request: str | None = None
    """What was asked; only the user's own requests are told."""
    reviewed: bool = False
    """A person accepted it."""
    changed_since: bool = False
    """Somebody has changed the cell since: a person, or another program."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def blame(
    db: sqlite3.Connection, paths: Sequence[str], cells: Sequence[CellText], owner: str | None
) -> list[Blame]:
    """One for each cell. `paths`: under which the journal may have the notebook; `owner`: whose
    requests are told, None for everybody's.
    """
    marks = ", ".join("?" * len(paths))
    rows = db.execute(
        f"""
        SELECT changes.*, turns.owner, turns.conversation_id, turns.request, turns.question
        FROM changes JOIN turns ON turns.id = changes.turn_id
        WHERE changes.id IN (
            SELECT max(id) FROM changes
            WHERE notebook IN ({marks}) AND kind IN ('insert', 'update') AND NOT undone
            GROUP BY cell_id)
        ORDER BY changes.id
        """,
        paths,
    )
    latest = {row["cell_id"]: row for row in rows}
    return [_of_cell(cell, index, latest.get(cell.id), owner) for index, cell in enumerate(cells)]


def _of_cell(cell: CellText, index: int, row: sqlite3.Row | None, owner: str | None) -> Blame:
    if row is None:
        return Blame(cell_id=cell.id, index=index)
    after = json.loads(row["after"])
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
