"""Pictures for models: their sizes, and conversion to what services accept.

The media type is read from the first bytes of a picture, whatever the notebook calls it: a service
refuses a request with a wrongly labelled picture, and each later request of the conversation too.
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
"""Media types that models accept."""
SIDE = 1568
"""Pixels of the longer side that models see at most; larger pictures only cost more.

https://docs.claude.com/en/docs/build-with-claude/vision
"""
_MOST_SIDE = 8_000
"""Pixels of the longer side that a service accepts (same source)."""
_CHARACTERS = 5_000_000
"""Characters of one picture in base64 that the API accepts."""
_MOST_PIXELS = 50_000_000
"""Larger pictures would need too much memory to be resized."""
_SVG = re.compile(r"<svg\b[^>]*")
_LENGTH = {side: re.compile(rf"\s{side}\s*=\s*['\"]([\d.]+)") for side in ("width", "height")}
_HEADER_BYTES = 65_536
"""The size of a picture is within these first bytes."""
_ORIENTATION = 0x0112
"""The Exif tag for the orientation of the camera."""
_TURNS = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE",
    6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90",
}  # fmt: skip
"""Value of that tag -> the Pillow operation that turns the picture upright."""
_WITH_PROFILE = ("RGB", "RGBA", "P")
"""Modes whose colour profile stays valid when the picture is encoded again."""

_PNG = b"\x89PNG\r\n\x1a\n"
_SHOWN_CHUNKS = frozenset(
    (
        *(b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT"),
        *(b"sRGB", b"cICP", b"bKGD", b"pHYs", b"acTL", b"fcTL", b"fdAT"),
    )
)
"""All but texts, times and Exif: https://www.w3.org/TR/png-3/#4Concepts.FormatTypes"""
_SCAN, _END = 0xDA, 0xD9
_NOTES = frozenset((*range(0xE0, 0xF0), 0xFE))
"""Application segments and comments of a JPEG (ITU-T T.81, table B.1)."""
_JFIF, _ICC, _ADOBE = 0xE0, 0xE2, 0xEE
"""Of those: the pixel density, the colour profile, and Adobe's colour transform."""
_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])", re.DOTALL)
"""Ends the data of a scan; more than one 0xFF may precede a segment's marker."""
_ENDS = {"image/png": b"IEND\xae\x42\x60\x82", "image/jpeg": b"\xff\xd9", "image/gif": b"\x3b"}
"""Last bytes of a complete picture."""
_SHOWN_RIFF = (b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF", b"ICCP")
_WEBP_NOTED = 0x0C
"""WebP: the chunks without Exif, XMP and unknown ones, and the flags that announce Exif and XMP.
https://developers.google.com/speed/webp/docs/riff_container"""


def pictures_in(data: Mapping[str, Any]) -> list[Picture]:
    """The pictures of a MIME bundle that models accept."""
    stored = [(kind, data[kind]) for kind in KINDS if isinstance(data.get(kind), str | list)]
    return [(kind, "".join("".join(map(str, value)).split())) for kind, value in stored]


def prepare_pictures(pictures: Sequence[Picture]) -> list[Picture]:
    """These pictures with their real media types, large ones resized, without broken ones and those
    that cannot be resized.

    Takes up to a second each, so call it in a thread. Pillow, an optional dependency, decodes and
    resizes each picture. Without it, only complete pictures that need no resizing remain.
    """
    fit = (_fit(value) for _, value in pictures)
    return [picture for picture in fit if picture is not None]


def pick_last(pictures: Sequence[Picture], most: int) -> tuple[list[Picture], str]:
    """The last `most` pictures, as `prepare_pictures` returns them, and a line that says which they
    are; empty if all are included.
    """
    numbered = list(enumerate(pictures, 1))[-most:] if most else []
    chosen = [(number, fit) for number, each in numbered for fit in prepare_pictures([each])]
    fits = [fit for _, fit in chosen]
    if len(fits) == len(pictures):
        return fits, ""
    numbers = ", ".join(str(number) for number, _ in chosen)
    which = f"Attached: {numbers}" if chosen else "None is attached"
    count = f"{len(pictures)} picture{'s' if len(pictures) > 1 else ''}"
    return fits, f"({count}, counted from above. {which}.)"


def describe_picture(kind: str, value: str) -> str:
    """A picture as text: `<image/png 640x480 35 kB>`."""
    size = pixels(kind, value)
    count = len(value) if kind.startswith("image/svg") else len(value) * 3 // 4
    words = [quoted(kind), f"{size[0]}x{size[1]}" if size else "", format_size(count)]
    fits = kind not in KINDS or _can_fit(value, size or (0, 0))
    note = "" if fits else ", too large to be shown"
    return f"<{' '.join(filter(None, words))}{note}>"


def pixels(kind: str, value: str) -> tuple[int, int] | None:
    """Width and height of a picture in base64 or of an SVG; None if not stated."""
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
    """The media type of a picture, by its first bytes; None if models do not accept it."""
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
    """The size is in the start-of-frame segment."""
    for marker, segment in _segments(header):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(segment[7:9]), int.from_bytes(segment[5:7])
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


def format_size(count: int) -> str:
    """A number of bytes for people: `35 kB`."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def _is_large(value: str, size: tuple[int, int]) -> bool:
    return len(value) > _CHARACTERS or max(size) > SIDE


def _can_fit(value: str, size: tuple[int, int]) -> bool:
    """Whether the picture is small enough, or Pillow can resize it."""
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
    bare = _without_metadata(kind, file)
    if not _has_pillow():
        whole = bare.endswith(_ENDS.get(kind, b"")) and bool(bare)
        return (kind, _to_base64(bare)) if whole else None
    made = _decode(kind, bare, _orientation(file))
    if made is None or len(_to_base64(made[1])) > _CHARACTERS:
        return None
    return made[0], _to_base64(made[1])


def _orientation(file: bytes) -> int:
    """The Exif orientation; 1 is upright."""
    pillow = importlib.import_module("PIL.Image")
    try:
        exif = pillow.Exif()
        exif.load(pillow.open(io.BytesIO(file)).info.get("exif"))
        return int(exif.get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001  decoders may raise anything on foreign data
        return 1


def _decode(kind: str, file: bytes, orientation: int) -> tuple[str, bytes] | None:
    """The picture, encoded again if it is large or the camera was turned. None for one that cannot
    be decoded to its end.
    """
    pillow = importlib.import_module("PIL.Image")
    turn = _TURNS.get(orientation)
    try:
        picture = pillow.open(io.BytesIO(file))
        if picture.width * picture.height > _MOST_PIXELS:  # a later part may say another size
            return None
        large = _is_large(_to_base64(file), picture.size)
        if large:
            picture.draft("RGB", (SIDE, SIDE))
        picture.load()
        if not large and turn is None:
            return kind, file
        profile = picture.info.get("icc_profile") if picture.mode in _WITH_PROFILE else None
        if picture.mode.startswith("I"):  # 16 bits of grey
            picture = picture.convert("I").point(lambda grey: grey / 257).convert("L")
        if picture.mode not in ("RGB", "RGBA", "L"):
            picture = picture.convert("RGB" if kind == "image/jpeg" else "RGBA")
        picture.thumbnail((SIDE, SIDE))
        if turn is not None:
            picture = picture.transpose(pillow.Transpose[turn])
        kind = kind if kind == "image/jpeg" else "image/png"
        small = _encode(picture, kind, profile)
        if len(_to_base64(small)) > _CHARACTERS:  # noise, as PNG
            kind, small = "image/jpeg", _encode(picture.convert("RGB"), "image/jpeg", profile)
    except Exception:  # noqa: BLE001  decoders may raise anything on foreign data
        return None
    return kind, small


def _without_metadata(kind: str, file: bytes) -> bytes:
    """The file with nothing but its picture: no texts, places, names of people or trailing data. A
    truncated file stays truncated.
    """
    match kind:
        case "image/png":
            return b"".join([_PNG, *_chunks(file)])
        case "image/jpeg":
            return b"".join([file[:2], *(_bare(*each) for each in _segments(file))])
        case "image/webp":
            body = b"".join([b"WEBP", *_riff_chunks(file)])
            whole = _little(file[4:8]) + 8 <= len(file)
            return b"RIFF" + len(body).to_bytes(4, "little") + body if whole else b""
    return b"".join(_gif_blocks(file))


def _chunks(file: bytes) -> Iterator[bytes]:
    """The chunks of a PNG that affect how it looks, up to its end."""
    place = len(_PNG)
    while place + 8 <= len(file):
        end = place + 12 + int.from_bytes(file[place : place + 4])
        name = file[place + 4 : place + 8]
        if name in _SHOWN_CHUNKS:
            yield file[place:end]
        if name == b"IEND":
            return
        place = end


def _segments(file: bytes) -> Iterator[tuple[int, bytes]]:
    """The segments of a JPEG with their markers, scans with their data, up to its end."""
    place = 2
    while (found := _MARKER.match(file, place)) is not None:
        marker, start = found[1][0], found.start(1) - 1
        if marker == _END:
            yield marker, b"\xff\xd9"
            return
        length = int.from_bytes(file[start + 2 : start + 4])
        place = start + 2 + length
        if length < 2:  # no segment
            return
        if marker == _SCAN:
            data = _MARKER.search(file, place)
            place = data.start() if data else len(file)
        yield marker, file[start:place]


def _bare(marker: int, segment: bytes) -> bytes:
    """A JPEG segment with only the data needed to show it; empty for most metadata."""
    body = segment[4:]
    if marker == _JFIF and body.startswith(b"JFIF\0"):
        return b"\xff\xe0\0\x10" + body[:12] + b"\0\0"  # no thumbnail
    if marker == _ADOBE and body.startswith(b"Adobe"):
        return b"\xff\xee\0\x0e" + body[:12]
    profile = marker == _ICC and body.startswith(b"ICC_PROFILE\0")
    return segment if marker not in _NOTES or profile else b""


def _riff_chunks(file: bytes) -> Iterator[bytes]:
    """The chunks of a WebP that are shown, without the flags that announce others."""
    place = 12
    file = file[: _little(file[4:8]) + 8]
    while place + 8 <= len(file):
        length = _little(file[place + 4 : place + 8])
        end = place + 8 + length + length % 2
        name, chunk = file[place : place + 4], file[place:end]
        if name == b"VP8X":
            flags = _little(chunk[8:9]) & ~_WEBP_NOTED
            chunk = chunk[:8] + flags.to_bytes() + chunk[9:]
        if name in _SHOWN_RIFF:
            yield chunk
        place = end


def _gif_blocks(file: bytes) -> Iterator[bytes]:
    """The blocks of a GIF with its pictures and their durations, up to its end
    (https://www.w3.org/Graphics/GIF)."""
    place = 13 + _colours(file[10:11])
    yield file[:place]
    while (name := file[place : place + 1]) in (b"\x21", b"\x2c", b"\x00"):
        extension = name == b"\x21"
        end = place + 2 if extension else place + 11 + _colours(file[place + 9 : place + 10])
        while name != b"\x00" and end < len(file) and file[end]:
            end += 1 + file[end]
        end = place + 1 if name == b"\x00" else end + 1
        noted = extension and file[place + 1 : place + 2] != b"\xf9"
        if not noted and name != b"\x00":
            yield file[place:end]
        place = end
    yield name if name == b"\x3b" else b""


def _colours(byte: bytes) -> int:
    """Bytes of the colour table that these flags announce."""
    flags = _little(byte)
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _encode(picture: Any, kind: str, profile: bytes | None) -> bytes:
    file = io.BytesIO()
    more = {"quality": 90} if kind == "image/jpeg" else {}
    picture.save(file, kind.removeprefix("image/").upper(), icc_profile=profile, **more)
    return file.getvalue()


def _to_base64(file: bytes) -> str:
    return base64.b64encode(file).decode()
