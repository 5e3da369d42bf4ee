"""The server's end of the tab bridge: one link per notebook that is open in a browser tab
(docs/carriers.md).

Text frames are JSON control messages, binary frames Yjs updates. Consistency rests on frames
arriving in the order they were sent: when a `sync` is answered, everything we sent before it is
applied in the tab, and everything that happened there before it is applied here.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Subscription, TransactionEvent

from jupyter_agent.carriers.leftovers import NONE, Leftovers
from jupyter_agent.carriers.renames import renamed_path
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.carrier import CarrierGone
from jupyter_agent.errors import Busy, ToolError

PROTOCOL = 2


class TabGone(CarrierGone):
    """The connection to the tab was lost before it answered."""


class OddFrame(Exception):
    """A frame that our pages never send; `reason` is its kind, in one word."""

    def __init__(self, reason: str, why: object) -> None:
        super().__init__(f"{reason}: {why}")
        self.reason = reason


class TabRefused(ToolError):
    """The tab answered that it could not carry out the request."""


@dataclass(frozen=True)
class TabState:
    """The state that a tab reports in each answer."""

    dirty: bool
    """It has changes that are not on disk."""
    saving: bool
    """It is writing the file; `hash` may be of the file before that."""
    hash: str | None
    """The contents manager's hash of the file as the tab knows it."""
    writable: bool
    cell_id: str | None
    """The user's current cell."""
    editing: bool

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> TabState:
        return cls(
            dirty=bool(answer.get("dirty")),
            saving=bool(answer.get("saving")),
            hash=answer.get("hash"),
            writable=answer.get("writable") is not False,
            cell_id=answer.get("cell"),
            editing=bool(answer.get("editing")),
        )


