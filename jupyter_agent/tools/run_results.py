"""What a model and programs see of runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jupyter_agent.document.cell import Output
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.outputs import cap_output
from jupyter_agent.legible import quoted_id
from jupyter_agent.text.images import Picture, pick_last
from jupyter_agent.text.notebook import images, output_text
from jupyter_agent.tools.base import Result
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.visibility import View
from jupyter_agent.workspace.workspace import Workspace

_WHOSE = {"user": "the user's own", "extension": "another extension's"}
_PICTURES = 3
"""Pictures per cell: the last ones."""
_PICTURES_OF_ALL = 5
"""Pictures for several cells."""
MAX_KEPT_CHARS = 200_000
"""Of the outputs stored with a call; the document has them all."""


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
    facts = [run_facts(run, MAX_KEPT_CHARS, mask) for run in runs]
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


def shares(wanted: Sequence[int], total: int) -> list[int]:
    """Divides `total`: each gets all it wants if there is enough, else an equal share."""
    given = dict.fromkeys(range(len(wanted)), 0)
    left = sorted(given, key=lambda index: wanted[index])
    while left:
        index = left.pop(0)
        given[index] = min(wanted[index], total // (len(left) + 1))
        total -= given[index]
    return list(given.values())


def run_facts(run: Run, most: int, mask: Callable[[str], str] = str) -> dict[str, Any]:
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
