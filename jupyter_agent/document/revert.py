"""Reverses one change in a cell as it is now, by parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jupyter_agent.document.cell import CellState, Change
from jupyter_agent.document.merge import MergeConflict, merge
from jupyter_agent.document.values import are_same


class UndoConflict(Exception):
    """The cell cannot be undone."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason
        self.why = why


def revert_changes(state: CellState, changes: Sequence[Change]) -> CellState:
    """The state without the changes. Raises UndoConflict."""
    for change in reversed(changes):
        before, after = change.before, change.after
        if before is None or after is None:
            continue
        if change.kind == "update":
            state = _revert_update(state, before, after)
        same_type = state.type == before.type == after.type
        if change.kind == "outputs" and same_type and outputs_of(state) == outputs_of(after):
            state = replace(state, outputs=before.outputs, execution_count=before.execution_count)
    return state


def _revert_update(state: CellState, before: CellState, after: CellState) -> CellState:
    try:
        source = merge(after.source, state.source, before.source)
    except MergeConflict:
        raise UndoConflict("changed", "These lines were edited since.") from None
    if before.type != after.type:
        if state.type != after.type:
            raise UndoConflict("changed", "The type of the cell was changed again since.")
        if _parts_of_one_type(state) != _parts_of_one_type(after):
            why = "The cell has outputs or pictures since, which its former type does not have."
            raise UndoConflict("changed", why)
        state = replace(
            state,
            type=before.type,
            outputs=before.outputs,
            execution_count=before.execution_count,
            attachments=before.attachments,
        )
    unchanged = state.stored == after.stored  # no one changed line endings
    stored = before.text_as_stored if unchanged else None
    metadata = _revert_metadata(state, before, after)
    return replace(state, source=source, stored=stored, metadata=metadata)


def _revert_metadata(state: CellState, before: CellState, after: CellState) -> dict[str, Any]:
    """The metadata with the change's effect on single keys, and on single tags, undone. Raises
    UndoConflict.
    """
    metadata = dict(state.metadata)
    for key in before.metadata.keys() | after.metadata.keys():
        old, new, now = (each.get(key) for each in (before.metadata, after.metadata, metadata))
        if are_same(old, new) or are_same(now, old):
            continue
        if not are_same(now, new):
            old = _without_tags(now or [], old or [], new or [])
            if old is None:
                raise UndoConflict("changed", f"`{key}` in its metadata was changed again since.")
        metadata.pop(key, None)
        if old or (key in before.metadata and are_same(before.metadata[key], old)):
            metadata[key] = old
    return metadata


def _without_tags(now: object, before: object, after: object) -> list[Any] | None:
    """The present list without the change of another one; None if they are not lists."""
    if not (isinstance(now, list) and isinstance(before, list) and isinstance(after, list)):
        return None
    stay = [item for item in now if item in before or item not in after]
    return stay + [item for item in before if item not in after and item not in now]


def _parts_of_one_type(state: CellState) -> tuple[Any, ...]:
    return *outputs_of(state), state.attachments or {}


def outputs_of(state: CellState) -> tuple[list[Any], int | None]:
    return list(state.outputs), state.execution_count
