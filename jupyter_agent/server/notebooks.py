"""Notebooks, cells and runs, headless: these routes act for their caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.agent.limits import Limits
from jupyter_agent.carriers import WhileAway
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.wakes import Wakes
from jupyter_agent.document.cell import Cell, CellType
from jupyter_agent.document.notebook import Edit
from jupyter_agent.errors import Conflict, InvalidInput, RequestError, ToolError
from jupyter_agent.server.base import MEBIBYTE, AgentHandler, Authorizer, operation
from jupyter_agent.text.notebook import BUDGET, output_text, render
from jupyter_agent.workspace.runs import Run
from jupyter_agent.workspace.verify import Verification, record, unrecord, update, verify
from jupyter_agent.workspace.workspace import READ, WRITE, Services, Workspace

GRACE = 10.0
"""Seconds that an interrupted run may take to end before it is answered as it is."""


class Body(BaseModel):
    """A body whose unknown fields are an error: a typo must not be a change that did not happen."""

    model_config = ConfigDict(extra="forbid")


class NewNotebook(Body):
    """A notebook to make."""

    kernel_name: str | None = None
    cells: list[dict[str, Any]] = Field(default_factory=list)


class NewCell(Body):
    """A cell to insert; at the end where no place is given."""

    source: str = ""
    type: CellType = "code"
    after: str | None = None
    before: str | None = None
    index: int | None = Field(default=None, ge=0)


class CellEdit(Body):
    """A cell's new text (whole, or one string for another) or type."""

    source: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    type: CellType | None = None


class CellPlace(Body):
    """Where a cell goes."""

    after: str | None = None
    before: str | None = None
    index: int | None = Field(default=None, ge=0)


class RunBody(Body):
    """How long to wait for a run, and when to interrupt it (seconds); whether the answer waits
    until its outputs are saved.
    """

    timeout: float | None = Field(default=None, gt=0)
    wait: float | None = Field(default=None, ge=0)
    save: bool = True


class RunAllBody(Body):
    """Which cells to run; all code cells where left out."""

    cells: list[str] | None = None
    stop_on_error: bool = True


class VerifyBody(Body):
    """How to verify: with other parameters, or with the fresh outputs or a record written at the
    end.
    """

    update: bool = False
    record: bool = False
    parameters: dict[str, Any] = Field(default_factory=dict)


class KernelBody(Body):
    """What to do with the notebook's kernel."""

    action: Literal["start", "interrupt", "restart", "shutdown"]
    name: str | None = None


class DocumentHandler(AgentHandler):
    """What all routes of notebooks and runs share."""

    max_body_bytes = 16 * MEBIBYTE

    def initialize(self, services: Services) -> None:
        self.services = services

    @property
    def work(self) -> Workspace:
        """What this request may touch: everything that its user may."""
        return Workspace(
            services=self.services,
            user=self.owner,
            authorize=Authorizer(self),
            while_away=self.choice("while_away", get_args(WhileAway)),
            approved={},
        )

    def expected(self) -> str | None:
        """The version that `If-Match` asks for; None where any will do."""
        wanted = self.request.headers.get("If-Match")
        if wanted is None or wanted.strip() == "*":
            return None
        return wanted.strip().removeprefix("W/").strip('"')

    def changed(self, edit: Edit, status: int = 200) -> None:
        """Answers with the cell after a change that is in the live document."""
        assert edit.cell is not None
        self.set_header("ETag", f'"{edit.cell.version}"')
        saved: dict[str, Any] = {"saved": edit.saved.saved}
        if edit.saved.note:
            saved["note"] = edit.saved.note
        self.answer({**described(edit.cell), **saved}, status)

    def compute_etag(self) -> str | None:
        """Tornado's own would be a hash of the body; ours is the cell's version."""
        return None


