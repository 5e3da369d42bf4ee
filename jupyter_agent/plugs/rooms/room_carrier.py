"""The live document of a notebook in a collaboration room, and the positions of its users."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Assoc, Awareness, Doc, Subscription, Text, TransactionEvent
from tornado.web import HTTPError

from jupyter_agent.carriers.contents import Disk
from jupyter_agent.carriers.contents_model import FileFacts
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.carrier import Place, SaveResult, metadata_of, write_metadata
from jupyter_agent.document.cell import CarrierName
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.long_work import full_update, yield_to_loop
from jupyter_agent.document.output_writer import clear_orphans
from jupyter_agent.errors import Busy, CellInUse
from jupyter_agent.plugs.rooms.collaboration import Collaboration
from jupyter_agent.plugs.rooms.live_room import Room
from jupyter_agent.plugs.rooms.room_pages import Pin
from jupyter_agent.plugs.rooms.room_shadow import Shadow, mark_removal
from jupyter_agent.tasks import surely


class RoomCarrier:
    """A room's document. Everyone in the room sees each change at once, and the room saves it.

    We work on a replica in this process: while the room is filled it has a transaction open across
    turns of the event loop, in which no other can start.
    """

    name: CarrierName = "room"

    def __init__(
        self,
        path: str,
        rooms: Collaboration,
        disk: Disk,
        timeouts: Timeouts,
        *,
        server: str,
        note: str = "",
    ) -> None:
        """`server` identifies one run of the server, which a room may outlive; `note` is added to
        the first result.
        """
        self._server = server
        self.cells = SharedCells(YNotebook())
        self.writable = True
        self._path = path
        self._rooms = rooms
        self._disk = disk
        self._timeouts = timeouts
        self._note = note
        self._file_id: str | None = None
        self._pin = Pin()
        self._room: Room | None = None
        self._mirror: _Mirror | None = None
        self._people: People | None = None
        self._removed: set[str] = set()
        """Cells that this operation removed or replaced by a copy."""
        self._quiet_since = float("-inf")
        """When a page last did not answer in time (`time.monotonic`)."""

    @property
    def path(self) -> str:
        if self._file_id is not None:
            self._path = self._rooms.path_of(self._file_id) or self._path
        return self._path

    @property
    def place(self) -> Place | None:
        if self._people is None or self._mirror is None:
            return None
        return self._people.place(self.cells, typed=self._mirror.last_heard)

    @property
    def _shadow(self) -> Shadow | None:
        return None if self._room is None else self._room.pages.shadow

    @property
    def metadata(self) -> dict[str, Any]:
        return metadata_of(self.cells.document)

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        write_metadata(self.cells, items)

    async def is_live(self) -> bool:
        return self._room is not None

    async def is_current(self) -> bool:
        return False  # only the pages know the latest typing

    async def refresh(self) -> None:
        """Enter the room, with all changes of other programs in the file."""
        async with self._within_timeout():
            facts = await self._disk.facts(self.path)
            if self._file_id is None or self._rooms.path_of(self._file_id) is None:
                await self._disk.load(self.path)  # no room for a file that is not a notebook
                self._file_id = self._rooms.id_of(self.path)
            room = await self._enter(facts)
            brought = await surely(self._carry_over())  # before pages: the server may end
            await self._sync_clients(room)
        if await surely(self._carry_over()) or brought:
            await surely(self._save())
        self._removed.clear()

    async def confirm(self) -> SaveResult:
        """Wait until every page has our transactions, then have the document saved. Concurrent
        changes of a cell that we moved or retyped are carried over; raises CellInUse if someone
        typed into a cell that we deleted.
        """
        saved = await self._save()
        shadow = self._shadow
        if shadow is not None and (pending := shadow.pending()):
            for removed, text in pending.items():
                gone = removed.cell_id in self._removed - set(self.cells.ids())
                if text is not None and gone:
                    raise CellInUse(
                        f"The user began to type in cell `{removed.cell_id}` at this moment; "
                        "nothing was changed. Read it again.",
                        removed.cell_id,
                        "typing",
                    )
            await shadow.carry_over(self.cells)
            saved = await self._save()
        return saved

    async def save(self) -> SaveResult:
        async with self._within_timeout():
            await self._enter(await self._disk.facts(self.path))
        return await self._save()

    async def _save(self) -> SaveResult:
        """Save the document once each page has our transactions."""
        async with self._within_timeout():
            changed = self._mirror is not None and self._mirror.changed
            room = await self._enter()
            await self._sync_clients(room)
            note, self._note = self._note, ""
            assert self._mirror is not None
            if not changed and not self._mirror.changed and not room.has_unsaved:
                return SaveResult(True, note)
            if not self.writable:
                return SaveResult(False, f"{note} The file is read-only.".strip())
            if not room.autosaves:
                why = "which has unsaved changes: automatic saving is off."
            else:
                why = await self._write(room)
            if why:
                return SaveResult(
                    False, f"{note} The edit is in the shared document, {why}".strip()
                )
            return SaveResult(True, note)

    async def trust(self, cell_id: str) -> None:
        metadata = self.cells.get(cell_id).metadata
        self.cells.write_metadata(cell_id, {**metadata, "trusted": True})

    async def begin(self, *, removes: bool) -> None:
        if removes and self._shadow is None:
            copy = await full_update(self.cells.document.ydoc)
            if self._shadow is None:  # a change of the file may have removed cells in the meantime
                self._attach_shadow(copy)
            self._hold()
            await yield_to_loop()

    async def withdraw(self) -> None:
        if await self._carry_over():
            await self._save()

    def note_rename(self, path: str) -> None:
        pass  # the room's file id knows the newest path

    async def close(self) -> None:
        self.cells.close()
        self._detach()
        if self._room is not None:
            self._room.pages.listen(False)
            self._rooms.leave(self._room, self._pin)
            self._room = None

    async def _enter(self, file: FileFacts | None = None) -> Room:
        """The room; if facts about its file are given, after it has loaded the file's changes."""
        assert self._file_id is not None
        room = await self._rooms.enter(self._file_id, self._pin)
        if file is not None:
            self.writable = file.writable
            await room.settle(file.modified)
        elif room is not self._room:
            await room.settle()
        if room is not self._room:
            if self._room is not None:
                self._rooms.release(self._room)
                self._room.pages.listen(False)
            self._detach()
            self._mirror = _Mirror(room.document.ydoc)
            self._people = People(room.pages.awareness)
            self.cells.close()
            self.cells = SharedCells(self._mirror.replica)
            self.cells.on_removal = self._on_removal
            self.cells.server = self._server
            clear_orphans(self.cells)
            if not room.pages.clients:
                self._end_runs()
            self._room = room
            room.pages.listen(True)
        return room

    def _on_removal(self, cell_id: str) -> None:
        if self._shadow is None:
            self._attach_shadow()
        self._hold()
        assert self._shadow is not None
        self._shadow.expect_removal()
        mark_removal(self.cells.document)
        self._removed.add(cell_id)

    async def _carry_over(self) -> bool:
        """Carry over what pages did to cells that had already been removed."""
        return self._shadow is not None and await self._shadow.carry_over(self.cells)

    def _attach_shadow(self, copy: bytes | None = None) -> None:
        assert self._room is not None
        # Not from the room's document, which may be loading a file.
        self._room.pages.attach_shadow(Shadow(self.cells.document, copy))

    def _hold(self) -> None:
        assert self._room is not None
        self._rooms.hold(self._room, self._timeouts.offline)

    def _end_runs(self) -> None:
        """No one is in the room, and its store still shows as running what ran when a server was
        killed.
        """
        for cell in self.cells.document.ycells:
            if cell.get("execution_state") == "running":
                cell["execution_state"] = "idle"

    async def _sync_clients(self, room: Room) -> None:
        """Wait for changes on their way from the pages: until a page knows that a cell has moved,
        its user types into the old one.
        """
        assert self._mirror is not None
        awake = self._quiet_since <= self._mirror.last_heard
        patience = self._timeouts.page if awake else self._timeouts.quiet_page
        if not await room.pages.sync(self._mirror.take_sent(), patience):
            self._quiet_since = time.monotonic()

    def _detach(self) -> None:
        if self._people is not None:
            self._people.close()
            self._people = None
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None

    async def _write(self, room: Room) -> str:
        """The reason why it was not saved; empty if it was."""
        assert self._mirror is not None
        self._mirror.changed = False  # later changes are not in the file
        try:
            await room.save()
        except (HTTPError, OSError, RuntimeError) as error:
            self._mirror.changed = True
            return f"which could not be saved: {error}"
        return ""

    @asynccontextmanager
    async def _within_timeout(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeouts.room):
                yield
        except TimeoutError:
            raise Busy(
                f"The shared document of `{self._path}` does not answer; the edit may be in it, or "
                "not. Read the notebook again."
            ) from None


