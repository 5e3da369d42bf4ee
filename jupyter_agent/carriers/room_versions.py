"""What the file of a room said lately: another program may have read any of it before it writes."""

from __future__ import annotations

import time
from collections import deque

from jupyter_agent.document.merge_cells import Content

WORK = 10.0
"""Seconds that a program takes at most between its reading of the file and its writing."""


class FileVersions:
    """The outlines of a file, as long as some program may still work on them."""

    def __init__(self) -> None:
        self._versions: deque[tuple[float, Content]] = deque()
        self._attended = False

    def save(self, outline: Content, *, attended: bool) -> None:
        """The room has written this. Only if people are there, or were at the save before, has it
        what they typed, and can they decide; else what others write next counts.
        """
        if not (attended or self._attended):
            self._versions.clear()
        self._attended = attended
        self._versions.append((time.monotonic(), outline))
        self._forget()

    def take_in(self, outline: Content) -> None:
        """The room has read this, which others wrote: what they change next they do know."""
        self._versions.clear()
        self._versions.append((time.monotonic(), outline))

    @property
    def latest(self) -> Content | None:
        """What it says now; None if that is not known."""
        return self._versions[-1][1] if self._versions else None

    @property
    def former(self) -> Content | None:
        """The oldest that it said in that time; None if that is the latest, or not known."""
        self._forget()
        return self._versions[0][1] if len(self._versions) > 1 else None

    def _forget(self) -> None:
        while len(self._versions) > 1 and self._versions[1][0] < time.monotonic() - WORK:
            self._versions.popleft()
