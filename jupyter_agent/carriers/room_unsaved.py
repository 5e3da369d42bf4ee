"""What was typed in a room and not saved when its server ended, or when its last page left.

A room stores each change as it comes. Yet when it is made again, the file wins wherever it differs
from the store: what was typed after the last save is taken out of the pages that come back.
(`DocumentRoom.initialize` of jupyter-server-ydoc 3.0) It cannot go into the file behind anybody's
back: the store may lack changes, or have those of another server. So it is kept beside, and the
pages offer to put it back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from jupyter_agent.carriers.room_file import identified, texts_of, unsaved
from jupyter_agent.carriers.room_history import Stored
from jupyter_agent.carriers.ydoc import Room, collaboration
from jupyter_agent.errors import Busy

Keep = Callable[[str, str], Awaitable[object]]
"""Keeps a recovery copy: path and JSON text."""


def keep_unsaved(settings: Mapping[str, Any], keep: Keep, log: logging.Logger) -> None:
    """From now on, of the rooms of a server, by the settings of its web application."""

    @contextmanager
    def harmless(does: str, path: str) -> Iterator[None]:
        try:
            yield
        except Exception:  # whatever a store or a manager raises must not keep people out
            log.exception("What was typed in the room of %s and not saved is not %s", path, does)

    @asynccontextmanager
    async def keeping(room: Room) -> AsyncIterator[None]:
        stored = None
        with harmless("kept", room.path):
            stored = await room.stored()
            if stored is not None and _differs(stored):
                file = await room.file()
                there = texts_of(identified(stored.now.ycells, file["cells"]))
                saved = there if stored.saved is None else texts_of(stored.saved.ycells)
                typed = unsaved(stored.now.ycells, saved, there)
                with harmless("offered", room.path):
                    room.offer(_new(typed, stored.offers))
                if typed:
                    content = await stored.now.aget()
                    await keep(room.path, json.dumps(content, ensure_ascii=False))
        yield
        if stored is not None:
            with harmless("kept", room.path):
                await room.store_since(stored)

    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.around_filling(keeping)


def _differs(stored: Stored) -> bool:
    """Whether a store may have what came after the last save: else its file need not be read."""
    return stored.saved is None or texts_of(stored.now.ycells) != texts_of(stored.saved.ycells)


def _new(
    typed: Iterable[Mapping[str, Any]], offers: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Those that are not among the offers."""
    known = {(offer["cell"]["id"], offer["cell"]["source"]) for offer in offers}
    return [one for one in typed if (one["cell"]["id"], one["cell"]["source"]) not in known]
