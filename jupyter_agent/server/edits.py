"""Cells over REST: insert, edit, move and delete them, one at a time or several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from jupyter_agent.document.cell import CellType
from jupyter_agent.document.edit_result import Edit
from jupyter_agent.document.steps import (
    ClearOutputs,
    Delete,
    Insert,
    MetadataPatch,
    Move,
    Step,
    Update,
)
from jupyter_agent.errors import Conflict, InvalidInput, RequestError, ToolError
from jupyter_agent.server.answers.notebooks import CellAnswer, ClearAnswer, EditsAnswer
from jupyter_agent.server.base import operation
from jupyter_agent.server.notebooks import EDITS, Body, DocumentHandler, describe_cell
from jupyter_agent.tools.edit_results import diff
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.workspace import READ

_MOST_EDITS = 500
"""In one request."""


class CellPlace(Body):
    """The position for a cell; the end if none is given."""

    after: str | None = None
    before: str | None = None
    index: int | None = Field(default=None, ge=0)


class NewCell(CellPlace):
    """A cell to insert; at the end if no position is given."""

    source: str = ""
    type: CellType = "code"
    metadata: dict[str, Any] = Field(default_factory=dict)

    def step(self) -> Insert:
        patch = MetadataPatch(items=self.metadata)
        given = self.model_dump(include={"source", "type", "after", "before", "index"})
        return Insert(**given, metadata=patch.apply_to({}))


class CellEdit(Body):
    """A cell's new text (whole, or one string for another), type, metadata or tags."""

    source: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False
    """Replaces every `old_string` instead of the only one."""
    type: CellType | None = None
    metadata: dict[str, Any] | None = None
    """Keys with their new values; null removes a key."""
    add_tags: list[str] = Field(default_factory=list)
    remove_tags: list[str] = Field(default_factory=list)

    def step(self, cell_id: str, *, expect: str | None, base: str | None = None) -> Update:
        """Raises InvalidInput if there is nothing to change."""
        given = self.model_dump(include=set(CellEdit.model_fields) - {"replace_all"})
        if not any(given.values()) and self.source is None and self.old_string is None:
            raise InvalidInput(
                "Give `source`, or `old_string` and `new_string`, or `type`, `metadata`, "
                "`add_tags`, `remove_tags`."
            )
        return Update(
            cell_id=cell_id,
            source=self.source,
            base=base,
            old_string=self.old_string,
            new_string=self.new_string,
            replace_all=self.replace_all,
            type=self.type,
            metadata=MetadataPatch(
                items=self.metadata or {}, add_tags=self.add_tags, remove_tags=self.remove_tags
            ),
            expect=expect,
        )


class InsertEdit(NewCell):
    """A new cell."""

    op: Literal["insert"]


class UpdateEdit(CellEdit):
    """A change of a cell, as in PATCH; `base` is the text that a whole `source` was based on,
    `version` the one that the cell must have.
    """

    op: Literal["update"] = "update"
    cell_id: str
    base: str | None = None
    version: str | None = None


class DeleteEdit(Body):
    """Deletes a cell."""

    op: Literal["delete"]
    cell_id: str
    version: str | None = None


class MoveEdit(CellPlace):
    """Moves a cell; to the end if no position is given."""

    op: Literal["move"]
    cell_id: str
    version: str | None = None


def _op(edit: Any) -> Any:
    op = edit.get("op", "update") if isinstance(edit, Mapping) else getattr(edit, "op", None)
    return op if op in ("insert", "update", "delete", "move") else None


AnyEdit = Annotated[
    Annotated[InsertEdit, Tag("insert")]
    | Annotated[UpdateEdit, Tag("update")]
    | Annotated[DeleteEdit, Tag("delete")]
    | Annotated[MoveEdit, Tag("move")],
    Discriminator(
        _op,
        custom_error_type="op",
        custom_error_message="`op` has to be insert, update (default), delete or move",
    ),
]


class EditsBody(Body):
    """Edits made in this order, all or none."""

    edits: list[AnyEdit] = Field(min_length=1, max_length=_MOST_EDITS)


class ClearBody(Body):
    """The cells whose outputs to clear; all code cells by default."""

    cells: list[str] | None = None


class CellsHandler(DocumentHandler):
    """`notebooks/{path}/cells`"""

    @operation("write", "contents", body=NewCell, query=EDITS, answers=201, gives=CellAnswer)
    async def post(self, path: str, body: NewCell) -> None:
        """Inserts a cell."""
        async with self.acting(path, "create_cell", body.model_dump(exclude_defaults=True)) as nb:
            (edit,) = await nb.make([body.step()])
        self.answer_change(edit, 201)


