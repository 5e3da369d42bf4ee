"""The content of a room's store: its present document, and its state at the last save."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict
from uuid import uuid4

from jupyter_ydoc import YNotebook
from jupyter_ydoc.ybasedoc import YBaseDoc
from pycrdt import Map

from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.values import as_shared
from jupyter_agent.plugs.rooms.room_shadow import Shadow, removal_in
from jupyter_agent.plugs.rooms.room_updates import clocks_in

OFFERS = "jupyter_agent_unsaved"
"""The name of the map in a room's document with the texts that pages offer to restore, each under a
key of its own.
"""

_SAVING = "jupyter_agent_saving"
"""The key of the document's state that identifies the save about to be made of its present content:
a digest of its state vector, and a unique id.
"""
_FILE = "jupyter_agent_file"
"""The key for the document's `_File`."""


class _File(TypedDict):
    """The file that a document last equalled or loaded."""

    save: str | None
    """The save that wrote it, or a similar event; None if the document had more content from the
    start.
    """
    outline: str | None
    """The outline of that file, in that case."""
    named: str | None
    """The document's hash at that time. A server without us changes the hash, or removes this whole
    record.
    """


@dataclass(frozen=True)
class StoredHistory:
    """The content of a room's store."""

    now: YNotebook
    saved: YNotebook | None
    """Its state when it last was saved or equalled its file; None if that is unknown: a store may
    forget its past.
    """
    is_sure: bool = False
    """Whether that state is exact; else it may have had more content than its file."""
    pending_save: YNotebook | None = None
    """Its state when a later save started; that may have been written or not."""
    outline: dict[str, Any] | None = None
    """The outline of the file that the document last loaded, alongside unsaved changes; None if it
    was saved since, or that is unknown.
    """
    shadow: Shadow | None = None
    """The shadow of the present document, if cells were removed lately."""


def begin_save(document: YBaseDoc) -> str:
    """Tell the store that the present content is about to be saved; returns the id of the save."""
    save = f"{_digest(document.ydoc.get_state())} {uuid4().hex}"
    document.ystate[_SAVING] = save
    return save


def end_save(document: YBaseDoc, save: str) -> None:
    """Tell the store that this save is done."""
    _record(document, _File(save=save, outline=None, named=None))


def mark_equal_to_file(document: YBaseDoc) -> None:
    """Tell the store that the document equals its file."""
    end_save(document, begin_save(document))


def mark_ahead_of_file(document: YBaseDoc, outline: Mapping[str, Any]) -> None:
    """Tell the store that the document has more content than its file, which has this outline."""
    packed = zlib.compress(json.dumps(outline, default=str).encode())
    _record(document, _File(save=None, outline=b64encode(packed).decode(), named=None))


@contextmanager
def with_file(document: YBaseDoc) -> Iterator[None]:
    """Preserves the record of the file while the content is set, which empties the state."""
    file: _File | None = document.ystate.get(_FILE)
    yield
    if file is not None:
        _record(document, file)


def _record(document: YBaseDoc, file: _File) -> None:
    document.ystate[_FILE] = {**file, "named": document.hash}


def _digest(state: bytes) -> str:
    clocks = repr(sorted(clocks_in(state).items()))  # the encoding has no fixed order
    return hashlib.sha256(clocks.encode()).hexdigest()[:16]


async def replay(rows: Sequence[tuple[bytes, bytes, float]]) -> StoredHistory:
    """Rebuild the history from all stored rows: updates, each with metadata and the time in
    seconds.

    Only those saves count before which exactly the content was stored that they wrote: a store may
    have squashed its history, have it in another order after the clock was set back, or contain
    changes of other servers.
    """
    now, updates = YNotebook(), [update for update, *_ in rows]
    removals, since = set[int](), time.time() - Timeouts.offline
    saves: dict[str, int] = {}
    save, file, is_dirty, removal = None, None, None, None
    began = known = clean = 0
    for number, update in enumerate(updates, 1):
        state, before = now.ydoc.get_state(), (save, file, is_dirty, removal)
        now.ydoc.apply_update(update)
        save, file = map(now.ystate.get, (_SAVING, _FILE))
        is_dirty, removal = bool(now.ystate.get("dirty")), removal_in(now)
        if save != before[0] and save is not None:
            began = number
            if save.startswith(_digest(state)):
                saves[save] = number
        if file != before[1]:
            known = number
        if is_dirty != before[2] and not is_dirty:
            clean = number
        if removal not in (None, before[3]) and rows[number - 1][2] > since:
            removals.add(number)
        if number % 100 == 0:
            await asyncio.sleep(0)
    shadow = await _shadow(updates, removals) if removals else None
    # The store may lack the end of one of our saves that started since.
    if file is None or (file["named"] != now.hash and began <= known):
        return StoredHistory(now, await _replay_updates(updates[:clean]), shadow=shadow)
    begun = next((at for at in reversed(saves.values()) if at > known), 0)
    saved = saves.get(file["save"] or "", 0)
    return StoredHistory(
        now,
        await _replay_updates(updates[:saved]),
        is_sure=saved > 0,
        pending_save=await _replay_updates(updates[:begun]),
        outline=None if file["outline"] is None else _unpack(file["outline"]),
        shadow=shadow,
    )


async def _shadow(updates: Sequence[bytes], removals: Collection[int]) -> Shadow:
    first = min(removals)
    document = await _replay_updates(updates[: first - 1]) or YNotebook()
    shadow = Shadow(document)
    for number, update in enumerate(updates[first - 1 :], first):
        if number in removals:
            shadow.expect_removal()
        document.ydoc.apply_update(update)
    shadow.close()
    shadow.commit()
    return shadow


async def _replay_updates(updates: Sequence[bytes]) -> YNotebook | None:
    document = YNotebook()
    for number, update in enumerate(updates):
        document.ydoc.apply_update(update)
        if number % 100 == 0:
            await asyncio.sleep(0)
    return document if updates else None


def _unpack(outline: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(zlib.decompress(b64decode(outline)))
    return content


def offer(document: YNotebook, offers: Sequence[Mapping[str, Any]]) -> None:
    """Have the pages of a room offer these too, until someone there has decided."""
    pages: Map[Any] = document.ydoc.get(OFFERS, type=Map)
    with document.ydoc.transaction():
        for key, older in (pages.to_py() or {}).items():
            if any(_replaces(offer, older) for offer in offers):
                del pages[key]
        pages.update({uuid4().hex: as_shared(offer) for offer in offers})


def _replaces(offer: Mapping[str, Any], older: Mapping[str, Any]) -> bool:
    """Whether both have the same text, or belong to the same cell of a file, whose present text
    counts.
    """
    cell, other, cause = offer["cell"], older["cell"], offer.get("cause")
    return (cause, cell["id"]) == (older.get("cause"), other["id"]) and (
        cause == "file" or cell["source"] == other["source"]
    )
