"""Renames and deletions through Jupyter, told to all that name notebooks by their path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_events import EventLogger

from jupyter_agent.carriers.registry import Notebooks

SCHEMA = "https://events.jupyter.org/jupyter_server/contents_service/v1"
"""Of the events in which a contents manager says what it did."""

Moved = Callable[[str, str], Awaitable[None]]
"""Is given the old and the new path of a file or folder."""


class Moves:
    """Listens to the server's contents events. What other programs do is seen at the next look
    at the file.
    """

    def __init__(self, notebooks: Notebooks, moved: Moved) -> None:
        """`moved` is told what `notebooks` is told, for paths that are stored."""
        self._notebooks = notebooks
        self._moved = moved

    def listen(self, events: EventLogger) -> None:
        """From now on, until `stop`."""
        events.add_listener(schema_id=SCHEMA, listener=self._hear)

    def stop(self, events: EventLogger) -> None:
        events.remove_listener(schema_id=SCHEMA, listener=self._hear)

    async def _hear(self, logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        path = data["path"].strip("/")
        if data["action"] == "rename":
            old = data["source_path"].strip("/")
            await self._notebooks.moved(old, path)
            await self._moved(old, path)
        elif data["action"] == "delete":
            await self._notebooks.deleted(path)
        elif data["action"] in ("save", "copy"):
            self._notebooks.appeared(path)
