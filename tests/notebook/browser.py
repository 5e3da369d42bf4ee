"""A JupyterLab tab in Python: its own document, speaking the protocol of docs/carriers.md over a
TabLink.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_server.utils import ensure_async
from pycrdt import Text, TransactionEvent
from tornado.web import HTTPError

from jupyter_agent.carriers.tab_link import PROTOCOL, TabLink, Tabs
from jupyter_agent.document.crdt import rewrite
from jupyter_agent.document.merge import MergeConflict, merge
from tests.notebook.page import Page
from tests.notebook.structure import StructuralEdits


def is_edit(frame: str | bytes) -> bool:
    """Whether the frame to a tab changes its document."""
    return isinstance(frame, bytes) or json.loads(frame)["op"] == "edit"


class Tab(Page):
    """An open notebook. Frames travel in order, one per turn of the event loop, unless `frozen`."""

    def __init__(self, tabs: Tabs, contents: Any, path: str, client: str = "page-1") -> None:
        super().__init__(path)
        self.client = client
        self.hash: str | None = None
        self._modified: Any = None
        self._saved = set[str | None]()
        self._base: list[dict[str, Any]] = []
        """The cells as this page last loaded or saved them."""
        self.editing = False
        self.behind = False
        """Frozen, or still processing earlier frames."""
        self.deaf_to_saves = False
        self.saving = False
        self.writable = True
        self.requests: list[str] = []
        self.unsaved = False
        """What it reports when it connects."""
        self.tells_place = True
        """False: a page from before the last update."""
        self.running: list[str] = []
        """Cells that show one of the server's runs."""
        self.own_runs = set[str]()
        """Cells in which a run of the user's continues."""
        self._tabs = tabs
        self._contents = contents
        self._link: TabLink | None = None
        self._attached = False
        self._applying = False
        self._inbox: deque[str | bytes] = deque()
        self._outbox: deque[str | bytes] = deque()
        self._answers: set[asyncio.Task[None]] = set()
        self._on_edit: Callable[[], object] = lambda: None
        self._structure = StructuralEdits(self)
        self.notebook.ydoc.observe(self._forward)

    async def open(self) -> Tab:
        """Load the file as Lab does, then connect."""
        await self._load()
        self.connect()
        return self

    # ---- what the person does

    def edit_in(self, cell_id: str | None, editing: bool = True) -> None:
        """Put the cursor in a cell."""
        self.active_cell, self.editing = cell_id, editing
        if self.tells_place:
            self._to_server(json.dumps({"op": "cell", "cell": cell_id}))
        self._structure.take_back_due()

    def as_the_edit_arrives(self, act: Callable[[], object]) -> None:
        """An action of the user when the next edit has reached the page, before its answer."""
        self._on_edit = act

    def connect(self, client: str | None = None) -> TabLink:
        """Open the socket, unless it is open."""
        if self._link is not None:
            return self._link
        self.client = client or self.client
        self._attached = False
        self._link = TabLink(
            self._to_tab,
            {
                "op": "hello",
                "protocol": PROTOCOL,
                "path": self.path,
                "client": self.client,
                "version": self.notebook.version,
                "running": self.running,
                "unsaved": self.unsaved,
                **({"cell": self.active_cell} if self.tells_place else {}),
            },
            self._tabs.timeouts,
        )
        self._tabs.add(self._link)
        return self._link

    def leave(self) -> None:
        """The user closes the notebook or the page."""
        assert self._link is not None
        self._link.closed_by_user = True
        self.cut()

    def cut(self) -> None:
        """The socket is lost, with everything on its way in it."""
        if self._link is not None:
            self._tabs.discard(self._link)
            self._link.close()
        self._link = None
        self._attached = False
        self._inbox.clear()
        self._outbox.clear()

    def rename(self, path: str) -> None:
        self.path = path
        self._to_server(json.dumps({"op": "path", "path": path}))

    def freeze(self) -> None:
        """The page does nothing more."""
        self.frozen = self.behind = True

    def thaw(self) -> None:
        self.frozen = False
        asyncio.get_running_loop().call_soon(self._step)

    @property
    def at_rest(self) -> bool:
        """Whether everything on the screen is on disk, and nothing is on its way here."""
        return not (self.dirty or self.saving or self._inbox)

    @property
    def link(self) -> TabLink:
        assert self._link is not None
        return self._link

    # ---- the wire

    def _to_tab(self, frame: str | bytes) -> None:
        self._inbox.append(frame)
        asyncio.get_running_loop().call_soon(self._step)

    def _to_server(self, frame: str | bytes) -> None:
        self._outbox.append(frame)
        asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        if self.frozen:
            return
        if self._outbox and self._link is not None:
            self._link.receive(self._outbox.popleft())
        if self._inbox:
            self._take(self._inbox.popleft())
        self.behind = self.behind and bool(self._inbox)
        if self._inbox or self._outbox:
            asyncio.get_running_loop().call_soon(self._step)

    def _take(self, frame: str | bytes) -> None:
        if isinstance(frame, bytes):
            self._applying = True
            try:
                with self.notebook.ydoc.transaction(origin="link"):  # so Lab's undo passes it over
                    self.notebook.ydoc.apply_update(frame)
            finally:
                self._applying = False
            self._do_meanwhile()
            return
        request = json.loads(frame)
        self.requests.append(request["op"])
        if request["op"] == "attach":
            self._attached = True
            self._to_server(self.notebook.ydoc.get_update())
        elif request["op"] == "detach":
            self._attached = False
        elif request["op"] == "takeback":
            self._structure.take_back(request["keys"])
        elif request["op"] == "edit":
            refused = self._structure.carry_out(request["edit"])
            self._do_meanwhile()
            self._answer(request, {"refused": refused} if refused else {})
            return
        elif request["op"] == "ended":
            self.running = [one for one in self.running if one not in request["cells"]]
        slow: dict[str, Callable[[], Any]] = {"save": self.save, "revert": self.revert}
        if request["op"] in slow and (request["op"] != "save" or self.dirty):
            task = asyncio.create_task(self._answer_after(slow[request["op"]], request))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        elif "id" in request:
            if request["op"] == "trust":
                self.cell(request["cell"])["metadata"]["trusted"] = True
            self._answer(request)

    async def _answer_after(self, work: Callable[[], Any], request: Mapping[str, Any]) -> None:
        try:
            await work()
        except (HTTPError, OSError) as error:
            self._to_server(json.dumps({"re": request["id"], "error": str(error)}))
        else:
            self._answer(request)

    def _do_meanwhile(self) -> None:
        act, self._on_edit = self._on_edit, lambda: None
        act()

    def _answer(self, request: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
        situation = {
            "re": request["id"],
            "dirty": self.dirty,
            "saving": self.saving,
            "hash": self.hash,
            "writable": self.writable,
            "cell": self.active_cell,
            "editing": self.editing,
            **(more or {}),
        }
        self._to_server(json.dumps(situation))

    def _forward(self, event: TransactionEvent) -> None:
        if self._attached and not self._applying:
            self._to_server(event.update)

    # ---- Lab's context

    async def save(self) -> None:
        """Lab's own save."""
        if self.deaf_to_saves:
            return
        self.saving = True
        try:
            model = {"type": "notebook", "format": "json", "content": self.notebook.get()}
            await ensure_async(self._contents.save(model, self.path))
            self._know(await self._on_disk())
            self._base = model["content"]["cells"]
            self._saved.add(self.hash)
        finally:
            self.saving = False
        self.notebook.dirty = False

    async def revert(self) -> None:
        """Like `saves.ts`, for texts."""
        file = await self._on_disk()
        if file["hash"] == self.hash:
            return
        later = self._modified is None or file["last_modified"] > self._modified
        own = file["hash"] in self._saved
        if own and not later:
            self._know(file)
            await self.save()
            return
        read = await ensure_async(self._contents.get(self.path, type="notebook", require_hash=True))
        mine, base = self.notebook.get()["cells"], self._base
        if mine == base:
            self._show(read)
            return
        self._base = [dict(cell) for cell in read["content"]["cells"]]
        self._know(read)
        theirs = {cell["id"]: cell for cell in read["content"]["cells"]}
        was = {cell["id"]: cell for cell in base}
        for cell_id in self.ids():
            source: Text = self.cell(cell_id)["source"]
            now = str(source)
            with suppress(KeyError, MergeConflict):
                merged = merge(was[cell_id]["source"], now, theirs[cell_id]["source"])
                if merged != now:
                    rewrite(source, merged)
        await self.save()

    async def _load(self) -> None:
        model = await ensure_async(
            self._contents.get(self.path, type="notebook", require_hash=True)
        )
        self._show(model)

    def _show(self, model: Mapping[str, Any]) -> None:
        self.notebook.set(model["content"])
        self.notebook.dirty = False
        self._base = self.notebook.get()["cells"]
        self._know(model)

    async def _on_disk(self) -> Mapping[str, Any]:
        model: Mapping[str, Any] = await ensure_async(
            self._contents.get(self.path, content=False, type="notebook", require_hash=True)
        )
        return model

    def _know(self, file: Mapping[str, Any]) -> None:
        self.hash, self._modified = str(file["hash"]), file["last_modified"]
