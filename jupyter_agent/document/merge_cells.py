"""Three-way merge of notebooks: the last common state of a shared document and its file, the
present document, and the present file.

Pure functions on the content of nbformat files, with an id for each cell; a page does the same in
`bridge/merge.ts`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.merge import MergeConflict, keeps_edit, merge

Content: TypeAlias = Mapping[str, Any]
"""The content of a notebook's file: `cells`, `metadata`, `nbformat` and `nbformat_minor`."""
_OWN = ("id", "source", "metadata", "outputs", "execution_count")
"""Keys of a cell with a merge rule of their own."""
_WORD = re.compile(r"\w+")


class Base(NamedTuple):
    """What a program had probably read before it wrote a file."""

    content: dict[str, Any]
    """An outline."""
    unclear: Collection[str]
    """Ids of cells whose newer text the program may also have read."""


class MergedNotebook(NamedTuple):
    """A notebook with the changes of both sides."""

    content: dict[str, Any]
    conflicts: list[str]
    """Ids of cells that both changed differently, or that are unclear: the document's version
    stays.
    """


def by_id(content: Content) -> dict[str, Mapping[str, Any]]:
    """The cells by id."""
    return {cell["id"]: cell for cell in content["cells"]}


def text_of(cell: Mapping[str, Any]) -> str:
    """The cell's text; empty if the file's cell has no text, as Jupyter writes none."""
    return unify(str(cell.get("source", "")))


def outline(content: Content) -> dict[str, Any]:
    """The part of a content that is stored as the base of a merge: everything, but of the outputs
    only a hash.
    """
    return {**content, "cells": [_outline_cell(cell) for cell in content["cells"]]}


def _outline_cell(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**cell, "outputs": _hash(cell["outputs"])} if "outputs" in cell else cell


def base_of(file: Content, former: Content, latest: Content) -> Base:
    """The base for merging a file, from two outlines that it had: the `latest` one, but the
    `former` one for cells that changed since if the file's version does not show that change.
    """
    former_cells, latest_cells, file_cells = map(by_id, (former, latest, file))
    cells: list[Mapping[str, Any]] = []
    unclear: list[str] = []
    for cell in latest["cells"]:
        own, other = former_cells.get(cell["id"]), file_cells.get(cell["id"])
        if own is None or other is None:
            if own or other:
                cells.append(own or cell)
            continue
        texts = text_of(own), text_of(cell), text_of(other)
        if _keeps_text(*texts):
            cells.append(_as_read(own, cell, other))
        else:
            cells.append(own)
            if _is_unclear(*texts):
                unclear.append(cell["id"])
    cells += [
        cell
        for cell in former["cells"]
        if cell["id"] not in latest_cells
        and cell["id"] in file_cells
        and _has_same_text(file_cells[cell["id"]], cell)
    ]
    return Base({**latest, "cells": cells}, unclear)


def merge_cells(
    base: Content, mine: Content, theirs: Content, unclear: Collection[str] = ()
) -> MergedNotebook:
    """Merge the changes of both sides to `base`, the outline of a content: cell by cell, and texts
    by lines. A cell that one side deleted and the other changed stays, or is a conflict if `theirs`
    changed it. An `unclear` cell is a conflict too: merging would repeat what `theirs` has taken
    from `mine`.
    """
    was, here, there = map(by_id, (base, mine, theirs))
    cells: dict[str, Mapping[str, Any]] = {}
    conflicts: list[str] = []
    for cell_id in here.keys() | there.keys():
        before, own, other = was.get(cell_id), here.get(cell_id), there.get(cell_id)
        if own is not None and other is not None:
            try:
                if cell_id in unclear and text_of(own) != text_of(other):
                    raise MergeConflict("their version may be based on ours")
                cells[cell_id] = merge_cell(before or {}, own, other)
            except MergeConflict:
                cells[cell_id] = own
                conflicts.append(cell_id)
        elif own is not None and (before is None or not _has_same_text(own, before)):
            cells[cell_id] = own
        elif other is not None and before is None:
            cells[cell_id] = other
        elif other is not None and before is not None and not _has_same_text(other, before):
            conflicts.append(cell_id)
    order = _order(list(was), list(here), list(there))
    merged = {
        **_merge_keys(base, mine, theirs, ("cells", "metadata")),
        "cells": [cells[cell_id] for cell_id in order if cell_id in cells],
        "metadata": merge_objects(base["metadata"], mine["metadata"], theirs["metadata"]),
    }
    return MergedNotebook(merged, conflicts)


