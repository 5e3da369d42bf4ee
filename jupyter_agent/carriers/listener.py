"""Changes of files through Jupyter, as its event log reports them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_events import EventLogger

from jupyter_agent.carriers.registry import Notebooks

SCHEMA = "https://events.jupyter.org/jupyter_server/contents_service/v1"
"""Schema of the events in which a contents manager reports its actions."""
OnRename = Callable[[str, str], Awaitable[None]]
"""Called with the old and the new path of a file or folder."""


class ContentsListener:
    """Listens to the server's contents events. Changes by other programs are noticed when the file
    is next read.
    """

    def __init__(self, notebooks: Notebooks, on_rename: OnRename) -> None:
        """`on_rename` gets the renames that `notebooks` gets, for stored paths."""
        self._notebooks = notebooks
        self._on_rename = on_rename

    def listen(self, events: EventLogger) -> None:
        """Listen until `stop`."""
        events.add_listener(schema_id=SCHEMA, listener=self._on_event)

    def stop(self, events: EventLogger) -> None:
        events.remove_listener(schema_id=SCHEMA, listener=self._on_event)

    async def _on_event(self, logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        path = data["path"].strip("/")
        if data["action"] == "rename":
            old = data["source_path"].strip("/")
            await self._notebooks.note_rename(old, path)
            await self._on_rename(old, path)
        elif data["action"] == "delete":
            await self._notebooks.note_deleted(path)
        elif data["action"] in ("save", "copy"):
            self._notebooks.note_created(path)
