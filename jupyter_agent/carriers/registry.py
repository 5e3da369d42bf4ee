"""The open notebooks of a server, and the carrier of each."""

from __future__ import annotations

import asyncio
import posixpath
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from tornado.web import HTTPError

from jupyter_agent.carriers.contents import Disk, Former
from jupyter_agent.carriers.file import FileCarrier, Recovery
from jupyter_agent.carriers.managers import Contents
from jupyter_agent.carriers.renames import Renames, renamed_path
from jupyter_agent.carriers.sharing import SharedDocuments
from jupyter_agent.carriers.tab import TabCarrier
from jupyter_agent.carriers.tab_link import TabLink, Tabs
from jupyter_agent.choices import WhileAway
from jupyter_agent.document.carrier import Carrier
from jupyter_agent.document.cell import CarrierName, CellState, CellType
from jupyter_agent.document.edits import text_for_cell, validation_error
from jupyter_agent.document.identities import Namings, NamingsInMemory
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.values import nbformat_cell, new_id
from jupyter_agent.errors import AgentError, Busy, InvalidInput, Locked, NotConfirmed, ToolError
from jupyter_agent.foreign import path_fault
from jupyter_agent.tasks import begin

_UNSAVED = (
    "The latest typing in `{path}` was not saved when its room was closed. The notebook is as in "
    "its file; its pages offer to restore the typing, and the newest recovery copy has it."
)
LOST = "The browser tab of this notebook is gone; unsaved work of that tab is not in it."


