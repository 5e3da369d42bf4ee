"""Remembers renames, so that old paths still find their files."""

from __future__ import annotations

from collections import deque

MOST = 1000
"""Number of renames remembered; a conversation uses a notebook's old path for a while."""


class Renames:
    """The renames of files and folders, in order. A rename ends for a path when something exists
    there again.
    """

    def __init__(self) -> None:
        self._renames: deque[tuple[str, str]] = deque(maxlen=MOST)

    def add(self, old: str, new: str) -> None:
        """A file or folder has been renamed."""
        self._renames.append((old, new))

    def end(self, path: str) -> None:
        """A file exists at this path, or did until now: the path means that file."""
        if self.follow(path) != path:
            self._renames.append((path, path))

    def follow(self, path: str) -> str:
        """The present path of the file that once had this path; the path itself if it was not
        renamed.
        """
        now = path
        for old, new in self._renames:
            if old == new and renamed_path(path, old, new):
                now = path
            else:
                now = renamed_path(now, old, new) or now
        return now


def renamed_path(path: str, old: str, new: str) -> str | None:
    """The path of a file after `old` was renamed to `new`; None if that does not affect it."""
    if path == old:
        return new
    return new + path[len(old) :] if path.startswith(f"{old}/") else None
