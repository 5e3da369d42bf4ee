"""How large an event may be: the journal and the runs have all of what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jupyter_agent.events import CallOutput, CellsChanged, Event

EVENT_LIMIT = 1_000_000
"""Characters of JSON of one event that tells outputs: a client reads it whole, each time anew."""

_LONGEST = (100_000, 10_000, 1_000, 0)
"""Characters of a single output, tried one after the other; with 0 all are left out."""


def capped(event: Event) -> Event:
    """The event, without the longest texts of its outputs where it is too large.

    `GET runs/{id}` and `GET turns/{id}/changes` give them whole; what was left out says so.
    """
    if isinstance(event, CallOutput):
        return replace(event, output=_fitting(event.output))
    if isinstance(event, CellsChanged):
        return replace(event, changes=tuple(_fitting(event.changes)))
    return event


def _fitting(value: Any) -> Any:
    if _size(value) <= EVENT_LIMIT:
        return value
    for longest in _LONGEST:
        fitting = _without(value, longest)
        if _size(fitting) <= EVENT_LIMIT:
            break
    return fitting


def _without(value: Any, longest: int) -> Any:
    """The value with no longer outputs; all else of it is left alone."""
    if isinstance(value, Mapping):
        return {
            key: _outputs(item, longest) if key == "outputs" else _without(item, longest)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without(item, longest) for item in value]
    return value


def _outputs(outputs: Sequence[Any], longest: int) -> list[Any]:
    if not longest:
        return [_note(_size(outputs))] if outputs else []
    return [output if (size := _size(output)) <= longest else _note(size) for output in outputs]


def _note(size: int) -> dict[str, Any]:
    text = f"[Outputs of {size:,} characters: see the cell.]"
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def _size(value: Any) -> int:
    return len(json.dumps(value))
