"""The rooms that hold notebooks in real-time collaboration (jupyter-server-ydoc 3, which
jupyter-collaboration 5 installs). All names of that package that we use are here, and
`tests/notebook/test_rooms.py` fails when one of them changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

from jupyter_server.utils import ensure_async
from jupyter_ydoc import YNotebook
from pycrdt import (
    Awareness,
    Doc,
    YMessageType,
    YSyncMessageType,
    create_sync_message,
    create_update_message,
    read_message,
)
from tornado.web import HTTPError
from tornado.websocket import WebSocketHandler

from jupyter_agent.carriers.exchange import OVERTAKEN
from jupyter_agent.carriers.managers import is_plain
from jupyter_agent.carriers.page_saves import SEEN, WRITTEN
from jupyter_agent.carriers.sharing import Keep, OnLateEdit
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.merge_cells import Content, outline
from jupyter_agent.errors import Busy, UnreadableNotebook
from jupyter_agent.plugs.rooms.late_rooms import (
    configure_stores,
)
from jupyter_agent.plugs.rooms.room_file import (
    FollowPlan,
    follow,
    is_file,
    lost_edits,
    outline_of,
    with_ids,
)
from jupyter_agent.plugs.rooms.room_filling import Filling
from jupyter_agent.plugs.rooms.room_history import (
    StoredHistory,
    begin_save,
    end_save,
    mark_ahead_of_file,
    mark_equal_to_file,
    offer,
    replay,
)
from jupyter_agent.plugs.rooms.room_shadow import Shadow
from jupyter_agent.plugs.rooms.room_store import StoreQueue
from jupyter_agent.plugs.rooms.room_updates import clocks_in
from jupyter_agent.plugs.rooms.room_versions import FileVersions
from jupyter_agent.tasks import begin, surely

_NOTEBOOKS = "json:notebook:"
"""Prefix of the names of notebook rooms; the file's id follows."""

_ATTEMPTS = 3
"""Attempts to save while another program writes the file."""

_GOING_AWAY = 1001
"""The code of a websocket whose server ends (RFC 6455)."""
_LONGEST_LEAVE = 1.0
"""Seconds to wait for connections of pages that were ended."""

_PAUSE = 10.0
"""Seconds until a room retries a file that it could not read."""

_UPDATE = bytes([YMessageType.SYNC, YSyncMessageType.SYNC_UPDATE])
_ANSWER = bytes([YMessageType.SYNC, YSyncMessageType.SYNC_STEP2])


class Collaboration:
    """The rooms of one server."""

    def __init__(self, extension: Any, files: Any) -> None:
        """`extension` is the server's YDocExtension, `files` its file id manager."""
        self._extension = extension
        self._files = files
        configure_stores(extension)

    def id_of(self, path: str) -> str:
        """The permanent id of the file, which survives renames; created if necessary. Raises
        UnreadableNotebook if the file can have no id.
        """
        file_id = self._files.index(path)
        if file_id is None:
            raise UnreadableNotebook(f"`{path}` cannot be shared: it is not a file of this server.")
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

    async def _disconnect_pages(self) -> None:
        """End the connections of all pages: each is a task that has used a thread of anyio."""
        rooms = self._extension.ywebsocket_server.rooms.values()
        connections = []
        for page in [page for room in rooms for page in room.clients if _is_connected(page)]:
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
        try:
            await self._extension.get_document(room_id=name, copy=False, create=True)
        except (HTTPError, OSError, RuntimeError, ValueError) as error:
            if name in rooms and not rooms[name].ready:
                del rooms[name]  # a stopped, empty room would be returned again
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
        for page in entered.clients:
            _send_at_once(page)
        return entered

    async def save(self, path: str, clocks: Mapping[int, int], seconds: float) -> str:
        """See `SharedDocuments.save`."""
        pin = Pin()
        room = await self.enter(self.id_of(path), pin)
        try:
            if not await room.wait_for(clocks, seconds):
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
            room.detach_shadow()
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


def _document(update: bytes) -> Doc[Any]:
    document: Doc[Any] = Doc()
    document.apply_update(update)
    return document


