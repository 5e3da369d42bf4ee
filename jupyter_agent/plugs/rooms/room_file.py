"""How a room loads its file, when it is created again and when another program has written it.

`YNotebook.aset` of jupyter-ydoc 3 and 4 empties the text of each cell that differs and fills it
again: cursors jump to its top, and text typed at that moment, or offline, ends up before or behind
all of it. It replaces cells whose printed outputs differ, and below nbformat 4.5 all cells: typing
in them is lost. So these changes are made here first, in place.

While in use, a room has changes since its last save that are not in its file. Both are merged, in a
copy of the document as a page has one: users who type in the meantime are not disturbed, and lose
nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from jupyter_ydoc import YNotebook
from pycrdt import Array, Map, Text, TransactionEvent

from jupyter_agent.carriers.nbformat_file import missing_ids
from jupyter_agent.document.cell import version_of
from jupyter_agent.document.crdt import rewrite
from jupyter_agent.document.identities import match_cells
from jupyter_agent.document.merge import keeps_edit, longest_increase
from jupyter_agent.document.merge_cells import (
    Content,
    base_of,
    by_id,
    merge_cells,
    outline,
    text_of,
    without_trust,
)
from jupyter_agent.document.values import (
    append_outputs,
    as_json,
    fit_numbers,
    nbformat_cell,
    snapshot,
)
from jupyter_agent.plugs.rooms.room_history import with_file
from jupyter_agent.plugs.rooms.room_shadow import mark_removal

_BLANK: dict[str, Any] = {
    "cell_type": "code",
    "execution_count": None,
    "metadata": {"trusted": True},
    "outputs": [],
    "source": "",
}

_MOST = 100_000
"""Longest text that is compared, in characters; it is done on the event loop."""


def update_in_place(document: YNotebook, content: Content) -> dict[str, Any]:
    """Change texts and printed outputs of a document to those of its file. Returns the content to
    set then, in which cells have ids: those of the document if the file does not store them.
    """
    cells = with_former_ids(document.ycells, content["cells"])
    there = {cell.get("id"): cell for cell in document.ycells}
    printed: list[tuple[Array[Any], list[Any]]] = []
    with document.ydoc.transaction():
        for cell in cells:
            shared = there.get(cell.get("id"), {})
            text, source = shared.get("source"), cell.get("source")
            if isinstance(text, Text) and isinstance(source, str) and len(source) < _MOST:
                rewrite(text, source)
            former, outputs = shared.get("outputs"), cell.get("outputs", [])
            if isinstance(former, Array) and any(map(_is_printed, outputs)):
                if as_json(former.to_py()) != outputs:
                    printed.append((former, outputs))
                    former.clear()
    with document.ydoc.transaction():  # pages cannot follow one that removes and adds outputs
        for former, outputs in printed:
            append_outputs(former, outputs)
    return {**content, "cells": cells}


def _is_printed(output: Mapping[str, Any]) -> bool:
    return bool(output["output_type"] == "stream")


def with_former_ids(
    former: Sequence[Mapping[str, Any]], cells: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The cells of a file with the ids that they had before, if the file stores none, or a program
    has replaced all of them. New cells have their own id, or none.
    """
    own = {cell["id"] for cell in cells if "id" in cell}
    have_all = all("id" in cell for cell in cells)
    if have_all and not own.isdisjoint(cell.get("id") for cell in former):
        return cells
    texts = (
        [(cell.get("cell_type"), cell.get("source", "")) for cell in side]
        for side in (former, cells)
    )
    pairs = match_cells(
        *([version_of(str(kind), str(text)) for kind, text in side] for side in texts)
    )
    ids = {pair.now: former[pair.former].get("id") for pair in pairs if pair.same or not have_all}
    wanted = Counter([*ids.values(), *own])
    return [
        {**cell, "id": ids[index]}
        if (have_all or "id" not in cell) and wanted[ids.get(index)] == 1
        else cell
        for index, cell in enumerate(cells)
    ]


async def content_of(document: YNotebook) -> dict[str, Any]:
    """The content of a document, as it goes into a file. If a program, unlike a page, has put
    NaN or an infinite number into it, at which `aget` and `aset` fail, that becomes null.
    """
    content = type(document).aget
    try:
        return await content(document)
    except (OverflowError, ValueError):
        with document.ydoc.transaction():
            _fit(document.ydoc.get("meta", type=Map))
            _fit(document.ycells)
        return await content(document)


def _fit(shared: Map[Any] | Array[Any]) -> None:
    """`fit_numbers`, in place."""
    entries: Any = shared
    for key in range(len(shared)) if isinstance(shared, Array) else [*shared.keys()]:
        value = entries[key]
        if isinstance(value, Map | Array):
            _fit(value)
        elif not isinstance(value, Text) and (fitted := fit_numbers(value)) != value:
            entries[key] = fitted


class DocumentUpdate(NamedTuple):
    """A transaction of a document."""

    update: bytes
    removed: Mapping[str, str] = {}
    """The texts, by id, of the cells that it removes or replaces by copies."""


