"""Verifies a notebook: runs a copy from the top in a fresh kernel and compares the outputs."""

from __future__ import annotations

import ast
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from jupyter_agent.analysis.names import names_of
from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.outputs import OutputList
from jupyter_agent.errors import Conflict, InvalidInput, KernelUnavailable
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.outputs import Discarded
from jupyter_agent.kernel.reply import ExecutionReply
from jupyter_agent.plugs.verify.compare import compare
from jupyter_agent.text.outputs import join_lines
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.parameters import INJECTED, PARAMETERS, assignments_of
from jupyter_agent.workspace.verified import code_hash
from jupyter_agent.workspace.workspace import Services

SKIP = "skip-execution"
"""Tag of cells that are skipped, as in nbclient."""

_VERSIONS = (
    "(lambda modules: {{name: version for name in {!r} for version in "
    "[vars(modules.get(name, object)).get('__version__')] if type(version) is str}})"
    "(__import__('sys').modules)"
)
_LOOK_S = 5.0
"""Seconds that reading the package versions may take."""
_NOTES = 1_000
"""Characters beyond their limit that outputs need for a note on omitted text."""

CellStatus: TypeAlias = Literal["same", "close", "differs", "error", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A snapshot of the notebook for a verification, unsaved typing included."""

    notebook: Notebook
    kernel_name: str
    language: str
    cells: Sequence[Cell]
    """The non-empty code cells, in order."""

    @property
    def runs(self) -> Sequence[Cell]:
        """The cells that are not skipped by their tag."""
        return [cell for cell in self.cells if SKIP not in cell.tags]

    @property
    def versions(self) -> Mapping[str, str]:
        """Cell id -> version of the cells that run, for comparison with the approved ones."""
        return {cell.id: cell.version for cell in self.runs}


@dataclass(frozen=True, kw_only=True)
class CellVerdict:
    """The result of one cell."""

    cell: Cell
    status: CellStatus
    why: str = ""
    not_compared: str = ""
    """The parts that could not be compared, in words."""
    outputs: Sequence[Output] = ()
    """Its fresh outputs."""

    def describe(self) -> dict[str, str]:
        """The result in the form of docs/api.md."""
        result = {"cell_id": self.cell.id, "status": self.status, "why": self.why}
        return {**result, "not_compared": self.not_compared} if self.not_compared else result


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The results of all cells."""

    path: str
    kernel_name: str
    cells: Sequence[CellVerdict]
    seconds: float
    runs: int
    """Number of fresh kernels: two if something differed and a second one could be started."""
    at: datetime
    """Start time."""
    packages: Mapping[str, str]
    """Name -> version of imported packages, if their modules have a version; Python only."""

    @property
    def code_hash(self) -> str:
        """The hash of all cells: if the notebook has the same, it is still verified."""
        return code_hash([verdict.cell for verdict in self.cells])

    @property
    def ok(self) -> bool:
        """Whether all cells, except those tagged to be skipped, ran and showed the same."""
        return all(
            verdict.status == "same" or (verdict.status == "skipped" and SKIP in verdict.cell.tags)
            for verdict in self.cells
        )

    @property
    def lacks_second_run(self) -> bool:
        """Whether something differed but no second kernel could be started."""
        differs = any(verdict.status in ("close", "differs") for verdict in self.cells)
        return differs and self.runs == 1

    @property
    def counts(self) -> dict[str, int]:
        """The number of cells, and how many of them showed the same."""
        same = sum(verdict.status == "same" for verdict in self.cells)
        return {"cells": len(self.cells), "same": same}

    def describe(self) -> dict[str, Any]:
        """The answer in docs/api.md."""
        return {
            "ok": self.ok,
            "cells": [verdict.describe() for verdict in self.cells],
            "seconds": round(self.seconds, 3),
            "runs": self.runs,
            "at": self.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "kernel": self.kernel_name,
            "packages": dict(self.packages),
            "hash": self.code_hash,
        }


async def plan(nb: Lease, kernel: str | None = None) -> Plan:
    """What `verify` would run now, in a kernel with this kernelspec name, or that of the running
    kernel, or the notebook's. Raises KernelNotInstalled.
    """
    now, running = await nb.read(), await nb.kernel.find()
    chosen = kernel or (running.name if running else now.kernel_name)
    spec = await nb.work.services.kernels.kernelspec(chosen)
    code = [cell for cell in now.cells if cell.type == "code" and cell.source.strip()]
    return Plan(
        notebook=now.notebook, kernel_name=spec["name"], language=spec["language"], cells=code
    )


async def verify(
    nb: Lease,
    on_cell: Callable[[Cell], Awaitable[None]] | None = None,
    *,
    kernel: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Verification:
    """Run a copy of the notebook from the top in a fresh kernel, and compare the outputs.

    If some differ, the cells down to the last such one run again in a second fresh kernel: outputs
    that differ between these two runs are volatile and do not count.

    The user's kernel, document and file stay unchanged, but effects of the code outside of the
    kernel are real. After an error, or when the time is up (`Services.verify_seconds` for all cells
    together), the remaining cells are skipped. Cancellation interrupts and ends the kernel.

    `on_cell` is called before each cell; `kernel` names a kernelspec other than the notebook's.
    `parameters` are set as in papermill: after the cell tagged `parameters`, replacing those of an
    earlier run, or before the first cell.

    Raises KernelNotInstalled, KernelUnavailable, InvalidInput for parameters that cannot be set,
    and Conflict if the cells are not the ones that a person has approved.
    """
    work, planned = nb.work, await plan(nb, kernel)
    setting = assignments_of(parameters or {}, planned.language)
    if work.approved and dict(work.approved) != planned.versions:
        changed = "Cells changed since this was allowed, so nothing was run."
        raise Conflict(f"{changed} Call again to request approval.")
    await work.need(("execute", "kernels"), ("write", "kernels"))
    began, at = time.monotonic(), datetime.now(UTC)
    seconds = work.services.verify_seconds
    first = await _rerun(work.services, planned, planned.runs, setting, seconds, on_cell)
    cells = await asyncio.to_thread(first.verdicts)  # outputs may be large
    doubtful = [verdict.cell for verdict in cells if verdict.status in ("close", "differs")]
    second: _Rerun | None = None
    if doubtful:
        until = planned.runs.index(doubtful[-1]) + 1
        with suppress(KernelUnavailable):
            second = await _rerun(
                work.services,
                planned,
                planned.runs[:until],
                setting,
                seconds - first.spent,
                on_cell,
            )
    if second is not None:
        cells = await asyncio.to_thread(first.verdicts, second)
    done = Verification(
        path=planned.notebook.path,
        kernel_name=planned.kernel_name,
        cells=cells,
        seconds=time.monotonic() - began,
        runs=1 if second is None else 2,
        at=at,
        packages=first.packages,
    )
    if not parameters:
        work.services.verified.note(done.path, {**done.describe(), **done.counts})
    return done


async def _rerun(
    services: Services,
    planned: Plan,
    cells: Sequence[Cell],
    assignments: str,
    seconds: float,
    on_cell: Callable[[Cell], Awaitable[None]] | None,
) -> _Rerun:
    async with services.fresh.kernel(planned.notebook.path, planned.kernel_name) as kernel:
        await kernel.connect()
        limit = services.runs.output_limit
        rerun = _Rerun(kernel, planned, assignments, seconds, services.verify_seconds, limit)
        await rerun.run(cells, on_cell)
        await rerun.look_at_packages()
        return rerun


class _CellOutputs(OutputList):
    """The sink of one cell, which is not part of a document."""

    def __init__(self, earlier: Sequence[_CellOutputs], limit: int) -> None:
        super().__init__(limit)
        self._earlier = earlier

    async def prepare(self) -> bool:
        return True

    def on_start(self) -> None: ...

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        for shown in (*self._earlier, self):
            shown.update(display_id, data, metadata)


class _Rerun:
    """Runs the cells of a copy one after the other in one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        planned: Plan,
        assignments: str,
        left: float,
        seconds: float,
        limit: int,
    ) -> None:
        self._kernel = kernel
        self._planned = planned
        self._assignments = assignments
        self._seconds = seconds
        self._left = left
        self.spent = 0.0
        """Total run time of the cells in seconds."""
        self._limit = limit
        self._results: dict[str, tuple[_CellOutputs, ExecutionReply]] = {}
        self._skip_reason = ""
        """Why the remaining cells are skipped."""
        self.packages: Mapping[str, str] = {}

    async def run(
        self, cells: Sequence[Cell], on_cell: Callable[[Cell], Awaitable[None]] | None
    ) -> None:
        """Run the cells. Outputs are compared later, since cells may change earlier outputs."""
        began = time.monotonic()
        try:
            await self._run(cells, on_cell, began + self._left)
        finally:
            self.spent = time.monotonic() - began

    async def _run(
        self,
        cells: Sequence[Cell],
        on_cell: Callable[[Cell], Awaitable[None]] | None,
        until: float,
    ) -> None:
        tags = {tag for cell in self._planned.runs for tag in cell.tags}
        if self._assignments and not tags & {PARAMETERS, INJECTED}:
            await self._set_parameters(self._left)
        for cell in cells:
            left = until - time.monotonic()
            if left <= 0:
                self._skip_reason = self._skip_reason or self._too_long
            if self._skip_reason:
                return
            if on_cell is not None:
                await on_cell(cell)
            limit = await asyncio.to_thread(output_limit_for, cell.outputs, self._limit)
            shown = _CellOutputs([earlier for earlier, _ in self._results.values()], limit)
            source = cell.source
            if self._assignments and cell.injected:
                source = self._assignments
            reply = await self._kernel.execute(source, shown, timeout=left)
            if self._assignments and PARAMETERS in cell.tags and INJECTED not in tags:
                await self._set_parameters(left)
            self._results[cell.id] = shown, reply
            if reply.status != "ok" and not _may_fail(cell, reply):
                self._skip_reason = f"An earlier cell failed (`{cell.id}`)."

    async def look_at_packages(self) -> None:
        """Read the versions of the packages that the cells import, without running their code."""
        if self._planned.language != "python" or self._skip_reason:
            return
        imported = {
            module.partition(":")[0].partition(".")[0]
            for cell in self._planned.runs
            for module in {*names_of(cell.source).imported.values(), *names_of(cell.source).stars}
        }
        expression = _VERSIONS.format(sorted(imported - {""}))
        reply = await self._kernel.execute(
            "", Discarded(), silent=True, user_expressions={"it": expression}, timeout=_LOOK_S
        )
        answer = reply.user_expressions.get("it", {})
        if answer.get("status") == "ok":
            self.packages = ast.literal_eval(answer["data"]["text/plain"])

    async def _set_parameters(self, seconds: float) -> None:
        reply = await self._kernel.execute(self._assignments, Discarded(), timeout=seconds)
        if reply.error is not None:
            raise InvalidInput(f"The parameters could not be set: {reply.error['evalue']}.")

    def verdicts(self, second: _Rerun | None = None) -> list[CellVerdict]:
        """The result of each cell, taking a second run into account if there was one."""
        return [self._verdict(cell, second) for cell in self._planned.cells]

    def _outputs(self, cell: Cell) -> list[Output] | None:
        """The outputs of the cell; None for a cell that did not run to its end."""
        shown, reply = self._results.get(cell.id, (None, None))
        if shown is None or reply is None or not (reply.status == "ok" or _may_fail(cell, reply)):
            return None
        return [entry.output for entry in shown.entries(complete=True)]

    @property
    def _too_long(self) -> str:
        return f"The limit of {self._seconds:g} s for the whole notebook was reached."

    def _verdict(self, cell: Cell, second: _Rerun | None) -> CellVerdict:
        if SKIP in cell.tags:
            return CellVerdict(cell=cell, status="skipped", why=f"Tagged `{SKIP}`.")
        if cell.id not in self._results:
            return CellVerdict(cell=cell, status="skipped", why=self._skip_reason)
        shown, reply = self._results[cell.id]
        outputs = [entry.output for entry in shown.entries(complete=True)]
        if reply.status != "ok" and not _may_fail(cell, reply):
            return CellVerdict(cell=cell, status="error", why=self._failure(reply), outputs=outputs)
        if cell.execution_count is None and not cell.outputs:
            why = "It runs; it was never run before, so there is nothing to compare."
            return CellVerdict(cell=cell, status="same", why=why, outputs=outputs)
        again = None if second is None else second._outputs(cell)
        comparison = compare(cell.outputs, outputs, again, source=cell.source)
        return CellVerdict(
            cell=cell,
            status=comparison.likeness,
            why=comparison.why,
            not_compared=comparison.not_compared,
            outputs=outputs,
        )

    def _failure(self, reply: ExecutionReply) -> str:
        if reply.status == "timeout":
            return f"{self._too_long} {reply.note}".strip()
        if reply.error is not None:
            return f"{reply.error['ename']}: {reply.error['evalue']}"
        return reply.note or f"The code ended as {reply.status}."


def _may_fail(cell: Cell, reply: ExecutionReply) -> bool:
    return cell.may_raise and reply.raised_error


def output_limit_for(stored: Sequence[Output], limit: int) -> int:
    """Output limit in characters for a fresh run of a cell, so that it is comparable to the stored
    outputs: ours, or a larger one if another program stored more than ours allows.
    """
    size = _size(stored)
    if size < limit // 2:
        return limit
    within = OutputList(limit + _NOTES)
    for output in stored:
        if output["output_type"] == "stream":
            within.stream(output["name"], join_lines(output["text"]))
        else:
            within.display(output)
    truncated_size = _size([entry.output for entry in within.entries(complete=True)])
    return limit if truncated_size >= size else max(limit, 2 * size)


def _size(outputs: Sequence[Output]) -> int:
    return len(json.dumps(outputs))
