"""What outputs show, as text for a model: short, without escapes, as a terminal shows it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from jupyter_agent.document.cell import Output
from jupyter_agent.legible import clip, quoted, without_escapes, without_invisible
from jupyter_agent.text.charts import chart_text
from jupyter_agent.text.images import Picture, bytes_told, pictures_in, told
from jupyter_agent.text.tables import frame_text

_OBJECT = re.compile(r"<.*>", re.DOTALL)
"""A `text/plain` that names an object; other representations tell more."""
_INSTEAD = ("text/markdown", "text/latex", "text/html", "application/json")
_FRAME = re.compile(r"\s*(?:Cell In|Input In|File )")
_LIBRARY = re.compile(
    r"\s*File (?:\S*(?:site|dist)-packages|\S*/lib/python3|\S*[\\/]Lib[\\/]|<(?!ipython))"
)
"""Frames of installed code; all others are in the person's own cells and modules."""
_NO_FRAME = re.compile(r"[-\s]*$|.*Traceback \(most recent call|\s*\[\.\.\. skipping")
_FRAME_CHARS = 1_500
_OWN_FRAMES = 3
_TABLE_CHARS = 500_000
"""HTML that is worth parsing for a few rows."""
_MOST_CHARS = 2_000_000
"""Of one representation, where it is read at all: a display may have megabytes."""
_MOST_TURNS = 12
"""How often stdout and stderr may take turns before each is told as a whole."""
_NOTE = re.compile(r"\[\.\.\. (?:more than fits|[\d,]+ characters).*? \.\.\.\]")
ROWS = 12
"""Of a data frame, where it is not read for itself."""
_EMBEDDED = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=]{200,})")
_HEAD = 0.6
"""Share of a long text that is taken from its beginning; the rest is its end."""


def output_text(
    outputs: Sequence[Output],
    *,
    limit: int = 12_000,
    start: int = 0,
    rows: int | None = ROWS,
    mask: Callable[[str], str] = str,
) -> str:
    """What the outputs of a cell show, from character `start` on, at most `limit` characters.

    What is left out is said, with how to read on. Streams are merged, pictures named with their
    size, data frames are tables of at most `rows` rows, an error is its name, its message and the
    frames that matter. `mask` takes out what nobody may take apart by asking for pieces.
    """
    text = mask(without_data("\n".join(_pieces(outputs, rows))))[start:]
    if start:
        return clip(
            text, limit, f"\n... {{left:,}} more characters: output_from={start + limit} ..."
        )
    note = f"\n... {{left:,}} characters left out: output_from={int(limit * _HEAD)} ...\n"
    return clip(text, limit, note, head=_HEAD)


def images(outputs: Sequence[Output]) -> list[Picture]:
    """The pictures that models can look at, as they are: PNG and JPEG."""
    return [picture for output in outputs for picture in pictures_in(output.get("data", {}))]


