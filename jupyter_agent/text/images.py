"""Pictures for models: how large they are, and made small enough to be looked at."""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jupyter_agent.legible import quoted

Picture: TypeAlias = tuple[str, str]
"""(media type, base64)"""
KINDS = ("image/png", "image/jpeg")
"""What models can look at."""
SIDE = 1568
"""Pixels of the longer side that models see at most; what is larger only costs more.

https://docs.claude.com/en/docs/build-with-claude/vision
"""
_CHARACTERS = 5_000_000
"""Of one picture in base64: what the API takes."""
_MOST_PIXELS = 50_000_000
"""A picture with more would take a lot of memory to be made smaller."""
_SVG = re.compile(r"<svg\b[^>]*")
_LENGTH = {side: re.compile(rf"\s{side}\s*=\s*['\"]([\d.]+)") for side in ("width", "height")}
_HEADER_BYTES = 65_536
"""Where a picture tells its size, at the latest."""


_PNG = b"\x89PNG\r\n\x1a\n"
_SHOWN_CHUNKS = frozenset(
    (
        *(b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT"),
        *(b"sRGB", b"cICP", b"bKGD", b"pHYs", b"acTL", b"fcTL", b"fdAT"),
    )
)
"""https://www.w3.org/TR/png-3/#4Concepts.FormatTypes, without texts, times and Exif."""
_SCAN = 0xDA
_NOTES = frozenset((*range(0xE0, 0xF0), 0xFE))
"""Application segments and comments of a JPEG (ITU-T T.81, table B.1)."""
_SHOWN_NOTES = frozenset((0xE0, 0xE2, 0xEE))
"""JFIF, the colour profile, and how Adobe transforms colours."""


def pictures_in(data: Mapping[str, Any]) -> list[Picture]:
    """The pictures of a bundle that models can look at."""
    return [(kind, "".join("".join(data[kind]).split())) for kind in KINDS if kind in data]


def fitting(pictures: Sequence[Picture]) -> list[Picture]:
    """These pictures, the large ones made smaller; without those that cannot be.

    That takes up to a second, so call it in a thread. It needs Pillow, which is no dependency of
    ours; without it large ones are left out (`told` says so).
    """
    fit = (_fit(*picture) for picture in pictures)
    return [picture for picture in fit if picture is not None]


def attached(pictures: Sequence[Picture], most: int) -> tuple[list[Picture], str]:
    """The last pictures that fit, as `fitting` makes them, and a line that says which these are
    where they are not all.
    """
    numbered = list(enumerate(pictures, 1))[-most:] if most else []
    chosen = [(number, fit) for number, each in numbered for fit in fitting([each])]
    fits = [fit for _, fit in chosen]
    if len(fits) == len(pictures):
        return fits, ""
    numbers = ", ".join(str(number) for number, _ in chosen)
    which = f"Attached: {numbers}" if chosen else "None is attached"
    count = f"{len(pictures)} picture{'s' if len(pictures) > 1 else ''}"
    return fits, f"({count}, counted from above. {which}.)"


def told(kind: str, value: str) -> str:
    """A picture in text: `<image/png 640x480 35 kB>`."""
    size = pixels(kind, value)
    count = len(value) if kind.startswith("image/svg") else len(value) * 3 // 4
    words = [quoted(kind), f"{size[0]}x{size[1]}" if size else "", bytes_told(count)]
    note = ", too large to be shown" if kind in KINDS and not _can_fit(kind, value) else ""
    return f"<{' '.join(filter(None, words))}{note}>"


def pixels(kind: str, value: str) -> tuple[int, int] | None:
    """Width and height of a PNG or JPEG in base64 or of an SVG; None where it does not tell."""
    if kind.startswith("image/svg"):
        begin = _SVG.search(value[:_HEADER_BYTES])
        sides = [_LENGTH[side].search(begin[0]) for side in ("width", "height")] if begin else []
        found = [round(float(side.group(1))) for side in sides if side]
        return (found[0], found[1]) if len(found) == 2 else None
    start = "".join(value[: _HEADER_BYTES * 4 // 3].split())
    try:
        header = base64.b64decode(start[: len(start) // 4 * 4])
    except binascii.Error:
        return None
    if header.startswith(b"\x89PNG"):
        return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
    # A JPEG is a row of segments, each with its length; start-of-frame segments hold the size.
    place = 2 if header.startswith(b"\xff\xd8") else len(header)
    while place + 9 < len(header):
        if 0xC0 <= header[place + 1] <= 0xCF and header[place + 1] not in (0xC4, 0xC8, 0xCC):
            height, width = header[place + 5 : place + 7], header[place + 7 : place + 9]
            return int.from_bytes(width), int.from_bytes(height)
        place += 2 + int.from_bytes(header[place + 2 : place + 4])
    return None


def bytes_told(count: int) -> str:
    """A size as people say it."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def _is_large(kind: str, value: str) -> bool:
    return len(value) > _CHARACTERS or max(pixels(kind, value) or (0,)) > SIDE


def _can_fit(kind: str, value: str) -> bool:
    width, height = pixels(kind, value) or (0, 0)
    if not _is_large(kind, value):
        return True
    return importlib.util.find_spec("PIL") is not None and width * height <= _MOST_PIXELS


def _fit(kind: str, value: str) -> Picture | None:
    made = _smaller(kind, value) if _is_large(kind, value) else (kind, value)
    return made and (made[0], _without_metadata(made[1]))


def _smaller(kind: str, value: str) -> Picture | None:
    if not _can_fit(kind, value):
        return None
    pillow = importlib.import_module("PIL.Image")
    try:
        picture = pillow.open(io.BytesIO(base64.b64decode(value)))
        picture.draft("RGB", (SIDE, SIDE))
        if picture.mode not in ("RGB", "RGBA", "L"):
            picture = picture.convert("RGBA" if kind == "image/png" else "RGB")
        picture.thumbnail((SIDE, SIDE))
        small = _encoded(picture, kind)
        if len(small) > _CHARACTERS:  # noise, as PNG
            kind, small = "image/jpeg", _encoded(picture.convert("RGB"), "image/jpeg")
    except (OSError, ValueError, SyntaxError):  # what Pillow raises for a broken file
        return None
    return kind, small


def _without_metadata(value: str) -> str:
    """A PNG or JPEG in base64 with nothing but its picture: no texts, places, names of people."""
    try:
        file = base64.b64decode(value)
    except binascii.Error:
        return value
    if file.startswith(_PNG):
        file = b"".join([_PNG, *_chunks(file)])
    elif file.startswith(b"\xff\xd8"):
        file = b"".join([file[:2], *_segments(file)])
    return base64.b64encode(file).decode()


def _chunks(file: bytes) -> Iterator[bytes]:
    """Of a PNG: those without which it would look otherwise."""
    place = len(_PNG)
    while place + 8 <= len(file):
        end = place + 12 + int.from_bytes(file[place : place + 4])
        if file[place + 4 : place + 8] in _SHOWN_CHUNKS:
            yield file[place:end]
        place = end


def _segments(file: bytes) -> Iterator[bytes]:
    """Of a JPEG: all but comments and what applications noted, up to the picture itself."""
    place = 2
    while place + 4 <= len(file) and file[place] == 0xFF and file[place + 1] != _SCAN:
        marker, end = file[place + 1], place + 2 + int.from_bytes(file[place + 2 : place + 4])
        if marker not in _NOTES or marker in _SHOWN_NOTES:
            yield file[place:end]
        place = end
    yield file[place:]


def _encoded(picture: Any, kind: str) -> str:
    file = io.BytesIO()
    picture.save(file, kind.removeprefix("image/").upper())
    return base64.b64encode(file.getvalue()).decode()
