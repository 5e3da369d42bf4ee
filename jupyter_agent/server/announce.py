"""News for the pages of all browsers: a conversation, or what a turn changed, is another now."""

from __future__ import annotations

from typing import Any

from jupyter_events import EventLogger

from jupyter_agent.carriers.registry import SCHEMA as SERVERS_OWN
from jupyter_agent.conversations.live import Announce

SCHEMA = "https://jupyter-live-agent.github.io/jupyter-live-agent/schemas/news/v1.json"
"""An address: the documentation's site has the schema there."""
NEWS: dict[str, Any] = {
    "$id": SCHEMA,
    "version": "1",
    "title": "News of the assistant",
    "description": "A turn began, ended, changed cells, or its changes were kept or taken back; "
    "without a turn, the conversation was renamed or deleted. Read again what you show of it: the "
    "event says no more than that.",
    "type": "object",
    "properties": {
        "conversation_id": {"type": "string"},
        "turn_id": {"type": ["string", "null"]},
    },
    "required": ["conversation_id", "turn_id"],
}


def announcer(events: EventLogger) -> Announce:
    """Announces in Jupyter's event stream, which every page of JupyterLab follows."""
    # A number for jupyter_events below 0.11, which goes with Jupyter Server below 2.15.
    version = type(events.schemas.get(SERVERS_OWN).version)(NEWS["version"])
    events.register_event_schema({**NEWS, "version": version})

    def announce(conversation_id: str, turn_id: str | None = None) -> None:
        data = {"conversation_id": conversation_id, "turn_id": turn_id}
        events.emit(schema_id=SCHEMA, data=data)

    return announce
