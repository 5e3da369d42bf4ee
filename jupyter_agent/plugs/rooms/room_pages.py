"""The pages in a room: what they have, and what they do to cells that the document lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pycrdt import (
    Awareness,
    YMessageType,
    YSyncMessageType,
    create_sync_message,
    create_update_message,
    read_message,
)
from tornado.websocket import WebSocketHandler

from jupyter_agent.plugs.rooms.room_shadow import Shadow
from jupyter_agent.plugs.rooms.room_updates import clocks_in

_UPDATE = bytes([YMessageType.SYNC, YSyncMessageType.SYNC_UPDATE])
_ANSWER = bytes([YMessageType.SYNC, YSyncMessageType.SYNC_STEP2])


class Pin:
    """A client of a room that only keeps it open."""

    path = "jupyter_agent"

    async def send(self, message: bytes) -> None:
        """Ignore the message: a pin has no document of its own."""


class Pages:
    """The pages in one room."""

    def __init__(self, doc_room: Any, on_late_edit: Callable[[], None]) -> None:
        """`on_late_edit` is called when a page may have typed into a removed cell."""
        self._doc_room = doc_room
        self._on_late_edit = on_late_edit
        self.shadow: Shadow | None = None
        """The document without removals of cells."""
        self._listeners = 0
        self._answers = asyncio.Semaphore(0)

    @property
    def clients(self) -> list[Any]:
        """The pages in the room."""
        return [client for client in self._doc_room.clients if not isinstance(client, Pin)]

    @property
    def awareness(self) -> Awareness:
        """The state that the clients publish."""
        awareness: Awareness = self._doc_room.awareness
        return awareness

    @property
    def want_saves(self) -> bool:
        """Whether automatic saving is on in at least one page, or no page says."""
        wishes = [state.get("autosave", True) for state in self.awareness.states.values() if state]
        return not wishes or any(wishes)

    def attach_shadow(self, shadow: Shadow) -> None:
        """Use this shadow of the document."""
        shadow.follow(self._doc_room._document)
        self.shadow = shadow
        self.listen(True)

    def detach_shadow(self) -> None:
        """Drop the shadow."""
        if self.shadow is not None:
            self.shadow.close()
            self.shadow = None
            self.listen(False)

    async def sync(self, updates: Sequence[bytes], seconds: float) -> bool:
        """Wait until each client has these updates, and everything it did before that is here.
        False if one did not answer in so many seconds: no one waits for a page that sleeps.

        Messages arrive in the order in which they are sent, and a client answers a document's state
        with the updates that it lacks. The room sends updates a little later than they are made, so
        they are sent here too: a duplicate does no harm.
        """
        clients = self.clients
        if not clients:
            return True
        self._answers = asyncio.Semaphore(0)
        question = create_sync_message(self._doc_room.ydoc)
        try:
            async with asyncio.timeout(seconds):
                for client in clients:
                    for message in (*map(create_update_message, updates), question):
                        await client.send(message)
                for _ in clients:
                    await self._answers.acquire()
        except TimeoutError:
            return False
        return True

    async def wait_for(self, clocks: Mapping[int, int], seconds: float) -> bool:
        """Wait until everything is here that a document with this state vector has; False if it is
        not after so many seconds.
        """
        came = asyncio.Event()
        document = self._doc_room.ydoc
        subscription = document.observe(lambda _: came.set())
        try:
            async with asyncio.timeout(seconds):
                while True:
                    async with self._doc_room._update_lock:
                        here = clocks_in(document.get_state())
                    if all(here.get(client, 0) >= clock for client, clock in clocks.items()):
                        return True
                    await came.wait()
                    came.clear()
        except TimeoutError:
            return False
        finally:
            document.unobserve(subscription)

    def listen(self, on: bool) -> None:
        """Add or remove a listener to the clients' messages."""
        self._listeners += 1 if on else -1
        self._doc_room.on_message = self._listen if self._listeners else None

    def _listen(self, message: bytes) -> bool:
        """Called with each message of a client; returns False so that the room handles it as
        usual.
        """
        kind = message[:2]
        if kind in (_UPDATE, _ANSWER) and self.shadow is not None:
            self.shadow.apply_client_update(read_message(message[2:]), answer=kind == _ANSWER)
            self._on_late_edit()
        if kind == _ANSWER:
            self._answers.release()
        return False


def send_at_once(page: Any) -> None:
    """Disable Nagle's algorithm: an edit is several small messages, and each would wait 40 ms until
    the page's side has acknowledged the one before.
    """
    if is_connected(page):
        page.set_nodelay(True)


def is_connected(client: Any) -> bool:
    """Whether it is a page with an open websocket; a pin has no websocket."""
    return isinstance(client, WebSocketHandler) and client.ws_connection is not None
