"""Tools that change cells of the live notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.document.cell import Cell, CellType
from jupyter_agent.document.steps import (
    ClearOutputs,
    Delete,
    Insert,
    MetadataPatch,
    Move,
    Update,
)
from jupyter_agent.errors import InvalidInput, NotPermitted
from jupyter_agent.legible import pluralize, quoted
from jupyter_agent.text.notebook import hidden
from jupyter_agent.tools.base import (
    Action,
    CellDiff,
    Effect,
    Need,
    Progress,
    Question,
    Result,
    Tool,
)
from jupyter_agent.tools.edit_results import (
    cell_diff,
    diff,
    edit_result,
    edits_result,
    is_runnable,
    question_about,
    tags_diff,
)
from jupyter_agent.tools.run import RunCells
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease

_MOST_CELLS = 50
"""In one call."""


class EditTool(Tool):
    """A tool that changes the notebook."""

    effect: ClassVar[Effect] = "edit"
    action: ClassVar[Action] = "edit"
    needs: ClassVar[Sequence[Need]] = (("write", "contents"),)


class CellTool(EditTool):
    """A tool that changes existing cells, or their order."""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        await nb.take()
        await nb.stale()  # the baseline of `newly_stale`
        return await self.change(nb, progress)

    @abstractmethod
    async def change(self, nb: Lease, progress: Progress | None) -> Result:
        """Like `run`, while no one else can change the notebook."""


class NewCellInput(BaseModel):
    """One new cell."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    source: str
    type: CellType = "code"
    tags: list[str] = Field(default=[])

    def insert(self, *, after: str | None, before: str | None) -> Insert:
        """The cell as an insert at that position."""
        metadata = {"tags": list(dict.fromkeys(self.tags))} if self.tags else {}
        return Insert(
            source=self.source, type=self.type, metadata=metadata, after=after, before=before
        )


class CellWriter(CellTool):
    """Writes several cells at once, and with `run` runs the code in them."""

    and_run: bool = Field(default=False, alias="run")
    """Then run the code, up to the first error"""

    @property
    def executes(self) -> bool:
        return self.and_run

    @property
    def call_needs(self) -> Sequence[Need]:
        return (*self.needs, _EXECUTE) if self.executes else self.needs

    @property
    def powers(self) -> tuple[tuple[str, ...], ...]:
        return (*super().powers, RunCells.all_names()) if self.executes else super().powers

    async def current_action(self, nb: Lease) -> Action:
        return "run" if self.executes else self.action

    async def cells_to_run(self, nb: Lease) -> Sequence[Cell]:
        return (
            [cell for cell in await self.resulting_cells(nb) if is_runnable(cell)]
            if self.executes
            else []
        )


class CreateCells(CellWriter):
    """Insert cells one below the other, and with `run` run the code among them: a section in one
    call. Not where an answer, run_code or an edit will do. All are inserted or none; you get ids
    and outputs. Fix a failed cell with edit_cells."""

    name: ClassVar[str] = "create_cells"
    former_names: ClassVar[tuple[str, ...]] = ("create_cell",)
    words: ClassVar[Sequence[Words]] = (
        Words(
            (
                "Add a cell{place| at the end} and run it",
                "Add {count} cells{place| at the end} and run them",
            ),
            ("Adding a cell{place} and running it", "Adding {count} cells{place} and running them"),
            ("{cells} added and run", "{count} cells added and run"),
            scope="add and run any cells",
            given="run",
            counts="cells",
        ),
        Words(
            ("Add a cell{place| at the end}", "Add {count} cells{place| at the end}"),
            ("Adding a cell{place}", "Adding {count} cells{place}"),
            ("{cells} added", "{count} cells added"),
            scope="add any cells",
            counts="cells",
        ),
    )
    icon: ClassVar[Icon] = "add"
    strict: ClassVar[bool] = True

    cells: list[NewCellInput] = Field(min_length=1, max_length=_MOST_CELLS)
    after: str | None = None
    """Id of the cell above (default: the last)"""
    before: str | None = None
    """Or: id of the cell below"""

    async def resulting_cells(self, nb: Lease) -> Sequence[Cell]:
        return [Cell(id="", index=-1, type=cell.type, source=cell.source) for cell in self.cells]

    async def question(self, nb: Lease) -> Question:
        edits = [
            CellDiff(
                cell_id=None,
                cell_type=cell.type,
                diff="\n".join([*tags_diff((), cell.tags), diff("", cell.source)]),
            )
            for cell in self.cells
        ]
        return await question_about(nb, edits, await self.cells_to_run(nb), run=self.and_run)

    async def change(self, nb: Lease, progress: Progress | None) -> Result:
        steps: list[Insert] = []
        for cell in self.cells:
            above = steps[-1].cell_id if steps else self.after
            steps.append(cell.insert(after=above, before=None if steps else self.before))
        edits = await nb.make(steps)
        return await edits_result(nb, edits, "Inserted", run=self.and_run, progress=progress)


