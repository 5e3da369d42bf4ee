"""Runs over REST, of cells and of other code: with ids, as answers and as streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from math import inf
from typing import Any

from pydantic import Field

from jupyter_agent.document.cell import Cell
from jupyter_agent.document.edits import refuse_half_characters
from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.server.answers.notebooks import RunAnswer, RunsAnswer, TextAnswer
from jupyter_agent.server.base import STATUS, STREAM, operation
from jupyter_agent.server.notebooks import BY, Body, DocumentHandler
from jupyter_agent.server.run_state import describe_run, frames_of
from jupyter_agent.server.sse import StreamHandler, number_frames
from jupyter_agent.tasks import surely
from jupyter_agent.text.notebook import output_text
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.parameters import PARAMETERS, assignments_of
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.workspace import READ, WRITE, Need

log = logging.getLogger(__name__)


class RunningBody(Body):
    """When to interrupt a run (seconds), whether to stream its outputs, and whether to keep a
    kernel that was started for it.
    """

    timeout: float | None = Field(default=None, gt=0)
    stream: bool = False
    keep_kernel: bool = True


class RunBody(RunningBody):
    """How long to wait for a run (seconds), and whether to wait for the save of its outputs,
    too."""

    wait: float | None = Field(default=None, ge=0)
    save: bool = True


class CodeBody(RunningBody):
    """Code outside of any cell; otherwise like a run of a cell."""

    code: str = Field(min_length=1)
    wait: float | None = Field(default=None, ge=0)


class RunAllBody(RunningBody):
    """The cells to run: a list, or a range; all code cells by default."""

    cells: list[str] | None = None
    from_: str | None = Field(default=None, alias="from")
    until: str | None = None
    stop_on_error: bool = True
    parameters: dict[str, Any] = Field(default_factory=dict)


class RunningHandler(StreamHandler, DocumentHandler):
    """Base of the routes that start runs."""

    _nb: Lease | None = None
    _rest: AsyncExitStack
    """Closed after the runs."""

    @asynccontextmanager
    async def calling(
        self, path: str, tool: str, body: RunningBody, need: Need = WRITE, **about: str
    ) -> AsyncIterator[Lease]:
        """Like `acting`, for a call that runs code. It lasts until the code has run, even if the
        answer was sent before; then it is in the journal, and a kernel that was started for it and
        should not be kept is shut down.
        """
        arguments = {**about, **body.model_dump(exclude_defaults=True, by_alias=True)}
        async with AsyncExitStack() as self._rest:
            if not body.keep_kernel:
                self._rest.push_async_exit(self._end_kernel)
            nb = await self._rest.enter_async_context(self.acting(path, tool, arguments, need))
            self._nb = nb
            yield nb
            if any(run.ended is None for run in nb.kernel.runs):
                self.requests.finish_later(_end_after(nb.kernel.runs, self._rest.pop_all()))

    async def _end_kernel(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._nb is None or (kind and issubclass(kind, asyncio.CancelledError)):
            return  # nothing started, or the server stops, and its kernels too
        try:
            await self._nb.kernel.end()
        except ToolError as error:
            log.warning("The kernel of `%s` keeps running: %s", self._nb.path, error)

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the turn of this call."""
        return self._act is not None and self._act.stop.requested

    async def follow(self, run: Run, wait: float | None, *, save: bool, stream: bool) -> bool:
        """Within the call that started it: streams the run, or waits for up to `wait` seconds.
        Returns whether the run has ended.
        """
        if self.is_stopped:  # while the kernel was starting
            await run.interrupt()
        if stream:
            await self.send_data(number_frames(self.ending_call(frames_of(run, saved=save))))
            self.store_answer_for_repeats(describe_run(run))
            return run.ended is not None
        return await run.wait(wait, saved=save)

    async def ending_call(
        self, frames: AsyncIterator[Mapping[str, Any]]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """These frames, then their error, if any; the call ends before its stream does. A client
        that disconnects only ends the stream.
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
            answer = {"message": failure.message, "reason": failure.reason, "status": status}
            yield {"type": "error", **failure.facts, **answer}


async def _end(call: AsyncExitStack, failure: ToolError | None) -> None:
    with suppress(ToolError):
        async with call:
            if failure is not None:
                raise failure


async def _end_after(runs: Sequence[Run], call: AsyncExitStack) -> None:
    async with call:
        for run in runs:
            await run.wait(saved=False)


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
        """Runs a cell; after `wait` seconds 202 with the outputs so far and a `run_id`."""
        async with self.calling(path, "run_cell", body, cell_id=cell_id) as nb:
            run = await nb.kernel.run(cell_id, timeout=body.timeout)
            ended = await self.follow(run, body.wait, save=body.save, stream=body.stream)
        if not body.stream:
            self.answer(describe_run(run), 200 if ended else 202)


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
        """Runs code in the notebook's kernel without a cell: the notebook does not change."""
        refuse_half_characters(body.code)
        async with self.calling(path, "run_code", body, READ) as nb:
            run = await nb.kernel.run_code(body.code, timeout=body.timeout)
            ended = await self.follow(run, body.wait, save=False, stream=body.stream)
        if not body.stream:
            self.answer(describe_run(run), 200 if ended else 202)


class VariablesHandler(DocumentHandler):
    """`GET notebooks/{path}/kernel/variables`"""

    @operation("execute", "kernels", query=("names",), gives=TextAnswer)
    async def get(self, path: str) -> None:
        """Describes the variables of the notebook's kernel, a line or more each; all of them if no
        `names` are given. Runs no code of the variables' classes."""
        names = [name for given in self.get_query_arguments("names") for name in given.split(",")]
        async with lease(self.work, path, READ) as nb:
            text = await nb.kernel.all_variables(list(filter(None, names)) or None)
        self.answer({"text": text})


class RunCellsHandler(RunningHandler):
    """`POST notebooks/{path}/run`"""

    @operation("execute", "kernels", body=RunAllBody, query=BY, media=(STREAM,), gives=RunsAnswer)
    async def post(self, path: str, body: RunAllBody) -> None:
        """Runs cells in order; a result each. Saves at the end, and sometimes on the way."""
        async with self.calling(path, "run_cells", body) as nb:
            plan = await _plan(nb, body)
            if body.stream:
                return await self._stream(self._in_order(nb, plan, body))
            runs = [run async for run in self._in_order(nb, plan, body)]
            for run in runs:
                await run.wait()
        self.answer({"cells": [describe_run(run) for run in runs], **self.turn_field()})

    async def _in_order(
        self, nb: Lease, plan: Sequence[Cell | str], body: RunAllBody
    ) -> AsyncIterator[Run]:
        """Yields each run of a cell when it starts; the next one starts when that has ended."""
        for each in plan:
            if self.is_stopped:
                return
            if isinstance(each, str):
                run = await nb.kernel.run_code(each)
                await run.wait(saved=False)
                if run.status != "ok":
                    why = output_text(run.outputs())
                    raise InvalidInput(f"The parameters could not be set: {why}")
                continue
            run = await nb.kernel.run(each.id, timeout=body.timeout)
            if self.is_stopped:  # while the kernel was starting
                await run.interrupt()
            yield run
            await run.wait(saved=False)
            if not run.may_continue(after_errors=not body.stop_on_error):
                return

    async def _stream(self, coming: AsyncIterator[Run]) -> None:
        """Streams the runs; a client that disconnects only ends the answer."""
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
                await driving  # raises what kept the first run from starting, for its own status
            frames = _frames_of_all(first, started, driving)
            await self.send_data(number_frames(self.ending_call(frames)))
            await asyncio.wait([driving])
            self.store_answer_for_repeats(
                {"cells": [describe_run(run) for run in runs], **self.turn_field()}
            )
        finally:
            driving.cancel()


async def _plan(nb: Lease, body: RunAllBody) -> list[Cell | str]:
    """The cells to run, with the code that sets the parameters in its place between them.

    Raises InvalidInput, CellNotFound.
    """
    ranged = body.from_ is not None or body.until is not None
    if body.cells is not None and ranged:
        raise InvalidInput("Give `cells`, or `from` and `until`, not both.")
    setting = assignments_of(body.parameters, await nb.kernel.language() if body.parameters else "")
    cells = await nb.code_cells(body.cells)
    if ranged:
        first = (await nb.cell(body.from_)).index if body.from_ is not None else 0
        last = (await nb.cell(body.until)).index if body.until is not None else inf
        if first > last:
            raise InvalidInput(f"Cell `{body.from_}` is below `{body.until}`: swap them.")
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
