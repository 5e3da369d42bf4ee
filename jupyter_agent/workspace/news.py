"""What changed in notebooks since a conversation read them, by whoever else works there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import ToolError
from jupyter_agent.text.notebook import whole
from jupyter_agent.workspace.workspace import Workspace

_MOST_CELLS = 5
_MOST_CHARACTERS = 2_000
"""Of one cell; what is longer is only named, and has to be read again."""


@dataclass(frozen=True, kw_only=True)
class News:
    """What changed in one notebook, as the model is told it."""

    notebook: str
    cell_ids: Sequence[str]
    text: str


async def read_news(work: Workspace) -> list[News]:
    """What changed in the open notebooks that this conversation has read; told once.

    Cells whose new text is in it count as read from then on, the others as never read.
    """
    held = {opened["path"] for opened in work.services.notebooks.open()} if work.reads.paths else ()
    told = [await _of_notebook(work, path) for path in work.reads.paths if path in held]
    told += [await _of_kernel(work, path) for path in list(work.reads.kernels)]
    return [news for news in told if news is not None]


async def _of_kernel(work: Workspace, path: str) -> News | None:
    text = await work.lost_variables(path)
    return News(notebook=path, cell_ids=[], text=text) if text else None


async def _of_notebook(work: Workspace, path: str) -> News | None:
    try:
        await work.need(("read", "contents"))
        notebook = await work.notebook(path)
        # What is typed in a tab or a room comes by itself; a file has to be looked at.
        cells = await notebook.read() if notebook.carrier == "file" else notebook.cells()
    except ToolError:  # the next call that needs the notebook tells why
        return None
    now = {cell.id: cell for cell in cells}
    view = work.view(notebook, cells)
    known, listed = work.reads.sources(path), work.reads.listed(path)
    changed = [id for id, text in known.items() if id not in now or now[id].source != text]
    if listed is not None:
        changed += [id for id in listed - set(known) if id not in now]
        changed += [id for id in now if id not in listed]
        work.reads.list(path, cells)
    if not changed:
        return None
    shown: list[Cell] = []
    new = frozenset() if listed is None else now.keys() - listed
    seen = {cell_id: view.cell(now[cell_id]) for cell_id in changed if cell_id in now}
    lines = [_line(cell_id, seen, shown, new=cell_id in new) for cell_id in changed]
    for cell_id in changed:
        work.reads.forget(path, cell_id)
    work.remember(notebook, shown)
    text = "\n".join([f"Changed in {path} since you read it, not by you:", *lines])
    return News(notebook=path, cell_ids=changed, text=text)


def _line(cell_id: str, seen: Mapping[str, Cell], shown: list[Cell], *, new: bool) -> str:
    cell = seen.get(cell_id)
    if cell is None:
        return f"- Cell `{cell_id}` was deleted."
    what = f"- Cell `{cell_id}` is {'new' if new else 'another now'}"
    if cell.withheld:
        return f"{what}; it is not shared with you."
    if not whole(cell) or len(cell.source) > _MOST_CHARACTERS or len(shown) >= _MOST_CELLS:
        return f"{what}; read it{'' if new else ' again'}."
    shown.append(cell)
    if new:
        return f"{what}, a {cell.type} cell at position {cell.index + 1}:\n{cell.source}"
    return f"- Cell `{cell_id}` is now:\n{cell.source}"
