"""What is kept of conversations: questions, history, events, calls and the audit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from jupyter_agent.conversations.changes import add_changes
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.log import capped, close_calls, keep_call
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Event, Usage, from_json, to_json
from jupyter_agent.workspace.visibility import SHARES

TurnState: TypeAlias = Literal["running", "waiting", "done", "stopped", "failed", "interrupted"]
Message: TypeAlias = Mapping[str, Any]
"""A message of the history as the loop keeps it: Anthropic's JSON, verbatim."""

PAGE = 50


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Who asked what in which turn."""

    id: str
    owner: str
    conversation_id: str
    question_id: str
    question: Mapping[str, Any]
    answer_id: str
    request: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TurnRecord(Asked):
    """A turn as the store has it."""

    state: TurnState
    stop_reason: str | None
    steps: int
    usage: Usage
    started: str
    ended: str | None


@dataclass(frozen=True, kw_only=True)
class NewTurn(Asked):
    """What is written, at once and before the model is asked, when a user asks something."""

    model: str
    notebook: str | None
    title: str
    content: Sequence[Mapping[str, Any]]
    """The user's message as the model gets it."""
    server: str
    """Which server runs it (`Presence.id`)."""
    idempotency_key: str | None = None
    replaces_from: str | None = None
    """Id of a stored question: that turn and all after it leave the conversation."""


