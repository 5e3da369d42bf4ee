"""Interactive charts in one line for a model: kind, title, axes, traces and how many points."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_PLOTLY = "application/vnd.plotly.v1+json"
_VEGA = re.compile(r"application/vnd\.(vega|vegalite)\.v\d+(\.\d+)*\+json")
_BOKEH = re.compile(r"docs_json\s*=\s*(?=\{)")
_MOST_TRACES = 6
_LABEL_CHARS = 80
_POINTS = ("x", "y", "z", "values", "lat", "lon", "r", "theta", "labels", "open", "a", "locations")
"""Where a trace of plotly keeps its points, one array each.

https://plotly.com/javascript/reference/
"""
_BYTES = {"i1": 1, "u1": 1, "i2": 2, "u2": 2, "i4": 4, "u4": 4, "f4": 4, "f8": 8, "i8": 8, "u8": 8}


def chart_text(data: Mapping[str, Any]) -> str | None:
    """The chart of a bundle in a line; None where there is none that we know."""
    for kind, value in data.items():
        if kind == _PLOTLY:
            return _plotly(_map(value))
        if found := _VEGA.fullmatch(kind):
            return _vega(_map(value), found[1])
    script = data.get("application/javascript")
    return _bokeh(script if isinstance(script, str) else "".join(script)) if script else None


def _told(library: str, title: Any, axes: Mapping[str, Any], marks: Sequence[str]) -> str:
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
    """A title in quotes; libraries have it as text, as lines, or as an object with its text."""
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
    return _told("plotly", layout.get("title"), axes, marks)


def _length(value: Any) -> int:
    """Of an array as plotly and bokeh write them: a list, or bytes with their type."""
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
    told = list(dict.fromkeys(marks)) + ([f"{sum(rows):,} rows"] if rows else [])
    return _told("vega-lite" if kind == "vegalite" else "vega", spec.get("title"), axes, told)


def _parts(spec: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The views of a chart, wherever it has them side by side or above each other."""
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
    except (ValueError, RecursionError):  # cut off, or deeper than any chart
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
    return _told("bokeh", titles[0] if titles else None, axes, marks)


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
