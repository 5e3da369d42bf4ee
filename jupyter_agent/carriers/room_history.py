"""What the store of a room has: its document by now, and as it was when it was saved."""

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

from jupyter_agent.carriers.room_shadow import Shadow, removal_in
from jupyter_agent.carriers.room_updates import clocks_in
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.crdt import as_shared

OFFERS = "jupyter_agent_unsaved"
"""The name of the map in a room's document with what pages offer to put back, each under a key of
its own.
"""

_SAVING = "jupyter_agent_saving"
"""The key of the document's state that names the save that is about to be made, of what it says
then: a digest of its state vector, and what no other save has.
"""
_FILE = "jupyter_agent_file"
"""The key with the `_File` that the document has."""


class _File(TypedDict):
    """The file that a document was, or took in, last."""

    save: str | None
    """The save that wrote it, or the like; None if the document had more from the first."""
    outline: str | None
    """Then, its outline."""
    named: str | None
    """The hash that the document named then. A server without us changes it, or takes all of this
    away.
    """


@dataclass(frozen=True)
class Stored:
    """What the store of a room has."""

    now: YNotebook
    saved: YNotebook | None
    """As it was when it was saved, or was its file, the last time; None if that is not known: a
    store may forget what was before.
    """
    is_sure: bool = False
    """Whether it was just so; else it may have had more then than its file."""
    begun: YNotebook | None = None
    """As it was when a save began after that; it may have been written, or not."""
    outline: dict[str, Any] | None = None
    """Of the file that the document took in last, beside what was not saved; None if it was saved
    since, or that is not known.
    """
    shadow: Shadow | None = None
    """Of the document by now, if cells were taken away lately."""


def begin_save(document: YBaseDoc) -> str:
    """Have the store know that what the document says now is about to be saved; as which save."""
    save = f"{_digest(document.ydoc.get_state())} {uuid4().hex}"
    document.ystate[_SAVING] = save
    return save


def end_save(document: YBaseDoc, save: str) -> None:
    """Have the store know that it was."""
    _know(document, _File(save=save, outline=None, named=None))


def equals_file(document: YBaseDoc) -> None:
    """Have the store know that the document says what its file does."""
    end_save(document, begin_save(document))


def exceeds_file(document: YBaseDoc, outline: Mapping[str, Any]) -> None:
    """Have the store know that the document has more than its file, which has this outline."""
    packed = zlib.compress(json.dumps(outline, default=str).encode())
    _know(document, _File(save=None, outline=b64encode(packed).decode(), named=None))


@contextmanager
def with_file(document: YBaseDoc) -> Iterator[None]:
    """What is known of the file stays where the content is set in here, which empties the state."""
    file: _File | None = document.ystate.get(_FILE)
    yield
    if file is not None:
        _know(document, file)


def _know(document: YBaseDoc, file: _File) -> None:
    document.ystate[_FILE] = {**file, "named": document.hash}


def _digest(state: bytes) -> str:
    clocks = repr(sorted(clocks_in(state).items()))  # encoded in any order
    return hashlib.sha256(clocks.encode()).hexdigest()[:16]


async def replayed(rows: Sequence[tuple[bytes, bytes, float]]) -> Stored:
    """From all that was stored: updates, each with metadata and the time in seconds.

    Of the saves only those count before which just that was stored which they wrote: a store may
    have squashed its history, have it in another order, after the clock was set back, or have what
    other servers did.
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
    # Of a save of ours that began since, the store may not have been told the end.
    if file is None or (file["named"] != now.hash and began <= known):
        return Stored(now, await _replayed(updates[:clean]), shadow=shadow)
    begun = next((at for at in reversed(saves.values()) if at > known), 0)
    saved = saves.get(file["save"] or "", 0)
    return Stored(
        now,
        await _replayed(updates[:saved]),
        is_sure=saved > 0,
        begun=await _replayed(updates[:begun]),
        outline=None if file["outline"] is None else _unpacked(file["outline"]),
        shadow=shadow,
    )


async def _shadow(updates: Sequence[bytes], removals: Collection[int]) -> Shadow:
    first = min(removals)
    document = await _replayed(updates[: first - 1]) or YNotebook()
    shadow = Shadow(document)
    for number, update in enumerate(updates[first - 1 :], first):
        if number in removals:
            shadow.expect_removal()
        document.ydoc.apply_update(update)
    shadow.close()
    shadow.commit()
    return shadow


async def _replayed(updates: Sequence[bytes]) -> YNotebook | None:
    document = YNotebook()
    for number, update in enumerate(updates):
        document.ydoc.apply_update(update)
        if number % 100 == 0:
            await asyncio.sleep(0)
    return document if updates else None


def _unpacked(outline: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(zlib.decompress(b64decode(outline)))
    return content


def offer(document: YNotebook, offers: Sequence[Mapping[str, Any]]) -> None:
    """Have the pages of a room offer these, too, until somebody there has decided."""
    pages: Map[Any] = document.ydoc.get(OFFERS, type=Map)
    with document.ydoc.transaction():
        for key, older in (pages.to_py() or {}).items():
            if any(_replaces(offer, older) for offer in offers):
                del pages[key]
        pages.update({uuid4().hex: as_shared(offer) for offer in offers})


def _replaces(offer: Mapping[str, Any], older: Mapping[str, Any]) -> bool:
    """Whether both say the same, or are of the same cell of a file: what it says by now counts."""
    cell, other, cause = offer["cell"], older["cell"], offer.get("cause")
    return (cause, cell["id"]) == (older.get("cause"), other["id"]) and (
        cause == "file" or cell["source"] == other["source"]
    )
