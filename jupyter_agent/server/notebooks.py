"""Notebooks, cells and runs without a browser: these routes act for their caller."""

from __future__ import annotations

import asyncio
import json
import posixpath
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, get_args
from urllib.parse import quote

import nbformat
from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent import foreign
from jupyter_agent.agent.options import CallOptions
from jupyter_agent.carriers.nbformat_file import as_stored
from jupyter_agent.choices import WhileAway
from jupyter_agent.conversations.caller import Caller, CallerTurn, display_name
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.document.carrier import with_items
from jupyter_agent.document.cell import Cell, CellType
from jupyter_agent.document.edit_result import Edit
from jupyter_agent.document.values import json_error
from jupyter_agent.errors import InvalidInput, NotConfirmed, RequestError
from jupyter_agent.legible import CELL_ID
from jupyter_agent.server.answers.notebooks import (
    CopiesAnswer,
    FileAnswer,
    KernelAnswer,
    MetadataAnswer,
    NewNotebookAnswer,
    NotebookAnswer,
    SavedAnswer,
)
from jupyter_agent.server.base import MEBIBYTE, WHILE_AWAY, AgentHandler, QueryValues, operation
from jupyter_agent.server.people import Authorizer
from jupyter_agent.text.notebook import BUDGET, output_text, render
from jupyter_agent.tools.base import Result
from jupyter_agent.tools.run_results import result_of, results_of
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.workspace import READ, WRITE, Need, Services, Workspace

OUTPUTS = ("full", "none", "text")
YES_OR_NO = ("false", "true")
BY: Mapping[str, QueryValues] = {"by": str, "new_turn": YES_OR_NO}
"""The turn to journal in, for all routes that edit or run cells."""
EDITS: Mapping[str, QueryValues] = {**WHILE_AWAY, **BY}
"""Parameters of all routes that edit cells, in the query or in the body."""


class Body(BaseModel):
    """A body that rejects unknown fields: a typo must not silently drop a change. Values must have
    the described types; strings are not converted.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class GivenCell(BaseModel):
    """A cell of a new notebook. Other fields, such as the rest of a CELL, are ignored."""

    id: str | None = Field(default=None, pattern=f"^{CELL_ID}$")
    source: str
    type: CellType = "code"
    metadata: dict[str, Any] = Field(default_factory=dict)


class NewNotebook(Body):
    """A notebook to create."""

    kernel_name: str | None = None
    cells: list[GivenCell] = Field(default_factory=list)


class MetadataBody(Body):
    """Metadata keys with their new values; null removes a key."""

    metadata: dict[str, Any]


class SaveBody(Body):
    """The state of the page that asks: the clock of each Yjs client."""

    clocks: dict[str, int]


class KernelBody(Body):
    """An action on the notebook's kernel."""

    action: Literal["start", "interrupt", "restart", "shutdown"]
    name: str | None = None


class DocumentHandler(AgentHandler):
    """Base of the notebook and run routes."""

    max_body_bytes = 16 * MEBIBYTE
    _act: CallerTurn | None = None

    def initialize(self, services: Services, clients: Clients) -> None:
        self.services = services
        self.clients = clients

    @property
    def work(self) -> Workspace:
        """The workspace of this request: it may touch all that its user may."""
        return Workspace(
            services=self.services,
            user=self.owner,
            authorize=Authorizer(self),
            while_away=self.choice("while_away", get_args(WhileAway)),
            approved={},
        )

    @asynccontextmanager
    async def acting(
        self, path: str, tool: str, arguments: Mapping[str, Any], need: Need = WRITE
    ) -> AsyncIterator[Lease]:
        """The notebook, for an action like that of `tool`; journalled in a turn if the
        caller names themselves in `by`. The answer then has its `turn_id`.
        """
        work, by = self.work, display_name(self.get_query_argument("by", ""))
        if not by:
            async with lease(work, path, need) as nb:
                yield nb
            return
        await work.need(need, ("write", "agent"))
        home = await self.services.identities.path(path)
        caller = Caller(
            person=self.person,
            name=by,
            session="rest",
            options=CallOptions(notebook=home, while_away=work.while_away),
            entry="tools",
        )
        if self.choice("new_turn", YES_OR_NO) == "true":
            await self.clients.begin_turn(caller, "")
        async with self.clients.acting(caller, work, path, tool, arguments) as act:
            self._act = act
            async with lease(replace(work, turn_id=act.turn_id), path, need) as nb:
                try:
                    yield nb
                except NotConfirmed as error:
                    act.changes = [*nb.changes, *error.changes]
                    raise
                finally:
                    act.changes = act.changes or nb.changes
                    if nb.kernel.runs:
                        act.result = await _call_result(nb)
                        act.changes = [*act.changes, *act.result.changes]

    def turn_field(self) -> dict[str, str]:
        """The `turn_id` for the answer; empty if the action is not journalled."""
        return {"turn_id": self._act.turn_id} if self._act else {}

    def expected_version(self) -> str | None:
        """The version in `If-Match`; None if any version will do. Proxies that compress answers
        change an `ETag`: `W/"..."`, `"...-gzip"`.
        """
        wanted = self.request.headers.get("If-Match")
        if wanted is None or wanted.strip() == "*":
            return None
        found = re.fullmatch(r'\s*(?:W/)?"?([0-9a-f]{16})(?:-\w+)?"?\s*', wanted)
        return found[1] if found else wanted

    def answer_change(self, edit: Edit, status: int = 200) -> None:
        """Answers with the cell, after a change in the live document."""
        assert edit.cell is not None
        self.set_header("ETag", f'"{edit.cell.version}"')
        saved: dict[str, Any] = {"saved": edit.saved.saved}
        if edit.saved.note:
            saved["note"] = edit.saved.note
        self.answer({**describe_cell(edit.cell), **saved, **self.turn_field()}, status)

    def compute_etag(self) -> str | None:
        """Disables Tornado's hash of the body; our ETag is the cell's version."""
        return None


