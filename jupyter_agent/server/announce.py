"""News for the pages of all browsers: a conversation or a turn's changes are different now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_events import EventLogger

    from jupyter_agent.conversations.live import Announce

SCHEMA = "https://jupyter-live-agent.github.io/jupyter-live-agent/schemas/news/v1.json"
"""A web address: the documentation's site serves the schema there."""
NEWS: dict[str, Any] = {
    "$id": SCHEMA,
    "version": "1",
    "title": "News of the assistant",
    "description": "A turn began, ended or changed cells, or its changes were kept or taken back; "
    "without a turn, the conversation was renamed or deleted. The event says no more than that: "
    "read again what you show.",
    "type": "object",
    "properties": {
        "conversation_id": {"type": "string"},
        "turn_id": {"type": ["string", "null"]},
    },
    "required": ["conversation_id", "turn_id"],
}

DELAY_S = 0.2
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


def announcer(events: EventLogger) -> Announce:
    """Announces on Jupyter's event stream, which every page of JupyterLab follows."""

    due = set[tuple[str, str | None]]()

    def emit(conversation_id: str, turn_id: str | None) -> None:
        due.discard((conversation_id, turn_id))
        data = {"conversation_id": conversation_id, "turn_id": turn_id}
        events.emit(schema_id=SCHEMA, data=data)

    def announce(conversation_id: str, turn_id: str | None = None) -> None:
        if (conversation_id, turn_id) not in due:
            due.add((conversation_id, turn_id))
            asyncio.get_running_loop().call_later(DELAY_S, emit, conversation_id, turn_id)

    return announce
