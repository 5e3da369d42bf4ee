"""Pictures for models: how large they are, and made such that a service takes them.

What a picture is says its first bytes, whatever it was called: a service refuses a request with one
that is not what it is said to be, and each later request of the conversation, too.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jupyter_agent.legible import quoted

Picture: TypeAlias = tuple[str, str]
"""(media type, base64)"""
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What models can look at."""
SIDE = 1568
"""Pixels of the longer side that models see at most; what is larger only costs more.

https://docs.claude.com/en/docs/build-with-claude/vision
"""
_MOST_SIDE = 8_000
"""Pixels of the longer side that a service takes (same source)."""
_CHARACTERS = 5_000_000
"""Of one picture in base64: what the API takes."""
_MOST_PIXELS = 50_000_000
"""A picture with more would take a lot of memory to be made smaller."""
_SVG = re.compile(r"<svg\b[^>]*")
_LENGTH = {side: re.compile(rf"\s{side}\s*=\s*['\"]([\d.]+)") for side in ("width", "height")}
_HEADER_BYTES = 65_536
"""Where a picture tells its size, at the latest."""
_ORIENTATION = 0x0112
"""The tag of Exif by which a camera says how it was held."""


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
_WEBP_NOTES = (b"EXIF", b"XMP ")
_WEBP_NOTED = 0x0C
"""The flags that announce those two. https://developers.google.com/speed/webp/docs/riff_container"""


def pictures_in(data: Mapping[str, Any]) -> list[Picture]:
    """The pictures of a bundle that models can look at."""
    return [(kind, "".join("".join(data[kind]).split())) for kind in KINDS if kind in data]


def fitting(pictures: Sequence[Picture]) -> list[Picture]:
    """These pictures as what they are, the large ones made smaller; without those that are none, or
    cannot be made smaller.

    That takes up to a second, so call it in a thread. Pillow, which is no dependency of ours, reads
    each to its end and makes it smaller. Without it one is taken that has an end, and that services
    take as it is.
    """
    fit = (_fit(value) for _, value in pictures)
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
    fits = kind not in KINDS or _can_fit(value, size or (0, 0))
    note = "" if fits else ", too large to be shown"
    return f"<{' '.join(filter(None, words))}{note}>"


def pixels(kind: str, value: str) -> tuple[int, int] | None:
    """Width and height of a picture in base64 or of an SVG; None where it does not tell."""
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
    return _size(header)


def _size(file: bytes) -> tuple[int, int] | None:
    measure = _MEASURES.get(kind_of(file) or "")
    size = measure(file) if measure else None
    return size if size and all(size) else None


def kind_of(file: bytes) -> str | None:
    """The media type of a picture by its first bytes; None for what no model can look at."""
    if file.startswith(_PNG):
        return "image/png"
    if file.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if file.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if file.startswith(b"RIFF") and file[8:12] == b"WEBP" else None


def _png_size(header: bytes) -> tuple[int, int]:
    return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])


def _jpeg_size(header: bytes) -> tuple[int, int] | None:
    """A JPEG is a row of segments, each with its length; start-of-frame segments have the size."""
    place = 2
    while place + 9 < len(header):
        if 0xC0 <= header[place + 1] <= 0xCF and header[place + 1] not in (0xC4, 0xC8, 0xCC):
            height, width = header[place + 5 : place + 7], header[place + 7 : place + 9]
            return int.from_bytes(width), int.from_bytes(height)
        place += 2 + int.from_bytes(header[place + 2 : place + 4])
    return None


def _gif_size(header: bytes) -> tuple[int, int]:
    return _little(header[6:8]), _little(header[8:10])


