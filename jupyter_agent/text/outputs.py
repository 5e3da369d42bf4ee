"""Outputs and interactive charts as short text for a model, without escape sequences."""

from __future__ import annotations

import html
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from jupyter_agent.document.cell import Output
from jupyter_agent.legible import clip, quoted, without_escapes, without_invisible
from jupyter_agent.text.images import Picture, describe_picture, format_size, pictures_in
from jupyter_agent.text.tables import frame_text

_OBJECT = re.compile(r"<.*>", re.DOTALL)
"""A `text/plain` that only names an object; other representations say more."""
_INSTEAD = ("text/markdown", "text/latex", "text/html", "application/json")
_FRAME = re.compile(r"\s*(?:Cell In|Input In|File )")
_LIBRARY = re.compile(
    r"\s*File (?:\S*(?:site|dist)-packages|\S*/lib/python3|\S*[\\/]Lib[\\/]|<(?!ipython))"
)
"""Frames in installed packages; all others are in the user's own cells and modules."""
_NO_FRAME = re.compile(r"[-\s]*$|.*Traceback \(most recent call|\s*\[\.\.\. skipping")
_FRAME_CHARS = 1_500
_OWN_FRAMES = 3
_TABLE_CHARS = 500_000
"""Characters of HTML up to which it is parsed for a table."""
_MOST_CHARS = 2_000_000
"""Characters that are read of one representation: a display may have megabytes."""
_MOST_TURNS = 12
"""How often stdout and stderr may alternate before each is shown as a whole."""
_NOTE = re.compile(r"\[\.\.\. (?:more than fits|[\d,]+ characters).*? \.\.\.\]")
ROWS = 12
"""Rows of a data frame in an overview."""
_EMBEDDED = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=]{200,})")
_HEAD = 0.6
"""Fraction of a shortened text that comes from its start; the rest is from its end."""


def output_text(
    outputs: Sequence[Output],
    *,
    limit: int = 12_000,
    start: int = 0,
    rows: int | None = ROWS,
    mask: Callable[[str], str] = str,
) -> str:
    """The outputs of a cell as text, from character `start`, at most `limit` characters.

    A note says how much was left out and how to read it. Streams are merged, pictures named with
    their size, data frames are tables of at most `rows` rows; an error has its name, its message
    and the relevant frames. `mask` removes secrets from the whole text first, so that no page cuts
    one in two.
    """
    text = mask(without_data("\n".join(_pieces(outputs, rows))))[start:]
    if start:
        return clip(
            text, limit, f"\n... {{left:,}} more characters: output_from={start + limit} ..."
        )
    note = f"\n... {{left:,}} characters left out: output_from={int(limit * _HEAD)} ...\n"
    return clip(text, limit, note, head=_HEAD)


def images(outputs: Sequence[Output]) -> list[Picture]:
    """The unchanged pictures of the outputs that models accept."""
    return [picture for output in outputs for picture in pictures_in(output.get("data", {}))]


