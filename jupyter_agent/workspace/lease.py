"""The one way to a notebook: who has a lease was authorized for it, and all that is done with it
rests on one snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jupyter_agent.analysis.jobs import clusters
from jupyter_agent.document.carrier import Place
from jupyter_agent.document.cell import Cell, Change, metadata_text, version_of
from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.notebook import (
    ClearOutputs,
    Delete,
    Edit,
    Insert,
    LastEdit,
    MetadataPatch,
    Move,
    Notebook,
    Step,
    Update,
    preview,
)
from jupyter_agent.errors import (
    CellNotFound,
    Conflict,
    InvalidInput,
    KernelUnavailable,
    NotebookNotFound,
    NotPermitted,
    NotRead,
    ToolError,
)
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.variables import variables
from jupyter_agent.legible import is_cell_id, quoted_id
from jupyter_agent.text.encodings import Decoded
from jupyter_agent.text.notebook import HIDDEN, hidden, render_cells
from jupyter_agent.workspace.paths import Lookup
from jupyter_agent.workspace.runs import Run
from jupyter_agent.workspace.visibility import View
from jupyter_agent.workspace.workspace import Need, Workspace


@asynccontextmanager
async def lease(
    work: Workspace, path: str | None, *needs: Need, paths: Lookup | None = None
) -> AsyncIterator[Lease]:
    """The notebook of that path, the turn's own without one, for one call.

    `needs` is what the call is about to do; raises NotPermitted where the authorizer forbids some
    of it. `paths` has what was looked up for the call already.
    """
    await work.need(*needs)
    nb = Lease(work, path, paths or work.lookup())
    try:
        yield nb
    finally:
        await nb.end()


@dataclass(frozen=True)
class Snapshot:
    """A notebook as one lease saw it."""

    work: Workspace
    notebook: Notebook
    cells: Sequence[Cell]

    def cell(self, cell_id: str) -> Cell:
        """The first of that id. Raises CellNotFound."""
        if cell_id not in self._by_id:
            refuse_odd_ids(cell_id)
            raise CellNotFound(cell_id, known=[cell.id for cell in self.cells])
        return self._by_id[cell_id]

    @cached_property
    def _by_id(self) -> Mapping[str, Cell]:
        return {cell.id: cell for cell in reversed(self.cells)}

    @cached_property
    def view(self) -> View:
        """What a model may be told of it."""
        return self.work.view(self.notebook, self.cells)

    @property
    def place(self) -> Place | None:
        """Where the person is in the open notebook; None if it is not open, or they are nowhere."""
        place = self.notebook.place
        return place if place is not None and place.cell_id in self._by_id else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The notebook's own."""
        return self.notebook.known_metadata

    @property
    def kernel_name(self) -> str | None:
        """The name of the kernel that it asks for."""
        return metadata_text(self.metadata, "kernelspec", "name")


