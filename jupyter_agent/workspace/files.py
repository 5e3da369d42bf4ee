"""Lists and reads files, only through Jupyter's contents manager."""

from __future__ import annotations

import asyncio
import base64
import fnmatch
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from jupyter_server.services.contents.manager import ContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.carriers.managers import hides
from jupyter_agent.errors import InvalidInput, NotebookNotFound, NotPermitted, ToolError
from jupyter_agent.foreign import path_fault
from jupyter_agent.text.encodings import Decoded, decode

MOST_ENTRIES = 500


class Files:
    """Lists folders and reads text files below the server's root."""

    def __init__(self, contents: ContentsManager) -> None:
        self._contents = contents

    async def list(self, path: str, pattern: str | None = None) -> list[Mapping[str, Any]]:
        """The entries of a folder in the contents API's form, folders first."""
        model = await self._get(path, type="directory")
        entries = [
            entry for entry in model["content"] if fnmatch.fnmatch(entry["name"], pattern or "*")
        ]
        return sorted(entries, key=lambda entry: (entry["type"] != "directory", entry["name"]))[
            :MOST_ENTRIES
        ]

    async def is_folder(self, path: str) -> bool:
        """Whether there is a folder at this path; hidden ones do not count."""
        path = path.strip("/")
        if "\0" in path or await hides(self._contents, path):
            return False
        try:
            return bool(await ensure_async(self._contents.dir_exists(path)))  # type: ignore[no-untyped-call]
        except (HTTPError, OSError):  # reading it will report the error
            return False

    async def read(self, path: str) -> Decoded:
        """The text of a file. Raises ToolError for a binary file."""
        model = await self._get(path, type="file")
        if model["format"] != "base64":
            return Decoded(model["content"])
        raw = base64.b64decode(model["content"])
        read = await asyncio.to_thread(decode, raw)
        if read is None:
            raise ToolError(
                f"`{path}` is not a text file ({len(raw)} bytes); read it with code in a cell."
            )
        return read

    async def data(self, path: str) -> str:
        """The bytes of any file in base64. Raises ToolError."""
        model = await self._get(path, type="file", format="base64")
        encoded: str = model["content"]
        return "".join(encoded.split())

    async def exists(self, path: str) -> bool:
        """Whether there is a file or folder at this path."""
        with suppress(HTTPError):  # a path out of the root
            return bool(await ensure_async(self._contents.exists(path.strip("/"))))  # type: ignore[no-untyped-call]
        return False

    async def _get(self, path: str, *, type: str, format: str | None = None) -> Mapping[str, Any]:
        if fault := path_fault(path):
            raise InvalidInput(fault)
        path = path.strip("/")
        try:
            if await hides(self._contents, path):
                raise NotebookNotFound(f"There is nothing at `{path}`.")
            model = self._contents.get(path, content=True, type=type, format=format)  # type: ignore[no-untyped-call]
            return cast(Mapping[str, Any], await ensure_async(model))
        except HTTPError as error:
            message = error.log_message or error.reason or "refused"
            if error.status_code == 404:
                raise NotebookNotFound(
                    f"There is nothing at `{path}`. Paths start at Jupyter's root, also for a "
                    "notebook in a folder."
                ) from None
            if error.status_code == 403:
                raise NotPermitted(
                    f"`{path}` cannot be read, permission denied: {message}"
                ) from None
            raise ToolError(f"`{path}` cannot be read: {message}") from None
        except (
            OSError
        ) as error:  # Jupyter does not catch these: a name too long, a file as a folder
            raise ToolError(f"`{path}` cannot be read: {error.strerror}.") from None
