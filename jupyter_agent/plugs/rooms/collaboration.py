"""The rooms that hold notebooks in real-time collaboration (jupyter-server-ydoc 3, which
jupyter-collaboration 5 installs).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

from tornado.web import HTTPError

from jupyter_agent.carriers.sharing import Keep, OnLateEdit
from jupyter_agent.errors import Busy, UnreadableNotebook
from jupyter_agent.plugs.rooms.live_room import Room
from jupyter_agent.plugs.rooms.room_pages import Pin, is_connected, send_at_once

_NOTEBOOKS = "json:notebook:"
"""Prefix of the names of notebook rooms; the file's id follows."""

_GOING_AWAY = 1001
"""The code of a websocket whose server ends (RFC 6455)."""
_LONGEST_LEAVE = 1.0
"""Seconds to wait for connections of pages that were ended."""


class Collaboration:
    """The rooms of one server."""

    def __init__(self, extension: Any, files: Any) -> None:
        """`extension` is the server's YDocExtension, `files` its file id manager."""
        self._extension = extension
        self._files = files
        self.opening_store = asyncio.Lock()
        """Held while a room opens the database of their store."""

    def id_of(self, path: str) -> str:
        """The permanent id of the file, which survives renames; created if necessary. Raises
        UnreadableNotebook if the file can have no id.
        """
        file_id = self._files.index(path)
        if file_id is None:
            raise UnreadableNotebook(f"`{path}` cannot be shared: it is not a file of this server.")
        if "\\" in path and self.path_of(file_id) != path.strip("/"):
            raise UnreadableNotebook(
                f"`{path}` cannot be shared: in jupyter-collaboration `\\` separates folders. "
                "Rename the file."
            )
        return str(file_id)

    def path_of(self, file_id: str) -> str | None:
        """The present path of the file; None once it was deleted."""
        path = self._files.get_path(file_id)
        return None if path is None else str(path).strip("/")

    @asynccontextmanager
    async def room_lock(self, name: str) -> AsyncIterator[None]:
        """Keep others from creating or removing the room of that name."""
        async with self._extension._room_locks[name]:
            yield

    def open(self) -> list[Room]:
        """The rooms that have documents now, whoever opened them."""
        kind = import_module("jupyter_server_ydoc.rooms").DocumentRoom
        rooms = self._extension.ywebsocket_server.rooms.values()
        return [Room.of(room, self) for room in rooms if isinstance(room, kind) and room.ready]

    async def close(self) -> None:
        """Stop the file work of the rooms: the process of a server never ends if a task that has
        used a thread of anyio outlives the event loop. The rooms' store has all unsaved changes
        then.
        """
        closing = (room.close() for room in self.open())
        await asyncio.gather(*closing, return_exceptions=True)
        await self._disconnect_pages()
        await self._end_late_rooms()

    async def _end_late_rooms(self) -> None:
        """Stop what a room needs that opened after the YDocExtension had stopped."""
        with suppress(RuntimeError):  # it is not running
            await self._extension.ywebsocket_server.stop()
        await self._extension.file_loaders.clear()

    async def _disconnect_pages(self) -> None:
        """End the connections of all pages: each is a task that has used a thread of anyio."""
        rooms = self._extension.ywebsocket_server.rooms.values()
        connections = []
        for page in [page for room in rooms for page in room.clients if is_connected(page)]:
            connections.append(connection := page.ws_connection)
            page.close(_GOING_AWAY)
            connection.stream.close()  # it may never answer
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_LEAVE):
                while not all(connection.client_terminated for connection in connections):
                    await asyncio.sleep(0.01)

    def fill_rooms(self, keep: Keep, on_late_edit: OnLateEdit) -> None:
        """See `SharedDocuments.fill`."""
        server = self._extension.ywebsocket_server
        add = server.add_room

        def add_room(name: str, doc_room: Any) -> None:  # also called for each page that enters it
            if name.startswith(_NOTEBOOKS) and "initialize" not in vars(doc_room):
                room = Room.of(doc_room, self)
                doc_room.initialize = partial(room.fill, doc_room.initialize, keep, on_late_edit)
            add(name, doc_room)

        server.add_room = add_room

    async def enter(self, file_id: str, pin: Pin) -> Room:
        """The room of that file, created if necessary, and kept while the pin is in it.

        Call this at each use: a room without users is removed after a while and created again.
        """
        name = f"{_NOTEBOOKS}{file_id}"
        rooms = self._extension.ywebsocket_server.rooms
        former = rooms.get(name)
        try:
            await self._extension.get_document(room_id=name, copy=False, create=True)
        except (ArithmeticError, HTTPError, OSError, RuntimeError, ValueError) as error:
            if rooms.get(name) is not former or (former is not None and not former.ready):
                rooms.pop(name, None)  # a stopped room would be returned again
            raise UnreadableNotebook(
                "The notebook could not be shared with its other users. It is left unchanged: "
                f"{error}"
            ) from error
        room = rooms[name]
        room.clients.add(pin)
        if room.cleaner is not None:
            room.cleaner.cancel()
            room.cleaner = None
        async with self.room_lock(name):
            await room.initialize()  # has an effect only if someone is just creating the room
        entered = Room.of(room, self)
        for page in entered.pages.clients:
            send_at_once(page)
        return entered

    async def save(self, path: str, clocks: Mapping[int, int], seconds: float) -> str:
        """See `SharedDocuments.save`."""
        pin = Pin()
        room = await self.enter(self.id_of(path), pin)
        try:
            if not await room.pages.wait_for(clocks, seconds):
                raise Busy(
                    "Not saved: what you changed last is in this page only, whose connection to "
                    "the shared document is interrupted. It is saved when that is back."
                )
            await room.save()
            return str(room.document.hash or "")
        finally:
            self.leave(room, pin)

    def leave(self, room: Room, pin: Pin) -> None:
        """Remove the pin. An empty room is removed after the configured time, as when its last
        browser tab is closed.
        """
        doc_room = room.doc_room
        doc_room.clients.discard(pin)
        delay = self._extension.document_cleanup_delay
        if not doc_room.clients and doc_room.cleaner is None and delay is not None:
            doc_room.cleaner = asyncio.create_task(self._remove(doc_room, delay))

    def hold(self, room: Room, seconds: float) -> None:
        """Keep the room and its shadow for so many seconds from now."""
        room.doc_room.clients.add(room.pin)
        if room.hold_timer is not None:
            room.hold_timer.cancel()
        room.hold_timer = asyncio.get_running_loop().call_later(seconds, self.release, room)

    def release(self, room: Room) -> None:
        """Stop holding the room."""
        if room.hold_timer is not None:
            room.hold_timer.cancel()
            room.hold_timer = None
            room.pages.detach_shadow()
            self.leave(room, room.pin)

    async def _remove(self, room: Any, delay: float) -> None:
        await asyncio.sleep(delay)
        server, loaders = self._extension.ywebsocket_server, self._extension.file_loaders
        async with self.room_lock(room.room_id):
            if room.clients or server.rooms.get(room.room_id) is not room:
                return
            file_id = room._file.file_id
            await server.delete_room(room=room)
            if file_id in loaders and loaders[file_id].number_of_subscriptions == 0:
                await loaders.remove(file_id)
