"""Whether a notebook works: a copy of it, run from the top in a kernel of its own."""

from __future__ import annotations

import ast
import asyncio
import json
import keyword
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Literal, TypeAlias

from jupyter_agent.analysis.compare import compare
from jupyter_agent.analysis.names import names_of
from jupyter_agent.document.carrier import Saved
from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.outputs import OutputList
from jupyter_agent.errors import Conflict, InvalidInput, KernelUnavailable
from jupyter_agent.kernel.execution import ExecutionReply
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.outputs import Discarded
from jupyter_agent.text.outputs import join_lines
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.verified import code_hash, read_record, with_record
from jupyter_agent.workspace.workspace import Services

SKIP = "skip-execution"
"""Tag of cells that are left out, as nbclient leaves them out."""

_VERSIONS = (
    "(lambda modules: {{name: version for name in {!r} for version in "
    "[vars(modules.get(name, object)).get('__version__')] if type(version) is str}})"
    "(__import__('sys').modules)"
)
_LOOK_S = 5.0
"""Seconds that a look at the versions may take."""
_NOTES = 1_000
"""Characters that outputs take beyond their limit to say what was left out."""

INJECTED = "injected-parameters"
"""Tag of the cell in which papermill left those of an earlier run."""
PARAMETERS = "parameters"
"""Tag of the cell after which given parameters are set, as papermill does."""

