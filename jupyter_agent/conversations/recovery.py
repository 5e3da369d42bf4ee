"""Recovery copies of notebooks from before a turn first wrote to them, and the update of stored
paths after renames.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from jupyter_agent.conversations import blocks
from jupyter_agent.conversations.database import Database, now, timestamp
from jupyter_agent.errors import NoRecoveryCopy, StoreUnavailable

PER_NOTEBOOK = 20
"""Copies of each notebook; older ones are dropped."""
_BLOCK_CHARS = 8_192
"""A block ends at the first line after this many characters whose checksum says so. The checksum
makes blocks start at the same lines in each copy, whatever was inserted above them."""
_ENDS_BLOCK = 0xF
"""One line in 16 ends a block that is long enough."""
_BY_PATH = {
    "conversations": "NOT EXISTS (SELECT 1 FROM turns WHERE turns.owner = conversations.owner AND"
    " turns.conversation_id = conversations.id AND NOT is_here(root))",
    "changes": "turn_id IN (SELECT id FROM turns WHERE is_here(root))",
    "recovery": "is_here(root)",
    "rules": "is_here(root)",
    "namings": "root = coalesce(root(), '')",
}
"""Tables with paths of notebooks, and the condition for paths relative to this server's root."""


class RecoveryCopies:
    """Stores and returns copies, which share their common blocks."""

    def __init__(self, database: Database, *, days: float = 14, megabytes: float = 500) -> None:
        """Copies older than `days` are dropped, and the oldest while all take more than
        `megabytes`; the newest of all always stays.
        """
        self._database = database
        self._age = timedelta(days=days)
        self._most_bytes = megabytes * 1e6

    async def keep(self, notebook: str, content: str) -> None:
        """Store a notebook's JSON text. The last `PER_NOTEBOOK` of each notebook stay.

        Raises NoRecoveryCopy.
        """

        def write(db: sqlite3.Connection) -> None:
            (copy_id,) = db.execute(
                "INSERT INTO recovery (notebook, content, size, made, root)"
                " VALUES (?, '', ?, ?, root()) RETURNING id",
                (notebook, len(content), now()),
            ).fetchone()
            _add_blocks(db, copy_id, content)
            self._drop_old(db)

        try:
            await self._database.run(write)
            await self._database.release_pages()
        except StoreUnavailable as error:
            raise NoRecoveryCopy(
                f"No recovery copy of `{notebook}` could be stored; nothing was changed. {error}"
            ) from error

    async def tidy(self) -> None:
        """Drop copies that are too old or take too much space, and release their disk space.

        Raises StoreUnavailable.
        """
        await self._database.run(self._drop_old)
        await self._database.release_pages()

    async def of(self, notebook: str) -> list[dict[str, Any]]:
        """The copies of a notebook, the newest first: `id`, `made`, `size` in characters."""
        rows = await self._database.rows(
            "SELECT id, made, size FROM recovery WHERE notebook = ? AND is_here(root)"
            " ORDER BY id DESC",
            notebook,
        )
        return [dict(row) for row in rows]

    async def notebooks(self) -> list[str]:
        """The notebooks that we have written: those with copies or with changes by turns."""
        rows = await self._database.rows(
            "SELECT notebook FROM recovery WHERE is_here(root) UNION SELECT notebook FROM changes"
            " WHERE turn_id IN (SELECT id FROM turns WHERE is_here(root))"
        )
        return [row["notebook"] for row in rows]

    async def newest(self, notebook: str) -> dict[str, Any] | None:
        """The JSON of the newest copy; None without copies."""
        copies = await self.of(notebook)
        return await self.content(notebook, copies[0]["id"]) if copies else None

    async def content(self, notebook: str, copy_id: int) -> dict[str, Any] | None:
        """A copy's JSON; None if that notebook has no copy with that id."""

        def read(db: sqlite3.Connection) -> str | None:
            row = db.execute(
                "SELECT 1 FROM recovery WHERE notebook = ? AND id = ? AND is_here(root)",
                (notebook, copy_id),
            ).fetchone()
            return None if row is None else _text(db, copy_id)

        text = await self._database.run(read)
        content: dict[str, Any] | None = None if text is None else json.loads(text)
        return content

    def _drop_old(self, db: sqlite3.Connection) -> None:
        oldest = timestamp(datetime.now(UTC) - self._age)
        newest = "(SELECT max(id) FROM recovery)"
        dropped = db.execute(
            f"DELETE FROM recovery WHERE made < ? AND id <> {newest}", (oldest,)
        ).rowcount
        dropped += db.execute(
            "DELETE FROM recovery WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER"
            " (PARTITION BY root, notebook ORDER BY id DESC) AS number FROM recovery)"
            " WHERE number > ?)",
            (PER_NOTEBOOK,),
        ).rowcount
        if dropped:
            blocks.drop_unused(db)
        while _file_bytes(db) > self._most_bytes and _bytes(db) > self._most_bytes:
            half = "(SELECT id FROM recovery WHERE id <> {} ORDER BY id LIMIT max(1,"
            half = half.format(newest) + " (SELECT count(*) FROM recovery) / 8))"
            if not db.execute(f"DELETE FROM recovery WHERE id IN {half}").rowcount:
                return
            blocks.drop_unused(db)


