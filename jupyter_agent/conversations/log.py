"""What is written of a turn as it happens: its events, no larger than a client can take, and what
they say of calls.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jupyter_agent.conversations.database import now
from jupyter_agent.events import CallOutput, CellsChanged, Event

EVENT_LIMIT = 1_000_000
"""Characters of JSON of one event that tells outputs: a client reads it whole, each time anew."""

_LONGEST = (100_000, 10_000, 1_000, 0)
"""Characters of a single output, tried one after the other; with 0 all are left out."""


def capped(event: Event) -> Event:
    """The event, without the longest texts of its outputs where it is too large.

    `GET runs/{id}` and `GET turns/{id}/changes` give them whole; what was left out says so.
    """
    if isinstance(event, CallOutput):
        return replace(event, output=_fitting(event.output))
    if isinstance(event, CellsChanged):
        return replace(event, changes=tuple(_fitting(event.changes)))
    return event


def _fitting(value: Any) -> Any:
    if _size(value) <= EVENT_LIMIT:
        return value
    for longest in _LONGEST:
        fitting = _without(value, longest)
        if _size(fitting) <= EVENT_LIMIT:
            break
    return fitting


def _without(value: Any, longest: int) -> Any:
    """The value with no longer outputs; all else of it is left alone."""
    if isinstance(value, Mapping):
        return {
            key: _outputs(item, longest) if key == "outputs" else _without(item, longest)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without(item, longest) for item in value]
    return value


def _outputs(outputs: Sequence[Any], longest: int) -> list[Any]:
    if not longest:
        return [_note(_size(outputs))] if outputs else []
    return [output if (size := _size(output)) <= longest else _note(size) for output in outputs]


def _note(size: int) -> dict[str, Any]:
    text = f"[Outputs of {size:,} characters: see the cell.]"
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def _size(value: Any) -> int:
    return len(json.dumps(value))


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
