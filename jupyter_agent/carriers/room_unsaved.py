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
from typing import Any, NamedTuple

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
    def harmless(path: str) -> Iterator[None]:
        try:
            yield
        except Exception:  # whatever a store or a manager raises must not keep people out
            log.exception("What was typed in the room of %s and not saved is not kept", path)

    @asynccontextmanager
    async def keeping(room: Room) -> AsyncIterator[None]:
        stored = None
        with harmless(room.path):
            stored = await room.stored()
        yield
        if stored is not None and stored.dirty:
            with harmless(room.path):
                if unsaved := _unsaved(stored, room.document):
                    await room.offer(unsaved)
                    content = await stored.aget()
                    await keep(room.path, json.dumps(content, ensure_ascii=False))

    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.around_filling(keeping)


def _unsaved(stored: YNotebook, filled: YNotebook) -> list[dict[str, Any]]:
    """Each cell of the store whose text is not in the file, as nbformat 4.5 has it, without its
    outputs, under the id that it has now. `base` is what it says in the file; None if it is not
    there, then `above` are the cells that it was below, the nearest first.
    """
    former, now = _texts(stored), _texts(filled)
    texts = {cell.id: cell.source for cell in now}
    ids: dict[int, str] = {}
    if not any(cell.id in texts for cell in former):  # the file keeps none
        versions = [[cell.version for cell in cells] for cells in (former, now)]
        ids = {pair.former: now[pair.now].id for pair in paired(*versions)}
    unsaved: list[dict[str, Any]] = []
    above: list[str] = []
    for index, cell in enumerate(former):
        cell_id = ids.get(index, cell.id)
        base = texts.get(cell_id)
        if cell.source.strip() and cell.source != base:
            state = snapshot(index, stored.ycells[index].to_py()).state()
            value = nbformat_cell(cell_id, replace(state, outputs=(), execution_count=None))
            unsaved.append(as_shared({**value, "base": base, "above": above}))
        above = [cell_id] if base is not None else [cell_id, *above]
    return unsaved


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
