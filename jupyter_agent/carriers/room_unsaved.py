"""What was typed in a room and not saved when its server ended, or when its last page left.

A room stores each change as it comes. Yet when it is made again, the file wins wherever it differs
from the store: what was typed after the last save is taken out of the pages that come back.
(`DocumentRoom.initialize` of jupyter-server-ydoc 3.0) It cannot go into the file behind anybody's
back: the store may lack changes, or have those of another server. So it is kept beside, and the
pages offer to put it back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

from jupyter_ydoc import YNotebook

from jupyter_agent.carriers.ydoc import Room, collaboration
from jupyter_agent.document.cell import version_of
from jupyter_agent.document.crdt import as_shared, nbformat_cell, snapshot
from jupyter_agent.document.identities import paired
from jupyter_agent.document.line_ends import unify
from jupyter_agent.errors import Busy

Keep = Callable[[str, str], Awaitable[object]]
"""Keeps a recovery copy: path and JSON text."""


def keep_unsaved(settings: Mapping[str, Any], keep: Keep, log: logging.Logger) -> None:
    """From now on, of the rooms of a server, by the settings of its web application."""

    @contextmanager
    def harmless(does: str, path: str) -> Iterator[None]:
        try:
            yield
        except Exception:  # whatever a store or a manager raises must not keep people out
            log.exception("What was typed in the room of %s and not saved is not %s", path, does)

    @asynccontextmanager
    async def keeping(room: Room) -> AsyncIterator[None]:
        stored = None
        with harmless("kept", room.path):
            stored = await room.stored()
        yield
        if stored is None:
            return
        with harmless("offered", room.path):
            offers = _offers(stored, room)
            if offers or stored.dirty:
                await room.offer(offers)
        with harmless("kept", room.path):
            if stored.dirty and _sources(stored) != _sources(room.document):
                content = await stored.aget()
                await keep(room.path, json.dumps(content, ensure_ascii=False))

    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.around_filling(keeping)


def _offers(stored: YNotebook, room: Room) -> dict[str, Mapping[str, Any]]:
    """What its pages are to offer: each cell that says in the store what it does not say now, as
    nbformat 4.5 has it, without its outputs. `base` is what it says now; None if it is not there,
    then `above` are the cells that it was below, the nearest first.
    """
    former, now = _texts(stored), _texts(room.document)
    ids = _ids(former, now)
    offers = _followed(room.offers, ids)
    if not stored.dirty:
        return offers
    sources = {text.id: text.source for text in now}
    above: list[str] = []
    for index, text in enumerate(former):
        cell_id = ids.get(text.id, text.id)
        base = sources.get(cell_id)
        if text.source.strip() and text.source != base:
            cell = snapshot(index, stored.ycells[index].to_py())
            state = replace(cell.state(), outputs=(), execution_count=None)
            offer = {"cell": nbformat_cell(cell_id, state), "base": base, "above": above}
            offers[uuid4().hex] = as_shared(offer)
        above = [cell_id] if base is not None else [cell_id, *above]
    return offers


def _followed(
    offers: Mapping[str, Mapping[str, Any]], ids: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    """Those of before that are about cells which have other ids now."""
    followed: dict[str, Mapping[str, Any]] = {}
    for key, offer in offers.items():
        cell = {**offer["cell"], "id": ids.get(offer["cell"]["id"], offer["cell"]["id"])}
        above = [ids.get(cell_id, cell_id) for cell_id in offer["above"]]
        if (cell, above) != (offer["cell"], offer["above"]):
            followed[key] = {**offer, "cell": cell, "above": above}
    return followed


def _ids(former: Sequence[_Text], now: Sequence[_Text]) -> Mapping[str, str]:
    """The id that each former cell has now, if it has another: where the file keeps none, each
    filling gives new ones.
    """
    there = {text.id for text in now}
    if any(text.id in there for text in former):
        return {}
    pairs = paired([text.version for text in former], [text.version for text in now])
    return {former[pair.former].id: now[pair.now].id for pair in pairs}


class _Text(NamedTuple):
    """Of a cell what somebody may have typed."""

    id: str
    version: str
    source: str


def _texts(notebook: YNotebook) -> list[_Text]:
    """Those of all cells, also of a file that is not as programs of Jupyter write it."""
    cells = [
        (cell.get("id", ""), cell.get("cell_type"), cell.get("source", ""))
        for cell in notebook.ycells
    ]
    return [_Text(id, version_of(kind, source), unify(str(source))) for id, kind, source in cells]


def _sources(notebook: YNotebook) -> list[str]:
    return [text.source for text in _texts(notebook)]
