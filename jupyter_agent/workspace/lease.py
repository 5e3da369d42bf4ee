"""The only access to a notebook: the caller of a lease was authorized, and all its actions are
based on one snapshot.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace

from jupyter_agent.document.cell import Cell, Change, version_of
from jupyter_agent.document.edit_result import Edit, LastEdit
from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import (
    ClearOutputs,
    Delete,
    Insert,
    MetadataPatch,
    Move,
    Step,
    Update,
    preview,
)
from jupyter_agent.errors import (
    Conflict,
    NotPermitted,
    NotRead,
    ToolError,
)
from jupyter_agent.legible import quoted_id
from jupyter_agent.text.encodings import Decoded
from jupyter_agent.text.notebook import HIDDEN, hidden, render_cells
from jupyter_agent.workspace.leased_kernel import LeasedKernel, language_of
from jupyter_agent.workspace.paths import Lookup
from jupyter_agent.workspace.snapshot import Snapshot, refuse_odd_ids
from jupyter_agent.workspace.visibility import View
from jupyter_agent.workspace.workspace import Need, Workspace


@asynccontextmanager
async def lease(
    work: Workspace, path: str | None, *needs: Need, paths: Lookup | None = None
) -> AsyncIterator[Lease]:
    """The notebook at `path`, by default the turn's own, for one call.

    `needs` are the actions of the call; raises NotPermitted if the authorizer forbids one of them.
    `paths` has paths that were already looked up for the call.
    """
    await work.need(*needs)
    nb = Lease(work, path, paths or work.lookup())
    try:
        yield nb
    finally:
        await nb.end()


class Lease:
    """One notebook for one call, whose caller was authorized.

    `read` opens it; then all parts of the call (permission, question, result) see the same
    `Snapshot`, until the lease changes the notebook. `take` blocks changes by others until
    `release`, so that an edit applies to the snapshot. After `end` the lease cannot be used, except
    for `kernel.end`.
    """

    def __init__(self, work: Workspace, path: str | None, paths: Lookup) -> None:
        self.work = work
        self.paths = paths
        """Resolves the paths of the call."""
        self._given_path = path
        self.notebook: Notebook | None = None
        """Once it is found."""
        self._snapshot: Snapshot | None = None
        self._lock: AsyncExitStack | None = None
        self._ended = False
        self._stale: Mapping[str, str] = {}
        """The stale cells before the lease changed anything: id -> the reason."""
        self.changes: list[Change] = []
        """Changes made with this lease, for the journal if the call fails."""
        self.kernel = LeasedKernel(self)

    # -- reading

    @property
    def path(self) -> str:
        """The path of the notebook, current once it is read. Raises InvalidInput without one."""
        return self.work.resolve(self._given_path) if self.notebook is None else self.notebook.path

    async def read(self) -> Snapshot:
        """The notebook with everything typed before the first call.

        Raises NotebookNotFound, UnreadableNotebook or Busy.
        """
        if self._snapshot is None:
            notebook = await self._find()
            self._snapshot = Snapshot(self.work, notebook, await notebook.read())
        return self._snapshot

    async def look(self, *, patience: float | None = 0.0) -> Snapshot:
        """Like `read`, without waiting for typing on its way here (Notebook.read_live)."""
        if self._snapshot is None:
            notebook = await self._find()
            self._snapshot = Snapshot(
                self.work, notebook, await notebook.read_live(patience=patience)
            )
        return self._snapshot

    async def take(self) -> Snapshot:
        """Like `read`; no one else can change the notebook until `release`."""
        if self._lock is None or self._snapshot is None:
            stack, notebook = AsyncExitStack(), await self._find()
            cells = await stack.enter_async_context(notebook.hold())
            self._lock, self._snapshot = stack, Snapshot(self.work, notebook, cells)
        return self._snapshot

    async def release(self) -> None:
        """Let others change the notebook again."""
        stack, self._lock = self._lock, None
        if stack is not None:
            await stack.aclose()

    def renew(self) -> None:
        """Let the next `read` return a new snapshot."""
        self._snapshot = None

    async def end(self) -> None:
        """End the call."""
        await self.release()
        self._snapshot, self._ended = None, True

    async def cell(self, cell_id: str) -> Cell:
        """One cell. Raises CellNotFound."""
        return (await self.read()).cell(cell_id)

    async def view(self) -> View:
        """The parts of the notebook that a model may see; the strictest if it cannot be read."""
        try:
            return (await self.read()).view
        except ToolError:
            return await self.work.visibility(self._given_path)

    async def file_text(self, shared_as: str | None = None) -> Decoded:
        """The text of the named file; for a notebook its cells, without marks. Raises ToolError.

        The notebook `shared_as` decides what a model may see of other files.
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
        """The bytes of the named file in base64. Raises ToolError."""
        path = self.work.resolve(self._given_path)
        (await self.work.visibility()).document(path)
        return await self.work.services.files.data(path)

    def remember(self, cells: Sequence[Cell]) -> None:
        """Note that the full source of these cells was shown to this conversation."""
        self.work.reads.record_sources(self.path, cells)

    async def refuse_hidden(self, cell_ids: Sequence[str]) -> None:
        """Raises NotPermitted if one of these cells is hidden from models."""
        if not cell_ids:
            return
        refuse_odd_ids(*cell_ids)
        hidden_ids = {cell.id for cell in (await self.read()).cells if hidden(cell)}
        for cell_id in cell_ids:
            if cell_id in hidden_ids:
                raise NotPermitted(
                    f"Cell `{cell_id}` is hidden from you (tagged `{HIDDEN}`): you cannot change, "
                    "move, delete or run it. Ask the person to do that."
                )

    async def stale(self) -> Mapping[str, str]:
        """Cells whose outputs no longer follow from the code above: id -> the reason."""
        now = await self.read()
        self._stale = await self._find_stale(now.notebook, now.cells)
        return self._stale

    async def newly_stale(self) -> list[str]:
        """Ids of stale cells that were not stale when `stale` was last called."""
        notebook = await self._find()
        stale = await self._find_stale(notebook, notebook.cached_cells())
        return [cell_id for cell_id in stale if cell_id not in self._stale]

    async def _find_stale(self, notebook: Notebook, cells: Sequence[Cell]) -> Mapping[str, str]:
        kernel = await self.kernel.find()
        language, life = language_of(notebook, kernel), kernel.life if kernel else ""
        return await self.work.services.executions.stale(self.path, cells, language, life)

    # -- previews for approval

    @contextmanager
    def with_pending_cells(self, cells: Mapping[tuple[str, str], Cell]) -> Iterator[None]:
        """Within the block, previews assume that these earlier edits are made: see `Workspace`."""
        work, self.work = self.work, replace(self.work, pending_cells=cells)
        try:
            yield
        finally:
            self.work = work

    async def pending_cell(self, cell_id: str) -> Cell:
        """The cell after the edits of earlier questions, if any. Raises CellNotFound."""
        cell = self.work.pending_cells.get((self.path, cell_id))
        return cell if cell is not None else await self.cell(cell_id)

    async def previews(self, edits: Sequence[Update]) -> dict[str, tuple[Cell, Cell]]:
        """Cells that `edit_all` would change: id -> the cell before and after. Edits of one cell
        are applied in order. Raises the same errors.
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
                    base = now.source  # an earlier edit will have written it
                cells[cell.id] = cell, preview(now, replace(edit, base=base))
            except ToolError as error:
                if len(edits) == 1:
                    raise
                none = f"None of the {len(edits)} edits was made, because of edit {position}. "
                raise error.saying(none + error.message, error.facts) from error
        return cells

    async def code_cells(self, cell_ids: Sequence[str] | None) -> list[Cell]:
        """The named cells, or all non-empty code cells in the order of the notebook."""
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
        """Make edits of cells, all or none (Notebook.make); returns one per cell, top to bottom.

        A whole text is based on the source that this conversation last read, and a cell has to
        have the version that a person approved, if any. Raises as `make` does, with the current
        cell.
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
        """One step for all edits of the cell, which result in `after`."""
        expect = self.expected_version(cell.id)
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
        """Update the source that this conversation knows, with nothing that it was not shown."""
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
        """Make several edits, all or none (Notebook.make), for a caller who knows the cells: a
        whole `source` without base and version replaces the current text. A cell has to have the
        version that a person approved, if any.
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
        return replace(step, expect=self.expected_version(step.cell_id, step.expect))

    def approve(self, cells: Mapping[str, str]) -> None:
        """Note that a person saw these cells, id -> version, and allowed the next action."""
        self.work = replace(self.work, approved=cells)

    # -- internals

    def refuse_ended(self) -> None:
        """Raises RuntimeError after `end`."""
        if self._ended:
            raise RuntimeError("This lease has ended: it can no longer be used.")

    async def _find(self) -> Notebook:
        self.refuse_ended()
        if self.notebook is None:
            self.notebook = await self.work.find(self._given_path)
        return self.notebook

    def _refuse_blind_rewrite(self, cell: Cell, source: str | None) -> None:
        """Raises NotRead for a whole rewrite of a source with secrets, which models see masked."""
        if source is not None and self.work.services.redactor.mask_all(cell.source) != cell.source:
            raise NotRead(
                f"Cell `{quoted_id(cell.id)}` has a secret that you are shown as `***`; a whole "
                "rewrite would lose it, so nothing was changed. Use `old_string` and `new_string`.",
                current=cell.describe(),
            )

    def _note_edits(self, notebook: Notebook, edits: Sequence[Edit]) -> None:
        """Record edits and replace the snapshot with the current notebook."""
        made = [change for edit in edits for change in edit.changes]
        self.changes += made
        for change in made:
            if change.after is not None and change.kind in ("insert", "update"):
                version = version_of(change.after.type, change.after.source)
                notebook.last_edits[change.cell_id] = LastEdit(self.work.turn_id, version)
        self._snapshot = Snapshot(self.work, notebook, notebook.cached_cells())

    def expected_version(self, cell_id: str, given: str | None = None) -> str | None:
        """The version that the cell has to have; None for any.

        Raises Conflict if a person approved certain cells and this is not one of them.
        """
        if given is not None or not self.work.approved:
            return given
        if cell_id not in self.work.approved:
            raise Conflict(
                f"No one saw cell `{cell_id}` when this was allowed, so nothing was done to it. "
                "Read it and call again to request approval."
            )
        return self.work.approved[cell_id]


def _with_base(sources: Mapping[str, str], step: Step) -> Step:
    if not isinstance(step, Update) or step.source is None or step.base or step.expect:
        return step
    return replace(step, base=sources.get(step.cell_id))
