"""How Jupyter's file managers write a notebook here: into a new file next to it, then both change
places in one step, so that no one ever finds an incomplete file.

Jupyter writes into the file itself. A program that opens it at that moment finds half of it, and
Jupyter's own reader then moves the file away. It also truncates a file that another program is
writing. Here that program's file is complete afterwards, and goes back to its place.

Only Linux can exchange files (renameat2(2)), and not on every disk. Elsewhere, for a file that
would lose its identity (a second name, an owner or attributes that we cannot set), and while
another program has it open for writing, the text is copied into the file as Jupyter does it, but in
one go.
"""

from __future__ import annotations

import errno
import filecmp
import hashlib
import io
import os
import re
import secrets
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

from jupyter_server.services.contents.fileio import FileManagerMixin
from tornado.web import HTTPError

from jupyter_agent.carriers import atomic_save

if sys.platform != "win32":
    import fcntl

OVERTAKEN = "jupyter_agent: another program wrote this notebook at the same moment."
"""In the answer to a refused save; our pages merge and save again."""

_AT_CWD, _NO_REPLACE, _EXCHANGE = -100, 1, 2
"""Constants of renameat2(2)."""
_SET_SIGNAL = 10
"""F_SETSIG of fcntl(2), which Python does not define."""
_PAUSE = 0.002
"""Seconds between two checks for other programs."""
_PATIENCE = 0.05
"""Seconds to wait for a program that is writing the file: the event loop waits too."""
_FOLDER_PATIENCE = 1.0
"""The same for another save in the same folder that is exchanging files."""
_PLACES = 5
"""Attempts to put a file back while others put theirs at the same path."""


class OverwriteRefused(HTTPError):
    """A save would overwrite content that its caller has not seen; nothing was saved."""

    def __init__(self, saved_as: str = "") -> None:
        super().__init__(409, OVERTAKEN)
        self.saved_as = saved_as
        """The name of the file with that content, if a still later one is in its place by now; else
        empty.
        """


@dataclass
class Save:
    """One save of a file."""

    file: str
    expects: Callable[[bytes], bool]
    """Whether the caller knows this content of the file."""
    creates: bool = False
    """The file may be missing."""
    algorithm: str = ""
    """The hash algorithm for `hash`; empty to make no hash."""
    hash: str = ""
    """Of the written content."""
    started: bool = False


