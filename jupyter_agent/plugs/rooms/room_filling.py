"""How a room is filled when it is created again: from its store and from its file.

A room stores each change as it comes, and writes its file a little later. On its own, it replaces
the stored document by the file if they differ: typing after the last save is removed from the pages
that return, with everything they typed there since. (`DocumentRoom.initialize` of
jupyter-server-ydoc 3.0)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_ydoc import YNotebook

from jupyter_agent.document.merge_cells import Content
from jupyter_agent.plugs.rooms.room_file import (
    FollowPlan,
    content_of,
    follow,
    is_file,
    outline_of,
    texts_of,
    unsaved_cells,
    update_in_place,
    with_former_ids,
)
from jupyter_agent.plugs.rooms.room_history import StoredHistory, offer


class Filling:
    """Loads the file into a room's document, which has the content of its store."""

    def __init__(
        self,
        document: YNotebook,
        stored: StoredHistory | None,
        apply: Callable[[FollowPlan], None],
        keep: Callable[[str], Awaitable[object]],
        logger: logging.Logger,
    ) -> None:
        """`stored` is None if the store has nothing; `apply` has the document follow the file,
        `keep` stores a recovery copy.
        """
        self._document = document
        self._stored = stored
        self._apply = apply
        self._keep = keep
        self._logger = logger
        self._replace: Callable[[Any], Awaitable[None]] = document.aset

    async def load_file(self, content: dict[str, Any]) -> None:
        """Keep unsaved changes alongside what others wrote into the file. If the store is unsure of
        the last save, only the file counts; a recovery copy has what it lacks, and pages offer it.
        """
        if self._stored is not None:
            with self._log_errors("merged with its file"):
                await self._follow(self._stored, content)
                return
            with self._log_errors("offered to pages"):
                await self._offer(self._stored, content)
        with self._log_errors("kept in place"):
            content = update_in_place(self._document, content)
        await self._replace(content)

    async def _follow(self, stored: StoredHistory, content: Content) -> None:
        base = await self._common_base(stored, content)
        if base is None:
            await self._offer(stored, content)
        self._apply(await follow(stored.now, base, content, self._logger))

    async def _common_base(self, stored: StoredHistory, content: Content) -> Content | None:
        """The outline of the last common state of document and file; None if it is unknown."""
        if stored.pending_save is not None and await is_file(stored.pending_save, content):
            return await outline_of(stored.pending_save)
        if stored.is_sure and stored.saved is not None:
            return await outline_of(stored.saved)
        return stored.outline

    async def _offer(self, stored: StoredHistory, content: Content) -> None:
        there = texts_of(with_former_ids(stored.now.ycells, content["cells"]))
        saved = there if stored.saved is None else texts_of(stored.saved.ycells)
        typed = unsaved_cells(stored.now.ycells, saved, there)
        offer(self._document, typed)
        if typed:
            with self._log_errors("stored in a recovery copy"):
                text = json.dumps(await content_of(stored.now), ensure_ascii=False)
                await self._keep(text)

    @contextmanager
    def _log_errors(self, wish: str) -> Iterator[None]:
        """No error of a store, a file or a manager may keep people out."""
        try:
            yield
        except Exception:
            self._logger.exception("Unsaved changes in %s are not %s", self._document.path, wish)
