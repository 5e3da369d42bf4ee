"""Defers the code that fills rooms until a server's first room.

Importing it takes 45 ms, which a server without an open notebook need not spend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partialmethod
from importlib import import_module
from typing import Any

EXTENSION = "jupyter_server_ydoc"
"""Its name among the server's extensions."""
SUPPORTED = "3"
"""The supported major version of jupyter-server-ydoc, whose names these are."""


def version() -> str:
    """The installed version of jupyter-server-ydoc."""
    return str(import_module(EXTENSION).__version__)


def is_supported(installed: str) -> bool:
    """Whether we can work in the rooms of that version."""
    return installed.split(".")[0] == SUPPORTED


def before_first_room(settings: Mapping[str, Any], load: Callable[[], None]) -> None:
    """Calls `load` once: when the first room of a server is opened, given the settings of its web
    application, and before that room is filled. Does nothing without rooms that we support.
    """
    extension = settings.get(EXTENSION)
    server = getattr(extension, "ywebsocket_server", None)
    if server is None or not is_supported(version()):
        return
    configure_stores(extension)
    add = server.add_room

    def add_first(name: str, room: Any) -> None:
        server.add_room = add
        load()
        server.add_room(name, room)

    server.add_room = add_first


def configure_stores(extension: Any) -> None:
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
