"""State that a server stores on disk for its successor, even if it is killed: pages with unsaved
work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


class Leftovers:
    """One file per server. Errors in reading and writing are ignored, and nothing is stored
    then.
    """

    def __init__(
        self, folder: Path, server: str, root: str | None, alive: Callable[[str], bool]
    ) -> None:
        """`server` names this server among those with the same folder; `alive` tells whether one of
        them runs. Paths are below `root`, which is None if they are not plain files.
        """
        self._folder = folder
        self._file = folder / f"{server}.json"
        self._root = root
        self._alive = alive

    def claim(self, key: str, read: Callable[[Any], T]) -> list[T]:
        """The entries under `key` of servers of this root that are gone; returned only once.

        `read` parses one entry; a file in which that fails is left alone.
        """
        entries: list[T] = []
        for file in self._folder.glob("*.json"):
            if file == self._file or self._alive(file.stem):
                continue
            with suppress(OSError, ValueError, LookupError, TypeError):
                content = json.loads(file.read_text(encoding="utf-8"))
                if content["root"] == self._root:
                    entries += [read(each) for each in content[key]]
                    file.unlink()
        return entries

    def replace(self, key: str, entries: Sequence[Any]) -> None:
        """Store the entries that this server leaves behind if it ends now."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps({"root": self._root, key: entries}), encoding="utf-8")
            os.replace(new, self._file)

    def clear(self) -> None:
        """Remove all entries of this server."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


Page: TypeAlias = tuple[str, str]
"""The id of a page load, and the path of its notebook."""


class KnownTabs:
    """The pages with unsaved work known to this server and earlier ones."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._last_stored: list[Page] = []

    def claim(self) -> list[Page]:
        """The pages of servers of this root that are gone; returned only once."""
        return self._leftovers.claim("pages", _read)

    def store(self, pages: Iterable[Page]) -> None:
        """Store the pages that have unsaved work now."""
        now = sorted(pages)
        if now != self._last_stored:
            self._last_stored = now
            self._leftovers.replace("pages", now)


def _read(value: Any) -> Page:
    client, path = value
    return str(client), str(path)
