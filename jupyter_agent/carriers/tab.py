"""The live document of a notebook that is open in a browser tab: a replica of it, and the tab
is the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Doc

from jupyter_agent.carriers.contents import Disk
from jupyter_agent.carriers.tab_link import Situation, TabGone, TabLink, Tabs
from jupyter_agent.document.carrier import Place, Saved, metadata_of
from jupyter_agent.document.cell import CarrierName
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.shadow import Shadow
from jupyter_agent.document.slices import copied, give_way
from jupyter_agent.document.updates import Mark, clocks
from jupyter_agent.errors import Busy, NotConfirmed, ToolError

RECONNECT = 3.0
"""Seconds in which a page whose socket was cut is back, if it is still there."""


class TabCarrier:
    """A replica of the tab's document. The tab saves; the server never writes the file while a
    tab has it.
    """

    name: CarrierName = "tab"

    def __init__(
        self, link: TabLink, tabs: Tabs, disk: Disk, late: Callable[[str], object]
    ) -> None:
        """`late` is told the path when something was done too late into a cell that is removed."""
        self.link = link
        self.cells = SharedCells(YNotebook())
        self.place: Place | None = None
        self.writable = True
        self.shadow: Shadow | None = None
        self._late = late
        self._tabs = tabs
        self._disk = disk
        self._outdated = False
        self._unanswered = False
        """Whether the tab did not tell that it has what we sent last."""

    @property
    def path(self) -> str:
        return self.link.path

    @property
    def metadata(self) -> dict[str, Any]:
        return metadata_of(self.cells.document)

    async def refresh(self) -> None:
        """Have everything the person typed up to now. A clean tab that missed a change on disk
        reloads first.
        """
        if self.link.document is None:
            situation = await self._attach()
        else:
            situation = await self.link.sync()
        self._unanswered = False
        if self.shadow is not None and not self.shadow.late():
            self._drop_shadow()  # by now the page knows of our removals, and we of its typing
        self._outdated = await self._missed_a_change(situation)
        if self._outdated and not situation.dirty:
            await self.link.request("revert", self.link.timeouts.save)
            situation = await self._attach()
            self._outdated = situation.dirty  # somebody was quicker: it did not reload
        self._note(situation)

    async def confirm(self) -> Saved:
        """Wait until our transactions are in the tab's document, then have the tab save it."""
        mark = Mark(self.cells.document.ydoc)
        self._unanswered = True
        try:
            situation = await self.link.sync()
        except TabGone:
            situation = await self._reconnect(mark)
        self._unanswered = False
        self._note(situation)
        return await self._save() if situation.dirty else Saved(True)

    async def save(self) -> Saved:
        return await self.confirm()

    async def trust(self, cell_id: str) -> None:
        await self.link.request("trust", self.link.timeouts.sync, cell_id)

    async def foresee_removal(self) -> None:
        if self.shadow is None:
            self._cast(await copied(self.cells.document.ydoc))
            await give_way()

    def moved(self, path: str) -> None:
        pass  # the tab has told, or `Tabs` was

    async def close(self) -> None:
        if self.link.closed or self._unanswered:
            self._tabs.keep(self.link, self.cells.document, self.shadow)
            self.shadow = None
        self._drop_shadow()
        self.cells.close()
        self.link.detach()

    async def _attach(self) -> Situation:
        situation = await self.link.attach()
        replica = self.link.document
        assert replica is not None
        self._drop_shadow()
        before, shadow = self._tabs.kept(self.link)
        if before is not None and (rest := _rest(before.ydoc, replica.ydoc)) is not None:
            if shadow is not None:
                shadow.goes_on_in(replica)
                self.shadow, self.link.hear = shadow, self._hear
            replica.ydoc.apply_update(rest)
            try:
                situation = await self.link.sync()
            except BaseException:
                self.link.detach()  # else this replica would be taken for the one of `cells`
                raise
            # An edit that went over both connections may yet be taken back, where it was made.
            before.ydoc.observe(lambda event: replica.ydoc.apply_update(event.update))
        self._tabs.forget(self.link)
        self.cells.close()
        self.cells = SharedCells(replica)
        self.cells.on_removal = self._removing
        self.link.ran = self.cells.taken.add
        return situation

    def _removing(self, cell_id: str, index: int) -> None:
        if self.shadow is None:
            self._cast()
        assert self.shadow is not None
        self.shadow.remove(cell_id, index)

    def _cast(self, copy: bytes | None = None) -> None:
        self.shadow, self.link.hear = Shadow(self.cells.document, copy), self._hear

    def _hear(self, update: bytes) -> None:
        if self.shadow is not None:
            self.shadow.hear(update)
            if self.shadow.late():
                self._late(self.path)

    def _drop_shadow(self) -> None:
        self.link.hear = None
        if self.shadow is not None:
            self.shadow.close()
            self.shadow = None

    async def _reconnect(self, mark: Mark) -> Situation:
        """Go on with a new link, once it is known that what we sent over the lost one has
        arrived.
        """
        link = await self._tabs.comes_back(self.path, self.link.client, RECONNECT)
        if link is None:
            raise NotConfirmed(
                f"The browser tab with `{self.path}` went away before it confirmed the edit: "
                "whether the edit is in the notebook is unknown. Read the notebook again."
            )
        same_page = link.client == self.link.client
        self._tabs.keep(self.link, self.cells.document, self.shadow)
        self.shadow = None
        self.link = link
        situation = await self._attach()
        if same_page and not mark.is_in(self.cells.document.ydoc):
            raise Busy(
                f"The connection to the browser tab with `{self.path}` was lost before the edit "
                "arrived; nothing was changed. Try again."
            )
        # Another page load has another history: there the text tells, and it is looked at next.
        return situation

    async def _save(self) -> Saved:
        if not self.writable:
            return Saved(False, "The file is read-only.")
        if self._outdated:
            return Saved(
                False,
                "Not saved: the file was changed on disk while the tab has unsaved work. Ask the "
                "user to decide which to keep.",
            )
        try:
            situation = await self.link.request("save", self.link.timeouts.save)
        except ToolError as error:
            return Saved(False, f"The edit is in the open tab, which has not saved it: {error}")
        self._note(situation)
        await self._reload_siblings()
        if situation.dirty:
            return Saved(False, "The edit is in the open tab, which has unsaved changes.")
        return Saved(True)

    async def _reload_siblings(self) -> None:
        """Other tabs of the notebook show what was saved, unless they have unsaved work of
        their own.
        """
        for sibling in list(self._tabs):
            if sibling.path == self.path and sibling is not self.link:
                with suppress(ToolError):
                    if not (await sibling.sync()).dirty:
                        await sibling.request("revert", sibling.timeouts.save)

    async def _missed_a_change(self, situation: Situation) -> bool:
        """Whether the file is not as the tab knows it, and not because the tab is just saving
        it.
        """
        while True:
            known, on_disk = situation.hash, await self._disk.hash(self.path)
            if situation.saving or known is None or on_disk in (None, known):
                return False
            situation = await self.link.sync()  # it may have begun to save after it was asked
            if situation.hash == known:
                return not situation.saving

    def _note(self, situation: Situation) -> None:
        self.place = Place(situation.cell_id, situation.editing)
        self.writable = situation.writable


def _rest(before: Doc[Any], now: Doc[Any]) -> bytes | None:
    """What the replica before had and the one of now lacks; None if they are not of one document.

    A connection ends anywhere: an edit may have arrived and what took it back not, or the first
    half of a move. With the rest all of it has arrived, as if nothing had been cut.
    """
    had, has = clocks(before.get_state()), clocks(now.get_state())
    had.pop(before.client_id, None)
    if not had or any(has.get(client, 0) < clock for client, clock in had.items()):
        return None
    return before.get_update(now.get_state())
