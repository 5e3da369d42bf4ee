"""Rooms of a server that has started before what fills them is loaded.

Importing that takes 45 ms, which a server without an open notebook need not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partialmethod
from importlib import import_module
from typing import Any

EXTENSION = "jupyter_server_ydoc"
"""Its name among the server's extensions."""
SUPPORTED = "3"
"""The major version of jupyter-server-ydoc whose names these are."""


def version() -> str:
    """Which jupyter-server-ydoc is installed."""
    return str(import_module(EXTENSION).__version__)


def is_supported(installed: str) -> bool:
    """Whether we can work in the rooms of that version."""
    return installed.split(".")[0] == SUPPORTED


def before_first_room(settings: Mapping[str, Any], load: Callable[[], None]) -> None:
    """Calls `load` once, when somebody opens the first room of a server, by the settings of its web
    application, and before that room is filled. Does nothing where there are no rooms that we can
    work in.
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
    """Lets the stores of the YDocExtension know the server's configuration. `get_document` makes
    them without: in another database than those made for a websocket, where one is configured,
    and a page that comes back after a restart would meet another history of its document.
    """
    store = extension.ystore_class
    if not getattr(store, "configured", False):
        construct = partialmethod(store.__init__, config=extension.config)
        extension.ystore_class = type(
            store.__name__, (store,), {"__init__": construct, "configured": True}
        )