class FollowPlan(NamedTuple):
    """The changes that make a document follow its file."""

    changes: Sequence[DocumentUpdate]
    """In order. Pages could not follow a single transaction."""
    offers: Sequence[Mapping[str, Any]]
    """Texts for which there was no place in the document."""
    base: Content
    """The outline of the file."""
    is_file: bool
    """Whether the document then equals its file."""


async def follow(
    copy: YNotebook,
    latest: Content | None,
    content: Content,
    log: logging.Logger,
    former: Content | None = None,
) -> FollowPlan:
    """Have a copy of a document load its file, which another program has written. `latest` is the
    outline of the file before; None if it is unknown, so that only the file counts. `former` is the
    outline from some seconds earlier, which that program may have read.
    """
    changes: list[DocumentUpdate] = []

    def collect(event: TransactionEvent) -> None:
        changes.append(DocumentUpdate(event.update))

    subscription = copy.ydoc.observe(collect)
    try:
        mine = with_ids(copy, await content_of(copy))
        known = [side["cells"] for side in (latest, former) if side is not None] or [copy.ycells]
        file = await _as_document(content, max(known, key=partial(_count_common, content)), mine)
        merged = file
        offers: list[dict[str, Any]] = []
        if latest is not None:
            try:
                merged, offers = await asyncio.to_thread(_merge, latest, former, mine, file)
            except Exception:  # whatever a file contains
                log.exception("Unsaved changes were not merged with a changed file")
                offers = unsaved_cells(
                    mine["cells"], texts_of(latest["cells"]), texts_of(file["cells"])
                )
        if merged != mine:
            if removed := await _set_content(copy, mine, merged, log):
                changes[-1] = changes[-1]._replace(removed=removed)
    finally:
        copy.ydoc.unobserve(subscription)
    is_file = without_trust(merged) == without_trust(file)
    return FollowPlan(changes, offers, await asyncio.to_thread(outline, file), is_file)


def _count_common(content: Content, cells: Iterable[Mapping[str, Any]]) -> int:
    """The number of these cells that are in the file."""
    here, there = (
        Counter((cell["cell_type"], text_of(cell)) for cell in side)
        for side in (content["cells"], cells)
    )
    return (here & there).total()


def _merge(
    latest: Content, former: Content | None, mine: Content, file: Content
) -> tuple[Content, list[dict[str, Any]]]:
    """The merged document and file, and the texts of the file for which there was no place."""
    base, unclear = (latest, ()) if former is None else base_of(file, former, latest)
    if outline(mine) == base:
        return file, []
    merged, conflicts = merge_cells(base, mine, file, unclear)
    read, saved, there = (texts_of(side["cells"]) for side in (base, latest, merged))

    def is_former(cell: Mapping[str, Any]) -> bool:
        """Whether its writer did not know the latest saved text, or reverts it."""
        cell_id, text = cell["id"], text_of(cell)
        return read.get(cell_id) == text and text not in (saved.get(cell_id), there.get(cell_id))

    offers = [
        _from_file(_offer(cell, read, above))
        for cell, above in _with_above(file["cells"], there)
        if cell["id"] in conflicts or is_former(cell)
    ]
    return merged, offers


async def _as_document(
    content: Content, former: Sequence[Mapping[str, Any]], like: Content
) -> Content:
    """The content of a document filled from the file, in which each cell has an id: it lacks what
    documents do not hold, and has what they always hold. A cell that is also in `like` is returned
    in that form.
    """
    cells: list[dict[str, Any]] = [{"source": "", **cell} for cell in content["cells"]]
    if not cells and len(former) == 1 and not text_of(former[0]):
        cells = [{"id": former[0]["id"], **_BLANK}]  # a document's form of an empty notebook
    elif not cells:
        cells = [_BLANK]
    cells = _assign_ids(with_former_ids(former, cells), former, like["cells"])
    there = by_id(like)
    others = [cell for cell in cells if cell != there.get(cell["id"])]
    document = YNotebook()
    await document.aset({**content, "cells": others or [_BLANK]})
    held = with_ids(document, await content_of(document))
    there |= by_id(held)
    return {**held, "cells": [there[cell["id"]] for cell in cells]}


