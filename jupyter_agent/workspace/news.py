"""What changed in notebooks since a conversation read them, by whoever else works there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_agent.errors import ToolError
from jupyter_agent.notebook.cell import Cell
from jupyter_agent.notebook.render import hidden
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
    if not work.reads:
        return []
    read = {path for path, _ in work.reads}
    held = [opened["path"] for opened in work.rooms.notebooks.open()]
    told = [await _of_notebook(work, path) for path in sorted(read.intersection(held))]
    return [news for news in told if news is not None]


async def _of_notebook(work: Workspace, path: str) -> News | None:
    try:
        notebook = await work.notebook(path)
        # A tab sends what is typed by itself; a file has to be looked at.
        cells = notebook.cells() if notebook.carrier == "tab" else await notebook.read()
    except ToolError:  # the next call that needs the notebook tells why
        return None
    now = {cell.id: cell for cell in cells}
    known = {cell_id: text for (where, cell_id), text in work.reads.items() if where == path}
    changed = [id for id, text in known.items() if id not in now or now[id].source != text]
    if not changed:
        return None
    shown: list[Cell] = []
    lines = [_line(cell_id, now, shown) for cell_id in changed]
    for cell_id in changed:
        del work.reads[path, cell_id]
    work.remember(notebook, shown)
    text = "\n".join([f"Changed in {path} since you read it, not by you:", *lines])
    return News(notebook=path, cell_ids=changed, text=text)


def _line(cell_id: str, now: Mapping[str, Cell], shown: list[Cell]) -> str:
    cell = now.get(cell_id)
    if cell is None:
        return f"- Cell `{cell_id}` was deleted."
    if hidden(cell) or len(cell.source) > _MOST_CHARACTERS or len(shown) >= _MOST_CELLS:
        return f"- Cell `{cell_id}` is another now; read it again."
    shown.append(cell)
    return f"- Cell `{cell_id}` is now:\n{cell.source}"
