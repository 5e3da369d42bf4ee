"""The live document of a notebook that is open in a browser tab: we have a replica, the tab the
original.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from jupyter_ydoc import YNotebook
from pycrdt import Doc

from jupyter_agent.carriers.contents import Disk
from jupyter_agent.carriers.tab_link import LostReplica, TabGone, TabLink, Tabs, TabState
from jupyter_agent.document.carrier import Place, SaveResult, metadata_of, write_metadata
from jupyter_agent.document.cell import CarrierName, CellType
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.insertions import Mark, clocks
from jupyter_agent.errors import (
    Busy,
    CellInUse,
    CellNotFound,
    NotConfirmed,
    Overtaken,
    ToolError,
    UnreadableNotebook,
)

_OUTDATED = (
    "Not saved: the file was changed on disk while the tab has unsaved work. Ask the user to "
    "decide which to keep."
)
_MOST_LINKS = 10
"""Connections that may be lost, one after the other, while an edit is confirmed."""


class TabCarrier:
    """A replica of the tab's document. The tab saves; the server never writes the file while a tab
    has it.

    The page itself deletes, moves and retypes cells (`StructuralEdits`), in one tick in which no
    one types.
    """

    name: CarrierName = "tab"

    def __init__(self, link: TabLink, tabs: Tabs, disk: Disk) -> None:
        self.link = link
        self.cells = SharedCells(YNotebook())
        self._editing: bool | None = None
        """Whether the user was typing at the last answer; None before."""
        self.writable = True
        self._tabs = tabs
        self._disk = disk
        self._outdated = False
        self._hash: str | None = None
        """The contents manager's hash of the file when the tab was last known to have its content;
        None if it is unknown.
        """
        self._is_unconfirmed = False
        """Whether the tab has not confirmed that it has our last changes."""
        self._our_clients = frozenset[int]()
        """Client ids of our edits in this document, over all its connections."""
        self._operation = ""
        self._requested: list[str] = []
        """Keys of the structural edits requested from the page in this operation."""
        self._withdrawn: list[str] = []
        """Keys of the edits of a failed operation, until the page is known to have taken them
        back.
        """

    @property
    def path(self) -> str:
        return self.link.path

    @property
    def place(self) -> Place | None:
        return None if self._editing is None else Place(self.link.cell_id, self._editing)

    @property
    def metadata(self) -> dict[str, Any]:
        return metadata_of(self.cells.document)

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        write_metadata(self.cells, items)

    @property
    def _is_attached(self) -> bool:
        """Whether `cells` are those of the link's replica. For a moment after a rename two carriers
        may use one link, and each attaches again after the other.
        """
        return self.link.document is self.cells.document

    async def is_live(self) -> bool:
        if self.link.closed or not self._is_attached or not self.link.reports_cell:
            return False
        return self._hash is not None and self._hash == await self._disk.hash(self.path)

    async def is_current(self) -> bool:
        return False  # only the page knows the latest typing

    async def refresh(self) -> None:
        """Load everything the user typed up to now. A tab that missed a change on disk loads it
        first.
        """
        if not self._is_attached:
            state = await self._attach()
        else:
            ahead = self._disk.hash_ahead(self.path)
            state, _ = await asyncio.gather(self.link.sync(), ahead)
        self._is_unconfirmed = False
        self._withdrawn = []
        self._hash = None
        self._outdated = await self._has_missed_change(state)
        if self._outdated:
            state = await self._revert()
            self._outdated = await self._has_missed_change(state)
        elif not state.saving:
            self._hash = state.hash
        self._note(state)
        try:
            await self.cells.catch_up()
        except UnreadableNotebook:
            self.link.refuse("odd_document")
            raise

    async def _revert(self) -> TabState:
        """Have the tab load the file."""
        former: list[dict[str, Any]] = []
        with suppress(UnreadableNotebook):
            former = self.cells.values()
        await self.link.request("revert", self.link.timeouts.save)
        state = await self._attach()
        with suppress(UnreadableNotebook):  # the refresh will report it
            await self._disk.ids.note_load(self.path, former, self.cells.values())
        return state

    async def confirm(self) -> SaveResult:
        """Wait until our transactions are in the tab's document, and until the tab has saved it."""
        mark = Mark(self.cells.document.ydoc)
        self._is_unconfirmed = True
        for _ in range(_MOST_LINKS):
            obstacle = self._obstacle
            saving = None if obstacle else asyncio.create_task(self._save())
            try:
                state = await self._sync_beside(saving)
                break
            except TabGone:
                await self._reconnect(mark)
        else:
            raise self._gone_error()
        self._is_unconfirmed = False
        self._note(state)
        if not state.dirty:
            return SaveResult(True)
        return SaveResult(False, obstacle) if saving is None else await saving

    async def save(self) -> SaveResult:
        return await self.confirm()

    async def trust(self, cell_id: str) -> None:
        await self.link.request("trust", self.link.timeouts.sync, cell_id)

    async def begin(self, *, removes: bool) -> None:
        self._operation, self._requested = uuid4().hex, []

    async def remove(self, cell_id: str, source: str) -> None:
        """See StructuralEdits."""
        refused = await self._edit("remove", cell_id, source=source)
        if refused == "gone":
            raise CellNotFound(cell_id, self.cells.ids())
        self._refuse(refused, cell_id)

    async def move(self, cell_id: str, index: int) -> None:
        """See StructuralEdits."""
        self._refuse(await self._edit("move", cell_id, index=index), cell_id)

    async def retype(self, cell_id: str, type: CellType) -> None:
        """See StructuralEdits."""
        self._refuse(await self._edit("retype", cell_id, type=type), cell_id)

    async def withdraw(self) -> None:
        self._withdrawn += self._requested
        self._requested.clear()
        if self._withdrawn:
            self._is_unconfirmed = True
            if self.link.document is not None:  # else they are sent at the next attach
                self.link.take_back(self._withdrawn)

    def note_rename(self, path: str) -> None:
        pass  # the tab has reported it, or `Tabs` knows it

    async def close(self) -> None:
        if self.link.closed or self._is_unconfirmed:
            self._keep_replica()
        self.cells.close()
        self.link.detach()

    async def _attach(self) -> TabState:
        state = await self.link.attach()
        replica = self.link.document
        assert replica is not None
        former = self._tabs.lost_replica(self.link)
        ours = frozenset({replica.ydoc.client_id})
        if former and (rest := _missing_updates(former, replica.ydoc)) is not None:
            replica.ydoc.apply_update(rest)
            if former.withdrawn:
                self.link.take_back(former.withdrawn)
            try:
                state = await self.link.sync()
            except BaseException:
                self.link.detach()  # else this replica would be taken for the one of `cells`
                raise
            # An edit that went over both connections may still be taken back in the old replica.
            former.replica.ydoc.observe(lambda event: replica.ydoc.apply_update(event.update))
            ours |= former.our_clients
        self._tabs.forget_replica(self.link)
        self._our_clients = ours
        self.cells.follow(replica)
        self.cells.structural_edits = self
        self.link.on_run = self.cells.rerun_by_user.add
        return state

    async def _edit(self, kind: str, cell_id: str, **what: Any) -> str:
        """Have the page make the edit; returns its reason for refusing, or an empty text. If it is
        requested again after a lost connection, it is made only once.
        """
        key = uuid4().hex
        edit = {"key": key, "operation": self._operation, "kind": kind, "cell": cell_id, **what}
        self._requested.append(key)
        self._is_unconfirmed = True
        while True:
            try:
                answer: Mapping[str, Any] = await self.link.edit(edit)
                break
            except TabGone:
                if not await self._reattach():
                    raise NotConfirmed(
                        f"The page with `{self.path}` was reloaded before it confirmed the edit: "
                        "whether the edit is in the notebook is unknown. Read the notebook again."
                    ) from None
        self._is_unconfirmed = False
        self._note(TabState.of(answer))
        return str(answer.get("refused") or "")

    def _refuse(self, refused: str, cell_id: str) -> None:
        if refused == "gone":
            raise Overtaken(f"Cell `{cell_id}` was deleted at the same moment.")
        if refused == "running":
            raise CellInUse(
                "The user is running a cell that this would replace, and its outputs would be "
                "lost; nothing was changed. Wait until it has finished, then try again.",
                cell_id,
                "running",
            )
        if refused:
            raise CellInUse(
                f"The user began to type in cell `{cell_id}` at this moment; nothing was changed. "
                "Read it again.",
                cell_id,
                "typing",
            )

    async def _reconnect(self, mark: Mark) -> None:
        """Continue with a new link. Raises Busy if the changes sent over the lost one have not
        arrived.
        """
        if await self._reattach() and not mark.is_in(self.cells.document.ydoc):
            raise Busy(
                f"The connection to the browser tab with `{self.path}` was lost before the edit "
                "arrived; nothing was changed. Try again."
            )
        # Another page load has another history: the text decides, and is checked next.

    async def _reattach(self) -> bool:
        """Continue with a new link, or with the next one if that is lost as well; whether it is of
        the same page load. Raises NotConfirmed if there is no link.
        """
        client = self.link.client
        for _ in range(_MOST_LINKS):
            link = await self._tabs.wait_for_page(self.path, client, self._tabs.timeouts.reconnect)
            if link is None:
                break
            self._keep_replica()
            self.link = link
            with suppress(TabGone):
                await self._attach()
                return link.client == client
        raise self._gone_error()

    def _gone_error(self) -> NotConfirmed:
        return NotConfirmed(
            f"The browser tab with `{self.path}` went away before it confirmed the edit: "
            "whether the edit is in the notebook is unknown. Read the notebook again."
        )

    def _keep_replica(self) -> None:
        if self._our_clients:  # else never attached: the stored replica is still to be sent
            self._tabs.keep_replica(
                self.link, LostReplica(self.cells.document, self._our_clients, self._withdrawn)
            )

    @property
    def _obstacle(self) -> str:
        """A sentence on why the tab is not asked to save; empty if it is."""
        if not self.writable:
            return "The file is read-only."
        return _OUTDATED if self._outdated else ""

    async def _sync_beside(self, saving: asyncio.Task[SaveResult] | None) -> TabState:
        """Like `TabLink.sync`. The save is requested right after it, which spares a round trip. It
        is cancelled if this raises, or if there is nothing to save.
        """
        dirty = False
        try:
            state = await self.link.sync()
            dirty = state.dirty
            return state
        finally:
            if saving is not None and not dirty:
                saving.cancel()

    async def _save(self) -> SaveResult:
        """Have the tab save the document."""
        try:
            state = await self.link.request("save", self.link.timeouts.save)
        except ToolError as error:
            return SaveResult(
                False, f"The edit is in the open tab, which has not saved it: {error}"
            )
        self._note(state)
        self._hash = None if state.saving else state.hash
        await self._reload_siblings()
        if state.dirty:
            return SaveResult(False, "The edit is in the open tab, which has unsaved changes.")
        return SaveResult(True)

    async def _reload_siblings(self) -> None:
        """Have other tabs of the notebook load the saved file, alongside their own unsaved work."""
        for sibling in list(self._tabs):
            if sibling.path == self.path and sibling is not self.link:
                with suppress(ToolError):
                    await sibling.request("revert", sibling.timeouts.save)

    async def _has_missed_change(self, state: TabState) -> bool:
        """Whether the file is not as the tab knows it, and not because the tab is just saving
        it.
        """
        while True:
            known, on_disk = state.hash, await self._disk.hash(self.path)
            if state.saving or known is None or on_disk in (None, known):
                return False
            if await self._disk.hash(self.path, again=True) == known:
                return False
            state = await self.link.sync()  # it may have started to save since
            if state.hash == known:
                return not state.saving

    def _note(self, state: TabState) -> None:
        self.link.cell_id, self._editing = state.cell_id, state.editing
        self.writable = state.writable


def _missing_updates(former: LostReplica, now: Doc[Any]) -> bytes | None:
    """The updates of the former replica that the new one lacks; None if they are of different
    documents.

    A connection can end anywhere: an edit may have arrived without its withdrawal, or only the
    first half of a move. With these updates all of it has arrived, as if the connection had not
    been lost.
    """
    before = former.replica.ydoc
    had, has = clocks(before.get_state()), clocks(now.get_state())
    theirs = {client: clock for client, clock in had.items() if client not in former.our_clients}
    if not theirs or any(has.get(client, 0) < clock for client, clock in theirs.items()):
        return None
    return before.get_update(now.get_state())
