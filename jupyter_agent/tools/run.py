"""Tools that run code in the notebook's kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from jupyter_agent.document.cell import Cell
from jupyter_agent.document.edits import refuse_half_characters
from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.legible import quoted_id
from jupyter_agent.text.notebook import hidden
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Question, Result, Tool
from jupyter_agent.tools.run_results import result_of, results_of, run_facts
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.workspace import Workspace

MAX_PROGRESS_CHARS = 20_000
"""Of the outputs in a progress update."""
DEFAULT_WAIT_S = 60.0
"""Seconds after which a call returns and its run continues."""
QUEUE_PATIENCE_S = 1.0
"""Seconds to wait for a queued run before reporting what keeps the kernel busy."""
_NOTHING = "There is no code cell to run."
INTERRUPT_GRACE_S = 5.0
"""Seconds for interrupted code to end before it is reported as still busy."""


class RunTool(Tool):
    """A tool that acts on a kernel."""

    icon: ClassVar[Icon] = "run"
    shows_result: ClassVar[bool] = True
    effect: ClassVar[Effect] = "run"
    action: ClassVar[Action] = "run"
    needs: ClassVar[Sequence[Need]] = (("execute", "kernels"), ("write", "contents"))


class RunCode(RunTool):
    """Run code in the kernel without a cell: the person sees the output, the notebook stays the
    same. Use it to look: shapes, nulls, a few rows; what belongs to the work goes into cells. Its
    variables stay: overwrite none of the person's."""

    name: ClassVar[str] = "run_code"
    in_kernel: ClassVar[bool] = True
    like: ClassVar[frozenset[str]] = frozenset({"run_cell", "run_cells"})
    words: ClassVar[Sequence[Words]] = (
        Words("Run code", "Running code", "Ran code", scope="run any code"),
    )
    icon: ClassVar[Icon] = "code"

    code: str
    wait: float = DEFAULT_WAIT_S
    """Seconds to wait; then you get a run_id"""

    async def cells_to_run(self, nb: Lease) -> Sequence[Cell]:
        return [Cell(id="", index=-1, type="code", source=self.code)]

    async def question(self, nb: Lease) -> Question:
        self._refuse_nothing()
        return Question(
            notebook=nb.path, code=self.code, clusters=await nb.kernel.clusters([self.code])
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        self._refuse_nothing()
        run = await nb.kernel.run_code(self.code)
        await follow(run, self.wait, progress)
        return await result_of(run, nb.work)

    def _refuse_nothing(self) -> None:
        if not self.code.strip():
            raise InvalidInput("`code` is empty: there is nothing to run.")
        refuse_half_characters(self.code)


class RunCells(RunTool):
    """Run code cells in the given order up to the first error, and return outputs, pictures and
    errors. Not for what you write: use `run` of create_cells and edit_cells. Do not run again only
    to see outputs."""

    name: ClassVar[str] = "run_cells"
    former_names: ClassVar[tuple[str, ...]] = ("run_cell",)
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Run {ran|all cells}",
            "Running {ran|all cells}",
            "Ran {ran|all cells}",
            scope="run any cells",
        ),
    )
    in_kernel: ClassVar[bool] = True

    cell_ids: list[str] | None = None
    """Default: all from the top"""
    stop_on_error: bool = True
    wait: float = DEFAULT_WAIT_S
    """Seconds to wait for each; then you get a run_id"""

    @property
    def acts_on(self) -> Sequence[str]:
        return self.cell_ids or ()

    async def cells_to_run(self, nb: Lease) -> Sequence[Cell]:
        return [cell for cell in await nb.code_cells(self.cell_ids) if not hidden(cell)]

    async def question(self, nb: Lease) -> Question:
        cells = await nb.code_cells(self.cell_ids)
        shown = [cell for cell in cells if not hidden(cell)]
        if not shown:
            raise InvalidInput(_NOTHING)
        question = await question_to_run(nb, shown)
        return replace(question, whole=self.cell_ids is None)

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        runs: list[Run] = []
        await nb.stale()
        cells = await nb.code_cells(self.cell_ids)
        left_out = [cell.id for cell in cells if hidden(cell)]
        for cell in cells:
            if hidden(cell):
                continue
            run = await nb.kernel.run(cell.id)
            runs.append(run)
            await follow(run, self.wait, progress)
            if run.ended is None or not run.may_continue(after_errors=not self.stop_on_error):
                break
        if not runs:
            raise InvalidInput(_NOTHING)
        kept_back = ", ".join(map(quoted_id, left_out))
        note = f"Not run, as they are hidden from you: {kept_back}." if left_out else ""
        await wait_until_saved(runs)
        return (await results_of(runs, nb.work, note)).with_stale(await nb.newly_stale())


