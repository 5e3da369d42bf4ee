"""The store where no server is asked: what it knows of roots, notebooks and turns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath

from jupyter_core.paths import jupyter_data_dir

from jupyter_agent.conversations.database import register_root_functions
from jupyter_agent.conversations.schema import MIGRATIONS


class Unknown(Exception):
    """Nothing can be told; the text says why."""


def folder_of(store: Path | None) -> Path:
    """The folder of the store; None: where it is by default."""
    return store or Path(jupyter_data_dir()) / "agent"


@contextmanager
def opened(folder: Path | None, hint: str = "") -> Iterator[sqlite3.Connection]:
    """The store in that folder (None: where it is by default), to be read only.

    Raises Unknown; `hint` says what else was tried.
    """
    file = folder_of(folder) / "conversations.db"
    if not file.exists():
        raise Unknown(
            f"{hint}There is no store at {file}. Start Jupyter there, or name the folder with "
            "--store."
        )
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=5)) as db:
            db.row_factory = sqlite3.Row
            if db.execute("PRAGMA user_version").fetchone()[0] != max(MIGRATIONS):
                raise Unknown(
                    f"The store {file} is of another version of jupyter_agent. Read it with that "
                    "one, or start Jupyter once with this one, which takes it over if it can, and "
                    "else keeps it under another name."
                )
            register_root_functions(db, None)
            yield db
    except sqlite3.Error as error:
        raise Unknown(f"The store {file} cannot be read: {error}.") from None


def names(notebook: Path) -> Iterator[str]:
    """Under which the store may have it: relative to whichever folder was the server's root."""
    parts = PurePosixPath(notebook.as_posix()).parts[1:]
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def known_root(store: Path | None, notebook: Path) -> Path | None:
    """The folder from which the latest turn about the notebook counted its path, where the store
    knows one that still exists: only a server of that folder finds what belongs to it.
    """
    with suppress(Unknown), opened(store) as db:
        rows = db.execute(
            "SELECT root, json_extract(request, '$.notebook') AS path FROM turns"
            " WHERE root IS NOT NULL GROUP BY 1, 2 ORDER BY max(started) DESC"
        ).fetchall()
        for row in rows:
            if row["path"] and Path(row["root"], row["path"]) == notebook:
                return _folder(row["root"])
    return None


def root_of_turn(store: Path | None, turn_id: str) -> Path | None:
    """The folder from which a turn counted paths; None for one that the store does not know."""
    with suppress(Unknown), opened(store) as db:
        row = db.execute("SELECT root FROM turns WHERE id = ?", [turn_id]).fetchone()
        return _folder(row["root"]) if row and row["root"] else None
    return None


def _folder(path: str) -> Path | None:
    return Path(path) if Path(path).is_dir() else None
