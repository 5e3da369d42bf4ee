"""Tools that change cells of the live notebook."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.document.cell import Cell, CellType, version_of
from jupyter_agent.document.merge import LARGEST_MATCH, unlike_ranges
from jupyter_agent.document.notebook import CellDraft, Edit
from jupyter_agent.errors import InvalidInput, NotebookNotFound, NotPermitted
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.text.notebook import whole
from jupyter_agent.tools.base import (
    Action,
    CellDiff,
    Effect,
    Need,
    Progress,
    Question,
    Result,
    Tool,
    told_stale,
)
from jupyter_agent.tools.run import results_of, run_written
from jupyter_agent.workspace.workspace import Lease, TextEdit

_MOST_CELLS = 50
"""Of one call."""


class EditTool(Tool):
    """A tool that changes the notebook."""

    effect: ClassVar[Effect] = "edit"
    action: ClassVar[Action] = "edit"
    needs: ClassVar[Sequence[Need]] = (("write", "contents"),)


class CreateCell(EditTool):
    """Insert one new cell (default: at the end) and return its id, without running it. Where it is
    to run, or several belong together, use create_cells. Not for a question that words answer, nor
    where editing an existing cell does it."""

    name: ClassVar[str] = "create_cell"

    source: str
    """Its whole text"""
    type: CellType = "code"
    """Kind of cell"""
    after: str | None = None
    """Id of the cell above"""
    before: str | None = None
    """Id of the cell below"""

    async def leaves(self, nb: Lease) -> Sequence[Cell]:
        return [Cell(id="", index=-1, type=self.type, source=self.source)]

    async def question(self, nb: Lease) -> Question:
        return Question(notebook=nb.path, diff=diff("", self.source), cell_type=self.type)

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        await nb.take()
        await nb.stale()
        edit = await nb.insert(
            source=self.source, type=self.type, after=self.after, before=self.before
        )
        assert edit.cell is not None
        text = f"Inserted cell `{edit.cell.id}` at position {edit.cell.index + 1}."
        return await done(text, nb, edit)


class NewCellInput(BaseModel):
    """One new cell."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    source: str
    """Its whole text"""
    type: CellType = "code"
    """Kind of cell"""


class BatchEdit(EditTool):
    """Several cells at once, and with `run` the code among them."""

    does: ClassVar[tuple[str, ...]]
    """The names by which rules know what it does besides running."""

    @property
    def needed(self) -> Sequence[Need]:
        return (*self.needs, _EXECUTE) if self.executes else self.needs

    @property
    def powers(self) -> tuple[tuple[str, ...], ...]:
        return (self.does, ("run_cell", "run_cells")) if self.executes else (self.does,)

    async def acts(self, nb: Lease) -> Action:
        return "run" if self.executes else self.action

    async def runs(self, nb: Lease) -> Sequence[Cell]:
        return [cell for cell in await self.leaves(nb) if _runs(cell)] if self.executes else []


class CreateCells(BatchEdit):
    """Insert several cells, one below the other, and with `run` run the code among them up to the
    first error: a section in one call and one question to the person. Prefer it to create_cell and
    run_cell whenever new code is to run, even one cell. All are inserted or none; ids and outputs
    come back. A cell that failed is there: mend it with edit_cells. Example: {"cells": [{"type":
    "markdown", "source": "## Units"}, {"source": "df.head()"}], "run": true}."""

    name: ClassVar[str] = "create_cells"
    does: ClassVar[tuple[str, ...]] = ("create_cells", "create_cell")

    cells: list[NewCellInput] = Field(min_length=1, max_length=_MOST_CELLS)
    """From top to bottom"""
    after: str | None = None
    """Id of the cell above"""
    before: str | None = None
    """Id of the cell below"""
    and_run: bool = Field(default=False, alias="run")
    """Run the code among them"""

    @property
    def executes(self) -> bool:
        return self.and_run

    async def leaves(self, nb: Lease) -> Sequence[Cell]:
        return [Cell(id="", index=-1, type=cell.type, source=cell.source) for cell in self.cells]

    async def question(self, nb: Lease) -> Question:
        edits = [
            CellDiff(cell_id=None, cell_type=cell.type, diff=diff("", cell.source))
            for cell in self.cells
        ]
        return await _question(nb, edits, await self.runs(nb), run=self.and_run)

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        await nb.take()
        await nb.stale()
        edits = await nb.insert_all(
            [CellDraft(source=cell.source, type=cell.type) for cell in self.cells],
            after=self.after,
            before=self.before,
        )
        return await _all_done(nb, edits, "Inserted", run=self.and_run, progress=progress)