class _Mirror:
    """Two documents in this process that are equal after each transaction of either."""

    def __init__(self, original: Doc[Any]) -> None:
        self.replica = YNotebook()
        self.changed = False
        """Whether a change may not be in the file yet. The room's own mark for that, `dirty`, is
        lost if a page sets it while a save clears it.
        """
        self._sent_updates: deque[bytes] = deque(maxlen=100)
        self.last_heard = float("-inf")
        """When the last update of the original came (`time.monotonic`)."""
        self._original = original
        self._copying = False
        self.replica.ydoc.apply_update(original.get_update())
        self._subscriptions: list[tuple[Doc[Any], Subscription]] = [
            (original, original.observe(self._on_room_update)),
            (self.replica.ydoc, self.replica.ydoc.observe(self._on_our_update)),
        ]
        self.replica.observe(self._note_change)

    def close(self) -> None:
        for document, subscription in self._subscriptions:
            document.unobserve(subscription)
        self._subscriptions.clear()
        self.replica.unobserve()

    def _note_change(self, part: str, event: object) -> None:
        self.changed = self.changed or part != "state"

    def _on_room_update(self, event: TransactionEvent) -> None:
        if not self._copying:
            self.last_heard = time.monotonic()
        self._copy(event, self.replica.ydoc)

    def take_sent(self) -> list[bytes]:
        """Our newest updates, including all that a page may not have yet."""
        sent = list(self._sent_updates)
        self._sent_updates.clear()
        return sent

    def _on_our_update(self, event: TransactionEvent) -> None:
        if not self._copying:
            self._sent_updates.append(event.update)
        self._copy(event, self._original)

    def _copy(self, event: TransactionEvent, to: Doc[Any]) -> None:
        """Called within a commit: nothing of that document is read here."""
        if not self._copying:
            self._copying = True
            try:
                to.apply_update(event.update)
            finally:
                self._copying = False