class TabLink:
    """One notebook open in one page load.

    The owner of the socket feeds `receive` with its frames and calls `close` when it is closed.
    `send` gets a str for a text frame and bytes for a binary one; it does not wait, and raises
    TabGone if the socket is closed. `expect` is called with whether a whole document may come next,
    `hang_up` with the reason to close the socket.
    """

    def __init__(
        self,
        send: Callable[[str | bytes], object],
        hello: Mapping[str, Any],
        timeouts: Timeouts | None = None,
        *,
        expect: Callable[[bool], object] = bool,
        hang_up: Callable[[str], object] = str,
    ) -> None:
        """Raises KeyError, TypeError or ValueError for an invalid `hello`."""
        theirs, ours = (hello["protocol"], hello["version"]), (PROTOCOL, YNotebook().version)
        self.is_compatible = theirs == ours
        """Whether it has our protocol and our version of documents. A page from before an update
        has not: it gets no requests, and its notebook is left alone.
        """
        self.timeouts = timeouts or Timeouts()
        self.path = _text(hello["path"])
        self.client = _text(hello["client"])
        """One per page load; the chat panel there sends the same."""
        self.running = frozenset(map(str, hello.get("running", ())))
        """Ids of the cells that show one of our runs there, from before it connected."""
        self.active = time.monotonic()
        """When the user was last active here."""
        self.reports_cell = "cell" in hello
        """Whether it reports the user's current cell by itself; a page from before an update does
        not.
        """
        self.cell_id = _optional_text(hello.get("cell"))
        """The user's current cell, as last reported."""
        self.closed = False
        self.unsaved = hello.get("unsaved") is True
        """Whether it has changes that its file lacks, as last reported."""
        self.closed_by_user = False
        """Whether the user has closed it: it will not return."""
        self.document: YNotebook | None = None
        """The replica, while attached."""
        self.on_run: Callable[[str], object] = str
        """Called with the id of a cell that the user runs."""
        self._socket = send
        self._expect = expect
        self._hang_up = hang_up
        self._subscription: Subscription | None = None
        self._applying = False
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}

    @property
    def may_have_more(self) -> bool:
        """Whether the page may have, or have had, changes that its file lacks. A page whose
        connection was cut may have been typed in since.
        """
        return self.unsaved or not self.closed_by_user

    # ---- what the carrier asks for

    async def attach(self) -> TabState:
        """Make `document` a new replica with everything the tab has now.

        It starts empty each time, so that nothing can be in it twice. Raises Busy, and is not
        attached then.
        """
        self.detach()
        self.document = YNotebook()
        self._expect(True)
        try:
            state = await self.request("attach", self.timeouts.attach)
        except BaseException:
            self.detach()
            raise
        # Not earlier: forwarding a large notebook takes far longer than loading it.
        self._subscription = self.document.ydoc.observe(self._forward)
        return state

    async def sync(self) -> TabState:
        """Wait until all our transactions are in the tab's document and all of its are in the
        replica.
        """
        return await self.request("sync", self.timeouts.sync)

    async def request(self, op: str, timeout: float, cell_id: str | None = None) -> TabState:
        """Send a request. Raises Busy without an answer (TabGone when the socket closes),
        TabRefused if the answer is an error.
        """
        named = {} if cell_id is None else {"cell": cell_id}
        return TabState.of(await self._ask(op, timeout, named))

    async def edit(self, edit: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have the page change the structure of its document. Its answer comes after all its
        changes. Raises the errors of `request`.
        """
        return await self._ask("edit", self.timeouts.sync, {"edit": edit})

    def take_back(self, keys: Sequence[str]) -> None:
        """Have the page undo these edits if it made them, and never make those that are still to
        come.
        """
        self._send(json.dumps({"op": "takeback", "keys": list(keys)}))

    async def _ask(self, op: str, timeout: float, about: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.closed:
            raise TabGone(f"The browser tab with `{self.path}` is gone; nothing was changed.")
        if not self.is_compatible:
            raise Busy(
                f"`{self.path}` is open in a page from before the last update of jupyter_agent; "
                "nothing was changed. Ask the user to save and to reload that page, then try again."
            )
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send(json.dumps({"op": op, "id": number, **about}))
        try:
            async with asyncio.timeout(timeout):
                reply: Mapping[str, Any] = await answer
        except TimeoutError:
            raise Busy(
                f"The browser tab with `{self.path}` does not answer (a frozen page or an open "
                "dialog); nothing was changed. Ask the user to look at it, then try again."
            ) from None
        finally:
            del self._waiting[number]
        if "error" in reply:
            raise TabRefused(f"The browser tab could not {op} `{self.path}`: {reply['error']}")
        return reply

    def detach(self) -> None:
        """Release the replica; the tab sends nothing more until the next `attach`. Then it sends
        its whole state, in which nothing counts as just done by anyone.
        """
        if self.document is None:
            return
        if self._subscription is not None:
            self.document.ydoc.unobserve(self._subscription)
        self.document = self._subscription = None
        self._expect(False)
        self._send(json.dumps({"op": "detach"}))

    def end_runs(self, cell_ids: Iterable[str]) -> None:
        """Tell the tab that these cells in `running` no longer run."""
        self._send(json.dumps({"op": "ended", "cells": sorted(cell_ids)}))

    # ---- what the socket brings

    def receive(self, frame: str | bytes) -> None:
        """Handle a frame from the tab. Raises OddFrame."""
        if isinstance(frame, bytes):
            if self.document is not None:  # else it was sent before our detach arrived
                self._apply(self.document, frame)
            return
        try:
            self._handle(json.loads(frame))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise OddFrame("odd_message", type(error).__name__) from error

    def _apply(self, document: YNotebook, update: bytes) -> None:
        self._applying = True
        try:
            document.ydoc.apply_update(update)
        except (ValueError, RuntimeError) as error:
            raise OddFrame("odd_update", error) from error
        finally:
            self._applying = False

    def _handle(self, message: Mapping[str, Any]) -> None:
        if "re" in message:
            answer = self._waiting.get(message["re"])
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        match message:
            case {"op": "active", **where}:
                self.active = time.monotonic()
                self.cell_id = _optional_text(where.get("cell"))
            case {"op": "cell", "cell": cell_id}:
                self.cell_id = _optional_text(cell_id)
            case {"op": "ran", "cell": str(cell_id)}:
                self.on_run(cell_id)
            case {"op": "path", "path": str(path)}:
                self.path = path
            case {"op": "unsaved", "unsaved": bool(unsaved)}:
                self.unsaved = unsaved
            case {"op": "active" | "cell" | "ran" | "path" | "unsaved"}:
                raise ValueError("a field is missing, or not of its type")
            case {"op": str()}:
                pass  # from a page that is newer than we are
            case _:
                raise ValueError("no `op`")

    def refuse(self, reason: str) -> None:
        """Close the socket with this reason and accept nothing more from this page."""
        self._hang_up(reason)
        self.close()

    def close(self) -> None:
        """The socket is closed: all pending requests fail."""
        self.closed = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(
                    TabGone(
                        f"The connection to the browser tab with `{self.path}` was lost. Try again."
                    )
                )

    def _forward(self, event: TransactionEvent) -> None:
        """Send a change made here. Called within the commit: no shared type is read here."""
        if not self._applying:
            self._send(event.update)

    def _send(self, frame: str | bytes) -> None:
        if not self.closed and self.is_compatible:
            try:
                self._socket(frame)
            except TabGone:
                self.close()


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value


@dataclass(frozen=True)
class LostReplica:
    """A replica whose last changes may not have reached its page before the link was lost."""

    replica: YNotebook
    our_clients: Set[int]
    """Client ids of this server's edits in the replica: its own, and those of earlier replicas,
    whose edits it includes.
    """
    withdrawn: Sequence[str]
    """Keys of edits that the page has to take back, or never to make."""


@dataclass
class AbsentPage:
    """A page that was lost with unsaved work, and may return with it."""

    client: str
    path: str
    since: float  # on the monotonic clock
    restarted: bool = False
    """The server was restarted; the page may still be open."""


class Tabs:
    """The links of this server."""

    max_replicas = 20
    """Replicas of lost connections; those of pages that are closed for good are never requested."""

    def __init__(self, timeouts: Timeouts | None = None, leftovers: Leftovers = NONE) -> None:
        """`leftovers` stores which pages have unsaved work, in case this server ends."""
        self.timeouts = timeouts or Timeouts()
        """Of links made from now on."""
        self._links: list[TabLink] = []
        self._replicas: dict[tuple[str, str], LostReplica] = {}
        self._leftovers = leftovers
        self._absent: list[AbsentPage] = []
        self._stored_pages: set[tuple[str, str]] = set()
        self.on_arrival: Callable[[TabLink], object] = bool
        """Called with each new link."""
        self._arrivals: set[asyncio.Future[None]] = set()

    async def recover(self) -> None:
        """Expect the pages with unsaved work that earlier servers knew. Call it once."""
        for client, path in await self._leftovers.claim():
            if (client, path) not in {(link.client, link.path) for link in self._links}:
                self._absent.append(AbsentPage(client, path, time.monotonic(), restarted=True))
        self.store_unsaved()

    def __iter__(self) -> Iterator[TabLink]:
        return iter(self._links)

    def add(self, link: TabLink) -> None:
        self._links.append(link)
        here = (link.client, link.path)
        self._absent = [one for one in self._absent if (one.client, one.path) != here]
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_result(None)
        self.on_arrival(link)
        self.store_unsaved()

    def store_unsaved(self) -> None:
        """Store on disk which pages have unsaved work, in case this server ends."""
        unsaved = {(link.client, link.path) for link in self._links if link.unsaved}
        pages = unsaved | {(one.client, one.path) for one in self._absent}
        for page in pages - self._stored_pages:
            self._leftovers.put(json.dumps(page), page)
        for page in self._stored_pages - pages:
            self._leftovers.remove(json.dumps(page))
        self._stored_pages = pages

    def discard(self, link: TabLink) -> None:
        if link in self._links:
            self._links.remove(link)
            if link.unsaved and not link.closed_by_user:
                self._absent.append(AbsentPage(link.client, link.path, time.monotonic()))
            self.store_unsaved()

    def absent_page(self, path: str) -> AbsentPage | None:
        """The page that was last lost with unsaved work in that notebook, while its return is
        expected.
        """
        now, timeouts = time.monotonic(), self.timeouts
        self._absent = [
            one
            for one in self._absent
            if now - one.since < (timeouts.restart if one.restarted else timeouts.away)
        ]
        return next((one for one in reversed(self._absent) if one.path == path), None)

    def abandon_page(self, path: str) -> None:
        """Stop waiting for pages with unsaved work in that notebook; if one returns, it merges."""
        self._absent = [one for one in self._absent if one.path != path]

    def keep_replica(self, link: TabLink, replica: LostReplica) -> None:
        """Store the replica of a lost link: some changes may not have arrived."""
        self._replicas[link.client, link.path] = replica
        while len(self._replicas) > self.max_replicas:
            del self._replicas[next(iter(self._replicas))]

    def lost_replica(self, link: TabLink) -> LostReplica | None:
        """The replica of the former link of this page."""
        return self._replicas.get((link.client, link.path))

    def forget_replica(self, link: TabLink) -> None:
        """The page has all changes of its stored replica."""
        self._replicas.pop((link.client, link.path), None)

    def find(self, path: str, client: str | None = None) -> TabLink | None:
        """The tab of that page load if it has the notebook, else the tab used last."""
        links = [link for link in self._links if link.path == path and not link.closed]
        return max(links, key=lambda link: (link.client == client, link.active), default=None)

    def has_page_of(self, owner: str) -> bool:
        """Whether that user has a notebook open in a page."""
        return any(link.client.startswith(f"{owner}/") and not link.closed for link in self._links)

    def note_rename(self, old: str, new: str) -> None:
        """A file or folder was renamed; its tabs report the same a moment later."""
        for link in self._links:
            link.path = renamed_path(link.path, old, new) or link.path
        for lost in self._absent:
            lost.path = renamed_path(lost.path, old, new) or lost.path
        self.store_unsaved()

    async def wait_for_page(self, path: str, client: str, timeout: float) -> TabLink | None:
        """Wait for the link of that page load; after `timeout` seconds, whichever tab has the
        notebook.
        """
        try:
            async with asyncio.timeout(timeout):
                while (link := self.find(path, client)) is None or link.client != client:
                    arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._arrivals.add(arrival)
                    try:
                        await arrival
                    finally:
                        self._arrivals.discard(arrival)
        except TimeoutError:
            return self.find(path)
        return link
