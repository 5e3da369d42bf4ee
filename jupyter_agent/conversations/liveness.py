"""Detects which servers with the same store are alive, and takes over what dead ones left: entries
for their successors, and turns, which it ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.turn import failure_notice
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.log import TurnEnded
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import (
    CallDenied,
    CallInvalid,
    Event,
    TextEnded,
    ThinkingEnded,
    TurnFailed,
    TurnStarted,
)
from jupyter_agent.tasks import begin

log = logging.getLogger(__name__)

_UNSTORED = 100_000
"""Events that pages may have seen before they were stored, at most: what ends a turn comes after
them, so that a page which returns gets it.
"""


class Presence:
    """Shows that this server is alive, and whether others are.

    Each server holds a lock on its own file. The operating system releases it however the server
    ends, so this depends neither on clocks nor on process ids, which are reused.
    """

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(16)
        """Identifies this server in the store; it changes with a restart."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = sqlite3.connect(
            self._path(self.id), isolation_level=None, check_same_thread=False
        )
        self._lock.execute("BEGIN EXCLUSIVE")

    def is_alive(self, server_id: str) -> bool:
        """Whether that server is running; removes the file of a dead one."""
        if server_id == self.id:
            return True
        path = self._path(server_id)
        if not path.exists():
            return False
        lock = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
        finally:
            lock.close()
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """Release the lock and remove the file, at the end of this server."""
        self._lock.close()
        self._path(self.id).unlink(missing_ok=True)

    def _path(self, server_id: str) -> Path:
        return self._folder / f"{Path(server_id).name}.lock"


_PAUSE_S = 5.0
"""Seconds between two tries with a store that cannot be used."""
_PUT_LEFTOVER = (
    "INSERT OR REPLACE INTO leftovers (server, root, kind, key, entry) VALUES (?, root(), ?, ?, ?)"
)
_REMOVE_LEFTOVER = "DELETE FROM leftovers WHERE server = ? AND kind = ? AND key = ?"


