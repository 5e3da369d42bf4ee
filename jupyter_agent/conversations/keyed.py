"""Requests that carry an `Idempotency-Key`: each is done once, and its answer kept for a day.

See draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jupyter_agent.conversations.database import Database, now, timestamp

_KEPT = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A request that was made under a key."""

    digest: str
    """Of what it asked for."""
    status: int | None
    """Of its answer; None while it is being answered, or after a crash."""
    answer: str


class KeyStore:
    """The requests of the last day by owner and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, owner: str, key: str, digest: str) -> Keyed | None:
        """The earlier request with that key; without one, records this one and returns None."""
        oldest = timestamp(datetime.now(UTC) - _KEPT)

        def write(db: sqlite3.Connection) -> Keyed | None:
            db.execute("DELETE FROM keyed WHERE made < ?", (oldest,))
            row = db.execute(
                "SELECT * FROM keyed WHERE owner = ? AND key = ?", (owner, key)
            ).fetchone()
            if row is not None:
                return Keyed(digest=row["digest"], status=row["status"], answer=row["answer"])
            db.execute(
                "INSERT INTO keyed (owner, key, digest, answer, made) VALUES (?, ?, ?, '', ?)",
                (owner, key, digest, now()),
            )
            return None

        return await self._database.run(write)

    async def end(self, owner: str, key: str, status: int, answer: str) -> None:
        """Keeps the answer."""
        await self._database.run(lambda db: end_keyed(db, owner, key, status, answer))

    async def forget(self, owner: str, key: str) -> None:
        """Lets the key be used again: nothing was done."""
        await self._database.execute("DELETE FROM keyed WHERE owner = ? AND key = ?", owner, key)


def end_keyed(db: sqlite3.Connection, owner: str, key: str, status: int, answer: str) -> None:
    """As `KeyStore.end`, in the transaction that does what was asked for."""
    db.execute(
        "UPDATE keyed SET status = ?, answer = ? WHERE owner = ? AND key = ?",
        (status, answer, owner, key),
    )