class Lease:
    """One notebook for one call, whose caller was authorized.

    `read` opens it; from then on all parts of the call (permission, question, what a model is told)
    see the same `Snapshot`, which is another once it was acted on. `take` keeps others out until
    `release`, so that what was read is what is changed. After its end nothing is read or done with
    it any more, but for `end_kernel`.
    """

    def __init__(self, work: Workspace, path: str | None, paths: Lookup) -> None:
        self.work = work
        self.paths = paths
        """What the paths of the call mean."""
        self._given_path = path
        self._notebook: Notebook | None = None
        self._snapshot: Snapshot | None = None
        self._lock: AsyncExitStack | None = None
        self._ended = False
        self._stale: Mapping[str, str] = {}
        """What was stale before it acted."""
        self.changes: list[Change] = []
        """What was done to cells by this lease, for the journal if the call does not come to its
        end."""
        self.runs: list[Run] = []
        """What this lease started."""
        self._user = object()
        """As whom kernels know this lease, which they are not to keep."""

    # -- what is there

    @property
    def path(self) -> str:
        """Where the notebook is, or is to be looked for. Raises InvalidInput for no path at all."""
        return (
            self.work.resolve(self._given_path) if self._notebook is None else self._notebook.path
        )

    async def read(self) -> Snapshot:
        """With everything typed up to the first call.

        Raises NotebookNotFound, UnreadableNotebook or Busy.
        """
        if self._snapshot is None:
            notebook = await self._find()
            self._snapshot = Snapshot(self.work, notebook, await notebook.read())
        return self._snapshot

    async def look(self, *, patience: float | None = 0.0) -> Snapshot:
        """As `read`, without asking a page for what is still on its way from it (Notebook.look)."""
        if self._snapshot is None:
            notebook = await self._find()
            self._snapshot = Snapshot(self.work, notebook, await notebook.look(patience=patience))
        return self._snapshot

    async def take(self) -> Snapshot:
        """As `read`; until `release` nobody else changes the notebook."""
        if self._lock is None or self._snapshot is None:
            stack, notebook = AsyncExitStack(), await self._find()
            cells = await stack.enter_async_context(notebook.opened())
            self._lock, self._snapshot = stack, Snapshot(self.work, notebook, cells)
        return self._snapshot

    async def release(self) -> None:
        """Let others change the notebook again."""
        stack, self._lock = self._lock, None
        if stack is not None:
            await stack.aclose()

    async def end(self) -> None:
        """The call is over."""
        await self.release()
        self._snapshot, self._ended = None, True

    async def cell(self, cell_id: str) -> Cell:
        """One cell. Raises CellNotFound."""
        return (await self.read()).cell(cell_id)

    async def view(self) -> View:
        """What a model may be told of the notebook, also where there is none that can be read: then
        the least.
        """
        try:
            return (await self.read()).view
        except ToolError:
            return await self.work.visibility(self._given_path)

    async def file_text(self, shared_as: str | None = None) -> Decoded:
        """The text of the file that was named, that of a notebook as its cells: data altogether.
        Raises ToolError.

        The notebook `shared_as` says what may be seen, where the file says nothing itself.
        """
        path = self.work.resolve(self._given_path)
        if path.lower().endswith(".ipynb"):
            now = await self.read()
            shown = now.view.cells(now.cells)
            return Decoded(render_cells(shown, fence=self.work.fence.without_mark()))
        read = await self.work.services.files.read(path)
        view = await self.work.visibility_of_file(path, shared_as)
        return replace(read, text=view.file(path, read.text))

    async def file_data(self) -> str:
        """The bytes of the file that was named, in base64. Raises ToolError."""
        path = self.work.resolve(self._given_path)
        (await self.work.visibility()).document(path)
        return await self.work.services.files.data(path)

    def remember(self, cells: Sequence[Cell]) -> None:
        """The full source of these cells was shown to this conversation."""
        self.work.reads.record_sources(self.path, cells)

    async def refuse_hidden(self, cell_ids: Sequence[str]) -> None:
        """Raises NotPermitted where one of these cells is kept from models."""
        if not cell_ids:
            return
        refuse_odd_ids(*cell_ids)
        kept = {cell.id for cell in (await self.read()).cells if hidden(cell)}
        for cell_id in cell_ids:
            if cell_id in kept:
                raise NotPermitted(
                    f"Cell `{cell_id}` is hidden from you (tagged `{HIDDEN}`): you cannot change, "
                    "move, delete or run it. Ask the person to do that."
                )

    async def stale(self) -> Mapping[str, str]:
        """Ids of the cells whose outputs no longer follow from the code above, each with why."""
        now = await self.read()
        self._stale = await self._find_stale(now.notebook, now.cells)
        return self._stale

    async def newly_stale(self) -> list[str]:
        """Ids of the cells that are stale and were not when `stale` was called before the act."""
        notebook = await self._find()
        stale = await self._find_stale(notebook, notebook.cells())
        return [cell_id for cell_id in stale if cell_id not in self._stale]

    async def _find_stale(self, notebook: Notebook, cells: Sequence[Cell]) -> Mapping[str, str]:
        kernel = await self.kernel()
        language, life = _language(notebook, kernel), kernel.life if kernel else ""
        return await self.work.services.executions.stale(self.path, cells, language, life)

    # -- what a person is shown before they allow something

    @contextmanager
    def with_pending_cells(self, cells: Mapping[tuple[str, str], Cell]) -> Iterator[None]:
        """Within the block these edits are taken as done in what a person is shown."""
        work, self.work = self.work, replace(self.work, pending_cells=cells)
        try:
            yield
        finally:
            self.work = work

    async def pending_cell(self, cell_id: str) -> Cell:
        """The cell as it will be once what is asked before was allowed. Raises CellNotFound."""
        cell = self.work.pending_cells.get((self.path, cell_id))
        return cell if cell is not None else await self.cell(cell_id)

    async def previews(self, edits: Sequence[Update]) -> dict[str, tuple[Cell, Cell]]:
        """By its id, each cell that `edit_all` would change now, and as it would leave it; raises
        as it does. Edits of one cell follow each other.
        """
        await self.read()
        cells: dict[str, tuple[Cell, Cell]] = {}
        for position, edit in enumerate(edits, start=1):
            try:
                before = await self.pending_cell(edit.cell_id)
                cell, now = cells.get(edit.cell_id, (before, before))
                self._refuse_blind_rewrite(now, edit.source)
                base = self.work.reads.source(self.path, cell.id)
                written = edit.cell_id in cells or (self.path, cell.id) in self.work.pending_cells
                if written and base is not None:
                    base = now.source  # the edit before will have written it
                cells[cell.id] = cell, preview(now, replace(edit, base=base))
            except ToolError as error:
                if len(edits) == 1:
                    raise
                none = f"None of the {len(edits)} edits was made, because of edit {position}. "
                raise error.saying(none + error.message, error.facts) from error
        return cells

    async def clusters(self, code: Iterable[str]) -> tuple[str, ...]:
        """Systems such as Dask or Spark on which this code may start work, as its text shows."""
        if await self.language() != "python":
            return ()
        cells = (await self.read()).cells
        sources = [cell.source for cell in cells if cell.type == "code"]
        code = list(code)
        return await asyncio.to_thread(clusters, code, [*sources, *code])

    async def code_cells(self, cell_ids: Sequence[str] | None) -> list[Cell]:
        """The named cells, or all code cells that have code, in the order of the notebook."""
        now = await self.read()
        cells = now.cells
        if cell_ids is not None:
            cells = [now.cell(cell_id) for cell_id in cell_ids]
        found = [self.work.pending_cells.get((self.path, cell.id), cell) for cell in cells]
        if cell_ids is not None:
            return found
        return [cell for cell in found if cell.type == "code" and cell.source.strip()]

    # -- editing

    async def edit_all(self, edits: Sequence[Update]) -> list[Edit]:
        """Edits of cells (Notebook.make), all or none; one per cell comes back, from top to bottom.

        The base of a whole text is what was last read here, and the version of the cell the one
        that a person approved. Raises as `make` does, with the cell as it is now.
        """
        refuse_odd_ids(*(edit.cell_id for edit in edits))
        notebook = (await self.take()).notebook
        steps = [
            self._step(cell, after, [edit for edit in edits if edit.cell_id == cell.id])
            for cell, after in (await self.previews(edits)).values()
        ]
        made = await notebook.make(steps)
        self._note_edits(notebook, made)
        for edit in edits:
            self._note_write(edit)
        return sorted(made, key=lambda edit: edit.cell.index if edit.cell else -1)

    def _step(self, cell: Cell, after: Cell, edits: Sequence[Update]) -> Update:
        """All the edits of the cell, which leave it as it is `after` them."""
        expect = self._expected_version(cell.id)
        if len(edits) == 1:
            base = self.work.reads.source(self.path, cell.id)
            return replace(edits[0], base=base, expect=expect)
        add = [tag for tag in after.tags if tag not in cell.tags]
        remove = [tag for tag in cell.tags if tag not in after.tags]
        return Update(
            cell_id=cell.id,
            source=after.source,
            base=cell.source,
            type=after.type,
            metadata=MetadataPatch(add_tags=add, remove_tags=remove),
            expect=expect,
        )

    def _note_write(self, step: Step) -> None:
        """What the conversation knows of the cell's text: nothing that it was not shown."""
        reads, path, cell_id = self.work.reads, self.path, step.cell_id
        match step:
            case Insert(source=str(source)) | Update(old_string=None, source=str(source)):
                reads.record_source(path, cell_id, unify(source))
            case Update(old_string=str(old)) if (known := reads.source(path, cell_id)) is not None:
                old = unify(old)
                count = known.count(old)
                if count == 1 or (count and step.replace_all):
                    reads.record_source(
                        path, cell_id, unify(known.replace(old, step.new_string or ""))
                    )
                else:
                    reads.forget(path, cell_id)
            case Delete():
                reads.remove(path, cell_id)

    async def make(self, steps: Sequence[Step]) -> list[Edit]:
        """Several edits, all or none (Notebook.make), for somebody who knows the cells as they are:
        a whole `source` without base and version is for the text that is there now. The version
        of a cell is the one that a person approved, where one did.
        """
        for step in steps:
            refuse_odd_ids(step.cell_id)
            if isinstance(step, Insert | Move):
                refuse_odd_ids(step.after, step.before)
        now = await self.take()
        sources = {cell.id: cell.source for cell in now.cells}
        based = [_with_base(sources, step) for step in steps]
        edits = await now.notebook.make([self._with_expected_version(step) for step in based])
        self._note_edits(now.notebook, edits)
        for step in steps:
            self._note_write(step)
        return edits

    def _with_expected_version(self, step: Step) -> Step:
        if isinstance(step, Insert | ClearOutputs):
            return step
        return replace(step, expect=self._expected_version(step.cell_id, step.expect))

    # -- running

    def approve(self, cells: Mapping[str, str]) -> None:
        """A person saw these cells, by id and version, and allowed what is done next."""
        self.work = replace(self.work, approved=cells)

    async def run(
        self, cell_id: str, *, timeout: float | None = None, expect: str | None = None
    ) -> Run:
        """Starts a cell in the notebook's own kernel; what it shows is no part of this lease."""
        refuse_odd_ids(cell_id)
        cell = await self.cell(cell_id)
        if cell.type != "code":
            raise InvalidInput(f"Cell `{cell_id}` is a {cell.type} cell: there is nothing to run.")
        now, kernel = await self._kernel_to_run()
        cell = now.cell(cell_id)
        if self._expected_version(cell_id, expect) not in (None, cell.version):
            raise Conflict(
                f"Cell `{cell_id}` changed meanwhile and was not run. It is now:\n{cell.source}",
                current=cell.describe(),
            )
        run = self.work.services.runs.start(
            now.notebook,
            kernel,
            cell,
            owner=self.work.user,
            turn_id=self.work.turn_id,
            timeout=timeout,
            trust=self.work.approved is not None,
        )
        self.runs.append(run)
        executions, life = self.work.services.executions, kernel.life

        def remember() -> None:
            if run.started is not None and run.execution_count is not None:
                executions.record_run(run.notebook_path, cell, run.execution_count, life)

        run.on_end(remember)
        self._snapshot = None
        return run

    async def run_code(self, code: str, *, timeout: float | None = None) -> Run:
        """Starts code that is in no cell in the notebook's own kernel."""
        now, kernel = await self._kernel_to_run()
        run = self.work.services.runs.start_code(
            now.notebook,
            kernel,
            code,
            owner=self.work.user,
            turn_id=self.work.turn_id,
            timeout=timeout,
        )
        self.runs.append(run)
        self._snapshot = None
        return run

    async def kernel(self) -> Kernel | None:
        """The notebook's own kernel, where one runs."""
        self._refuse_ended()
        return await self.work.services.kernels.find(self.path)

    async def kernel_life(self) -> str:
        """`Kernel.life` of the notebook's own kernel, empty where none runs."""
        kernel = await self.kernel()
        return kernel.life if kernel else ""

    async def start_kernel(self, name: str | None = None) -> Kernel:
        """The notebook's own kernel, started where none runs: of that name, or of the notebook's.

        What was read before is read again afterwards. Raises KernelNotInstalled, KernelUnavailable.
        """
        await self.work.need(("write", "kernels"), ("write", "sessions"))
        if name:  # also where one runs already
            await self.work.services.kernels.kernelspec(name)
        name = name or (await self.read()).kernel_name
        await self.release()
        self._snapshot = None
        return await self.work.services.kernels.get(self.path, name=name, user=self._user)

    async def _kernel_to_use(self) -> Kernel | None:
        """As `kernel`, for whoever leaves something in it or relies on what is there."""
        kernel = await self.kernel()
        if kernel is not None:
            kernel.use(self._user)
        return kernel

    async def _kernel_to_run(self) -> tuple[Snapshot, Kernel]:
        """The kernel that code runs in, started where none runs, which takes seconds, and the
        notebook as it is then.
        """
        await self.read()
        kernel = await self._kernel_to_use()
        if kernel is None:
            kernel = await self.start_kernel()
        now = await self.read()
        await self.work.check_kernel_peers(self.path, kernel)
        self.work.reads.kernels.setdefault(self.path, kernel.life)
        return now, kernel

    async def end_kernel(self) -> None:
        """Ends the kernel that this lease had started, once its runs are over and saved, unless
        somebody else uses it by now or a page shows the notebook. Raises KernelUnavailable.
        """
        for run in self.runs:
            await run.wait()
        if self._notebook is None:
            return
        with suppress(ToolError):  # one that is gone is shown nowhere
            await self._notebook.read()
        if self._notebook.carrier != "tab":
            await self.work.services.kernels.end_unused(self.path, self._user)

    async def kernelspec(self) -> str:
        """The name of the notebook's kernel: of the one that runs, or that would be started; empty
        where there is no notebook.
        """
        kernel = await self.kernel()
        if kernel is not None:
            return kernel.name
        try:
            name = (await self.read()).kernel_name
        except NotebookNotFound:
            return ""
        return name or self.work.services.kernels.default_name

    async def running_kernel(self) -> Kernel:
        """The notebook's kernel. Raises KernelUnavailable where none runs."""
        kernel = await self._kernel_to_use()
        if kernel is None:
            raise KernelUnavailable(f"No kernel runs for `{self.path}`; running a cell starts one.")
        self.work.reads.kernels.setdefault(self.path, kernel.life)
        return kernel

    async def variables(self, names: Sequence[str] | None) -> str:
        """What the variables of the notebook's kernel hold, as far as every notebook in it lets a
        model see them. Raises KernelUnavailable where none runs, NotPermitted.
        """
        kernel = await self.running_kernel()
        keeps = await self.work.check_kernel_peers(self.path, kernel)
        view = await self.view()
        if keeps is not None and view.outputs_shared:
            raise NotPermitted(
                f"Variables are not shared with you: `{keeps}` is in the same kernel, and keeps "
                "its own back or cannot be read."
            )
        return await view.variables(kernel, names)

    async def all_variables(self, names: Sequence[str] | None) -> str:
        """As `variables`, for somebody who may see all of the notebook."""
        await self.read()
        return await variables(await self.running_kernel(), names)

    # -- how

    def _refuse_ended(self) -> None:
        if self._ended:
            raise RuntimeError("This lease has ended: what is done with it is nobody's call.")

    async def _find(self) -> Notebook:
        self._refuse_ended()
        if self._notebook is None:
            self._notebook = await self.work.find(self._given_path)
        return self._notebook

    def _refuse_blind_rewrite(self, cell: Cell, source: str | None) -> None:
        """Raises NotRead for a whole rewrite of a text that models see only in part."""
        if source is not None and self.work.services.redactor.mask_all(cell.source) != cell.source:
            raise NotRead(
                f"Cell `{quoted_id(cell.id)}` has a secret that you are shown as `***`; a whole "
                "rewrite would lose it, so nothing was changed. Use `old_string` and `new_string`.",
                current=cell.describe(),
            )

    def _note_edits(self, notebook: Notebook, edits: Sequence[Edit]) -> None:
        """Nothing that was read before is used again."""
        made = [change for edit in edits for change in edit.changes]
        self.changes += made
        for change in made:
            if change.after is not None and change.kind in ("insert", "update"):
                version = version_of(change.after.type, change.after.source)
                notebook.last_edits[change.cell_id] = LastEdit(self.work.turn_id, version)
        self._snapshot = Snapshot(self.work, notebook, notebook.cells())

    def _expected_version(self, cell_id: str, given: str | None = None) -> str | None:
        """The version of the cell that is to be acted on; None for whichever is there.

        Raises Conflict for a cell whose text was in no question, where there was one about texts.
        """
        if given is not None or not self.work.approved:
            return given
        if cell_id not in self.work.approved:
            raise Conflict(
                f"Nobody saw cell `{cell_id}` when this was allowed, so nothing was done to it. "
                "Read it and call again to request approval."
            )
        return self.work.approved[cell_id]

    async def language(self) -> str:
        """The language of the notebook's code."""
        return _language((await self.read()).notebook, await self.kernel())


def _language(notebook: Notebook, kernel: Kernel | None) -> str:
    if kernel is not None:
        return kernel.language
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        if language := metadata_text(notebook.known_metadata, key, name):
            return language
    return "python"


def _with_base(sources: Mapping[str, str], step: Step) -> Step:
    if not isinstance(step, Update) or step.source is None or step.base or step.expect:
        return step
    return replace(step, base=sources.get(step.cell_id))


def refuse_odd_ids(*cell_ids: str | None) -> None:
    """Raises InvalidInput for the id of a cell that nbformat would not take. A file may have such
    ids: its cells are shown, and a person can edit and run them.
    """
    for cell_id in cell_ids:
        if cell_id is not None and not is_cell_id(cell_id):
            raise InvalidInput(
                f"{quoted_id(cell_id)} is no valid cell id (1 to 64 letters, digits, - and _), so "
                "nothing was done. Ask the person to edit the cell, or to give it another id."
            )