LATELY = 3.0
"""Seconds after a keystroke during which the user counts as typing."""


class People:
    """Follows the state that the clients of a room publish (Yjs awareness)."""

    def __init__(self, awareness: Awareness) -> None:
        self._awareness = awareness
        self._recent: list[int] = []
        """Clients in the order in which their state changed, the latest last."""
        self._last_cursor: tuple[object, str] = (None, "")
        """The text in which a cursor was last found, and its cell."""
        self._subscription = awareness.observe(self._on_awareness_change)

    def close(self) -> None:
        self._awareness.unobserve(self._subscription)

    def place(self, cells: SharedCells, *, typed: float) -> Place | None:
        """The position of the user who last moved a cursor; None if no one has one in a cell.
        `typed` is when anyone last changed the document (`time.monotonic`).
        """
        states = self._awareness.states
        for client in sorted(states, key=self._recency, reverse=True):
            for cursor in (states[client] or {}).get("cursors") or ():
                cell_id = self._cell_of(cells, cursor)
                if cell_id is not None:
                    return Place(cell_id, editing=time.monotonic() - typed < LATELY)
        return None

    def _recency(self, client: int) -> int:
        return self._recent.index(client) if client in self._recent else -1

    def _on_awareness_change(self, topic: str, changes: tuple[Mapping[str, Any], Any]) -> None:
        if topic == "change":
            for client in (*changes[0]["added"], *changes[0]["updated"]):
                if client in self._recent:
                    self._recent.remove(client)
                self._recent.append(client)

    def _cell_of(self, cells: SharedCells, cursor: Mapping[str, Any]) -> str | None:
        """A cursor is a relative position of Yjs, which identifies its text."""
        text = (cursor.get("head") or {}).get("type")
        if text is None:
            return None
        last, likely = self._last_cursor
        for cell_id in sorted(cells.ids(), key=lambda each: (last, likely) != (text, each)):
            if _name(cells.live_cell(cell_id)["source"]) == text:
                self._last_cursor = (text, cell_id)
                return cell_id
        return None


def _name(text: Text) -> object:
    """The id that Yjs gives this text: client and clock of the item that made it."""
    # Only the position before the first letter identifies the text instead of a letter in it.
    return text.sticky_index(0, Assoc.BEFORE).to_json().get("type")