def _webp_size(header: bytes) -> tuple[int, int] | None:
    match header[12:16]:
        case b"VP8X":
            return _little(header[24:27]) + 1, _little(header[27:30]) + 1
        case b"VP8L":
            bits = _little(header[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(header[26:28]) & 0x3FFF, _little(header[28:30]) & 0x3FFF
    return None


def _little(number: bytes) -> int:
    return int.from_bytes(number, "little")


_MEASURES: Mapping[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _png_size,
    "image/jpeg": _jpeg_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
}


def bytes_told(count: int) -> str:
    """A size as people say it."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def _is_large(value: str, size: tuple[int, int]) -> bool:
    return len(value) > _CHARACTERS or max(size) > SIDE


def _can_fit(value: str, size: tuple[int, int]) -> bool:
    """Whether it is small enough, or can be made so: that needs Pillow."""
    if not _is_large(value, size):
        return True
    if _has_pillow():
        return size[0] * size[1] <= _MOST_PIXELS
    return len(value) <= _CHARACTERS and max(size) <= _MOST_SIDE


def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def _fit(value: str) -> Picture | None:
    try:
        file = base64.b64decode(value, validate=True)
    except ValueError:
        return None
    kind, size = kind_of(file), _size(file)
    if kind is None or size is None or not _can_fit(value, size):
        return None
    if not _has_pillow():
        return (kind, _written(_without_metadata(kind, file))) if _ends(kind, file) else None
    made = _decoded(kind, file)
    if made is None or len(_written(made[1])) > _CHARACTERS:
        return None
    return made[0], _written(_without_metadata(*made))


def _decoded(kind: str, file: bytes) -> tuple[str, bytes] | None:
    """The picture as it is, if it can be read to its end; where it is large, or was taken with the
    camera turned, painted anew. None if it cannot be read.
    """
    pillow, operations = map(importlib.import_module, ("PIL.Image", "PIL.ImageOps"))
    try:
        picture = pillow.open(io.BytesIO(file))
        large = _is_large(_written(file), picture.size)
        if large:
            picture.draft("RGB", (SIDE, SIDE))
        picture.load()
        turned = picture.getexif().get(_ORIENTATION, 1) != 1
        if not large and not turned:
            return kind, file
        if picture.mode not in ("RGB", "RGBA", "L"):
            picture = picture.convert("RGB" if kind == "image/jpeg" else "RGBA")
        picture = operations.exif_transpose(picture)
        picture.thumbnail((SIDE, SIDE))
        kind = kind if kind == "image/jpeg" else "image/png"
        small = _painted(picture, kind)
        if len(_written(small)) > _CHARACTERS:  # noise, as PNG
            kind, small = "image/jpeg", _painted(picture.convert("RGB"), "image/jpeg")
    except Exception:  # noqa: BLE001  whatever a decoder raises over what others wrote
        return None
    return kind, small


def _ends(kind: str, file: bytes) -> bool:
    """Whether a picture that nobody can decode here has at least its end."""
    match kind:
        case "image/png":
            return b"IEND" in file[-64:]
        case "image/jpeg":
            return b"\xff\xd9" in file[-64:]
        case "image/gif":
            return b"\x3b" in file[-64:]
    return _little(file[4:8]) + 8 <= len(file)


def _without_metadata(kind: str, file: bytes) -> bytes:
    """The file with nothing but its picture: no texts, places, names of people."""
    match kind:
        case "image/png":
            return b"".join([_PNG, *_chunks(file)])
        case "image/jpeg":
            return b"".join([file[:2], *_segments(file)])
        case "image/webp":
            body = b"".join([b"WEBP", *_riff_chunks(file)])
            return b"RIFF" + len(body).to_bytes(4, "little") + body
    return b"".join(_gif_blocks(file))


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


def _riff_chunks(file: bytes) -> Iterator[bytes]:
    """Of a WebP: all but Exif and XMP, and no announcement of them."""
    place = 12
    while place + 8 <= len(file):
        length = _little(file[place + 4 : place + 8])
        end = place + 8 + length + length % 2
        name, chunk = file[place : place + 4], file[place:end]
        if name == b"VP8X":
            flags = _little(chunk[8:9]) & ~_WEBP_NOTED
            chunk = chunk[:8] + flags.to_bytes() + chunk[9:]
        if name not in _WEBP_NOTES:
            yield chunk
        place = end


def _gif_blocks(file: bytes) -> Iterator[bytes]:
    """Of a GIF: all but comments and what applications noted (https://www.w3.org/Graphics/GIF)."""
    place = 13 + _colours(file[10:11])
    yield file[:place]
    while place < len(file) and file[place] in (0x21, 0x2C):
        extension = file[place] == 0x21
        end = place + 2 if extension else place + 11 + _colours(file[place + 9 : place + 10])
        while end < len(file) and file[end]:
            end += 1 + file[end]
        end += 1
        if not (extension and file[place + 1 : place + 2] in (b"\xfe", b"\xff")):
            yield file[place:end]
        place = end
    yield b"\x3b"


def _colours(byte: bytes) -> int:
    """How many bytes of colours these flags announce."""
    flags = _little(byte)
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _painted(picture: Any, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind.removeprefix("image/").upper())
    return file.getvalue()


def _written(file: bytes) -> str:
    return base64.b64encode(file).decode()
