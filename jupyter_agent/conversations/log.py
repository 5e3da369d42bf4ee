"""The log of a turn: whatever happens in it is appended here, a moment in one transaction.

What tables say of calls, changes, steps and usage is kept from the events, and from nothing else.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Grant
from jupyter_agent.conversations import blocks
from jupyter_agent.conversations.approvals import (
    add_answers,
    add_questions,
    add_rules,
    bind_rules,
    expire,
)
from jupyter_agent.conversations.audit import AuditEntry, add_entries
from jupyter_agent.conversations.changes import add_changes
from jupyter_agent.conversations.database import now
from jupyter_agent.conversations.requests import SentRequest, add_requests
from jupyter_agent.events import CallOutput, CellsChanged, Event, to_json
from jupyter_agent.models.base import Message

TurnState: TypeAlias = Literal["running", "waiting", "done", "stopped", "failed", "interrupted"]

EVENT_LIMIT = 1_000_000
"""Characters of JSON of one event that tells outputs: a client reads it whole, again each time."""

_LONGEST = (100_000, 10_000, 1_000, 0)
"""Characters of a single output, tried one after the other; with 0 all are left out."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What is written of a turn in one transaction."""

    events: tuple[tuple[int, Event], ...] = ()
    """With their numbers."""
    messages: tuple[Message, ...] = ()
    """Of the history, in order."""
    requests: tuple[SentRequest, ...] = ()
    """To models, which get them once this is written."""
    audit: tuple[AuditEntry, ...] = ()
    asked: tuple[Approval, ...] = ()
    """Questions that wait for an answer from now on."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By the ids of their questions."""
    expired: tuple[str, ...] = ()
    """Ids of questions that nobody answered in time."""
    allowed: tuple[Grant, ...] = ()
    """What needs no answer in this conversation from now on."""
    bound: tuple[Grant, ...] = ()
    """Of what was allowed: those whose kernel has started since."""
    state: TurnState | None = None
    stop_reason: str | None = None
    """Why the turn ended, with its last state."""

    def __add__(self, later: Batch) -> Batch:
        return Batch(
            events=self.events + later.events,
            messages=self.messages + later.messages,
            requests=self.requests + later.requests,
            audit=self.audit + later.audit,
            asked=self.asked + later.asked,
            answers={**self.answers, **later.answers},
            expired=self.expired + later.expired,
            allowed=self.allowed + later.allowed,
            bound=self.bound + later.bound,
            state=later.state or self.state,
            stop_reason=later.stop_reason or self.stop_reason,
        )


def write(db: sqlite3.Connection, turn_id: str, batch: Batch) -> None:
    """Within a transaction: appends to the log of a turn."""
    time = now()
    db.executemany(
        "INSERT INTO events (turn_id, seq, event) VALUES (?, ?, ?)",
        [
            (turn_id, seq, blocks.pack(db, turn_id, to_json(capped(event))))
            for seq, event in batch.events
        ],
    )
    for _, event in batch.events:
        _project(db, turn_id, event)
    db.executemany(
        "INSERT INTO history (turn_id, role, content) VALUES (?, ?, ?)",
        [(turn_id, message["role"], json.dumps(message)) for message in batch.messages],
    )
    add_requests(db, turn_id, batch.requests)
    add_questions(db, turn_id, batch.asked)
    add_answers(db, batch.answers)
    add_rules(db, turn_id, batch.allowed)
    bind_rules(db, turn_id, batch.bound)
    expire(db, batch.expired)
    add_entries(db, batch.audit)
    if batch.stop_reason is not None:
        _close(db, turn_id, batch.stop_reason, time)
    if batch.state is not None:
        db.execute("UPDATE turns SET state = ? WHERE id = ?", (batch.state, turn_id))


def _project(db: sqlite3.Connection, turn_id: str, event: Event) -> None:
    if event.type == "data-changes":
        add_changes(db, turn_id, event.call_id, event.changes)
    elif event.type == "message-metadata":
        usage = json.dumps(asdict(event.usage))
        db.execute("UPDATE turns SET usage = ?, steps = steps + 1 WHERE id = ?", (usage, turn_id))
    else:
        _note_call(db, turn_id, event)


def _close(db: sqlite3.Connection, turn_id: str, stop_reason: str, time: str) -> None:
    _close_calls(db, turn_id)
    db.execute(
        "UPDATE turns SET stop_reason = ?, ended = ? WHERE id = ?", (stop_reason, time, turn_id)
    )
    db.execute(
        "UPDATE approvals SET state = 'expired', answered = ?"
        " WHERE turn_id = ? AND state = 'pending'",
        (time, turn_id),
    )


def _note_call(db: sqlite3.Connection, turn_id: str, event: Event) -> None:
    """Notes what the event says of a call: that it began, or how it ended."""
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
        return [_left_out(outputs)] if outputs else []
    return [output if _size(output) <= longest else _left_out([output]) for output in outputs]


def _left_out(outputs: Sequence[Any]) -> dict[str, Any]:
    """Stands in the place of these outputs; its metadata lets a page word it."""
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