class FileWrites:
    """Replaces `atomic_writing` of a file manager for notebooks."""

    def __init__(self, files: FileManagerMixin) -> None:
        self._files = files
        self._in_place = files.atomic_writing
        self._save: ContextVar[Save | None] = ContextVar("jupyter_agent_save", default=None)
        files.atomic_writing = self.atomic_writing  # type: ignore[method-assign]

    @classmethod
    def of(cls, files: object) -> FileWrites | None:
        """The instance of this manager, installed if necessary; None for managers of other kinds,
        and for those with their own way of writing.
        """
        if not isinstance(files, FileManagerMixin):
            return None
        owner = getattr(files.atomic_writing, "__self__", None)
        if isinstance(owner, cls):
            return owner
        own = getattr(files.atomic_writing, "__func__", None)
        return cls(files) if own is FileManagerMixin.atomic_writing else None

    @property
    def save(self) -> Save | None:
        """The save in progress in this context."""
        return self._save.get()

    @save.setter
    def save(self, save: Save | None) -> None:
        self._save.set(save)

    @contextmanager
    def atomic_writing(
        self, os_path: str, text: bool = True, encoding: str = "utf-8", **options: Any
    ) -> Iterator[IO[Any]]:
        """Like the manager's own. Raises OverwriteRefused."""
        file = os.path.realpath(os_path)
        save = self._begin(file)
        if save is None and not os_path.endswith(".ipynb"):
            with self._in_place(os_path, text=text, encoding=encoding, **options) as stream:
                yield stream
            return
        existed = os.path.lexists(file)
        with self._files.perm_to_403(os_path), self._new(file, hidden=existed) as new:
            if text:
                wrapper = io.TextIOWrapper(new, encoding, newline=options.get("newline", "\n"))
                yield wrapper
                wrapper.detach()
            else:
                yield new
            new.flush()
            new.seek(0)
            if not existed and save is not None and not save.creates:
                raise OverwriteRefused
            if save is not None and save.algorithm:
                save.hash = hashlib.new(save.algorithm, new.read()).hexdigest()
                new.seek(0)
            if isinstance(new, io.BytesIO) or not self._exchange(new, file, existed, save):
                new.seek(0)
                if existed and not os.path.lexists(file):  # it was renamed or deleted
                    raise OverwriteRefused
                self._copy(new.read(), os_path, file, save)

    def _begin(self, file: str) -> Save | None:
        """Claim the context's save for this file, once only: any further write is another save."""
        save = self.save
        if save is None or save.started or save.file != file:
            return None
        save.started = True
        return save

    @contextmanager
    def _new(self, file: str, *, hidden: bool) -> Iterator[io.BufferedRandom | io.BytesIO]:
        """A new file in the same folder, or one in memory if that is impossible. `hidden`: others
        must not be able to read it yet.
        """
        mode = 0o600 if hidden else 0o666
        new: io.BufferedRandom | None = None
        if self._may_exchange():
            with suppress(OSError):
                new = open(
                    _new_path(file), "xb+", opener=lambda path, flags: os.open(path, flags, mode)
                )
        if new is None:
            yield io.BytesIO()
            return
        with new:
            with suppress(OSError):  # a disk without locks
                atomic_save.try_lock(new.fileno())
            try:
                yield new
            finally:
                with suppress(OSError):
                    if os.path.samestat(os.stat(new.name), os.fstat(new.fileno())):
                        os.unlink(new.name)

    def _exchange(
        self, new: io.BufferedRandom, file: str, existed: bool, save: Save | None
    ) -> bool:
        """Put the new file at the path; False if its text has to be copied there instead. Raises
        OverwriteRefused.
        """
        end = time.monotonic() + (_PATIENCE if save is not None else 0)
        while existed and is_open_for_writing(file):
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE)
        if existed and not _make_alike(new.fileno(), file):
            return False
        os.fsync(new.fileno())
        made = os.fstat(new.fileno())
        with _folder_lock(os.path.dirname(file)):
            try:
                _rename(new.name, file, _EXCHANGE if existed else _NO_REPLACE)
            except OSError:  # another kind of disk, a mounted file; or just deleted, or created
                return False
            return not existed or self._settle(new, made, file, save)

    def _settle(
        self, new: io.BufferedRandom, made: os.stat_result, file: str, save: Save | None
    ) -> bool:
        """Check the former file, which has the new file's name now, and delete it if it may go."""
        former: os.stat_result | None = None
        known = False
        try:
            with open(new.name, "rb") as data:
                former = os.fstat(data.fileno())
                written = _has_writer(data)
                known = not written and (save is None or save.expects(data.read()))
        finally:
            saved_as = "" if known else self._give_back(new, made, former, file)
        if known:
            for name in (new.name, atomic_save.copy_of(file)):
                with suppress(OSError):  # as Jupyter does with its copy
                    os.unlink(name)
        elif save is not None:
            raise OverwriteRefused(saved_as)
        return known

    def _give_back(
        self, new: io.BufferedRandom, made: os.stat_result, former: os.stat_result | None, file: str
    ) -> str:
        """Put the former file back in its place, unless a still later one is there by now: then it
        gets a visible name, which is returned.
        """
        for _ in range(_PLACES):
            try:
                _rename(new.name, file, _EXCHANGE)
                now = os.stat(new.name)
            except OSError:  # it was deleted, or its folder
                break
            if os.path.samestat(now, made) and _times(now) == _times(made):
                return ""
            if former is not None and os.path.samestat(now, former):
                break
        return self._keep(new.name, file)

    def tidy(self, file: str, is_whole: Callable[[str], bool]) -> list[str]:
        """Remove the files that interrupted saves left next to this file. Returns the new names of
        those whose content differs from the file, which stay.
        """
        names = []
        with _folder_lock(os.path.dirname(file)), suppress(OSError):
            for left in _leftovers(file):
                if not is_whole(left) or _are_alike(left, file):
                    os.unlink(left)
                else:
                    names.append(self._keep(left, file))
        return names

    def _keep(self, source: str, file: str) -> str:
        """Give a file that is no longer at any path a name next to `file`, and log it."""
        for number in range(1, 100):
            name = f"{file}.overwritten-{number}"
            if rename_if_free(source, name):
                break
        else:
            name = source
        self._files.log.warning(
            "jupyter_agent: %s was written by several programs at the same moment. What one of "
            "them wrote is in %s.",
            os.path.basename(file),
            os.path.basename(name),
        )
        return os.path.basename(name)

    def _copy(self, content: bytes, os_path: str, file: str, save: Save | None) -> None:
        """Write as Jupyter does; this server does nothing else in the meantime."""
        with _folder_lock(os.path.dirname(file)):
            existed = os.path.lexists(file)
            if save is not None and existed:
                with open(file, "rb") as now:
                    if not save.expects(now.read()):
                        raise OverwriteRefused
            try:
                with self._in_place(os_path, text=False) as target:
                    target.write(content)
            except OSError:
                if not existed:  # else Jupyter restores its copy, or the caller the old text
                    with suppress(OSError):
                        os.unlink(file)
                raise

    def _may_exchange(self) -> bool:
        return (
            self._files.use_atomic_writing and _renameat2() is not None and not self._knows_inodes()
        )

    def _knows_inodes(self) -> bool:
        """Whether this server has an extension that takes a changed inode for another file."""
        module = sys.modules.get("jupyter_server_fileid.manager")
        app = getattr(getattr(self._files, "parent", None), "web_app", None)
        if module is None or app is None:
            return False
        return isinstance(app.settings.get("file_id_manager"), module.LocalFileIdManager)


