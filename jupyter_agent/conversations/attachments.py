"""Files that a user attached to a question, as text or documents for the model."""

from __future__ import annotations

import asyncio
import base64
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.errors import RequestError, ToolError
from jupyter_agent.events import Notice
from jupyter_agent.legible import pluralize, quoted, quoted_id
from jupyter_agent.models.base import Block
from jupyter_agent.models.facts import Facts
from jupyter_agent.text.encodings import Decoded, decode
from jupyter_agent.text.images import prepare_pictures
from jupyter_agent.text.notebook import render_cells, whole
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.workspace import READ, Need, Workspace

MOST_CHARACTERS = 20_000
_NO_PICTURE = "it is not a complete PNG, JPEG, GIF or WebP file, or it is too large to be sent."
PDF = "application/pdf"
MOST_PDF_CHARACTERS = 14_000_000
"""Characters of a PDF in base64: some 10 MB; services accept 32 MB for the whole request."""


def is_pdf(data: str) -> bool:
    """Whether base64 data is a PDF."""
    return base64.b64decode(data[:8]).startswith(b"%PDF-")


class _Attached(BaseModel):
    model_config = ConfigDict(frozen=True)

    needs: ClassVar[Need] = READ


class CellAttached(_Attached):
    """A cell, with its outputs."""

    type: Literal["cell"]
    cell_id: str
    notebook: str | None = None

    async def text(self, work: Workspace) -> str:
        async with lease(work, self.notebook, self.needs) as nb:
            now = await nb.read()
            cell = now.view.cell(now.cell(self.cell_id))
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
        async with lease(work, self.notebook, self.needs) as nb:
            view = await nb.view()
            cells = (await nb.read()).cells if view.share != "all" else ()
        text = view.selection(self.text_, cells, of=self.cell_id)
        return f"Attached selection{where}:\n{_data(text, work)}"


class FileAttached(_Attached):
    """A text file or PDF below the server's root."""

    type: Literal["file"]
    path: str

    @property
    def is_pdf(self) -> bool:
        return self.path.lower().endswith(".pdf")

    async def text(self, work: Workspace) -> str:
        async with lease(work, self.path, self.needs) as nb:
            read = await nb.file_text()
        return _file(self.path, read, work)

    async def document(self, work: Workspace) -> Block:
        """The PDF itself. Raises ToolError."""
        async with lease(work, self.path, self.needs) as nb:
            data = await nb.file_data()
        if not is_pdf(data):
            raise ToolError(f"`{self.path}` is not a PDF.")
        if len(data) > MOST_PDF_CHARACTERS:
            message = f"`{self.path}` is larger than 10 MB. Attach an extract of it."
            raise ToolError(message)
        return _document(self.path.rpartition("/")[2], data)


class VariableAttached(_Attached):
    """A variable of the notebook's kernel."""

    needs: ClassVar[Need] = ("execute", "kernels")

    type: Literal["variable"]
    name: str

    async def text(self, work: Workspace) -> str:
        async with lease(work, None, self.needs) as nb:
            text = await nb.kernel.variables([self.name])
        return f"Attached variable:\n{work.fence.around(text)}"


Attachment: TypeAlias = Annotated[
    CellAttached | SelectionAttached | FileAttached | VariableAttached, Field(discriminator="type")
]


