"""What a conversation knows of the notebooks that it read, and what changed there since."""

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
"""Of one cell; what is longer is only named, and has to be read again."""


class Reads:
    """The sources that a conversation was shown or wrote itself, and the cells that it knows of.

    It is forgotten when the server stops: then everything has to be read again.
    """

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, str]] = {}
        self._listed: dict[str, set[str]] = {}
        self.kernels: dict[str, str] = {}
        """Path -> the life (Kernel.life) of the kernel that it worked with; empty: told to be gone.
        """

    @property
    def paths(self) -> list[str]:
        """The notebooks of which anything was read."""
        return sorted({*self._sources, *self._listed})

    def source(self, path: str, cell_id: str) -> str | None:
        """The text of a cell as this conversation last knew it: the base of a whole rewrite."""
        return self._sources.get(path, {}).get(cell_id)

    def known_ids(self, path: str) -> frozenset[str] | None:
        """Ids of the cells that it knows to be there; None if it never saw the whole list."""
        cells = self._listed.get(path)
        return None if cells is None else frozenset(cells)

    def record_sources(self, path: str, cells: Iterable[Cell]) -> None:
        """The full source of these cells was shown."""
        for cell in cells:
            self.record_source(path, cell.id, cell.source)

    def record_list(self, path: str, cells: Iterable[Cell]) -> None:
        """These were told to be the cells of the notebook."""
        self._listed[path] = {cell.id for cell in cells}

    def record_source(self, path: str, cell_id: str, source: str) -> None:
        """This conversation knows the cell's text, since it wrote it."""
        self._sources.setdefault(path, {})[cell_id] = source
        if path in self._listed:
            self._listed[path].add(cell_id)

    def rename(self, old: str, new: str) -> None:
        """The notebook has another path now."""
        if old in self._sources:
            self._sources[new] = self._sources.pop(old)
        if old in self._listed:
            self._listed[new] = self._listed.pop(old)
        if old in self.kernels:
            self.kernels[new] = self.kernels.pop(old)

    def forget(self, path: str, cell_id: str) -> None:
        """The cell's text is another now than the one that was known."""
        self._sources.get(path, {}).pop(cell_id, None)

    def changed_ids(self, path: str, cells: Sequence[Cell]) -> Sequence[str]:
        """Ids of the cells that are not as it knows them to be, or that it does not know of."""
        now = {cell.id: cell.source for cell in cells}
        known, listed = self._sources.get(path, {}), self._listed.get(path)
        found = [cell_id for cell_id, text in known.items() if now.get(cell_id) != text]
        if listed is not None:
            found += [cell_id for cell_id in listed - known.keys() if cell_id not in now]
            found += [cell_id for cell_id in now if cell_id not in listed]
        return found

    def remove(self, path: str, cell_id: str) -> None:
        """It deleted the cell itself."""
        self.forget(path, cell_id)
        self._listed.get(path, set()).discard(cell_id)


@dataclass(frozen=True, kw_only=True)
class News:
    """What changed in one notebook, as the model is told it."""

    notebook: str
    cell_ids: Sequence[str]
    text: str
    cells: Sequence[Cell] = ()
    """Those of them that are there, as they are."""
    turns: Mapping[str, str] = field(default_factory=dict)
    """Which turns of this server wrote them so: cell id -> turn."""


def news_of(reads: Reads, path: str, cells: Sequence[Cell], view: View) -> News | None:
    """What changed in a notebook since it was read, by whoever else works there; told once.

    Cells whose new text is in it count as read from then on, the others as never read.
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
    there = [now[cell_id] for cell_id in changed if cell_id in now]
    return News(notebook=path, cell_ids=changed, text=text, cells=there)


def _line(
    cell_id: str, seen: Mapping[str, Cell], shown: list[Cell], fence: Fence, *, new: bool
) -> str:
    cell = seen.get(cell_id)
    name = quoted_id(cell_id)
    if cell is None:
        return f"- Cell `{name}` was deleted."
    what = f"- Cell `{name}` is {'new' if new else 'another now'}"
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