class CellEditInput(BaseModel):
    """The change of one cell."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    cell_id: str
    source: str | None = None
    """The whole new text of a cell that you have read"""
    old_string: str | None = None
    """Or: text that is there exactly so, once unless `replace_all`"""
    new_string: str | None = None
    replace_all: bool = False
    type: CellType | None = None
    add_tags: list[str] = Field(default=[])
    remove_tags: list[str] = Field(default=[])

    def edit(self) -> Update:
        """Raises InvalidInput if there is nothing to change."""
        texts = (self.source, self.old_string, self.new_string)
        if not any((self.type, self.add_tags, self.remove_tags)) and texts == (None, None, None):
            raise InvalidInput(
                "Give `source`, or `old_string` and `new_string`, or `type`, `add_tags`, "
                f"`remove_tags` for cell `{self.cell_id}`."
            )
        return Update(
            cell_id=self.cell_id,
            source=self.source,
            old_string=self.old_string,
            new_string=self.new_string,
            replace_all=self.replace_all,
            type=self.type,
            metadata=MetadataPatch(add_tags=self.add_tags, remove_tags=self.remove_tags),
        )


class EditCells(CellWriter):
    """Edit cells in place, and with `run` run them; ids and metadata stay, and outputs unless the
    type changes. What people type at the same time is merged. All edits are made or none: on a
    conflict you get that cell's text."""

    name: ClassVar[str] = "edit_cells"
    former_names: ClassVar[tuple[str, ...]] = ("update_cell",)
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Edit and run {cells}",
            "Editing and running {cells}",
            "{cells} edited and run",
            scope="edit and run any cells",
            given="run",
        ),
        Words("Edit {cells}", "Editing {cells}", "{cells} edited", scope="edit any cells"),
    )
    icon: ClassVar[Icon] = "edit"
    strict: ClassVar[bool] = True
    examples: ClassVar[Sequence[Mapping[str, Any]]] = (
        {
            "edits": [{"cell_id": "b2", "old_string": "mean()", "new_string": "median()"}],
            "run": True,
        },
    )

    edits: list[CellEditInput] = Field(min_length=1, max_length=_MOST_CELLS)

    @property
    def acts_on(self) -> Sequence[str]:
        return list(dict.fromkeys(edit.cell_id for edit in self.edits))

    async def resulting_cells(self, nb: Lease) -> Sequence[Cell]:
        return [after for _, after in await self._previews(nb)]

    async def question(self, nb: Lease) -> Question:
        previews = await self._previews(nb)
        return await question_about(
            nb,
            [
                CellDiff(cell_id=cell.id, cell_type=after.type, diff=cell_diff(cell, after))
                for cell, after in previews
            ],
            await self.cells_to_run(nb),
            run=self.and_run,
            cells=[cell for cell, _ in previews],
            after=[after for _, after in previews],
        )

    async def change(self, nb: Lease, progress: Progress | None) -> Result:
        await self._refuse_to_uncover(nb)
        edits = await nb.edit_all([edit.edit() for edit in self.edits])
        return await edits_result(nb, edits, "Edited", run=self.and_run, progress=progress)

    async def _previews(self, nb: Lease) -> list[tuple[Cell, Cell]]:
        """Each cell as it is and as it will be, in the order of the notebook."""
        previews = await nb.previews([edit.edit() for edit in self.edits])
        await self._refuse_to_uncover(nb)
        return sorted(previews.values(), key=lambda pair: pair[0].index)

    async def _refuse_to_uncover(self, nb: Lease) -> None:
        """Refuses to change a hidden cell's type, which would show its text."""
        for edit in self.edits:
            if edit.type is None:
                continue
            now = await nb.read()
            if now.view.cell(cell := now.cell(edit.cell_id)).withheld:
                raise NotPermitted(f"Cell `{cell.id}` is not shared with you: it keeps its type.")


class DeleteCell(CellTool):
    """Delete a cell. Only if the person asked, or it is yours and not needed: never to hide an
    error. What it defined stays in the kernel."""

    name: ClassVar[str] = "delete_cell"
    words: ClassVar[Sequence[Words]] = (
        Words("Delete {cells}", "Deleting {cells}", "{cells} deleted", scope="delete any cell"),
    )
    icon: ClassVar[Icon] = "delete"
    action: ClassVar[Action] = "delete"

    cell_id: str

    @property
    def acts_on(self) -> Sequence[str]:
        return [self.cell_id]

    async def question(self, nb: Lease) -> Question:
        await nb.read()
        cell = await nb.pending_cell(self.cell_id)
        return Question(
            notebook=nb.path,
            cell_id=cell.id,
            diff=diff(cell.source, ""),
            cells={cell.id: cell.version},
            cell_type=cell.type,
        )

    async def change(self, nb: Lease, progress: Progress | None) -> Result:
        (edit,) = await nb.make([Delete(cell_id=self.cell_id)])
        return await edit_result(f"Deleted cell `{self.cell_id}`.", nb, edit)


