"""Requests with an `Idempotency-Key`: each is done once, and its answer is stored for a day.

See draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jupyter_agent.conversations.database import Database, now, timestamp

_LIFETIME = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class KeyedRequest:
    """A request with an idempotency key."""

    digest: str
    """Hash of the request."""
    status: int | None
    """Status of the stored answer; None if still in progress or after a crash."""
    answer: str


class IdempotencyStore:
    """The requests of the last day by owner and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, owner: str, key: str, digest: str) -> KeyedRequest | None:
        """The earlier request with that key; without one, records this one and returns None."""
        oldest = timestamp(datetime.now(UTC) - _LIFETIME)

        def write(db: sqlite3.Connection) -> KeyedRequest | None:
            db.execute("DELETE FROM keyed WHERE made < ?", (oldest,))
            row = db.execute(
                "SELECT * FROM keyed WHERE owner = ? AND key = ?", (owner, key)
            ).fetchone()
            if row is not None:
                return KeyedRequest(
                    digest=row["digest"], status=row["status"], answer=row["answer"]
                )
            db.execute(
                "INSERT INTO keyed (owner, key, digest, answer, made) VALUES (?, ?, ?, '', ?)",
                (owner, key, digest, now()),
            )
            return None

        return await self._database.run(write)

    async def end(self, owner: str, key: str, status: int, answer: str) -> None:
        """Store the answer."""
        await self._database.run(lambda db: store_answer(db, owner, key, status, answer))

    async def forget(self, owner: str, key: str) -> None:
        """Let the key be used again, because nothing was done."""
        await self._database.execute("DELETE FROM keyed WHERE owner = ? AND key = ?", owner, key)


def store_answer(db: sqlite3.Connection, owner: str, key: str, status: int, answer: str) -> None:
    """As `IdempotencyStore.end`, in the transaction that fulfils the request."""
    db.execute(
        "UPDATE keyed SET status = ?, answer = ? WHERE owner = ? AND key = ?",
        (status, answer, owner, key),
    )
