"""Tracks the notebooks that a conversation has read, and reports changes by others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_agent.document.cell import Cell
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.text.fence import Fence
from jupyter_agent.text.notebook import whole
from jupyter_agent.workspace.visibility import View

_MOST_CELLS = 5
_MOST_CHARACTERS = 2_000
"""Characters of a changed cell that are shown; longer cells are only named."""


class Reads:
    """The sources that a conversation was shown or wrote, and the cells that it knows.

    Not stored on disk: after a restart of the server everything has to be read again.
    """

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, str]] = {}
        self._listed: dict[str, set[str]] = {}
        self.kernels: dict[str, str] = {}
        """Path -> `Kernel.life` of the kernel that it used; empty once its loss was reported."""

    @property
    def paths(self) -> list[str]:
        """The notebooks that were read, even in part."""
        return sorted({*self._sources, *self._listed})

    def source(self, path: str, cell_id: str) -> str | None:
        """The source of a cell as this conversation last knew it: the base of a whole rewrite."""
        return self._sources.get(path, {}).get(cell_id)

    def known_ids(self, path: str) -> frozenset[str] | None:
        """Ids of the cells that it knows to exist; None before it saw the whole list."""
        cells = self._listed.get(path)
        return None if cells is None else frozenset(cells)

    def record_sources(self, path: str, cells: Iterable[Cell]) -> None:
        """Record the full sources of these cells, which were shown."""
        for cell in cells:
            self.record_source(path, cell.id, cell.source)

    def record_list(self, path: str, cells: Iterable[Cell]) -> None:
        """Record that these were listed as all cells of the notebook."""
        self._listed[path] = {cell.id for cell in cells}

    def record_source(self, path: str, cell_id: str, source: str) -> None:
        """Record the source of a cell that this conversation was shown or wrote."""
        self._sources.setdefault(path, {})[cell_id] = source
        if path in self._listed:
            self._listed[path].add(cell_id)

    def rename(self, old: str, new: str) -> None:
        """Follow a rename of the notebook."""
        if old in self._sources:
            self._sources[new] = self._sources.pop(old)
        if old in self._listed:
            self._listed[new] = self._listed.pop(old)
        if old in self.kernels:
            self.kernels[new] = self.kernels.pop(old)

    def forget(self, path: str, cell_id: str) -> None:
        """Forget the source of a cell, since it has changed."""
        self._sources.get(path, {}).pop(cell_id, None)

    def changed_ids(self, path: str, cells: Sequence[Cell]) -> Sequence[str]:
        """Ids of cells that differ from what the conversation knows, or are new to it."""
        now = {cell.id: cell.source for cell in cells}
        sources, listed_ids = self._sources.get(path, {}), self._listed.get(path)
        changed = [cell_id for cell_id, text in sources.items() if now.get(cell_id) != text]
        if listed_ids is not None:
            changed += [cell_id for cell_id in listed_ids - sources.keys() if cell_id not in now]
            changed += [cell_id for cell_id in now if cell_id not in listed_ids]
        return changed

    def remove(self, path: str, cell_id: str) -> None:
        """Note that the conversation deleted the cell itself."""
        self.forget(path, cell_id)
        self._listed.get(path, set()).discard(cell_id)


@dataclass(frozen=True, kw_only=True)
class News:
    """Changes in one notebook, as text for the model."""

    notebook: str
    cell_ids: Sequence[str]
    text: str
    cells: Sequence[Cell] = ()
    """The changed cells that exist, in their current state."""
    turns: Mapping[str, str] = field(default_factory=dict)
    """Cell id -> the turn of this server that wrote the current text."""


def news_of(reads: Reads, path: str, cells: Sequence[Cell], view: View) -> News | None:
    """Changes in a notebook by others since it was read; each is reported once.

    Cells whose new text is included count as read, the others as never read.
    """
    now = {cell.id: cell for cell in cells}
    listed, changed = reads.known_ids(path), reads.changed_ids(path, cells)
    if not changed:
        return None
    if listed is not None:
        reads.record_list(path, cells)
    shown: list[Cell] = []
    new = frozenset() if listed is None else now.keys() - listed
    seen = {cell_id: view.cell(now[cell_id]) for cell_id in changed if cell_id in now}
    fence = view.fence
    lines = [_line(cell_id, seen, shown, fence, new=cell_id in new) for cell_id in changed]
    for cell_id in changed:
        reads.forget(path, cell_id)
    reads.record_sources(path, shown)
    title = fence.line(f"Changed in {quoted(path)} since you read it, not by you:")
    text = "\n".join([title, *lines])
    existing = [now[cell_id] for cell_id in changed if cell_id in now]
    return News(notebook=path, cell_ids=changed, text=text, cells=existing)


def _line(
    cell_id: str, seen: Mapping[str, Cell], shown: list[Cell], fence: Fence, *, new: bool
) -> str:
    cell = seen.get(cell_id)
    name = quoted_id(cell_id)
    if cell is None:
        return f"- Cell `{name}` was deleted."
    what = f"- Cell `{name}` {'is new' if new else 'has changed'}"
    if cell.withheld:
        return f"{what}; it is not shared with you."
    if not whole(cell) or len(cell.source) > _MOST_CHARACTERS or len(shown) >= _MOST_CELLS:
        return f"{what}; read it{'' if new else ' again'}."
    shown.append(cell)
    if new:
        return (
            f"{what}, a {cell.type} cell at position {cell.index + 1}:\n{fence.around(cell.source)}"
        )
    return f"- Cell `{name}` is now:\n{fence.around(cell.source)}"
