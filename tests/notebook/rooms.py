"""A real server that has its notebooks in rooms (jupyter-server-ydoc), and people in them with a
real Yjs client on a real websocket. The fixtures are in `conftest.py`: `room_server` and
`room_notebooks`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_ydoc import YNotebook
from pycrdt import (
    Assoc,
    Awareness,
    Doc,
    Map,
    Text,
    TransactionEvent,
    YMessageType,
    YSyncMessageType,
    create_awareness_message,
    create_sync_message,
    create_update_message,
    handle_sync_message,
)
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_agent import entry_points
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.sharing import Sharing
from jupyter_agent.plugs.rooms.collaboration import Collaboration
from jupyter_agent.plugs.rooms.late_rooms import LateRooms
from jupyter_agent.plugs.rooms.live_room import Room
from jupyter_agent.plugs.rooms.room_history import OFFERS
from jupyter_agent.plugs.rooms.room_updates import clocks_in
from tests.notebook.page import Page


def skip_without_plugs() -> None:
    """Skips what needs rooms, if the environment leaves plugs out."""
    if entry_points.ONLY in os.environ:
        pytest.skip(f"{entry_points.ONLY} is set")


def config(folder: Path) -> dict[str, Any]:
    """A server whose notebooks are in rooms, with databases of its own in that folder."""
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_server_ydoc": True, "jupyter_server_fileid": True}
        },
        "SQLiteYStore": {"db_path": str(folder / "ystore.db")},
        "BaseFileIdManager": {"db_path": str(folder / "file_ids.db"), "db_journal_mode": "OFF"},
        "YDocExtension": {"session_store_path": str(folder / "sessions.json")},
    }


class Held:
    """A method of an object that holds its result back until `go_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.done, self.go_on = asyncio.Event(), asyncio.Event()
        self._method = getattr(owner, name)
        monkeypatch.setattr(owner, name, self._call)

    async def _call(self, *args: Any) -> Any:
        result = await self._method(*args)
        self.done.set()
        await self.go_on.wait()
        return result


def stored_source(store: Path, cell_id: str) -> str:
    """A cell's text in the store of a server with one room."""
    document = YNotebook()
    with closing(sqlite3.connect(store)) as database:
        for (update,) in database.execute("SELECT yupdate FROM yupdates").fetchall():
            document.ydoc.apply_update(update)
    return next((cell["source"] for cell in document.get()["cells"] if cell["id"] == cell_id), "")


def forget_saves(store: Path) -> None:
    """Make the store of a stopped server forget its last save, like one that has lost its history,
    or was written without us.
    """
    with closing(sqlite3.connect(store)) as database, database:
        for (path,) in database.execute("SELECT DISTINCT path FROM yupdates").fetchall():
            document = YNotebook()
            rows = database.execute("SELECT yupdate FROM yupdates WHERE path = ?", (path,))
            for (update,) in rows.fetchall():
                document.ydoc.apply_update(update)
            document.ystate.pop("jupyter_agent_file")
            database.execute("DELETE FROM yupdates WHERE path = ?", (path,))
            values = (path, document.ydoc.get_update(), None, time.time())
            database.execute("INSERT INTO yupdates VALUES (?, ?, ?, ?)", values)


@dataclass(frozen=True)
class Site:
    """The address of a server with rooms."""

    port: int
    base_url: str
    headers: Mapping[str, str]
    people: list[Person] = field(default_factory=list, init=False)
    """Everyone who has had a notebook open there."""

    async def request(self, method: str, route: str, body: Any) -> Any:
        response = await AsyncHTTPClient().fetch(
            HTTPRequest(
                f"http://localhost:{self.port}{self.base_url}{route}",
                method=method,
                headers=dict(self.headers),
                body=json.dumps(body),
            )
        )
        return json.loads(response.body)

    async def connect(self, route: str, hear: Any) -> WebSocketClientConnection:
        url = f"ws://localhost:{self.port}{self.base_url}{route}"
        request = HTTPRequest(url, headers=dict(self.headers))
        return await websocket_connect(request, on_message_callback=hear)

    async def rename(self, path: str, to: str) -> None:
        """Through the server, as from Lab's file browser."""
        await self.request("PATCH", f"api/contents/{quote(path)}", {"path": to})


@dataclass(frozen=True)
class RoomServer(Site):
    """The server that runs in this process."""

    app: Any

    @property
    def contents(self) -> Any:
        return self.app.contents_manager

    @property
    def root(self) -> Path:
        return Path(self.app.root_dir)

    @property
    def extension(self) -> Any:
        """The server's YDocExtension."""
        return self.app.web_app.settings["jupyter_server_ydoc"]

    @property
    def rooms(self) -> dict[str, Any]:
        """The rooms by name: `json:notebook:` and the id of the file."""
        rooms: dict[str, Any] = self.extension.ywebsocket_server.rooms
        return rooms

    def room(self, path: str) -> Any:
        """The room of that notebook. Raises KeyError without one."""
        file_id = self.app.web_app.settings["file_id_manager"].get_id(path)
        return self.rooms[f"json:notebook:{file_id}"]

    async def evict(self, path: str) -> None:
        """Remove the room as the server does some time after the last one left."""
        room = self.room(path)
        async with self.extension._room_locks[room.room_id]:
            await self.extension.ywebsocket_server.delete_room(room=room)
            await self.extension.file_loaders.remove(room.room_id.split(":")[2])

    async def stored(self, path: str) -> None:
        """Wait until the store of the room has its last change."""
        inside = self.room(path)
        async with asyncio.timeout(60):
            while True:
                stored: Doc[Any] = Doc()
                await inside.ystore.apply_updates(stored)
                if clocks_in(stored.get_state()) == clocks_in(inside.ydoc.get_state()):
                    break

    async def end(self, path: str) -> None:
        """The server ends, a moment after the room's store has got the last change."""
        await self.stored(path)
        await self.evict(path)

    def live(self, path: str) -> Room:
        """The same as we know it."""
        return Room.of(self.room(path), self.collaboration())

    def fill_rooms(self, notebooks: Notebooks) -> list[tuple[str, str]]:
        """Have our extension's code fill the rooms; returns the recovery copies it stores."""
        copies: list[tuple[str, str]] = []

        async def keep(path: str, text: str) -> None:
            copies.append((path, text))

        async def carry_over(path: str) -> None:
            notebooks.carry_over(path)

        self.collaboration().fill_rooms(keep, carry_over)
        return copies

    @cached_property
    def sharing(self) -> Sharing:
        """Whether `Notebooks` finds the rooms."""
        return Sharing(self.app.web_app.settings)

    def collaboration(self) -> Collaboration:
        """The rooms as we know them."""
        shared = self.sharing.documents()
        assert isinstance(shared, LateRooms)
        return shared.rooms


class Person(Page):
    """A notebook open in a page of JupyterLab with real-time collaboration."""

    behind = False

    def __init__(self, server: Site, path: str) -> None:
        super().__init__(path)
        server.people.append(self)
        self._heard: list[str | bytes | None] = []
        self._awareness = Awareness(self.notebook.ydoc)
        self._server = server
        self._route = ""
        self._socket: WebSocketClientConnection | None = None
        self._connection: object = None
        self._applying = False
        self._barriers: deque[asyncio.Future[None]] = deque()
        self.notebook.ydoc.observe(self._forward)

    async def open(self) -> Person:
        """Enter the room, and have all of it."""
        route = f"api/collaboration/session/{quote(self.path)}"
        session = await self._server.request("PUT", route, {"format": "json", "type": "notebook"})
        room = f"json:notebook:{session['fileId']}"
        self._route = f"api/collaboration/room/{room}?sessionId={session['sessionId']}"
        await self.connect()
        return self

    async def connect(self) -> None:
        """Open the socket, unless it is open, and exchange the updates that either side lacks."""
        if self._socket is None:
            socket = object()
            self._connection = socket

            def hear(message: str | bytes | None) -> None:
                if self._connection is socket:  # else what comes while it is closed
                    self._take(message)

            self._socket = await self._server.connect(self._route, hear)
        await self.sync()

    def cut(self) -> None:
        """The socket is lost, with everything on its way in it."""
        self._connection = None
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        for barrier in self._barriers:
            barrier.cancel()
        self._barriers.clear()

    async def close(self) -> None:
        """The page is closed."""
        self.cut()

    def has(self) -> dict[int, int]:
        """The state that a page reports when it requests a save."""
        self.notebook.ystate["jupyter_agent_save"] = len(clocks_in(self.notebook.ydoc.get_state()))
        return clocks_in(self.notebook.ydoc.get_state())

    async def sync(self) -> None:
        """Wait until the room has all changes made here and we have all made there."""
        barrier: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._barriers.append(barrier)
        self._send(create_sync_message(self.notebook.ydoc))
        async with asyncio.timeout(60):
            await barrier

    # ---- what the person does

    def say(self, **state: Any) -> None:
        """Publish our state to the others in the room (awareness), as Lab does with its cursor."""
        self._awareness.set_local_state({**(self._awareness.get_local_state() or {}), **state})
        ours = [self.notebook.ydoc.client_id]
        self._send(create_awareness_message(self._awareness.encode_awareness_update(ours)))

    def text(self, cell_id: str) -> Any:
        """The name of a cell's text, unique to each text."""
        source: Text = self.cell(cell_id)["source"]
        return source.sticky_index(0, Assoc.BEFORE).to_json()["type"]

    def edit_in(self, cell_id: str) -> None:
        """Put the cursor in a cell. Lab publishes it as Yjs's relative position."""
        self.active_cell = cell_id
        place = {"type": self.text(cell_id), "tname": None, "item": None, "assoc": 0}
        self.say(cursors=[{"anchor": place, "head": place, "primary": True, "empty": True}])

    def offers(self) -> dict[str, Any]:
        """The offers that the page shows."""
        return self._offers.to_py() or {}

    def decide(self, key: str) -> None:
        """Accept an offer, or dismiss it."""
        del self._offers[key]

    @property
    def _offers(self) -> Map[Any]:
        return self.notebook.ydoc.get(OFFERS, type=Map)

    # ---- the wire

    def _send(self, message: bytes) -> None:
        if self._socket is not None:
            self._socket.write_message(message, binary=True)

    def thaw(self) -> None:
        """The page wakes up, and processes all messages since."""
        self.frozen = False
        while self._heard:
            self._take(self._heard.pop(0))

    def _take(self, message: str | bytes | None) -> None:
        if self.frozen:
            self._heard.append(message)
            return
        if not isinstance(message, bytes) or message[0] != YMessageType.SYNC:
            return  # closed, another user's cursor, or an answer that we did not request
        self._applying = True
        try:
            reply = handle_sync_message(message[1:], self.notebook.ydoc)
        finally:
            self._applying = False
        if reply is not None:
            self._send(reply)
        if message[1] == YSyncMessageType.SYNC_STEP2 and self._barriers:
            barrier = self._barriers.popleft()
            if not barrier.done():
                barrier.set_result(None)

    def _forward(self, event: TransactionEvent) -> None:
        if not self._applying:
            self._send(create_update_message(event.update))
