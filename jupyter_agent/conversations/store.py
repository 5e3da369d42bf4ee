"""The store of conversations: questions, history, events and calls."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.choices import SHARES
from jupyter_agent.conversations import blocks
from jupyter_agent.conversations.approvals import rules_of
from jupyter_agent.conversations.audit import AuditEntry
from jupyter_agent.conversations.changes import verdicts
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.idempotency import store_answer
from jupyter_agent.conversations.log import LogEntry, TurnState, write
from jupyter_agent.conversations.records import NewTurn, Opening, TurnRecord
from jupyter_agent.conversations.usage import keep_usage
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Event, Usage, from_json
from jupyter_agent.models.base import Message

PAGE = 50
_AROUND = 60
"""Characters of context on either side of a search result."""
_SAID = """
    SELECT text FROM (
        SELECT CASE part.type WHEN 'object'
            THEN json_extract(part.value, '$.text') END AS text
        FROM turns t, json_each(t.question, '$.parts') part
        WHERE t.owner = c.owner AND t.conversation_id = c.id AND NOT t.replaced
            AND t.question LIKE ?4 ESCAPE '\\'
        UNION ALL
        SELECT CASE part.type WHEN 'object'
            THEN json_extract(part.value, '$.text') END AS text
        FROM turns t JOIN history h ON h.turn_id = t.id, json_each(h.content, '$.content') part
        WHERE t.owner = c.owner AND t.conversation_id = c.id AND NOT t.replaced
            AND h.role = 'assistant' AND h.content LIKE ?4 ESCAPE '\\'
    ) WHERE text LIKE ?3 ESCAPE '\\' LIMIT 1
"""
"""The first question or answer of conversation `c` that contains the query (?3). JSON is only
parsed if it contains the query in JSON's spelling (?4)."""