class MoveCell(CellTool):
    """Move a cell with its id and outputs; never delete and create it again instead. Runs nothing.
    You get which cells became stale."""

    name: ClassVar[str] = "move_cell"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Move {cells}{place| to the end}",
            "Moving {cells}{place}",
            "Moved {cells}{place}",
            scope="move any cell",
        ),
    )
    icon: ClassVar[Icon] = "move"

    cell_id: str
    after: str | None = None
    """Id of the cell above (default: the last)"""
    before: str | None = None
    """Or: id of the cell below"""

    @property
    def acts_on(self) -> Sequence[str]:
        return [self.cell_id]

    async def question(self, nb: Lease) -> Question:
        cell = await nb.cell(self.cell_id)
        where = "to the end"
        if self.after or self.before:
            where = f"after {self.after}" if self.after else f"before {self.before}"
        return Question(notebook=nb.path, cell_id=cell.id, diff=f"move {where}")

    async def change(self, nb: Lease, progress: Progress | None) -> Result:
        step = Move(cell_id=self.cell_id, after=self.after, before=self.before)
        (edit,) = await nb.make([step])
        assert edit.cell is not None
        text = f"Moved cell `{self.cell_id}` to position {edit.cell.index + 1}."
        return await edit_result(text, nb, edit)


class ClearCells(CellTool):
    """Clear outputs and run numbers of code cells. Only if the person asked: results that took long
    are gone. Refused while one of the cells runs."""

    name: ClassVar[str] = "clear_outputs"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Clear the outputs of {cells|all cells}",
            "Clearing the outputs of {cells|all cells}",
            "Cleared the outputs of {cells|all cells}",
            scope="clear any outputs",
        ),
    )
    icon: ClassVar[Icon] = "delete"
    action: ClassVar[Action] = "delete"

    cell_ids: list[str] | None = None
    """Default: all"""

    @property
    def acts_on(self) -> Sequence[str]:
        return self.cell_ids or ()

    async def question(self, nb: Lease) -> Question:
        cells = await self._cells(nb)
        return Question(
            notebook=nb.path,
            cell_id=cells[0].id if len(cells) == 1 else None,
            diff=f"clear the outputs of {pluralize(len(cells), 'cell')}",
            whole=self.cell_ids is None,
        )

    async def change(self, nb: Lease, progress: Progress | None) -> Result:
        edits = await nb.make([ClearOutputs(cell_id=cell.id) for cell in await self._cells(nb)])
        return await edits_result(nb, edits, "Cleared the outputs of", run=False, progress=progress)

    async def _cells(self, nb: Lease) -> list[Cell]:
        """The named cells; by default all with outputs that models may see. Raises InvalidInput if
        no cell has any, CellNotFound.
        """
        cells = [cell for cell in await nb.code_cells(self.cell_ids) if not hidden(cell)]
        if self.cell_ids is None:
            cells = [cell for cell in cells if cell.outputs or cell.execution_count is not None]
        if not cells:
            raise InvalidInput("No cell that you may clear has outputs.")
        return cells


class CreateNotebook(EditTool):
    """Create an empty notebook. Only if the person wants a separate one. To fill it, give its path
    as `notebook`."""

    name: ClassVar[str] = "create_notebook"
    names_notebook: ClassVar[bool] = False
    words: ClassVar[Sequence[Words]] = (
        Words("Create {path}", "Creating {path}", "Created {path}", scope="create notebooks"),
    )
    icon: ClassVar[Icon] = "add"

    path: str
    """Below Jupyter's root, *.ipynb"""
    kernel_name: str | None = None
    """Default: the server's"""

    @property
    def target(self) -> str:
        return self.path

    async def question(self, nb: Lease) -> Question:
        self._refuse_other_files()
        name = self.kernel_name
        return Question(
            notebook=nb.path,
            diff=f"new notebook {self.path}{_kernel_suffix(name)}",
            remarks=(
                phrase("with the kernel “{name}”", name=name)
                if name
                else phrase("with the default kernel"),
            ),
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        self._refuse_other_files()
        notebook = await nb.work.create(self.path, self.kernel_name)
        return Result(text=f"Created `{quoted(notebook.path)}`.", facts={"notebook": notebook.path})

    def _refuse_other_files(self) -> None:
        """Refuses other file names: such a file may be settings or instructions for a program."""
        if not self.path.endswith(".ipynb"):
            raise InvalidInput("The path of a new notebook ends with `.ipynb`.")


def _kernel_suffix(kernel_name: str | None) -> str:
    return f", kernel {kernel_name}" if kernel_name else ""


_EXECUTE: Need = ("execute", "kernels")
