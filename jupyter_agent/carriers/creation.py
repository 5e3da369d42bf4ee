"""Creates notebooks, whole or not at all."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jupyter_server.utils import ensure_async

from jupyter_agent.carriers.contents_model import READ_ERRORS, refusal_of
from jupyter_agent.carriers.exchange import OverwriteRefused
from jupyter_agent.carriers.managers import Contents, hides
from jupyter_agent.carriers.plain_files import PlainFiles
from jupyter_agent.errors import Exists, InvalidInput, Locked, ToolError

if TYPE_CHECKING:
    from jupyter_agent.carriers.contents import Disk


class Creation:
    """Saves new notebooks through a contents manager."""

    def __init__(self, disk: Disk, contents: Contents, files: PlainFiles) -> None:
        self._disk = disk
        self._contents = contents
        self._files = files

    async def create(self, path: str, content: dict[str, Any]) -> None:
        """Save a new notebook, creating its folder if necessary. Raises Exists, Locked, ToolError;
        InvalidInput for a path that the disk refuses or that Jupyter hides, whether or not
        something exists there.
        """
        try:
            hidden = await hides(self._contents, path)
        except OSError as error:  # not caught by Jupyter: a name too long, a file as a folder
            raise InvalidInput(
                f"No notebook can be created at `{path}`: {error.strerror}. Choose another path."
            ) from None
        if hidden:
            raise InvalidInput(
                f"No notebook can be created at `{path}`: Jupyter hides such files. Choose another "
                "path; no part of it may start with a dot."
            )
        there = Exists(f"`{path}` already exists; nothing was overwritten.")
        if await self._disk.exists(path):
            raise there
        made, refusal = await self._make_folders(posixpath.dirname(path))
        ids = [cell["id"] for cell in content["cells"]]
        try:
            await self._disk.write(path, content, sign=True, expects=lambda _: False, creates=True)
        except BaseException as error:
            if isinstance(error, ToolError) and await self._has_cells(path, ids):
                return  # a manager that fails late: without space for its checkpoint, for example
            await self._remove_folders(made)
            if isinstance(error, OverwriteRefused):
                raise there from None
            if not isinstance(error, ToolError):
                raise
            why = refusal or error
            if isinstance(why, Locked):
                why = Locked(
                    f"No notebook can be created at `{path}`: its folder is read-only. Choose "
                    "another path."
                )
            if why is error:
                raise
            raise why from error

    async def _has_cells(self, path: str, ids: Sequence[str]) -> bool:
        """Whether there is a notebook at that path, with these cells."""
        try:
            found = await self._disk.load(path)
        except ToolError:
            return False
        return [cell["id"] for cell in found.content["cells"]] == ids

    async def _make_folders(self, path: str) -> tuple[list[str], ToolError | None]:
        """The folders that were made, outermost first, and the error if one could not be made: a
        storage without folders may accept the notebook all the same.
        """
        made: list[str] = []
        for folder in accumulate(path.split("/") if path else (), posixpath.join):
            try:
                if not await self._disk.exists(folder):
                    await ensure_async(self._contents.save({"type": "directory"}, folder))
                    made.append(folder)
            except READ_ERRORS as error:
                return made, refusal_of(folder, error)
        return made, None

    async def _remove_folders(self, made: Sequence[str]) -> None:
        """Remove the folders again if they are empty."""
        for folder in reversed(made):
            with suppress(*READ_ERRORS):
                if (file := self._files.path_of(folder)) is not None:
                    os.rmdir(file)
                    continue
                model = await ensure_async(self._contents.get(folder, type="directory"))
                if not model["content"]:
                    await ensure_async(self._contents.delete(folder))
