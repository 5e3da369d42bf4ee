"""Plugs the rooms in. The code that works in them is imported with a server's first room: that
takes 45 ms, which a server without an open notebook need not spend.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import cached_property, partialmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_agent.carriers.sharing import COLLABORATION, Keep, OnLateEdit, SharedDocuments
from jupyter_agent.errors import Busy

if TYPE_CHECKING:
    from jupyter_agent.carriers.contents import Disk
    from jupyter_agent.carriers.timeouts import Timeouts
    from jupyter_agent.plugs.rooms.collaboration import Collaboration
    from jupyter_agent.plugs.rooms.room_carrier import RoomCarrier

_SUPPORTED = "3"
"""The supported major version of jupyter-server-ydoc, whose names these are."""


class LateRooms(SharedDocuments):
    """The rooms of a server with jupyter-collaboration."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        installed = str(import_module(COLLABORATION).__version__)
        if installed.split(".")[0] != _SUPPORTED:
            raise Busy(
                f"Real-time collaboration is on, with jupyter-server-ydoc {installed}, and this "
                f"version can work in the rooms of jupyter-server-ydoc {_SUPPORTED} only. Nothing "
                "was changed. Start Jupyter with --YDocExtension.disable_rtc=True, or without that "
                "package."
            )
        self._extension = settings[COLLABORATION]
        _configure_stores(self._extension)

    @cached_property
    def rooms(self) -> Collaboration:
        """The rooms."""
        from jupyter_agent.plugs.rooms.collaboration import Collaboration

        return Collaboration(self._extension, self.settings["file_id_manager"])

    def carrier(
        self, path: str, disk: Disk, timeouts: Timeouts, *, server: str, note: str
    ) -> RoomCarrier:
        from jupyter_agent.plugs.rooms.room_carrier import RoomCarrier

        return RoomCarrier(path, self.rooms, disk, timeouts, server=server, note=note)

    async def save(self, path: str, clocks: Mapping[int, int], seconds: float) -> str:
        return await self.rooms.save(path, clocks, seconds)

    def fill(self, keep: Keep, on_late_edit: OnLateEdit) -> None:
        server = getattr(self._extension, "ywebsocket_server", None)
        if server is None:
            return
        add = server.add_room

        def add_first(name: str, room: Any) -> None:
            server.add_room = add
            self.rooms.fill_rooms(keep, on_late_edit)
            server.add_room(name, room)

        server.add_room = add_first

    async def keep_saved(self, seconds: float, log: logging.Logger) -> None:
        saving = await asyncio.to_thread(import_module, "jupyter_agent.plugs.rooms.room_saving")
        await saving.RoomSaver(self.rooms, seconds, log).run()

    async def close(self) -> None:
        if "rooms" in vars(self):
            await self.rooms.close()


def _configure_stores(extension: Any) -> None:
    """Passes the server's configuration to the stores of the YDocExtension. `get_document` makes
    them without it: if another database is configured, they would not use the one of the
    websockets' stores, and a page that returns after a restart would find its document with a
    different history.
    """
    store = extension.ystore_class
    if not getattr(store, "configured", False):
        construct = partialmethod(store.__init__, config=extension.config)
        extension.ystore_class = type(
            store.__name__, (store,), {"__init__": construct, "configured": True}
        )
