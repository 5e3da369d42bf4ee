"""The live document of a notebook in a room of jupyter-server-ydoc 3. Names of that package that we
use are in this folder only, and `tests/notebook/test_rooms.py` fails when one of them changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_ydoc import YNotebook
from tornado.web import HTTPError

from jupyter_agent.carriers.page_saves import WRITTEN
from jupyter_agent.carriers.sharing import Keep, OnLateEdit
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.merge_cells import Content, outline
from jupyter_agent.plugs.rooms.room_contents import NotSaved, RoomContents
from jupyter_agent.plugs.rooms.room_file import (
    FollowPlan,
    content_of,
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
)
from jupyter_agent.plugs.rooms.room_pages import Pages, Pin
from jupyter_agent.plugs.rooms.room_shadow import Shadow
from jupyter_agent.plugs.rooms.room_store import RoomStore
from jupyter_agent.plugs.rooms.room_updates import changes_in, document_of
from jupyter_agent.plugs.rooms.room_versions import FileVersions
from jupyter_agent.tasks import begin, surely

if TYPE_CHECKING:
    from jupyter_agent.plugs.rooms.collaboration import Collaboration

_ATTEMPTS = 3
"""Attempts to save while another program writes the file."""

_PAUSE = 10.0
"""Seconds until a room retries a file that it could not read."""


class Room:
    """The live document of one notebook, and its connection to the file. From now on this object
    does all that the room does with its file.
    """

    def __init__(self, doc_room: Any, rooms: Collaboration) -> None:
        self.doc_room = doc_room
        self.document: YNotebook = doc_room._document
        self._rooms = rooms
        self.hold_timer: asyncio.TimerHandle | None = None
        self.pin = Pin()
        self.pages = Pages(doc_room, self._report_late_edits)
        self.contents = RoomContents(doc_room)
        self.store = RoomStore(doc_room, rooms.opening_store)
        self._on_late_edit: OnLateEdit | None = None
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

    def _keep_shadow(self, shadow: Shadow) -> None:
        if self.pages.shadow is None:
            self.pages.attach_shadow(shadow)
        if self.pages.clients or self.hold_timer is None:
            # Else a file that changes every hour would keep the room.
            self._rooms.hold(self, Timeouts.offline)

    def _report_late_edits(self) -> None:
        shadow = self.pages.shadow
        if self._on_late_edit is not None and shadow is not None and shadow.pending():
            begin(self._on_late_edit(self.contents.path), self._tasks)

    @property
    def autosaves(self) -> bool:
        """Whether changes are saved automatically: by the server's setting, and that of at least
        one user in Lab.
        """
        return self.doc_room._save_delay is not None and self.pages.want_saves

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
    def has_unsaved(self) -> bool:
        """Whether it has unsaved changes, or is about to save."""
        return bool(self.document.dirty) or self.has_pending_save

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
            stored = await self.store.read()
            state = None if stored is None else stored.now.ydoc.get_state()
            self._on_late_edit = on_late_edit
            keep_copy = partial(keep, self.contents.path)
            filling = Filling(document, stored, self._apply, keep_copy, doc_room.log)

            async def load(content: dict[str, Any]) -> None:
                nonlocal state
                self._resume(stored)  # all changes made here reach the shadow too
                first = document.ydoc.get_update(state)
                with changes_in(self.doc_room.ydoc) as changes:
                    await filling.load_file(content)
                if state is not None:  # separately: an update that removes cells does nothing else
                    state = document.ydoc.get_state()
                    with self.store.log_errors("The removed cells of %s may be unknown later"):
                        await self.store.write(first, *changes)

            before = (await self.contents.get(content=False)).get("hash")
            doc_room._document.aset, doc_room._document.aget = load, partial(content_of, document)
            try:
                with self.contents.fitted_reads():
                    await fill()
            finally:
                del doc_room._document.aset, doc_room._document.aget
            self._resume(stored)
            self._modified = doc_room._file.last_modified
            self._behind = before != (await self.contents.get(content=False)).get("hash")
            self._seen_hash = "" if self._behind else before or ""
            if stored is None and doc_room._document_load_progressively:
                begin(self._note_loaded(doc_room._document_progressively_loaded), self._tasks)
                return
            is_known = self._versions.latest is not None
            if not is_known:
                self._versions.note_read(await outline_of(document))
            with self.store.log_errors("The unsaved changes of %s may be unknown later"):
                # The room does not store by itself what it did before it was ready, such as naming
                # its path: all later updates would be stored after a gap, and never read.
                state = state or document.ydoc.get_state()
                await self.store.write(document.ydoc.get_update(state))
                if not is_known:
                    state = document.ydoc.get_state()
                    async with doc_room._update_lock:  # else this would be taken for a change
                        mark_equal_to_file(document)
                    await self.store.write(document.ydoc.get_update(state))
            if is_known and document.dirty:  # once pages have reported their autosave setting
                later = asyncio.get_running_loop().call_later
                later(self.pause, doc_room._on_document_change, "cells", None)

    def _resume(self, stored: StoredHistory | None) -> None:
        if stored is not None and stored.shadow is not None:
            self._keep_shadow(stored.shadow)

    async def _note_loaded(self, loaded: asyncio.Future[None]) -> None:
        await asyncio.wait([loaded])
        async with self.doc_room._update_lock:  # else this would be taken for a change
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
        """The original misses a file with an earlier time of writing than our save, or the same."""
        await self._notify()
        if self._behind:  # known, but unreadable
            return
        if self._is_behind or await self.contents.differs(self._seen_hash):
            self._behind = True
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
                model = await self.contents.load()
                with changes_in(self.doc_room.ydoc) as changes:
                    now = doc_room.ydoc.get_update()
                    copy = YNotebook(document_of(now))
                    latest = self._versions.latest or await self.store.first_version()
                    former = self._versions.former
                    following = await follow(copy, latest, model["content"], doc_room.log, former)
                    async with doc_room._update_lock:  # else this would be taken for a change
                        self._modified = model["last_modified"]
                        self._seen_hash = model.get("hash") or ""
                        changed = bool(changes)
                        self._apply(following, base=latest, former=now, changed=changed)
            except Exception as error:
                self._behind = True
                doc_room.log.exception(
                    "The changed file of the room %s cannot be read", self.contents.path
                )
                self._emit(
                    "ERROR",
                    None,
                    f"Error loading content from file: {self.contents.path}\n{error!r}",
                )

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
                shadow = self.pages.shadow or Shadow(document, former)
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

    def _emit(self, level: str, action: str | None, message: str) -> None:
        """Emit a server event, as the room does."""
        levels = import_module("jupyter_server_ydoc.utils").LogLevel
        self.doc_room._emit(levels[level], action, message)

    async def settle(self, modified: object = None) -> None:
        """Have the room load what others wrote into the file, and wait until it has. `modified` is
        the time of the last write if the caller has just read it; else it is checked.
        """
        if modified is None or modified != self.contents.last_written:
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
        await self.store.flush()

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
                model = await self.contents.get(content=True)
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
            self.doc_room.log.exception("The room %s cannot be saved", self.contents.path)
            self._emit("ERROR", None, f"Error saving file: {self.contents.path}\n{error!r}")

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
        with changes_in(self.doc_room.ydoc) as changes:
            # Cells come and go while the room's own document is read.
            copy = type(room._document)(document_of(room.ydoc.get_update()))
            content = await content_of(copy)
            base = None
            if isinstance(copy, YNotebook):
                base = await asyncio.to_thread(outline, with_ids(copy, content))
            await self.store.flush()  # never write to a file what the store lacks
            saved = await self.contents.put(content, seen=self._seen_hash, modified=self._modified)
            if saved is None:
                self._behind = True
                return False
            self._modified = room._file.last_modified
            if base is not None:
                self._versions.note_write(base, attended=bool(self.pages.clients))
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
