"""Stores what a server leaves behind for its successor."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.liveness import Presence
from jupyter_agent.errors import StoreUnavailable

_REMOVE = "DELETE FROM leftovers WHERE server = ? AND kind = ? AND key = ?"


class StoredLeftovers:
    """Implements `carriers.leftovers.Leftovers` for one kind of entries."""

    def __init__(self, database: Database, presence: Presence, kind: str) -> None:
        self._database = database
        self._presence = presence
        self._kind = kind

    def claim(self) -> Sequence[Any]:
        with suppress(StoreUnavailable):
            return self._database.submit(self._claim).result()
        return ()

    def put(self, key: str, entry: Any) -> None:
        values = (self._presence.id, self._kind, key, json.dumps(entry))
        self._submit(
            "INSERT OR REPLACE INTO leftovers (server, root, kind, key, entry)"
            " VALUES (?, root(), ?, ?, ?)",
            values,
        )

    def remove(self, key: str) -> None:
        self._submit(_REMOVE, (self._presence.id, self._kind, key))

    def _submit(self, statement: str, values: Sequence[str]) -> None:
        with suppress(RuntimeError):  # the server stops, and has closed the file
            self._database.submit(lambda db: db.execute(statement, values))

    def _claim(self, db: sqlite3.Connection) -> list[Any]:
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
        db.executemany(_REMOVE, [(row["server"], self._kind, row["key"]) for row in left])
        return [json.loads(row["entry"]) for row in left]