class NotebookHandler(DocumentHandler):
    """`notebooks/{path}`"""

    @operation("read", "contents", query=("outputs", "format", "focus", "budget"))
    async def get(self, path: str) -> None:
        """The notebook as it is now, unsaved typing included."""
        outputs = self.choice("outputs", ("full", "none", "text"))
        async with self.work.lease(path, READ) as nb:
            cells, stale = await nb.read(), await nb.stale()
        if self.choice("format", ("json", "text")) == "text":
            focus = self.get_query_argument("focus", None)
            cells = nb.view.cells(cells)
            budget = self.number("budget", BUDGET)
            shown = await asyncio.to_thread(render, cells, stale=stale, focus=focus, budget=budget)
            await self.finish(shown.text, set_content_type="text/plain; charset=utf-8")
            return
        kernel = await nb.kernel()
        facts = {
            "path": nb.path,
            "carrier": nb.notebook.carrier,
            "kernel": kernel and {"id": kernel.id, "name": kernel.name, "state": kernel.state},
            "verified": self.services.verified.of(nb.path, nb.notebook.known_metadata, cells),
        }
        text = await asyncio.to_thread(_json, facts, cells, stale, outputs)
        await self.finish(text, set_content_type="application/json")

    @operation("write", "contents", body=NewNotebook, answers=201)
    async def post(self, path: str, body: NewNotebook) -> None:
        """Makes a notebook; 409 if there is one."""
        notebook = await self.work.create(path, body.kernel_name, body.cells)
        cells = [described(cell) for cell in await notebook.read()]
        self.answer({"path": notebook.path, "carrier": notebook.carrier, "cells": cells}, 201)


class CellsHandler(DocumentHandler):
    """`notebooks/{path}/cells`"""

    @operation("write", "contents", body=NewCell, query=("while_away",), answers=201)
    async def post(self, path: str, body: NewCell) -> None:
        """Inserts a cell."""
        async with self.work.lease(path, WRITE) as nb:
            edit = await nb.insert(**body.model_dump())
        self.changed(edit, 201)


class CellHandler(DocumentHandler):
    """`notebooks/{path}/cells/{id}`"""

    @operation("read", "contents")
    async def get(self, path: str, cell_id: str) -> None:
        """One cell with its full outputs."""
        async with self.work.lease(path, READ) as nb:
            cell, stale = await nb.cell(cell_id), await nb.stale()
        self.set_header("ETag", f'"{cell.version}"')
        self.answer(described(cell, stale=stale.get(cell.id)))

    @operation("write", "contents", body=CellEdit, query=("while_away",))
    async def patch(self, path: str, cell_id: str, body: CellEdit) -> None:
        """Changes a cell's text or type; with `If-Match`, only if it is still that version."""
        if body.model_dump(exclude_none=True) == {}:
            message = "Give `source`, or `old_string` and `new_string`, or `type`."
            raise RequestError(400, "invalid_body", message)
        expect = self.expected()
        async with self.work.lease(path, WRITE) as nb:
            await nb.take()
            # Whoever calls this route means the text that is there now, or what `If-Match` says.
            base = None if body.source is None else (await nb.cell(cell_id)).source
            try:
                edit = await nb.update(cell_id, base=base, expect=expect, **body.model_dump())
            except Conflict as conflict:
                raise precondition(conflict, expect) from None
        self.changed(edit)

    @operation("write", "contents", query=("while_away",), answers=204)
    async def delete(self, path: str, cell_id: str) -> None:
        """Deletes a cell; with `If-Match`, only if it is still that version."""
        expect = self.expected()
        try:
            async with self.work.lease(path, WRITE) as nb:
                await nb.delete(cell_id, expect=expect)
        except Conflict as conflict:
            raise precondition(conflict, expect) from None
        self.answer_nothing()


class MoveHandler(DocumentHandler):
    """`POST notebooks/{path}/cells/{id}/move`"""

    @operation("write", "contents", body=CellPlace, query=("while_away",))
    async def post(self, path: str, cell_id: str, body: CellPlace) -> None:
        """Puts the cell elsewhere."""
        expect = self.expected()
        try:
            async with self.work.lease(path, WRITE) as nb:
                edit = await nb.move(cell_id, expect=expect, **body.model_dump())
        except Conflict as conflict:
            raise precondition(conflict, expect) from None
        self.changed(edit)