class UpdateCell(EditTool):
    """Edit one cell in place; id, metadata and outputs stay. For a small change give `old_string`
    and `new_string`; for a rewrite the whole `source` of a cell that you have read. What people
    typed meanwhile is merged; a conflict changes nothing and returns the current text. For several
    edits, or to run the cell afterwards, use edit_cells."""

    name: ClassVar[str] = "update_cell"

    cell_id: str
    """Which cell"""
    source: str | None = None
    """The whole new text"""
    old_string: str | None = None
    """Verbatim, once in the cell"""
    new_string: str | None = None
    """What stands there instead"""
    type: CellType | None = None
    """Another kind of cell"""

    @property
    def acts_on(self) -> Sequence[str]:
        return [self.cell_id]

    async def question(self, nb: Lease) -> Question:
        await self._refuse_to_uncover(nb)
        cell, after = await self._proposal(nb)
        text = after.source
        shown = diff(cell.source, text)
        if self.type not in (None, cell.type):
            shown = f"type: {cell.type} -> {self.type}\n{shown}"
        return Question(
            notebook=nb.path,
            cell_id=cell.id,
            diff=shown,
            cells={cell.id: cell.version},
            after={cell.id: after},
            cell_type=after.type,
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        if self.source is None and self.old_string is None and self.type is None:
            raise InvalidInput("Give `source`, or `old_string` and `new_string`, or `type`.")
        await self._refuse_to_uncover(nb)
        await nb.stale()
        edit = await nb.update(
            self.cell_id,
            source=self.source,
            old_string=self.old_string,
            new_string=self.new_string,
            type=self.type,
        )
        if not edit.changes:
            return await done(f"Cell `{self.cell_id}` was like that already.", nb, edit)
        change = edit.changes[0]
        assert change.before is not None
        assert edit.cell is not None
        plus, minus = count(change.before.source, edit.cell.source)
        text = f"Edited cell `{self.cell_id}` (+{plus} -{minus})."
        if nb.work.reads.source(nb.path, self.cell_id) not in (None, edit.cell.source):
            shown = nb.view.cell(edit.cell)
            text += " Somebody typed in it meanwhile; merged, it is now:\n"
            text += nb.work.fence.around(shown.source)
            nb.remember([shown] if whole(shown) else [])
        return await done(text, nb, edit)

    async def leaves(self, nb: Lease) -> Sequence[Cell]:
        return [(await self._proposal(nb))[1]]

    async def _proposal(self, nb: Lease) -> tuple[Cell, Cell]:
        """The cell as it is, and as it will be."""
        cell, text = await nb.proposal(
            self.cell_id,
            source=self.source,
            old_string=self.old_string,
            new_string=self.new_string,
        )
        return cell, replace(cell, source=text, type=self.type or cell.type)

    async def _refuse_to_uncover(self, nb: Lease) -> None:
        """As another type its text would be shown."""
        if self.type is None:
            return
        cell = await nb.cell(self.cell_id)
        if nb.view.cell(cell).withheld:
            raise NotPermitted(f"Cell `{cell.id}` is not shared with you: it keeps its type.")


class CellEditInput(BaseModel):
    """A new text for one cell."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    cell_id: str
    """Which cell"""
    source: str | None = None
    """The whole new text"""
    old_string: str | None = None
    """Verbatim, once in the cell"""
    new_string: str | None = None
    """What stands there instead"""


class EditCells(BatchEdit):
    """Edit several cells in place, and with `run` run them from top to bottom, up to the first
    error: one call and one question to the person. Prefer it to update_cell and run_cell whenever
    what you change is to run, even one cell. Each edit is as in update_cell. All are made or none:
    where one is refused you get that cell's current text. Example: {"edits": [{"cell_id": "b2",
    "old_string": "mean()", "new_string": "median()"}], "run": true}."""

    name: ClassVar[str] = "edit_cells"
    does: ClassVar[tuple[str, ...]] = ("edit_cells", "update_cell")

    edits: list[CellEditInput] = Field(min_length=1, max_length=_MOST_CELLS)
    """One per change"""
    and_run: bool = Field(default=False, alias="run")
    """Run them afterwards"""

    @property
    def executes(self) -> bool:
        return self.and_run

    @property
    def acts_on(self) -> Sequence[str]:
        return list(dict.fromkeys(edit.cell_id for edit in self.edits))

    async def leaves(self, nb: Lease) -> Sequence[Cell]:
        return [after for _, after in await self._proposals(nb)]

    async def question(self, nb: Lease) -> Question:
        proposals = await self._proposals(nb)
        return await _question(
            nb,
            [
                CellDiff(cell_id=cell.id, cell_type=cell.type, diff=diff(cell.source, after.source))
                for cell, after in proposals
            ],
            await self.runs(nb),
            run=self.and_run,
            cells=[cell for cell, _ in proposals],
            after=[after for _, after in proposals],
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        wanted = self._wanted()
        await nb.take()
        await nb.stale()
        edits = await nb.edit_all(wanted)
        return await _all_done(nb, edits, "Edited", run=self.and_run, progress=progress)

    async def _proposals(self, nb: Lease) -> list[tuple[Cell, Cell]]:
        """Each cell as it is, and as it will be, in the order of the notebook."""
        return [
            (cell, replace(cell, source=text)) for cell, text in await nb.proposals(self._wanted())
        ]

    def _wanted(self) -> list[TextEdit]:
        for edit in self.edits:
            if (edit.source is None) == (edit.old_string is None):
                raise InvalidInput(
                    f"Give `source`, or `old_string` and `new_string`, for cell `{edit.cell_id}`."
                )
        return [TextEdit(**edit.model_dump()) for edit in self.edits]


class DeleteCell(EditTool):
    """Delete one cell with its outputs. Only where the person asked for it, or for a cell of your
    own that is not needed: never to hide an error or to write the cell again. Refused for locked
    cells and while the person types there. What it defined stays in the kernel."""

    name: ClassVar[str] = "delete_cell"
    action: ClassVar[Action] = "delete"

    cell_id: str
    """Which cell"""

    @property
    def acts_on(self) -> Sequence[str]:
        return [self.cell_id]

    async def question(self, nb: Lease) -> Question:
        await nb.read()
        cell = await nb.foreseen(self.cell_id)
        return Question(
            notebook=nb.path,
            cell_id=cell.id,
            diff=diff(cell.source, ""),
            cells={cell.id: cell.version},
            cell_type=cell.type,
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        await nb.stale()
        edit = await nb.delete(self.cell_id)
        return await done(f"Deleted cell `{self.cell_id}`.", nb, edit)


class MoveCell(EditTool):
    """Move a cell, with its id and outputs, to put the order right; never delete and create it
    again instead. Give one of `after` and `before`. You get its new position and which cells became
    stale by it. Nothing is run."""

    name: ClassVar[str] = "move_cell"

    cell_id: str
    """Which cell"""
    after: str | None = None
    """Id of the cell above (default: the last)"""
    before: str | None = None
    """Id of the cell below"""

    @property
    def acts_on(self) -> Sequence[str]:
        return [self.cell_id]

    async def question(self, nb: Lease) -> Question:
        cell = await nb.cell(self.cell_id)
        where = "to the end"
        if self.after or self.before:
            where = f"after {self.after}" if self.after else f"before {self.before}"
        return Question(notebook=nb.path, cell_id=cell.id, diff=f"move {where}")

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        await nb.stale()
        edit = await nb.move(self.cell_id, after=self.after, before=self.before)
        assert edit.cell is not None
        text = f"Moved cell `{self.cell_id}` to position {edit.cell.index + 1}."
        return await done(text, nb, edit)


class CreateNotebook(EditTool):
    """Create an empty notebook and return its path. Only where the person wants one of its own: not
    for plain questions, nor for work that belongs into the open one. It fails where the path
    exists. To fill it, name its path as `notebook` in the next calls."""

    name: ClassVar[str] = "create_notebook"

    path: str
    """Of the new file below the root; ends with .ipynb"""
    kernel_name: str | None = None
    """Default: the server's"""

    @property
    def target(self) -> str:
        return self.path

    async def question(self, nb: Lease) -> Question:
        self._refuse_other_files()
        return Question(notebook=nb.path, diff=f"new notebook {self.path}{_with(self.kernel_name)}")

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        self._refuse_other_files()
        notebook = await nb.work.create(self.path, self.kernel_name)
        return Result(text=f"Created `{quoted(notebook.path)}`.", facts={"notebook": notebook.path})

    def _refuse_other_files(self) -> None:
        """A file of another name may be one that a program obeys: settings, instructions."""
        if not self.path.endswith(".ipynb"):
            raise InvalidInput("The path of a new notebook ends with `.ipynb`.")


