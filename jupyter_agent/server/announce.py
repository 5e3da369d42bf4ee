"""News for the pages of all browsers: a conversation or a turn's changes are different now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_events import EventLogger

SCHEMA = "https://jupyter-live-agent.github.io/jupyter-live-agent/schemas/news/v1.json"
"""A web address: the documentation's site serves the schema there."""
NEWS: dict[str, Any] = {
    "$id": SCHEMA,
    "version": "1",
    "title": "News of the assistant",
    "description": "A turn began, ended or changed cells, or its changes were kept or taken back; "
    "without a turn, the conversation was renamed or deleted, or its turn asks or runs again. The "
    "event says no more than that: read again what you show.",
    "type": "object",
    "properties": {
        "conversation_id": {"type": "string"},
        "turn_id": {"type": ["string", "null"]},
    },
    "required": ["conversation_id", "turn_id"],
}

DELAY_S = 0.1
"""Seconds until a change is announced, with all others until then: a page reads whole lists, and
the call that made the change is answered first.
"""


def register(events: EventLogger) -> None:
    """Registers the schema of the news. A page only receives events whose schema was registered
    when it connected (`EventLogger.add_listener` of jupyter_events).
    """
    # A number for jupyter_events below 0.11, which Jupyter Server below 2.15 uses.
    sample = events.schemas.get(next(iter(events.schemas.schema_ids)))
    events.register_event_schema({**NEWS, "version": type(sample.version)(NEWS["version"])})


class Announcer:
    """Announces on Jupyter's event stream, which every page of JupyterLab follows."""

    def __init__(self, events: EventLogger) -> None:
        self._events = events
        self._due: dict[tuple[str, str | None], asyncio.TimerHandle] = {}

    def __call__(self, conversation_id: str, turn_id: str | None = None) -> None:
        news = (conversation_id, turn_id)
        if news not in self._due:
            loop = asyncio.get_running_loop()
            self._due[news] = loop.call_later(DELAY_S, self._emit, *news)

    def close(self) -> None:
        """Announce the last changes at once, as the server ends."""
        for news in list(self._due):
            self._emit(*news)

    def _emit(self, conversation_id: str, turn_id: str | None) -> None:
        self._due.pop((conversation_id, turn_id)).cancel()
        data = {"conversation_id": conversation_id, "turn_id": turn_id}
        self._events.emit(schema_id=SCHEMA, data=data)
