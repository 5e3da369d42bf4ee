"""Decodes PNG pixels and makes thumbnails for comparing pictures.

Without a library: the format only needs zlib, and servers may have nothing else.
https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

SIDE = 32
"""Fields of a thumbnail per direction."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour type -> values per pixel."""
_MOST_BYTES = 50_000_000
"""Bytes of pixels. More would take half a minute."""


@dataclass(frozen=True)
class Png:
    """A picture whose pixels are not decoded yet."""

    width: int
    height: int
    depth: int
    colour: int
    palette: bytes
    alpha: bytes
    rows: bytes
    """Rows with their filter bytes, as the format stores them."""

    @cached_property
    def thumbnail(self) -> Sequence[bytes]:
        """Mean red, green, blue and alpha of each field, row by row."""
        sums = [[0] * SIDE for _ in range(4 * SIDE)]
        columns = [place * self.width // SIDE for place in range(SIDE + 1)]
        spans = [
            (start, max(stop, start + 1)) for start, stop in zip(columns, columns[1:], strict=False)
        ]
        lines = [0] * SIDE
        for y, row in enumerate(self._unfilter_rows()):
            field = y * SIDE // self.height
            lines[field] += 1
            for number, channel in enumerate(self._channels(row)):
                into = sums[4 * field + number]
                for place, (start, stop) in enumerate(spans):
                    into[place] += sum(channel[start:stop]) // (stop - start)
        means = (
            bytes(value // (lines[number // 4] or 1) for value in line)
            for number, line in enumerate(sums)
        )
        return list(means)

    def _channels(self, row: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        """Red, green, blue and alpha of a row's pixels."""
        opaque = b"\xff" * self.width
        if self.colour == 3:
            tables = (self.palette[0::3], self.palette[1::3], self.palette[2::3])
            red, green, blue = (row.translate(table.ljust(256, b"\0")) for table in tables)
            return red, green, blue, row.translate(self.alpha.ljust(256, b"\xff"))
        count = _CHANNELS[self.colour]
        if count < 3:
            grey = row[0::count]
            return grey, grey, grey, row[1::2] if count == 2 else opaque
        return row[0::count], row[1::count], row[2::count], row[3::4] if count == 4 else opaque

    def _unfilter_rows(self) -> Iterator[bytes]:
        """The rows with a byte per value."""
        bits = _CHANNELS[self.colour] * self.depth
        step, stride = max(1, bits // 8), (self.width * bits + 7) // 8
        above = bytes(stride)
        for start in range(0, len(self.rows), stride + 1):
            line = self.rows[start + 1 : start + 1 + stride]
            above = _unfilter(self.rows[start], line, above, step)
            yield self._spread(above)

    def _spread(self, row: bytes) -> bytes:
        if self.depth == 16:
            return row[0::2]
        if self.depth == 8:
            return row
        most = (1 << self.depth) - 1
        scale = 1 if self.colour == 3 else 255 // most
        shifts = range(8 - self.depth, -1, -self.depth)
        values = bytes((byte >> shift & most) * scale for byte in row for shift in shifts)
        return values[: self.width]


def png(value: str) -> Png | None:
    """The picture in this base64; None for a broken, interlaced or too large one."""
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
    except binascii.Error:
        return None
    chunks = _chunks(data) if data.startswith(_SIGNATURE) else {}
    header = chunks.get(b"IHDR", b"")
    if len(header) != 13:
        return None
    width, height = int.from_bytes(header[:4]), int.from_bytes(header[4:8])
    depth, colour, interlaced = header[8], header[9], header[12]
    if not width or not height or interlaced or colour not in _CHANNELS:
        return None
    if depth not in (1, 2, 4, 8, 16):
        return None
    size = height * (1 + (width * _CHANNELS[colour] * depth + 7) // 8)
    if size > _MOST_BYTES:
        return None
    try:
        rows = zlib.decompressobj().decompress(chunks.get(b"IDAT", b""), size)
    except zlib.error:
        return None
    if len(rows) != size:
        return None
    palette, alpha = chunks.get(b"PLTE", b""), chunks.get(b"tRNS", b"")
    return Png(width, height, depth, colour, palette, alpha if colour == 3 else b"", rows)


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """The chunks by name, those of the same name joined."""
    found: dict[bytes, list[bytes]] = {}
    place = len(_SIGNATURE)
    while place + 12 <= len(data):
        length, name = int.from_bytes(data[place : place + 4]), data[place + 4 : place + 8]
        found.setdefault(name, []).append(data[place + 8 : place + 8 + length])
        place += 12 + length
    return {name: b"".join(parts) for name, parts in found.items()}


def _unfilter(kind: int, line: bytes, above: bytes, step: int) -> bytes:
    """Undo the filter of a row, from its neighbours to the left and above."""
    if kind == 1:
        done = bytearray(line)
        for channel in range(step):
            done[channel::step] = bytes(value & 255 for value in accumulate(line[channel::step]))
        return bytes(done)
    if kind == 2:
        return bytes((value + up) & 255 for value, up in zip(line, above, strict=True))
    if kind == 3:
        done = bytearray(line)
        for place, up in enumerate(above):
            left = done[place - step] if place >= step else 0
            done[place] = (done[place] + (left + up) // 2) & 255
        return bytes(done)
    return _paeth(line, above, step) if kind == 4 else line


def _paeth(line: bytes, above: bytes, step: int) -> bytes:
    done = bytearray(line)
    for channel in range(step):
        left = corner = 0
        for place in range(channel, len(line), step):
            up = above[place]
            to_left, to_up = abs(up - corner), abs(left - corner)
            to_corner = abs(left + up - 2 * corner)
            if to_left <= to_up and to_left <= to_corner:
                guess = left
            else:
                guess = up if to_up <= to_corner else corner
            left = done[place] = (line[place] + guess) & 255
            corner = up
    return bytes(done)