def plain(text: str) -> str:
    """The text as a terminal shows it: `\\r` and `\\b` applied, no escapes, nothing invisible."""
    text = without_escapes(text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(_apply_overwrites(line) for line in text.split("\n"))
    return without_invisible(text)


def without_data(text: str) -> str:
    """The text with its embedded files (`data:image/png;base64,...`) replaced with their sizes."""
    return _EMBEDDED.sub(
        lambda found: f"data:{found[1]};base64,<{format_size(len(found[2]) * 3 // 4)} left out>",
        text,
    )


def _apply_overwrites(line: str) -> str:
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
    """Neighbouring streams, with a mark above stderr, and above stdout that follows it."""
    texts: list[tuple[str, str]] = []
    for output in outputs:
        text, name = join_lines(output["text"]), str(output.get("name", "stdout"))
        if _NOTE.fullmatch(text.strip()) and texts:
            name = texts[-1][0]  # our own note between the ends of a shortened stream
        texts.append((name, text))
    pieces = [
        (name, plain("".join(text for _, text in group)))
        for name, group in groupby(texts, key=lambda piece: piece[0])
    ]
    if len(pieces) > _MOST_TURNS:  # they alternate line by line
        names = dict.fromkeys(name for name, _ in pieces)
        pieces = [(name, "".join(t for n, t in pieces if n == name)) for name in names]
    before = "stdout"
    for name, text in pieces:
        if text.rstrip("\n"):
            mark = f"[{name}]\n" if name != before else ""
            yield mark + text.rstrip("\n")
            before = name


def bundle_text(data: Mapping[str, Any], rows: int | None = None) -> str:
    """The most informative short text of a MIME bundle, besides its pictures."""
    if (chart := chart_text(data)) is not None:
        return plain(chart)
    page = join_lines(data.get("text/html", ""))
    if len(page) < _TABLE_CHARS and (table := frame_text(page, rows)) is not None:
        return plain(table)
    pictures = any(kind.startswith("image/") for kind in data)
    text = plain(join_lines(data.get("text/plain", ""))[:_MOST_CHARS])
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
    pictures = [
        describe_picture(kind, join_lines(value))
        for kind, value in data.items()
        if kind.startswith("image/") and value is not None
    ]
    return "\n".join(filter(None, [*pictures, bundle_text(data, rows)]))


def _as_text(kind: str, value: Any) -> str:
    if kind == "text/html":
        return plain(_without_tags(join_lines(value)[:_MOST_CHARS]))
    if kind == "application/json":
        return json.dumps(value, ensure_ascii=False)
    if kind.startswith("text/"):
        return plain(join_lines(value)[:_MOST_CHARS])
    size = len(value if isinstance(value, str) else json.dumps(value))
    return f"<{quoted(kind)} {format_size(size)}>"


def _without_tags(text: str) -> str:
    text = re.sub(r"(?is)<(script|style)\b.*?(?:</\1\s*>|\Z)", "", text)
    text = re.sub(r"(?i)</t[dh]\s*>", "  ", re.sub(r"\s+", " ", text))
    text = re.sub(r"(?i)<br\s*/?>|</(?:tr|p|div|li|h\d)\s*>", "\n", text)
    text = html.unescape(re.sub(r"<[^<>]*>", "", text))
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def _error(output: Output) -> str:
    """Name and message, the frames in the user's own code, the last one, and the causes."""
    message = plain(f"{output['ename']}: {output['evalue']}")
    entries = [plain(entry).strip("\n") for entry in output.get("traceback", ())]
    entries = [
        entry
        for entry in entries
        if not _NO_FRAME.match(entry) and entry.strip() != message.strip()
    ]
    frames = [place for place, entry in enumerate(entries) if _FRAME.match(entry)]
    own = [place for place in frames if not _LIBRARY.match(entries[place])]
    selected = {*own[:1], *own[-_OWN_FRAMES:], *frames[-1:]}
    if not frames:  # not a Python traceback: its end says most
        selected = set(range(len(entries))[-2:])
    lines = [message]
    left_out = 0
    for place, entry in enumerate(entries):
        if place in selected or (frames and place not in frames):
            lines += [f"... {left_out} frames left out ..."] if left_out else []
            lines.append(entry[-_FRAME_CHARS:])
            left_out = 0
        else:
            left_out += 1
    return "\n".join(lines)


def join_lines(value: Any) -> str:
    """A multi-line string of nbformat, which may be a list of lines in the file. Kernels may
    also send null, or a number.
    """
    if isinstance(value, list):
        return "".join(map(str, value))
    return "" if value is None else str(value)


_PLOTLY = "application/vnd.plotly.v1+json"
_VEGA = re.compile(r"application/vnd\.(vega|vegalite)\.v\d+(\.\d+)*\+json")
_BOKEH = re.compile(r"docs_json\s*=\s*(?=\{)")
_MOST_TRACES = 6
_LABEL_CHARS = 80
_POINTS = ("x", "y", "z", "values", "lat", "lon", "r", "theta", "labels", "open", "a", "locations")
"""Keys of a plotly trace that hold its points, one array each.

https://plotly.com/javascript/reference/
"""
_BYTES = {"i1": 1, "u1": 1, "i2": 2, "u2": 2, "i4": 4, "u4": 4, "f4": 4, "f8": 8, "i8": 8, "u8": 8}


def chart_text(data: Mapping[str, Any]) -> str | None:
    """The chart of a MIME bundle in one line: library, title, axes, traces or marks, and how many
    points or rows. None without a chart of a known library.
    """
    for kind, value in data.items():
        if kind == _PLOTLY:
            return _plotly(_map(value))
        if found := _VEGA.fullmatch(kind):
            return _vega(_map(value), found[1])
    script = data.get("application/javascript")
    return _bokeh(script if isinstance(script, str) else "".join(script)) if script else None


def _chart(library: str, title: Any, axes: Mapping[str, Any], marks: Sequence[str]) -> str:
    words = [f"<chart of {library}"]
    label = _label(title)
    words += [f" {label}"] if label else []
    named = [f"{axis} {_label(name)}" for axis, name in axes.items() if _label(name)]
    words += [f", axes {', '.join(named)}"] if named else []
    if marks:
        left = len(marks) - _MOST_TRACES
        shown = [*marks[:_MOST_TRACES], *([f"{left} more"] if left > 0 else [])]
        words.append(f": {'; '.join(shown)}")
    return f"{''.join(words)}>"


def _label(value: Any) -> str:
    """A title in quotes; libraries store it as text, as lines, or as an object with its text."""
    if isinstance(value, Mapping):
        value = value.get("text")
    if isinstance(value, list):
        value = " ".join(str(line) for line in value)
    text = " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
    return f"'{text[:_LABEL_CHARS]}'" if text else ""


def _mark(kind: Any, name: Any, points: int | None) -> str:
    words = [str(kind)[:_LABEL_CHARS], _label(name)]
    words += [f"{points:,} points"] if points is not None else []
    return " ".join(filter(None, words))


def _plotly(figure: Mapping[str, Any]) -> str | None:
    if not all(isinstance(trace, Mapping) for trace in _list(figure.get("data"))):
        return None
    layout = _map(figure.get("layout"))
    axes = {
        key.replace("axis", ""): _map(value).get("title")
        for key, value in layout.items()
        if re.fullmatch(r"[xyz]axis\d*", key)
    }
    traces = [_map(trace) for trace in _list(figure.get("data"))]
    marks = [
        _mark(
            trace.get("type", "scatter"),
            trace.get("name"),
            max((_length(trace.get(key)) for key in _POINTS), default=0),
        )
        for trace in traces
    ]
    return _chart("plotly", layout.get("title"), axes, marks)


def _length(value: Any) -> int:
    """Length of an array as plotly and bokeh store it: a list, or bytes with their type."""
    if isinstance(value, list):
        return len(value)
    packed = _map(value)
    shape = packed.get("shape")
    if isinstance(shape, list) and shape and isinstance(shape[0], int):
        return shape[0]
    if isinstance(packed.get("bdata"), str):
        width = _BYTES.get(str(packed.get("dtype")).lstrip("<>|="), 8)
        return len(packed["bdata"].rstrip("=")) * 3 // 4 // width
    return 0


def _vega(spec: Mapping[str, Any], kind: str) -> str:
    axes: dict[str, Any] = {}
    marks = []
    for part in _parts(spec):
        mark = part.get("mark")
        if mark is not None:
            marks.append(_mark(_map(mark).get("type", mark), None, None))
        for channel, encoding in _map(part.get("encoding")).items():
            field = _map(encoding)
            if channel in ("x", "y", "color", "row", "column"):
                axes.setdefault(channel, field.get("title") or field.get("field"))
        marks += [_mark(_map(each).get("type"), None, None) for each in _list(part.get("marks"))]
    rows = [len(each) for each in _map(spec.get("datasets")).values() if isinstance(each, list)]
    for each in [_map(spec.get("data")), *map(_map, _list(spec.get("data")))]:
        rows += [len(each["values"])] if isinstance(each.get("values"), list) else []
    parts = list(dict.fromkeys(marks)) + ([f"{sum(rows):,} rows"] if rows else [])
    return _chart("vega-lite" if kind == "vegalite" else "vega", spec.get("title"), axes, parts)


def _parts(spec: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The chart and all views nested in it (layers, concatenations)."""
    yield spec
    if depth < 10:
        inner = [_map(spec.get("spec"))]
        for key in ("layer", "hconcat", "vconcat", "concat"):
            inner += map(_map, _list(spec.get(key)))
        for part in inner:
            if part:
                yield from _parts(part, depth + 1)


def _bokeh(script: str) -> str | None:
    found = _BOKEH.search(script)
    if found is None:
        return None
    try:
        documents, _ = json.JSONDecoder().raw_decode(script, found.end())
    except (ValueError, RecursionError):  # truncated, or too deep for a chart
        return None
    models = list(_models(documents))
    titles = [each["text"] for name, each in models if name == "Title" and each.get("text")]
    axes: dict[str, Any] = {}
    for name, attributes in models:
        for axis, place in (("x", "below"), ("y", "left")):
            for each in _list(attributes.get(place)) if name.lower() == "figure" else []:
                axes.setdefault(axis, _map(_map(each).get("attributes")).get("axis_label"))
    marks = []
    for name, attributes in models:
        if name == "GlyphRenderer":
            source = _map(_map(_map(attributes.get("data_source")).get("attributes")).get("data"))
            columns = [pair[1] for pair in _list(source.get("entries")) if len(_list(pair)) == 2]
            points = max(map(_length, columns), default=0)
            marks.append(_mark(_map(attributes.get("glyph")).get("name"), None, points))
    return _chart("bokeh", titles[0] if titles else None, axes, marks)


def _models(value: Any) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """(name, attributes) of all models of a document, outer ones first."""
    waiting = deque([value])
    while waiting:
        each = waiting.popleft()
        if isinstance(each, Mapping):
            if isinstance(each.get("name"), str) and isinstance(each.get("attributes"), Mapping):
                yield each["name"], each["attributes"]
            waiting += [inner for inner in each.values() if isinstance(inner, Mapping | list)]
        else:
            waiting += [inner for inner in each if isinstance(inner, Mapping | list)]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