def plain(text: str) -> str:
    """The text as a terminal shows it: no escapes, nothing invisible, `\\r` and `\\b` done."""
    text = without_escapes(text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return without_invisible(text)


def without_data(text: str) -> str:
    """The text with its embedded files (`data:image/png;base64,...`) named instead of spelled."""
    return _EMBEDDED.sub(
        lambda found: f"data:{found[1]};base64,<{bytes_told(len(found[2]) * 3 // 4)} left out>",
        text,
    )


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


def _pieces(outputs: Sequence[Output], rows: int | None) -> Iterator[str]:
    for kind, group in groupby(outputs, key=lambda output: output["output_type"]):
        if kind == "stream":
            yield from _streams(list(group))
        elif kind == "error":
            yield from map(_error, group)
        else:
            yield from (_bundle(output.get("data", {}), rows) for output in group)


def _streams(outputs: Sequence[Output]) -> Iterator[str]:
    """Neighbouring streams: what is on stderr is marked, and where stdout goes on after it."""
    texts: list[tuple[str, str]] = []
    for output in outputs:
        text, name = joined(output["text"]), str(output.get("name", "stdout"))
        if _NOTE.fullmatch(text.strip()) and texts:
            name = texts[-1][0]  # ours, between the ends of what was too long
        texts.append((name, text))
    pieces = [
        (name, plain("".join(text for _, text in group)))
        for name, group in groupby(texts, key=lambda piece: piece[0])
    ]
    if len(pieces) > _MOST_TURNS:  # line by line in turns
        names = dict.fromkeys(name for name, _ in pieces)
        pieces = [(name, "".join(t for n, t in pieces if n == name)) for name in names]
    before = "stdout"
    for name, text in pieces:
        if text.rstrip("\n"):
            mark = f"[{name}]\n" if name != before else ""
            yield mark + text.rstrip("\n")
            before = name


def bundle_text(data: Mapping[str, Any], rows: int | None = None) -> str:
    """What a bundle says besides its pictures: what tells most in the fewest characters."""
    if (chart := chart_text(data)) is not None:
        return plain(chart)
    page = joined(data.get("text/html", ""))
    if len(page) < _TABLE_CHARS and (table := frame_text(page, rows)) is not None:
        return plain(table)
    pictures = any(kind.startswith("image/") for kind in data)
    text = plain(joined(data.get("text/plain", ""))[:_MOST_CHARS])
    if _OBJECT.fullmatch(text.strip()):
        instead = next((kind for kind in _INSTEAD if kind in data), None)
        if instead is not None:
            return _as_text(instead, data[instead])
        return "" if pictures else text
    if "dataframe" in page:
        text = re.sub(" {3,}", "  ", text)
    if not text and not pictures:
        return "\n".join(_as_text(kind, value) for kind, value in data.items())
    return text


def _bundle(data: Mapping[str, Any], rows: int | None) -> str:
    pictures = [told(kind, joined(data[kind])) for kind in data if kind.startswith("image/")]
    return "\n".join(filter(None, [*pictures, bundle_text(data, rows)]))


def _as_text(kind: str, value: Any) -> str:
    if kind == "text/html":
        return plain(_without_tags(joined(value)[:_MOST_CHARS]))
    if kind == "application/json":
        return json.dumps(value, ensure_ascii=False)
    if kind.startswith("text/"):
        return plain(joined(value)[:_MOST_CHARS])
    size = len(value if isinstance(value, str) else json.dumps(value))
    return f"<{quoted(kind)} {bytes_told(size)}>"


def _without_tags(text: str) -> str:
    text = re.sub(r"(?is)<(script|style)\b.*?(?:</\1\s*>|\Z)", "", text)
    text = re.sub(r"(?i)</t[dh]\s*>", "  ", re.sub(r"\s+", " ", text))
    text = re.sub(r"(?i)<br\s*/?>|</(?:tr|p|div|li|h\d)\s*>", "\n", text)
    text = html.unescape(re.sub(r"<[^<>]*>", "", text))
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def _error(output: Output) -> str:
    """Name and message, the frames in the person's own code, the last one, and what caused it."""
    message = plain(f"{output['ename']}: {output['evalue']}")
    entries = [plain(entry).strip("\n") for entry in output.get("traceback", ())]
    entries = [
        entry
        for entry in entries
        if not _NO_FRAME.match(entry) and entry.strip() != message.strip()
    ]
    frames = [place for place, entry in enumerate(entries) if _FRAME.match(entry)]
    own = [place for place in frames if not _LIBRARY.match(entries[place])]
    kept = {*own[:1], *own[-_OWN_FRAMES:], *frames[-1:]}
    if not frames:  # not Python's: what is last tells most
        kept = set(range(len(entries))[-2:])
    lines = [message]
    left_out = 0
    for place, entry in enumerate(entries):
        if place in kept or (frames and place not in frames):
            lines += [f"... {left_out} frames left out ..."] if left_out else []
            lines.append(entry[-_FRAME_CHARS:])
            left_out = 0
        else:
            left_out += 1
    return "\n".join(lines)


def joined(value: Any) -> str:
    """Text of a representation: a file may keep it as a list of lines."""
    return value if isinstance(value, str) else "".join(value)