async def attached_blocks(
    attachments: Sequence[Attachment], parts: Sequence[Mapping[str, str]], work: Workspace
) -> list[Block]:
    """All attachments for a model: a text, then the documents. The text says which are not
    available and why. `parts` are those of the question; files among them are attached too.
    """
    texts: list[str] = []
    documents: list[Block] = []

    def missing(kind: str, error: ToolError, named: object = None) -> str:
        message = work.redact_error(error, named).message
        return f"Attached {kind}: not available. {message}"

    for attachment in attachments:
        try:
            if isinstance(attachment, FileAttached) and attachment.is_pdf:
                documents.append(await attachment.document(work))
            else:
                texts.append(await attachment.text(work))
        except ToolError as error:
            fields = attachment.model_dump(exclude={"text_"})
            texts.append(missing(attachment.type, error, fields))
    if files := [part for part in parts if _is_file(part)]:
        view = await work.visibility()
        for part in files:
            name = part.get("filename") or "file"
            data = part["url"].partition(",")[2]
            try:
                if part["mediaType"] == PDF:
                    view.document(name)
                    documents.append(_document(name, data))
                else:
                    read = await _read(name, data)
                    read = replace(read, text=view.file(name, read.text))
                    texts.append(_file(name, read, work, part["mediaType"]))
            except ToolError as error:
                texts.append(missing("file", error, name))
    text = work.redact("\n\n".join(texts))
    return [*([{"type": "text", "text": text}] if text else []), *documents]


def _is_file(part: Mapping[str, str]) -> bool:
    return part["type"] == "file" and not _is_picture(part)


def _is_picture(part: Mapping[str, str]) -> bool:
    return part["type"] == "file" and part["mediaType"].startswith("image/")


async def _read(name: str, data: str) -> Decoded:
    """The text of a file in base64. Raises ToolError."""
    read = await asyncio.to_thread(decode, base64.b64decode(data))
    if read is None:  # stored by an earlier version, which took more for text
        raise ToolError(f"`{quoted(name)}` is not a text file.")
    return read


def _document(name: str, data: str) -> Block:
    source = {"type": "base64", "media_type": PDF, "data": data}
    return {"type": "document", "source": source, "title": " ".join(name.split())}


def _file(path: str, read: Decoded, work: Workspace, media_type: str = "") -> str:
    """The beginning of a file as data, with the size of the whole."""
    text = read.text
    counts = shape(path, text, media_type)
    facts = "; ".join(filter(None, [counts, read.note]))
    size = f" ({facts})" if facts else ""
    head = beginning(text, MOST_CHARACTERS) if counts else text
    left = len(text) - len(head)
    note = f"\n[{left:,} more characters; read the rest with code]" if left > 0 else ""
    return f"Attached file {quoted(path)}{size}:\n{_data(head, work)}{note}"


def _data(text: str, work: Workspace) -> str:
    """An attached text as data; if it is too long, cut and with a note."""
    left = len(text) - MOST_CHARACTERS
    note = f"\n[{left:,} more characters]" if left > 0 else ""
    return f"{work.fence.around(text[:MOST_CHARACTERS])}{note}"


