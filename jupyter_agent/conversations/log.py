"""The log of a turn: everything that happens in the turn, and to it, is appended here.

The tables of its history, calls, changes, questions, requests, steps and usage are projected from
the entries as they are written, and from nothing else.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.conversations import approvals, blocks, changes, requests
from jupyter_agent.conversations.approvals import ApprovalEntry
from jupyter_agent.conversations.audit import AuditEntry, add_entries
from jupyter_agent.conversations.changes import ChangesEntry, ChangesMade
from jupyter_agent.conversations.database import now
from jupyter_agent.conversations.requests import SentRequest
from jupyter_agent.events import CallOutput, CellsChanged, Event, Usage, to_json

TurnState: TypeAlias = Literal["running", "waiting", "done", "stopped", "failed", "interrupted"]

EVENT_LIMIT = 1_000_000
"""Characters of JSON of one event with outputs, which a client always reads as a whole."""

_LONGEST = (100_000, 10_000, 1_000, 0)
"""Limits for the characters of a single output, tried in order; 0 leaves out all outputs."""


@dataclass(frozen=True)
class UsageAdded:
    """Further usage of a turn that is over."""

    usage: Usage


@dataclass(frozen=True)
class StateChanged:
    """The turn runs again, or waits for a person."""

    state: TurnState


@dataclass(frozen=True)
class TurnEnded:
    """The turn is over."""

    state: TurnState
    stop_reason: str


LogEntry: TypeAlias = (
    Event
    | MessageAdded
    | SentRequest
    | AuditEntry
    | ApprovalEntry
    | ChangesEntry
    | UsageAdded
    | StateChanged
    | TurnEnded
)
"""Events are stored as they are, by number; of other entries only their projections are stored."""


def write(
    db: sqlite3.Connection, turn_id: str, entries: Iterable[LogEntry], after: int = 0
) -> None:
    """Within a transaction: append to the log of a turn, which has `after` events so far."""
    seq = after
    for entry in entries:
        if isinstance(entry, Event):
            seq += 1
            db.execute(
                "INSERT INTO events (turn_id, seq, event) VALUES (?, ?, ?)",
                (turn_id, seq, blocks.pack(db, turn_id, to_json(cap_event(entry)))),
            )
            _project(db, turn_id, entry)
        elif isinstance(entry, ApprovalEntry):
            approvals.project(db, turn_id, entry)
        elif isinstance(entry, ChangesEntry):
            changes.project(db, turn_id, entry)
        elif isinstance(entry, SentRequest):
            requests.project(db, turn_id, entry)
        elif isinstance(entry, AuditEntry):
            add_entries(db, [entry])
        else:
            _write_turn(db, turn_id, entry)


TurnEntry: TypeAlias = MessageAdded | UsageAdded | StateChanged | TurnEnded


def _write_turn(db: sqlite3.Connection, turn_id: str, entry: TurnEntry) -> None:
    match entry:
        case MessageAdded(message=message):
            db.execute(
                "INSERT INTO history (turn_id, role, content) VALUES (?, ?, ?)",
                (turn_id, message["role"], json.dumps(message)),
            )
        case UsageAdded(usage=usage):
            _add_usage(db, turn_id, usage)
        case StateChanged(state=state):
            db.execute("UPDATE turns SET state = ? WHERE id = ?", (state, turn_id))
        case TurnEnded():
            _end(db, turn_id, entry)


def _project(db: sqlite3.Connection, turn_id: str, event: Event) -> None:
    if event.type == "data-changes":
        made = ChangesMade(call_id=event.call_id, changes=event.changes)
        changes.project(db, turn_id, made)
    elif event.type == "message-metadata":
        usage = json.dumps(asdict(event.usage))
        db.execute("UPDATE turns SET usage = ?, steps = steps + 1 WHERE id = ?", (usage, turn_id))
    else:
        _note_call(db, turn_id, event)


def _add_usage(db: sqlite3.Connection, turn_id: str, usage: Usage) -> None:
    row = db.execute("SELECT usage FROM turns WHERE id = ?", (turn_id,)).fetchone()
    total = json.dumps(asdict(Usage(**json.loads(row["usage"])) + usage))
    db.execute("UPDATE turns SET usage = ? WHERE id = ?", (total, turn_id))


def _end(db: sqlite3.Connection, turn_id: str, end: TurnEnded) -> None:
    time = now()
    _close_calls(db, turn_id)
    db.execute(
        "UPDATE turns SET state = ?, stop_reason = ?, ended = ? WHERE id = ?",
        (end.state, end.stop_reason, time, turn_id),
    )
    db.execute(
        "UPDATE approvals SET state = 'expired', answered = ?"
        " WHERE turn_id = ? AND state = 'pending'",
        (time, turn_id),
    )


def _note_call(db: sqlite3.Connection, turn_id: str, event: Event) -> None:
    """Store the start or the outcome of a call, if the event has one."""
    match event.type:
        case "tool-input-available":
            _begin_call(db, turn_id, event.call_id, event.tool, json.dumps(event.input))
        case "tool-input-error":
            _begin_call(db, turn_id, event.call_id, event.tool, json.dumps(event.input))
            _end_call(db, turn_id, event.call_id, "failed", json.dumps(event.error))
        case "tool-output-available" if not event.preliminary:
            _end_call(db, turn_id, event.call_id, "done", json.dumps(event.output))
        case "tool-output-error":
            _end_call(db, turn_id, event.call_id, "failed", json.dumps(event.error))
        case "tool-output-denied":
            _end_call(db, turn_id, event.call_id, "refused", None)


def _close_calls(db: sqlite3.Connection, turn_id: str) -> None:
    """At the end of the turn, set open calls to `unknown`: they may have been done or not.

    Calls that waited for an answer were not done; they count as refused.
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


