"""How far each client of a document has come: its state vector, and what that tells.

Format (version 1): https://github.com/yjs/yjs/blob/main/INTERNALS.md. An item has an id, client and
clock; those of one client are numbered without gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, TypeAlias

from pycrdt import Array, Assoc, Decoder, Doc, Text

Id: TypeAlias = tuple[int, int]
"""Of an item: client, clock. Each UTF-16 unit of a text is one."""


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


def item_at(array: Array[Any], index: int) -> Id:
    """The item at that index."""
    item = array.sticky_index(index, Assoc.AFTER).to_json()["item"]
    return item["client"], item["clock"]


def is_of_server(item: Id) -> bool:
    """Whether a document of pycrdt, not of a page, made it: Yjs has client ids of 32 bits, pycrdt
    of 53.
    """
    return item[0] >= 2**32


def units(text: str) -> int:
    """Its length as Yjs counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def ids(text: Text) -> list[Id]:
    """Of the first unit of each character of a live text. After letters beyond ASCII it may take
    one for its neighbour.
    """
    found: list[Id] = []
    chars = str(text)
    offsets = [0, *accumulate(len(char.encode()) for char in chars)]
    # yrs 0.25 counts from the start of a block on in bytes there: right at its start only.
    following: Id | None = None
    for start, end, told in _runs(text, offsets):
        client, clock = told
        if told == following:
            clock = found[-1][1] + units(chars[start - 1])
        for char in chars[start:end]:
            found.append((client, clock))
            clock += units(char)
        following = client, told[1] + offsets[end] - offsets[start]
    return found


def _runs(text: Text, offsets: list[int]) -> Iterator[tuple[int, int, Id]]:
    """Characters with consecutive clocks: start, end, and what is told of the first."""

    def told(place: int) -> Id:
        item = text.sticky_index(offsets[place], Assoc.AFTER).to_json()["item"]
        return item["client"], item["clock"]

    def runs(start: int, end: int) -> Iterator[tuple[int, int, Id]]:
        client, clock = first = told(start)
        middle = (start + end) // 2
        if all(
            told(place) == (client, clock + offsets[place] - offsets[start])
            for place in (end - 1, middle, (start + middle) // 2, (middle + end) // 2)
        ):
            yield start, end, first
        else:
            yield from runs(start, middle)
            yield from runs(middle, end)

    if len(offsets) > 1:
        yield from runs(0, len(offsets) - 1)
