"""What the commands share that look into the store while no server is asked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any


def add_store(parser: Any) -> None:
    """The option that names the store's folder."""
    parser.add_argument(
        "--store",
        type=Path,
        default=None,
        help="folder of the store, where JupyterAgent.store_dir is not the default",
    )


def local(time: str) -> str:
    """A time of the store, as the person's clock shows it."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def cut(text: str, width: int) -> str:
    """A text on one line, of so many characters at most and without what a terminal obeys."""
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= width else f"{text[: width - 1]}…"
