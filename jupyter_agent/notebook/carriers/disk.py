"""Notebooks as the contents manager has them: the only way to a file, for hooks, signing and
other storages' sake.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import nbformat
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.errors import Exists, Locked, NotebookNotFound, ToolError, UnreadableNotebook
from jupyter_agent.notebook.cell import CellType

LARGEST = 512 * 2**20
"""Bytes; a notebook is in memory several times over while it is worked on."""


class Contents(Protocol):
    """What we use of Jupyter's ContentsManager, which is not typed; each may answer later
    (async).
    """

    allow_hidden: Any
    notary: Any

    def get(self, path: str, content: bool = True, type: str | None = None) -> Any: ...
    def save(self, model: dict[str, Any], path: str) -> Any: ...
    def exists(self, path: str) -> Any: ...
    def is_hidden(self, path: str) -> Any: ...


@dataclass(frozen=True)
class Loaded:
    """A notebook file as it was at one moment, in format 4.5 or later."""

    content: Mapping[str, Any]
    """The notebook's JSON, without trust marks."""
    stamp: str
    """Differs whenever the content does."""
    writable: bool
    trusted: frozenset[str]
    """Ids of the code cells whose outputs this server signed."""
    upgraded: bool
    """The file has an older format: cells got ids, derived from their place and content."""


class Disk:
    """Reads and writes whole notebooks through a contents manager, asynchronous or not."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        parameters = inspect.signature(contents.get).parameters.values()
        # Since jupyter-server 2.11; managers of other projects may not have it.
        self._hashes = any(
            item.name == "require_hash" or item.kind is item.VAR_KEYWORD for item in parameters
        )

    async def stamp(self, path: str) -> str:
        """What `Loaded.stamp` would be. Raises NotebookNotFound or UnreadableNotebook."""
        model = await self._get(path, content=False)
        return _hash(model) or (await self.load(path)).stamp

    async def hash(self, path: str) -> str | None:
        """The contents manager's hash of the file, which an open tab knows too; None if it has
        none.
        """
        return _hash(await self._get(path, content=False))

    async def writable(self, path: str) -> bool:
        """Whether the file that is there may be written. Raises as `stamp` does."""
        return (await self._get(path, content=False))["writable"] is not False

    async def load(self, path: str) -> Loaded:
        """Raises NotebookNotFound or UnreadableNotebook."""
        model = await self._get(path, content=True)
        content = model["content"]
        if why := _unusable(content):
            raise UnreadableNotebook(f"`{path}` cannot be worked on: {why}. It is left as it is.")
        stamp = _hash(model)
        if stamp is None:
            stamp = await asyncio.to_thread(_digest, content)
        upgraded = _upgrade(content)
        trusted = {  # the contents manager marks code cells when it reads
            cell["id"]
            for cell in content["cells"]
            if cell["metadata"].pop("trusted", False) is True
        }
        return Loaded(content, stamp, model["writable"] is not False, frozenset(trusted), upgraded)

    async def write(self, path: str, content: dict[str, Any], *, sign: bool) -> None:
        """Save. The contents manager signs what has trusted or harmless outputs only; `sign` False
        keeps it unsigned.

        Raises Locked or ToolError; the file is then as it was. `content` is not to be used
        afterwards.
        """
        model = {"type": "notebook", "format": "json", "content": content}
        try:
            await ensure_async(self._contents.save(model, path))
        except (HTTPError, OSError) as error:
            if isinstance(error, HTTPError) and error.status_code == 403:
                raise Locked(f"`{path}` is read-only; nothing was changed.") from error
            raise ToolError(f"`{path}` could not be saved; nothing was changed: {error}") from error
        if not sign:
            notebook: Any = nbformat.from_dict(content)  # type: ignore[no-untyped-call]
            if self._contents.notary.check_cells(notebook):
                self._contents.notary.unsign(notebook)

    async def create(self, path: str, content: dict[str, Any]) -> None:
        """Save a new notebook. Raises Exists."""
        if await ensure_async(self._contents.exists(path)):
            raise Exists(f"There is something at `{path}` already; nothing was overwritten.")
        await self.write(path, content, sign=True)

    async def _get(self, path: str, *, content: bool) -> dict[str, Any]:
        hashes = {"require_hash": True} if self._hashes else {}
        try:
            if not self._contents.allow_hidden and await ensure_async(
                self._contents.is_hidden(path)
            ):
                raise HTTPError(404)
            if content:
                await self._refuse_large(path)
            model: dict[str, Any] = await ensure_async(
                self._contents.get(path, content=content, type="notebook", **hashes)
            )
        except (
            HTTPError,
            OSError,
            ValueError,
        ) as error:  # ValueError: half characters (surrogates)
            if isinstance(error, HTTPError) and error.status_code == 404:
                raise NotebookNotFound(f"There is no notebook at `{path}`.") from error
            raise UnreadableNotebook(
                f"`{path}` cannot be read as a notebook (corrupt, empty, not UTF-8, or no "
                "permission). It is left as it is."
            ) from error
        return model

    async def _refuse_large(self, path: str) -> None:
        model = await ensure_async(self._contents.get(path, content=False, type="notebook"))
        if (model.get("size") or 0) > LARGEST:
            raise UnreadableNotebook(f"`{path}` is too large to work on ({model['size']:,} bytes).")


def _hash(model: Mapping[str, Any]) -> str | None:
    value = model.get("hash")
    return value if isinstance(value, str) and value else None


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _unusable(content: Any) -> str:
    """Why this JSON is no notebook that we could change without harm; empty if it is one."""
    if not isinstance(content, dict) or content.get("nbformat") != 4:
        return "it is no notebook of format 4"
    cells = content.get("cells")
    if not isinstance(cells, list):
        return "it has no list of cells"
    for index, cell in enumerate(cells):
        if not isinstance(cell, dict) or cell.get("cell_type") not in get_args(CellType):
            return f"cell {index} has an unknown type"
        if not isinstance(cell.get("source"), str) or not isinstance(cell.get("metadata"), dict):
            return f"cell {index} has no text or no metadata"
        if cell["cell_type"] == "code" and not _are_outputs(cell.get("outputs")):
            return f"the outputs of cell {index} are malformed"
    return ""


def _are_outputs(outputs: Any) -> bool:
    return isinstance(outputs, list) and all(
        isinstance(output, dict)
        and isinstance(output.get("output_type"), str)
        and (output["output_type"] != "stream" or isinstance(output.get("text"), str))
        for output in outputs
    )


def _upgrade(content: dict[str, Any]) -> bool:
    """Give the cells of an older format ids that are the same at each loading of the same bytes."""
    metadata = content["metadata"]
    converted = metadata.pop("orig_nbformat", None) is not None  # from format 3, with random ids
    metadata.pop("orig_nbformat_minor", None)
    ids = {cell.get("id") for cell in content["cells"]} - {None}
    if not converted and content["nbformat_minor"] >= 5 and len(ids) == len(content["cells"]):
        return False
    content["nbformat_minor"] = max(5, content["nbformat_minor"])
    for index, cell in enumerate(content["cells"]):
        text = f"{index}\0{cell['cell_type']}\0{cell['source']}"
        cell["id"] = hashlib.sha256(text.encode()).hexdigest()[:8]
    return True