def _as_read(
    former: Mapping[str, Any], latest: Mapping[str, Any], other: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The cell that the program had read before it wrote `other`, whose text shows the latest
    change: the former cell with the latest text if the rest does not show that change.
    """
    before, after, now = map(_without_trust, (former, latest, _outline_cell(other)))
    if any(
        before.get(key) != after.get(key) and now.get(key) == before.get(key)
        for key in before.keys() | after.keys()
    ):
        return {**former, "source": text_of(latest)}
    return latest


def _keeps_text(former: str, latest: str, text: str) -> bool:
    """Whether `text` has everything that was added from `former` to `latest`."""
    return former == latest or (text != former and keeps_edit(former, latest, text))


def _is_unclear(former: str, latest: str, text: str) -> bool:
    """Whether a text without all of `latest` may still be based on it: it has words that were new
    in `latest`, or nothing beyond `former` that `latest` lacks.
    """
    if text == former:
        return False
    words, came, there = (set(_WORD.findall(each)) for each in (former, latest, text))
    return not there.isdisjoint(came - words) or keeps_edit(former, text, latest)


def merge_cell(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge one cell; `base` is a cell or its outline, and empty if both added the cell. For keys
    in `both_changed` and for two runs, `mine` wins. Raises MergeConflict if both changed the same
    lines of its text.
    """
    cell = {
        **_merge_keys(base, mine, theirs, _OWN),
        "id": mine["id"],
        "source": _merge_text(base, mine, theirs),
        "metadata": merge_objects(
            *(_without_trust(side).get("metadata", {}) for side in (base, mine, theirs))
        ),
    }
    ran = mine if _is_own_run(base, mine, theirs) else theirs
    if cell["cell_type"] == "code":
        if mine["cell_type"] != theirs["cell_type"]:
            cell.pop("attachments", None)
        cell["outputs"] = ran.get("outputs", [])
        cell["execution_count"] = ran.get("execution_count")
    if "trusted" in ran.get("metadata", {}):
        cell["metadata"]["trusted"] = ran["metadata"]["trusted"]
    return cell


def both_changed(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> list[str]:
    """The keys of a cell and of its metadata that both changed, each in its own way. Text and
    outputs are not among them.
    """
    sides = [
        {
            **{key: cell[key] for key in cell if key not in _OWN},
            "metadata": cell.get("metadata", {}),
        }
        for cell in map(_without_trust, (base, mine, theirs))
    ]
    metadata = [side.pop("metadata") for side in sides]
    return [
        key
        for before, own, other in (sides, metadata)
        for key in own.keys() | other.keys() | before.keys()
        if own.get(key) != other.get(key) and before.get(key) not in (own.get(key), other.get(key))
    ]


def _merge_text(base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Merge the text; if only one side changed it, with that side's line endings. Raises
    MergeConflict.
    """
    before, own, other = map(text_of, (base, mine, theirs))
    if own == other or (base and own == before):
        return str(theirs.get("source", ""))
    if not base:
        raise MergeConflict("both added a cell with this id")
    return str(mine.get("source", "")) if other == before else merge(before, own, other)


def _is_own_run(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> bool:
    """Whether the document's outputs stay, with their number and trust."""
    number, outputs = mine.get("execution_count"), mine.get("outputs", [])
    if (number, outputs) == (theirs.get("execution_count"), theirs.get("outputs", [])):
        return True
    former = base.get("outputs", [])
    same = _hash(outputs) == former if isinstance(former, str) else outputs == former
    return not same or number != base.get("execution_count")


def without_trust(content: Content) -> dict[str, Any]:
    """The content without the marks that are never in a file."""
    return {**content, "cells": [_without_trust(cell) for cell in content["cells"]]}


def _without_trust(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = cell.get("metadata", {})
    if "trusted" not in metadata:
        return cell
    return {**cell, "metadata": {key: metadata[key] for key in metadata if key != "trusted"}}


def merge_objects(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge key by key; if both changed a key, mine wins."""
    merged: dict[str, Any] = {}
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        side = theirs if base.get(key) == mine.get(key) else mine
        if key in side:
            merged[key] = side[key]
    return merged


def _merge_keys(
    base: Mapping[str, Any],
    mine: Mapping[str, Any],
    theirs: Mapping[str, Any],
    without: Sequence[str],
) -> dict[str, Any]:
    sides = (
        {key: item for key, item in side.items() if key not in without}
        for side in (base, mine, theirs)
    )
    return merge_objects(*sides)


def _has_same_text(cell: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (cell["cell_type"], text_of(cell)) == (other["cell_type"], text_of(other))


def _order(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """All ids in the order of the side that moved cells, mine if both did. Cells that only the
    other side has follow their neighbours.
    """
    common = set(base).intersection(mine, theirs)
    before, now = ([cell_id for cell_id in ids if cell_id in common] for ids in (base, mine))
    lead, others = (theirs, mine) if before == now else (mine, theirs)
    behind: dict[str | None, list[str]] = defaultdict(list)
    above = None
    led = set(lead)
    for cell_id in others:
        if cell_id in led:
            above = cell_id
        else:
            behind[above].append(cell_id)
    return [*behind[None], *(each for cell_id in lead for each in (cell_id, *behind[cell_id]))]


def _hash(outputs: Iterable[Mapping[str, Any]]) -> str:
    text = json.dumps(outputs, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
