"""Tools that run code in the notebook's own kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.notebook.cell import Cell, Output
from jupyter_agent.notebook.render import images, output_text
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Question, Result, Tool
from jupyter_agent.workspace.runs import Run
from jupyter_agent.workspace.workspace import Workspace

NEWEST_CHARACTERS = 20_000
"""Of the outputs that are told while a cell runs."""
WAIT = 60.0
"""Seconds after which a run goes on without its caller."""


class RunTool(Tool):
    """A tool that makes a kernel do something."""

    effect: ClassVar[Effect] = "run"
    action: ClassVar[Action] = "run"
    needs: ClassVar[Sequence[Need]] = (("execute", "kernels"), ("write", "contents"))


class RunCell(RunTool):
    """Run a code cell and return its outputs. After `wait` seconds it returns a run_id while the
    cell goes on."""

    name: ClassVar[str] = "run_cell"

    cell_id: str
    wait: float = WAIT

    async def question(self, work: Workspace) -> Question:
        notebook = await work.notebook(self.notebook)
        cell = await notebook.cell(self.cell_id)
        return await question_to_run(work, self.notebook, [cell])

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        run = await work.run(self.notebook, self.cell_id)
        await follow(run, self.wait, progress)
        return result_of(run)


class RunCells(RunTool):
    """Run code cells in order (default: all), by default up to the first error."""

    name: ClassVar[str] = "run_cells"

    cell_ids: list[str] | None = None
    stop_on_error: bool = True

    async def question(self, work: Workspace) -> Question:
        cells = await work.code_cells(self.notebook, self.cell_ids)
        return await question_to_run(work, self.notebook, cells)

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        results: list[Result] = []
        for cell in await work.code_cells(self.notebook, self.cell_ids):
            run = await work.run(self.notebook, cell.id)
            await follow(run, WAIT, progress)
            results.append(result_of(run))
            if run.ended is None or (self.stop_on_error and run.status != "ok"):
                break
        if not results:
            raise InvalidInput("There is no code cell to run.")
        return Result(
            text="\n\n".join(result.text for result in results),
            facts={"cells": [dict(result.facts) for result in results]},
            images=[image for result in results for image in result.images][-5:],
            changes=[change for result in results for change in result.changes],
        )


class WaitForRun(Tool):
    """Wait for a run that goes on and return its outputs so far."""

    name: ClassVar[str] = "wait_for_run"
    effect: ClassVar[Effect] = "read"
    action: ClassVar[Action] = "read"
    needs: ClassVar[Sequence[Need]] = (("read", "contents"),)

    run_id: str
    wait: float = WAIT

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        run = work.rooms.runs.get(self.run_id, work.user)
        if run is None:
            raise ToolError(f"No run `{self.run_id}`. It may have ended before a restart.")
        await follow(run, self.wait, progress)
        return result_of(run)


class InterruptKernel(RunTool):
    """Interrupt what the kernel runs now."""

    name: ClassVar[str] = "interrupt_kernel"
    action: ClassVar[Action] = "interrupt"
    needs: ClassVar[Sequence[Need]] = (("write", "kernels"),)

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        kernel = await work.running_kernel(self.notebook)
        await kernel.interrupt()
        return Result(text=f"Interrupted. The kernel is {kernel.state}.")


class RestartKernel(RunTool):
    """Restart the kernel: all variables are lost."""

    name: ClassVar[str] = "restart_kernel"
    action: ClassVar[Action] = "restart"
    needs: ClassVar[Sequence[Need]] = (("write", "kernels"),)

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        kernel = await work.running_kernel(self.notebook)
        await kernel.restart()
        return Result(text="Restarted. No variable is left; run what you need again.")


async def question_to_run(work: Workspace, path: str | None, cells: Sequence[Cell]) -> Question:
    """The exact code of these cells, and in which kernel it would run."""
    kernel = await work.rooms.kernels.find(work.resolve(path))
    return Question(
        notebook=work.resolve(path),
        cell_id=cells[0].id if len(cells) == 1 else None,
        code="\n\n".join(cell.source for cell in cells),
        cells={cell.id: cell.version for cell in cells},
        kernel=f"{kernel.id}/{kernel.generation}" if kernel else "",
    )


async def follow(run: Run, wait: float, progress: Progress | None) -> None:
    """Waits for the end of a run, at most so many seconds, and tells what comes meanwhile."""
    if progress is None:
        await run.wait(wait)
        return
    async for _ in run.news(wait):
        await progress({"text": "", **run.describe(), "outputs": _newest(run.outputs())})


def result_of(run: Run) -> Result:
    """What is told of a run, ended or not."""
    facts = run.describe()
    return Result(
        text=_text(run, facts),
        facts=facts,
        images=images(run.outputs())[-3:],
        changes=run.report(),
    )


def _newest(outputs: Sequence[Output]) -> list[Output]:
    """The last outputs, as many as are worth sending again and again."""
    kept: list[Output] = []
    left = NEWEST_CHARACTERS
    for output in reversed(outputs):
        if output["output_type"] == "stream":
            output = {**output, "text": output["text"][-left:]}
        left -= len(json.dumps(output))
        if left <= 0 and kept:
            break
        kept.append(output)
    return kept[::-1]


def _text(run: Run, facts: Mapping[str, Any]) -> str:
    shown = output_text(run.outputs())
    number = f"[{run.execution_count}]" if run.execution_count is not None else ""
    head = f"Cell `{run.cell_id}` {number}: {run.status}, {run.seconds:.1f} s."
    if run.ended is None:
        waits = " behind what the user runs" if facts.get("blocked_by") == "user" else ""
        head = (
            f"Cell `{run.cell_id}` is {run.status}{waits} ({run.seconds:.0f} s so far), run_id"
            f" `{run.id}`. It goes on by itself: answer, read or edit meanwhile, ask again with"
            " wait_for_run, or stop it with interrupt_kernel. Outputs so far:"
        )
    note = f" {run.note}" if run.note else ""
    return f"{head}{note}\n{shown}".rstrip()
