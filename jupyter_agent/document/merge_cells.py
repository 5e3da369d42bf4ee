"""Three states of one notebook made into one: what a shared document and its file had in common,
what the document has now, and what the file has now.

Pure functions on what nbformat files hold, with an id for each cell; a page does the same in
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
"""What a notebook's file holds: `cells`, `metadata`, `nbformat` and `nbformat_minor`."""
_OWN = ("id", "source", "metadata", "outputs", "execution_count")
"""Keys of a cell that are merged each in its own way."""
_WORD = re.compile(r"\w+")


class Base(NamedTuple):
    """What a program had read before it wrote a file, as far as that shows."""

    content: dict[str, Any]
    """An outline."""
    unclear: Collection[str]
    """Ids of cells of which it may as well have read the text that came since."""


class Merged(NamedTuple):
    """A notebook with the changes of both sides."""

    content: dict[str, Any]
    conflicts: list[str]
    """Ids of cells that both changed, each in its own way, or that are unclear: the document's
    stay.
    """


def by_id(content: Content) -> dict[str, Mapping[str, Any]]:
    """The cells."""
    return {cell["id"]: cell for cell in content["cells"]}


def text_of(cell: Mapping[str, Any]) -> str:
    """What the cell says; nothing where a file has one without a text, as Jupyter writes none."""
    return unify(str(cell.get("source", "")))


def outline(content: Content) -> dict[str, Any]:
    """What is kept of a content to be the base of a merge: all but the outputs, of which a hash."""
    return {**content, "cells": [_outlined(cell) for cell in content["cells"]]}


def _outlined(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**cell, "outputs": _hash(cell["outputs"])} if "outputs" in cell else cell


def base_of(file: Content, former: Content, latest: Content) -> Base:
    """Of the outlines that the file had: the `latest`, or in cells that changed since, and in which
    what was written then is not aware of that, the `former`.
    """
    was, now, there = map(by_id, (former, latest, file))
    cells: list[Mapping[str, Any]] = []
    unclear: list[str] = []
    for cell in latest["cells"]:
        own, other = was.get(cell["id"]), there.get(cell["id"])
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
        if cell["id"] not in now and cell["id"] in there and _says_the_same(there[cell["id"]], cell)
    ]
    return Base({**latest, "cells": cells}, unclear)


def merge_cells(
    base: Content, mine: Content, theirs: Content, unclear: Collection[str] = ()
) -> Merged:
    """What comes of `base`, the outline of a content, with the changes of both: cell by cell, and
    texts by lines. A cell that one deleted and the other changed stays, or is a conflict where it
    is `theirs`. So is an `unclear` one: merged, what `theirs` has of `mine` would be there twice.
    """
    was, here, there = map(by_id, (base, mine, theirs))
    cells: dict[str, Mapping[str, Any]] = {}
    conflicts: list[str] = []
    for cell_id in here.keys() | there.keys():
        before, own, other = was.get(cell_id), here.get(cell_id), there.get(cell_id)
        if own is not None and other is not None:
            try:
                if cell_id in unclear and text_of(own) != text_of(other):
                    raise MergeConflict("theirs may be made of mine")
                cells[cell_id] = _merged_cell(before or {}, own, other)
            except MergeConflict:
                cells[cell_id] = own
                conflicts.append(cell_id)
        elif own is not None and (before is None or not _says_the_same(own, before)):
            cells[cell_id] = own
        elif other is not None and before is None:
            cells[cell_id] = other
        elif other is not None and before is not None and not _says_the_same(other, before):
            conflicts.append(cell_id)
    order = _order(list(was), list(here), list(there))
    merged = {
        **_chosen(base, mine, theirs, ("cells", "metadata")),
        "cells": [cells[cell_id] for cell_id in order if cell_id in cells],
        "metadata": _objects(base["metadata"], mine["metadata"], theirs["metadata"]),
    }
    return Merged(merged, conflicts)


def _as_read(
    former: Mapping[str, Any], latest: Mapping[str, Any], other: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The cell that a program had read which has made `other` of it, in which the text is aware of
    the latest: the former one but for that, where the rest is not.
    """
    before, after, now = map(_untrusted, (former, latest, _outlined(other)))
    if any(
        before.get(key) != after.get(key) and now.get(key) == before.get(key)
        for key in before.keys() | after.keys()
    ):
        return {**former, "source": text_of(latest)}
    return latest


def _keeps_text(former: str, latest: str, text: str) -> bool:
    """Whether a text has all that came when `latest` was made of `former`."""
    return former == latest or (text != former and keeps_edit(former, latest, text))


def _is_unclear(former: str, latest: str, text: str) -> bool:
    """Whether a text that has not all of `latest` may be made of it all the same: it has words that
    came with that, or nothing beside `former` that is not in it.
    """
    if text == former:
        return False
    words, came, there = (set(_WORD.findall(each)) for each in (former, latest, text))
    return not there.isdisjoint(came - words) or keeps_edit(former, text, latest)


def _merged_cell(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Raises MergeConflict where both changed the same lines of its text."""
    cell = {
        **_chosen(base, mine, theirs, _OWN),
        "id": mine["id"],
        "source": _merged_text(base, mine, theirs),
        "metadata": _objects(
            *(_untrusted(side).get("metadata", {}) for side in (base, mine, theirs))
        ),
    }
    ran = mine if _is_own_run(base, mine, theirs) else theirs
    if cell["cell_type"] == "code":
        cell["outputs"] = ran.get("outputs", [])
        cell["execution_count"] = ran.get("execution_count")
    if "trusted" in ran.get("metadata", {}):
        cell["metadata"]["trusted"] = ran["metadata"]["trusted"]
    return cell


def _merged_text(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> str:
    """With the line ends of the side that alone changed it. Raises MergeConflict."""
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
    former = base.get("execution_count"), base.get("outputs", _hash([]))
    return (number, _hash(outputs)) != former


def without_trust(content: Content) -> dict[str, Any]:
    """The content without what of it is in no file."""
    return {**content, "cells": [_untrusted(cell) for cell in content["cells"]]}


def _untrusted(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = cell.get("metadata", {})
    if "trusted" not in metadata:
        return cell
    return {**cell, "metadata": {key: metadata[key] for key in metadata if key != "trusted"}}


def _objects(
    base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Key by key; where both changed one, mine."""
    merged: dict[str, Any] = {}
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        side = theirs if base.get(key) == mine.get(key) else mine
        if key in side:
            merged[key] = side[key]
    return merged


def _chosen(
    base: Mapping[str, Any],
    mine: Mapping[str, Any],
    theirs: Mapping[str, Any],
    without: Sequence[str],
) -> dict[str, Any]:
    sides = (
        {key: item for key, item in side.items() if key not in without}
        for side in (base, mine, theirs)
    )
    return _objects(*sides)


def _says_the_same(cell: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (cell["cell_type"], text_of(cell)) == (other["cell_type"], text_of(other))


def _order(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """All ids: those of the side that moved cells, mine if both did, and behind their neighbours
    those that only the other one has.
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