def _with(kernel_name: str | None) -> str:
    return f", kernel {kernel_name}" if kernel_name else ""


_EXECUTE: Need = ("execute", "kernels")


def _runs(cell: Cell) -> bool:
    return cell.type == "code" and bool(cell.source.strip())


async def _question(
    nb: Lease,
    edits: Sequence[CellDiff],
    codes: Sequence[Cell],
    *,
    run: bool,
    cells: Sequence[Cell] = (),
    after: Sequence[Cell] = (),
) -> Question:
    """Of edits of several cells, now these `cells`, and of a run of what they leave."""
    started: tuple[str, ...] = ()
    if run:
        with suppress(NotebookNotFound):  # it may be made by what is asked before
            await nb.read()
            started = await nb.clusters([cell.source for cell in codes])
    return Question(
        notebook=nb.path,
        cell_id=edits[0].cell_id if len(edits) == 1 else None,
        diff="\n".join(each.diff for each in edits),
        edits=edits,
        code="\n\n".join(cell.source for cell in codes) if run else None,
        cells={cell.id: cell.version for cell in cells},
        after={cell.id: cell for cell in after},
        clusters=started,
    )


async def _all_done(
    nb: Lease, edits: Sequence[Edit], verb: str, *, run: bool, progress: Progress | None
) -> Result:
    """What is told of edits that are in the live document, and of the run of what they left."""
    await nb.release()
    saved = edits[0].saved
    cells = [edit.cell for edit in edits if edit.cell is not None]
    versions = {
        edit.cell.id: _written(edit) for edit in edits if edit.cell is not None and _runs(edit.cell)
    }
    runs, note = await run_written(nb, versions, progress) if run else ([], "")
    names = ", ".join(
        f"`{quoted_id(cell.id)}` ({_extent(edit)})" for edit, cell in zip(edits, cells, strict=True)
    )
    head = " ".join(filter(None, [f"{verb} {names}.", saved.note]))
    result = await results_of(runs, nb.work, note) if runs else Result(text=note)
    stale = await nb.became_stale()
    facts: dict[str, Any] = {
        "saved": saved.saved,
        "notebook": nb.path,
        "cell_ids": [cell.id for cell in cells],
    }
    return replace(
        result,
        text="\n\n".join(filter(None, [head, result.text])),
        facts={**facts, **result.facts},
        changes=[*(change for edit in edits for change in edit.changes), *result.changes],
    ).with_stale([cell_id for cell_id in stale if run or cell_id not in facts["cell_ids"]])