class ConversationStore:
    """Conversations of every owner. All methods answer after the data is in the file."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # -- conversations

    async def conversations(
        self, owner: str, *, notebook: str | None, query: str | None, page: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        """A page of conversations, newest first, and the number of the next page."""
        rows = await self.database.rows(
            """
            SELECT c.*, (SELECT t.state FROM turns t WHERE t.owner = c.owner
                AND t.conversation_id = c.id ORDER BY t.position DESC LIMIT 1) AS state
            FROM conversations c
            WHERE c.owner = ?1 AND (?2 IS NULL OR c.notebook = ?2)
              AND (?3 IS NULL OR c.title LIKE '%' || ?3 || '%' ESCAPE '\\' OR EXISTS (
                SELECT 1 FROM turns t WHERE t.owner = c.owner AND t.conversation_id = c.id
                AND t.question LIKE '%' || ?3 || '%' ESCAPE '\\'))
            ORDER BY c.updated DESC, c.rowid DESC LIMIT ?4 OFFSET ?5
            """,
            owner,
            notebook,
            _like(query) if query else None,
            PAGE + 1,
            (page - 1) * PAGE,
        )
        found = [
            {
                "id": row["id"],
                "title": row["title"],
                "notebook": row["notebook"],
                "model": row["model"],
                "updated": row["updated"],
                "state": row["state"],
                "usage": asdict(await self.usage(owner, row["id"])),
            }
            for row in rows[:PAGE]
        ]
        return found, page + 1 if len(rows) > PAGE else None

    async def conversation(self, owner: str, conversation_id: str) -> sqlite3.Row | None:
        """The conversation's row: title, notebook, model, created, updated."""
        return await self.database.row(
            "SELECT * FROM conversations WHERE owner = ? AND id = ?", owner, conversation_id
        )

    async def usage(self, owner: str, conversation_id: str) -> Usage:
        """Tokens of the whole conversation."""
        rows = await self.database.rows(
            "SELECT usage FROM turns WHERE owner = ? AND conversation_id = ?",
            owner,
            conversation_id,
        )
        return sum((Usage(**json.loads(row["usage"])) for row in rows), Usage())

    async def rename(self, owner: str, conversation_id: str, title: str) -> None:
        """Gives the conversation a title."""
        await self.database.execute(
            "UPDATE conversations SET title = ? WHERE owner = ? AND id = ?",
            title,
            owner,
            conversation_id,
        )

    async def delete(self, owner: str, conversation_id: str) -> None:
        """The conversation and its turns are gone; the audit stays."""
        await self.database.execute(
            "DELETE FROM conversations WHERE owner = ? AND id = ?", owner, conversation_id
        )

    # -- turns

    async def begin(self, turn: NewTurn) -> None:
        """Writes the question, durable before anything is sent to a model.

        Raises RequestError 409 where a turn of the conversation runs in another server.
        """
        await self.database.run(lambda db: _begin(db, turn))

    async def turn(self, turn_id: str) -> TurnRecord | None:
        """The turn of that id, whoever owns it."""
        row = await self.database.row("SELECT * FROM turns WHERE id = ?", turn_id)
        return _turn(row) if row else None

    async def turn_by_key(self, owner: str, key: str) -> TurnRecord | None:
        """The turn that an earlier request with this idempotency key started."""
        row = await self.database.row(
            "SELECT * FROM turns WHERE owner = ? AND idempotency_key = ?", owner, key
        )
        return _turn(row) if row else None

    async def turns(
        self, owner: str, conversation_id: str, *, replaced: bool = False
    ) -> list[TurnRecord]:
        """The turns of a conversation in order; `replaced`: those asked again too."""
        rows = await self.database.rows(
            "SELECT * FROM turns WHERE owner = ? AND conversation_id = ? AND replaced <= ?"
            " ORDER BY position",
            owner,
            conversation_id,
            int(replaced),
        )
        return [_turn(row) for row in rows]

    async def live_turns(self) -> list[tuple[str, TurnRecord]]:
        """Turns that are said to run or wait, each with the id of the server that runs it."""
        rows = await self.database.rows("SELECT * FROM turns WHERE state IN ('running', 'waiting')")
        return [(str(row["server"]), _turn(row)) for row in rows]

    async def claim(self, turn_id: str, server: str, by: str) -> bool:
        """Whether `by` may end what that dead server left; of several only one may."""

        def write(db: sqlite3.Connection) -> bool:
            claimed = db.execute(
                "UPDATE turns SET server = ? WHERE id = ? AND CAST(server AS TEXT) = ?"
                " AND state IN ('running', 'waiting')",
                (by, turn_id, server),
            )
            return claimed.rowcount == 1

        return await self.database.run(write)

    async def set_state(self, turn_id: str, state: TurnState) -> None:
        """The turn runs again or waits."""
        await self.database.execute("UPDATE turns SET state = ? WHERE id = ?", state, turn_id)

    async def end(
        self,
        turn_id: str,
        *,
        state: TurnState,
        stop_reason: str,
        steps: int,
        usage: Usage,
        events: Sequence[tuple[int, Event]],
    ) -> None:
        """The turn is over; `events` are the last of it."""

        def write(db: sqlite3.Connection) -> None:
            time = now()
            _add_events(db, turn_id, events)
            close_calls(db, turn_id)
            db.execute(
                "UPDATE turns SET state = ?, stop_reason = ?, steps = ?, usage = ?, ended = ?"
                " WHERE id = ?",
                (state, stop_reason, steps, json.dumps(asdict(usage)), time, turn_id),
            )
            db.execute(
                "UPDATE approvals SET state = 'expired', answered = ?"
                " WHERE turn_id = ? AND state = 'pending'",
                (time, turn_id),
            )

        await self.database.run(write)

    async def add_usage(self, turn_id: str, usage: Usage) -> None:
        """What was used for a turn after it was over."""

        def write(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT usage FROM turns WHERE id = ?", (turn_id,)).fetchone()
            total = Usage(**json.loads(row["usage"])) + usage
            db.execute(
                "UPDATE turns SET usage = ? WHERE id = ?", (json.dumps(asdict(total)), turn_id)
            )

        await self.database.run(write)

    # -- history: what the model is told

    async def freer_turns(self, turn: TurnRecord) -> int:
        """How many earlier turns of the conversation were made when more was shared."""
        turns = await self.turns(turn.owner, turn.conversation_id)
        return sum(_share(earlier) < _share(turn) for earlier in turns)

    async def sendable(self, turn: TurnRecord) -> list[dict[str, Any]]:
        """The history as this turn goes on from it: without turns in which more was shared."""
        turns = await self.turns(turn.owner, turn.conversation_id)
        freer = {earlier.id for earlier in turns if _share(earlier) < _share(turn)}
        history = await self._history(turn.owner, turn.conversation_id)
        return [message for turn_id, message in history if turn_id not in freer]

    async def history(self, owner: str, conversation_id: str) -> list[dict[str, Any]]:
        """All messages of the conversation that are still part of it, oldest first."""
        return [message for _, message in await self._history(owner, conversation_id)]

    async def _history(self, owner: str, conversation_id: str) -> list[tuple[str, dict[str, Any]]]:
        rows = await self.database.rows(
            "SELECT h.turn_id, h.content FROM history h JOIN turns t ON t.id = h.turn_id"
            " WHERE t.owner = ? AND t.conversation_id = ? AND NOT t.replaced ORDER BY h.id",
            owner,
            conversation_id,
        )
        return [(row["turn_id"], json.loads(row["content"])) for row in rows]

    async def append(self, turn_id: str, message: Message) -> None:
        """One more message of the history."""
        await self.database.execute(
            "INSERT INTO history (turn_id, role, content) VALUES (?, ?, ?)",
            turn_id,
            message["role"],
            json.dumps(message),
        )

    # -- events: what the outside is told

    async def add_events(self, turn_id: str, events: Sequence[tuple[int, Event]]) -> None:
        """Writes events with their numbers; what they say of calls and cells is kept with them."""
        await self.database.run(lambda db: _add_events(db, turn_id, events))

    async def events(self, turn_id: str, after: int = 0) -> list[tuple[int, Event]]:
        """The events of a turn that follow number `after`."""
        rows = await self.database.rows(
            "SELECT seq, event FROM events WHERE turn_id = ? AND seq > ? ORDER BY seq",
            turn_id,
            after,
        )
        return [(row["seq"], from_json(json.loads(row["event"]))) for row in rows]

    async def last_seq(self, turn_id: str) -> int:
        """The number of the turn's last event, 0 where it told none."""
        row = await self.database.row(
            "SELECT coalesce(max(seq), 0) AS seq FROM events WHERE turn_id = ?", turn_id
        )
        return int(row["seq"]) if row else 0

    async def calls(self, turn_id: str) -> list[dict[str, Any]]:
        """The tool calls of a turn and how each ended."""
        rows = await self.database.rows(
            "SELECT call_id, tool, input, state, started, ended FROM calls WHERE turn_id = ?"
            " ORDER BY rowid",
            turn_id,
        )
        return [{**dict(row), "input": json.loads(row["input"])} for row in rows]


def _begin(db: sqlite3.Connection, turn: NewTurn) -> None:
    time = now()
    db.execute(
        """
        INSERT INTO conversations (owner, id, title, notebook, model, created, updated)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT DO UPDATE SET
            notebook = coalesce(?4, notebook), model = ?5, updated = ?6
        """,
        (turn.owner, turn.conversation_id, turn.title, turn.notebook, turn.model, time),
    )
    key = (turn.owner, turn.conversation_id)
    running = "SELECT 1 FROM turns WHERE owner = ? AND conversation_id = ? AND state IN"
    if db.execute(f"{running} ('running', 'waiting')", key).fetchone():
        message = "A turn of this conversation is running in another server. Wait for it."
        raise RequestError(409, "turn_running", message)
    if turn.replaces_from is not None:
        db.execute(
            "UPDATE turns SET replaced = 1 WHERE owner = ?1 AND conversation_id = ?2"
            " AND position >= (SELECT position FROM turns WHERE owner = ?1 AND conversation_id = ?2"
            " AND question_id = ?3 AND NOT replaced)",
            (*key, turn.replaces_from),
        )
    (position,) = db.execute(
        "SELECT coalesce(max(position), 0) + 1 FROM turns WHERE owner = ? AND conversation_id = ?",
        key,
    ).fetchone()
    db.execute(
        """
        INSERT INTO turns (id, owner, conversation_id, position, question_id, question, answer_id,
            request, idempotency_key, server, state, started)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?)
        """,
        (
            turn.id,
            *key,
            position,
            turn.question_id,
            json.dumps(turn.question),
            turn.answer_id,
            json.dumps(turn.request),
            turn.idempotency_key,
            turn.server,
            time,
        ),
    )
    db.execute(
        "INSERT INTO history (turn_id, role, content) VALUES (?, 'user', ?)",
        (turn.id, json.dumps({"role": "user", "content": turn.content})),
    )


def _add_events(db: sqlite3.Connection, turn_id: str, events: Sequence[tuple[int, Event]]) -> None:
    rows = [(turn_id, seq, json.dumps(to_json(capped(event)))) for seq, event in events]
    db.executemany("INSERT INTO events (turn_id, seq, event) VALUES (?, ?, ?)", rows)
    for _, event in events:
        if event.type == "cells_changed":
            add_changes(db, turn_id, event.call_id, event.changes)
        else:
            keep_call(db, turn_id, event)


def _share(turn: TurnRecord) -> int:
    return SHARES.index(turn.request.get("share", "all"))


def _turn(row: sqlite3.Row) -> TurnRecord:
    return TurnRecord(
        id=row["id"],
        owner=row["owner"],
        conversation_id=row["conversation_id"],
        question_id=row["question_id"],
        question=json.loads(row["question"]),
        answer_id=row["answer_id"],
        request=json.loads(row["request"]),
        state=row["state"],
        stop_reason=row["stop_reason"],
        steps=row["steps"],
        usage=Usage(**json.loads(row["usage"])),
        started=row["started"],
        ended=row["ended"],
    )


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
