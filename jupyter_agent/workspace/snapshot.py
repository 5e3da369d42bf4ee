"""A notebook as a lease read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jupyter_agent.document.carrier import Place
from jupyter_agent.document.cell import Cell, metadata_text
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.errors import CellNotFound, InvalidInput
from jupyter_agent.legible import is_cell_id, quoted_id
from jupyter_agent.workspace.visibility import View
from jupyter_agent.workspace.workspace import Workspace


@dataclass(frozen=True)
class Snapshot:
    """A notebook at one moment, as a lease read it."""

    work: Workspace
    notebook: Notebook
    cells: Sequence[Cell]

    def cell(self, cell_id: str) -> Cell:
        """The first cell with this id. Raises CellNotFound."""
        if cell_id not in self._by_id:
            refuse_odd_ids(cell_id)
            raise CellNotFound(cell_id, known=[cell.id for cell in self.cells])
        return self._by_id[cell_id]

    @cached_property
    def _by_id(self) -> Mapping[str, Cell]:
        return {cell.id: cell for cell in reversed(self.cells)}

    @cached_property
    def view(self) -> View:
        """The parts that a model may see."""
        return self.work.view(self.notebook, self.cells)

    @property
    def place(self) -> Place | None:
        """The person's place in the notebook; None without an open page or an active cell."""
        place = self.notebook.place
        return place if place is not None and place.cell_id in self._by_id else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The notebook's metadata."""
        return self.notebook.cached_metadata

    @property
    def kernel_name(self) -> str | None:
        """The kernelspec name in the metadata."""
        return metadata_text(self.metadata, "kernelspec", "name")


def refuse_odd_ids(*cell_ids: str | None) -> None:
    """Raises InvalidInput for a cell id that nbformat does not allow. Files may have such ids: the
    cells are shown, and a person can edit and run them.
    """
    for cell_id in cell_ids:
        if cell_id is not None and not is_cell_id(cell_id):
            raise InvalidInput(
                f"{quoted_id(cell_id)} is not a valid cell id (1 to 64 letters, digits, - and _), "
                "so nothing was done. Ask the person to edit the cell, or to give it another id."
            )
