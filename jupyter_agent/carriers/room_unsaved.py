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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from jupyter_ydoc import YNotebook
from pycrdt import Map

from jupyter_agent.carriers.ydoc import Room, collaboration
from jupyter_agent.document.crdt import as_shared, nbformat_cell, snapshot
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
        if stored is None or not stored.dirty:
            return
        with harmless("offered", room.path):
            await room.offer(_offers(stored, room))
        with harmless("kept", room.path):
            if _texts(stored) != _texts(room.document):
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
    now = _texts(room.document)
    offers: dict[str, Mapping[str, Any]] = {}
    above: list[str] = []
    for index, shared in enumerate(stored.ycells):
        base = now.get(shared["id"])
        if _text(shared).strip() and _text(shared) != base:
            cell = snapshot(index, shared.to_py())
            state = replace(cell.state(), outputs=(), execution_count=None)
            offer = {"cell": nbformat_cell(cell.id, state), "base": base, "above": above}
            offers[uuid4().hex] = as_shared(offer)
        above = [shared["id"]] if base is not None else [shared["id"], *above]
    return offers


def _texts(notebook: YNotebook) -> dict[str, str]:
    """What the cells say, by their ids."""
    return {cell.get("id", ""): _text(cell) for cell in notebook.ycells}


def _text(cell: Map[Any]) -> str:
    """What the cell says; nothing where a file has one without a text, as Jupyter writes none."""
    return unify(str(cell.get("source", "")))
