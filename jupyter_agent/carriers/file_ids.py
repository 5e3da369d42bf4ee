"""Ids of cells in files that do not store them all: text notebooks, older formats."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from jupyter_agent.carriers import nbformat_file
from jupyter_agent.carriers.renames import renamed_path
from jupyter_agent.document.identities import (
    UNNAMED,
    Naming,
    Namings,
    has_other_ids,
    is_in_use,
)
from jupyter_agent.document.values import FIRST_WITH_IDS

_Cells: TypeAlias = Sequence[Mapping[str, Any]]

_CONVERTED = "The file had an older notebook format and is now saved as 4.5, with cell ids."
_REPAIRED = "Cells of the file without an id of their own now have one."


class FileIds:
    """Gives cells without an id of their own the same one each time their file is read."""

    def __init__(self, stored: Namings) -> None:
        """`stored`: namings from before a restart, or given by a page or another program."""
        self._stored = stored
        self._namings: dict[str, Naming] = {}
        """By path."""
        self._former: dict[str, Naming] = {}
        """Those before the last write, in case it failed."""
        self._in_file: dict[str, frozenset[str]] = {}
        """Ids that files of older formats contain nevertheless."""

    def has_naming(self, path: str) -> bool:
        """Whether cells of this file were given ids."""
        return path in self._namings

    async def recall(self, path: str) -> None:
        """Use the stored naming of the file, unless cells have ids of it already."""
        namings = await self._stored.of(path)
        if namings and not is_in_use(namings[-1], self._namings.get(path, UNNAMED).ids):
            self._namings[path] = namings[-1]

    def give(self, path: str, content: dict[str, Any], without: Collection[int]) -> str:
        """Give ids to the cells without one; a sentence on what that will change in the file."""
        converted = content.setdefault("metadata", {}).pop("orig_nbformat", None) is not None
        older = content["nbformat_minor"] < FIRST_WITH_IDS
        self._in_file.pop(path, None)
        if older and len(without) < len(content["cells"]):
            cells = enumerate(content["cells"])
            self._in_file[path] = frozenset(cell["id"] for at, cell in cells if at not in without)
        if not without:
            self._namings.pop(path, None)
            return _CONVERTED if converted else ""
        former = self._namings.get(path, UNNAMED)
        nbformat_file.give_ids(content["cells"], without, former)
        self._namings[path] = nbformat_file.naming_of(content["cells"], former)
        if older:
            return ""
        return _CONVERTED if converted else _REPAIRED

    def as_stored(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON as it goes into the file, without the ids that the file does not have."""
        return nbformat_file.as_stored(content, self._in_file.get(path, ()))

    async def note_load(self, path: str, before: _Cells, now: _Cells) -> None:
        """The cells `now` replace those that were loaded before. If another program gave them other
        ids, an undo needs the former ones.
        """
        former, present = await asyncio.to_thread(
            lambda: [nbformat_file.naming_of(cells, UNNAMED) for cells in (before, now)]
        )
        if has_other_ids(former.cells, present.cells):
            await self._stored.note(path, former)

    def note_write(self, path: str, content: Mapping[str, Any]) -> None:
        """This content is about to be written, with ids for all cells."""
        self._former.pop(path, None)
        former = self._namings.get(path)
        if former is not None or content["nbformat_minor"] < FIRST_WITH_IDS:
            self._namings[path] = nbformat_file.naming_of(content["cells"], former or UNNAMED)
            self._former[path] = former or UNNAMED

    def take_back(self, path: str) -> None:
        """The last write is not in the file: its cells have the ids that they had before."""
        if (former := self._former.pop(path, None)) is not None:
            self._namings[path] = former

    def note_rename(self, old: str, new: str) -> None:
        """A file or folder was renamed."""
        self._namings = {
            renamed_path(path, old, new) or path: naming for path, naming in self._namings.items()
        }
        self._in_file = {
            renamed_path(path, old, new) or path: ids for path, ids in self._in_file.items()
        }
