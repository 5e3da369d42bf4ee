"""Tools that read notebooks, variables and files, and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from jupyter_agent.legible import quoted
from jupyter_agent.text.images import pick_last
from jupyter_agent.text.notebook import MOST, pictures, render, render_cells, whole
from jupyter_agent.text.search import search
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Result, Tool
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease

_PICTURES = 5


class ReadTool(Tool):
    """A tool that only reads."""

    icon: ClassVar[Icon] = "look"
    effect: ClassVar[Effect] = "read"
    action: ClassVar[Action] = "read"
    needs: ClassVar[Sequence[Need]] = (("read", "contents"),)


class GetNotebookState(ReadTool):
    """The notebook now, unsaved typing included. A line per cell, and full cells near the focus as
    far as they fit. Seldom needed: for another notebook, or when you have lost track."""

    name: ClassVar[str] = "get_notebook_state"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Read {notebook|the notebook}",
            "Reading {notebook|the notebook}",
            "Read {notebook|the notebook}",
        ),
    )

    focus: str | None = None
    """Id of a cell"""
    budget: int | None = None
    """Most characters to show"""
    outline: bool | None = None
    """Only a line per cell"""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        now, stale = await nb.read(), await nb.stale()
        cells = now.view.cells(now.cells)
        shown = await asyncio.to_thread(  # takes a second for a large notebook
            render,
            cells,
            stale=stale,
            focus=self.focus,
            budget=self.budget and min(max(self.budget, 1), MOST),
            outline=bool(self.outline),
            fence=nb.work.fence,
        )
        nb.remember([cell for cell in cells if cell.id in shown.full])
        nb.work.reads.record_list(nb.path, cells)
        kernel = await nb.kernel.find()
        state = f"{quoted(kernel.name)}, {kernel.state}" if kernel else "none running"
        head = f"{quoted(nb.path)}: {len(cells)} cells, kernel {state}"
        facts: dict[str, Any] = {
            "notebook": nb.path,
            "cells": len(cells),
            "lines_only": shown.lines_only,
            "summary": [phrase(("{count} cell", "{count} cells"), count=len(cells))],
        }
        return Result(text=f"{head}\n\n{shown.text}", facts=facts)


class ReadCells(ReadTool):
    """Cells in full, with outputs: those that you have only a line of, before you rewrite them, and
    plots. Name all that you need in one call. Of long outputs you get both ends: read more with
    `output_from`."""

    name: ClassVar[str] = "read_cells"
    words: ClassVar[Sequence[Words]] = (Words("Read {cells}", "Reading {cells}", "Read {cells}"),)

    cell_ids: list[str]
    output_from: int | None = None
    """Characters of each output to skip"""
    output_chars: int | None = None
    """Most characters of each output"""
    images: bool | None = None

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        now = await nb.read()
        cells = now.view.cells([now.cell(cell_id) for cell_id in dict.fromkeys(self.cell_ids)])
        nb.remember([cell for cell in cells if whole(cell)])
        text = render_cells(
            cells,
            output_from=self.output_from or 0,
            output_chars=min(self.output_chars or 12_000, 50_000),
            fence=nb.work.fence,
        )
        shown = [picture for cell in cells for picture in pictures(cell)] if self.images else []
        pictured, which = await asyncio.to_thread(pick_last, shown, _PICTURES)
        return Result(
            text="\n\n".join(filter(None, [text, which])),
            facts={"notebook": nb.path, "cell_ids": self.cell_ids},
            images=pictured,
        )


class SearchNotebook(ReadTool):
    """Find lines of sources and outputs that contain a text, whatever its case. Use it in long
    notebooks, to learn where a name is used. Files and variables are not searched."""

    name: ClassVar[str] = "search_notebook"
    words: ClassVar[Sequence[Words]] = (
        Words("Search for “{query}”", "Searching for “{query}”", "Searched for “{query}”"),
    )
    icon: ClassVar[Icon] = "search"

    query: str
    regex: bool | None = None

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        now = await nb.read()
        shown = now.view.cells(now.cells)
        async with nb.work.searching:
            text = await search(shown, self.query, regex=bool(self.regex), fence=nb.work.fence)
        return Result(text=text, facts={"notebook": nb.path})


MOST_CHARACTERS = 20_000


class ReadFile(ReadTool):
    """Lines of a text file, cells of another notebook, or names and sizes in a folder. Use it to
    find data before you write a path into code. Load whole tables with code, where paths are
    relative to the notebook's folder."""

    name: ClassVar[str] = "read_file"
    former_names: ClassVar[tuple[str, ...]] = ("list_files",)
    names_notebook: ClassVar[bool] = False
    words: ClassVar[Sequence[Words]] = (
        Words("Read {path}", "Reading {path}", "Read {path}", given="path"),
        Words("List files", "Listing files", "Listed files"),
    )
    icon: ClassVar[Icon] = "file"

    path: str = ""
    """File or folder below Jupyter's root (default: the root)"""
    offset: int = 0
    """First line, from 0"""
    limit: int = 200
    """Most lines"""
    pattern: str | None = None
    """Only names in a folder like this, e.g. *.csv"""

    @property
    def target(self) -> str:
        return self.path

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        if await nb.work.services.files.is_folder(self.path):
            return await self._list(nb)
        read = await nb.file_text(self.notebook)
        lines = read.text.splitlines()
        end = max(self.offset, 0) + max(self.limit, 1)
        shown = "\n".join(lines[max(self.offset, 0) : end])
        text = nb.work.fence.around(shown[:MOST_CHARACTERS] or "(empty)")
        if (left := len(shown) - MOST_CHARACTERS) > 0:
            text += f"\n[{left:,} more characters in these lines: read them with code in a cell]"
        rest = len(lines) - end
        if rest > 0:
            text += f"\n[{rest} more lines; continue with offset {end}]"
        text += f"\n[{read.note}]" if read.note else ""
        return Result(text=text, facts={"path": self.path, "lines": len(lines)})

    async def _list(self, nb: Lease) -> Result:
        entries = await nb.work.services.files.list(self.path, self.pattern)
        lines = [
            f"{quoted(entry['name'])}/" if entry["type"] == "directory" else _line(entry)
            for entry in entries
        ]
        return Result(text="\n".join(lines) or "Nothing there.", facts={"path": self.path})


def _line(entry: Mapping[str, Any]) -> str:
    name, size = quoted(entry["name"]), entry.get("size")
    return f"{name} {size} bytes" if size is not None else name


class InspectVariables(ReadTool):
    """Type, shape, size and first values of the kernel's variables. Use it before you work with
    loaded data. Values in memory may differ from what the cells say."""

    name: ClassVar[str] = "inspect_variables"
    words: ClassVar[Sequence[Words]] = (
        Words(
            "Look at {names|the variables}",
            "Looking at {names|the variables}",
            "Looked at {names|the variables}",
        ),
    )
    needs: ClassVar[Sequence[Need]] = (("execute", "kernels"),)

    names: list[str] | None = None

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        text = await nb.kernel.variables(self.names)
        return Result(text=nb.work.fence.around(text))
