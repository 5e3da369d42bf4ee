"""What was typed in a room and not saved when its server ended, or when its last page left.

A room stores each change as it comes. Yet when it is made again, the file wins wherever it differs
from the store: what was typed after the last save is taken out of the pages that come back.
(`DocumentRoom.initialize` of jupyter-server-ydoc 3.0) It cannot go into the file behind anybody's
back: the store may lack changes, or have those of another server. So it is kept beside.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_agent.carriers.ydoc import Room, collaboration
from jupyter_agent.errors import Busy

Keep = Callable[[str, str], Awaitable[object]]
"""Keeps a recovery copy: path and JSON text."""


def keep_unsaved(settings: Mapping[str, Any], keep: Keep, log: logging.Logger) -> None:
    """From now on, of the rooms of a server, by the settings of its web application."""

    async def look(room: Room, file: Any) -> None:
        try:
            stored = await room.stored()
            if stored is not None and stored.dirty:
                content = await stored.aget()
                if _texts(content) != _texts(file):
                    await keep(room.path, json.dumps(content, ensure_ascii=False))
        except Exception:  # whatever a store or a manager raises must not keep people out
            log.exception("What was typed in the room of %s and not saved is not kept", room.path)

    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.before_filling(look)


def _texts(content: Mapping[str, Any]) -> list[str]:
    return [cell.get("source", "") for cell in content["cells"]]
