"""That a cell runs, as its document says it to every page.

The document of a room outlives the server that wrote into it, and then nobody knows of that run any
more. So it says there too whose run it is, and another server can say that it is over.
"""

from __future__ import annotations

from jupyter_agent.document.crdt import RUN, SharedCells

_RUN = "agent_run:"
"""Stands before a cell's id, in the part of the document that is in no file."""


def begin(cells: SharedCells, cell_id: str) -> None:
    """Show the cell as running. Within a transaction, as all here but `end_lost`."""
    cells.shared(cell_id)["execution_state"] = "running"
    if cells.server:
        cells.document.ystate[_RUN + cell_id] = cells.server


def end(cells: SharedCells, cell_id: str) -> None:
    """Show the cell as idle."""
    cells.shared(cell_id)["execution_state"] = "idle"
    leave(cells, cell_id)


def leave(cells: SharedCells, cell_id: str) -> None:
    """What the cell shows from now on is somebody else's, or it is gone."""
    if _RUN + cell_id in cells.document.ystate:
        del cells.document.ystate[_RUN + cell_id]


def end_lost(cells: SharedCells) -> None:
    """Show as idle what runs by the word of another server than this one."""
    runs = cells.document.ystate.to_py() or {}
    lost = [key for key, server in runs.items() if key.startswith(_RUN) and server != cells.server]
    for cell_id in (key.removeprefix(_RUN) for key in lost):
        with cells.transaction(RUN):
            if cell_id in cells.ids():
                end(cells, cell_id)
            else:
                leave(cells, cell_id)
