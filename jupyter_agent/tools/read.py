"""Tools that look at the notebook and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import CellNotFound
from jupyter_agent.text.images import fitting
from jupyter_agent.text.notebook import MOST, pictures, render, render_cells, whole
from jupyter_agent.text.search import search
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Result, Tool
from jupyter_agent.workspace.workspace import Workspace

_PICTURES = 5


class ReadTool(Tool):
    """A tool that only looks."""

    effect: ClassVar[Effect] = "read"
    action: ClassVar[Action] = "read"
    needs: ClassVar[Sequence[Need]] = (("read", "contents"),)


class GetNotebookState(ReadTool):
    """The notebook as it is now, unsaved typing included: outline, then full cells near the focus
    with outputs, and the kernel's state. Each cell has a line [position type id In[n] stale?]."""

    name: ClassVar[str] = "get_notebook_state"

    focus: str | None = None
    """Cell id to show first"""
    budget: int | None = None
    """Most characters"""
    outline: bool | None = None
    """A line per cell only, by headings"""

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        state = await work.state(self.notebook)
        cells = work.view(state.notebook, state.cells).cells(state.cells)
        shown = await asyncio.to_thread(  # of a large notebook it takes a second
            render,
            cells,
            stale=state.stale,
            focus=self.focus,
            budget=self.budget and min(max(self.budget, 1), MOST),
            outline=bool(self.outline),
        )
        work.remember(state.notebook, [cell for cell in cells if cell.id in shown.full])
        work.reads.list(state.notebook.path, cells)
        kernel = f"{state.kernel.name}, {state.kernel.state}" if state.kernel else "none running"
        head = f"{state.notebook.path}: {len(state.cells)} cells, kernel {kernel}"
        facts: dict[str, Any] = {"notebook": state.notebook.path, "cells": len(state.cells)}
        return Result(text=f"{head}\n\n{shown.text}", facts=facts)


class ReadCells(ReadTool):
    """Cells in full, with outputs."""

    name: ClassVar[str] = "read_cells"

    cell_ids: list[str]
    output_from: int | None = None
    """Skip that many characters of each output"""
    output_chars: int | None = None
    """Most characters of each output"""
    images: bool | None = None
    """Show pictures too"""

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        notebook = await work.notebook(self.notebook)
        every = await notebook.read()
        cells = work.view(notebook, every).cells(_chosen(every, self.cell_ids))
        work.remember(notebook, [cell for cell in cells if whole(cell)])
        text = render_cells(
            cells,
            output_from=self.output_from or 0,
            output_chars=min(self.output_chars or 12_000, 50_000),
        )
        shown = [picture for cell in cells for picture in pictures(cell)] if self.images else []
        return Result(
            text=text,
            facts={"notebook": notebook.path, "cell_ids": self.cell_ids},
            images=await asyncio.to_thread(fitting, shown[-_PICTURES:]),
        )


class SearchNotebook(ReadTool):
    """Lines of sources and outputs that contain the query, with their cells."""

    name: ClassVar[str] = "search_notebook"

    query: str
    regex: bool | None = None

    async def run(self, work: Workspace, progress: Progress | None = None) -> Result:
        notebook = await work.notebook(self.notebook)
        cells = await notebook.read()
        shown = work.view(notebook, cells).cells(cells)
        async with work.searching:
            text = await search(shown, self.query, regex=bool(self.regex))
        return Result(text=text, facts={"notebook": notebook.path})


def _chosen(cells: Sequence[Cell], cell_ids: Sequence[str]) -> list[Cell]:
    by_id = {cell.id: cell for cell in cells}
    for cell_id in cell_ids:
        if cell_id not in by_id:
            raise CellNotFound(cell_id, known=list(by_id))
    return [by_id[cell_id] for cell_id in cell_ids]