class CellHandler(DocumentHandler):
    """`notebooks/{path}/cells/{id}`"""

    @operation("read", "contents", gives=CellAnswer)
    async def get(self, path: str, cell_id: str) -> None:
        """One cell with its full outputs."""
        async with lease(self.work, path, READ) as nb:
            cell, stale = await nb.cell(cell_id), await nb.stale()
        self.set_header("ETag", f'"{cell.version}"')
        self.answer(describe_cell(cell, stale=stale.get(cell.id)))

    @operation("write", "contents", body=CellEdit, query=EDITS, gives=CellAnswer)
    async def patch(self, path: str, cell_id: str, body: CellEdit) -> None:
        """Changes a cell's text, type, metadata or tags; with `If-Match`, only if it is still that
        version."""
        # A caller of this route means the cell's current text, or the version in `If-Match`.
        await self._make(
            path, "update_cell", body.step(cell_id, expect=self.expected_version()), body
        )

    @operation("write", "contents", query=EDITS, answers=204)
    async def delete(self, path: str, cell_id: str) -> None:
        """Deletes a cell; with `If-Match`, only if it is still that version."""
        await self._make(
            path, "delete_cell", Delete(cell_id=cell_id, expect=self.expected_version())
        )

    async def _make(
        self, path: str, tool: str, step: Update | Delete, body: CellEdit | None = None
    ) -> None:
        arguments = body.model_dump(exclude_defaults=True) if body else {}
        try:
            async with self.acting(path, tool, {"cell_id": step.cell_id, **arguments}) as nb:
                (edit,) = await nb.make([step])
        except Conflict as conflict:
            raise precondition(conflict, step.expect) from None
        if edit.cell is None:
            self.answer_nothing()
        else:
            self.answer_change(edit)


class MoveHandler(DocumentHandler):
    """`POST notebooks/{path}/cells/{id}/move`"""

    @operation("write", "contents", body=CellPlace, query=EDITS, gives=CellAnswer)
    async def post(self, path: str, cell_id: str, body: CellPlace) -> None:
        """Moves a cell."""
        expect, place = self.expected_version(), body.model_dump(exclude_none=True)
        try:
            async with self.acting(path, "move_cell", {"cell_id": cell_id, **place}) as nb:
                (edit,) = await nb.make([Move(cell_id=cell_id, expect=expect, **place)])
        except Conflict as conflict:
            raise precondition(conflict, expect) from None
        self.answer_change(edit)


class EditsHandler(DocumentHandler):
    """`POST notebooks/{path}/edits`"""

    @operation("write", "contents", body=EditsBody, query=EDITS, gives=EditsAnswer)
    async def post(self, path: str, body: EditsBody) -> None:
        """Makes several edits, all or none; a result and a diff for each. If one is refused, `edit`
        is its number and `current` the cell as that edit would have found it."""
        steps = [_step(number, edit) for number, edit in enumerate(body.edits, start=1)]
        try:
            async with self.acting(path, "edit_cells", body.model_dump(exclude_unset=True)) as nb:
                results = await nb.make(steps)
        except Conflict as conflict:
            edit = body.edits[conflict.facts.get("edit", 1) - 1]
            expect = None if isinstance(edit, InsertEdit) else edit.version
            raise precondition(conflict, expect) from None
        saved = results[-1].saved
        self.answer(
            {
                "edits": [
                    _result(edit, done) for edit, done in zip(body.edits, results, strict=True)
                ],
                "saved": saved.saved,
                **({"note": saved.note} if saved.note else {}),
                **self.turn_field(),
            }
        )


class ClearHandler(DocumentHandler):
    """`POST notebooks/{path}/clear`"""

    @operation("write", "contents", body=ClearBody, query=EDITS, gives=ClearAnswer)
    async def post(self, path: str, body: ClearBody) -> None:
        """Clears the outputs and execution counts of cells; 409 while one of them runs."""
        async with self.acting(path, "clear_outputs", body.model_dump(exclude_none=True)) as nb:
            cells = (await nb.take()).cells
            chosen = body.cells
            if chosen is None:
                with_outputs = (
                    cell for cell in cells if cell.outputs or cell.execution_count is not None
                )
                chosen = [cell.id for cell in with_outputs if cell.type == "code"]
            steps = [ClearOutputs(cell_id=cell_id) for cell_id in dict.fromkeys(chosen)]
            results = await nb.make(steps) if steps else []
        cleared = [edit.changes[0].cell_id for edit in results if edit.changes]
        saved = all(edit.saved.saved for edit in results)
        self.answer({"cleared": cleared, "saved": saved, **self.turn_field()})


def precondition(conflict: Conflict, expect: str | None) -> ToolError | RequestError:
    """412 if the caller named a version, else the conflict itself."""
    if expect is None:
        return conflict
    return RequestError(412, conflict.reason, conflict.message, **conflict.facts)


def _step(number: int, edit: InsertEdit | UpdateEdit | DeleteEdit | MoveEdit) -> Step:
    """Raises InvalidInput that names the edit."""
    try:
        match edit:
            case InsertEdit():
                return edit.step()
            case UpdateEdit():
                return edit.step(edit.cell_id, expect=edit.version, base=edit.base)
            case DeleteEdit():
                return Delete(cell_id=edit.cell_id, expect=edit.version)
            case MoveEdit():
                place = edit.model_dump(include={"after", "before", "index"})
                return Move(cell_id=edit.cell_id, expect=edit.version, **place)
    except ToolError as error:
        raise error.saying(f"Edit {number}: {error.message}", {"edit": number}) from None


def _result(edit: InsertEdit | UpdateEdit | DeleteEdit | MoveEdit, done: Edit) -> dict[str, Any]:
    """The result of an edit. Cells come without outputs, which no edit changes."""
    change = done.changes[0] if done.changes else None
    before = change.before.source if change and change.before else ""
    after = change.after.source if change and change.after else ""
    cell_id = change.cell_id if change else done.cell.id if done.cell else None
    return {
        "op": edit.op,
        "cell_id": cell_id,
        "diff": diff(before, after),
        "merged": done.merged,
        "cell": describe_cell(done.cell, outputs="none") if done.cell else None,
    }
