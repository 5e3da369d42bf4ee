"""The pages with unsaved work, on disk: those that a server leaves behind, killed or not, the next
one waits for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Page: TypeAlias = tuple[str, str]
"""The id of a page load, and the path of its notebook."""


class KnownTabs:
    """One file for each server; nothing is told where it cannot be read or written."""

    def __init__(
        self, folder: Path, server: str, root: str | None, alive: Callable[[str], bool]
    ) -> None:
        """`server` names this server among those with the same folder, of which `alive` tells
        whether one runs; paths are below `root`, None where they are of no plain files.
        """
        self._folder = folder
        self._file = folder / f"{server}.json"
        self._root = root
        self._alive = alive
        self._kept: list[Page] = []

    def left(self) -> list[Page]:
        """What servers of this root left behind that are gone; told once."""
        found: list[Page] = []
        for file in self._folder.glob("*.json"):
            if file == self._file or self._alive(file.stem):
                continue
            with suppress(OSError, ValueError, KeyError, TypeError):
                known = json.loads(file.read_text(encoding="utf-8"))
                if known["root"] == self._root:
                    found += [(str(client), str(path)) for client, path in known["pages"]]
                    file.unlink()
        return found

    def keep(self, pages: Iterable[Page]) -> None:
        """These have unsaved work now."""
        now = sorted(pages)
        if now == self._kept:
            return
        self._kept = now
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps({"root": self._root, "pages": now}), encoding="utf-8")
            os.replace(new, self._file)
