"""Finds what an edit wrote by the items of the document: the text alone cannot tell our "x = 1"
from one that someone typed next to it.

Format (version 1): https://github.com/yjs/yjs/blob/main/INTERNALS.md. An item has an id, made of a
client and a clock; the items of one client are numbered without gaps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pycrdt import Assoc, Decoder, Doc, Text

from jupyter_agent.document.cell import Change
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.merge import text_operations


def clocks(state: bytes) -> dict[int, int]:
    """A state vector: client -> the clock after its last item."""
    decoder = Decoder(state)
    return {
        decoder.read_var_uint(): decoder.read_var_uint() for _ in range(decoder.read_var_uint())
    }


def deletions(doc: Doc[Any]) -> dict[int, list[tuple[int, int]]] | None:
    """The deleted items: client -> (first clock, clock after the last). None if the document
    still lacks items that it needs: nothing is certain then.
    """
    # Even an update without new items contains all deletions.
    decoder = Decoder(doc.get_update(doc.get_state()))
    if decoder.read_var_uint():
        return None
    return read_ranges(decoder.read_var_uint)


def read_ranges(number: Callable[[], int]) -> dict[int, list[tuple[int, int]]]:
    """The ranges of an encoded delete set, as `deletions` has them; `number` reads the next one."""
    found: dict[int, list[tuple[int, int]]] = {}
    for _ in range(number()):
        ranges = found.setdefault(number(), [])
        for _ in range(number()):
            start = number()
            ranges.append((start, start + number()))
    return found


class Mark:
    """A point in a document's history, to test whether a replica has reached it."""

    def __init__(self, doc: Doc[Any]) -> None:
        self._clocks = clocks(doc.get_state())

    def is_in(self, doc: Doc[Any]) -> bool:
        """Exact for our own transactions: each of them, even one that only deletes, also marks the
        document as dirty. For those of a page it means a later state of that page's document.
        """
        has = clocks(doc.get_state())
        return all(has.get(client, 0) >= clock for client, clock in self._clocks.items())


@dataclass(frozen=True)
class _Piece:
    """The items of one inserted text."""

    client: int
    start: int
    end: int


class Insertions:
    """The texts that changes inserted, recorded right after the changes."""

    def __init__(self, cells: SharedCells, changes: Sequence[Change]) -> None:
        self._pieces = {
            change.cell_id: list(_pieces(cells.live_cell(change.cell_id)["source"], change))
            for change in changes
            if change.before is not None
            and change.after is not None
            and change.cell_id in cells.ids()
        }

    def intact(self, cells: SharedCells) -> set[str]:
        """The ids of the cells in which everything inserted still exists, whatever surrounds it
        now: not of those in which nothing was inserted, or that a copy has replaced since.
        """
        doc = cells.document.ydoc
        has, deleted = clocks(doc.get_state()), deletions(doc)
        if deleted is None:
            return set()
        ranges = {client: sorted(each) for client, each in deleted.items()}

        def exists(piece: _Piece) -> bool:
            gone = ranges.get(piece.client, [])
            last = bisect_left(gone, (piece.end,)) - 1  # of the ranges that start before its end
            is_whole = last < 0 or gone[last][1] <= piece.start
            return is_whole and has.get(piece.client, 0) >= piece.end

        every = self._pieces.items()
        return {cell_id for cell_id, pieces in every if pieces and all(map(exists, pieces))}


def _pieces(source: Text, change: Change) -> Iterator[_Piece]:
    assert change.before is not None
    assert change.after is not None
    after = change.after.source
    if str(source) != after:
        return
    grown = 0
    for start, end, text in reversed(
        list(text_operations(change.before.source, after, change.within))
    ):
        if text:
            # Exact only at the start of a block (pycrdt counts bytes in it, Yjs letters). Ours is
            # one: each transaction ends with another item, "dirty", so no text is joined to it.
            place = len(after[: start + grown].encode())
            first = source.sticky_index(place, Assoc.AFTER).to_json()["item"]
            length = len(text.encode("utf-16-le", "surrogatepass")) // 2  # as Yjs counts
            yield _Piece(first["client"], first["clock"], first["clock"] + length)
        grown += len(text) - (end - start)
