"""Shared by the commands that read the store without a server."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any


def add_store(parser: Any) -> None:
    """Adds the option for the store's folder."""
    parser.add_argument(
        "--store",
        type=Path,
        default=None,
        help="folder of the store, if not the default of JupyterAgent.store_dir",
    )


def local(time: str) -> str:
    """A time from the store in the local time zone."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def shorten(text: str, width: int) -> str:
    """A text on one line of at most `width` characters, without control characters."""
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= width else f"{text[: width - 1]}…"
