"""Runs code with its outputs in the live document; each run outlives its caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from jupyter_agent.carriers.leftovers import NONE, Leftovers
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.cell import Cell
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.outputs import LIMIT
from jupyter_agent.errors import Busy, InvalidInput, ToolError
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.workspace.run import Run, RunExecution, RunOrigin
from jupyter_agent.workspace.run_outputs import Saves
from jupyter_agent.workspace.run_records import ResumedExecution, RunRecord, RunRecords

log = logging.getLogger(__name__)

RESULT = 12_000
"""Characters of a run's outputs that a model gets."""
_RECOVER_S = 5.0
"""Seconds that a lookup of a run may wait just after the start of the server."""
_STOP_S = 2.0
"""Seconds that the stop of a turn waits for its interrupted runs."""
_MAX_ENDED = 100
"""Ended runs that stay available; up to twice as many, as not each start looks through all."""


class Runs:
    """The runs of this server by id; those of a kernel in the order of its queue."""

    def __init__(
        self,
        *,
        output_limit: int = LIMIT,
        result_chars: int = RESULT,
        widget_state: bool = False,
        leftovers: Leftovers = NONE,
    ) -> None:
        """`output_limit`: characters of outputs per cell; `result_chars`: characters that a model
        gets; `widget_state`: also store widget state in notebooks without one. `leftovers`
        stores active runs for the next server.
        """
        self.records = RunRecords(leftovers)
        self.widget_state = widget_state
        self.result_chars = result_chars
        self.output_limit = output_limit
        self._runs: dict[str, Run] = {}
        self._recovered = asyncio.Event()
        if leftovers is NONE:
            self._recovered.set()
        self._saves: dict[Notebook, Saves] = {}

    def start(
        self,
        notebook: Notebook,
        kernel: Kernel,
        cell: Cell | str,
        origin: RunOrigin,
        *,
        timeout: float | None = None,
        trust: bool = False,
    ) -> Run:
        """Queue the source of this snapshot of a cell, whose outputs go to the cell with its id, or
        code outside of cells, which leaves no trace in the notebook.

        `timeout` is in seconds from the start of the code; `trust`: a person saw the code. Raises
        InvalidInput for a cell that is not code, Busy for one that is queued or running.
        """
        active = [run for run in self._runs.values() if run.ended is None]
        if isinstance(cell, str):
            code, cell_id, former_count, may_raise = cell, None, None, False
        else:
            _refuse(cell, kernel, [run for run in active if run.notebook is notebook])
            code, cell_id, former_count = cell.source, cell.id, cell.execution_count
            may_raise = cell.may_raise

        def execute(_: Run, sink: OutputSink) -> RunExecution:
            # Code outside of cells does not count: cells keep their numbers.
            in_cell = cell_id is not None
            return kernel.execute(code, sink, store_history=in_cell, timeout=timeout)

        run = Run(
            notebook,
            cell_id,
            execute,
            origin=origin,
            records=self.records,
            saves=self.saves_of(notebook),
            output_limit=self.output_limit,
            widget_state=self.widget_state,
            kernel=kernel,
            timeout=timeout,
            trust=trust,
            ahead=[run for run in active if run.kernel is kernel],
            former_count=former_count,
            may_raise=may_raise,
        )
        self._runs[run.id] = run
        self._forget_old()
        return run

    async def recover(self, notebooks: Notebooks, kernels: Kernels) -> None:
        """Resume the runs of earlier servers, or report them as lost. Call it once, after the start
        of the server.
        """
        try:
            for record in await self.records.claim():
                await self._recover(record, notebooks, kernels)
        finally:
            self._recovered.set()

    async def _recover(self, record: RunRecord, notebooks: Notebooks, kernels: Kernels) -> None:
        try:
            notebook = await notebooks.get(record.notebook)
        except ToolError as error:
            log.warning("A run of an earlier server is lost: %s", error)
            return
        self._runs[record.id] = Run(
            notebook,
            record.cell_id,
            partial(_resume_execution, record, kernels),
            origin=RunOrigin(record.owner, record.turn_id),
            records=self.records,
            saves=self.saves_of(notebook),
            output_limit=self.output_limit,
            widget_state=self.widget_state,
            timeout=record.timeout,
            former_count=record.former_count,
            resumed=record,
        )

    async def find(self, run_id: str, owner: str) -> Run | None:
        """Like `get`, after waiting for the runs of earlier servers."""
        if run_id not in self._runs:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECOVER_S):
                    await self._recovered.wait()
        return self.get(run_id, owner)

    def saves_of(self, notebook: Notebook) -> Saves:
        """The saves of the outputs of that notebook's runs."""
        return self._saves.setdefault(notebook, Saves(notebook))

    def get(self, run_id: str, owner: str) -> Run | None:
        """The owner's run with this id, or None."""
        run = self._runs.get(run_id)
        return run if run is not None and run.owner == owner else None

    def of(self, owner: str, notebook: str | None = None) -> list[Run]:
        """The owner's available runs, newest first; optionally only those of one notebook."""
        return [
            run
            for run in reversed(self._runs.values())
            if run.owner == owner and notebook in (None, run.notebook_path)
        ]

    def of_turn(self, turn_id: str) -> list[Run]:
        """All available runs that a turn started."""
        return [run for run in self._runs.values() if run.turn_id == turn_id]

    def in_kernel(self, kernel: Kernel) -> list[Run]:
        """The runs that the kernel is executing."""
        return [
            run for run in self._runs.values() if run.kernel is kernel and run.status == "running"
        ]

    async def interrupt_turn(self, turn_id: str) -> None:
        """Interrupt the runs of this turn only, and wait a moment for their ends: code may ignore
        an interrupt.
        """
        active = [run for run in self.of_turn(turn_id) if run.ended is None]
        for run in active:
            await run.interrupt()
        waiting = (run.wait(_STOP_S, saved=False) for run in active)
        await asyncio.gather(*waiting, return_exceptions=True)  # its other callers get the error

    async def close(self) -> None:
        """Stop following all runs; the kernels continue."""
        self.records.close()
        for run in self._runs.values():
            await run.abandon()
        for saves in self._saves.values():
            await saves.close()

    def _forget_old(self) -> None:
        if len(self._runs) < 2 * _MAX_ENDED:
            return
        ended = [run for run in self._runs.values() if run.ended is not None and not run.pending]
        for run in ended[:-_MAX_ENDED]:
            del self._runs[run.id]
        used = {run.notebook for run in self._runs.values()}
        for notebook in [each for each in self._saves if each not in used]:
            del self._saves[notebook]


def _refuse(cell: Cell, kernel: Kernel, active: Sequence[Run]) -> None:
    """Raises InvalidInput or Busy if the cell cannot run now; `active` are its notebook's runs."""
    if cell.type != "code":
        raise InvalidInput(f"Cell `{cell.id}` is a {cell.type} cell: there is nothing to run.")
    for run in active:
        if run.cell_id == cell.id:
            message = f"Cell `{cell.id}` is {run.status} already: run `{run.id}`."
            raise Busy(message, run_id=run.id)
    if cell.running and kernel.state == "busy":
        raise Busy(f"Cell `{cell.id}` runs already; the person started it. Try again later.")


def _resume_execution(
    record: RunRecord, kernels: Kernels, run: Run, sink: OutputSink
) -> ResumedExecution:
    return ResumedExecution(record, run.notebook_path, kernels, sink, run.attach)
