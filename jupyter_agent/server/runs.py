"""Runs over REST: of cells and of code that is in none, with handles, as answers and as streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from math import inf
from typing import Any

from pydantic import Field

from jupyter_agent.agent.limits import Limits
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.wakes import Wakes
from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.document.edits import refuse_half_characters
from jupyter_agent.errors import InvalidInput, RequestError, ToolError
from jupyter_agent.server.answers import RunAnswer, RunListAnswer, RunsAnswer, TextAnswer
from jupyter_agent.server.base import STATUS, STREAM, Authorizer, operation
from jupyter_agent.server.notebooks import BY, OUTPUTS, Body, DocumentHandler
from jupyter_agent.server.sse import StreamHandler, numbered
from jupyter_agent.tasks import surely
from jupyter_agent.text.notebook import output_text
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.runs import Run
from jupyter_agent.workspace.verify import PARAMETERS, assignments_of
from jupyter_agent.workspace.workspace import READ, WRITE, Need, Services

log = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that an interrupted run may take to end before it is answered as it is."""
PAGE = 50
"""Runs in one list."""
_FOR_EVER_S = 1e9


class RunningBody(Body):
    """When to interrupt a run (seconds); whether the answer tells its outputs as they come, and
    whether a kernel that was started for it stays.
    """

    timeout: float | None = Field(default=None, gt=0)
    stream: bool = False
    keep_kernel: bool = True


class RunBody(RunningBody):
    """How long to wait for a run (seconds), and whether for the save of its outputs too."""

    wait: float | None = Field(default=None, ge=0)
    save: bool = True


class CodeBody(RunningBody):
    """Code that is in no cell; otherwise as for a run of a cell."""

    code: str = Field(min_length=1)
    wait: float | None = Field(default=None, ge=0)


class RunAllBody(RunningBody):
    """Which cells to run: these, or those from one to another; all code cells where left out."""

    cells: list[str] | None = None
    from_: str | None = Field(default=None, alias="from")
    until: str | None = None
    stop_on_error: bool = True
    parameters: dict[str, Any] = Field(default_factory=dict)


