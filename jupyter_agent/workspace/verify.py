"""Whether a notebook works: a copy of it, run from the top in a kernel of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from jupyter_agent.analysis.compare import difference
from jupyter_agent.document.cell import Cell, Output, metadata_text
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.outputs import OutputList
from jupyter_agent.errors import Conflict
from jupyter_agent.kernel.execution import ExecutionReply
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.workspace.workspace import Lease

SKIP = "skip-execution"
"""Tag of cells that are left out, as nbclient leaves them out."""
RAISES = "raises-exception"
"""Tag of cells that may fail, as nbclient has it: their error is an output to compare."""

CellStatus: TypeAlias = Literal["same", "differs", "error", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a verification runs: the notebook as it was at one moment, unsaved typing included."""

    notebook: Notebook
    kernel_name: str
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
    outputs: Sequence[Output] = ()
    """What it showed now."""

    def describe(self) -> dict[str, str]:
        """The cell as docs/api.md has it."""
        return {"cell_id": self.cell.id, "status": self.status, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What became of all of them."""

    path: str
    kernel_name: str
    cells: Sequence[CellVerdict]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every cell but those that are tagged ran and showed the same as before."""
        return all(
            verdict.status == "same" or (verdict.status == "skipped" and SKIP in verdict.cell.tags)
            for verdict in self.cells
        )

    def describe(self) -> dict[str, Any]:
        """docs/api.md's answer."""
        return {
            "ok": self.ok,
            "cells": [verdict.describe() for verdict in self.cells],
            "seconds": round(self.seconds, 3),
        }


async def plan(nb: Lease) -> Plan:
    """What `verify` would run now. Raises KernelUnavailable for a kernel that is not installed."""
    cells = await nb.read()
    running = await nb.kernel()
    named = metadata_text(nb.notebook.known_metadata, "kernelspec", "name")
    spec = await nb.work.services.kernels.kernelspec(running.name if running else named)
    code = [cell for cell in cells if cell.type == "code" and cell.source.strip()]
    return Plan(notebook=nb.notebook, kernel_name=spec["name"], cells=code)


async def verify(
    nb: Lease, begins: Callable[[Cell], Awaitable[None]] | None = None
) -> Verification:
    """Run a copy of the notebook from the top in a fresh kernel, and compare what it shows.

    The user's kernel, document and file are not touched; what the code itself does outside of the
    kernel is done. After an error, or when the time is up (`Services.verify_seconds` for all cells
    together), the cells that follow are skipped. Cancelling it interrupts and ends the kernel.
    `begins` is called before each cell. Raises KernelUnavailable, and Conflict where it is not
    what a person has seen and allowed.
    """
    work, planned = nb.work, await plan(nb)
    if work.approved and dict(work.approved) != planned.versions:
        raise Conflict(
            "Cells changed since this was allowed, so nothing was run. Call again "
            "to request approval."
        )
    await work.need(("execute", "kernels"), ("write", "kernels"))
    began = time.monotonic()
    async with work.services.fresh.kernel(planned.notebook.path, planned.kernel_name) as kernel:
        await kernel.connect()
        rerun = _Rerun(kernel, planned, work.services.verify_seconds)
        await rerun.run(begins)
    return Verification(
        path=planned.notebook.path,
        kernel_name=planned.kernel_name,
        cells=await asyncio.to_thread(rerun.verdicts),  # outputs may be large
        seconds=time.monotonic() - began,
    )


class _Shown(OutputList):
    """The sink of one cell: what it shows, in no document."""

    def __init__(self, earlier: Sequence[_Shown]) -> None:
        super().__init__()
        self._earlier = earlier

    async def wanted(self) -> bool:
        return True

    def started(self) -> None: ...

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        for shown in (*self._earlier, self):
            shown.update(display_id, data, metadata)


class _Rerun:
    """The cells of a copy, one after the other in one kernel."""

    def __init__(self, kernel: Kernel, planned: Plan, seconds: float) -> None:
        self._kernel = kernel
        self._planned = planned
        self._seconds = seconds
        self._ran: dict[str, tuple[_Shown, ExecutionReply]] = {}
        self._halted = ""
        """Why the cells that follow are skipped."""

    async def run(self, begins: Callable[[Cell], Awaitable[None]] | None) -> None:
        """Run them; what they showed is compared at the end, as later cells may still change it."""
        until = time.monotonic() + self._seconds
        for cell in self._planned.runs:
            left = until - time.monotonic()
            if left <= 0:
                self._halted = self._halted or self._too_long
            if self._halted:
                return
            if begins is not None:
                await begins(cell)
            shown = _Shown([earlier for earlier, _ in self._ran.values()])
            reply = await self._kernel.execute(cell.source, shown, timeout=left)
            self._ran[cell.id] = shown, reply
            if reply.status != "ok" and not _may_fail(cell, reply):
                self._halted = f"An earlier cell failed (`{cell.id}`)."

    def verdicts(self) -> list[CellVerdict]:
        """What became of each cell."""
        return [self._verdict(cell) for cell in self._planned.cells]

    @property
    def _too_long(self) -> str:
        return f"The limit of {self._seconds:g} s for the whole notebook was reached."

    def _verdict(self, cell: Cell) -> CellVerdict:
        if SKIP in cell.tags:
            return CellVerdict(cell=cell, status="skipped", why=f"Tagged `{SKIP}`.")
        if cell.id not in self._ran:
            return CellVerdict(cell=cell, status="skipped", why=self._halted)
        shown, reply = self._ran[cell.id]
        outputs = [entry.output for entry in shown.entries(complete=True)]
        if reply.status != "ok" and not _may_fail(cell, reply):
            return CellVerdict(cell=cell, status="error", why=self._failure(reply), outputs=outputs)
        if cell.execution_count is None and not cell.outputs:
            why = "It runs; it was never run before, so there is nothing to compare."
            return CellVerdict(cell=cell, status="same", why=why, outputs=outputs)
        why = difference(cell.outputs, outputs) or ""
        status: CellStatus = "differs" if why else "same"
        return CellVerdict(cell=cell, status=status, why=why, outputs=outputs)

    def _failure(self, reply: ExecutionReply) -> str:
        if reply.status == "timeout":
            return f"{self._too_long} {reply.note}".strip()
        if reply.error is not None:
            return f"{reply.error['ename']}: {reply.error['evalue']}"
        return reply.note or f"The code ended as {reply.status}."


def _may_fail(cell: Cell, reply: ExecutionReply) -> bool:
    return reply.status == "error" and reply.error is not None and RAISES in cell.tags
