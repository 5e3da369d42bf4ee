"""How Jupyter's file managers write a notebook here: beside it, then both change places in one
step, so that nobody ever finds half of one.

Jupyter writes into the file itself. Who opens it at that moment finds half of it, and Jupyter's own
reader then moves the file away. It also cuts short what another program is just writing. Here that
program's file is whole afterwards, and goes back to its place.

Only Linux has that step (renameat2(2)), and not on every disk. Elsewhere, and for a file that
would not be the same one then (with a second name, an owner or marks that we cannot give), the
text is copied into the file as Jupyter does it, but at once.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import count
from typing import IO, Any, cast

from jupyter_server.services.contents.fileio import FileManagerMixin
from tornado.web import HTTPError

if sys.platform != "win32":
    import fcntl

OVERTAKEN = "jupyter_agent: another program wrote this notebook at the same moment."
"""In the answer to a save that was refused; a page of ours merges and saves again."""

_AT_CWD, _NO_REPLACE, _EXCHANGE = -100, 1, 2
"""Of renameat2(2)."""
_SET_SIGNAL = 10
"""F_SETSIG of fcntl(2), which Python does not name."""
_PAUSE = 0.002
"""Seconds between two looks at a file that somebody is writing."""
_PATIENCE = 0.05
"""Seconds that a page's save, which holds up the event loop, waits for somebody who writes."""
_PLACES = 5
"""How often a file changes places with one that others put there at the same moment."""


class Overwritten(HTTPError):
    """A save would take the place of something that its caller has not seen."""

    def __init__(self, content: bytes, *, is_back: bool) -> None:
        super().__init__(409, OVERTAKEN)
        self.content = content
        """What that was, as far as it was written."""
        self.is_back = is_back
        """Whether it is in the file, and nothing was changed."""


