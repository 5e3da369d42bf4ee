"""Locks that make our other servers wait while a notebook file is saved, and the files that a save
leaves.

Before Jupyter's file managers write into a file they copy it next to it, and remove the copy when
they are done (`atomic_writing` in `jupyter_server.services.contents.fileio`).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jupyter_server.services.contents.fileio import path_to_intermediate, path_to_invalid

if sys.platform != "win32":
    import fcntl

_PAUSE = 0.005
"""Seconds between two attempts to lock a file that another server is saving."""
_SETTLED = 1.0
"""Seconds without a write after which a save of Jupyter's has ended, or its program has died."""
_WRITTEN = 0.2
"""The same for other programs, which make no copy."""


def copy_of(path: str) -> str:
    """Path of the copy that Jupyter makes of a file while writing it."""
    return str(path_to_intermediate(path))  # type: ignore[no-untyped-call]


def quarantine_path(path: str) -> str:
    """Path to which Jupyter moves a damaged file before it restores the copy."""
    return str(path_to_invalid(path))  # type: ignore[no-untyped-call]


@asynccontextmanager
async def save_lock(path: str, patience: float) -> AsyncIterator[bool]:
    """Keep our other servers from saving this file; yields False if one still does after
    `patience` seconds.

    It locks the file itself, so nothing is left behind. Without effect on a disk without locks.
    """
    file = await _lock(path, time.monotonic() + patience)
    try:
        yield file != _HELD_BY_OTHER
    finally:
        if file >= 0:
            os.close(file)


_HELD_BY_OTHER, _NO_LOCK = -1, -2


async def _lock(path: str, end: float) -> int:
    while True:
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:  # the reader of the file will report the error
            return _NO_LOCK
        try:
            if try_lock(file) and _same(os.fstat(file), _stat(path)):
                return file
        except OSError:
            os.close(file)
            return _NO_LOCK
        os.close(file)
        if time.monotonic() > end:
            return _HELD_BY_OTHER
        await asyncio.sleep(_PAUSE)


def try_lock(file: int) -> bool:
    """Lock an open file or folder until it is closed; False while someone else holds the lock.
    Raises OSError if the disk has no locks.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def is_being_saved(path: str) -> bool:
    """Whether an incomplete file was written a moment ago."""
    status = _stat(path)
    settled = _SETTLED if os.path.exists(copy_of(path)) else _WRITTEN
    return status is not None and 0 <= time.time() - status.st_mtime < settled


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Whether both are the same file, whatever its content."""
    return other is not None and os.path.samestat(one, other)
