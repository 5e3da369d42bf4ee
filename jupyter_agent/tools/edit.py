"""Tools that change cells of the live notebook."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from jupyter_agent.document.cell import Cell, CellType
from jupyter_agent.document.notebook import Edit
from jupyter_agent.errors import InvalidInput, NotPermitted
from jupyter_agent.legible import quoted
from jupyter_agent.text.notebook import whole
from jupyter_agent.tools.base import (
    Action,
    Effect,
    Need,
    Progress,
    Question,
    Result,
    Tool,
    told_stale,
)
from jupyter_agent.workspace.workspace import Lease


class EditTool(Tool):
    """A tool that changes the notebook."""

    effect: ClassVar[Effect] = "edit"
    action: ClassVar[Action] = "edit"
    needs: ClassVar[Sequence[Need]] = (("write", "contents"),)


class CreateCell(EditTool):
    """Insert a cell (default: at the end) and return its id. Does not run it."""

    name: ClassVar[str] = "create_cell"

    source: str
    type: CellType = "code"
    after: str | None = None
    """Cell id"""
    before: str | None = None
    """Cell id"""

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


class UpdateCell(EditTool):
    """Edit a cell in place: `old_string` (occurs exactly once) becomes `new_string`, or a whole new
    `source` for a cell you have read. What people typed meanwhile is merged; a conflict returns the
    current text."""

    name: ClassVar[str] = "update_cell"

    cell_id: str
    source: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    type: CellType | None = None

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


class DeleteCell(EditTool):
    """Delete a cell."""

    name: ClassVar[str] = "delete_cell"
    action: ClassVar[Action] = "delete"

    cell_id: str

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
    """Move a cell after or before another."""

    name: ClassVar[str] = "move_cell"

    cell_id: str
    after: str | None = None
    before: str | None = None

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
    """Create an empty notebook."""

    name: ClassVar[str] = "create_notebook"

    path: str
    kernel_name: str | None = None

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
    lines = list(difflib.ndiff(_lines(before), _lines(after)))
    return (
        sum(line.startswith("+ ") for line in lines),
        sum(line.startswith("- ") for line in lines),
    )


def _lines(text: str) -> list[str]:
    """Not `splitlines`: to change a carriage return or a Unicode line end is a change too."""
    return text.split("\n") if text else []