class Notebooks:
    """The open notebooks of this server: one `Notebook` per path, shared by all callers.

    A document stays open for a while after its last use; a `Notebook` that is used later opens it
    again by itself.
    """

    def __init__(
        self,
        contents: Contents,
        tabs: Tabs,
        *,
        recovery: Recovery | None = None,
        keep: float = 60.0,
        shared: Callable[[], SharedDocuments | None] = lambda: None,
        namings: Namings | None = None,
    ) -> None:
        """`recovery` gets path and JSON text before a loaded file is first written. `keep` is in
        seconds. `shared` returns the documents that pages share on this server, None without such
        documents, and raises Busy if no plug works in them. `namings` outlive the server.
        """
        self.namings = namings or NamingsInMemory()
        self._shared = shared
        self._server = uuid4().hex
        """A new id in each run of the server."""
        self._disk = Disk(contents, self.namings)
        self._tabs = tabs
        self._recovery = recovery
        self._keep = keep
        self._entries: weakref.WeakSet[_Entry] = weakref.WeakSet()
        self._open: set[_Entry] = set()
        self._renames = Renames()
        self._sweeper: asyncio.Task[None] | None = None
        self._creating = asyncio.Lock()
        self._completing: set[asyncio.Task[None]] = set()
        self._late_paths: set[str] = set()
        """Paths of notebooks that are about to be read for late typing."""
        tabs.on_arrival = self._on_page_arrival

    async def get(
        self,
        path: str,
        *,
        client: str | None = None,
        turn_id: str | None = None,
        while_away: WhileAway = "wait",
    ) -> Notebook:
        """The notebook at that path, or at its new path after a rename. `client` is the page load
        in which a user asks for it, `turn_id` the turn that does. `while_away` controls edits while
        a page with unsaved work is away: they are refused, or go into the file.

        Raises NotebookNotFound, UnreadableNotebook or Busy.
        """
        path = await self.locate(path)
        if while_away == "write":
            self._tabs.abandon_page(path)
        entry = self._entry(path)
        entry.turn_id = turn_id
        if client is not None and not entry.notebook.busy:
            entry.client = client
        if entry not in self._open:
            try:
                await entry.notebook.read()
            except BaseException:
                await entry.notebook.close()
                self._open.discard(entry)
                raise
        return entry.notebook

    async def locate(self, path: str) -> str:
        """The present path of the file or folder: normalised, and followed through renames; the
        root is the empty path. Raises InvalidInput if nothing can have this path.
        """
        if fault := path_fault(path):
            raise InvalidInput(fault)
        path = posixpath.normpath(path.strip("/"))
        if self._renames.follow(path) != path:
            if await self._disk.exists(path):
                self.note_created(path)
            path = self._renames.follow(path)
        return "" if path == "." else path

    async def create(
        self,
        path: str,
        *,
        kernelspec: Mapping[str, Any] | None = None,
        cells: Sequence[Mapping[str, Any]] = (),
    ) -> Notebook:
        """Create a notebook; `cells` have `source`, `type` and `metadata`, `kernelspec` is stored
        in the metadata.

        Raises Exists, InvalidInput, Locked or Busy; NotConfirmed if it cannot be read afterwards.
        """
        self._shared()  # raises Busy if no plug works in them
        path = posixpath.normpath(path.strip("/"))
        if not path.endswith(".ipynb"):
            raise InvalidInput(f"The path of a notebook ends with `.ipynb`, `{path}` does not.")
        content: dict[str, Any] = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": dict(kernelspec)} if kernelspec else {},
            "cells": [_new_cell(index, **cell) for index, cell in enumerate(cells)],
        }
        ids = Counter(cell["id"] for cell in content["cells"]).most_common(1)
        if ids and ids[0][1] > 1:
            raise InvalidInput(f"Two of the cells have the id `{ids[0][0]}`: give each its own.")
        async with self._creating:
            await self._disk.create(path, content)
        try:
            return await self.get(path)
        except ToolError as error:
            why = f"`{path}` was created, and could not be read afterwards: {error.message}"
            raise NotConfirmed(why) from error

    async def save_room(self, path: str, clocks: Mapping[int, int]) -> str:
        """Write a notebook in a room into its file, as a user requests in a page; returns the new
        hash of the file. `clocks` is the Yjs state vector of that page's document.

        Raises NotebookNotFound, UnreadableNotebook, Locked or Busy.
        """
        shared, path = self._shared(), await self.locate(path)
        if shared is None:
            raise Busy(f"`{path}` is not in a shared document of this server: save it in its tab.")
        if not (await self._disk.facts(path)).writable:
            raise Locked(f"`{path}` is read-only.")
        try:
            async with asyncio.timeout(self._tabs.timeouts.room):
                return await shared.save(path, clocks, self._tabs.timeouts.sync)
        except (HTTPError, OSError, RuntimeError) as error:  # a TimeoutError is an OSError
            why = str(error) or "the room does not answer"
            raise Busy(f"`{path}` was not saved: {why}.") from error

    async def mend(self, path: str, former: Former) -> str:
        """Repair a notebook whose save was cut off when a server was killed. Returns sentences on
        the repair; `repairs` has them too. Raises ToolError.
        """
        return await self._disk.mend(path, former)

    async def keep_unsaved(self, path: str, text: str) -> None:
        """Store a recovery copy with typing that a room did not save, and add a sentence on it to
        `repairs`. Raises ToolError.
        """
        if self._recovery is not None:
            await self._recovery(path, text)
            self._disk.repairs.append(_UNSAVED.format(path=path))

    def carry_over(self, path: str) -> None:
        """Carry over, soon, late typing in a removed cell."""
        if path not in self._late_paths:
            self._late_paths.add(path)
            self._complete(path, None)

    @property
    def repairs(self) -> Sequence[str]:
        """Sentences on all repairs so far."""
        return self._disk.repairs

    def carriers(self) -> list[CarrierName]:
        """The carriers on this server. Raises Busy if no plug works in shared documents."""
        return ["room", "tab", "file"] if self._shared() is not None else ["tab", "file"]

    def open(self) -> list[dict[str, Any]]:
        """Path and carrier of each notebook whose document is open now."""
        return [
            {"path": entry.notebook.path, "carrier": entry.notebook.carrier} for entry in self._open
        ]

    async def close(self) -> None:
        """Release all documents."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for task in list(self._completing):
            task.cancel()
        while self._open:
            await self._open.pop().notebook.close()

    async def note_rename(self, old: str, new: str) -> None:
        """Follow a file or folder that was renamed through Jupyter, also for callers that use the
        old path.
        """
        await self.note_deleted(new)
        self._renames.add(old, new)
        self._disk.ids.note_rename(old, new)
        self._tabs.note_rename(old, new)
        for entry in self._entries:
            if path := renamed_path(entry.notebook.path, old, new):
                entry.notebook.note_rename(path)

    def follow(self, path: str) -> str:
        """The present path of a file or folder that was renamed through Jupyter; the path itself
        for others.
        """
        return self._renames.follow(path)

    def note_created(self, path: str) -> None:
        """A file exists at this path: the path now means that file, not one that was once renamed
        from it.
        """
        self._renames.end(path)

    async def note_deleted(self, path: str) -> None:
        """Release notebooks that were deleted, or replaced by another file; a run that continues
        there notices at its next save.
        """
        self.note_created(path)
        for entry in list(self._open):
            if renamed_path(entry.notebook.path, path, path) and not entry.notebook.busy:
                self._open.discard(entry)
                await entry.notebook.close()

    async def choose(self, entry: _Entry, path: str, current: Carrier | None) -> Carrier:
        """The carrier for the next operation: the document that pages share if real-time
        collaboration is on, else an open tab, else the file.

        Raises Busy if no plug works in shared documents.
        """
        shared = self._shared()
        self._touch(entry)
        if shared is None:
            carrier: Carrier = await self._tab(entry, path, current) or self._file(
                entry, path, current
            )
        elif current is not None and current.name == "room":
            return current
        else:
            carrier = shared.carrier(
                path,
                self._disk,
                self._tabs.timeouts,
                server=self._server,
                note=_lost_work_note(current),
            )
        if current is not None and carrier is not current:
            await current.close()
        entry.carrier = carrier
        return carrier

    async def _tab(self, entry: _Entry, path: str, current: Carrier | None) -> Carrier | None:
        """The tab that has the notebook: that of the chat, else the last one used, whose unsaved
        typing the other tabs do not have.
        """
        preferred = self._tabs.find(path, entry.client)
        if isinstance(current, TabCarrier):
            if not current.link.closed and not _should_switch(entry, current.link, preferred):
                return current
            if current.link.closed:
                patience = self._tabs.timeouts.reconnect
                preferred = await self._tabs.wait_for_page(path, current.link.client, patience)
        elif preferred is None and (lost := self._tabs.absent_page(path)) is not None:
            patience = lost.since + self._tabs.timeouts.reconnect - time.monotonic()
            preferred = await self._tabs.wait_for_page(path, lost.client, max(patience, 0))
        if preferred is None:
            return None
        return TabCarrier(preferred, self._tabs, self._disk)

    def _file(self, entry: _Entry, path: str, current: Carrier | None) -> Carrier:
        if isinstance(current, FileCarrier):
            return current
        entry.copied_turns.discard(None)
        return FileCarrier(
            path,
            self._disk,
            is_open=lambda: self._shared() is not None or self._tabs.find(path) is not None,
            is_page_away=lambda: self._tabs.absent_page(path) is not None,
            recovery=partial(self._recovery_for, entry),
            rescue=self._recovery,
            note=_lost_work_note(current),
        )

    def _recovery_for(self, entry: _Entry) -> Recovery | None:
        """The function that stores a copy before the next write; None except for the first write of
        a turn (or, outside of turns, of a loaded document).
        """
        recovery, turn_id = self._recovery, entry.turn_id
        if recovery is None or turn_id in entry.copied_turns:
            return None

        async def keep(path: str, text: str) -> None:
            await recovery(path, text)
            entry.copied_turns.add(turn_id)

        return keep

    def _entry(self, path: str) -> _Entry:
        """The entry at that path. A call by the new path of a notebook may come just before we
        learn of its rename, and makes a second one: of two, all callers get the same, since each
        has a lock of its own.
        """
        here = [entry for entry in self._entries if entry.notebook.path == path]
        if not here:
            self._entries.add(new := _Entry(path, self))
            return new
        return max(here, key=lambda entry: (entry.notebook.busy, entry.last_used))

    def _touch(self, entry: _Entry) -> None:
        entry.last_used = time.monotonic()
        self._open.add(entry)
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    def _on_page_arrival(self, link: TabLink) -> None:
        """Send this page those of our last changes that it missed, because its connection was lost
        or it read the file before we wrote it: now, not at the next call. A run that ended without
        the page, with a server that was killed, is over.
        """
        here = (entry.notebook for entry in self._entries if entry.notebook.path == link.path)
        if ended := link.running.difference(*(notebook.running for notebook in here)):
            link.end_runs(ended)
        entry = next(
            (one for one in self._open if one.was_connected_to(link) or one.has_written(link.path)),
            None,
        )
        if entry is not None or self._tabs.lost_replica(link) is not None:
            self._complete(link.path, entry)

    def _complete(self, path: str, entry: _Entry | None) -> None:
        async def read() -> None:
            self._late_paths.discard(path)  # later typing may be too late for this read
            with suppress(AgentError):  # the next call reports it
                notebook = entry.notebook if entry is not None else await self.get(path)
                await notebook.read()

        begin(read(), self._completing)

    async def _sweep(self) -> None:
        """Close notebooks that were not used for a while, until none is open."""
        while self._open:
            oldest = min(entry.last_used for entry in self._open)
            await asyncio.sleep(max(self._keep / 10, oldest + self._keep - time.monotonic()))
            for entry in list(self._open):
                if entry.last_used + self._keep <= time.monotonic() and not entry.notebook.busy:
                    self._open.discard(entry)
                    await entry.notebook.close()


class _Entry:
    """A notebook, when it was last used, and for which page load."""

    def __init__(self, path: str, notebooks: Notebooks) -> None:
        self.client: str | None = None
        self.turn_id: str | None = None
        self.copied_turns = set[str | None]()
        """The turns that have stored a copy before their first write."""
        self.last_used = 0.0
        self.carrier: Carrier | None = None
        self.notebook = Notebook(path, partial(notebooks.choose, self), notebooks.namings)

    def has_written(self, path: str) -> bool:
        """Whether its document is the file at that path, and has changed it."""
        return isinstance(self.carrier, FileCarrier) and (
            self.carrier.has_written and self.notebook.path == path
        )

    def was_connected_to(self, link: TabLink) -> bool:
        """Whether its document was in this link's tab, over a connection that was lost."""
        if not isinstance(self.carrier, TabCarrier):
            return False
        lost = self.carrier.link
        return lost.closed and (lost.client, lost.path) == (link.client, link.path)


def _should_switch(entry: _Entry, current: TabLink, preferred: TabLink | None) -> bool:
    """Whether to switch to the preferred tab. Unless the chat is there, that waits while the
    present tab has something that is not in the file yet.
    """
    if preferred is None or preferred is current:
        return False
    if preferred.client == entry.client:
        return True
    return not (current.unsaved or entry.notebook.has_unsaved_outputs)


def _lost_work_note(current: Carrier | None) -> str:
    """A sentence on work that the next carrier may lack; empty for nothing."""
    return LOST if isinstance(current, TabCarrier) and current.link.may_have_more else ""


def _new_cell(
    index: int,
    source: str,
    type: CellType = "code",
    metadata: Mapping[str, Any] | None = None,
    id: str | None = None,
) -> dict[str, Any]:
    """Raises InvalidInput for a cell that the notebook format does not allow."""
    cell_id = id or new_id()
    state = CellState(
        type=type,
        source=text_for_cell(source),
        metadata={key: item for key, item in (metadata or {}).items() if key != "trusted"},
        index=index,
        outputs=(),
        execution_count=None,
    )
    if why := validation_error(cell_id, state):
        raise InvalidInput(f"Cell {index} of the new notebook is not valid: {why}")
    return nbformat_cell(cell_id, state)
