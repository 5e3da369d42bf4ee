"""Yjs updates: those of a document, and the items that one brings and deletes.

Format (version 1): https://github.com/yjs/yjs/blob/main/INTERNALS.md, and `UpdateEncoderV1` there.
An item has an id, client and clock; those of one client are numbered without gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pycrdt import Decoder, Doc, write_var_uint

from jupyter_agent.document.insertions import read_ranges

Ranges: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]
"""Ids of items: client -> (first clock, clock after the last); the ranges of a client are sorted
and disjoint.
"""

_GC, _SKIP = 0, 10
_DELETED, _JSON, _BINARY, _STRING, _EMBED, _FORMAT, _TYPE, _ANY = range(1, 9)
_NAMED = (3, 5)
"""Shared types that have a name: elements and hooks of XML."""
_SIZES = {127: 0, 126: 0, 124: 4, 123: 8, 122: 8, 121: 0, 120: 0}
"""Sizes in bytes of plain values after their type byte."""


@contextmanager
def changes_in(document: Doc[Any]) -> Iterator[list[bytes]]:
    """The updates made in the document from now on."""
    changes: list[bytes] = []
    subscription = document.observe(lambda event: changes.append(event.update))
    try:
        yield changes
    finally:
        document.unobserve(subscription)


def document_of(update: bytes) -> Doc[Any]:
    """A document with the content of an update."""
    document: Doc[Any] = Doc()
    document.apply_update(update)
    return document


@dataclass(frozen=True)
class RoomUpdate:
    """A parsed update."""

    items: bytes
    """The encoded items."""
    brings: Ranges
    deletes: Ranges

    @classmethod
    def read(cls, update: bytes) -> RoomUpdate:
        """Raises ValueError if it is not an update of version 1."""
        reader = _Reader(update)
        try:
            brings = reader.items()
            at = reader.at
            deletes = reader.ranges()
        except IndexError:
            raise ValueError("The update ends too early.") from None
        return cls(update[:at], brings, deletes)

    @property
    def dead_on_arrival(self) -> Ranges:
        """Items that it brings and deletes."""
        return _difference(self.deletes, _difference(self.deletes, self.brings))

    def drop_deletions(self, deletions: Ranges) -> RoomUpdate:
        """The same update, but without these deletions."""
        return replace(self, deletes=_difference(self.deletes, deletions))

    def encode(self) -> bytes:
        numbers = [len(self.deletes)]
        for client, ranges in self.deletes.items():
            numbers += [client, len(ranges)]
            for start, end in ranges:
                numbers += [start, end - start]
        return self.items + b"".join(map(write_var_uint, numbers))


def clocks_in(state: bytes) -> dict[int, int]:
    """A decoded state vector: for each client, the clock up to which its items are here."""
    decoder = Decoder(state)
    return {
        decoder.read_var_uint(): decoder.read_var_uint() for _ in range(decoder.read_var_uint())
    }


def deletes_nothing(update: bytes) -> bool:
    """The last byte shows it: a number of deletions, or a length, which is never zero."""
    return update.endswith(b"\0")


def brings_nothing(update: bytes) -> bool:
    """The first byte shows it: the number of clients that it has items of."""
    return update.startswith(b"\0")


def union(one: Ranges, other: Ranges) -> Ranges:
    return {
        client: _join([*one.get(client, ()), *other.get(client, ())])
        for client in one.keys() | other.keys()
    }


def _join(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            start, last = joined.pop()
            end = max(end, last)
        joined.append((start, end))
    return joined


def _difference(ranges: Ranges, spared: Ranges) -> Ranges:
    left = {client: list(_subtract(own, spared.get(client, ()))) for client, own in ranges.items()}
    return {client: own for client, own in left.items() if own}


def _subtract(
    ranges: Sequence[tuple[int, int]], spared: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    first = 0
    for start, end in sorted(ranges):
        while first < len(spared) and spared[first][1] <= start:
            first += 1
        for at in range(first, len(spared)):
            gap, after = spared[at]
            if gap >= end:
                break
            if start < gap:
                yield start, gap
            start = after
        if start < end:
            yield start, end


class _Reader:
    """Reads through encoded bytes. Raises IndexError at their end."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data

    def number(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def ranges(self) -> Ranges:
        by_client = read_ranges(self.number)
        return {client: _join(ranges) for client, ranges in by_client.items()}

    def items(self) -> Ranges:
        by_client = {}
        for _ in range(self.number()):
            count, client, start = self.number(), self.number(), self.number()
            end = start
            for _ in range(count):
                end += self._item()
            by_client[client] = [(start, end)]
        return by_client

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _text(self) -> bytes:
        size = self.number()
        self.at += size
        return self._data[self.at - size : self.at]

    def _item(self) -> int:
        """Skip an item; returns its length in clocks."""
        info = self._byte()
        content = info & 0x1F
        if content in (_GC, _SKIP):
            return self.number()
        for side in (0x80, 0x40):  # its left and right neighbours
            if info & side:
                self.number(), self.number()
        if not info & 0xC0:
            if self.number() == 1:
                self._text()  # the name of its root type
            else:
                self.number(), self.number()
            if info & 0x20:
                self._text()  # its key there
        return self._content(content)

    def _content(self, kind: int) -> int:
        if kind in (_DELETED, _JSON, _ANY):
            length = self.number()
            for _ in range(length):
                if kind != _DELETED:
                    self._text() if kind == _JSON else self._value()
            return length
        if kind == _STRING:  # counted in UTF-16 code units
            return len(self._text().decode("utf-8", "surrogatepass").encode("utf-16-le")) // 2
        if kind in (_BINARY, _EMBED):
            self._text()
        elif kind == _FORMAT:
            self._text(), self._text()
        elif kind == _TYPE:
            shared = self.number()
            if shared in _NAMED:
                self._text()
            elif shared > 6:
                raise ValueError(f"The update has a shared type of an unknown kind: {shared}.")
        else:
            raise ValueError(f"The update has an item of an unknown kind: {kind}.")
        return 1

    def _value(self) -> None:
        """Skip a value of lib0's `writeAny`."""
        kind = self._byte()
        if kind in _SIZES:
            self.at += _SIZES[kind]
        elif kind == 125:
            self.number()
        elif kind in (119, 116):  # text, bytes
            self._text()
        elif kind == 118:
            for _ in range(self.number()):
                self._text()
                self._value()
        elif kind == 117:
            for _ in range(self.number()):
                self._value()
        else:
            raise ValueError(f"The update has a value of an unknown kind: {kind}.")