def _begin_call(db: sqlite3.Connection, turn_id: str, call_id: str, tool: str, input: str) -> None:
    db.execute(
        "INSERT INTO calls (turn_id, call_id, tool, input, state, started)"
        " VALUES (?, ?, ?, ?, 'started', ?) ON CONFLICT DO NOTHING",
        (turn_id, call_id, tool, input, now()),
    )


def _end_call(
    db: sqlite3.Connection, turn_id: str, call_id: str, state: str, result: str | None
) -> None:
    db.execute(
        "UPDATE calls SET state = ?, result = coalesce(?, result), ended = ?"
        " WHERE turn_id = ? AND call_id = ?",
        (state, result, now(), turn_id, call_id),
    )


def cap_event(event: Event) -> Event:
    """The event; if it is too large, without its longest outputs.

    Placeholders replace them. `GET runs/{id}` and `GET turns/{id}/changes` have them in full.
    """
    if isinstance(event, CallOutput):
        return replace(event, output=_fit(event.output))
    if isinstance(event, CellsChanged):
        return replace(event, changes=tuple(_fit(event.changes)))
    return event


def _fit(value: Any) -> Any:
    if _size(value) <= EVENT_LIMIT:
        return value
    for longest in _LONGEST:
        smaller = _limit_outputs(value, longest)
        if _size(smaller) <= EVENT_LIMIT:
            break
    return smaller


def _limit_outputs(value: Any, longest: int) -> Any:
    """The value without outputs that are longer; everything else is unchanged."""
    if isinstance(value, Mapping):
        return {
            key: _outputs(item, longest) if key == "outputs" else _limit_outputs(item, longest)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_limit_outputs(item, longest) for item in value]
    return value


def _outputs(outputs: Sequence[Any], longest: int) -> list[Any]:
    if not longest:
        return [_placeholder(outputs)] if outputs else []
    return [output if _size(output) <= longest else _placeholder([output]) for output in outputs]


def _placeholder(outputs: Sequence[Any]) -> dict[str, Any]:
    """An output that replaces these; its metadata lets a page show its own text."""
    plots = sum(map(_is_plot, outputs))
    what = "Plot" if plots else "Output"
    return {
        "output_type": "display_data",
        "data": {"text/plain": f"[{what}: see the cell.]"},
        "metadata": {"jupyter_agent": {"left_out": {"outputs": len(outputs), "plots": plots}}},
    }


def _is_plot(output: Mapping[str, Any]) -> bool:
    return any(str(kind).startswith("image/") for kind in output.get("data", ()))


def _size(value: Any) -> int:
    return len(json.dumps(value))