class RunningHandler(StreamHandler, DocumentHandler):
    """What the routes share that start runs."""

    _nb: Lease | None = None
    _rest: AsyncExitStack
    """What is left to do when the runs are over."""

    @asynccontextmanager
    async def calling(
        self, path: str, does: str, body: RunningBody, need: Need = WRITE, **about: str
    ) -> AsyncIterator[Lease]:
        """As `acting`, for a call that runs code. It lasts until that is over, also where its
        answer came before; then it is in the journal, and a kernel ends that was started for it
        and is not to be kept.
        """
        asked = {**about, **body.model_dump(exclude_defaults=True, by_alias=True)}
        async with AsyncExitStack() as self._rest:
            if not body.keep_kernel:
                self._rest.push_async_exit(self._end_kernel)
            nb = await self._rest.enter_async_context(self.acting(path, does, asked, need))
            self._nb = nb
            yield nb
            if any(run.ended is None for run in nb.runs):
                self.requests.go_on(_end_after(nb.runs, self._rest.pop_all()))

    async def _end_kernel(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._nb is None or (kind and issubclass(kind, asyncio.CancelledError)):
            return  # nothing began, or the server ends, and its kernels with it
        try:
            await self._nb.end_kernel()
        except ToolError as error:
            log.warning("The kernel of `%s` stays: %s", self._nb.path, error)

    @property
    def stopped(self) -> bool:
        """Whether a person stopped the turn of this call."""
        return self._act is not None and self._act.stop.requested

    async def follow(self, run: Run, wait: float | None, *, save: bool, stream: bool) -> bool:
        """Within the call that started it: streams the run, or waits so many seconds; whether it
        has ended.
        """
        if self.stopped:  # while the kernel was starting
            await run.interrupt()
        if stream:
            await self.send_data(numbered(self.ending(frames_of(run, saved=save))))
            self.repeat_with(described_run(run))
            return run.ended is not None
        return await run.wait(wait, saved=save)

    async def ending(
        self, frames: AsyncIterator[Mapping[str, Any]]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """These frames, then an error that they end with; the call ends before its stream does. A
        client that goes away ends only the stream.
        """
        failure: ToolError | None = None
        try:
            async for frame in frames:
                yield frame
        except ToolError as error:
            failure = error
        await surely(_end(self._rest, failure))
        if failure is not None:
            status = STATUS.get(failure.reason, 400)
            told = {"message": failure.message, "reason": failure.reason, "status": status}
            yield {"type": "error", **failure.facts, **told}


async def _end(call: AsyncExitStack, failure: ToolError | None) -> None:
    with suppress(ToolError):
        async with call:
            if failure is not None:
                raise failure


async def _end_after(runs: Sequence[Run], call: AsyncExitStack) -> None:
    async with call:
        for run in runs:
            await run.wait(saved=False)


def described_run(run: Run, *, outputs: bool = True) -> dict[str, Any]:
    """docs/api.md's RUN, with the turn that has it."""
    turn = {"turn_id": run.turn_id} if run.turn_id else {}
    return {**run.describe(outputs=outputs), **turn}


class RunCellHandler(RunningHandler):
    """`POST notebooks/{path}/cells/{id}/run`"""

    @operation(
        "execute",
        "kernels",
        body=RunBody,
        query=BY,
        also=(202,),
        media=(STREAM,),
        gives=RunAnswer,
    )
    async def post(self, path: str, cell_id: str, body: RunBody) -> None:
        """Runs a cell; past `wait` seconds 202 with the outputs so far and a `run_id`."""
        async with self.calling(path, "run_cell", body, cell_id=cell_id) as nb:
            run = await nb.run(cell_id, timeout=body.timeout)
            ended = await self.follow(run, body.wait, save=body.save, stream=body.stream)
        if not body.stream:
            self.answer(described_run(run), 200 if ended else 202)


class CodeHandler(RunningHandler):
    """`POST notebooks/{path}/kernel/code`"""

    @operation(
        "execute",
        "kernels",
        body=CodeBody,
        query=BY,
        also=(202,),
        media=(STREAM,),
        gives=RunAnswer,
    )
    async def post(self, path: str, body: CodeBody) -> None:
        """Runs code that is in no cell in the notebook's kernel: the notebook stays as it is."""
        refuse_half_characters(body.code)
        async with self.calling(path, "run_code", body, READ) as nb:
            run = await nb.run_code(body.code, timeout=body.timeout)
            ended = await self.follow(run, body.wait, save=False, stream=body.stream)
        if not body.stream:
            self.answer(described_run(run), 200 if ended else 202)


class VariablesHandler(DocumentHandler):
    """`GET notebooks/{path}/kernel/variables`"""

    @operation("execute", "kernels", query=("names",), gives=TextAnswer)
    async def get(self, path: str) -> None:
        """What the variables of the notebook's kernel hold, a line or more each; of all where no
        `names` are given. No code of theirs runs for that."""
        names = [name for given in self.get_query_arguments("names") for name in given.split(",")]
        async with lease(self.work, path, READ) as nb:
            text = await nb.all_variables(list(filter(None, names)) or None)
        self.answer({"text": text})


class RunCellsHandler(RunningHandler):
    """`POST notebooks/{path}/run`"""

    @operation("execute", "kernels", body=RunAllBody, query=BY, media=(STREAM,), gives=RunsAnswer)
    async def post(self, path: str, body: RunAllBody) -> None:
        """Runs cells in order; a result each. One save at the end, and some on the way."""
        async with self.calling(path, "run_cells", body) as nb:
            plan = await _plan(nb, body)
            if body.stream:
                return await self._stream(self._in_order(nb, plan, body))
            runs = [run async for run in self._in_order(nb, plan, body)]
            for run in runs:
                await run.wait()
        self.answer({"cells": [described_run(run) for run in runs], **self.of_turn()})

    async def _in_order(
        self, nb: Lease, plan: Sequence[Cell | str], body: RunAllBody
    ) -> AsyncIterator[Run]:
        """Each run of a cell when it has started; the next one starts when it has ended."""
        for each in plan:
            if self.stopped:
                return
            if isinstance(each, str):
                run = await nb.run_code(each)
                await run.wait(saved=False)
                if run.status != "ok":
                    why = output_text(run.outputs())
                    raise InvalidInput(f"The parameters could not be set: {why}")
                continue
            run = await nb.run(each.id, timeout=body.timeout)
            if self.stopped:  # while the kernel was starting
                await run.interrupt()
            yield run
            await run.wait(saved=False)
            if body.stop_on_error and not run.may_continue:
                return

    async def _stream(self, coming: AsyncIterator[Run]) -> None:
        """A client that goes away ends only the answer, as without a stream."""
        started: asyncio.Queue[Run | None] = asyncio.Queue()
        runs: list[Run] = []

        async def drive() -> None:
            try:
                async for run in coming:
                    runs.append(run)
                    started.put_nowait(run)
            finally:
                started.put_nowait(None)

        driving = asyncio.create_task(drive())
        try:
            first = await started.get()
            if first is None:
                await driving  # what kept the first one from starting has a status of its own
            frames = _frames_of_all(first, started, driving)
            await self.send_data(numbered(self.ending(frames)))
            await asyncio.wait([driving])
            self.repeat_with({"cells": [described_run(run) for run in runs], **self.of_turn()})
        finally:
            driving.cancel()


async def _plan(nb: Lease, body: RunAllBody) -> list[Cell | str]:
    """The cells to run, and the code that sets the parameters where it belongs between them.

    Raises InvalidInput, CellNotFound.
    """
    ranged = body.from_ is not None or body.until is not None
    if body.cells is not None and ranged:
        raise InvalidInput("Give `cells`, or `from` and `until`, not both.")
    setting = assignments_of(body.parameters, await nb.language() if body.parameters else "")
    cells = await nb.code_cells(body.cells)
    if ranged:
        first = (await nb.cell(body.from_)).index if body.from_ is not None else 0
        last = (await nb.cell(body.until)).index if body.until is not None else inf
        if first > last:
            raise InvalidInput(f"Cell `{body.from_}` is below `{body.until}`: exchange them.")
        cells = [cell for cell in cells if first <= cell.index <= last]
    if not setting:
        return [*cells]
    replaced = next((n for n, cell in enumerate(cells) if cell.injected), None)
    if replaced is not None:
        return [*cells[:replaced], setting, *cells[replaced + 1 :]]
    after = next((n + 1 for n, cell in enumerate(cells) if PARAMETERS in cell.tags), 0)
    return [*cells[:after], setting, *cells[after:]]


async def _frames_of_all(
    first: Run | None, started: asyncio.Queue[Run | None], driving: asyncio.Task[None]
) -> AsyncIterator[Mapping[str, Any]]:
    run = first
    while run is not None:
        async with aclosing(frames_of(run)) as frames:
            async for frame in frames:
                yield frame
        run = await started.get()
    await driving


async def frames_of(run: Run, *, saved: bool = True) -> AsyncGenerator[dict[str, Any], None]:
    """What a client follows a run by: `run` at the beginning, `outputs` and `text` as they come,
    `end` when it has ended (and, with `saved`, its outputs are saved).
    """
    shown: list[Output] = []
    yield {"type": "run", **described_run(run, outputs=False)}
    if run.ended is None:
        async with aclosing(run.news(_FOR_EVER_S)) as news:
            async for _ in news:
                now = run.outputs()
                for frame in _difference(run.id, shown, now):
                    yield frame
                shown = now
    await run.wait(saved=saved)
    for frame in _difference(run.id, shown, run.outputs()):
        yield frame
    yield {"type": "end", **described_run(run, outputs=False)}


def _difference(run_id: str, old: Sequence[Output], new: Sequence[Output]) -> list[dict[str, Any]]:
    """What brings a list of outputs to another: `outputs` replaces all from `index` on, `text` is
    put at the end of the stream at `index`.
    """
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    frames: list[dict[str, Any]] = []
    if same == len(old) - 1 and same < len(new) and _grew(old[same], new[same]):
        more = new[same]["text"][len(old[same]["text"]) :]
        frames.append({"type": "text", "run_id": run_id, "index": same, "text": more})
        same += 1
    if same < max(len(old), len(new)):
        rest = list(new[same:])
        frames.append({"type": "outputs", "run_id": run_id, "index": same, "outputs": rest})
    return frames


def _grew(then: Output, now: Output) -> bool:
    kinds = {then["output_type"], now["output_type"]}
    return (
        kinds == {"stream"}
        and then["name"] == now["name"]
        and str(now["text"]).startswith(str(then["text"]))
    )


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
        self, services: Services, clients: Clients, wakes: Wakes, limits: Limits
    ) -> None:
        super().initialize(services, clients)
        self.wakes = wakes
        self.limits = limits


class RunListHandler(DocumentHandler):
    """`GET runs`"""

    @operation(
        "read",
        "contents",
        query={"notebook": str, "state": ("all", "active", "ended"), "page": int},
        gives=RunListAnswer,
    )
    async def get(self) -> None:
        """The user's runs that are remembered, newest first, without their outputs."""
        path = self.get_query_argument("notebook", None)
        notebook = await self.services.identities.path(path) if path else None
        state = self.choice("state", ("all", "active", "ended"))
        page = self.number("page", 1)
        runs = [
            run
            for run in self.services.runs.of(self.owner, notebook)
            if state == "all" or (run.ended is None) == (state == "active")
        ]
        shown = runs[(page - 1) * PAGE : page * PAGE]
        self.answer(
            {
                "runs": [described_run(run, outputs=False) for run in shown],
                "next_page": page + 1 if len(runs) > page * PAGE else None,
            }
        )


class RunHandler(TurnRunsHandler):
    """`GET runs/{id}`"""

    @operation(
        "read", "contents", query={"save": ("true", "false"), "outputs": OUTPUTS}, gives=RunAnswer
    )
    async def get(self, run_id: str) -> None:
        """A run, also after it ended: then its outputs are saved, unless `save=false`."""
        outputs = self.choice("outputs", OUTPUTS)
        save = self.choice("save", ("true", "false")) == "true"
        run = await self.known(run_id)
        if run.ended is not None and save:
            await run.wait()
        told = described_run(run, outputs=outputs == "full")
        if outputs == "text":
            told["outputs"] = output_text(run.outputs())
        self.answer({**told, "wake": await self.wakes.is_scheduled(run)})


class RunStreamHandler(StreamHandler, RunsHandler):
    """`GET runs/{id}/stream`"""

    @operation("read", "contents", media=(STREAM,))
    async def get(self, run_id: str) -> None:
        """A run as it goes, from its first output to its end; also one that has ended."""
        run = await self.known(run_id)
        await self.send_data(numbered(frames_of(run)))


class WakeHandler(TurnRunsHandler):
    """`runs/{id}/wake`"""

    @operation("write", answers=204)
    async def put(self, run_id: str) -> None:
        """Has the end of a run start a turn of its conversation, once; again after a restart."""
        run = await self.known(run_id)
        await self.wakes.schedule(run, self.person, Authorizer(self), self.limits)
        self.answer_nothing()

    @operation("write", answers=204)
    async def delete(self, run_id: str) -> None:
        """Has its end start nothing."""
        await self.wakes.cancel(await self.known(run_id))
        self.answer_nothing()


class InterruptRunHandler(RunsHandler):
    """`POST runs/{id}/interrupt`"""

    @operation("write", "kernels", gives=RunAnswer)
    async def post(self, run_id: str) -> None:
        """Interrupts a run and answers when it has ended."""
        run = await self.known(run_id)
        await run.interrupt()
        await run.wait(GRACE)
        self.answer(described_run(run))
