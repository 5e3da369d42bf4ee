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
_TURNS = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE",
    6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90",
}  # fmt: skip
"""How Pillow turns it upright, by the value of that tag."""
_WITH_PROFILE = ("RGB", "RGBA", "P")
"""Modes whose colour profile still holds when the picture is drawn again."""

_PNG = b"\x89PNG\r\n\x1a\n"
_SHOWN_CHUNKS = frozenset(
    (
        *(b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT"),
        *(b"sRGB", b"cICP", b"bKGD", b"pHYs", b"acTL", b"fcTL", b"fdAT"),
    )
)
"""https://www.w3.org/TR/png-3/#4Concepts.FormatTypes, without texts, times and Exif."""
_SCAN, _END = 0xDA, 0xD9
_NOTES = frozenset((*range(0xE0, 0xF0), 0xFE))
"""Application segments and comments of a JPEG (ITU-T T.81, table B.1)."""
_JFIF, _ICC, _ADOBE = 0xE0, 0xE2, 0xEE
"""Of those: how big a dot is, the colour profile, and how Adobe transforms colours."""
_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])", re.DOTALL)
"""What ends the data of a scan; a segment may have more than one 0xFF before its name."""
_ENDS = {"image/png": b"IEND\xae\x42\x60\x82", "image/jpeg": b"\xff\xd9", "image/gif": b"\x3b"}
"""With which a picture ends that was not cut."""
_SHOWN_RIFF = (b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF", b"ICCP")
_WEBP_NOTED = 0x0C
"""Of a WebP: its chunks without Exif, XMP and unknown ones, and the flags that announce Exif and
XMP. https://developers.google.com/speed/webp/docs/riff_container"""


def pictures_in(data: Mapping[str, Any]) -> list[Picture]:
    """The pictures of a bundle that models can look at."""
    return [(kind, "".join("".join(data[kind]).split())) for kind in KINDS if kind in data]


def fitting(pictures: Sequence[Picture]) -> list[Picture]:
    """These pictures as what they are, the large ones made smaller; without those that are none, or
    cannot be made smaller.

    That takes up to a second each, so call it in a thread. Pillow, which is no dependency of ours,
    reads each to its end and makes it smaller. Without it one is taken that has an end, and that
    services take as it is.
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
    """Width and height of a picture in base64 or of an SVG; None if it does not say."""
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
    """Start-of-frame segments have the size."""
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
    bare = _without_metadata(kind, file)
    if not _has_pillow():
        whole = bare.endswith(_ENDS.get(kind, b"")) and bool(bare)
        return (kind, _written(bare)) if whole else None
    made = _decoded(kind, bare, _orientation(file))
    if made is None or len(_written(made[1])) > _CHARACTERS:
        return None
    return made[0], _written(made[1])


def _orientation(file: bytes) -> int:
    """How a camera was held, as Exif has it; 1 is upright."""
    pillow = importlib.import_module("PIL.Image")
    try:
        exif = pillow.Exif()
        exif.load(pillow.open(io.BytesIO(file)).info.get("exif"))
        return int(exif.get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001  whatever a decoder raises over what others wrote
        return 1


def _decoded(kind: str, file: bytes, orientation: int) -> tuple[str, bytes] | None:
    """The picture as it is, if it can be read to its end; where it is large, or was taken with the
    camera turned, drawn again. None if it cannot be read.
    """
    pillow = importlib.import_module("PIL.Image")
    turn = _TURNS.get(orientation)
    try:
        picture = pillow.open(io.BytesIO(file))
        if picture.width * picture.height > _MOST_PIXELS:  # a later part may say another size
            return None
        large = _is_large(_written(file), picture.size)
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
        small = _drawn(picture, kind, profile)
        if len(_written(small)) > _CHARACTERS:  # noise, as PNG
            kind, small = "image/jpeg", _drawn(picture.convert("RGB"), "image/jpeg", profile)
    except Exception:  # noqa: BLE001  whatever a decoder raises over what others wrote
        return None
    return kind, small


def _without_metadata(kind: str, file: bytes) -> bytes:
    """The file with nothing but its picture: no texts, places, names of people, nothing after it.
    Of one that was cut the end is missing here, too.
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
    """Of a PNG: those without which it would look otherwise, up to its end."""
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
    """Of a JPEG: its segments by their markers, scans with their data, up to its end."""
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
    """The segment of a JPEG with nothing that is not needed to show it; empty for most notes."""
    body = segment[4:]
    if marker == _JFIF and body.startswith(b"JFIF\0"):
        return b"\xff\xe0\0\x10" + body[:12] + b"\0\0"  # no thumbnail
    if marker == _ADOBE and body.startswith(b"Adobe"):
        return b"\xff\xee\0\x0e" + body[:12]
    profile = marker == _ICC and body.startswith(b"ICC_PROFILE\0")
    return segment if marker not in _NOTES or profile else b""


def _riff_chunks(file: bytes) -> Iterator[bytes]:
    """Of a WebP: what is shown, and no announcement of anything else."""
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
    """Of a GIF: its pictures and how long each is shown, up to its end
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
    """How many bytes of colours these flags announce."""
    flags = _little(byte)
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _drawn(picture: Any, kind: str, profile: bytes | None) -> bytes:
    file = io.BytesIO()
    more = {"quality": 90} if kind == "image/jpeg" else {}
    picture.save(file, kind.removeprefix("image/").upper(), icc_profile=profile, **more)
    return file.getvalue()


def _written(file: bytes) -> str:
    return base64.b64encode(file).decode()
