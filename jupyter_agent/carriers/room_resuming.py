"""Rooms that go on after a restart of the server with what was typed there and not saved.

A room stores each change as it comes. Yet where file and store differ when a server starts, the
file wins, also if nobody else has written it: what was typed after the last save is taken out of
the pages that come back. (`DocumentRoom.initialize` of jupyter-server-ydoc 3.0)
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tornado.web import HTTPError

from jupyter_agent.carriers.ydoc import Room, collaboration
from jupyter_agent.errors import Busy, ToolError

Keep = Callable[[str, str], Awaitable[object]]
"""Keeps a recovery copy: path and JSON text."""


def resume(settings: Mapping[str, Any], keep: Keep, log: logging.Logger) -> None:
    """From now on, in the rooms of a server, by the settings of its web application; `keep` gets
    what cannot be brought into a file.
    """
    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.surround_making(_Resuming(keep, log).resumed)


class _Resuming:
    """Brings what a room's store has more than its file into the file, before the room is made."""

    def __init__(self, keep: Keep, log: logging.Logger) -> None:
        self._keep = keep
        self._log = log
        self._resumed: set[str] = set()
        """Rooms that were made since this server began: they saved what they had."""

    @asynccontextmanager
    async def resumed(self, room: Room) -> AsyncIterator[None]:
        """Around the making of a room."""
        written = None
        if room.name not in self._resumed:
            self._resumed.add(room.name)
            try:
                written = await self._write_unsaved(room)
            except (HTTPError, OSError, RuntimeError, ToolError) as error:
                self._log.warning(
                    "What was typed in the room of %s and not saved may be lost: %s",
                    room.path,
                    error,
                )
        yield
        # The store has to know what the file was like before anything was typed.
        hash = written if written is not None else await room.file_hash()
        if hash is not None and hash != room.document.hash:
            await room.note_hash(hash, saved_all=written is not None)

    async def _write_unsaved(self, room: Room) -> str | None:
        """The hash of the file, if it was written. What another program wrote since the last save
        stays, and what the room had is kept as a recovery copy.
        """
        stored = await room.stored()
        if stored is None:
            return None
        is_as_saved = stored.hash == await room.file_hash()
        if not (is_as_saved or stored.dirty):
            return None
        content, loaded = await stored.aget(), await room.load()
        # The mark is taken away by a save also for what was typed in the midst of it. Others that
        # differ, such as made-up ids, are no reason to write a file that was only opened.
        if content == loaded or not (stored.dirty or _texts(content) != _texts(loaded)):
            return None
        if is_as_saved and (written := await room.write(content)) is not None:
            return written
        await self._keep(room.path, json.dumps(content, ensure_ascii=False))
        return None


def _texts(content: Mapping[str, Any]) -> list[str]:
    return [cell["source"] for cell in content["cells"]]