class RunCellHandler(DocumentHandler):
    """`POST notebooks/{path}/cells/{id}/run`"""

    @operation("execute", "kernels", body=RunBody)
    async def post(self, path: str, cell_id: str, body: RunBody) -> None:
        """Runs a cell; past `wait` seconds 202 with the outputs so far and a `run_id`."""
        async with self.work.lease(path, WRITE) as nb:
            run = await nb.run(cell_id, timeout=body.timeout)
        ended = await run.wait(body.wait, saved=body.save)
        self.answer(run.describe(), 200 if ended else 202)


class RunCellsHandler(DocumentHandler):
    """`POST notebooks/{path}/run`"""

    @operation("execute", "kernels", body=RunAllBody)
    async def post(self, path: str, body: RunAllBody) -> None:
        """Runs cells in order; a result each. One save at the end, and some on the way."""
        runs: list[Run] = []
        async with self.work.lease(path, WRITE) as nb:
            for cell in await nb.code_cells(body.cells):
                runs.append(run := await nb.run(cell.id))
                await run.wait(saved=False)
                if body.stop_on_error and run.status != "ok":
                    break
        for run in runs:
            await run.wait()
        self.answer({"cells": [run.describe() for run in runs]})


class RunsHandler(DocumentHandler):
    """What the routes of runs share."""

    async def known(self, run_id: str) -> Run:
        """The run. Raises RequestError 404 for one that is not the user's."""
        run = await self.services.runs.find(run_id, self.owner)
        if run is None:
            raise RequestError(404, "not_found", f"No run `{run_id}`.")
        return run


class TurnRunsHandler(RunsHandler):
    """What the routes of runs share that know their conversations."""

    def initialize(  # type: ignore[override]
        self, services: Services, wakes: Wakes, limits: Limits
    ) -> None:
        super().initialize(services)
        self.wakes = wakes
        self.limits = limits


class RunHandler(TurnRunsHandler):
    """`GET runs/{id}`"""

    @operation("read", "contents", query=("save",))
    async def get(self, run_id: str) -> None:
        """A run, also after it ended: then its outputs are saved, unless `save=false`."""
        run = await self.known(run_id)
        if run.ended is not None and self.choice("save", ("true", "false")) == "true":
            await run.wait()
        self.answer({**run.describe(), "wake": await self.wakes.wanted(run)})


class WakeHandler(TurnRunsHandler):
    """`runs/{id}/wake`"""

    @operation("write", answers=204)
    async def put(self, run_id: str) -> None:
        """Has the end of a run start a turn of its conversation, once; again after a restart."""
        await self.wakes.want(await self.known(run_id), Authorizer(self), self.limits)
        self.answer_nothing()

    @operation("write", answers=204)
    async def delete(self, run_id: str) -> None:
        """Has its end start nothing."""
        await self.wakes.drop(await self.known(run_id))
        self.answer_nothing()


class InterruptRunHandler(RunsHandler):
    """`POST runs/{id}/interrupt`"""

    @operation("write", "kernels")
    async def post(self, run_id: str) -> None:
        """Interrupts a run and answers when it has ended."""
        run = await self.known(run_id)
        await run.interrupt()
        await run.wait(GRACE)
        self.answer(run.describe())


class KernelHandler(DocumentHandler):
    """`POST notebooks/{path}/kernel`"""

    @operation("write", "kernels", body=KernelBody)
    async def post(self, path: str, body: KernelBody) -> None:
        """Starts, interrupts, restarts or shuts down the notebook's own kernel."""
        if body.action in ("start", "shutdown"):
            await self.require("write", "sessions")
        async with self.work.lease(path, ("write", "kernels")) as nb:
            if body.action == "start":
                kernel = await nb.start_kernel(body.name)
            else:
                kernel = await nb.running_kernel()
            if body.action == "interrupt":
                await kernel.interrupt()
            elif body.action == "restart":
                await kernel.restart()
            elif body.action == "shutdown":
                await self.services.kernels.shutdown(nb.path)
        self.answer({"id": kernel.id, "name": kernel.name, "state": kernel.state})


def _json(
    facts: Mapping[str, Any], cells: Sequence[Cell], stale: Mapping[str, str], outputs: str
) -> str:
    """The whole notebook as it is answered; piece by piece, since of a large one other threads
    would wait for the whole.
    """
    told = [described(cell, stale=stale.get(cell.id), outputs=outputs) for cell in cells]
    return "".join(json.JSONEncoder().iterencode({**facts, "cells": told}))


