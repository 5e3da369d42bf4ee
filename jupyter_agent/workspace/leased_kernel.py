"""The kernel of a leased notebook, and what runs in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_agent.analysis.jobs import clusters
from jupyter_agent.document.cell import Cell, metadata_text
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.errors import (
    Conflict,
    InvalidInput,
    KernelUnavailable,
    NotebookNotFound,
    NotPermitted,
    ToolError,
)
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.variables import variables
from jupyter_agent.workspace.run import Run, RunOrigin
from jupyter_agent.workspace.snapshot import Snapshot, refuse_odd_ids
from jupyter_agent.workspace.workspace import Workspace

if TYPE_CHECKING:
    from jupyter_agent.workspace.lease import Lease


class LeasedKernel:
    """The kernel of the lease's notebook."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.runs: list[Run] = []
        """Runs started with this lease."""
        self._user = object()
        """Identifies this lease to kernels, without a reference to it."""

    @property
    def _work(self) -> Workspace:
        return self._lease.work

    async def run(
        self, cell_id: str, *, timeout: float | None = None, expect: str | None = None
    ) -> Run:
        """Start a cell in the notebook's kernel; the run outlives this lease."""
        refuse_odd_ids(cell_id)
        cell = await self._lease.cell(cell_id)
        if cell.type != "code":
            raise InvalidInput(f"Cell `{cell_id}` is a {cell.type} cell: there is nothing to run.")
        now, kernel = await self._prepare()
        cell = now.cell(cell_id)
        if self._lease.expected_version(cell_id, expect) not in (None, cell.version):
            raise Conflict(
                f"Cell `{cell_id}` has changed and was not run. It is now:\n{cell.source}",
                current=cell.describe(),
            )
        trust = self._work.approved is not None
        run = self._queue(now.notebook, kernel, cell, timeout=timeout, trust=trust)
        executions, life = self._work.services.executions, kernel.life

        def remember() -> None:
            if run.started is not None and run.execution_count is not None:
                executions.record_run(run.notebook_path, cell, run.execution_count, life)

        run.on_end(remember)
        return run

    async def run_code(self, code: str, *, timeout: float | None = None) -> Run:
        """Start code outside of cells in the notebook's kernel."""
        now, kernel = await self._prepare()
        return self._queue(now.notebook, kernel, code, timeout=timeout)

    def _queue(
        self,
        notebook: Notebook,
        kernel: Kernel,
        code: Cell | str,
        *,
        timeout: float | None,
        trust: bool = False,
    ) -> Run:
        origin = RunOrigin(self._work.user, self._work.turn_id, self._work.call_id)
        run = self._work.services.runs.start(
            notebook, kernel, code, origin, timeout=timeout, trust=trust
        )
        self.runs.append(run)
        self._lease.renew()
        return run

    async def find(self) -> Kernel | None:
        """The notebook's running kernel, or None."""
        self._lease.refuse_ended()
        return await self._work.services.kernels.find(self._lease.path)

    async def life(self) -> str:
        """`Kernel.life` of the notebook's kernel; empty if none runs."""
        kernel = await self.find()
        return kernel.life if kernel else ""

    async def start(self, name: str | None = None) -> Kernel:
        """The notebook's kernel, started if none runs, with this kernelspec name or the notebook's.

        The next `read` returns a new snapshot. Raises KernelNotInstalled, KernelUnavailable.
        """
        await self._work.need(("write", "kernels"), ("write", "sessions"))
        if name:  # checked even if a kernel runs
            await self._work.services.kernels.kernelspec(name)
        name = name or (await self._lease.read()).kernel_name
        await self._lease.release()
        self._lease.renew()
        return await self._work.services.kernels.get(self._lease.path, name=name, user=self._user)

    async def _use(self) -> Kernel | None:
        """Like `find`, for callers that change its state or rely on it."""
        kernel = await self.find()
        if kernel is not None:
            kernel.use(self._user)
        return kernel

    async def _prepare(self) -> tuple[Snapshot, Kernel]:
        """The notebook's kernel, started if none runs, which takes seconds, and a snapshot taken
        after that.
        """
        await self._lease.read()
        kernel = await self._use()
        if kernel is None:
            kernel = await self.start()
        now = await self._lease.read()
        await self._work.check_kernel_peers(self._lease.path, kernel)
        self._work.reads.kernels.setdefault(self._lease.path, kernel.life)
        return now, kernel

    async def end(self) -> None:
        """End the kernel that this lease started, once its runs have ended and are saved, unless
        someone else uses it or a page shows the notebook. Raises KernelUnavailable.
        """
        for run in self.runs:
            await run.wait()
        notebook = self._lease.notebook
        if notebook is None:
            return
        with suppress(ToolError):  # no page shows a notebook that is gone
            await notebook.read()
        if notebook.carrier != "tab":
            await self._work.services.kernels.end_unused(self._lease.path, self._user)

    async def spec(self) -> str:
        """The kernelspec name of the running kernel, or of the one that would be started; empty
        without a notebook.
        """
        kernel = await self.find()
        if kernel is not None:
            return kernel.name
        try:
            name = (await self._lease.read()).kernel_name
        except NotebookNotFound:
            return ""
        return name or self._work.services.kernels.default_name

    async def require(self) -> Kernel:
        """The notebook's running kernel. Raises KernelUnavailable."""
        kernel = await self._use()
        if kernel is None:
            raise KernelUnavailable(
                f"No kernel runs for `{self._lease.path}`; running a cell starts one."
            )
        self._work.reads.kernels.setdefault(self._lease.path, kernel.life)
        return kernel

    async def variables(self, names: Sequence[str] | None) -> str:
        """A summary of the variables of the notebook's kernel, if all notebooks in the kernel allow
        that. Raises KernelUnavailable if none runs, NotPermitted.
        """
        kernel = await self.require()
        keeps = await self._work.check_kernel_peers(self._lease.path, kernel)
        view = await self._lease.view()
        if keeps is not None and view.outputs_shared:
            raise NotPermitted(
                f"Variables are not shared with you: `{keeps}` uses the same kernel, and does "
                "not share its own or cannot be read."
            )
        return await view.variables(kernel, names)

    async def all_variables(self, names: Sequence[str] | None) -> str:
        """Like `variables`, for someone who may see the whole notebook."""
        await self._lease.read()
        return await variables(await self.require(), names)

    async def clusters(self, code: Iterable[str]) -> tuple[str, ...]:
        """Systems such as Dask or Spark on which this code may start work."""
        if await self.language() != "python":
            return ()
        cells = (await self._lease.read()).cells
        sources = [cell.source for cell in cells if cell.type == "code"]
        code = list(code)
        return await asyncio.to_thread(clusters, code, [*sources, *code])

    async def language(self) -> str:
        """The language of the notebook's code."""
        return language_of((await self._lease.read()).notebook, await self.find())


def language_of(notebook: Notebook, kernel: Kernel | None) -> str:
    """The language of the kernel, else the one in the notebook's metadata, else Python."""
    if kernel is not None:
        return kernel.language
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        if language := metadata_text(notebook.cached_metadata, key, name):
            return language
    return "python"
