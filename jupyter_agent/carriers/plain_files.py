"""The plain files behind a contents manager: what can be known of them without reading them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, cast

from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from jupyter_agent.carriers import atomic_save, exchange, nbformat_file
from jupyter_agent.carriers.managers import Contents, is_plain

_TAIL = 64
"""Bytes at the end of a file in which a complete notebook closes its JSON."""
_GAP = 0.2
"""Seconds within which a file that was deleted may be created again."""
PAUSE = 0.02
"""Seconds between two checks of a file that is being saved."""
_WRITERS = 0.3
"""Seconds to wait for a program that is writing the file."""

_LINUX_TICKS = 5
"""CLOCK_REALTIME_COARSE of Linux, from which its file systems take their times."""
_TICK = 20_000_000
"""Longest tick elsewhere, in nanoseconds."""
_COARSE = 10_000_000
"""Nanoseconds. A time that is a multiple of this comes from a file system with coarse times: up to
two seconds, as on FAT.
"""
_COARSE_TICK = 2_000_000_000

Trace: TypeAlias = tuple[int, ...]
"""Times, size and place of a file; different after each write."""


class PlainFiles:
    """The files of a contents manager; none if it stores notebooks in another way."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.exist = is_plain(contents)
        """Whether the manager writes the JSON of each notebook into a file."""

    def trace(self, path: str) -> Trace | None:
        """A value that differs after each later write, found without reading the file; None if
        there is no such value: the contents manager has no plain files, or the last write was just
        now and the next could have the same time and size.
        """
        found = self.stat(path)
        if found is None:
            return None
        written = max(found.st_mtime_ns, found.st_ctime_ns)
        if written + (0 if written % _COARSE else _COARSE_TICK) >= _tick_start():
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev

    def has_coarse_times(self, path: str) -> bool:
        """Whether two writes of this file in one second may have the same time."""
        found = self.stat(path)
        return found is not None and found.st_mtime_ns % _COARSE == 0

    def path_of(self, path: str) -> str | None:
        """Path of the plain file that the manager writes for this notebook; None if there is no
        such file.
        """
        return self._path_of(path) if self.exist else None

    async def path_to_guard(self, path: str, expects: Callable[[bytes], bool]) -> str | None:
        """Path of the file that a save of this notebook replaces, if its manager writes files as
        Jupyter's own does.

        A manager that adds to Jupyter's own may store a notebook in two files, or give it a hash
        that is not the file's: then `expects` does not know the content, and there is no such path.
        """
        name = self._path_of(path)
        if self.exist or name is None:
            return name
        with suppress(OSError):
            return name if expects(await asyncio.to_thread(Path(name).read_bytes)) else None
        return None

    def _path_of(self, path: str) -> str | None:
        files = cast(FileContentsManager, self._contents)
        with suppress(HTTPError, OSError, ValueError):
            name: str = files._get_os_path(path)  # type: ignore[no-untyped-call]
            return os.path.realpath(name)
        return None

    def stat(self, path: str) -> os.stat_result | None:
        """Facts about the file; None if there is no file, or it cannot be opened."""
        if not self.exist:
            return None
        try:
            files = cast(FileContentsManager, self._contents)
            # Opened, since only that asks the server of a network file system (nfs(5),
            # "Close-to-open cache consistency"); non-blocking, in case it is a pipe.
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
            file = os.open(files._get_os_path(path), flags)  # type: ignore[no-untyped-call]
            try:
                return os.fstat(file)
            finally:
                os.close(file)
        except (HTTPError, OSError, ValueError):  # the reader of the file will report the error
            return None

    def is_being_saved(self, path: str) -> bool:
        """Whether someone, perhaps another server, has started to save the file just now: then its
        incomplete content is not a save that was cut off.
        """
        file = self.path_of(path)
        return file is not None and atomic_save.is_being_saved(file)

    async def is_recreated(self, path: str, asked: float) -> bool:
        """Whether a program that had just deleted the file has created it again, as `git checkout`
        does. Waits for that only if its folder was changed just before the file was `asked` for, in
        seconds since the epoch: a busy server takes a while to hear that it is missing.
        """
        file = self.path_of(path)
        if file is None:
            return False
        folder = os.path.dirname(file)
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)  # the folder itself may be on its way
        try:
            changed = os.stat(folder).st_mtime
        except OSError:
            return False
        if asked - changed <= _GAP:
            for _ in range(round(_GAP / PAUSE)):  # a fixed count, even if the server is busy
                if os.path.lexists(file):
                    break
                await asyncio.sleep(PAUSE)
        return os.path.lexists(file)


async def wait_for_writer(file: str) -> None:
    """Wait for a program that is writing the file, but not for one that only has it open."""
    end = time.monotonic() + _WRITERS
    while await asyncio.to_thread(exchange.is_open_for_writing, file) and time.monotonic() < end:
        await asyncio.sleep(PAUSE)


def is_damaged(file: str) -> bool:
    """Whether the file exists and was cut off. A large file is read in full only if it may be."""
    if not os.path.isfile(file):  # a pipe would never be opened
        return False
    try:
        with open(file, "rb") as data:
            end = data.seek(0, os.SEEK_END)
            data.seek(max(0, end - _TAIL))
            if data.read().rstrip().endswith(b"}") and not os.path.exists(
                atomic_save.copy_of(file)
            ):
                return False
            data.seek(0)
            return nbformat_file.is_cut_off(data.read())
    except OSError:  # the reader of the file will report the error
        return False


def is_whole(file: str) -> bool:
    """Whether the file has a complete notebook."""
    try:
        with open(file, "rb") as data:
            return nbformat_file.is_notebook(data.read())
    except OSError:
        return False


def _tick_start() -> int:
    """The earliest time, in nanoseconds, that a file written now can get."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(_LINUX_TICKS)
    return time.time_ns() - _TICK