class ConversationStore:
    """Conversations of all owners. Methods return once the data is in the file."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # -- conversations

    async def conversations(
        self, owner: str, *, notebook: str | None, query: str | None, page: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        """A page of conversations, newest first, and the number of the next page.

        A query is searched in titles, questions and answers; `match` is the text around it if it
        is not in the title.
        """
        rows = await self.database.rows(
            f"""
            SELECT * FROM (
                SELECT c.rowid AS number, c.*, (SELECT t.state FROM turns t WHERE t.owner = c.owner
                    AND t.conversation_id = c.id ORDER BY t.position DESC LIMIT 1) AS state,
                    (SELECT json_group_array(json(t.usage)) FROM turns t WHERE t.owner = c.owner
                    AND t.conversation_id = c.id) AS usages,
                    ?3 IS NULL OR c.title LIKE ?3 ESCAPE '\\' AS named,
                    CASE WHEN ?3 IS NULL OR c.title LIKE ?3 ESCAPE '\\' THEN NULL
                        ELSE ({_SAID}) END AS said
                FROM conversations c
                WHERE c.owner = ?1 AND (?2 IS NULL OR c.notebook = ?2 AND is_here((
                    SELECT t.root FROM turns t WHERE t.owner = c.owner AND t.conversation_id = c.id
                    ORDER BY t.position DESC LIMIT 1)))
            ) WHERE named OR said IS NOT NULL
            ORDER BY updated DESC, number DESC LIMIT ?5 OFFSET ?6
            """,
            owner,
            notebook,
            _like(query) if query else None,
            _like(json.dumps(query)[1:-1]) if query else None,
            PAGE + 1,
            (page - 1) * PAGE,
        )
        page_rows = [
            {
                "id": row["id"],
                "title": row["title"],
                "notebook": row["notebook"],
                "model": row["model"],
                "updated": row["updated"],
                "state": row["state"],
                "usage": asdict(_sum(json.loads(row["usages"]))),
                "match": _excerpt(query, row["said"]) if query and row["said"] else None,
            }
            for row in rows[:PAGE]
        ]
        return page_rows, page + 1 if len(rows) > PAGE else None

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
        return _sum(json.loads(row["usage"]) for row in rows)

    async def rename(self, owner: str, conversation_id: str, title: str) -> None:
        """Set the conversation's title."""
        await self.database.execute(
            "UPDATE conversations SET title = ? WHERE owner = ? AND id = ?",
            title,
            owner,
            conversation_id,
        )

    async def delete(self, owner: str, conversation_id: str) -> None:
        """Delete the conversation and its turns; the audit and their usage stay."""

        def work(db: sqlite3.Connection) -> None:
            key = (owner, conversation_id)
            keep_usage(db, owner, conversation_id)
            db.execute("DELETE FROM conversations WHERE owner = ? AND id = ?", key)
            blocks.drop_unused(db)

        await self.database.run(work)
        await self.database.release_pages()

    # -- turns

    async def begin(self, turn: NewTurn) -> Opening:
        """Store the question, before anything is sent to a model.

        Raises RequestError 409 if a turn of the conversation runs in another server, or if the turn
        to be continued is not the last.
        """

        def work(db: sqlite3.Connection) -> Opening:
            _begin(db, turn)
            return _opening(db, turn.id)

        return await self.database.run(work)

    async def append(self, turn_id: str, entries: Sequence[LogEntry], *, after: int = 0) -> None:
        """Append to the log of a turn, which has `after` events so far, in one transaction. If it
        was deleted since then, only the audit is kept.
        """

        def work(db: sqlite3.Connection) -> None:
            exists = db.execute("SELECT 1 FROM turns WHERE id = ?", (turn_id,)).fetchone()
            kept = [each for each in entries if exists or isinstance(each, AuditEntry)]
            write(db, turn_id, kept, after)

        await self.database.run(work)

    async def turn(self, turn_id: str) -> TurnRecord | None:
        """The turn of that id, whoever owns it."""
        row = await self.database.row("SELECT * FROM turns WHERE id = ?", turn_id)
        return _turn(row) if row else None

    async def turns(
        self, owner: str, conversation_id: str, *, replaced: bool = False
    ) -> list[TurnRecord]:
        """The turns of a conversation in order; `replaced` includes those that were asked again."""
        return await self.database.run(
            lambda db: _turns(db, owner, conversation_id, replaced=replaced)
        )

    async def turn_list(
        self,
        owner: str,
        *,
        notebook: str | None,
        conversation_id: str | None,
        state: TurnState | None,
        page: int,
    ) -> tuple[list[dict[str, Any]], int | None]:
        """A page of an owner's turns, newest first, and the number of the next page."""
        rows = await self.database.rows(
            """
            SELECT t.id, t.conversation_id, c.title, t.state, t.stop_reason, t.steps, t.usage,
                t.started, t.ended, json_extract(t.request, '$.notebook') AS notebook,
                json_extract(t.request, '$.model') AS model,
                json_extract(t.request, '$.client') AS client
            FROM turns t JOIN conversations c ON c.owner = t.owner AND c.id = t.conversation_id
            WHERE t.owner = ?1 AND (?2 IS NULL OR t.conversation_id = ?2)
              AND (?3 IS NULL OR (notebook = ?3 AND is_here(t.root))) AND (?4 IS NULL OR state = ?4)
            ORDER BY t.started DESC, t.rowid DESC LIMIT ?5 OFFSET ?6
            """,
            owner,
            conversation_id,
            notebook,
            state,
            PAGE + 1,
            (page - 1) * PAGE,
        )
        turns = [
            {**dict(row), "usage": asdict(Usage(**json.loads(row["usage"])))} for row in rows[:PAGE]
        ]
        return turns, page + 1 if len(rows) > PAGE else None

    async def live_turns(self) -> list[tuple[str, str]]:
        """Server and id of each turn that runs or waits according to the store."""
        live = "SELECT server, id FROM turns WHERE state IN ('running', 'waiting')"
        return [(row["server"], row["id"]) for row in await self.database.rows(live)]

    async def claim(self, turn_id: str, server: str, by: str) -> bool:
        """Let server `by` take over a turn of the dead `server`; True for only one of several."""

        def write(db: sqlite3.Connection) -> bool:
            claimed = db.execute(
                "UPDATE turns SET server = ? WHERE id = ? AND server = ?"
                " AND state IN ('running', 'waiting')",
                (by, turn_id, server),
            )
            return claimed.rowcount == 1

        return await self.database.run(write)

    # -- history: messages for the model

    async def sendable(self, turn: TurnRecord) -> list[Message]:
        """The history for this turn, without turns in which more was shared."""
        return await self.database.run(lambda db: _sendable(db, turn)[0])

    async def history(self, owner: str, conversation_id: str) -> list[Message]:
        """All messages of the conversation that are still part of it, oldest first."""
        history = await self.database.run(lambda db: _history(db, owner, conversation_id))
        return [message for _, message in history]

    # -- events: for clients

    async def events(self, turn_id: str, after: int = 0) -> list[tuple[int, Event]]:
        """The events of a turn after number `after`."""

        def read(db: sqlite3.Connection) -> list[tuple[int, Event]]:
            rows = db.execute(
                "SELECT seq, event FROM events WHERE turn_id = ? AND seq > ? ORDER BY seq",
                (turn_id, after),
            )
            return [(row["seq"], from_json(blocks.unpack(db, row["event"]))) for row in rows]

        return await self.database.run(read)

    async def last_seq(self, turn_id: str) -> int:
        """The number of the turn's last event; 0 without events."""
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
    if turn.continues is not None and turn.continues != _last(db, *key):
        message = "Another question followed that answer already. Ask for more instead."
        raise RequestError(409, "not_continuable", message)
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
            request, server, state, started, root)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, root())
        """,
        (
            turn.id,
            *key,
            position,
            turn.question_id,
            json.dumps(turn.question),
            turn.answer_id,
            json.dumps(turn.request),
            turn.server,
            time,
        ),
    )
    if turn.idempotency_key is not None:
        store_answer(db, turn.owner, turn.idempotency_key, 200, turn.id)
    write(db, turn.id, [MessageAdded({"role": "user", "content": turn.content})])


def _last(db: sqlite3.Connection, owner: str, conversation_id: str) -> str | None:
    """The id of a conversation's last turn."""
    row = db.execute(
        "SELECT id FROM turns WHERE owner = ? AND conversation_id = ? AND NOT replaced"
        " ORDER BY position DESC LIMIT 1",
        (owner, conversation_id),
    ).fetchone()
    return str(row["id"]) if row else None


