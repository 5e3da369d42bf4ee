"""The tool calls of turns, kept from what is told of them: each ends in exactly one way."""

from __future__ import annotations

import json
import sqlite3

from jupyter_agent.conversations.database import now
from jupyter_agent.events import Event


def keep_call(db: sqlite3.Connection, turn_id: str, event: Event) -> None:
    """Notes what the event says of a call: that it began, or how it ended."""
    match event.type:
        case "call_ready":
            _begin(db, turn_id, event.call_id, event.tool, json.dumps(event.input))
        case "call_invalid":
            _begin(db, turn_id, event.call_id, event.tool, json.dumps(event.input))
            _end(db, turn_id, event.call_id, "failed", json.dumps(event.error))
        case "call_output" if not event.preliminary:
            _end(db, turn_id, event.call_id, "done", json.dumps(event.output))
        case "call_failed":
            _end(db, turn_id, event.call_id, "failed", json.dumps(event.error))
        case "call_denied":
            _end(db, turn_id, event.call_id, "refused", None)


def close_calls(db: sqlite3.Connection, turn_id: str) -> None:
    """The turn is over: of a call that has no end, nobody knows whether it was done.

    One that waited for an answer was not; it counts as refused.
    """
    db.execute(
        """
        UPDATE calls SET ended = ?1, state = CASE WHEN EXISTS (
            SELECT 1 FROM approvals a WHERE a.turn_id = calls.turn_id
            AND a.call_id = calls.call_id AND a.state = 'pending'
        ) THEN 'refused' ELSE 'unknown' END
        WHERE turn_id = ?2 AND state = 'started'
        """,
        (now(), turn_id),
    )


def _begin(db: sqlite3.Connection, turn_id: str, call_id: str, tool: str, input: str) -> None:
    db.execute(
        "INSERT INTO calls (turn_id, call_id, tool, input, state, started)"
        " VALUES (?, ?, ?, ?, 'started', ?) ON CONFLICT DO NOTHING",
        (turn_id, call_id, tool, input, now()),
    )


def _end(
    db: sqlite3.Connection, turn_id: str, call_id: str, state: str, result: str | None
) -> None:
    db.execute(
        "UPDATE calls SET state = ?, result = coalesce(?, result), ended = ?"
        " WHERE turn_id = ? AND call_id = ?",
        (state, result, now(), turn_id, call_id),
    )
