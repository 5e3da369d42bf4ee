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
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any

from jupyter_ydoc import YNotebook

from jupyter_agent.carriers.room_file import identified
from jupyter_agent.carriers.ydoc import Room, Stored, collaboration
from jupyter_agent.document.crdt import nbformat_cell, snapshot
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
            if stored is not None and _differs(stored):
                file = await room.file()
                unsaved = _unsaved(stored, identified(stored.now, file["cells"]))
                with harmless("offered", room.path):
                    room.offer(_new(unsaved, stored.offers))
                if unsaved:
                    content = await stored.now.aget()
                    await keep(room.path, json.dumps(content, ensure_ascii=False))
        yield
        if stored is not None:
            with harmless("kept", room.path):
                await room.store_since(stored)

    with suppress(Busy):  # rooms that we cannot work in
        rooms = collaboration(settings)
        if rooms is not None:
            rooms.around_filling(keeping)


def _differs(stored: Stored) -> bool:
    """Whether a store may have what came after the last save: else its file need not be read."""
    return stored.saved is None or _texts(stored.now) != _texts(stored.saved)


def _unsaved(stored: Stored, file: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each cell of a store with a text that came after the last save and is not in the file: the
    `cell` as nbformat 4.5 has it, without its outputs; `base`, its text at that save, None if it is
    newer; `above`, the cell right above it and the nearest one above that the file has.
    """
    there = {cell.get("id", ""): _text(cell) for cell in file}
    saved = there if stored.saved is None else dict(_texts(stored.saved))
    unsaved: list[dict[str, Any]] = []
    above: list[str] = []
    for index, shared in enumerate(stored.now.ycells):
        text, cell_id = _text(shared), shared["id"]
        base = saved.get(cell_id)
        if text.strip() and text not in (base, there.get(cell_id)):
            state = snapshot(index, shared.to_py()).state()
            cell = nbformat_cell(cell_id, replace(state, outputs=(), execution_count=None))
            unsaved.append({"cell": cell, "base": base, "above": above})
        above = [cell_id] if cell_id in there else [cell_id, *above[-1:]]
    return unsaved


def _new(
    unsaved: Iterable[Mapping[str, Any]], offers: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Those that are not among the offers."""
    known = {(offer["cell"]["id"], offer["cell"]["source"]) for offer in offers}
    return [one for one in unsaved if (one["cell"]["id"], one["cell"]["source"]) not in known]


def _texts(notebook: YNotebook) -> list[tuple[str, str]]:
    """The id of each cell, and what it says."""
    return [(cell.get("id", ""), _text(cell)) for cell in notebook.ycells]


def _text(cell: Any) -> str:
    """What the cell says; nothing where a file has one without a text, as Jupyter writes none."""
    return unify(str(cell.get("source", "")))
