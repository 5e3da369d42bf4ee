"""How far each client of a document has come: its state vector, and what that tells.

Format (version 1): https://github.com/yjs/yjs/blob/main/INTERNALS.md. An item has an id, client and
clock; those of one client are numbered without gaps.
"""

from __future__ import annotations

from typing import Any

from pycrdt import Decoder, Doc


def clocks(state: bytes) -> dict[int, int]:
    """A state vector: client -> the clock after its last item."""
    decoder = Decoder(state)
    return {
        decoder.read_var_uint(): decoder.read_var_uint() for _ in range(decoder.read_var_uint())
    }


def deletions(doc: Doc[Any]) -> dict[int, list[tuple[int, int]]] | None:
    """The items that are deleted: client -> (first clock, clock after the last). None while the
    document waits for items that it needs to go on: then nothing is sure.
    """
    # An update that brings nothing new still has all deletions.
    decoder = Decoder(doc.get_update(doc.get_state()))
    if decoder.read_var_uint():
        return None
    found: dict[int, list[tuple[int, int]]] = {}
    for _ in range(decoder.read_var_uint()):
        ranges = found.setdefault(decoder.read_var_uint(), [])
        for _ in range(decoder.read_var_uint()):
            start = decoder.read_var_uint()
            ranges.append((start, start + decoder.read_var_uint()))
    return found


class Mark:
    """How far a document has come, to find what was done in it in another replica."""

    def __init__(self, doc: Doc[Any]) -> None:
        self._clocks = clocks(doc.get_state())

    def is_in(self, doc: Doc[Any]) -> bool:
        """Exact for our own transactions: each, even one that only deletes, also marks the document
        as dirty. For those of a page: it is a later state of that page's document.
        """
        has = clocks(doc.get_state())
        return all(has.get(client, 0) >= clock for client, clock in self._clocks.items())