def is_open_for_writing(path: str) -> bool:
    """Whether a program has this file open for writing, as far as can be detected."""
    if _renameat2() is None:
        return False
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return _has_writer(file)
    except OSError:
        return False


def rename_if_free(source: str, file: str) -> bool:
    """Rename a file to a path that must be free; whether that was done."""
    try:
        _rename(source, file, _NO_REPLACE)
    except OSError:
        return False
    return True


def _new_path(file: str) -> str:
    folder, name = os.path.split(file)
    return os.path.join(folder, f".~{name}.agent-{secrets.token_hex(4)}")


def _leftovers(file: str) -> list[str]:
    folder, name = os.path.split(file)
    own = re.compile(re.escape(f".~{name}.agent-") + "[0-9a-f]{8}")
    if _renameat2() is None:
        return []
    with os.scandir(folder) as entries:
        found = [entry.path for entry in entries if own.fullmatch(entry.name)]
    return [path for path in found if _is_unlocked(path)]


def _are_alike(one: str, other: str) -> bool:
    return os.path.exists(other) and filecmp.cmp(one, other, shallow=False)


def _is_unlocked(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return atomic_save.try_lock(file.fileno())
    except OSError:
        return False


@contextmanager
def _folder_lock(folder: str) -> Iterator[None]:
    """Keep our other saves from exchanging files in this folder."""
    with ExitStack() as stack:
        with suppress(OSError):  # a folder or a disk without locks for us
            opened = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, opened)
            end = time.monotonic() + _FOLDER_PATIENCE
            while not atomic_save.try_lock(opened) and time.monotonic() < end:
                time.sleep(_PAUSE)
        yield


def _make_alike(new: int, file: str) -> bool:
    """Copy owner, mode and attributes of the file at the path to a new file. False if that is
    impossible, so that it would be another file, or if there is no file.
    """
    try:
        was, now = os.lstat(file), os.fstat(new)
        if not stat.S_ISREG(was.st_mode) or was.st_nlink != 1 or not os.access(file, os.W_OK):
            return False
        if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
            os.fchown(new, was.st_uid, was.st_gid)
        os.fchmod(new, stat.S_IMODE(was.st_mode))
        marks, has = _marks(file), _marks(new)
        for name in has.keys() - marks.keys():
            os.removexattr(new, name)
        for name, mark in marks.items():
            if has.get(name) != mark:
                os.setxattr(new, name, mark)
    except OSError:
        return False
    return True


def _marks(file: int | str) -> dict[str, bytes]:
    """Extended attributes, including access lists."""
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _times(found: os.stat_result) -> tuple[int, int]:
    """Differs after each write."""
    return found.st_size, found.st_mtime_ns


def _has_writer(file: IO[bytes]) -> bool:
    """Whether a program has this file, opened for reading here, open for writing."""
    try:
        fcntl.fcntl(file, _SET_SIGNAL, signal.SIGURG)  # a signal that ends no process
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # a disk without leases, or another user's file
        pass
    return False


@cache
def _renameat2() -> Callable[..., int] | None:
    """renameat2(2); None if the system has no such call."""
    if sys.platform != "linux":
        return None
    import ctypes  # slow to import

    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _rename(source: str, target: str, how: int) -> None:
    """Raises OSError."""
    import ctypes

    rename = _renameat2()
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), target)
    if rename(_AT_CWD, os.fsencode(source), _AT_CWD, os.fsencode(target), how):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