class WaitForRun(Tool):
    """Wait for a run that continued after its call, and return its outputs. Only if you need them;
    else answer, and say that it runs. Choose a long `wait` rather than many calls."""

    name: ClassVar[str] = "wait_for_run"
    effect: ClassVar[Effect] = "read"
    action: ClassVar[Action] = "read"
    needs: ClassVar[Sequence[Need]] = (("read", "contents"),)

    names_notebook: ClassVar[bool] = False
    words: ClassVar[Sequence[Words]] = (
        Words("Wait for a run", "Waiting for a run", "Waited for a run"),
    )
    icon: ClassVar[Icon] = "run"
    shows_result: ClassVar[bool] = True

    run_id: str
    wait: float = DEFAULT_WAIT_S
    """Most seconds to wait"""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        run = await nb.work.services.runs.find(self.run_id, nb.work.user)
        if run is None:
            raise ToolError(f"No run `{self.run_id}`. It may be from before a restart.")
        await follow(run, self.wait, progress, patience=self.wait)
        await wait_until_saved([run])
        return await result_of(run, nb.work)


class KernelTool(RunTool):
    """A tool that acts on the kernel itself."""

    needs: ClassVar[Sequence[Need]] = (("write", "kernels"),)

    @property
    def in_one_kernel(self) -> bool:
        return True

    async def question(self, nb: Lease) -> Question:
        await nb.kernel.require()
        return await super().question(nb)


class InterruptKernel(KernelTool):
    """Interrupt what the kernel runs, like Ctrl-C: variables stay. For a run that hangs or is not
    wanted; the person is asked unless it is yours. Only restart_kernel ends code that does not
    react."""

    name: ClassVar[str] = "interrupt_kernel"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Interrupt the kernel",
            "Interrupting the kernel",
            "Interrupted the kernel",
            scope="interrupt the kernel",
        ),
    )
    icon: ClassVar[Icon] = "stop"
    action: ClassVar[Action] = "interrupt"

    async def current_action(self, nb: Lease) -> Action:
        """Stopping the turn's own run is allowed; interrupting another run is a different
        action."""
        kernel = await nb.kernel.find()
        runs = nb.work.services.runs.in_kernel(kernel) if kernel else []
        return "stop" if runs and all(_own(run, nb.work) for run in runs) else self.action

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        kernel = await nb.kernel.require()
        runs = nb.work.services.runs.in_kernel(kernel)
        if runs and all(_own(run, nb.work) for run in runs):
            for run in runs:
                await run.interrupt()  # only this run, in case it ends just now
        else:
            await kernel.interrupt()
        for run in runs:
            await run.wait(INTERRUPT_GRACE_S)
        ended = [run for run in runs if run.ended is not None]
        result = await results_of(ended, nb.work, pictures=0)
        text = f"Interrupted. The kernel is {kernel.state}."
        if len(ended) < len(runs):
            text = (
                f"The code did not react to the interrupt within {INTERRUPT_GRACE_S:g} s and still "
                "runs. restart_kernel ends it, and all variables are lost."
            )
        return replace(result, text="\n\n".join(filter(None, [text, result.text])))


