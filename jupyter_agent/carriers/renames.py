"""Where files went that were renamed."""

from __future__ import annotations

from collections import deque

MOST = 1000
"""Renames that are remembered; a conversation names a notebook by its old path for a while."""


class Renames:
    """The renames of files and folders, in order. One ends for a path when there is something at
    that path again.
    """

    def __init__(self) -> None:
        self._renames: deque[tuple[str, str]] = deque(maxlen=MOST)

    def add(self, old: str, new: str) -> None:
        """A file or folder has another path now."""
        self._renames.append((old, new))

    def end(self, path: str) -> None:
        """There is, or was until now, a file at this path: it is the one that the path means."""
        if self.now(path) != path:
            self._renames.append((path, path))

    def now(self, path: str) -> str:
        """Where the file is that once had this path; the path itself where it was not renamed."""
        now = path
        for old, new in self._renames:
            if old == new and moved(path, old, new):
                now = path
            else:
                now = moved(now, old, new) or now
        return now


def moved(path: str, old: str, new: str) -> str | None:
    """The path that a file has after `old` became `new`; None if that is about other files."""
    if path == old:
        return new
    return new + path[len(old) :] if path.startswith(f"{old}/") else None
