"""What the commands share that look into the store while no server is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from jupyter_core.paths import jupyter_data_dir

from jupyter_agent.conversations.database import know_root
from jupyter_agent.conversations.schema import MIGRATIONS


class Unknown(Exception):
    """Nothing can be told; the text says why."""


def add_store(parser: Any) -> None:
    """The option that names the store's folder."""
    parser.add_argument(
        "--store",
        type=Path,
        default=None,
        help="folder of the store, where JupyterAgent.store_dir is not the default",
    )


@contextmanager
def opened(folder: Path | None, hint: str = "") -> Iterator[sqlite3.Connection]:
    """The store in that folder (None: where it is by default), to be read only.

    Raises Unknown; `hint` says what else was tried.
    """
    file = (folder or Path(jupyter_data_dir()) / "agent") / "conversations.db"
    if not file.exists():
        raise Unknown(
            f"{hint}There is no store at {file}. Start Jupyter there, or name the folder with "
            "--store."
        )
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=5)) as db:
            db.row_factory = sqlite3.Row
            if db.execute("PRAGMA user_version").fetchone()[0] < len(MIGRATIONS):
                raise Unknown(
                    f"The store {file} is of an earlier version: start Jupyter once with this one."
                )
            know_root(db, None)
            yield db
    except sqlite3.Error as error:
        raise Unknown(f"The store {file} cannot be read: {error}.") from None


def names(notebook: Path) -> Iterator[str]:
    """Under which the store may have it: relative to whichever folder was the server's root."""
    parts = PurePosixPath(notebook.as_posix()).parts[1:]
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def local(time: str) -> str:
    """A time of the store, as the person's clock shows it."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def cut(text: str, width: int) -> str:
    """A text on one line, of so many characters at most and without what a terminal obeys."""
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= width else f"{text[: width - 1]}…"
