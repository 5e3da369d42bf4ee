"""Stores ids for the cells of notebooks without ids in the file, next to the journal with them."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress

from jupyter_agent.conversations.database import Database
from jupyter_agent.document.identities import Naming, with_naming
from jupyter_agent.errors import StoreUnavailable


class StoredNamings:
    """Implements `document.identities.Namings`. Without the store the ids are lost, and an undo
    reports that it cannot tell a cell from others.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, path: str) -> Sequence[Naming]:
        with suppress(StoreUnavailable):
            return await self._database.run(lambda db: _read(db, path))
        return ()

    async def note(self, path: str, naming: Naming) -> None:
        def write(db: sqlite3.Connection) -> None:
            _write(db, path, with_naming(_read(db, path), naming))

        with suppress(StoreUnavailable):
            await self._database.run(write)


def _read(db: sqlite3.Connection, path: str) -> Sequence[Naming]:
    row = db.execute(
        "SELECT namings FROM namings WHERE root = coalesce(root(), '') AND notebook = ?", (path,)
    ).fetchone()
    return _decode(row["namings"]) if row is not None else ()


def _decode(data: bytes) -> Sequence[Naming]:
    return [
        Naming([(version, cell_id) for version, cell_id in cells], frozenset(gone))
        for cells, gone in json.loads(zlib.decompress(data))
    ]


def _write(db: sqlite3.Connection, path: str, namings: Sequence[Naming]) -> None:
    text = json.dumps([[naming.cells, sorted(naming.gone)] for naming in namings])
    db.execute(
        "INSERT OR REPLACE INTO namings (root, notebook, namings)"
        " VALUES (coalesce(root(), ''), ?, ?)",
        (path, zlib.compress(text.encode("utf-8", "surrogatepass"))),
    )
