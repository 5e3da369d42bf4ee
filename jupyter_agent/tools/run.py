"""Tools that run code in the notebook's kernel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.document.edits import refuse_half_characters
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.outputs import cap_output
from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.legible import quoted_id
from jupyter_agent.text.images import Picture, pick_last
from jupyter_agent.text.notebook import hidden, images, output_text
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Question, Result, Tool
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.visibility import View
from jupyter_agent.workspace.workspace import Workspace

MAX_PROGRESS_CHARS = 20_000
"""Of the outputs in a progress update."""
MAX_KEPT_CHARS = 200_000
"""Of the outputs stored with a call; the document has them all."""
DEFAULT_WAIT_S = 60.0
"""Seconds after which a call returns and its run continues."""
QUEUE_PATIENCE_S = 1.0
"""Seconds to wait for a queued run before reporting what keeps the kernel busy."""
_NOTHING = "There is no code cell to run."
_WHOSE = {"user": "the user's own", "extension": "another extension's"}
_PICTURES = 3
"""Pictures per cell: the last ones."""
_PICTURES_OF_ALL = 5
"""Pictures for several cells."""
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
            if run.ended is None or (self.stop_on_error and not run.may_continue):
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
        await progress({"text": "", **_run_facts(run, MAX_PROGRESS_CHARS)})


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
        if run.ended is None or not run.may_continue:
            break
    left = len(versions) - len(runs)
    return runs, f"Not run, as they come after it: {left} more." if left else ""


async def result_of(run: Run, work: Workspace, *, pictures: int = _PICTURES) -> Result:
    """The result of a run, ended or not, with at most so many `pictures`."""
    result = await results_of([run], work, pictures=pictures)
    return replace(result, facts=result.facts["cells"][0])


async def results_of(
    runs: Sequence[Run], work: Workspace, note: str = "", *, pictures: int = _PICTURES
) -> Result:
    """The result of several runs, ended or not; together they share the space of one. It has at
    most so many `pictures` of each.
    """
    views, lost = dict[Notebook, View](), list[str]()
    for notebook in dict.fromkeys(run.notebook for run in runs):
        lost.append(await work.lost_variables(notebook.path))
        views[notebook] = await work.visibility_of(notebook)
    space, mask = work.services.runs.result_chars, work.fence.mask
    # All of one moment: what a run adds later, or its end, is in the next result.
    heads = [_head(run) for run in runs]
    facts = [_run_facts(run, MAX_KEPT_CHARS, mask) for run in runs]
    outputs = [
        views[run.notebook].outputs(run.resolve_widgets(run.outputs()), of=run.cell_id)
        for run in runs
    ]
    shown = [output_text(each, limit=space, mask=mask) for each in outputs]
    texts, pictured = list[str](), list[Picture]()
    limits = shares([len(text) for text in shown], space)
    for head, each, text, limit in zip(heads, outputs, shown, limits, strict=True):
        if limit < len(text):
            text = output_text(each, limit=limit, mask=mask)
        fits, which = list[Picture](), ""
        if pictures and (every := images(each)):
            fits, which = await asyncio.to_thread(pick_last, every, pictures)
        pictured += fits
        fenced = work.fence.around(text) if text.strip() else ""
        texts.append("\n".join(filter(None, [head, fenced, which])))
    if len(pictured) > _PICTURES_OF_ALL:
        last = f"Of these cells' pictures, the last {_PICTURES_OF_ALL} are attached."
        note = f"{note} {last}".strip()
    return Result(
        text="\n\n".join(filter(None, [*texts, *lost, note])),
        facts={"cells": facts},
        images=pictured[-_PICTURES_OF_ALL:],
        changes=[change for run in runs for change in run.take_changes()],
    )


async def wait_until_saved(runs: Sequence[Run]) -> None:
    """Waits until the outputs of the ended runs are saved, in one save: the results then say if
    that failed, and the model takes longer than a save.
    """
    for run in runs:
        if run.ended is not None:
            await run.wait()


def shares(wanted: Sequence[int], total: int) -> list[int]:
    """Divides `total`: each gets all it wants if there is enough, else an equal share."""
    given = dict.fromkeys(range(len(wanted)), 0)
    left = sorted(given, key=lambda index: wanted[index])
    while left:
        index = left.pop(0)
        given[index] = min(wanted[index], total // (len(left) + 1))
        total -= given[index]
    return list(given.values())


def _run_facts(run: Run, most: int, mask: Callable[[str], str] = str) -> dict[str, Any]:
    return {**run.describe(outputs=False), "outputs": _newest(run.outputs(), most, mask)}


def _newest(outputs: Sequence[Output], most: int, mask: Callable[[str], str]) -> list[Output]:
    """The last outputs, as many as fit."""
    kept: list[Output] = []
    left = most
    for output in reversed(outputs):
        if output["output_type"] == "stream":
            output = {**output, "text": mask(output["text"])[-left:]}
        left -= len(json.dumps(output))
        if left <= 0 and kept:
            break
        kept.append(cap_output(output, most)[0])
    return kept[::-1]


def _head(run: Run) -> str:
    cell = f"Cell `{quoted_id(run.cell_id)}`" if run.cell_id is not None else "The code"
    number = f"[{run.execution_count}]" if run.execution_count is not None else ""
    note = f" {run.note}" if run.note else ""
    if run.ended is not None:
        count = f" {number}" if number or run.cell_id is not None else ""
        return f"{cell}{count}: {run.status}, {run.seconds:.1f} s.{note}"
    if run.status == "queued":
        return (
            f"{cell} is queued, run_id `{run.id}`.{_waits_for(run)} It"
            " starts by itself, and nothing is interrupted for it: answer, read or edit in the"
            f" meantime, or ask again with wait_for_run.{note}"
        )
    return (
        f"{cell} is running ({run.seconds:.0f} s so far), run_id `{run.id}`. It continues by"
        " itself: answer, read or edit in the meantime, ask again with wait_for_run, or stop it"
        f" with interrupt_kernel.{note} Outputs so far:"
    )


def _waits_for(run: Run) -> str:
    blocked = run.queue_status()
    if not blocked:
        if run.kernel is not None and run.kernel.state == "idle":
            return " The kernel has not started it: another extension may be using the kernel."
        return " The kernel is starting."
    cells = ", ".join(f"`{quoted_id(cell_id)}`" for cell_id in blocked["busy_cells"])
    what = f"cell {cells}" if cells else "code"
    whose = _WHOSE.get(blocked["blocked_by"], f"run `{blocked['blocked_by']}`")
    queued = ", ".join(f"`{run_id}`" for run_id in blocked["queued"])
    before = f" Queued before it: {queued}." if queued else ""
    seconds = blocked["busy_seconds"]
    return f" The kernel has been running {what} ({whose}) for {seconds:.0f} s.{before}"
