"""One SQLite file on one thread of its own: the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def now() -> str:
    """The time as the store and the API write it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Database:
    """A SQLite file (WAL) whose statements run one after the other, off the event loop."""

    def __init__(self, path: Path, migrations: Sequence[str], log: logging.Logger) -> None:
        self.path = path
        self.note: str | None = None
        """Why an earlier file was set aside, where that happened."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jupyter-agent-store")
        self._connection = self._thread.submit(self._open, migrations, log).result()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, done in one transaction: all of it or nothing."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._transaction, work
        )

    async def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of a query."""
        return await self.run(lambda db: db.execute(query, values).fetchall())

    async def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query."""
        found: sqlite3.Row | None = await self.run(lambda db: db.execute(query, values).fetchone())
        return found

    async def execute(self, query: str, *values: Any) -> None:
        """One statement that writes."""
        await self.run(lambda db: db.execute(query, values))

    def close(self) -> None:
        """Waits for what was asked before, then closes the file."""
        self._thread.submit(self._connection.close).result()
        self._thread.shutdown()

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._connection:
            return work(self._connection)

    def _open(self, migrations: Sequence[str], log: logging.Logger) -> sqlite3.Connection:
        try:
            return _connect(self.path, migrations)
        except (sqlite3.DatabaseError, NewerSchema) as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
            aside = self.path.with_name(f"{self.path.name}.set-aside-{stamp}")
            for suffix in ("", "-wal", "-shm"):
                source = Path(f"{self.path}{suffix}")
                if source.exists():
                    source.rename(f"{aside}{suffix}")
            self.note = f"The store could not be used ({error}); it was kept as {aside.name}."
            log.error("jupyter_agent: %s", self.note)
            return _connect(self.path, migrations)


class NewerSchema(Exception):
    """The file was written by a later version of this package."""


def _connect(path: Path, migrations: Sequence[str]) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The file holds conversations: nobody else on the machine may read it, from its first byte.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=10, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(migrations):
            raise NewerSchema(f"its schema is {version}, this version knows {len(migrations)}")
        for number, script in enumerate(migrations[version:], start=version + 1):
            connection.executescript(f"BEGIN;{script};PRAGMA user_version = {number};COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
