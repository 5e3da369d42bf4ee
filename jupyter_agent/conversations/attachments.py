"""What a user attached to a question, as text for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.errors import RequestError, ToolError
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.models.facts import Facts
from jupyter_agent.text.notebook import render_cells, whole
from jupyter_agent.workspace.workspace import READ, Need, Workspace

MOST_CHARACTERS = 20_000


class _Attached(BaseModel):
    model_config = ConfigDict(frozen=True)

    needs: ClassVar[Need] = READ


class CellAttached(_Attached):
    """A cell, with its outputs."""

    type: Literal["cell"]
    cell_id: str
    notebook: str | None = None

    async def text(self, work: Workspace) -> str:
        async with work.lease(self.notebook, self.needs) as nb:
            cell = await nb.cell(self.cell_id)
            cell = nb.view.cell(cell)
            nb.remember([cell] if whole(cell) else [])
        return f"Attached cell of {quoted(nb.path)}:\n{render_cells([cell], fence=work.fence)}"


class SelectionAttached(_Attached):
    """A piece of a cell's text."""

    type: Literal["selection"]
    text_: str = Field(alias="text")
    cell_id: str | None = None
    notebook: str | None = None

    async def text(self, work: Workspace) -> str:
        where = f" of cell `{quoted_id(self.cell_id)}`" if self.cell_id else ""
        async with work.lease(self.notebook, self.needs) as nb:
            view = await nb.visible()
            cells = await nb.read() if view.share != "all" else ()
        text = view.selection(self.text_, cells, of=self.cell_id)
        return f"Attached selection{where}:\n{_data(text, work)}"


class FileAttached(_Attached):
    """A text file of the server's root."""

    type: Literal["file"]
    path: str

    async def text(self, work: Workspace) -> str:
        async with work.lease(self.path, self.needs) as nb:
            text = await nb.file_text()
        return f"Attached file {quoted(self.path)}:\n{_data(text, work)}"


class VariableAttached(_Attached):
    """A variable of the notebook's kernel."""

    needs: ClassVar[Need] = ("execute", "kernels")

    type: Literal["variable"]
    name: str

    async def text(self, work: Workspace) -> str:
        async with work.lease(None, self.needs) as nb:
            text = await nb.variables([self.name])
        return f"Attached variable:\n{work.fence.around(text)}"


Attachment: TypeAlias = Annotated[
    CellAttached | SelectionAttached | FileAttached | VariableAttached, Field(discriminator="type")
]


async def attached_text(attachments: Sequence[Attachment], work: Workspace) -> str:
    """All attachments as text for a model; one that cannot be had says why instead."""
    texts = []
    for attachment in attachments:
        try:
            texts.append(await attachment.text(work))
        except ToolError as error:
            told = work.told_error(error, attachment.model_dump(exclude={"text_"}))
            texts.append(f"Attached {attachment.type}: not available. {told.message}")
    return work.told("\n\n".join(texts))


def _data(text: str, work: Workspace) -> str:
    """What was attached, as data; where it is too long, with a note."""
    left = len(text) - MOST_CHARACTERS
    note = f"\n[{left:,} more characters]" if left > 0 else ""
    return f"{work.fence.around(text[:MOST_CHARACTERS])}{note}"


def check_pictures(parts: Sequence[Mapping[str, str]], model: str, facts: Facts) -> None:
    """Raises RequestError where there are pictures, and the model is known to look at none."""
    if facts.images is False and any(part["type"] == "file" for part in parts):
        message = f"The model {model} does not support images. Choose another, or ask without."
        raise RequestError(400, "no_images", message)


def content(parts: Sequence[Mapping[str, str]], attached: str) -> list[dict[str, object]]:
    """The blocks of a user message: attachments first, then what the person wrote and pasted."""
    blocks: list[dict[str, object]] = [{"type": "text", "text": attached}] if attached else []
    for part in parts:
        if part["type"] == "text" and part["text"].strip():
            blocks.append({"type": "text", "text": part["text"]})
        elif part["type"] == "file":
            data = part["url"].split(",", 1)[1]
            source = {"type": "base64", "media_type": part["mediaType"], "data": data}
            blocks.append({"type": "image", "source": source})
    return blocks
