"""The store of a room. It tracks changes until the store has them.

A room writes each update in a task of its own, and no one waits for these tasks. When the room is
removed they are cancelled. If its file has changes that the store lacks, the next room loads them
from the file as new letters, and a page that returns adds its own: `x = 2` becomes `x = 22`. A task
that is cancelled while it writes also leaves the database locked for the next room.
(`YRoom._broadcast_updates` of pycrdt-websocket 0.16, `SQLiteYStore.write` of pycrdt-store 0.1)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from itertools import groupby
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Subscription, TransactionEvent, merge_updates

from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.merge_cells import Content
from jupyter_agent.plugs.rooms.room_file import outline_of
from jupyter_agent.plugs.rooms.room_history import StoredHistory, replay
from jupyter_agent.tasks import surely

_LOOK = 0.1
"""Seconds between two looks whether a room still writes its changes."""


class RoomStore:
    """The store of a room, and the changes that it lacks: they are stored before the room stops."""

    def __init__(self, doc_room: Any, opening: asyncio.Lock) -> None:
        """`opening` is held by the one room that opens the database."""
        self._doc_room = doc_room
        self._opening = opening
        self._unstored: dict[bytes, asyncio.Event] = {}
        """Updates that the store does not have yet; each event is set when it does."""
        self._queue: list[tuple[bytes, bool]] = []
        """Updates waiting to be written, and whether others may be written with them."""
        self._plain = set[bytes]()
        """Those updates that leave the document's state unchanged."""
        self._changes_state = False
        """Whether the present transaction changes that state."""
        self._writing = asyncio.Lock()
        self._followed: list[tuple[Any, Subscription]] = []
        if doc_room.ystore is not None:
            _open_in_turn(doc_room.ystore, opening)
            self._write: Callable[[bytes], Awaitable[None]] = doc_room.ystore.write
            doc_room.ystore.write = self._store
            self._stop: Callable[[], Awaitable[None]] = doc_room.stop
            doc_room.stop = self._on_stop
            state = doc_room._document.ystate
            self._followed = [  # called in this order
                (state, state.observe_deep(self._note_state)),
                (doc_room.ydoc, doc_room.ydoc.observe(self._note)),
            ]

    async def read(self) -> StoredHistory | None:
        """The content of the room's store; None if it has no document or cannot be read."""
        if self._doc_room.ystore is None:
            return None
        not_found = import_module("pycrdt.store").YDocNotFound
        async with self._open() as store:
            with self.log_errors("The saved state of %s is unknown"), suppress(not_found):
                return await replay([row async for row in store.read()])
            now = YNotebook()
            with self.log_errors("The unsaved changes of %s are unknown"), suppress(not_found):
                await store.apply_updates(now.ydoc)
                return StoredHistory(now, None)
        return None

    async def first_version(self) -> Content | None:
        """For a room not saved since it was filled: the content it was filled with."""
        stored = await self.read()
        return None if stored is None or stored.saved is None else await outline_of(stored.saved)

    async def write(self, *updates: bytes) -> None:
        """Write these updates into the store."""
        if self._doc_room.ystore is not None:
            async with self._open() as store:
                for update in updates:
                    await store.write(update)

    @contextmanager
    def log_errors(self, problem: str) -> Iterator[None]:
        """No error of a store may keep people out or hold up a file."""
        try:
            yield
        except Exception:
            self._doc_room.log.exception(problem, self._doc_room._file.path)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Any]:
        """The store, also of a room that is about to be filled. If it is not open, another instance
        is opened: the room's own would open in a task that never ends, and the server would wait
        for that task's thread when it stops.
        """
        store = self._doc_room.ystore
        async with store.start_lock:
            if not store.started.is_set():
                kind: Any = type(store)
                other = kind(path=store.path, log=store.log, config=store.config)
                _open_in_turn(other, self._opening)
                async with other as opened:
                    yield opened
                return
        yield store

    async def flush(self) -> None:
        """Wait until the store has all changes up to now. A slow store must not keep people out or
        hold up a file.
        """
        try:
            async with asyncio.timeout(Timeouts.store):
                for stored in [*self._unstored.values()]:
                    while not stored.is_set():
                        if self._is_cut_off:  # perhaps only now
                            await self._store_rest()
                        with suppress(TimeoutError):
                            await asyncio.wait_for(stored.wait(), _LOOK)
        except TimeoutError:
            self._doc_room.log.warning("The store of the room %s is late", self._doc_room.room_id)
            self._unstored.clear()  # only wait once
            self._plain.clear()

    def _note_state(self, events: object) -> None:
        self._changes_state = True

    def _note(self, event: TransactionEvent) -> None:
        is_of_state, self._changes_state = self._changes_state, False
        if self._doc_room.ydoc_observed.is_set():  # else the room does not write it
            update = event.update
            self._unstored[update] = asyncio.Event()
            if not is_of_state:
                self._plain.add(update)

    async def _store(self, update: bytes) -> None:
        """Write the update, with all that came since the last write started: with one transaction
        of the database per keystroke, a save would wait for seconds if people type fast.
        """
        self._queue.append((update, update in self._plain))
        async with self._writing:
            updates, self._queue = self._queue, []  # empty if the previous call wrote it too
            try:
                for joined in _join(updates):
                    await self._write(joined)
            except asyncio.CancelledError:  # they are written with the rest
                updates = []
                raise
            finally:
                for each, _ in updates:
                    self._plain.discard(each)
                    if (stored := self._unstored.pop(each, None)) is not None:
                        stored.set()

    @property
    def _is_cut_off(self) -> bool:
        """Whether the room no longer writes: a server that ends cancels its tasks."""
        stream = getattr(self._doc_room, "_update_send_stream", None)  # None before it runs
        return stream is not None and not stream.statistics().open_receive_streams

    async def _store_rest(self) -> None:
        """Write the updates that the room has left."""
        self._queue.clear()
        for update in [*self._unstored]:
            await self._store(update)

    async def _on_stop(self) -> None:
        """Stop the room even if a page that returns at this moment cancels that: half stopped, the
        room would still write its file, alongside the next one.
        """
        await surely(self._store_and_stop())

    async def _store_and_stop(self) -> None:
        await self.flush()
        while self._unstored:  # later changes: after the stop nobody writes them
            await self.flush()
        for followed, subscription in self._followed:
            followed.unobserve(subscription)
        self._followed.clear()
        await self._stop()


def _open_in_turn(store: Any, opening: asyncio.Lock) -> None:
    """Let the store open its database while no other one does: the first makes it, and two at once
    break it, or one moves it away from the other (`SQLiteYStore._init_db` of pycrdt-store 0.1).
    """
    open_database = getattr(store, "_init_db", None)
    if open_database is None:  # a store of another kind
        return

    async def in_turn() -> None:
        async with opening:
            await open_database()

    store._init_db = in_turn


def _join(updates: Sequence[tuple[bytes, bool]]) -> Iterator[bytes]:
    """The same content as fewer updates. An update that changes the state stays separate: it shows
    what the store has before it (`room_history.py`).
    """
    for is_plain, group in groupby(updates, lambda each: each[1]):
        rows = [update for update, _ in group]
        if is_plain and len(rows) > 1:
            yield merge_updates(*rows)
        else:
            yield from rows
