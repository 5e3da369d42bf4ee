"""The store without a server: what it knows of roots, notebooks and turns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from jupyter_agent.conversations.database import StoredPath, register_root_functions
from jupyter_agent.conversations.schema import MIGRATIONS


class Unknown(Exception):
    """The store has no answer; the message says why."""


def folder_of(store: Path | None) -> Path:
    """The folder of the store; the default one for None."""
    return store or Path(jupyter_data_dir()) / "agent"


@contextmanager
def open_store(folder: Path | None, hint: str = "") -> Iterator[sqlite3.Connection]:
    """Opens the store in that folder (the default one for None), read-only.

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
                    f"The store {file} is from another version of jupyter_agent. Read it with that "
                    "one, or start Jupyter once with this one, which migrates it if it can, and "
                    "else moves it to another name."
                )
            register_root_functions(db, None)
            yield db
    except sqlite3.Error as error:
        raise Unknown(f"The store {file} cannot be read: {error}.") from None


def stored_paths(notebook: Path) -> list[StoredPath]:
    """The paths that the store may have for it: each relative to a folder that may have been a
    server's root."""
    return [
        StoredPath(str(root), notebook.relative_to(root).as_posix()) for root in notebook.parents
    ]


def known_root(store: Path | None, notebook: Path) -> Path | None:
    """The root of the latest turn in the notebook, if the store knows one and it still exists: only
    a server with that root finds what belongs to the notebook.
    """
    with suppress(Unknown), open_store(store) as db:
        rows = db.execute(
            "SELECT root, json_extract(request, '$.notebook') AS path FROM turns"
            " WHERE root IS NOT NULL GROUP BY 1, 2 ORDER BY max(started) DESC"
        ).fetchall()
        for row in rows:
            if row["path"] and Path(row["root"], row["path"]) == notebook:
                return _folder(row["root"])
    return None


@dataclass(frozen=True)
class TurnFiles:
    """The notebooks that a turn worked in."""

    root: Path
    notebooks: Sequence[Path]
    """The real paths of the notebook it was asked in and of those it changed."""


def files_of_turn(store: Path | None, turn_id: str) -> TurnFiles | None:
    """The notebooks of a turn; None if the store does not know the turn."""
    with suppress(Unknown), open_store(store) as db:
        rows = db.execute(
            "SELECT root, json_extract(request, '$.notebook') AS path FROM turns WHERE id = ?1"
            " UNION SELECT root, changes.notebook FROM turns JOIN changes ON turn_id = turns.id"
            " WHERE turns.id = ?1",
            [turn_id],
        ).fetchall()
        root = _folder(rows[0]["root"]) if rows and rows[0]["root"] else None
        if root is not None:
            return TurnFiles(
                root, [Path(root, row["path"]).resolve() for row in rows if row["path"]]
            )
    return None


def _folder(path: str) -> Path | None:
    return Path(path) if Path(path).is_dir() else None