def described(cell: Cell, *, stale: str | None = None, outputs: str = "full") -> dict[str, Any]:
    """The cell as these routes answer it; `stale` is why its outputs no longer follow."""
    value = {**cell.describe(), "stale": stale is not None}
    if stale is not None:
        value["stale_why"] = stale
    if outputs == "none":
        del value["outputs"]
    elif outputs == "text":
        value["outputs"] = output_text(cell.outputs)
    return value


def precondition(conflict: Conflict, expect: str | None) -> ToolError | RequestError:
    """412 where the caller named a version, else the conflict as it is."""
    if expect is None:
        return conflict
    return RequestError(412, conflict.reason, conflict.message, **conflict.facts)


class VerifyHandler(DocumentHandler):
    """`POST notebooks/{path}/verify`"""

    _verifying: asyncio.Task[Verification] | None = None
    _left = False

    @operation("execute", "kernels", body=VerifyBody)
    async def post(self, path: str, body: VerifyBody) -> None:
        """Runs a copy of the notebook from the top in a fresh kernel and compares the outputs.

        With `update` the fresh outputs are written where no cell failed, with `record` the notebook
        itself says then that it was verified, or no longer does. A client that goes away stops it.
        """
        if (body.update or body.record) and body.parameters:
            raise InvalidInput("Outputs made with other parameters are not those of the notebook.")
        try:
            writes = body.update or body.record
            needs = (WRITE if writes else READ, ("write", "kernels"))
            async with self.work.lease(path, *needs) as nb:
                verifying = verify(nb, parameters=body.parameters)
                self._verifying = asyncio.ensure_future(verifying)
                done = await self._verifying
                answer = done.describe()
                if body.update:
                    saved = await update(nb, done)
                    answer |= {"updated": True, "saved": saved.saved}
                if body.record:
                    saved = await (record(nb) if done.ok else unrecord(nb))
                    answer |= {"recorded": done.ok, "saved": saved.saved}
                self.answer(answer)
        except asyncio.CancelledError:
            if not self._left:
                raise

    def on_connection_close(self) -> None:
        """Nobody waits for the answer any more."""
        self._left = True
        if self._verifying is not None:
            self._verifying.cancel()
        super().on_connection_close()


class VerifiedHandler(DocumentHandler):
    """`notebooks/{path}/verified`"""

    @operation("write", "contents")
    async def put(self, path: str) -> None:
        """Has the notebook itself say that it was verified, as this server last did."""
        async with self.work.lease(path, WRITE) as nb:
            await nb.read()
            saved = await record(nb)
        self.answer({"recorded": True, "saved": saved.saved})

    @operation("write", "contents", answers=204)
    async def delete(self, path: str) -> None:
        """Forgets the last verification, here and in the notebook."""
        async with self.work.lease(path, WRITE) as nb:
            await nb.read()
            await unrecord(nb)
            self.services.verified.forget(nb.path)
        self.answer_nothing()


class RecoveryHandler(AgentHandler):
    """What both routes share."""

    def initialize(self, recovery: RecoveryCopies, services: Services) -> None:
        self.recovery = recovery
        self.identities = services.identities


class CopiesHandler(RecoveryHandler):
    """`notebooks/{path}/recovery`"""

    @operation("read", "contents")
    async def get(self, path: str) -> None:
        """The copies that are kept of a notebook, the newest first; also of one that is gone."""
        notebook = await self.identities.path(path)
        self.answer({"copies": await self.recovery.of(notebook)})


class CopyHandler(RecoveryHandler):
    """`notebooks/{path}/recovery/{copy_id}`"""

    @operation("read", "contents")
    async def get(self, path: str, copy_id: str) -> None:
        """A copy as a notebook's JSON: saved as a file it can be opened."""
        number = int(copy_id) if copy_id.isdecimal() and len(copy_id) < 19 else -1
        content = await self.recovery.content(await self.identities.path(path), number)
        if content is None:
            raise RequestError(404, "not_found", f"No copy `{copy_id}` of `{path}` is kept.")
        self.answer(content)