def _assign_ids(
    cells: Sequence[dict[str, Any]], *sides: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The cells of a file, each with an id. A cell whose id is unknown to all sides (as each
    reading gives new ids to cells without one) or occurs twice gets that of a cell with the same
    text that is not in the file.
    """
    without = {*missing_ids(cells)}
    known = {cell["id"] for side in sides for cell in side}
    strange = {at for at, cell in enumerate(cells) if at in without or cell["id"] not in known}
    taken = {cell["id"] for at, cell in enumerate(cells) if at not in strange}
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in (cell for side in sides for cell in side):
        ids[cell["cell_type"], text_of(cell)].append(cell["id"])
    recognized = list(cells)
    for at in sorted(strange):
        alike = ids[cells[at]["cell_type"], text_of(cells[at])]
        cell_id = next((one for one in alike if one not in taken), None)
        if cell_id is None and at in without:
            cell_id = uuid4().hex
        if cell_id is not None:
            taken.add(cell_id)
            recognized[at] = {**cells[at], "id": cell_id}
    return recognized


async def is_file(document: YNotebook, content: Content) -> bool:
    """Whether a document equals its file."""
    here = with_ids(document, await content_of(document))
    there = await _as_document(content, here["cells"], here)
    return without_trust(here) == without_trust(there)


async def _set_content(
    copy: YNotebook, former: Content, content: Content, log: logging.Logger
) -> dict[str, str]:
    """Set the content. Returns the texts of the cells that the last transaction removes; it does
    nothing else.
    """
    # The document gives whole floats back as integers, of any size.
    content = await asyncio.to_thread(fit_numbers, dict(content))
    wanted, before = by_id(content), by_id(former)
    replaced = _out_of_order([*before], [*wanted])  # aset may move all others
    for cell_id in before.keys() & wanted.keys():
        if before[cell_id]["cell_type"] != wanted[cell_id]["cell_type"]:
            replaced.add(cell_id)
    gone = replaced | (before.keys() - wanted.keys())
    others = [cell for cell_id, cell in wanted.items() if cell != before.get(cell_id)]
    try:
        update_in_place(copy, {"cells": [cell for cell in others if cell["id"] not in gone]})
    except Exception:  # whatever a file contains
        log.exception("Text typed at this moment may be lost")
    cells: list[tuple[str, Map[Any]]] = []
    if gone:
        stay = [before[one] if one in gone else wanted[one] for one in before]
        with copy.ydoc.transaction(), with_file(copy):
            await copy.aset({**content, "cells": stay})
        cells = [(cell["id"], cell) for cell in copy.ycells]  # slow with thousands of cells
    removed = {cell_id: str(cell["source"]) for cell_id, cell in cells if cell_id in gone}
    with copy.ydoc.transaction(), with_file(copy):
        for index, (cell_id, _) in reversed([*enumerate(cells)]):
            if cell_id in replaced:
                del copy.ycells[index]
        await copy.aset(dict(content))
        if removed:
            mark_removal(copy)
    return removed


def _out_of_order(now: Sequence[str], wanted: Sequence[str]) -> set[str]:
    """The smallest set of cells whose removal leaves the remaining ones in order."""
    places = {cell_id: place for place, cell_id in enumerate(wanted)}
    stay = [cell_id for cell_id in now if cell_id in places]
    in_order = longest_increase([places[cell_id] for cell_id in stay])
    return set(stay).difference(stay[index] for index in in_order)


def with_ids(document: YNotebook, content: Content) -> Content:
    """The content of a document, with an id for each cell. If the file stores no ids, no two cells
    of the document share one then.
    """
    if all("id" in cell for cell in content["cells"]):
        return content
    for index in missing_ids(document.ycells):
        document.ycells[index]["id"] = uuid4().hex
    cells = zip(document.ycells, content["cells"], strict=True)
    return {**content, "cells": [{**cell, "id": shared["id"]} for shared, cell in cells]}


async def outline_of(document: YNotebook) -> Content:
    """The outline of a document's content."""
    return await asyncio.to_thread(outline, with_ids(document, await content_of(document)))


def unsaved_cells(
    cells: Iterable[Mapping[str, Any]], saved: Mapping[str, str], there: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Each cell whose text is newer than `saved` and is not `there`: the `cell` in nbformat 4.5,
    without its outputs; `base`, its text at that save, None if it is newer; `above`, the cell right
    above it and the nearest one above that is there.
    """
    return [
        _offer(cell, saved, above)
        for cell, above in _with_above(cells, there)
        if text_of(cell).strip()
        and text_of(cell) not in (saved.get(cell["id"]), there.get(cell["id"]))
    ]


def lost_edits(document: YNotebook, base: Content, file: Content) -> list[dict[str, Any]]:
    """Texts that a file added since it and the document had `base` in common, and that the document
    lacks.
    """
    there = texts_of(document.ycells)
    return [
        _from_file(offer)
        for offer in unsaved_cells(file["cells"], texts_of(base["cells"]), {})
        if not keeps_edit(
            offer["base"] or "", offer["cell"]["source"], there.get(offer["cell"]["id"], "")
        )
    ]


def _from_file(offer: dict[str, Any]) -> dict[str, Any]:
    """The document has another text, which stays."""
    return {**offer, "cause": "file"}


def _offer(
    cell: Mapping[str, Any], saved: Mapping[str, str], above: Sequence[str]
) -> dict[str, Any]:
    return {"cell": _without_outputs(cell), "base": saved.get(cell["id"]), "above": above}


def _with_above(
    cells: Iterable[Mapping[str, Any]], there: Collection[str]
) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    above: list[str] = []
    for cell in cells:
        yield cell, above
        above = [cell["id"]] if cell["id"] in there else [cell["id"], *above[-1:]]


def _without_outputs(cell: Mapping[str, Any]) -> dict[str, Any]:
    value = cell.to_py() if isinstance(cell, Map) else cell
    state = snapshot(0, {**(value or {}), "outputs": [], "execution_count": None}).state()
    return nbformat_cell(cell["id"], state)


def texts_of(cells: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The text of each cell, by its id."""
    return {cell.get("id", ""): text_of(cell) for cell in cells}
