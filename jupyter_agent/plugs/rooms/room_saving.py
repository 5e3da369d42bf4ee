"""Saves rooms in which people type without a pause.

jupyter-collaboration saves a room some time after the last change, so people who keep typing
postpone the save all the while. Then readers of the file, such as git, and a server whose store
does not show the last save, see nothing of it. (`DocumentRoom._on_document_change` of
jupyter-server-ydoc 3.0)
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from tornado.web import HTTPError

from jupyter_agent.plugs.rooms.collaboration import Collaboration
from jupyter_agent.plugs.rooms.live_room import Room
from jupyter_agent.plugs.rooms.room_contents import NotSaved

LOOKS = 6
"""Number of checks of the rooms within the time after which they are saved."""


class RoomSaver:
    """Saves each room whose oldest unsaved change is older than some seconds."""

    def __init__(self, rooms: Collaboration, seconds: float, log: logging.Logger) -> None:
        """A room that is configured to wait longer than `seconds` after a change is not saved
        earlier than that.
        """
        self._rooms = rooms
        self._seconds = seconds
        self._log = log
        self._unsaved: WeakKeyDictionary[Any, _Unsaved] = WeakKeyDictionary()
        """By the room's own object."""

    async def run(self) -> None:
        """Run until cancelled."""
        pause = self._seconds / LOOKS
        before = time.monotonic()
        async with asyncio.TaskGroup() as saves:
            while True:
                await asyncio.sleep(pause)
                for room in self._rooms.open():
                    if self._is_due(room, since=before, until=time.monotonic() + pause):
                        self._unsaved[room.doc_room].saving = True
                        saves.create_task(self._save(room))
                before = time.monotonic()

    def _is_due(self, room: Room, *, since: float, until: float) -> bool:
        """Whether it would wait too long if it were saved only at the next check, at `until`. A
        room that had no unsaved changes at the last check, at `since`, has had them since then at
        most.
        """
        if not (room.has_pending_save and room.autosaves):
            self._unsaved.pop(room.doc_room, None)
            return False
        unsaved = self._unsaved.get(room.doc_room)
        if unsaved is None or (
            unsaved.last_written != room.contents.last_written and not unsaved.saving
        ):
            unsaved = self._unsaved[room.doc_room] = _Unsaved(since, room.contents.last_written)
        return not unsaved.saving and until - unsaved.since > max(self._seconds, room.pause)

    async def _save(self, room: Room) -> None:
        start = time.monotonic()
        try:
            await room.save()
        except NotSaved:
            pass  # the room itself ignores this too
        except (HTTPError, OSError, RuntimeError) as error:
            self._log.warning("The room of %s could not be saved: %s", room.contents.path, error)
        self._unsaved[room.doc_room] = _Unsaved(start, room.contents.last_written)


@dataclass
class _Unsaved:
    since: float
    """When the first unsaved change was made (`time.monotonic`), or earlier."""
    last_written: object
    """The room's `last_written` at that time."""
    saving: bool = False
