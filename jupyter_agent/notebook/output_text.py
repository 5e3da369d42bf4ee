"""What outputs show, as text for a model: short, without escapes, as a terminal shows it."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from jupyter_agent.notebook.cell import Output

_ESCAPES = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # commands to the terminal: titles, links
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for devices
    r"|\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|[ -/]*[0-~])"
)
_INVISIBLE = re.compile(
    "[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""Control, direction and tag characters: they show nothing, and could hide text from a person."""
_IMAGES = ("image/png", "image/jpeg")
_OBJECT = re.compile(r"<.*>", re.DOTALL)
"""A `text/plain` that names an object; other representations tell more."""
_INSTEAD = ("text/markdown", "text/latex", "text/html", "application/json")
_OWN_FRAME = ("Cell In", "Input In", "File <ipython-input", "  Cell In")
_FRAME_CHARS = 1_500
_SIDE = {
    side: re.compile(rf"<svg\b[^>]*\s{side}\s*=\s*['\"]([\d.]+)") for side in ("width", "height")
}
_HEADER_BYTES = 65_536
"""Where a picture tells its size, at the latest."""
_HEAD = 0.6
"""Share of a long text that is taken from its beginning; the rest is its end."""


def output_text(outputs: Sequence[Output], *, limit: int = 12_000, start: int = 0) -> str:
    """What the outputs of a cell show, from character `start` on, at most `limit` characters.

    What is left out is said, with how to read on. Streams are merged, pictures named with their
    size, an error is its name, its message and the frames that matter.
    """
    text = "\n".join(_pieces(outputs))[start:]
    left = len(text) - limit
    if left <= 0:
        return text
    if start:
        return f"{text[:limit]}\n... {left:,} more characters: output_from={start + limit} ..."
    head = int(limit * _HEAD)
    end = text[len(text) - (limit - head) :]
    return f"{text[:head]}\n... {left:,} characters left out: output_from={head} ...\n{end}"


def images(outputs: Sequence[Output]) -> list[tuple[str, str]]:
    """(media type, base64) of the pictures that models can look at: PNG and JPEG."""
    return [
        (kind, "".join(joined(output["data"][kind]).split()))
        for output in outputs
        for kind in _IMAGES
        if kind in output.get("data", {})
    ]


def plain(text: str) -> str:
    """The text as a terminal shows it: no escapes, nothing invisible, `\\r` and `\\b` done."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return _INVISIBLE.sub("", text)


def _overwritten(line: str) -> str:
    shown: list[str] = []
    place = 0
    for part in re.split("([\r\b])", line):
        if part == "\r":
            place = 0
        elif part == "\b":
            place = max(0, place - 1)
        else:
            shown[place : place + len(part)] = part
            place += len(part)
    return "".join(shown)


def _pieces(outputs: Sequence[Output]) -> Iterator[str]:
    for kind, group in groupby(outputs, key=lambda output: output["output_type"]):
        if kind == "stream":
            yield plain("".join(joined(output["text"]) for output in group)).rstrip("\n")
        elif kind == "error":
            yield from map(_error, group)
        else:
            yield from (_bundle(output.get("data", {})) for output in group)


def bundle_text(data: Mapping[str, Any]) -> str:
    """What a bundle says besides its pictures: what tells most in the fewest characters."""
    pictures = any(kind.startswith("image/") for kind in data)
    text = plain(joined(data.get("text/plain", "")))
    if _OBJECT.fullmatch(text.strip()):
        instead = next((kind for kind in _INSTEAD if kind in data), None)
        if instead is not None:
            return _as_text(instead, data[instead])
        return "" if pictures else text
    if "dataframe" in joined(data.get("text/html", "")):
        text = re.sub(" {3,}", "  ", text)
    if not text and not pictures:
        return "\n".join(_as_text(kind, value) for kind, value in data.items())
    return text


def _bundle(data: Mapping[str, Any]) -> str:
    pictures = [_picture(kind, joined(data[kind])) for kind in data if kind.startswith("image/")]
    return "\n".join(filter(None, [*pictures, bundle_text(data)]))


def _as_text(kind: str, value: Any) -> str:
    if kind == "text/html":
        return plain(_without_tags(joined(value)))
    if kind == "application/json":
        return json.dumps(value, ensure_ascii=False)
    if kind.startswith("text/"):
        return plain(joined(value))
    size = len(value if isinstance(value, str) else json.dumps(value))
    return f"<{kind} {_size(size)}>"


def _without_tags(text: str) -> str:
    text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", "", text)
    text = re.sub(r"(?i)</t[dh]\s*>", "  ", re.sub(r"\s+", " ", text))
    text = re.sub(r"(?i)<br\s*/?>|</(?:tr|p|div|li|h\d)\s*>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]*>", "", text))
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def _error(output: Output) -> str:
    """Name and message, the frames in the notebook's own cells, and the last one."""
    message = plain(f"{output['ename']}: {output['evalue']}")
    frames = [plain(frame).strip("\n") for frame in output.get("traceback", ())]
    frames = [
        frame
        for frame in frames
        if frame.strip("- ") and frame != message and "Traceback (most recent call" not in frame
    ]
    own = [place for place, frame in enumerate(frames) if frame.startswith(_OWN_FRAME)]
    kept = sorted({*own[-2:], len(frames) - 1}) if frames else []
    lines = [message]
    for place, before in zip(kept, [-1, *kept], strict=False):
        if place - before > 1:
            lines.append(f"... {place - before - 1} frames left out ...")
        lines.append(frames[place][-_FRAME_CHARS:])
    return "\n".join(lines)


def _picture(kind: str, value: str) -> str:
    size = pixels(kind, value)
    count = len(value) if kind.startswith("image/svg") else len(value) * 3 // 4
    return f"<{kind} {f'{size[0]}x{size[1]} ' if size else ''}{_size(count)}>"


def pixels(kind: str, value: str) -> tuple[int, int] | None:
    """Width and height of a PNG or JPEG in base64 or of an SVG; None where it does not tell."""
    if kind.startswith("image/svg"):
        sides = [_SIDE[side].search(value[:_HEADER_BYTES]) for side in ("width", "height")]
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


def _size(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def joined(value: Any) -> str:
    """Text of a representation: a file may keep it as a list of lines."""
    return value if isinstance(value, str) else "".join(value)