class NotebookHandler(DocumentHandler):
    """`notebooks/{path}`"""

    @operation(
        "read",
        "contents",
        query={
            "outputs": OUTPUTS,
            "format": ("json", "text", "ipynb"),
            "focus": str,
            "budget": int,
        },
        gives=NotebookAnswer,
        media=("text/plain", "application/x-ipynb+json"),
    )
    async def get(self, path: str) -> None:
        """Returns the notebook as it is now, unsaved typing included."""
        outputs = self.choice("outputs", OUTPUTS)
        form = self.choice("format", ("json", "text", "ipynb"))
        budget = self.number("budget", BUDGET)
        if form == "ipynb":
            return await self._download(path)
        async with lease(self.work, path, READ) as nb:
            now, stale, kernel = await nb.read(), await nb.stale(), await nb.kernel.find()
        if form == "text":
            focus = self.get_query_argument("focus", None)
            cells = now.view.cells(now.cells)
            shown = await asyncio.to_thread(
                render, cells, stale=stale, focus=focus, budget=budget, fence=nb.work.fence
            )
            self.finish(shown.text, set_content_type="text/plain; charset=utf-8")
            return
        facts = {
            "path": nb.path,
            "carrier": now.notebook.carrier,
            "kernel": kernel and {"id": kernel.id, "name": kernel.name, "state": kernel.state},
            "verified": self.services.verified.of(nb.path, now.metadata, now.cells),
            "metadata": dict(now.metadata),
        }
        text = await asyncio.to_thread(_json, facts, now.cells, stale, outputs)
        self.finish(text, set_content_type="application/json")

    async def _download(self, path: str) -> None:
        async with lease(self.work, path, READ) as nb:
            content = await (await nb.read()).notebook.content()
        text = await asyncio.to_thread(_file_text, content)
        name = quote(posixpath.basename(nb.path))
        self.set_header("Content-Disposition", f"attachment; filename*=utf-8''{name}")
        self.finish(text, set_content_type="application/x-ipynb+json")

    @operation(
        "write",
        "contents",
        body=MetadataBody,
        query=WHILE_AWAY,
        gives=MetadataAnswer,
    )
    async def patch(self, path: str, body: MetadataBody) -> None:
        """Changes keys of the notebook's metadata; `null` removes a key."""
        if not body.metadata:
            raise InvalidInput("Give `metadata`: keys with their new values.")
        async with lease(self.work, path, WRITE) as nb:
            notebook = (await nb.take()).notebook
            _refuse_invalid(notebook.cached_metadata, body.metadata)
            notebook.write_metadata(body.metadata)
            saved = await notebook.save()
        metadata = dict(notebook.cached_metadata)
        self.answer({"path": nb.path, "metadata": metadata, "saved": saved.saved})

    @operation("write", "contents", body=NewNotebook, answers=201, gives=NewNotebookAnswer)
    async def post(self, path: str, body: NewNotebook) -> None:
        """Creates a notebook; 409 if it exists."""
        given = [cell.model_dump() for cell in body.cells]
        notebook = await self.work.create(path, body.kernel_name, given)
        cells = [describe_cell(cell) for cell in await notebook.read()]
        self.answer({"path": notebook.path, "carrier": notebook.carrier, "cells": cells}, 201)


