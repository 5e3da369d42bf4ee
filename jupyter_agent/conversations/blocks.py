"""Stores long texts only once, since outputs and copies of notebooks repeat from turn to turn."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

_LONG = 4_096
"""Characters from which on a string in a JSON value is stored as a block."""
_REFERENCE = "jupyter_agent:block"


def add(db: sqlite3.Connection, text: str) -> bytes:
    """Store a text, unless it is already stored, and return its digest.

    The caller records the reference, in `recovery_blocks` or `turn_blocks`.
    """
    data = text.encode("utf-8", "surrogatepass")
    digest = blake2b(data, digest_size=16).digest()
    if db.execute("SELECT 1 FROM blocks WHERE digest = ?", (digest,)).fetchone() is None:
        db.execute("INSERT INTO blocks VALUES (?, ?)", (digest, zlib.compress(data)))
    return digest


def text_of(content: bytes) -> str:
    """The text of a row of `blocks`."""
    return zlib.decompress(content).decode("utf-8", "surrogatepass")


def drop_unused(db: sqlite3.Connection) -> None:
    """Delete the blocks that no copy of a notebook and no turn refers to."""
    db.execute(
        "DELETE FROM blocks WHERE digest NOT IN (SELECT digest FROM recovery_blocks)"
        " AND digest NOT IN (SELECT digest FROM turn_blocks)"
    )


def pack(db: sqlite3.Connection, turn_id: str, value: Any) -> str:
    """A value of that turn as JSON text, with its long strings stored as blocks."""
    used: set[bytes] = set()

    def replace_long(value: Any) -> Any:
        if isinstance(value, str):
            if len(value) < _LONG:
                return value
            digest = add(db, value)
            used.add(digest)
            return {_REFERENCE: digest.hex()}
        if isinstance(value, Mapping):
            return {key: replace_long(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [replace_long(item) for item in value]
        return value

    text = json.dumps(replace_long(value))
    rows = [(turn_id, digest) for digest in used]
    db.executemany("INSERT OR IGNORE INTO turn_blocks VALUES (?, ?)", rows)
    return text


def unpack(db: sqlite3.Connection, text: str) -> Any:
    """The value of a JSON text from `pack`."""
    return json.loads(text, object_hook=lambda value: _resolve(db, value))


def _resolve(db: sqlite3.Connection, value: dict[str, Any]) -> Any:
    if value.keys() != {_REFERENCE}:
        return value
    digest = bytes.fromhex(value[_REFERENCE])
    row = db.execute("SELECT content FROM blocks WHERE digest = ?", (digest,)).fetchone()
    return text_of(row["content"])