def _add_blocks(db: sqlite3.Connection, copy_id: int, text: str) -> None:
    for position, piece in enumerate(_pieces(text)):
        row = (copy_id, position, blocks.add(db, piece))
        db.execute("INSERT INTO recovery_blocks VALUES (?, ?, ?)", row)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of whole lines."""
    start = end = 0
    while end < len(text):
        following = text.find("\n", end) + 1 or len(text)
        line, end = text[end:following], following
        ends = (
            len(line) > _BLOCK_CHARS
            or zlib.crc32(line.encode("utf-8", "surrogatepass")) & _ENDS_BLOCK == 0
        )
        if end == len(text) or (end - start >= _BLOCK_CHARS and ends):
            yield text[start:end]
            start = end


def _text(db: sqlite3.Connection, copy_id: int) -> str:
    rows: Iterable[sqlite3.Row] = db.execute(
        "SELECT content FROM recovery_blocks JOIN blocks USING (digest) WHERE copy_id = ?"
        " ORDER BY position",
        (copy_id,),
    )
    return "".join(blocks.text_of(row["content"]) for row in rows)


def _bytes(db: sqlite3.Connection) -> int:
    (total,) = db.execute(
        "SELECT coalesce(sum(length(content)), 0) FROM blocks"
        " WHERE digest IN (SELECT digest FROM recovery_blocks)"
    ).fetchone()
    return int(total)


def _file_bytes(db: sqlite3.Connection) -> int:
    """The size of the file: quick, while adding up the copies reads all blocks."""
    (pages,), (size,) = (
        db.execute(f"PRAGMA {of}").fetchone() for of in ("page_count", "page_size")
    )
    return int(pages * size)


async def follow(database: Database, old: str, new: str) -> None:
    """Update the stored paths of notebooks after a file or folder was renamed."""

    def write(db: sqlite3.Connection) -> None:
        for table, here in _BY_PATH.items():
            db.execute(
                f"UPDATE OR REPLACE {table} SET notebook = ?2 || substr(notebook, length(?1) + 1)"
                " WHERE (notebook = ?1 OR substr(notebook, 1, length(?1) + 1) = ?1 || '/')"
                f" AND {here}",
                (old, new),
            )
        named = json.dumps(old)[1:-1]
        for row in db.execute(
            "SELECT id, question, request FROM turns WHERE is_here(root)"
            " AND (instr(question, ?1) OR instr(request, ?1))",
            (named,),
        ).fetchall():
            question, request = json.loads(row["question"]), json.loads(row["request"])
            for about in (question.get("metadata") or {}, request):
                _rename_in(about, old, new)
            db.execute(
                "UPDATE turns SET question = ?, request = ? WHERE id = ?",
                (json.dumps(question), json.dumps(request), row["id"]),
            )

    await database.run(write)


def _rename_in(about: dict[str, Any], old: str, new: str) -> None:
    """Update the paths of what a question is about: its notebook and its attachments."""
    for each in (about, *(about.get("context") or ())):
        for key in ("notebook", "path"):
            path = each.get(key)
            if isinstance(path, str) and f"{path}/".startswith(f"{old}/"):
                each[key] = new + path[len(old) :]