def _opening(db: sqlite3.Connection, turn_id: str) -> Opening:
    turn = _turn(db.execute("SELECT * FROM turns WHERE id = ?", (turn_id,)).fetchone())
    history, withheld = _sendable(db, turn)
    conversation = (turn.owner, turn.conversation_id)
    return Opening(
        turn=turn,
        history=history,
        withheld=withheld,
        grants=rules_of(db, *conversation),
        verdicts=verdicts(db, *conversation, turn_id),
    )


def _sendable(db: sqlite3.Connection, turn: TurnRecord) -> tuple[list[Message], int]:
    """The messages that a model may get in that turn, and how many turns are left out."""
    turns = _turns(db, turn.owner, turn.conversation_id)
    freer = {earlier.id for earlier in turns if _share(earlier) < _share(turn)}
    history = _history(db, turn.owner, turn.conversation_id)
    return [message for turn_id, message in history if turn_id not in freer], len(freer)


def _turns(
    db: sqlite3.Connection, owner: str, conversation_id: str, *, replaced: bool = False
) -> list[TurnRecord]:
    rows = db.execute(
        "SELECT * FROM turns WHERE owner = ? AND conversation_id = ? AND replaced <= ?"
        " ORDER BY position",
        (owner, conversation_id, int(replaced)),
    )
    return [_turn(row) for row in rows]


def _history(db: sqlite3.Connection, owner: str, conversation_id: str) -> list[tuple[str, Message]]:
    rows = db.execute(
        "SELECT h.turn_id, h.content FROM history h JOIN turns t ON t.id = h.turn_id"
        " WHERE t.owner = ? AND t.conversation_id = ? AND NOT t.replaced ORDER BY h.id",
        (owner, conversation_id),
    )
    return [(row["turn_id"], json.loads(row["content"])) for row in rows]


def _share(turn: TurnRecord) -> int:
    return SHARES.index(turn.request["share"])


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
        root=row["root"],
    )


def _sum(usages: Iterable[Mapping[str, Any]]) -> Usage:
    return sum((Usage(**usage) for usage in usages), Usage())


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _excerpt(query: str, text: str) -> str:
    """The text around the first occurrence of the query, in one line."""
    place = max(text.lower().find(query.lower()), 0)
    start, end = max(place - _AROUND, 0), place + len(query) + _AROUND
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