def _send_at_once(page: Any) -> None:
    """Disable Nagle's algorithm: an edit is several small messages, and each would wait 40 ms until
    the page's side has acknowledged the one before.
    """
    if _is_connected(page):
        page.set_nodelay(True)


def _is_connected(client: Any) -> bool:
    """Whether it is a page with an open websocket; a pin has no websocket."""
    return isinstance(client, WebSocketHandler) and client.ws_connection is not None


class NotSaved(RuntimeError):
    """The room did not write its file and raised no error: the file is read-only, or another
    program has written it.
    """


class Pin:
    """A client of a room that only keeps it open."""

    path = "jupyter_agent"

    async def send(self, message: bytes) -> None:
        """Ignore the message: a pin has no document of its own."""


class Room:
    """The live document of one notebook, and its connection to the file. From now on this object
    does all that the room does with its file.
    """

    def __init__(self, doc_room: Any, rooms: Collaboration) -> None:
        self.doc_room = doc_room
        self._rooms = rooms
        self.shadow: Shadow | None = None
        """The document without removals of cells."""
        self.hold_timer: asyncio.TimerHandle | None = None
        self.pin = Pin()
        self._store_queue = StoreQueue(doc_room)
        self._on_late_edit: OnLateEdit | None = None
        self._listeners = 0
        self._answers = asyncio.Semaphore(0)
        self._versions = FileVersions()
        """Recent versions of the file that the document includes; if empty, the store may know
        them.
        """
        self._seen_hash = ""
        """The hash of that file; empty if it is unknown."""
        self._modified = doc_room._file.last_modified if doc_room.ready else None
        """Time of its last write, in the contents manager's own form; None if it is unknown."""
        self._behind = False
        """The file has changed, whatever its time of writing."""
        self._filling = asyncio.Lock()
        """Held while the room is filled."""
        self._at_file = asyncio.Lock()
        """Held while the document loads its file, and while the file is written."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks that load the file or report late edits."""
        self._overwrite: Callable[[], Awaitable[None]] = doc_room._on_outofband_change
        doc_room._maybe_save_document = self._save_as_asked
        doc_room._on_outofband_change = self.follow
        doc_room._file.observe(doc_room.room_id, self.follow, doc_room._on_filepath_change)
        self._notify: Callable[[], Awaitable[None]] = doc_room._file.maybe_notify
        doc_room._file.maybe_notify = self._check_file

    @classmethod
    def of(cls, doc_room: Any, rooms: Collaboration) -> Room:
        """The one `Room` object of this room."""
        known = getattr(doc_room._maybe_save_document, "__self__", None)
        return known if isinstance(known, cls) else cls(doc_room, rooms)

    @property
    def document(self) -> YNotebook:
        document: YNotebook = self.doc_room._document
        return document

    @property
    def clients(self) -> list[Any]:
        """The pages in the room."""
        return [client for client in self.doc_room.clients if not isinstance(client, Pin)]

    def attach_shadow(self, shadow: Shadow) -> None:
        """Use this shadow of the document."""
        shadow.follow(self.document)
        self.shadow = shadow
        self.listen(True)

    def detach_shadow(self) -> None:
        """Drop the shadow."""
        if self.shadow is not None:
            self.shadow.close()
            self.shadow = None
            self.listen(False)

    async def sync_clients(self, updates: Sequence[bytes], seconds: float) -> bool:
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
        question = create_sync_message(self.doc_room.ydoc)
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
        document = self.doc_room.ydoc
        subscription = document.observe(lambda _: came.set())
        try:
            async with asyncio.timeout(seconds):
                while True:
                    async with self.doc_room._update_lock:
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
        self.doc_room.on_message = self._listen if self._listeners else None

    def _listen(self, message: bytes) -> bool:
        """Called with each message of a client; returns False so that the room handles it as
        usual.
        """
        kind = message[:2]
        if kind in (_UPDATE, _ANSWER) and self.shadow is not None:
            self.shadow.apply_client_update(read_message(message[2:]), answer=kind == _ANSWER)
            self._report_late_edits()
        if kind == _ANSWER:
            self._answers.release()
        return False

    def _keep_shadow(self, shadow: Shadow) -> None:
        if self.shadow is None:
            self.attach_shadow(shadow)
        if self.clients or self.hold_timer is None:  # else an hourly changed file keeps the room
            self._rooms.hold(self, Timeouts.offline)

    def _report_late_edits(self) -> None:
        if self._on_late_edit is not None and self.shadow is not None and self.shadow.pending():
            begin(self._on_late_edit(self.path), self._tasks)

    @property
    def awareness(self) -> Awareness:
        """The state that the clients publish."""
        awareness: Awareness = self.doc_room.awareness
        return awareness

    @property
    def autosaves(self) -> bool:
        """Whether changes are saved automatically: by the server's setting, and that of at least
        one user in Lab.
        """
        wishes = [state.get("autosave", True) for state in self.awareness.states.values() if state]
        return self.doc_room._save_delay is not None and (not wishes or any(wishes))

    @property
    def has_pending_save(self) -> bool:
        """Whether it will save once there are no changes for a while."""
        coming = self.doc_room._saving_document
        return coming is not None and not coming.done()

    @property
    def pause(self) -> float:
        """Seconds without changes before it saves by itself."""
        return self.doc_room._save_delay or 0.0

    @property
    def last_written(self) -> object:
        """When its file was last written, in the contents manager's own form."""
        return self.doc_room._file.last_modified

    @property
    def has_unsaved(self) -> bool:
        """Whether it has unsaved changes, or is about to save."""
        return bool(self.document.dirty) or self.has_pending_save

    @property
    def path(self) -> str:
        """The present path of the file."""
        return str(self.doc_room._file.path)

    async def _read_store(self) -> StoredHistory | None:
        """The content of the room's store; None if it has no document or cannot be read."""
        if self.doc_room.ystore is None:
            return None
        not_found = import_module("pycrdt.store").YDocNotFound
        async with self._store() as store:
            with self._log_errors("The saved state of %s is unknown"), suppress(not_found):
                return await replay([row async for row in store.read()])
            now = YNotebook()
            with self._log_errors("The unsaved changes of %s are unknown"), suppress(not_found):
                await store.apply_updates(now.ydoc)
                return StoredHistory(now, None)
        return None

    @contextmanager
    def _log_errors(self, problem: str) -> Iterator[None]:
        """No error of a store may keep people out or hold up a file."""
        try:
            yield
        except Exception:
            self.doc_room.log.exception(problem, self.path)

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[Any]:
        """The store, also of a room that is about to be filled. If it is not open, another instance
        is opened: the room's own would open in a task that never ends, and the server would wait
        for that task's thread when it stops.
        """
        store = self.doc_room.ystore
        async with store.start_lock:
            if not store.started.is_set():
                kind: Any = type(store)
                async with kind(path=store.path, log=store.log, config=store.config) as opened:
                    yield opened
                return
        yield store

    async def fill(
        self, fill: Callable[[], Awaitable[None]], keep: Keep, on_late_edit: OnLateEdit
    ) -> None:
        """Fill the room from its store and its file, and record the file's version. For `keep` and
        `on_late_edit` see `SharedDocuments.fill`.
        """
        doc_room, document = self.doc_room, self.document
        async with self._filling:
            if doc_room.ready:
                return
            if getattr(doc_room.ystore, "_decompress", bytes) is None:
                doc_room.ystore._decompress = bytes  # else squashing loses updates (upstream.md)
            stored = await self._read_store()
            state = None if stored is None else stored.now.ydoc.get_state()
            self._on_late_edit = on_late_edit
            keep_copy = partial(keep, self.path)
            filling = Filling(document, stored, self._apply, keep_copy, doc_room.log)

            async def load(content: dict[str, Any]) -> None:
                nonlocal state
                self._resume(stored)  # all changes made here reach the shadow too
                first = document.ydoc.get_update(state)
                with self._changes() as changes:
                    await filling.load_file(content)
                if state is not None:  # separately: an update that removes cells does nothing else
                    state = document.ydoc.get_state()
                    with self._log_errors("The removed cells of %s may be unknown later"):
                        await self._put_into_store(first, *changes)

            before = (await self._get(content=False)).get("hash")
            doc_room._document.aset = load
            try:
                await fill()
            finally:
                del doc_room._document.aset
            self._resume(stored)
            self._modified = doc_room._file.last_modified
            self._behind = before != (await self._get(content=False)).get("hash")
            self._seen_hash = "" if self._behind else before or ""
            if stored is None and doc_room._document_load_progressively:
                doc_room._document_progressively_loaded.add_done_callback(self._on_loaded)
                return
            is_known = self._versions.latest is not None
            if not is_known:
                self._versions.note_read(await outline_of(document))
            with self._log_errors("The unsaved changes of %s may be unknown later"):
                # The room does not store by itself what it did before it was ready, such as naming
                # its path: all later updates would be stored after a gap, and never read.
                state = state or document.ydoc.get_state()
                await self._put_into_store(document.ydoc.get_update(state))
                if not is_known:
                    state = document.ydoc.get_state()
                    async with doc_room._update_lock:  # else this would be taken for a change
                        mark_equal_to_file(document)
                    await self._put_into_store(document.ydoc.get_update(state))
            if is_known and document.dirty:  # once pages have reported their autosave setting
                later = asyncio.get_running_loop().call_later
                later(self.pause, doc_room._on_document_change, "cells", None)

    def _resume(self, stored: StoredHistory | None) -> None:
        if stored is not None and stored.shadow is not None:
            self._keep_shadow(stored.shadow)

    async def _put_into_store(self, *updates: bytes) -> None:
        if self.doc_room.ystore is not None:
            async with self._store() as store:
                for update in updates:
                    await store.write(update)

    def _on_loaded(self, _: object) -> None:
        if not self.document.dirty:  # no one was quicker
            mark_equal_to_file(self.document)

    @property
    def _is_behind(self) -> bool:
        """Whether another program has written the file, and the document has not loaded that."""
        return self._behind or self._modified not in (None, self.doc_room._file.last_modified)

    @property
    def _is_closed(self) -> bool:
        """Whether the server has removed the room: there may be another one for the same file."""
        return bool(self.doc_room._file._subscriptions.get(self.doc_room.room_id) != self.follow)

    async def follow(self) -> None:
        """Load what another program has written into the file, and merge it with all changes of the
        document since both were equal.
        """
        following = begin(self._follow(asyncio.current_task()), self._tasks)
        await asyncio.shield(following)  # it is noticed only once

    async def _check_file(self) -> None:
        """The original only looks for newer files. It misses a file that was written elsewhere
        before our save, and put here after it.
        """
        await self._notify()
        if self._is_behind and not self._behind:  # else known, but unreadable
            await self.follow()

    async def _follow(self, follower: asyncio.Task[Any] | None) -> None:
        doc_room = self.doc_room
        await self._load_file()
        if doc_room._document.dirty and not self._is_closed:
            if doc_room._saving_document is not follower:  # which is about to save it
                doc_room._on_document_change("cells", None)

    async def _load_file(self) -> None:
        doc_room = self.doc_room
        async with self._at_file:
            if self._is_closed or not self._is_behind:
                return
            if not isinstance(doc_room._document, YNotebook):
                await self._overwrite()
                self._modified, self._behind = doc_room._file.last_modified, False
                return
            async with doc_room._update_lock:
                pass  # it may be filled step by step
            self._emit("INFO", "overwrite", "Out-of-band changes. Taking them in.")
            self._behind = False
            try:
                model = await self._load()
                with self._changes() as changes:
                    now = doc_room.ydoc.get_update()
                    copy = YNotebook(_document(now))
                    latest = self._versions.latest or await self._first_version()
                    former = self._versions.former
                    following = await follow(copy, latest, model["content"], doc_room.log, former)
                    async with doc_room._update_lock:  # else this would be taken for a change
                        self._modified = model["last_modified"]
                        self._seen_hash = model.get("hash") or ""
                        changed = bool(changes)
                        self._apply(following, base=latest, former=now, changed=changed)
            except Exception as error:
                self._behind = True
                doc_room.log.exception("The changed file of the room %s cannot be read", self.path)
                self._emit(
                    "ERROR", None, f"Error loading content from file: {self.path}\n{error!r}"
                )

    async def _load(self) -> dict[str, Any]:
        """The file as the contents manager returns it, with its hash."""
        file = self.doc_room._file
        async with file._lock:
            model = await self._get(content=True)
            file.last_modified = model["last_modified"]
            return model

    async def _get(self, *, content: bool, hashed: bool = True) -> dict[str, Any]:
        doc_room = self.doc_room
        manager = doc_room._file._contents_manager
        kind = {"format": doc_room._file_format, "type": doc_room._file_type} if content else {}
        got = manager.get(self.path, content=content, require_hash=hashed, **kind)
        model: dict[str, Any] = await ensure_async(got)
        return model

    async def _first_version(self) -> Content | None:
        """For a room not saved since it was filled: the content it was filled with."""
        stored = await self._read_store()
        return None if stored is None or stored.saved is None else await outline_of(stored.saved)

    def _apply(
        self,
        following: FollowPlan,
        *,
        base: Content | None = None,
        former: bytes | None = None,
        changed: bool = False,
    ) -> None:
        """Have the document follow its file. Users who still type in a cell that this removes lose
        nothing.

        `changed`: the document was changed since it was copied. Then `base` is the outline of the
        file before, and `former` an update that makes that copy.
        """
        document = self.document
        for change in following.changes:
            if change.removed:
                shadow = self.shadow or Shadow(document, former)
                self._keep_shadow(shadow)
                shadow.expect_removal(change.removed)
            document.ydoc.apply_update(change.update)
        self._report_late_edits()
        missing = lost_edits(document, base, following.base) if changed and base is not None else []
        offers = {offer["cell"]["id"]: offer for offer in [*missing, *following.offers]}
        if offers:
            offer(document, list(offers.values()))
        self._versions.note_read(following.base)
        document.dirty = changed or not following.is_file
        if document.dirty:
            mark_ahead_of_file(document, following.base)
        else:
            mark_equal_to_file(document)

    @contextmanager
    def _changes(self) -> Iterator[list[bytes]]:
        """The updates made in the document from now on."""
        changes: list[bytes] = []
        document = self.doc_room.ydoc
        subscription = document.observe(lambda event: changes.append(event.update))
        try:
            yield changes
        finally:
            document.unobserve(subscription)

    def _emit(self, level: str, action: str | None, message: str) -> None:
        """Emit a server event, as the room does."""
        levels = import_module("jupyter_server_ydoc.utils").LogLevel
        self.doc_room._emit(levels[level], action, message)

    async def settle(self, modified: object = None) -> None:
        """Have the room load what others wrote into the file, and wait until it has. `modified` is
        the time of the last write if the caller has just read it; else it is checked.
        """
        if modified is None or modified != self.last_written:
            await self.doc_room._file.maybe_notify()
        if self._is_behind:
            await self.follow()
        for lock in (self._at_file, self.doc_room._update_lock):
            async with lock:
                pass

    async def close(self) -> None:
        """Save now if a save was due, and start no further work with the file."""
        is_due = self.has_pending_save and self.autosaves
        self.doc_room._save_delay = None
        tasks = {*self._tasks, *filter(None, (self.doc_room._saving_document,))}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if is_due:
            with suppress(HTTPError, OSError, RuntimeError):  # its store has it
                await self.save()
        async with self._at_file:
            pass  # a save requested by a page is done now
        await self._store_queue.flush()

    def _save_as_asked(
        self, former: asyncio.Task[None] | None, save_now: bool = False
    ) -> Coroutine[Any, Any, None]:
        """The room's function to save its file.

        A room that has just filled itself step by step calls it while it holds its lock, and no one
        else does: it takes for a change what documents merely hold in another form than files.
        """
        is_just_filled = self.doc_room._update_lock.locked()
        return self._save_later(former, now=save_now, only_changes=is_just_filled)

    async def _save_later(
        self, former: asyncio.Task[None] | None, *, now: bool, only_changes: bool
    ) -> None:
        """Save once there are no changes for a while, or now; replaces the `former` task of that
        kind. `only_changes`: not if the document equals its file.
        """
        pause = self.doc_room._save_delay
        if pause is None and not now:
            return
        if former is not None and not former.done():
            former.cancel()
        try:
            if not now:
                await asyncio.sleep(pause)
            if only_changes and isinstance(self.doc_room._document, YNotebook):
                model = await self._get(content=True)
                if await is_file(self.document, model["content"]):
                    return
            while not await self._try_save():
                if self._is_closed or not self._is_behind:  # it never will be
                    return
                await asyncio.sleep(_PAUSE)
            self._emit("INFO", "save", "Content saved.")
        except asyncio.CancelledError:
            return
        except Exception as error:
            self.doc_room.log.exception("The room %s cannot be saved", self.path)
            self._emit("ERROR", None, f"Error saving file: {self.path}\n{error!r}")

    async def _try_save(self) -> bool:
        with suppress(NotSaved):
            await self.save()
            return True
        return False

    async def save(self) -> None:
        """Write the present document, merged with what others wrote into the file.

        Raises HTTPError, OSError or RuntimeError, which is NotSaved if the file is read-only or
        cannot be read.
        """
        saver = asyncio.current_task()
        for _ in range(_ATTEMPTS):
            if self._is_behind:
                await self.follow()
            async with self._at_file:
                is_written = await surely(self._write(saver))
            if self._behind:
                await self.follow()
                if self.doc_room._document.dirty:
                    continue  # the written file has been replaced
            if is_written:
                return
        raise NotSaved(
            "another program has written the file, which cannot be read now. Repair it, or save "
            "the notebook under another name"
            if self._behind
            else "another program keeps writing the file"
        )

    async def _write(self, saver: asyncio.Task[Any] | None) -> bool:
        """Write the file if it is as the room has seen it; whether it was written."""
        room = self.doc_room
        if self._is_closed:
            raise NotSaved("no one has it open any more")
        if self._is_behind:
            return False
        scheduled = room._saving_document
        async with room._update_lock:  # else this would be taken for a change
            save = begin_save(room._document)
        with self._changes() as changes:
            # Cells come and go while the room's own document is read.
            copy = type(room._document)(_document(room.ydoc.get_update()))
            content = await copy.aget()
            base = None
            if isinstance(copy, YNotebook):
                base = await asyncio.to_thread(outline, with_ids(copy, content))
            await self._store_queue.flush()  # never write to a file what the store lacks
            saved = await self._put(content)
            if saved is None:
                self._behind = True
                return False
            self._modified = room._file.last_modified
            if base is not None:
                self._versions.note_write(base, attended=bool(self.clients))
                self._seen_hash = saved.get(WRITTEN, saved["hash"])
                self._behind = self._seen_hash != saved["hash"]  # someone wrote it right then
            async with room._update_lock:
                if room._saving_document is scheduled and not changes:
                    room._document.dirty = False
                    if scheduled not in (None, saver):
                        scheduled.cancel()  # it would write the same again
                # Also after a concurrent change: JupyterLab compares it with the file's hash, and
                # asks the user about a change of the file if they differ.
                room._document.hash = saved["hash"]
                end_save(room._document, save)
        return True

    async def _put(self, content: object) -> dict[str, Any] | None:
        """The contents manager's answer to the write; None if the file is not the one that the room
        has seen.
        """
        room, file = self.doc_room, self.doc_room._file
        model = {"format": room._file_format, "type": room._file_type, "content": content}
        if self._seen_hash and is_plain(file._contents_manager):
            model[SEEN] = self._seen_hash
        async with file._lock:
            now = await self._get(content=False, hashed=False)
            if not now["writable"]:
                raise NotSaved("it is read-only")
            if now["last_modified"] != (self._modified or file.last_modified):
                file.last_modified = now["last_modified"]
                return None
            try:
                saved: dict[str, Any] = await file._save_content(model, asyncio.Event(), file.path)
            except HTTPError as error:
                if error.log_message == OVERTAKEN:
                    return None
                raise
            return saved