CellStatus: TypeAlias = Literal["same", "close", "differs", "error", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a verification runs: the notebook as it was at one moment, unsaved typing included."""

    notebook: Notebook
    kernel_name: str
    language: str
    cells: Sequence[Cell]
    """The code cells that have code, in their order."""

    @property
    def runs(self) -> Sequence[Cell]:
        """Those that are not left out."""
        return [cell for cell in self.cells if SKIP not in cell.tags]

    @property
    def versions(self) -> Mapping[str, str]:
        """What a person who allows it has seen."""
        return {cell.id: cell.version for cell in self.runs}


@dataclass(frozen=True, kw_only=True)
class CellVerdict:
    """What became of one cell."""

    cell: Cell
    status: CellStatus
    why: str = ""
    not_compared: str = ""
    """What of it could not be compared, in words."""
    outputs: Sequence[Output] = ()
    """What it showed now."""

    def describe(self) -> dict[str, str]:
        """The cell as docs/api.md has it."""
        told = {"cell_id": self.cell.id, "status": self.status, "why": self.why}
        return {**told, "not_compared": self.not_compared} if self.not_compared else told


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What became of all of them."""

    path: str
    kernel_name: str
    cells: Sequence[CellVerdict]
    seconds: float
    runs: int
    """How many fresh kernels it took: two where something differed."""
    at: datetime
    """When it began."""
    packages: Mapping[str, str]
    """Name -> version of what the cells import, as far as their modules tell; Python only."""

    @property
    def code_hash(self) -> str:
        """That of all cells: the same means that what was verified is what is there."""
        return code_hash([verdict.cell for verdict in self.cells])

    @property
    def ok(self) -> bool:
        """Whether every cell but those that are tagged ran and showed the same as before."""
        return all(
            verdict.status == "same" or (verdict.status == "skipped" and SKIP in verdict.cell.tags)
            for verdict in self.cells
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many cells there are, and how many of them showed the same."""
        same = sum(verdict.status == "same" for verdict in self.cells)
        return {"cells": len(self.cells), "same": same}

    def describe(self) -> dict[str, Any]:
        """docs/api.md's answer."""
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
    """What `verify` would run now: in a kernel of that name, or of the one that runs, or that the
    notebook names. Raises KernelNotInstalled.
    """
    now, running = await nb.read(), await nb.kernel()
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
    """Run a copy of the notebook from the top in a fresh kernel, and compare what it shows.

    Where that is not the same as before, the cells down to the last such one run once more in one
    more fresh kernel: what differs between those two is made anew by each run and does not count.

    The user's kernel, document and file are not touched; what the code itself does outside of the
    kernel is done. After an error, or when the time is up (`Services.verify_seconds` for all cells
    together), the cells that follow are skipped. Cancelling it interrupts and ends the kernel.
    `on_cell` is called before each cell. `kernel` is the name of another kernel than the notebook's.
    `parameters` are set after the cell that is tagged `parameters`, in place of those of an earlier
    run, or before the first cell, as papermill does. Raises KernelNotInstalled, KernelUnavailable,
    InvalidInput for parameters that cannot be set, and Conflict where it is not what a person has
    seen and allowed.
    """
    work, planned = nb.work, await plan(nb, kernel)
    setting = assignments_of(parameters or {}, planned.language)
    if work.approved and dict(work.approved) != planned.versions:
        raise Conflict(
            "Cells changed since this was allowed, so nothing was run. Call again "
            "to request approval."
        )
    await work.need(("execute", "kernels"), ("write", "kernels"))
    began, at = time.monotonic(), datetime.now(UTC)
    seconds = work.services.verify_seconds
    first = await _rerun(work.services, planned, planned.runs, setting, seconds, on_cell)
    cells = await asyncio.to_thread(first.verdicts)  # outputs may be large
    doubtful = [verdict.cell for verdict in cells if verdict.status in ("close", "differs")]
    if doubtful:
        until = planned.runs.index(doubtful[-1]) + 1
        second: _Rerun | None = None
        with suppress(KernelUnavailable):
            second = await _rerun(
                work.services,
                planned,
                planned.runs[:until],
                setting,
                seconds - first.spent,
                on_cell,
            )
        cells = await asyncio.to_thread(first.verdicts, second)
    done = Verification(
        path=planned.notebook.path,
        kernel_name=planned.kernel_name,
        cells=cells,
        seconds=time.monotonic() - began,
        runs=2 if doubtful else 1,
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
    """The sink of one cell: what it shows, in no document."""

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
    """The cells of a copy, one after the other in one kernel."""

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
        """Seconds that the cells took."""
        self._limit = limit
        self._results: dict[str, tuple[_CellOutputs, ExecutionReply]] = {}
        self._skip_reason = ""
        """Why the cells that follow are skipped."""
        self.packages: Mapping[str, str] = {}

    async def run(
        self, cells: Sequence[Cell], on_cell: Callable[[Cell], Awaitable[None]] | None
    ) -> None:
        """Run them; what they showed is compared at the end, as later cells may still change it."""
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
            limit = await asyncio.to_thread(_output_limit, cell.outputs, self._limit)
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
        """Learn the versions of what the cells import, without running code of theirs."""
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
        told = reply.user_expressions.get("it", {})
        if told.get("status") == "ok":
            self.packages = ast.literal_eval(told["data"]["text/plain"])

    async def _set_parameters(self, seconds: float) -> None:
        reply = await self._kernel.execute(self._assignments, Discarded(), timeout=seconds)
        if reply.error is not None:
            raise InvalidInput(f"The parameters could not be set: {reply.error['evalue']}.")

    def verdicts(self, second: _Rerun | None = None) -> list[CellVerdict]:
        """What became of each cell, held against one more run of them where there was one."""
        return [self._verdict(cell, second) for cell in self._planned.cells]

    def _outputs(self, cell: Cell) -> list[Output] | None:
        """What the cell showed; None where it did not come to its end."""
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
        told = compare(cell.outputs, outputs, again, source=cell.source)
        return CellVerdict(
            cell=cell,
            status=told.likeness,
            why=told.why,
            not_compared=told.not_compared,
            outputs=outputs,
        )

    def _failure(self, reply: ExecutionReply) -> str:
        if reply.status == "timeout":
            return f"{self._too_long} {reply.note}".strip()
        if reply.error is not None:
            return f"{reply.error['ename']}: {reply.error['evalue']}"
        return reply.note or f"The code ended as {reply.status}."


def assignments_of(parameters: Mapping[str, Any], language: str) -> str:
    """Code that sets them. Raises InvalidInput for names that are none, and other languages."""
    if parameters and language != "python":
        raise InvalidInput(f"Parameters are set in Python, and this notebook is in {language}.")
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidInput(f"A parameter needs the name of a Python variable, not {name!r}.")
    return "\n".join(f"{name} = {_literal(value)}" for name, value in parameters.items())


def _literal(value: Any) -> str:
    """Python for a value of JSON, or for NaN and infinity, of which `repr` only gives a name."""
    match value:
        case dict():
            return f"{{{', '.join(f'{key!r}: {_literal(each)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case float() if not isfinite(value):
            return f"float('{value}')"
    return repr(value)


async def update(nb: Lease, done: Verification) -> Saved:
    """Write what the cells showed into the notebook, numbered from 1 as in that run, and save it.

    Raises Conflict where a cell failed, was changed since or runs now: nothing is written then.
    """
    if any(verdict.status == "error" for verdict in done.cells):
        raise Conflict("A cell failed, so no outputs were written. Mend it and verify again.")
    taken = await nb.take()
    now = {cell.id: cell for cell in taken.cells}
    ran = [verdict for verdict in done.cells if verdict.status != "skipped"]
    for verdict in ran:
        cell = now.get(verdict.cell.id)
        if cell is None or cell.version != verdict.cell.version or cell.running:
            raise Conflict(
                f"Cell `{verdict.cell.id}` changed or ran meanwhile, so no outputs were written. "
                "Verify again."
            )
    limit = nb.work.services.runs.output_limit
    for count, verdict in enumerate(ran, start=1):
        writer = taken.notebook.outputs(
            verdict.cell.id, limit=_output_limit(verdict.outputs, limit)
        )
        writer.start()
        for output in verdict.outputs:
            if output["output_type"] == "stream":
                writer.stream(output["name"], join_lines(output["text"]))
            else:
                writer.display(_with_count(output, count))
        writer.finish(count)
    await nb.release()
    return await taken.notebook.save()


async def record(nb: Lease) -> Saved:
    """Write into the notebook that it was verified, when and with what, and save it.

    Raises InvalidInput where this server did not verify it or not all was the same, Conflict where
    the code has changed since.
    """
    done, now = nb.work.services.verified.last(nb.path), await nb.take()
    if done is None or not done["ok"]:
        raise InvalidInput(
            "Only a verification in which all cells showed the same is recorded. Verify first."
        )
    if done["hash"] != code_hash(now.cells):
        raise Conflict("The code changed since it was verified. Verify again.")
    return await _write_record(nb, now.notebook, done)


async def unrecord(nb: Lease) -> Saved:
    """Take out of the notebook what it records of its verification; nothing where it does not."""
    now = await nb.take()
    if read_record(now.metadata) is None:
        return Saved(saved=True)
    return await _write_record(nb, now.notebook, None)


async def _write_record(nb: Lease, notebook: Notebook, facts: Mapping[str, Any] | None) -> Saved:
    notebook.write_metadata(with_record(notebook.known_metadata, facts))
    await nb.release()
    return await notebook.save()


def _with_count(output: Output, count: int) -> Output:
    return {**output, "execution_count": count} if "execution_count" in output else output


def _may_fail(cell: Cell, reply: ExecutionReply) -> bool:
    return cell.may_raise and reply.raised_error


def _output_limit(stored: Sequence[Output], limit: int) -> int:
    """Characters that a cell may show now, so that it is held against what was stored under the
    same limit: ours, or none where somebody else's program kept more than ours would.
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
    kept = _size([entry.output for entry in within.entries(complete=True)])
    return limit if kept >= size else max(limit, 2 * size)


def _size(outputs: Sequence[Output]) -> int:
    return len(json.dumps(outputs))
