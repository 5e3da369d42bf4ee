"""What the store of a room has: its document by now, and as it was when it was saved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Map

from jupyter_agent.carriers.room_file import TAKEN_IN

OFFERS = "jupyter_agent_unsaved"
"""The name of the map in a room's document with what pages offer to put back, each under a key of
its own.
"""


@dataclass(frozen=True)
class Stored:
    """What the store of a room has."""

    now: YNotebook
    saved: YNotebook | None
    """As it was when it was saved, or took in its file, the last time; None if that is not known:
    a store may forget what was before.
    """

    @property
    def offers(self) -> list[Mapping[str, Any]]:
        """What its pages offer already."""
        offers: Map[Any] = self.now.ydoc.get(OFFERS, type=Map)
        return list((offers.to_py() or {}).values())


async def replayed(updates: Sequence[bytes]) -> Stored:
    """From all that was stored, in its order."""
    now = YNotebook()
    saved = 0
    before: tuple[bool, Any] | None = None
    for index, update in enumerate(updates):
        now.ydoc.apply_update(update)
        dirty, taken_in = bool(now.ystate.get("dirty")), now.ystate.get(TAKEN_IN)
        if before is None or (dirty, taken_in) != before:
            if not dirty or (before is not None and taken_in != before[1]):
                saved = index + 1
            before = dirty, taken_in
        if index % 100 == 0:
            await asyncio.sleep(0)
    if saved in (0, len(updates)):
        return Stored(now, now if saved else None)
    then = YNotebook()
    for update in updates[:saved]:
        then.ydoc.apply_update(update)
    return Stored(now, then)
