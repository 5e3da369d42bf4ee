"""Copies of notebooks as they were before a turn first wrote them, and stored paths that follow
renames.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from jupyter_agent.conversations.database import Database, now
from jupyter_agent.errors import StoreUnavailable, ToolError

KEPT = 20
"""Copies of each notebook; older ones go."""

_BY_PATH = ("conversations", "changes", "recovery", "rules")


class RecoveryCopies:
    """Keeps copies and gives them back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, notebook: str, content: str) -> None:
        """Keeps a notebook's JSON text; the last `KEPT` of each notebook are kept.

        Raises ToolError.
        """

        def write(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO recovery (notebook, content, made) VALUES (?, ?, ?)",
                (notebook, content, now()),
            )
            db.execute(
                "DELETE FROM recovery WHERE notebook = ?1 AND id NOT IN (SELECT id FROM recovery"
                f" WHERE notebook = ?1 ORDER BY id DESC LIMIT {KEPT})",
                (notebook,),
            )

        try:
            await self._database.run(write)
        except StoreUnavailable as error:
            raise ToolError(
                f"No recovery copy of `{notebook}` could be kept; nothing was changed. {error}"
            ) from error

    async def of(self, notebook: str) -> list[dict[str, Any]]:
        """The copies of a notebook, the newest first: `id`, `made`, `size` in characters."""
        rows = await self._database.rows(
            "SELECT id, made, length(content) AS size FROM recovery WHERE notebook = ?"
            " ORDER BY id DESC",
            notebook,
        )
        return [dict(row) for row in rows]

    async def content(self, notebook: str, copy_id: int) -> dict[str, Any] | None:
        """A copy's JSON; None where there is none of that id for that notebook."""
        row = await self._database.row(
            "SELECT content FROM recovery WHERE notebook = ? AND id = ?", notebook, copy_id
        )
        content: dict[str, Any] | None = None if row is None else json.loads(row["content"])
        return content


async def follow(database: Database, old: str, new: str) -> None:
    """A file or folder was renamed: what is stored of its notebooks goes with it."""

    def write(db: sqlite3.Connection) -> None:
        for table in _BY_PATH:
            db.execute(
                f"UPDATE OR REPLACE {table} SET notebook = ?2 || substr(notebook, length(?1) + 1)"
                " WHERE notebook = ?1 OR substr(notebook, 1, length(?1) + 1) = ?1 || '/'",
                (old, new),
            )

    await database.run(write)
