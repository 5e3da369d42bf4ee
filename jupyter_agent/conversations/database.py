"""A SQLite file on its own thread, so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jupyter_agent.errors import StoreUnavailable

T = TypeVar("T")

_TRANSIENT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
}
"""Errors of the disk or of other programs, not of the file."""
_INCREMENTAL = 2
"""`auto_vacuum` mode that releases pages on request (https://sqlite.org/pragma.html)."""
_JOURNAL_BYTES = 10_000_000
"""Size to which the write-ahead log is truncated after a checkpoint."""
_UNDECODABLE = "Could not decode to UTF-8"
"""Prefix of sqlite3's message for invalid UTF-8, which has no error code."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


_FREE_PAGES = 2_500
"""Number of unused pages, of 4 KB each, from which on they are released to the disk."""


def now() -> str:
    """The current time in the format of the store and the API: ISO 8601, UTC, milliseconds."""
    return timestamp(datetime.now(UTC))


def timestamp(time: datetime) -> str:
    """A time in UTC in the format of the store and the API."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Database:
    """A SQLite file (WAL) whose statements run one after the other, off the event loop.

    A file that is corrupt or of another version is renamed and a new one created. One that cannot
    be used now (locked, disk full) is tried again at each use.
    """

    patience = 5.0
    """Seconds to wait for a lock of another program."""

    def __init__(
        self,
        path: Path,
        migrations: Mapping[int, str],
        log: logging.Logger,
        *,
        root: str | None = None,
    ) -> None:
        """`root`: the folder to which stored paths are relative, as a real path, available as
        `root()` in statements; None if paths are not files.
        """
        self.path = path
        self.root = root
        self.note: str | None = None
        """Why an earlier file was set aside, or the file cannot be used now."""
        self._migrations = migrations
        self._log = log
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jupyter-agent-store")
        self._connection = self._thread.submit(self._first_open).result()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `work`, which runs in one transaction: all of it or nothing.

        Raises StoreUnavailable if the file cannot be read or written now.
        """
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """As `run`, for callers that do not wait, or not in the event loop. Everything runs in the
        order of these calls.
        """
        return self._thread.submit(self._transaction, work)

    async def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of a query."""
        return await self.run(lambda db: db.execute(query, values).fetchall())

    async def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query."""
        first: sqlite3.Row | None = await self.run(lambda db: db.execute(query, values).fetchone())
        return first

    async def execute(self, query: str, *values: Any) -> None:
        """Run one statement that writes."""
        await self.run(lambda db: db.execute(query, values))

    async def release_pages(self) -> None:
        """Release unused pages to the disk, if there are many; in steps, so that other statements
        can run in between.

        Raises StoreUnavailable.
        """
        while await self.run(_release_pages):
            pass

    def close(self) -> None:
        """Wait for earlier statements, then close the file."""
        if self._connection is not None:
            self._thread.submit(self._connection.close).result()
        self._thread.shutdown()

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._open()
            self.note = None
        try:
            with self._connection:
                done = work(self._connection)
                if isinstance(done, sqlite3.Cursor):
                    # An open cursor would be reset in whichever thread drops it, perhaps while the
                    # next statement runs.
                    done.close()
                return done
        except sqlite3.DatabaseError as error:
            if str(error).startswith(_UNDECODABLE):  # we only write valid text: a page is damaged
                damaged = sqlite3.DatabaseError(f"database disk image is malformed: {_UNDECODABLE}")
                damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise _unavailable(self.path, damaged) from error
            if _code(error) not in _TRANSIENT | _DAMAGED:
                raise
            raise _unavailable(self.path, error) from error

    def _first_open(self) -> sqlite3.Connection | None:
        try:
            return self._open()
        except StoreUnavailable as error:
            self.note = error.message
            self._log.error("jupyter_agent: %s", self.note)
            return None

    def _open(self) -> sqlite3.Connection:
        try:
            return self._usable()
        except (sqlite3.DatabaseError, OSError) as error:
            raise _unavailable(self.path, error) from error

    def _usable(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except (sqlite3.DatabaseError, OtherSchema) as error:
            if _code(error) in _TRANSIENT:
                raise
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
            aside = self.path.with_name(f"{self.path.name}.set-aside-{stamp}")
            for suffix in ("", "-wal", "-shm"):
                source = Path(f"{self.path}{suffix}")
                if source.exists():
                    source.rename(f"{aside}{suffix}")
            self.note = f"The store could not be used ({error}); it was kept as {aside.name}."
            self._log.error("jupyter_agent: %s", self.note)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = _connect(self.path, self._migrations, self.patience)
        register_root_functions(connection, self.root)
        return connection


def register_root_functions(connection: sqlite3.Connection, root: str | None) -> None:
    """Let statements use `root()`, `is_here(root)` for stored roots, and `is_at(one, other)`, the
    same for any two roots."""
    here = partial(is_here, root)
    connection.create_function("is_at", 2, is_here, deterministic=True)
    connection.create_function("root", 0, lambda: root, deterministic=True)
    connection.create_function("is_here", 1, here, deterministic=True)


def is_here(root: str | None, stored: str | None) -> bool:
    """Whether paths stored with a root are relative to ours. If either has no root, because its
    paths are not files, they are.
    """
    return root is None or stored is None or stored == root


class StoredPath(NamedTuple):
    """A path of a notebook in the store, and the root to which it is relative."""

    root: str | None
    path: str


def paths_table(paths: Sequence[StoredPath]) -> tuple[str, list[str | None]]:
    """A common table expression `paths` with these paths, and its values. A stored path is one of
    them if `path` is equal and `is_at(paths.root, root)`."""
    rows = ", ".join(["(?, ?)"] * len(paths))
    return f"WITH paths (root, path) AS (VALUES {rows})", [
        value for each in paths for value in each
    ]


class OtherSchema(Exception):
    """The file was written by a version of this package with a schema unknown to this version."""


def _release_pages(connection: sqlite3.Connection) -> bool:
    """Release some pages; True if there may be more."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    if free < _FREE_PAGES:
        return False
    connection.execute(f"PRAGMA incremental_vacuum({_FREE_PAGES})").fetchall()
    (left,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(left < free)


def _code(error: Exception) -> int:
    """SQLite's primary error code; 0 for an error without one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _unavailable(path: Path, error: Exception) -> StoreUnavailable:
    fix = "Free space on its disk, or end the program that locks it, and try again."
    if _code(error) in _DAMAGED:
        fix = "Stop the server, move that file away or put a backup in its place, and start again."
    return StoreUnavailable(
        f"The store of conversations ({path.name}) cannot be used now: {error}. {fix}"
    )


def _connect(path: Path, migrations: Mapping[int, str], patience: float) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The file holds conversations: no other user of the machine may ever read it.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=patience, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")  # only affects a new file
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection, migrations)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, migrations: Mapping[int, str]) -> None:
    """Migrate the file to the last version; of two servers that start at once only one does it."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, *migrations):
            raise OtherSchema(
                f"its schema is {version}, this version of jupyter_agent knows {max(migrations)}:"
                " read it with the one that wrote it"
            )
        for number, script in migrations.items():
            if number > version:
                for statement in _statements(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {max(migrations)}")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, since `executescript` would first commit the transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