class RestartKernel(KernelTool):
    """Restart the kernel: all variables are lost. For a kernel that hangs, or to reload a package;
    not to tidy up, nor to test from scratch. The person is asked."""

    name: ClassVar[str] = "restart_kernel"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Restart the kernel",
            "Restarting the kernel",
            "Restarted the kernel",
            scope="restart the kernel",
        ),
    )
    icon: ClassVar[Icon] = "refresh"
    action: ClassVar[Action] = "restart"

    kernel: str | None = None
    """Name of one to start if none runs"""

    async def question(self, nb: Lease) -> Question:
        if not await self._starts(nb):
            lost = phrase("all variables are lost")
            return replace(await super().question(nb), remarks=(lost,))
        spec = await nb.work.services.kernels.kernelspec(self.kernel)
        return Question(notebook=nb.path, kernelspec=spec["name"])

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        if await self._starts(nb):
            kernel = await nb.kernel.start(self.kernel)
            await kernel.connect()
            nb.work.reads.kernels[nb.path] = kernel.life
            return Result(text=f"Started `{kernel.name}`; run what you need.")
        kernel = await nb.kernel.require()
        await kernel.restart()
        nb.work.reads.kernels[nb.path] = kernel.life
        return Result(text="Restarted. No variable is left; run what you need again.")

    async def _starts(self, nb: Lease) -> bool:
        """Whether it starts a kernel of that name. Raises InvalidInput if another kernel runs."""
        running = await nb.kernel.find()
        if self.kernel and running is not None and running.name != self.kernel:
            raise InvalidInput(
                f"The kernel `{running.name}` runs for `{nb.path}`. Leave `kernel` out to restart "
                "it; the person can choose another."
            )
        return bool(self.kernel) and running is None


def _own(run: Run, work: Workspace) -> bool:
    return work.turn_id is not None and run.turn_id == work.turn_id


async def question_to_run(nb: Lease, cells: Sequence[Cell]) -> Question:
    """The question with the exact code of these cells."""
    return Question(
        notebook=nb.path,
        cell_id=cells[0].id if len(cells) == 1 else None,
        code="\n\n".join(cell.source for cell in cells),
        codes=_by_cell(cells),
        cells={cell.id: cell.version for cell in cells},
        clusters=await nb.kernel.clusters(cell.source for cell in cells),
    )


def _by_cell(cells: Sequence[Cell]) -> dict[str, str]:
    """Their code by id; empty for one cell alone, or if one would run twice."""
    codes = {cell.id: cell.source for cell in cells}
    return codes if len(codes) == len(cells) > 1 else {}


async def follow(
    run: Run, wait: float, progress: Progress | None, *, patience: float = QUEUE_PATIENCE_S
) -> None:
    """Waits up to `wait` seconds for the end of a run and reports progress.

    Behind other runs, or code of the user, it waits no longer than `patience`.
    """
    if progress is not None and run.queue_status():
        await progress({"text": "", **run.describe()})
    until = asyncio.get_running_loop().time() + wait
    if not await run.wait_started(wait, patience):
        return
    left = max(0.0, until - asyncio.get_running_loop().time())
    if progress is None:
        await run.wait(left, saved=False)
        return
    async for _ in run.updates(left):
        await progress({"text": "", **run_facts(run, MAX_PROGRESS_CHARS)})


async def run_written(
    nb: Lease, versions: Mapping[str, str], progress: Progress | None
) -> tuple[list[Run], str]:
    """Runs cells that were just written, in this order, up to the first that fails; each only in
    that version. Returns the runs, and why the others did not start; never raises ToolError, since
    the cells stay written.
    """
    runs: list[Run] = []
    for cell_id, version in versions.items():
        try:
            run = await nb.kernel.run(cell_id, expect=version)
        except ToolError as error:
            shown_error = nb.work.redact_error((await nb.view()).error(error), cell_id)
            return runs, f"Not run: {shown_error.message}"
        runs.append(run)
        await follow(run, DEFAULT_WAIT_S, progress)
        if run.ended is None or not run.may_continue():
            break
    left = len(versions) - len(runs)
    return runs, f"Not run, as they come after it: {left} more." if left else ""


async def wait_until_saved(runs: Sequence[Run]) -> None:
    """Waits until the outputs of the ended runs are saved, in one save: the results then say if
    that failed, and the model takes longer than a save.
    """
    for run in runs:
        if run.ended is not None:
            await run.wait()
