"""The parts of Jupyter's contents managers that we use. Light: imported when the server starts."""

from __future__ import annotations

from typing import Any, Protocol

from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)
from jupyter_server.utils import ensure_async


class Contents(Protocol):
    """The parts of Jupyter's untyped ContentsManager that we use; each method may be
    asynchronous.
    """

    allow_hidden: Any
    notary: Any

    def get(
        self, path: str, content: bool = True, type: str | None = None, format: str | None = None
    ) -> Any: ...
    def save(self, model: dict[str, Any], path: str) -> Any: ...
    def delete(self, path: str) -> Any: ...
    def exists(self, path: str) -> Any: ...
    def is_hidden(self, path: str) -> Any: ...


def is_plain(contents: Contents) -> bool:
    """Whether these are Jupyter's own file managers, which read a notebook as the plain JSON of its
    file (and parse it on the event loop).
    """
    return getattr(contents.get, "__func__", None) in (
        FileContentsManager.get,
        AsyncFileContentsManager.get,
    )


async def hides(contents: Contents, path: str) -> bool:
    """Whether Jupyter hides an existing or future file at this path from everyone.

    Raises OSError for a path that the disk refuses, which Jupyter does not catch.
    """
    return not contents.allow_hidden and bool(await ensure_async(contents.is_hidden(path)))
