"""A notebook file while it is saved: our other servers wait.

Where Jupyter's file managers write into a file, they copy it beside it before, and remove the copy
when they are done (`atomic_writing` in `jupyter_server.services.contents.fileio`).
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
"""Seconds between two attempts to have a file that another server is saving."""
_SETTLED = 1.0
"""Seconds without a write after which a save of Jupyter's has ended, or nobody is there who would
end it."""
_WRITTEN = 0.2
"""The same of other programs, which make no copy."""


def copy_of(path: str) -> str:
    """Where Jupyter keeps the file as it was while it writes it."""
    return str(path_to_intermediate(path))  # type: ignore[no-untyped-call]


def aside(path: str) -> str:
    """Where Jupyter puts a damaged file whose copy takes its place."""
    return str(path_to_invalid(path))  # type: ignore[no-untyped-call]


@asynccontextmanager
async def alone(path: str, patience: float) -> AsyncIterator[bool]:
    """No other server of ours saves this file meanwhile; False if one does after `patience`
    seconds.

    It is a lock on the file itself, which leaves nothing behind. A disk without locks has none.
    """
    file = await _locked(path, time.monotonic() + patience)
    try:
        yield file != _TAKEN
    finally:
        if file >= 0:
            os.close(file)


_TAKEN, _NONE = -1, -2


async def _locked(path: str, end: float) -> int:
    while True:
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:  # whoever reads it tells why that does not work
            return _NONE
        try:
            if try_lock(file) and _same(os.fstat(file), _stat(path)):
                return file
        except OSError:
            os.close(file)
            return _NONE
        os.close(file)
        if time.monotonic() > end:
            return _TAKEN
        await asyncio.sleep(_PAUSE)


def try_lock(file: int) -> bool:
    """Lock an open file or folder until it is closed; False while somebody else has it locked.
    Raises OSError where the disk has no locks.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def is_being_saved(path: str) -> bool:
    """Whether a file of which half is there was written a moment ago."""
    found = _stat(path)
    settled = _SETTLED if os.path.exists(copy_of(path)) else _WRITTEN
    return found is not None and 0 <= time.time() - found.st_mtime < settled


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Whether both are the same file, whatever is in it."""
    return other is not None and os.path.samestat(one, other)
