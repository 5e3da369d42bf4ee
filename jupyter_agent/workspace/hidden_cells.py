"""The sources of cells that are hidden from models, which their text may be quoted from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from jupyter_agent.carriers.renames import renamed_path
from jupyter_agent.document.cell import Cell
from jupyter_agent.text.notebook import hidden

_SOURCES_KEPT = 20
"""Most recent sources that are stored of one hidden cell."""
_NOTEBOOKS_KEPT = 1000
"""Notebooks with hidden cells that are stored, the most recently used."""
_KERNELS_KEPT = 1000


class HiddenCells:
    """Remembers the sources of hidden cells: their variables stay in the kernel, for all notebooks
    that use it.
    """

    def __init__(self) -> None:
        self._notebooks: OrderedDict[str, dict[str, list[str]]] = OrderedDict()
        self._kernels: OrderedDict[str, set[str]] = OrderedDict()
        """`Kernel.life` -> the notebooks that use or used the kernel."""

    def update(self, path: str, cells: Sequence[Cell]) -> Mapping[str, Sequence[str]]:
        """Update the hidden cells of a notebook and return them: id -> current and earlier sources.
        Includes deleted cells, but not those that are no longer hidden.
        """
        by_id = self._notebooks.pop(path, {})
        for cell in cells:
            if not hidden(cell):
                by_id.pop(cell.id, None)
            elif cell.source not in (sources := by_id.setdefault(cell.id, [])):
                sources.append(cell.source)
                del sources[:-_SOURCES_KEPT]
        if by_id:
            self._notebooks[path] = by_id
            if len(self._notebooks) > _NOTEBOOKS_KEPT:
                self._notebooks.popitem(last=False)
        return by_id

    def add_to_kernel(self, life: str, paths: Iterable[str]) -> None:
        """Note that these notebooks use the kernel with this `Kernel.life`."""
        earlier = self._kernels.pop(life, set())
        self._kernels[life] = earlier.union(paths)
        if len(self._kernels) > _KERNELS_KEPT:
            self._kernels.popitem(last=False)

    def sources_of_peers(self, path: str) -> frozenset[str]:
        """Current and earlier sources of hidden cells in other notebooks of the same kernel."""
        others = {other for paths in self._kernels.values() if path in paths for other in paths}
        return frozenset(
            source
            for other in others - {path}
            for sources in self._notebooks.get(other, {}).values()
            for source in sources
        )

    def all_sources(self) -> frozenset[str]:
        """Current and earlier sources of the hidden cells in all notebooks."""
        every = (sources for cells in self._notebooks.values() for sources in cells.values())
        return frozenset(source for sources in every for source in sources)

    def rename(self, old: str, new: str) -> None:
        """Follow a rename of a file or folder."""
        for path in list(self._notebooks):
            if (now := renamed_path(path, old, new)) is not None:
                target = self._notebooks.setdefault(now, {})
                for cell_id, sources in self._notebooks.pop(path).items():
                    target.setdefault(cell_id, [])[:0] = sources
        for life, paths in self._kernels.items():
            self._kernels[life] = {renamed_path(path, old, new) or path for path in paths}
