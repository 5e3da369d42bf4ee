"""Cells as values: as a shared document, a notebook file and a snapshot hold them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from typing import Any, get_args
from uuid import uuid4

from pycrdt import Array, Map, Text

from jupyter_agent.document.cell import Cell, CellState, CellType, Output
from jupyter_agent.document.line_ends import unify
from jupyter_agent.errors import UnreadableNotebook

FIRST_WITH_IDS = 5
"""The first minor version of format 4 in which cells have ids (Jupyter Enhancement Proposal 62)."""
EXACT = 2**53
"""Above this a float can no longer hold every integer."""
_BITS_63 = 2**63


def as_shared(value: Any) -> Any:
    """The value as a shared document holds it: integers as floats.

    Yjs in the browser reads integers as BigInt, which its JSON cannot write. Beyond `EXACT`
    precision is lost.
    """
    match value:
        case bool() | None | str() | float():
            return value
        case int():
            return float(value) if abs(value) <= sys.float_info.max else float("inf")
        case Mapping():
            return {key: as_shared(item) for key, item in value.items()}
        case list() | tuple():
            return [as_shared(item) for item in value]
    return value


def fit_numbers(value: Any) -> Any:
    """JSON with the integers beyond 64 bits as floats: pycrdt panics at them, which no
    `except Exception` catches. NaN and infinite numbers are null, since no page can read them.
    """
    match value:
        case int() if not -_BITS_63 <= value < _BITS_63:
            return fit_numbers(as_shared(value))
        case float() if not isfinite(value):
            return None
        case dict():
            return {key: fit_numbers(item) for key, item in value.items()}
        case list():
            return [fit_numbers(item) for item in value]
    return value


def as_json(value: Any) -> Any:
    """The value as a notebook file holds it: whole floats as integers."""
    match value:
        case float() if abs(value) <= EXACT and value.is_integer():
            return int(value)
        case dict():
            return {key: as_json(item) for key, item in value.items()}
        case list():
            return [as_json(item) for item in value]
    return value


def are_same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal; `NaN`, which Python reads and writes, equals itself."""
    return bool(one == other) or json.dumps(one, sort_keys=True) == json.dumps(
        other, sort_keys=True
    )


def json_error(metadata: Mapping[str, Any]) -> str:
    """Why no page could read a file with this metadata; empty if it could."""
    try:
        json.dumps(as_shared(metadata), allow_nan=False)
    except ValueError:
        return "its metadata has NaN or an infinite number, which are not JSON"
    return ""


def shared_output(output: Output) -> Map[Any]:
    """One output as an entry of a cell's `outputs`."""
    return Map(_items_of(output))


def _items_of(output: Output) -> dict[str, Any]:
    """A stream's text becomes a Text, so that it can grow."""
    value: dict[str, Any] = as_shared(dict(output))
    if output["output_type"] == "stream":
        value["text"] = Text(value["text"])
    return value


def append_outputs(shared: Array[Any], outputs: Sequence[Output]) -> None:
    """Append outputs to a cell's `outputs`, within a transaction.

    They are filled once all are in place, so that their ids follow each other. Once deleted they
    are then one block of the document, not one each, and every insertion below passes all blocks.
    """
    items = [_items_of(output) for output in outputs]  # first, in case one is odd
    entries: list[Map[Any]] = [Map() for _ in items]
    shared.extend(entries)
    for entry, item in zip(entries, items, strict=True):
        entry.update(item)


def shared_cell(cell: Mapping[str, Any]) -> Map[Any]:
    """A cell of nbformat 4.5 as an entry of the document's `cells`; unknown keys are preserved."""
    value = as_shared(
        {key: item for key, item in cell.items() if key not in ("source", "metadata", "outputs")}
    )
    value["source"] = Text(cell["source"])
    value["metadata"] = Map(as_shared(cell["metadata"]))
    if cell["cell_type"] == "code":
        value["outputs"] = Array([shared_output(output) for output in cell["outputs"]])
        value.setdefault("execution_state", "idle")
    return Map(value)


def snapshot(
    index: int,
    value: Mapping[str, Any],
    previous: tuple[Sequence[Any], Sequence[Output]] = ((), ()),
    writes: int = 0,
) -> Cell:
    """The snapshot of a shared document's cell. `previous` are the outputs of an earlier snapshot,
    as the document held them and as JSON: most of many outputs stay the same. `writes` is
    `Cell.writes`.
    """
    number = value.get("execution_count")
    outputs = [
        new if was is now else as_json(now)
        for now, was, new in zip_longest(value.get("outputs") or (), *previous)
    ][: len(value.get("outputs") or ())]
    return Cell(
        id=value["id"],
        index=index,
        type=value["cell_type"],
        source=(source := unify(value["source"])),
        stored=value["source"] if source != value["source"] else None,
        metadata=as_json(value["metadata"]),
        outputs=outputs,
        execution_count=None if number is None else int(number),
        running=value.get("execution_state") == "running",
        writes=writes,
        attachments=as_json(value.get("attachments")),
    )


def cell_value(shared: object) -> dict[str, Any]:
    """The shared document's entry for a cell; other clients can have put anything there.

    Raises UnreadableNotebook if it is not a cell.
    """
    value = shared.to_py() if isinstance(shared, Map) else None
    if value is None or not is_cell(value):
        raise UnreadableNotebook(
            "The open document contains something that is not a notebook cell, so it cannot be "
            "edited. Ask the user to save it, and to close and open it again."
        )
    return value


def is_cell(value: Mapping[str, Any]) -> bool:
    """Whether the value of an entry is that of a cell."""
    outputs, count = value.get("outputs"), value.get("execution_count")
    return (
        isinstance(value.get("id"), str)
        and value.get("cell_type") in get_args(CellType)
        and isinstance(value.get("source"), str)
        and isinstance(value.get("metadata"), dict)
        and (outputs is None or (isinstance(outputs, list) and all(map(_is_output, outputs))))
        and (count is None or isinstance(count, int | float))
        and isinstance(value.get("attachments"), dict | None)
    )


def _is_output(output: Any) -> bool:
    match output:
        case {"output_type": "stream", "text": str() | list()}:
            return True
        case {"output_type": "error", "ename": _, "evalue": _, "traceback": list()}:
            return True
        case {"output_type": "stream" | "error"}:
            return False
        case {"output_type": str()}:
            return isinstance(output.get("data"), dict | None)
    return False


def new_id() -> str:
    """An id for a new cell; short, because models read and write it."""
    return uuid4().hex[:8]


def nbformat_cell(cell_id: str, state: CellState) -> dict[str, Any]:
    """The cell as nbformat 4.5 writes it."""
    cell: dict[str, Any] = {
        "id": cell_id,
        "cell_type": state.type,
        "source": state.source,
        "metadata": dict(state.metadata),
    }
    if state.type == "code":
        cell.update(outputs=list(state.outputs), execution_count=state.execution_count)
    elif state.attachments:
        cell["attachments"] = dict(state.attachments)
    return cell