class SaveHandler(DocumentHandler):
    """`POST notebooks/{path}/save`"""

    @operation("write", "contents", body=SaveBody, gives=SavedAnswer)
    async def post(self, path: str, body: SaveBody) -> None:
        """Saves a notebook in a room to its file, once the room has all the edits of this page."""
        try:
            clocks = {int(client): clock for client, clock in body.clocks.items()}
        except ValueError:
            raise InvalidInput(
                "`clocks` are those of Yjs clients, whose ids are numbers."
            ) from None
        async with lease(self.work, path, WRITE) as nb:
            hash = await self.services.notebooks.save_room(nb.path, clocks)
            self.answer({"path": nb.path, "hash": hash})


class KernelHandler(DocumentHandler):
    """`POST notebooks/{path}/kernel`"""

    @operation("write", "kernels", body=KernelBody, gives=KernelAnswer)
    async def post(self, path: str, body: KernelBody) -> None:
        """Starts, interrupts, restarts or shuts down the notebook's kernel."""
        if body.name is not None and body.action != "start":
            raise InvalidInput("`name` says which kernel to start: leave it out here.")
        if body.action in ("start", "shutdown"):
            await self.require("write", "sessions")
        async with lease(self.work, path, ("write", "kernels")) as nb:
            if body.action == "start":
                kernel = await nb.kernel.start(body.name)
            else:
                kernel = await nb.kernel.require()
            if body.action == "interrupt":
                await kernel.interrupt()
            elif body.action == "restart":
                await kernel.restart()
            elif body.action == "shutdown":
                await self.services.kernels.shutdown(nb.path)
        self.answer({"id": kernel.id, "name": kernel.name, "state": kernel.state})


async def _call_result(nb: Lease) -> Result:
    """The result of a call that ran code, as a tool would return it; does not wait for a save."""
    if len(nb.kernel.runs) == 1:
        return await result_of(nb.kernel.runs[0], nb.work, pictures=0)
    return await results_of(nb.kernel.runs, nb.work, pictures=0)


def _refuse_invalid(metadata: Mapping[str, Any], items: Mapping[str, Any]) -> None:
    """Raises InvalidInput for items that would make the notebook invalid."""
    whole = with_items(metadata, items)
    bare = {"cells": [], "metadata": whole, "nbformat": 4, "nbformat_minor": 5}
    why = json_error(items)
    try:
        nbformat.validate(bare)
    except nbformat.ValidationError as error:
        why = str(error).splitlines()[0]
    if why:
        raise InvalidInput(f"The notebook would no longer be valid: {why}")


def _file_text(content: Mapping[str, Any]) -> str:
    return json.dumps(as_stored(content), ensure_ascii=False, indent=1) + "\n"


def _json(
    facts: Mapping[str, Any], cells: Sequence[Cell], stale: Mapping[str, str], outputs: str
) -> str:
    """The whole notebook for the answer, built in pieces: serialising a large one in one go would
    block other threads.
    """
    described = [describe_cell(cell, stale=stale.get(cell.id), outputs=outputs) for cell in cells]
    answer = {**facts, "cells": described}
    try:
        return "".join(json.JSONEncoder(allow_nan=False).iterencode(answer))
    except ValueError:  # NaN, which only Python reads
        return foreign.json_text(answer)


def describe_cell(cell: Cell, *, stale: str | None = None, outputs: str = "full") -> dict[str, Any]:
    """The cell as these routes answer it; `stale` says why its outputs are out of date."""
    value = {**cell.describe(), "stale": stale is not None}
    if stale is not None:
        value["stale_why"] = stale
    if outputs == "none":
        del value["outputs"]
    elif outputs == "text":
        value["outputs"] = output_text(cell.outputs)
    return value


class RecoveryHandler(AgentHandler):
    """Base of the recovery routes."""

    def initialize(self, recovery: RecoveryCopies, services: Services) -> None:
        self.recovery = recovery
        self.identities = services.identities


class CopiesHandler(RecoveryHandler):
    """`notebooks/{path}/recovery`"""

    @operation("read", "contents", gives=CopiesAnswer)
    async def get(self, path: str) -> None:
        """Lists the stored copies of a notebook, newest first; also of a deleted notebook."""
        notebook = await self.identities.path(path)
        self.answer({"copies": await self.recovery.of(notebook)})


class CopyHandler(RecoveryHandler):
    """`notebooks/{path}/recovery/{copy_id}`"""

    @operation("read", "contents", gives=FileAnswer)
    async def get(self, path: str, copy_id: str) -> None:
        """Returns a copy as a notebook's JSON, which can be saved as a file."""
        number = int(copy_id) if copy_id.isdecimal() and len(copy_id) < 19 else -1
        content = await self.recovery.content(await self.identities.path(path), number)
        if content is None:
            raise RequestError(404, "not_found", f"There is no copy `{copy_id}` of `{path}`.")
        self.answer(content)
