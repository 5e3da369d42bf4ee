"""What an edit did."""

from __future__ import annotations

from collections.abc import (
    Sequence,
)
from dataclasses import dataclass, replace

from jupyter_agent.document.carrier import SaveResult
from jupyter_agent.document.cell import Cell, Change

_NEIGHBOURS = 5
"""Cells on each side that the journal records: users may delete some before an undo."""


@dataclass(frozen=True)
class Edit:
    """The result of an edit."""

    cell: Cell | None
    """The cell as it is now; None if it was deleted."""
    changes: list[Change]
    saved: SaveResult
    merged: bool = False
    """The user had changed the cell since the model read it; both changes are in it."""


@dataclass(frozen=True)
class LastEdit:
    """A text that one of our edits gave a cell."""

    turn_id: str | None
    """None if the edit belongs to no turn."""
    version: str
    """Version of the cell right after the edit."""


def net_changes(changes: Sequence[Change]) -> list[Change]:
    """The combined effect of these changes on each cell: a later change may undo an earlier one."""
    net: dict[str, Change] = {}
    for change in changes:
        first = net.get(change.cell_id)
        net[change.cell_id] = replace(change, before=first.before, within=None) if first else change
    return [each for each in net.values() if each.before or each.after]


def with_neighbours(change: Change, order: Sequence[str]) -> Change:
    """The change with the ids above and below the cell."""
    if change.before is None:
        return change
    index = change.before.index
    above, below = order[:index][-_NEIGHBOURS:], order[index + 1 :][:_NEIGHBOURS]
    return replace(change, before=replace(change.before, above=above[::-1], below=below))