class Save:
    """One save of a file, until what it takes the place of is known and done with."""

    def __init__(self, file: str, expects: Callable[[bytes], bool], *, creates: bool) -> None:
        """`expects` tells whether its caller knows this content of the file; `creates`: the file
        may be missing.
        """
        self.file = file
        self.expects = expects
        self.creates = creates
        self._beside = ""
        self._files: tuple[IO[bytes], IO[bytes]] | None = None
        self._made: os.stat_result | None = None

    def exchanged(self, new: IO[bytes], former: IO[bytes], beside: str) -> None:
        """The new file is in its place, and the former one `beside`."""
        self._files, self._beside = (new, former), beside
        self._made = os.fstat(new.fileno())
        with suppress(OSError):  # so that nobody takes it for a leftover
            fcntl.flock(former, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def settle(self, patience: float) -> None:
        """Raises Overwritten if the caller did not know what was in the file, or if somebody is
        still writing that after so many seconds. Of a large file that takes a while.
        """
        if self._files is None:
            return
        _, former = self._files
        end = time.monotonic() + patience
        while (written := _is_written(former)) and time.monotonic() < end:
            time.sleep(_PAUSE)
        content = _content(former)
        if written or not self.expects(content):
            raise Overwritten(content, is_back=self._give_back())

    def close(self) -> None:
        """Leaves nothing beside the file."""
        if self._files is not None:
            for file in self._files:
                file.close()
            with suppress(OSError):
                os.unlink(self._beside)
        self._files = None

    def _give_back(self) -> bool:
        """Put the former file in its place again, unless there is a still later one by now."""
        for _ in range(_PLACES):
            try:
                _rename(self._beside, self.file, _EXCHANGE)
            except OSError:  # it was deleted, or its folder
                return False
            if self._is_ours(self._beside):
                return True
            if self._is_former(self._beside):
                return False
        return False

    def _is_ours(self, path: str) -> bool:
        """Whether that is what this save wrote, and nobody has written into it since."""
        now, made = os.stat(path), self._made
        return (
            made is not None
            and os.path.samestat(now, made)
            and (now.st_size, now.st_mtime_ns) == (made.st_size, made.st_mtime_ns)
            and self._files is not None
            and not _is_written(self._files[0])
        )

    def _is_former(self, path: str) -> bool:
        return self._files is not None and _same(path, self._files[1])


class PageSave(Save):
    """One of a page, which has no time for more: what it takes the place of is known at once."""

    def __init__(self, file: str, algorithm: str, seen: str) -> None:
        """`seen` is the hash, of this algorithm, of what the page has seen of the file."""
        super().__init__(file, lambda content: self._hash(content) == seen, creates=True)
        self._algorithm = algorithm
        self.hash = ""
        """Of what was written."""

    def _hash(self, content: bytes) -> str:
        return hashlib.new(self._algorithm, content).hexdigest()

    def written(self, content: bytes) -> None:
        """The file is written. Raises Overwritten."""
        self.hash = self._hash(content)
        try:
            self.settle(_PATIENCE)
        finally:
            self.close()


class FileWrites:
    """What a file manager writes notebooks with, instead of its own `atomic_writing`."""

    def __init__(self, files: FileManagerMixin) -> None:
        self._files = files
        self._in_place = files.atomic_writing
        self._save: ContextVar[Save | None] = ContextVar("jupyter_agent_save", default=None)
        self._numbers = count()
        files.atomic_writing = self.atomic_writing  # type: ignore[method-assign]

    @classmethod
    def of(cls, files: FileManagerMixin) -> FileWrites:
        """The one of this manager, which gets it if it has none."""
        now = getattr(files.atomic_writing, "__self__", None)
        return now if isinstance(now, cls) else cls(files)

    @property
    def save(self) -> Save | None:
        """The one that is under way in this context."""
        return self._save.get()

    @save.setter
    def save(self, save: Save | None) -> None:
        self._save.set(save)

    @contextmanager
    def watch(self, save: Save) -> Iterator[Save]:
        """What is saved in this context meanwhile is this."""
        self.save = save
        try:
            yield save
        finally:
            self.save = None
            save.close()

    @contextmanager
    def atomic_writing(
        self, os_path: str, text: bool = True, encoding: str = "utf-8", **options: Any
    ) -> Iterator[IO[Any]]:
        """As the manager's own."""
        if not os_path.endswith(".ipynb"):
            with self._in_place(os_path, text=text, encoding=encoding, **options) as file:
                yield file
            return
        target = os.path.realpath(os_path)
        save = self.save if self.save is not None and self.save.file == target else None
        with self._files.perm_to_403(os_path):
            with self._beside(target) as (raw, beside):
                if text:
                    file = io.TextIOWrapper(raw, encoding, newline=options.get("newline", "\n"))
                    yield file
                    file.detach()
                else:
                    yield raw
                raw.flush()
                written = _content(raw) if isinstance(save, PageSave) else b""
                if beside is None or not _exchange(raw, beside, target, save):
                    self._copy(raw, os_path, target, save)
            if isinstance(save, PageSave):
                try:
                    save.written(written)
                except Overwritten as theirs:
                    if not theirs.is_back:  # a third program wrote it just now
                        name = os.path.basename(target)
                        self._files.log.warning("jupyter_agent: %s: %s", name, OVERTAKEN)
                    raise

    @contextmanager
    def _beside(self, file: str) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
        """A new file in the same folder, open for writing and for reading; where that cannot be,
        one that has no name.
        """
        folder, name = os.path.split(file)
        beside = os.path.join(folder, f".~{name}.{os.getpid():x}-{next(self._numbers):x}")
        # Nobody reads in it what the file hides; of a new file the system says who may.
        mode = 0o600 if os.path.exists(file) else 0o666
        raw: IO[bytes] | None = None
        if self._may_exchange():
            with suppress(OSError):
                raw = open(beside, "xb+", opener=lambda path, flags: os.open(path, flags, mode))
        if raw is None:
            with tempfile.TemporaryFile() as nowhere:
                yield cast("IO[bytes]", nowhere), None
            return
        try:
            with raw, open(beside, "rb") as reader:
                with suppress(OSError):  # a disk without locks
                    fcntl.flock(reader, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield raw, reader
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise

    def _copy(self, raw: IO[bytes], os_path: str, file: str, save: Save | None) -> None:
        """Write as Jupyter does; nothing else happens in this server meanwhile."""
        if save is not None:
            try:
                with open(file, "rb") as now:
                    content = now.read()
            except FileNotFoundError:
                if not save.creates:
                    raise
            else:
                if not save.expects(content):
                    raise Overwritten(content, is_back=True)
        raw.seek(0)
        with self._in_place(os_path, text=False) as target:
            shutil.copyfileobj(raw, target)

    def _may_exchange(self) -> bool:
        return self._files.use_atomic_writing and _can_exchange() and not self._knows_inodes()

    def _knows_inodes(self) -> bool:
        """Whether this server has an extension that takes a file with another inode for another
        file.
        """
        module = sys.modules.get("jupyter_server_fileid.manager")
        app = getattr(getattr(self._files, "parent", None), "web_app", None)
        if module is None or app is None:
            return False
        return isinstance(app.settings.get("file_id_manager"), module.LocalFileIdManager)


def leftovers(file: str) -> Iterator[str]:
    """What saves that were cut off have left beside this file."""
    folder, name = os.path.split(file)
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith(f".~{name}.") and _is_left(entry.path):
                yield entry.path


def _is_left(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def rename_to_free(source: str, file: str) -> bool:
    """Rename a file to where there is none; whether that was done."""
    try:
        _rename(source, file, _NO_REPLACE)
    except (OSError, AttributeError):
        return False
    return True


def _exchange(raw: IO[bytes], reader: IO[bytes], file: str, save: Save | None) -> bool:
    """Have the new file at the path; False where it has to be copied there."""
    beside = reader.name
    for _ in range(_PLACES):
        try:
            alike = _make_alike(raw.fileno(), file)
        except FileNotFoundError:
            if save is not None and not save.creates:
                raise
            how = _NO_REPLACE
        else:
            if not alike:
                break
            how = _EXCHANGE
        os.fsync(raw.fileno())
        try:
            _rename(beside, file, how)
        except (FileExistsError, FileNotFoundError):  # others were faster
            continue
        except OSError:  # another kind of disk, or a file that is mounted there
            break
        if how == _EXCHANGE:
            if save is None:
                os.unlink(beside)
            else:
                save.exchanged(os.fdopen(os.dup(reader.fileno()), "rb"), open(beside, "rb"), beside)
        return True
    os.unlink(beside)
    return False


def _make_alike(new: int, file: str) -> bool:
    """Give a new file what else belongs to the one at the path. False where it would be another
    one. Raises FileNotFoundError.
    """
    was, now = os.stat(file), os.fstat(new)
    if not stat.S_ISREG(was.st_mode) or was.st_nlink != 1 or not os.access(file, os.W_OK):
        return False
    try:
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
    """Extended attributes; access lists are among them."""
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _same(path: str, file: IO[bytes]) -> bool:
    return os.path.samestat(os.stat(path), os.fstat(file.fileno()))


def _is_written(file: IO[bytes]) -> bool:
    """Whether a program has this file, which is open for reading, open for writing."""
    try:
        fcntl.fcntl(file, _SET_SIGNAL, signal.SIGURG)  # one that ends nobody
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # a disk without leases, or somebody else's file
        pass
    return False


@cache
def _can_exchange() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # costs time at start

    return hasattr(ctypes.CDLL(None), "renameat2")


def _rename(source: str, target: str, how: int) -> None:
    """renameat2(2). Raises OSError."""
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    if system.renameat2(_AT_CWD, os.fsencode(source), _AT_CWD, os.fsencode(target), how):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
