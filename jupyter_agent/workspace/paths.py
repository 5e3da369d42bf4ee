"""Resolves paths: one name for all spellings of a path, and whether models may use it."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.services.contents.manager import ContentsManager

from jupyter_agent.carriers.managers import hides
from jupyter_agent.errors import NotPermitted

_SYSTEM = (Path("/proc"), Path("/sys"))
"""Linux has regular files here that reveal processes and their keys."""
_REFUSAL = "`{}` {}; a person can open it."


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The file or folder that a path means."""

    path: str
    """The path to open: normalised, with renames followed."""
    name: str
    """The name for rules, the same for each path of a file: with links within the root followed, in
    NFC. The target of a link out of the root has the path of the link."""
    folds_case: bool = False
    """Whether the file system ignores case."""
    linked: bool = False
    """Whether the path is a link or leads through one."""
    refusal: str = ""
    """Why models may not use it, as a sentence; empty if they may."""


class Identities:
    """Resolves paths. Only file-based contents managers have links; others interpret paths
    themselves.
    """

    def __init__(self, contents: ContentsManager, locate: Callable[[str], Awaitable[str]]) -> None:
        """`locate` normalises a path and follows renames (`Notebooks.locate`)."""
        self._locate = locate
        self._files = contents if isinstance(contents, FileContentsManager) else None

    async def of(self, path: str) -> Identity:
        """Resolve this path. Raises InvalidInput for an invalid one."""
        path = await self._locate(path)
        if self._files is None:
            return Identity(path=path, name=_to_nfc(path))
        root = Path(os.path.realpath(self._files.root_dir))
        found, inside = _look(root, path)
        if found.linked and not found.refusal and await hides(self._files, inside):
            return replace(found, refusal=_REFUSAL.format(path, "is a link to a hidden file"))
        return found

    async def path(self, path: str) -> str:
        """The path to open (`Identity.path`), which is also the key in stores. The disk is not
        asked. Raises InvalidInput for an invalid one.
        """
        return await self._locate(path)


class Lookup:
    """Resolves the paths of one call, each only once."""

    def __init__(self, identities: Identities, home: str | None) -> None:
        """`home` is the path of the turn's own notebook."""
        self._identities = identities
        self._home = home
        self._found: dict[str, Identity] = {}

    async def of(self, path: str | None) -> Identity | None:
        """Like `Identities.of`, by default for the turn's own notebook; None without one."""
        chosen = path if path is not None else self._home
        if chosen is None:
            return None
        if chosen not in self._found:
            found = await self._identities.of(chosen)
            self._found |= {chosen: found, found.path: found}
        return self._found[chosen]

    async def refuse_outside(self, paths: Iterable[str]) -> None:
        """Raises NotPermitted if a path named by a model leads out of the root, or to something
        other than a regular file or folder. The turn's own notebook is allowed, since a person
        named it.
        """
        home = await self.of(None)
        for path in paths:
            named = await self.of(path)
            if named and named.refusal and (home is None or named.name != home.name):
                raise NotPermitted(named.refusal)


def root_of(contents: ContentsManager) -> str | None:
    """The real path of the root folder; None for contents managers without plain files."""
    return (
        os.path.realpath(contents.root_dir) if isinstance(contents, FileContentsManager) else None
    )


def _look(root: Path, path: str) -> tuple[Identity, str]:
    """Resolve a path below the root; also returns the relative path to which it leads."""
    straight = root.joinpath(*path.split("/"))
    real = Path(os.path.realpath(straight))
    if not real.is_relative_to(root):
        outside = path.split("/")[0] == ".."
        why = "is outside of the folder" if outside else "is a link out of the folder"
        refusal = _REFUSAL.format(path, why)
        return Identity(path=path, name=_to_nfc(path), linked=True, refusal=refusal), path
    inside = "" if real == root else real.relative_to(root).as_posix()
    found = Identity(
        path=path,
        name=_to_nfc(inside),
        folds_case=_folds_case(root),
        linked=os.path.normcase(real) != os.path.normcase(straight),
        refusal=_why_not(path, real),
    )
    return found, inside


def _why_not(path: str, real: Path) -> str:
    """Why the path may not be used: it is a pipe, a device, part of the system, or invalid for the
    disk, for which Jupyter would fail with an internal error. Empty for files, folders and paths
    that do not exist.
    """
    no_file = f"`{path}` is not a regular file; models may not use it."
    if any(real.is_relative_to(system) for system in _SYSTEM):
        return no_file
    try:
        mode = real.stat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:  # a name too long, a file used as a folder, circular links
        return f"`{path}` cannot be opened: {error.strerror}."
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else no_file


def _folds_case(root: Path) -> bool:
    """Whether the first entry with letters is also found in swapped case."""
    try:
        with os.scandir(root) as entries:
            name = next((each.name for each in entries if each.name.swapcase() != each.name), None)
        if name is None:
            return False
        return os.path.samestat(os.lstat(root / name), os.lstat(root / name.swapcase()))
    except OSError:
        return False


def _to_nfc(path: str) -> str:
    return unicodedata.normalize("NFC", path)
