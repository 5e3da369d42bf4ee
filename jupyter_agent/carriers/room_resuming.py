"""Rooms that go on with what was typed there and not saved, after a restart of the server or when
nobody had been in them for a while.

A room stores each change as it comes. Yet when it is made, the file wins wherever it differs from
the store, also if nobody else has written it: what was typed after the last save is taken out of
the pages that come back. (`DocumentRoom.initialize` of jupyter-server-ydoc 3.0)
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_agent.carriers.ydoc import Filling, Room, collaboration
from jupyter_agent.errors import Busy

Keep = Callable[[str, str], Awaitable[object]]
"""Keeps a recovery copy: path and JSON text."""


def resume(settings: Mapping[str, Any], keep: Keep) -> None:
    """From now on, in the rooms of a server, by the settings of its web application; `keep` gets
    what cannot be in a room any more. Where it raises, the room is not made.
    """

    async def fill(room: Room, file: Any, hash: str | None) -> Filling:
        stored = await room.stored()
        if stored is None:
            return Filling(file)
        content = await stored.aget()
        # The mark is taken away by a save also for what was typed in the midst of it. Where it is
        # set, and the cells are the same, it was left behind.
        unsaved = _texts(content) != _texts(file) or (
            bool(stored.dirty) and _cells(content) != _cells(file)
        )
        if hash is not None and stored.hash == hash:  # as the room saved it, or had it at first
            return Filling(content, unsaved)
        if stored.dirty and unsaved:
            await keep(room.path, json.dumps(content, ensure_ascii=False))
        return Filling(file)

    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.fill_with(fill)


def _texts(content: Mapping[str, Any]) -> list[str]:
    return [cell["source"] for cell in content["cells"]]


def _cells(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Without ids, which files of older formats do not have, and marks of trust."""
    return [
        {
            **{key: item for key, item in cell.items() if key != "id"},
            "metadata": {key: item for key, item in cell["metadata"].items() if key != "trusted"},
        }
        for cell in content["cells"]
    ]
