"""Which cells show results that no longer follow from the code above."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.notebook.cell import Cell


def stale_cells(cells: Sequence[Cell], language: str) -> dict[str, str]:
    """Ids of stale cells and why, as a clause."""
    return {}
