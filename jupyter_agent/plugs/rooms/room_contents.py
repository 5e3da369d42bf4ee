"""The file of a room, as its contents manager has it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.carriers.exchange import OVERTAKEN
from jupyter_agent.carriers.managers import is_plain
from jupyter_agent.carriers.page_saves import SEEN
from jupyter_agent.carriers.plain_files import PlainFiles, Trace
from jupyter_agent.document.values import fit_numbers

_BLANKS = {"kernelspec": {"name": "", "display_name": ""}, "language_info": {"name": ""}}
"""What a document has in place of metadata that its file lacks. It is not written: an edit should
change nothing else in the file.
"""


class NotSaved(RuntimeError):
    """The room did not write its file and raised no error: the file is read-only, or another
    program has written it.
    """


class RoomContents:
    """Reads and writes the file of one room."""

    def __init__(self, doc_room: Any) -> None:
        self._doc_room = doc_room
        self._files = PlainFiles(doc_room._file._contents_manager)
        self._trace: Trace | None = None
        """Of the file that `differs` has read."""
        self._lacks = set[str]()
        """Metadata that the file lacks, as far as documents have something in its place."""

    @property
    def path(self) -> str:
        """The present path of the file."""
        return str(self._doc_room._file.path)

    @property
    def last_written(self) -> object:
        """When its file was last written, in the contents manager's own form."""
        return self._doc_room._file.last_modified

    async def differs(self, seen: str) -> bool:
        """Whether the file is not the one with this hash, though perhaps as old: where times are
        coarse, a program may write it in the same second as the room. It is read again until that
        second is over.
        """
        if not seen or not self._files.has_coarse_times(self.path):
            return False
        trace = self._files.trace(self.path)
        if trace is not None and trace == self._trace:
            return False
        differs = (await self.get(content=False)).get("hash") != seen
        self._trace = trace  # only now: reading may fail
        return differs

    async def load(self) -> dict[str, Any]:
        """The file as the contents manager returns it, with its hash."""
        file = self._doc_room._file
        async with file._lock:
            model = await self.get(content=True)
            file.last_modified = model["last_modified"]
            return model

    async def _fit(self, model: dict[str, Any]) -> dict[str, Any]:
        """What was read, as a document can hold it."""
        content = await asyncio.to_thread(fit_numbers, model["content"])
        if isinstance(content, dict):
            self._lacks = _BLANKS.keys() - content["metadata"].keys()
        return {**model, "content": content}

    def _as_filed(self, content: object) -> object:
        """What a document has, as it goes into the file."""
        if not isinstance(content, dict):
            return content
        blank = {key for key in self._lacks if content["metadata"].get(key) == _BLANKS[key]}
        kept = {key: item for key, item in content["metadata"].items() if key not in blank}
        return {**content, "metadata": kept}

    @contextmanager
    def fitted_reads(self) -> Iterator[None]:
        """Within it, the package itself reads the file as a document can hold it."""
        file = self._doc_room._file
        load = file.load_content

        async def load_fitted(*args: Any) -> dict[str, Any]:
            return await self._fit(await load(*args))

        file.load_content = load_fitted
        try:
            yield
        finally:
            del file.load_content

    async def get(self, *, content: bool, hashed: bool = True) -> dict[str, Any]:
        """The same, without content if that is not asked for."""
        doc_room = self._doc_room
        manager = doc_room._file._contents_manager
        kind = {"format": doc_room._file_format, "type": doc_room._file_type} if content else {}
        got = manager.get(self.path, content=content, require_hash=hashed, **kind)
        model: dict[str, Any] = await ensure_async(got)
        return await self._fit(model) if content else model

    async def put(self, content: object, *, seen: str, modified: object) -> dict[str, Any] | None:
        """The contents manager's answer to the write; None if the file is not the one that the room
        has seen, by its hash and the time of its last write (empty or None if unknown).
        """
        room, file = self._doc_room, self._doc_room._file
        filed = self._as_filed(content)
        model = {"format": room._file_format, "type": room._file_type, "content": filed}
        if seen and is_plain(file._contents_manager):
            model[SEEN] = seen
        async with file._lock:
            now = await self.get(content=False, hashed=False)
            if not now["writable"]:
                raise NotSaved("it is read-only")
            if now["last_modified"] != (modified or file.last_modified):
                file.last_modified = now["last_modified"]
                return None
            try:
                saved: dict[str, Any] = await file._save_content(model, asyncio.Event(), file.path)
            except HTTPError as error:
                if error.log_message == OVERTAKEN:
                    return None
                raise
            return saved
