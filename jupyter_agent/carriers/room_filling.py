"""How a room is filled when it is made again: with what its store has, and with its file.

A room stores each change as it comes, and writes its file a little later. On its own it has the
file take the place of what it stored, wherever that is another: what was typed after the last save
is taken out of the pages that come back, with what they typed there meanwhile.
(`DocumentRoom.initialize` of jupyter-server-ydoc 3.0)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from jupyter_ydoc import YNotebook

from jupyter_agent.carriers.room_file import (
    follow,
    identified,
    outline_of,
    outline_of_file,
    take_in,
    texts_of,
    unsaved,
)
from jupyter_agent.carriers.room_history import Stored, exceeds_file, offer
from jupyter_agent.document.merge_cells import Content, by_id

Keep: TypeAlias = Callable[[str, str], Awaitable[object]]
"""Keeps a recovery copy: path and JSON text."""


class Filling:
    """Has the document of a room, which is what its store has, take in its file."""

    def __init__(
        self,
        document: YNotebook,
        stored: Stored | None,
        load: Callable[[], Awaitable[dict[str, Any]]],
        keep: Callable[[str], Awaitable[object]],
        logger: logging.Logger,
    ) -> None:
        """`stored` is None where the store has nothing, or cannot be read; `load` gets the file,
        `keep` keeps a recovery copy.
        """
        self.base: Content | None = None
        """The outline of the file, if the document has more than that now."""
        self._document = document
        self._stored = stored
        self._load = load
        self._keep = keep
        self._logger = logger
        self._replace: Callable[[Any], Awaitable[None]] = document.aset

    async def take_in(self, _: object) -> None:
        """What was not saved stays, beside what others wrote into the file. Where the store is not
        sure of what was saved, the file counts alone; what it lacks is kept beside, and offered.
        """
        model = await self._load()
        content = model["content"]
        if self._stored is not None:
            with self._harmless("merged with its file"):
                base = await self._common(self._stored, model)
                if base is not None:
                    await self._merge(self._stored.now, base, model)
                    return
            with self._harmless("offered"):
                await self._offer(self._stored, content)
        with self._harmless("where it was typed"):
            content = take_in(self._document, content)
        await self._replace(content)

    async def _common(self, stored: Stored, model: Mapping[str, Any]) -> Content | None:
        """The outline of what document and file had in common last; None if it is not known."""
        if stored.is_sure and stored.saved is not None:
            return await outline_of(stored.saved)
        file = stored.file
        if file is None or file["hash"] is None or file["hash"] != model.get("hash"):
            return None
        cells = model["content"]["cells"]
        if not all("id" in cell for cell in cells):
            if not file["ids"]:
                return None
            cells = [
                {**cell, "id": cell_id} for cell_id, cell in zip(file["ids"], cells, strict=True)
            ]
        return await outline_of_file({**model["content"], "cells": cells}, stored.now)

    async def _merge(self, copy: YNotebook, base: Content, model: Mapping[str, Any]) -> None:
        document = self._document
        following = await follow(copy, base, model["content"], self._logger)
        document.ydoc.apply_update(copy.ydoc.get_update(document.ydoc.get_state()))
        offer(document, following.offers)
        if not following.is_file:
            self.base = following.base
            document.dirty = True
            exceeds_file(document, model.get("hash"), by_id(following.base))

    async def _offer(self, stored: Stored, content: Content) -> None:
        there = texts_of(identified(stored.now.ycells, content["cells"]))
        saved = there if stored.saved is None else texts_of(stored.saved.ycells)
        typed = unsaved(stored.now.ycells, saved, there)
        offered = {(one["cell"]["id"], one["cell"]["source"]) for one in stored.offers}
        new = [one for one in typed if (one["cell"]["id"], one["cell"]["source"]) not in offered]
        offer(self._document, new)
        if typed:
            with self._harmless("kept beside"):
                text = json.dumps(await stored.now.aget(), ensure_ascii=False)
                await self._keep(text)

    @contextmanager
    def _harmless(self, wish: str) -> Iterator[None]:
        """Whatever a store, a file or a manager raises must not keep people out."""
        try:
            yield
        except Exception:
            self._logger.exception("What was not saved in %s is not %s", self._document.path, wish)
