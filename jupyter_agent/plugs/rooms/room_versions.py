"""Recent versions of a room's file: another program may have read any of them before it writes."""

from __future__ import annotations

import time
from collections import deque

from jupyter_agent.document.merge_cells import Content

WORK = 10.0
"""Longest time in seconds between a program's reading of the file and its writing."""


class FileVersions:
    """The outlines of a file that some program may still be working on."""

    def __init__(self) -> None:
        self._versions: deque[tuple[float, Content]] = deque()
        self._attended = False

    def note_write(self, outline: Content, *, attended: bool) -> None:
        """The room has written this. Only if people are there, or were at the save before, does it
        contain their typing, and can they resolve conflicts; otherwise the next write of another
        program counts.
        """
        if not (attended or self._attended):
            self._versions.clear()
        self._attended = attended
        self._versions.append((time.monotonic(), outline))
        self._forget()

    def note_read(self, outline: Content) -> None:
        """The room has read this from others: their next change is based on it."""
        self._versions.clear()
        self._versions.append((time.monotonic(), outline))

    @property
    def latest(self) -> Content | None:
        """The present version; None if it is unknown."""
        return self._versions[-1][1] if self._versions else None

    @property
    def former(self) -> Content | None:
        """The oldest version in that time; None if that is the latest, or unknown."""
        self._forget()
        return self._versions[0][1] if len(self._versions) > 1 else None

    def _forget(self) -> None:
        while len(self._versions) > 1 and self._versions[1][0] < time.monotonic() - WORK:
            self._versions.popleft()