async def fit_pictures(parts: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The parts of a question, with pictures in a form that services accept. One that is not a
    picture, or cannot be made small enough, has the reason in `leftOut` and is not sent.
    """
    result = []
    for part in parts:
        part = {name: value for name, value in part.items() if name != "leftOut"}
        if _is_picture(part):
            original = [(part["mediaType"], part["url"].partition(",")[2])]
            fitted = await asyncio.to_thread(prepare_pictures, original)
            if fitted:
                ((kind, data),) = fitted
                part |= {"mediaType": kind, "url": f"data:{kind};base64,{data}"}
            else:
                name = part.get("filename") or "a picture"
                part["leftOut"] = f"{quoted(name)} is left out: {_NO_PICTURE}"
        result.append(part)
    return result


def pictures_left_out(parts: Sequence[Mapping[str, str]]) -> list[Notice]:
    """The notice about pictures in a question that are not sent, if any."""
    reasons = [part["leftOut"] for part in parts if "leftOut" in part]
    facts = {"count": len(reasons)}
    if not reasons:
        return []
    return [Notice(kind="pictures-left-out", text=" ".join(reasons), facts=facts)]


def check_pictures(parts: Sequence[Mapping[str, str]], model: str, facts: Facts) -> None:
    """Raises RequestError if there are pictures and the model is known not to support them."""
    pictures = (_is_picture(part) and "leftOut" not in part for part in parts)
    if facts.images is False and any(pictures):
        message = f"The model {model} does not support images. Choose another, or ask without."
        raise RequestError(400, "no_images", message)


def check_documents(
    attachments: Sequence[Attachment],
    parts: Sequence[Mapping[str, str]],
    model: str,
    reads_documents: bool,
) -> None:
    """Raises RequestError if there is a PDF and the model's service does not accept PDFs."""
    attached = any(isinstance(each, FileAttached) and each.is_pdf for each in attachments)
    if not reads_documents and (attached or any(part.get("mediaType") == PDF for part in parts)):
        message = (
            f"The model {model} does not read PDF files. Choose one of Anthropic or OpenAI, or "
            "attach the text: a cell can extract it, for example with pypdf."
        )
        raise RequestError(400, "no_documents", message)


def content(
    parts: Sequence[Mapping[str, str]], attached: Sequence[Block]
) -> list[dict[str, object]]:
    """The blocks of a user message: attachments first, then the person's text and pictures."""
    blocks: list[dict[str, object]] = [dict(block) for block in attached]
    for part in parts:
        if part["type"] == "text" and part["text"].strip():
            blocks.append({"type": "text", "text": part["text"]})
        elif "leftOut" in part:
            blocks.append({"type": "text", "text": f"[{part['leftOut']}]"})
        elif _is_picture(part):
            data = part["url"].split(",", 1)[1]
            source = {"type": "base64", "media_type": part["mediaType"], "data": data}
            blocks.append({"type": "image", "source": source})
    return blocks


_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
_ENDINGS = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/json": ".json",
    "text/plain": ".txt",
}
"""File endings for media types, for names with another ending."""
_SAMPLE_LINES = 10
"""Number of lines from which the delimiter is guessed."""


def shape(name: str, text: str, media_type: str = "") -> str:
    """The amount of data in a file of that name or type, such as "1,204 rows, 5 columns"; empty for
    other files.
    """
    ending = PurePosixPath(name).suffix.lower()
    if ending not in (*_DELIMITERS, ".json"):
        ending = _ENDINGS.get(media_type, ending)
    if ending == ".txt" and _is_table(text):  # "Unicode text" of Excel
        ending = ".tsv"
    if ending in _DELIMITERS:
        return _table(text, _DELIMITERS[ending])
    if ending == ".json":
        return _json(text)
    return pluralize(len(text.splitlines()), "line") if ending == ".txt" else ""


def beginning(text: str, most: int) -> str:
    """At most so many characters from the start of a text; whole lines if one fits."""
    if len(text) <= most:
        return text
    head = text[:most]
    end = head.rfind("\n")
    return head[:end] if end > 0 else head


def _is_table(text: str) -> bool:
    """Whether all lines have the same number of tabs."""
    lines = _sample(text)
    tabs = {line.count("\t") for line in lines}
    return len(lines) > 1 and len(tabs) == 1 and tabs != {0}


def _sample(text: str) -> list[str]:
    return list(islice((line for line in text.splitlines() if line.strip()), _SAMPLE_LINES))


def _table(text: str, delimiters: str) -> str:
    lines = _sample(text)
    if not lines:
        return "empty"
    delimiter = max(delimiters, key=lambda one: min(line.count(one) for line in lines))
    records = csv.reader(_from_first_line(text), delimiter=delimiter)
    try:
        header = next(records)
        rows = sum(1 for record in records if record)
    except csv.Error:  # a field that is too large
        return pluralize(len(text.splitlines()), "line")
    return f"{pluralize(rows, 'row')} below the first, {pluralize(len(header), 'column')}"


def _from_first_line(text: str) -> Iterator[str]:
    """The lines with their terminators, without blank ones at the top."""
    lines = iter(text.splitlines(keepends=True))
    first = next((line for line in lines if line.strip()), "")
    yield first
    yield from lines


def _json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "not valid JSON"
    if isinstance(value, list):
        return f"a list of {pluralize(len(value), 'item')}"
    if isinstance(value, dict):
        return f"an object of {pluralize(len(value), 'key')}"
    return "a single value"
