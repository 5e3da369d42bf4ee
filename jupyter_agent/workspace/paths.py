"""Which file a path means: one name for all the ways to spell it, and whether models may use it."""

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
from jupyter_agent.errors import InvalidInput, NotPermitted

_SYSTEM = (Path("/proc"), Path("/sys"))
"""What Linux shows there looks like regular files, and tells of processes and their keys."""
_REFUSAL = "`{}` {}; a person can open it."


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a path means."""

    path: str
    """Where to open it: normalised, and the new path of what was renamed."""
    name: str
    """What rules know it by, the same for each path of a file: links within the root followed, in
    NFC. What a link leads to outside of the root is known by the path of the link."""
    folds_case: bool = False
    """Whether the file system takes `A` and `a` for the same."""
    linked: bool = False
    """Whether it is a link, or in a folder that is one."""
    refusal: str = ""
    """Why no model may name it, as a sentence; empty if one may."""


class Identities:
    """Finds out what paths mean. Only managers of plain files have links; what other managers make
    of a path is up to them.
    """

    def __init__(self, contents: ContentsManager, locate: Callable[[str], Awaitable[str]]) -> None:
        """`locate` normalises a path and follows renames (`Notebooks.locate`)."""
        self._locate = locate
        self._files = contents if isinstance(contents, FileContentsManager) else None

    async def of(self, path: str) -> Identity:
        """What this path means now. Raises InvalidInput for what cannot be a path."""
        if "\0" in path:
            raise InvalidInput("Paths must not contain NUL.")
        path = await self._locate(path)
        if self._files is None:
            return Identity(path=path, name=_to_nfc(path))
        root = Path(os.path.realpath(self._files.root_dir))
        try:
            found, inside = _look(root, path)
        except ValueError:  # half a character, a drive of Windows
            raise InvalidInput(f"{path!r} cannot be a path.") from None
        if found.linked and not found.refusal and await hides(self._files, inside):
            return replace(found, refusal=_REFUSAL.format(path, "is a link to a hidden file"))
        return found

    async def path(self, path: str) -> str:
        """Where to open what this path means (`Identity.path`): what a store knows it by."""
        return (await self.of(path)).path


class Lookup:
    """What the paths of one call mean, each looked up once."""

    def __init__(self, identities: Identities, home: str | None) -> None:
        """`home` is the path of the turn's own notebook."""
        self._identities = identities
        self._home = home
        self._found: dict[str, Identity] = {}

    async def of(self, path: str | None) -> Identity | None:
        """As `Identities.of`, of the turn's own notebook without a path; None if there is none."""
        chosen = path if path is not None else self._home
        if chosen is None:
            return None
        if chosen not in self._found:
            found = await self._identities.of(chosen)
            self._found |= {chosen: found, found.path: found}
        return self._found[chosen]

    async def refuse_outside(self, paths: Iterable[str]) -> None:
        """Raises NotPermitted where one of the paths that a model names leads out of the root, or
        to what is no file. The turn's own notebook was named by a person.
        """
        home = await self.of(None)
        for path in paths:
            named = await self.of(path)
            if named and named.refusal and (home is None or named.name != home.name):
                raise NotPermitted(named.refusal)


def root_of(contents: ContentsManager) -> str | None:
    """The real path of the folder that paths count from; None for managers of no plain files."""
    return (
        os.path.realpath(contents.root_dir) if isinstance(contents, FileContentsManager) else None
    )


def _look(root: Path, path: str) -> tuple[Identity, str]:
    """What a path below the root means, and where below the root it leads."""
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
    """Why it is neither a file nor a folder, nor nothing yet, but a pipe, a device, a part of the
    system, or what the disk does not take: Jupyter lets such errors through as its own faults.
    """
    no_file = f"`{path}` is no regular file; no model may name it."
    if any(real.is_relative_to(system) for system in _SYSTEM):
        return no_file
    try:
        mode = real.stat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:  # a name too long, a file taken for a folder, links in a circle
        return f"`{path}` cannot be opened: {error.strerror}."
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else no_file


def _folds_case(root: Path) -> bool:
    """Whether the first name there that has letters is found in the other case as well."""
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