def _written(edit: Edit) -> str:
    """The version that the edit gave the cell, without what somebody typed at the same moment."""
    assert edit.cell is not None
    after = edit.changes[0].after if edit.changes else None
    return version_of(after.type, after.source) if after else edit.cell.version


def _extent(edit: Edit) -> str:
    """How much changed, and of a new cell where it is."""
    assert edit.cell is not None
    if not edit.changes:
        return "was like that already"
    before = edit.changes[0].before
    if before is None:
        return f"position {edit.cell.index + 1}"
    plus, minus = count(before.source, edit.cell.source)
    return f"+{plus} -{minus}"


async def done(text: str, nb: Lease, edit: Edit) -> Result:
    """What is told of an edit that is in the live document, and of the cells it made stale."""
    await nb.release()
    stale = await nb.became_stale() if edit.changes else []
    cell_id = edit.changes[0].cell_id if edit.changes else edit.cell and edit.cell.id
    facts = {
        "saved": edit.saved.saved,
        "notebook": nb.path,
        "cell_id": cell_id,
        "stale": stale,
    }
    notes = [text, edit.saved.note, told_stale([other for other in stale if other != cell_id])]
    return Result(text=" ".join(filter(None, notes)), facts=facts, changes=edit.changes)


def diff(before: str, after: str) -> str:
    """A unified diff of two cell texts, without file names."""
    lines = difflib.unified_diff(_lines(before), _lines(after), n=2, lineterm="")
    return "\n".join(list(lines)[2:])


def count(before: str, after: str) -> tuple[int, int]:
    """How many lines came and went."""
    ranges = list(unlike_ranges(_lines(before), _lines(after), LARGEST_MATCH))
    return sum(m - k for _, _, k, m in ranges), sum(j - i for i, j, _, _ in ranges)


def _lines(text: str) -> list[str]:
    """Not `splitlines`: to change a carriage return or a Unicode line end is a change too."""
    return text.split("\n") if text else []
