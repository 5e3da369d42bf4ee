"""What the store of a room has: its document by now, and as it was when it was saved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict
from uuid import uuid4

from jupyter_ydoc import YNotebook
from jupyter_ydoc.ybasedoc import YBaseDoc
from pycrdt import Map

from jupyter_agent.document.crdt import as_shared

OFFERS = "jupyter_agent_unsaved"
"""The name of the map in a room's document with what pages offer to put back, each under a key of
its own.
"""

_SAVING = "jupyter_agent_saving"
"""The key of the document's state that is another before each save: what it says then is written.
"""
_FILE = "jupyter_agent_file"
"""The key with the `File` that the document was, or took in, last."""


class File(TypedDict):
    """A file that the document has."""

    hash: str | None
    """Its own; None if it is not known."""
    save: str | None
    """The save after which the document was the file; None if it has more from the first."""
    ids: list[str]
    """Then, those that the file's cells have in the document."""
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
    file: File | None = None
    """The one that it has, perhaps with more; None if that is not known."""

    @property
    def offers(self) -> list[Mapping[str, Any]]:
        """What its pages offer already."""
        offers: Map[Any] = self.now.ydoc.get(OFFERS, type=Map)
        return list((offers.to_py() or {}).values())


def begin_save(document: YBaseDoc) -> str:
    """Have the store know that what the document says now is about to be saved; as which save."""
    save = uuid4().hex
    document.ystate[_SAVING] = save
    return save


def end_save(document: YBaseDoc, save: str, file: str | None) -> None:
    """Have the store know that it was, as the file with this hash."""
    _know(document, File(hash=file, save=save, ids=[], named=None))


def equals_file(document: YBaseDoc, file: str | None) -> None:
    """Have the store know that the document says what the file with this hash does."""
    with document.ydoc.transaction():
        end_save(document, begin_save(document), file)


def exceeds_file(document: YBaseDoc, file: str | None, ids: Iterable[str]) -> None:
    """Have the store know that the document has what is in the file, in cells with these ids, and
    more.
    """
    _know(document, File(hash=file, save=None, ids=list(ids), named=None))


@contextmanager
def with_file(document: YBaseDoc) -> Iterator[None]:
    """What is known of the file stays where the content is set in here, which empties the state."""
    file: File | None = document.ystate.get(_FILE)
    yield
    if file is not None:
        _know(document, file)


def _know(document: YBaseDoc, file: File) -> None:
    document.ystate[_FILE] = File(**{**file, "named": document.hash})


async def replayed(updates: Sequence[bytes]) -> Stored:
    """From all that was stored, in its order."""
    now = YNotebook()
    begun: dict[Any, int] = {}
    is_dirty: bool | None = None
    clean = 0
    for number, update in enumerate(updates, 1):
        now.ydoc.apply_update(update)
        if number > 1:  # the first may be all that was before
            begun.setdefault(now.ystate.get(_SAVING), number)
        was_dirty, is_dirty = is_dirty, bool(now.ystate.get("dirty"))
        if was_dirty != is_dirty and not is_dirty:
            clean = number
        if number % 100 == 0:
            await asyncio.sleep(0)
    file: File | None = now.ystate.get(_FILE)
    if file is not None and file["named"] != now.hash:
        file = None
    save = None if file is None else file["save"]
    is_sure = save is not None and save in begun
    saved = begun[save] if is_sure else clean
    then: YNotebook | None = None
    if saved:
        then = YNotebook()
        for update in updates[:saved]:
            then.ydoc.apply_update(update)
    return Stored(now, then, is_sure, file)


def offer(document: YNotebook, offers: Sequence[Mapping[str, Any]]) -> None:
    """Have the pages of a room offer these, too, until somebody there has decided."""
    pages: Map[Any] = document.ydoc.get(OFFERS, type=Map)
    with document.ydoc.transaction():
        for key, older in (pages.to_py() or {}).items():
            if any(_is_newer(offer, older) for offer in offers):
                del pages[key]
        pages.update({uuid4().hex: as_shared(offer) for offer in offers})


def _is_newer(offer: Mapping[str, Any], older: Mapping[str, Any]) -> bool:
    """Whether both are of the same cell of a file: what it says by now counts."""
    return (
        offer.get("cause") == older.get("cause") == "file"
        and offer["cell"]["id"] == older["cell"]["id"]
    )
