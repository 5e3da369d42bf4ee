"""The notebooks and kernels that one turn (or one request) may touch, for one owner."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from jupyter_agent.analysis.stale import Executions
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.cell import Cell, said
from jupyter_agent.document.notebook import Edit, Notebook
from jupyter_agent.errors import (
    Conflict,
    InvalidInput,
    KernelUnavailable,
    NotebookNotFound,
    NotPermitted,
    ToolError,
)
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import FreshKernels, Kernels
from jupyter_agent.text.notebook import HIDDEN, hidden
from jupyter_agent.workspace.files import Files
from jupyter_agent.workspace.identity import Identities, Identity
from jupyter_agent.workspace.reads import Reads
from jupyter_agent.workspace.runs import Run, Runs
from jupyter_agent.workspace.visibility import (
    SHARES,
    HiddenCells,
    Share,
    View,
    shared_by,
    strictest,
)

Authorize: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Asks Jupyter's authorizer: (action, resource) -> may the owner?"""


@dataclass(frozen=True, kw_only=True)
class Services:
    """What all workspaces of a server share."""

    notebooks: Notebooks
    kernels: Kernels
    runs: Runs
    files: Files
    fresh: FreshKernels
    identities: Identities
    executions: Executions = field(default_factory=Executions)
    hidden: HiddenCells = field(default_factory=HiddenCells)
    verify_seconds: float = 600.0
    """What all cells of a notebook together may take when it is verified."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A notebook as it is now."""

    notebook: Notebook
    cells: Sequence[Cell]
    stale: Mapping[str, str]
    """Cell id -> why its outputs no longer follow from the code above."""
    kernel: Kernel | None


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Everything that tools and the notebook routes do, they do through this."""

    services: Services
    user: str
    authorize: Authorize
    home: str | None = None
    """Path of the turn's own notebook."""
    client: str | None = None
    """The page from which the user talks: its tab of a notebook is preferred."""
    turn_id: str | None = None
    reads: Reads = field(default_factory=Reads)
    searching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while something is searched for: however many a model wants, one at a time."""
    share: Share = "all"
    """What administrator and user let a model see; a notebook may say less."""
    approved: Mapping[str, str] | None = None
    """Cell id -> version, where a person saw these and allowed what is about to be done.

    Only those versions are acted on, and their outputs are trusted like the person's own.
    """

    foreseen: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    """(path, cell id) -> the cell as it will be once what is asked before was allowed.

    Only for what a person is shown (`proposal`, `cell`, `code_cells`), never for what is done.
    """

    def foreseeing(self, cells: Mapping[tuple[str, str], Cell]) -> Workspace:
        """The same workspace, where these edits are taken as done in what a person is shown."""
        return replace(self, foreseen=cells)

    def for_approved_call(self, cells: Mapping[str, str]) -> Workspace:
        """The same workspace for a call that a person allowed, having seen these cells."""
        return replace(self, approved=cells)

    def resolve(self, path: str | None) -> str:
        """The path of the notebook that a call means. Raises InvalidInput where it names none."""
        chosen = path if path is not None else self.home
        if not chosen or "\0" in chosen:
            raise InvalidInput("Which notebook? Name its path in `notebook`.")
        return posixpath.normpath(chosen.strip("/"))

    async def identity(self, path: str | None) -> Identity | None:
        """What a path means, that of the turn's own notebook without one; None if there is none.

        Raises InvalidInput for what cannot be a path.
        """
        chosen = path if path is not None else self.home
        return None if chosen is None else await self.services.identities.of(chosen)

    async def refuse_outside(self, paths: Iterable[str]) -> None:
        """Raises NotPermitted where one of the paths that a model names leads out of the root, or
        to what is no file. The turn's own notebook was named by a person.
        """
        home = await self.identity(None)
        for path in paths:
            named = await self.services.identities.of(path)
            if named.refusal and (home is None or named.name != home.name):
                raise NotPermitted(named.refusal)

    # -- reading

    async def notebook(self, path: str | None = None) -> Notebook:
        """The live notebook, wherever it is open."""
        named = self.resolve(path)
        notebook = await self.services.notebooks.get(
            named, client=self.client, turn_id=self.turn_id
        )
        if notebook.path != named:
            self.reads.moved(named, notebook.path)
        return notebook

    async def state(self, path: str | None = None) -> State:
        """Cells, stale ones and kernel of a notebook."""
        notebook = await self.notebook(path)
        cells = await notebook.read()
        kernel = await self.services.kernels.find(notebook.path)
        language = _language(notebook, kernel)
        stale = await self.services.executions.stale(notebook.path, cells, language)
        return State(notebook=notebook, cells=cells, stale=stale, kernel=kernel)

    # -- what a model may see

    def view(self, notebook: Notebook, cells: Sequence[Cell]) -> View:
        """What a model may see of a notebook with these cells."""
        share = strictest(self.share, shared_by(notebook.known_metadata))
        return View.of(share, cells, self.services.hidden.seen(notebook.path, cells))

    async def view_of(self, notebook: Notebook) -> View:
        """What a model may see of the notebook now; the least where it cannot be read."""
        try:
            return self.view(notebook, await notebook.read())
        except NotebookNotFound:
            return self.view(notebook, notebook.cells())
        except ToolError:
            known = notebook.cells()
            return self.view(notebook, known) if known else View(share=SHARES[-1])

    async def view_at(self, path: str | None) -> View:
        """As `view_of`, for what belongs to no notebook too: then what the turn's own says."""
        if path is None and self.home is None:
            return View(share=self.share)
        try:
            notebook = await self.notebook(path)
        except ToolError as error:
            missing = isinstance(error, NotebookNotFound | InvalidInput)
            return View(share=self.share if missing else SHARES[-1])
        return await self.view_of(notebook)

    async def refuse_hidden(self, path: str | None, cell_ids: Sequence[str]) -> None:
        """Raises NotPermitted where one of these cells is kept from models."""
        if not cell_ids:
            return
        notebook = await self.notebook(path)
        kept = {cell.id for cell in await notebook.read() if hidden(cell)}
        for cell_id in cell_ids:
            if cell_id in kept:
                raise NotPermitted(
                    f"Cell `{cell_id}` is hidden from you (tagged `{HIDDEN}`): you cannot change, "
                    "move, delete or run it. Ask the person to do that."
                )

    async def watch(self, path: str | None = None) -> Callable[[], Awaitable[list[str]]]:
        """To be called after something was done: ids of the cells that became stale by it."""
        notebook = await self.notebook(path)
        language = _language(notebook, await self.services.kernels.find(notebook.path))
        executions = self.services.executions
        if known := notebook.cells():  # none while its page has not answered
            await executions.stale(notebook.path, known, language)
        return lambda: executions.news(notebook.path, notebook.cells(), language)

    def remember(self, notebook: Notebook, cells: Sequence[Cell]) -> None:
        """The full source of these cells was shown to this conversation."""
        self.reads.show(notebook.path, cells)

    async def cell(self, path: str | None, cell_id: str) -> Cell:
        """A cell as a person is shown it before it is acted on."""
        notebook = await self.notebook(path)
        return self.foreseen.get((notebook.path, cell_id)) or await notebook.cell(cell_id)

    async def proposal(
        self,
        path: str | None,
        cell_id: str,
        *,
        source: str | None,
        old_string: str | None,
        new_string: str | None,
    ) -> tuple[Cell, str]:
        """The cell and the text that `update` would give it now; raises as `update` does."""
        notebook = await self.notebook(path)
        cell = await self.cell(path, cell_id)
        base = self.reads.source(notebook.path, cell_id)
        if base is not None and (notebook.path, cell_id) in self.foreseen:
            base = cell.source  # the edit before will have written it
        text = notebook.proposal(
            cell, source=source, base=base, old_string=old_string, new_string=new_string
        )
        return cell, text

    # -- editing

    async def insert(self, path: str | None, **what: Any) -> tuple[Notebook, Edit]:
        """A new cell (Notebook.insert)."""
        notebook = await self.notebook(path)
        edit = await notebook.insert(**what)
        if edit.cell is not None:
            self.reads.write(notebook.path, edit.cell.id, what["source"])
        return notebook, edit

    async def update(self, path: str | None, cell_id: str, **what: Any) -> tuple[Notebook, Edit]:
        """A cell's new text or type (Notebook.update); the base is what was last read here."""
        notebook = await self.notebook(path)
        what.setdefault("base", self.reads.source(notebook.path, cell_id))
        what.setdefault("expect", self._expected(cell_id))
        edit = await notebook.update(cell_id, **what)
        self._wrote(notebook, cell_id, **what)
        return notebook, edit

    async def delete(self, path: str | None, cell_id: str, **what: Any) -> tuple[Notebook, Edit]:
        """Takes a cell away (Notebook.delete)."""
        notebook = await self.notebook(path)
        what.setdefault("expect", self._expected(cell_id))
        edit = await notebook.delete(cell_id, **what)
        self.reads.delete(notebook.path, cell_id)
        return notebook, edit

    async def move(self, path: str | None, cell_id: str, **what: Any) -> tuple[Notebook, Edit]:
        """Puts a cell elsewhere (Notebook.move)."""
        notebook = await self.notebook(path)
        what.setdefault("expect", self._expected(cell_id))
        return notebook, await notebook.move(cell_id, **what)

    async def create(
        self, path: str, kernel_name: str | None, cells: Sequence[Mapping[str, Any]] = ()
    ) -> Notebook:
        """A new notebook. Raises Exists, KernelUnavailable for a kernel that is not installed."""
        kernelspec = await self.services.kernels.kernelspec(kernel_name)
        notebook = await self.services.notebooks.create(
            self.resolve(path), kernelspec=kernelspec, cells=cells
        )
        return notebook

    # -- running

    async def code_cells(self, path: str | None, cell_ids: Sequence[str] | None) -> list[Cell]:
        """The named cells, or all code cells that have code, in the order of the notebook."""
        notebook = await self.notebook(path)
        cells = await notebook.read()
        if cell_ids is not None:
            cells = [notebook.peek(cell_id) for cell_id in cell_ids]
        cells = [self.foreseen.get((notebook.path, cell.id), cell) for cell in cells]
        if cell_ids is not None:
            return cells
        return [cell for cell in cells if cell.type == "code" and cell.source.strip()]

    async def run(self, path: str | None, cell_id: str, *, timeout: float | None = None) -> Run:
        """Starts a cell in the notebook's own kernel."""
        notebook = await self.notebook(path)
        cell = await notebook.cell(cell_id)
        if cell.type != "code":
            raise InvalidInput(f"Cell `{cell_id}` is a {cell.type} cell: there is nothing to run.")
        kernel = await self.kernel(notebook)
        self.reads.kernels.setdefault(notebook.path, kernel.life)
        # Starting a kernel takes seconds: the code that runs is the code that is there now.
        cell = await notebook.cell(cell_id)
        if self._expected(cell_id) not in (None, cell.version):
            raise Conflict(
                f"Cell `{cell_id}` changed meanwhile and was not run. It is now:\n{cell.source}",
                current=cell.describe(),
            )
        return self.services.runs.start(
            notebook,
            kernel,
            cell,
            owner=self.user,
            turn_id=self.turn_id,
            timeout=timeout,
            trust=self.approved is not None,
        )

    async def kernel(self, notebook: Notebook) -> Kernel:
        """The notebook's own kernel, started where none runs."""
        running = await self.services.kernels.find(notebook.path)
        if running is not None:
            return running
        await self.need(("write", "kernels"), ("write", "sessions"))
        metadata = await notebook.metadata()
        name = said(metadata, "kernelspec", "name")
        return await self.services.kernels.get(notebook.path, name=name)

    async def running_kernel(self, path: str | None) -> Kernel:
        """The notebook's kernel. Raises KernelUnavailable where none runs."""
        resolved = self.resolve(path)
        kernel = await self.services.kernels.find(resolved)
        if kernel is None:
            raise KernelUnavailable(f"No kernel runs for `{resolved}`; running a cell starts one.")
        self.reads.kernels.setdefault(resolved, kernel.life)
        return kernel

    async def lost_variables(self, path: str) -> str:
        """What to tell of a kernel that is another one than this conversation worked with; told
        once, empty where nothing was lost.
        """
        known = self.reads.kernels.get(path)
        if known is None:
            return ""
        kernel = await self.services.kernels.find(path)
        self.reads.kernels[path] = kernel.life if kernel else ""
        if known in ("", self.reads.kernels[path]):
            return ""
        happened = "was restarted or replaced" if kernel else "ended (culled or shut down)"
        return (
            f"The kernel of {path} {happened} since your last call: all variables are gone. "
            "Run again the cells that you need."
        )

    async def need(self, *needs: tuple[str, str]) -> None:
        """Raises NotPermitted unless the authorizer lets the user do each (action, resource)."""
        for action, resource in needs:
            if not await self.authorize(action, resource):
                raise NotPermitted(f"You are not allowed to {action} {resource} on this server.")

    def _expected(self, cell_id: str) -> str | None:
        return self.approved.get(cell_id) if self.approved else None

    def _wrote(
        self,
        notebook: Notebook,
        cell_id: str,
        *,
        source: str | None = None,
        old_string: str | None = None,
        new_string: str | None = None,
        **_: Any,
    ) -> None:
        """What this conversation knows of a cell after its edit: nothing it was not shown."""
        path, known = notebook.path, self.reads.source(notebook.path, cell_id)
        if source is not None:
            self.reads.write(path, cell_id, source)
        elif old_string and known is not None:
            if known.count(old_string) == 1:
                self.reads.write(path, cell_id, known.replace(old_string, new_string or ""))
            else:
                self.reads.forget(path, cell_id)


def _language(notebook: Notebook, kernel: Kernel | None) -> str:
    if kernel is not None:
        return kernel.language
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        if language := said(notebook.known_metadata, key, name):
            return language
    return "python"
