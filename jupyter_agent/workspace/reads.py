"""What a conversation knows of the notebooks that it read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jupyter_agent.document.cell import Cell


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

    def sources(self, path: str) -> Mapping[str, str]:
        """All known texts of a notebook, by cell id."""
        return dict(self._sources.get(path, {}))

    def listed(self, path: str) -> frozenset[str] | None:
        """Ids of the cells that it knows to be there; None where it never saw the whole list."""
        cells = self._listed.get(path)
        return None if cells is None else frozenset(cells)

    def show(self, path: str, cells: Iterable[Cell]) -> None:
        """The full source of these cells was shown."""
        for cell in cells:
            self.write(path, cell.id, cell.source)

    def list(self, path: str, cells: Iterable[Cell]) -> None:
        """These were told to be the cells of the notebook."""
        self._listed[path] = {cell.id for cell in cells}

    def write(self, path: str, cell_id: str, source: str) -> None:
        """This conversation knows the cell's text, since it wrote it."""
        self._sources.setdefault(path, {})[cell_id] = source
        if path in self._listed:
            self._listed[path].add(cell_id)

    def moved(self, old: str, new: str) -> None:
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

    def delete(self, path: str, cell_id: str) -> None:
        """It deleted the cell itself."""
        self.forget(path, cell_id)
        self._listed.get(path, set()).discard(cell_id)
