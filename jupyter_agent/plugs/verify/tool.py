"""Checks that the notebook runs from the top, in a fresh kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar, get_args

from jupyter_agent.document.cell import Cell
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.plugs.verify.verification import (
    SKIP,
    CellStatus,
    CellVerdict,
    Verification,
    plan,
    verify,
)
from jupyter_agent.text.notebook import head, hidden
from jupyter_agent.text.outputs import output_text
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Question, Result, Tool
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.visibility import View

_ERROR_CHARACTERS = 2_000
MAX_LISTED_CELLS = 20
"""Cells that are listed one by one."""


class VerifyNotebook(Tool):
    """Run a copy of the notebook from the top in a fresh kernel and compare outputs: a verdict per
    cell. Always use it before you say that a notebook runs from top to bottom, or is reproducible.
    The notebook and its kernel stay as they are; effects on files and network are real."""

    name: ClassVar[str] = "verify_notebook"
    effect: ClassVar[Effect] = "run"
    action: ClassVar[Action] = "run"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Run a copy of {notebook|the notebook} from the top",
            "Checking {notebook|the notebook}",
            "Checked {notebook|the notebook}",
            scope="run copies from the top",
        ),
    )
    icon: ClassVar[Icon] = "run"
    shows_result: ClassVar[bool] = True
    needs: ClassVar[Sequence[Need]] = (
        ("read", "contents"),
        ("execute", "kernels"),
        ("write", "kernels"),
    )

    kernel: str | None = None
    """Name of another kernel"""

    async def cells_to_run(self, nb: Lease) -> Sequence[Cell]:
        return (await plan(nb, self.kernel)).runs

    async def question(self, nb: Lease) -> Question:
        planned = await plan(nb, self.kernel)
        codes = {cell.id: cell.source for cell in planned.runs}
        return Question(
            notebook=planned.notebook.path,
            code="\n\n".join(codes.values()),
            codes=codes,
            cells=planned.versions,
            kernel=f"fresh {planned.kernel_name}",
            whole=True,
            clusters=await nb.kernel.clusters(codes.values()),
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        async def begins(cell: Cell) -> None:
            if progress is not None:
                await progress({"text": "", "running": cell.id})

        done = await verify(nb, begins, kernel=self.kernel)
        view = await nb.work.visibility_of((await nb.look()).notebook)
        ran = [verdict.cell for verdict in done.cells if SKIP not in verdict.cell.tags]
        counts = (count for count, cell in enumerate(ran, start=1) if hidden(cell))
        view = replace(view, hidden_counts=frozenset(counts))  # counts of the fresh kernel
        facts = {**done.describe(), "notebook": done.path, "summary": _summary(done)}
        facts["cells"] = [
            {
                **told,
                "why": _reason(verdict, view),
                **({"not_compared": _not_compared(verdict, view)} if verdict.not_compared else {}),
            }
            for told, verdict in zip(facts["cells"], done.cells, strict=True)
        ]
        return Result(text=_text(done, view), facts=facts)


def _summary(done: Verification) -> list[dict[str, Any]]:
    """In a few words, for people."""
    count = Counter(verdict.status for verdict in done.cells)
    if done.ok:
        return [
            phrase(
                ("the cell gives the same results", "all {count} cells give the same results"),
                count=count["same"],
            )
        ]
    found = (
        phrase(("{count} differs", "{count} differ"), count=count["differs"]),
        phrase(("{count} is close", "{count} are close"), count=count["close"]),
        phrase("{count} failed", count=count["error"]),
    )
    return [each for each in found if each["values"]["count"]]


def _text(done: Verification, view: View) -> str:
    """One line if all is well; else the differences, cell by cell."""
    count = Counter(verdict.status for verdict in done.cells)
    kernels = "kernel" if done.runs == 1 else "kernel, twice"
    where = f"in a fresh `{quoted(done.kernel_name)}` {kernels}, {done.seconds:.1f} s"
    if done.ok:
        skipped = f" {count['skipped']} tagged cells were left out." if count["skipped"] else ""
        text = f"All {count['same']} code cells run and show the same ({where}).{skipped}"
        return "\n".join(_shorten([text, *_left_out(done, view)]))
    counts = ", ".join(f"{count[state]} {state}" for state in get_args(CellStatus) if count[state])
    lines = [f"Of {len(done.cells)} code cells {counts} ({where})."]
    if done.lacks_second_run:
        lines.append(
            "A second run was not possible, so what differs may only be different in every run."
        )
    for status, group in groupby(done.cells, key=lambda verdict: verdict.status):
        verdicts = list(group)
        if status == "skipped":
            lines.append(view.fence.line(_skipped_line(verdicts)))
        elif status != "same":
            lines += [_failure_line(verdict, view) for verdict in verdicts]
    return "\n".join(_shorten([*lines, *_left_out(done, view)]))


def _shorten(lines: Sequence[str]) -> list[str]:
    rest = len(lines) - 1 - MAX_LISTED_CELLS
    return [*lines[: MAX_LISTED_CELLS + 1], *([f"... {rest} more ..."] if rest > 0 else [])]


def _left_out(done: Verification, view: View) -> list[str]:
    """The parts that were not compared in cells that are otherwise the same."""
    return [
        f"{head(verdict.cell, fence=view.fence)} not compared: "
        f"{view.fence.inside(_not_compared(verdict, view))}"
        for verdict in done.cells
        if verdict.not_compared and verdict.status == "same"
    ]


def _failure_line(verdict: CellVerdict, view: View) -> str:
    title = head(verdict.cell, fence=view.fence)
    errors = [output for output in verdict.outputs if output["output_type"] == "error"]
    shared = view.shares_all(verdict.outputs, verdict.cell.id)
    if verdict.status != "error" or not errors or not shared:
        return f"{title} {verdict.status}: {view.fence.inside(_reason(verdict, view))}"
    shown = output_text(errors, limit=_ERROR_CHARACTERS, mask=view.fence.mask)
    return f"{title} error: {view.fence.inside(shown)}"


def _skipped_line(verdicts: Sequence[CellVerdict]) -> str:
    ids = ", ".join(f"`{quoted_id(verdict.cell.id)}`" for verdict in verdicts[:MAX_LISTED_CELLS])
    more = ", ..." if len(verdicts) > MAX_LISTED_CELLS else ""
    return f"Skipped {ids}{more}: {verdicts[0].why}"


def _not_compared(verdict: CellVerdict, view: View) -> str:
    shown = [*verdict.cell.outputs, *verdict.outputs]
    if hidden(verdict.cell):
        return "(hidden)"
    if view.shares_all(shown, verdict.cell.id) and not view.quotes(verdict.not_compared):
        return view.redactor.mask_fragments(verdict.not_compared)
    return "(what it shows is not shared with you)"


def _reason(verdict: CellVerdict, view: View) -> str:
    """The reason, without what models may not see; our own sentences are always shown."""
    if verdict.why and hidden(verdict.cell):
        return "(hidden)"
    shown = [*verdict.cell.outputs, *verdict.outputs]
    ours = verdict.status in ("same", "skipped") or (
        verdict.status == "error" and not verdict.outputs
    )
    if ours or (view.shares_all(shown, verdict.cell.id) and not view.quotes(verdict.why)):
        return view.redactor.mask_fragments(verdict.why)
    return "(what it shows is not shared with you)"
