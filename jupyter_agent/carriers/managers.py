"""Jupyter's contents managers, as far as we use them. Light: imported when the server starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import nbformat
from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)
from jupyter_server.utils import ensure_async

from jupyter_agent.carriers.guard import Overwritten


class Contents(Protocol):
    """What we use of Jupyter's ContentsManager, which is not typed; each may answer later
    (async).
    """

    allow_hidden: Any
    notary: Any

    def get(
        self, path: str, content: bool = True, type: str | None = None, format: str | None = None
    ) -> Any: ...
    def save(self, model: dict[str, Any], path: str) -> Any: ...
    def exists(self, path: str) -> Any: ...
    def is_hidden(self, path: str) -> Any: ...


def is_plain(contents: Contents) -> bool:
    """Whether these are Jupyter's own file managers, which read a notebook as the JSON of its file
    and nothing else (and parse it on the event loop).
    """
    return getattr(contents.get, "__func__", None) in (
        FileContentsManager.get,
        AsyncFileContentsManager.get,
    )


async def hides(contents: Contents, path: str) -> bool:
    """Whether what is at a path, or would be, is something that Jupyter shows nobody.

    Raises OSError for a path that the disk does not take: Jupyter lets it through.
    """
    return not contents.allow_hidden and bool(await ensure_async(contents.is_hidden(path)))


@dataclass(frozen=True)
class Written:
    """What was saved, and what that took the place of."""

    content: Mapping[str, Any]
    """As hooks left it."""
    overwritten: Overwritten

    def text(self) -> str:
        """The file as the contents manager wrote it."""
        notebook = nbformat.from_dict(self.content)  # type: ignore[no-untyped-call]
        text: str = nbformat.writes(notebook, version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
        return text if text.endswith("\n") else text + "\n"