class StoredLeftovers:
    """Implements `carriers.leftovers.Leftovers` for one kind of entries."""

    def __init__(self, database: Database, presence: Presence, kind: str) -> None:
        self._database = database
        self._presence = presence
        self._kind = kind
        self._unstored: dict[str, tuple[str, Sequence[str]]] = {}
        """By key: the last change that may not be stored yet."""
        self._retry: asyncio.TimerHandle | None = None
        self._following: set[asyncio.Task[None]] = set()

    async def claim(self) -> Sequence[Any]:
        while True:
            try:
                return await self._database.run(self._claim)
            except StoreUnavailable as error:  # locked, or its disk is full
                log.warning("What earlier servers left is not known yet: %s", error)
                await asyncio.sleep(_PAUSE_S)

    def put(self, key: str, entry: Any) -> None:
        values = (self._presence.id, self._kind, key, json.dumps(entry))
        self._unstored[key] = _PUT_LEFTOVER, values
        self._store()

    def remove(self, key: str) -> None:
        self._unstored[key] = _REMOVE_LEFTOVER, (self._presence.id, self._kind, key)
        self._store()

    def _store(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        changes = dict(self._unstored)

        def write(db: sqlite3.Connection) -> None:
            for statement, values in changes.values():
                db.execute(statement, values)

        with suppress(RuntimeError):  # the server stops, and has closed the file
            storing = self._database.submit(write)
            begin(self._follow(asyncio.wrap_future(storing), changes), self._following)

    async def _follow(
        self, storing: asyncio.Future[None], changes: Mapping[str, tuple[str, Sequence[str]]]
    ) -> None:
        try:
            await storing
        except StoreUnavailable:
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(_PAUSE_S, self._store)
        else:
            for key, change in changes.items():
                if self._unstored.get(key) is change:
                    del self._unstored[key]

    def _claim(self, db: sqlite3.Connection) -> list[Any]:
        db.execute("BEGIN IMMEDIATE")  # another server may start at the same time
        rows = db.execute(
            "SELECT server, key, entry FROM leftovers WHERE kind = ? AND root IS root()",
            (self._kind,),
        ).fetchall()
        gone = {
            server
            for server in {row["server"] for row in rows}
            if not self._presence.is_alive(server)
        }
        left = [row for row in rows if row["server"] in gone]
        db.executemany(_REMOVE_LEFTOVER, [(row["server"], self._kind, row["key"]) for row in left])
        return [json.loads(row["entry"]) for row in left]


_CUT_OFF = "The server stopped before the input was complete; nothing was done."


class InterruptedTurns:
    """Ends the turns of dead servers as `interrupted`, with a valid history. Nothing runs again."""

    def __init__(self, store: ConversationStore, presence: Presence) -> None:
        self._store = store
        self._presence = presence
        self._unended: set[str] = set()
        self._lock = asyncio.Lock()

    def add(self, turn_id: str) -> None:
        """Add a turn of this server that is over, but whose end could not be stored."""
        self._unended.add(turn_id)

    async def end(self) -> None:
        """End all that can be ended now; turns of other servers that are alive continue."""
        async with self._lock:
            try:
                for server, turn_id in await self._store.live_turns():
                    if await self._is_abandoned(server, turn_id):
                        record = await self._store.turn(turn_id)
                        if record is not None:  # else its conversation was deleted just now
                            await self._end(record)
                        self._unended.discard(turn_id)
            except StoreUnavailable as error:  # reading the store may still work
                log.error("Interrupted turns are not ended yet: %s", error)

    async def _is_abandoned(self, server: str, turn_id: str) -> bool:
        if server == self._presence.id:
            return turn_id in self._unended
        if await asyncio.to_thread(self._presence.is_alive, server):
            return False
        claimed = await self._store.claim(turn_id, server, self._presence.id)
        if claimed:
            self._unended.add(turn_id)  # it is ours now, even if ending it fails
        return claimed

    async def _end(self, record: TurnRecord) -> None:
        history = Transcript(await self._store.sendable(record))
        stored = await self._store.events(record.id)
        error = "The server stopped during this turn. Nothing was run again; you can ask again."
        before = (
            _closing_events(event for _, event in stored) if stored else (started_event(record),)
        )
        entries = (
            *before,
            failure_notice("interrupted", error),
            TurnFailed(error=error),
            *history.finish(),
            TurnEnded("interrupted", "interrupted"),
        )
        last = stored[-1][0] if stored else 0
        await self._store.append(record.id, entries, after=last + _UNSTORED)


def started_event(turn: TurnRecord) -> TurnStarted:
    """The first event of a turn."""
    return TurnStarted(
        message_id=turn.answer_id,
        conversation_id=turn.conversation_id,
        turn_id=turn.id,
        model=turn.request["model"],
        notebook=turn.request["notebook"],
    )


def _closing_events(events: Iterable[Event]) -> list[Event]:
    """The events that end parts and questions which pages would otherwise show as open for ever.

    A call that was running gets no outcome, because its outcome is unknown.
    """
    ends: dict[str, Event] = {}
    """By part or call: the event that ends it, unless a later event does."""
    inputs: defaultdict[str, list[str]] = defaultdict(list)
    asked: dict[str, str] = {}
    """The call of each approval."""
    for event in events:
        match event.type:
            case "text-start":
                ends[event.part_id] = TextEnded(part_id=event.part_id)
            case "reasoning-start":
                ends[event.part_id] = ThinkingEnded(part_id=event.part_id)
            case "text-end" | "reasoning-end":
                ends.pop(event.part_id, None)
            case "tool-input-start":
                ends[event.call_id] = CallInvalid(
                    call_id=event.call_id, tool=event.tool, input="", error=_CUT_OFF
                )
            case "tool-input-delta":
                inputs[event.call_id].append(event.input_text_delta)
            case "tool-approval-request":
                asked[event.approval_id] = event.call_id
                ends[event.call_id] = CallDenied(call_id=event.call_id)
            case "data-notice" if event.kind == "answered":
                for approval in event.facts["approvals"]:
                    ends.pop(asked.get(approval["id"], ""), None)
            case (
                "tool-input-available"
                | "tool-input-error"
                | "tool-output-available"
                | "tool-output-error"
                | "tool-output-denied"
            ):
                ends.pop(event.call_id, None)
    return [
        replace(end, input="".join(inputs[end.call_id])) if isinstance(end, CallInvalid) else end
        for end in ends.values()
    ]
