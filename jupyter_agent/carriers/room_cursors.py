"""Where people are in a notebook that is in a room, by the cursors that they show each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pycrdt import Assoc, Awareness, Text

from jupyter_agent.document.carrier import Place
from jupyter_agent.document.crdt import SharedCells

LATELY = 3.0
"""Seconds in which somebody who typed is taken to go on."""


class People:
    """Follows what the clients of a room say of themselves (Yjs awareness)."""

    def __init__(self, awareness: Awareness) -> None:
        self._awareness = awareness
        self._recent: list[int] = []
        """Clients in the order in which their state changed, the last one at the end."""
        self._found: tuple[object, str] = (None, "")
        """The text in which a cursor was found last, and its cell."""
        self._subscription = awareness.observe(self._changed)

    def close(self) -> None:
        self._awareness.unobserve(self._subscription)

    def place(self, cells: SharedCells, *, typed: float) -> Place | None:
        """Where the one is who last moved a cursor; None if nobody has one in a cell. `typed` is
        when anybody last changed the document (`time.monotonic`).
        """
        states = self._awareness.states
        for client in sorted(states, key=self._recency, reverse=True):
            for cursor in (states[client] or {}).get("cursors") or ():
                cell_id = self._cell_of(cells, cursor)
                if cell_id is not None:
                    return Place(cell_id, editing=time.monotonic() - typed < LATELY)
        return None

    def _recency(self, client: int) -> int:
        return self._recent.index(client) if client in self._recent else -1

    def _changed(self, topic: str, changes: tuple[Mapping[str, Any], Any]) -> None:
        if topic == "change":
            for client in (*changes[0]["added"], *changes[0]["updated"]):
                if client in self._recent:
                    self._recent.remove(client)
                self._recent.append(client)

    def _cell_of(self, cells: SharedCells, cursor: Mapping[str, Any]) -> str | None:
        """A cursor is a relative position of Yjs, which names the text that it is in."""
        text = (cursor.get("head") or {}).get("type")
        if text is None:
            return None
        last, likely = self._found
        for cell_id in sorted(cells.ids(), key=lambda each: (last, likely) != (text, each)):
            if _name(cells.shared(cell_id)["source"]) == text:
                self._found = (text, cell_id)
                return cell_id
        return None


def _name(text: Text) -> object:
    """What Yjs calls this text: client and clock of the item that made it."""
    # The only position that names its text and not a letter in it is the one before the first.
    return text.sticky_index(0, Assoc.BEFORE).to_json().get("type")
