"""A notebook file while it is saved: our other servers wait, and what is overwritten is known.

Jupyter's file managers copy a file beside it before they write into it, and remove the copy when
they are done (`atomic_writing` in `jupyter_server.services.contents.fileio`). That copy alone says
what was in the file at the last moment, so it is held open before it is made.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

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


_MODIFIED, _ATTRIBUTES, _CLOSED_WRITING = 0x2, 0x4, 0x8
"""Events of inotify(7)."""
_EVENT = struct.Struct("iIII")


@dataclass(frozen=True)
class Overwritten:
    """What a save took the place of."""

    content: bytes | None = None
    """The file as it was at the last moment; None where that is unknown."""
    late: bool = False
    """Somebody wrote the file, or put another in its place, when it had been copied already."""


def target(path: str) -> str:
    """The file that is written where this one is to be: Jupyter follows one link."""
    if os.path.islink(path):
        return os.path.join(os.path.dirname(path), os.readlink(path))
    return path


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
            if _try_lock(file) and _same(os.fstat(file), _stat(path)):
                return file
        except OSError:
            os.close(file)
            return _NONE
        os.close(file)
        if time.monotonic() > end:
            return _TAKEN
        await asyncio.sleep(_PAUSE)


def _try_lock(file: int) -> bool:
    """Raises OSError where the disk has no locks."""
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


class Watch:
    """Learns what a save within `watched` overwrites."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._backup = copy_of(path)
        self._before = _stat(path)
        self._file = self._made = None
        self._writers = _Writers()
        if sys.platform == "win32" or self._before is None:
            return  # a file that is open cannot be removed there, as Jupyter does with its copy
        with suppress(OSError):
            new = not os.path.lexists(self._backup)
            self._file = os.open(self._backup, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if new:
                os.utime(self._file, (0, 0))  # any copy changes that
            self._made = os.fstat(self._file)
            self._writers = _Writers(path, self._backup)

    def overwritten(self) -> Overwritten:
        """When the save is over. Of a large file that takes a while."""
        if self._file is None or self._made is None or self._before is None:
            return Overwritten()
        copy = os.fstat(self._file)
        if (copy.st_mtime_ns, copy.st_size) == (self._made.st_mtime_ns, self._made.st_size):
            return Overwritten()
        with open(os.dup(self._file), "rb") as file:
            content = file.read()
        late = copy.st_mtime_ns != self._before.st_mtime_ns or self._writers.count() > 1
        return Overwritten(content, late or not _same(self._before, _stat(self._path)))

    def close(self) -> None:
        """Leaves no copy behind that nobody has filled."""
        self._writers.close()
        if self._file is None:
            return
        with suppress(OSError):
            left = os.fstat(self._file)
            if left.st_size == 0 and _same(left, _stat(self._backup)):
                os.unlink(self._backup)
        os.close(self._file)


class _Writers:
    """Counts who writes a file in place until its copy is removed; on Linux, elsewhere nobody.

    Between the moment when Jupyter has made the copy and the one when it opens the file, nothing
    else tells of a write.
    """

    def __init__(self, path: str = "", copy: str = "") -> None:
        self._queue = -1
        if not path or sys.platform != "linux":
            return
        import ctypes  # costs time at start

        system = ctypes.CDLL(None)
        self._queue = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        # Modifications too: of two events that are alike, one after the other, only one is told.
        system.inotify_add_watch(self._queue, os.fsencode(path), _MODIFIED | _CLOSED_WRITING)
        self._copy = system.inotify_add_watch(self._queue, os.fsencode(copy), _ATTRIBUTES)

    def count(self) -> int:
        """Programs that have written the file and closed it; once only."""
        closed = count = 0
        for watch, mask in self._events():
            if mask & _CLOSED_WRITING:
                closed += 1
            elif watch == self._copy and mask & _ATTRIBUTES:  # it is removed, or its dates are set
                count = closed
        return count

    def _events(self) -> Iterator[tuple[int, int]]:
        while self._queue >= 0:
            try:
                read = os.read(self._queue, 1 << 16)
            except BlockingIOError:
                return
            for watch, mask, *_ in _EVENT.iter_unpack(read):  # of files: no names
                yield watch, mask

    def close(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1


@contextmanager
def watched(path: str) -> Iterator[Watch]:
    """A file while it is saved through a manager that copies it first."""
    watch = Watch(path)
    try:
        yield watch
    finally:
        watch.close()


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Whether both are the same file, whatever is in it."""
    return other is not None and os.path.samestat(one, other)
