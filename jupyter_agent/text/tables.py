"""HTML tables of data frames as short text: shape, columns with their types, rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from html.parser import HTMLParser
from itertools import zip_longest

_SHAPE = re.compile(r"(?<![\d,])([\d,]+) rows × ([\d,]+) columns|shape: \(([\d,]+), ([\d,]+)\)")
_CELL_CHARS = 60


def frame_text(html: str, rows: int | None = None) -> str | None:
    """A pandas or polars frame as text; None for other HTML.

    A line `DataFrame 20640x3: price float | city | ...`, then a line per row. Types are guessed
    from the shown values (polars names its own); a column without a type is text. Of more than
    `rows` rows only the first and last are included. The shape is the one that the frame states,
    else that of the shown table.
    """
    if "dataframe" not in html:
        return None
    reader = _TableReader()
    reader.feed(html)
    if not reader.body:
        return None
    width = max(map(len, reader.body))
    headers = [_header(names) for names in zip_longest(*reader.head, fillvalue="")]
    headers += [""] * (width - len(headers))
    first = reader.index
    columns = [
        f"{name} {kind}".strip()
        for name, kind in zip(
            headers[first:], map(_kind, _columns(reader.body)[first:]), strict=False
        )
    ]
    shape = _SHAPE.search(html)
    size = "x".join(filter(None, shape.groups())) if shape else f"{len(reader.body)}x{len(columns)}"
    lines = [" | ".join(row).strip() for row in reader.body]
    if rows is not None and len(lines) > rows:
        head = rows - rows // 3
        gap = f"... {len(lines) - rows} rows ..."
        lines = [*lines[:head], gap, *lines[len(lines) - (rows - head) :]]
    return "\n".join([f"DataFrame {size}: {' | '.join(columns)}", *lines])


def _header(names: Sequence[str]) -> str:
    return "/".join(name for name in names if name)


def _columns(body: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip_longest(*body, fillvalue=""))


def _kind(values: Sequence[str]) -> str:
    """The common type of the values that are present; empty for text."""
    present = [value for value in values if value not in ("", "...", "NaN", "None", "NaT", "<NA>")]
    for name, reads in (("bool", _as_bool), ("int", int), ("float", float), ("date", _as_date)):
        try:
            for value in present:
                reads(value)
        except ValueError:
            continue
        return name if present else ""
    return ""


def _as_bool(value: str) -> bool:
    if value not in ("True", "False"):
        raise ValueError(value)
    return value == "True"


def _as_date(value: str) -> datetime:
    return datetime.fromisoformat(value)


class _TableReader(HTMLParser):
    """Collects the rows of a table's head and body, and the number of its index columns."""

    def __init__(self) -> None:
        super().__init__()
        self.head: list[list[str]] = []
        self.body: list[list[str]] = []
        self.index = 0
        self._open: list[str] = []
        self._row: list[str] | None = None
        self._tags: list[str] = []
        self._text: list[str] | None = None
        self._span = 1
        self._hanging: dict[int, int] = {}
        """Column -> how many more rows its `rowspan` cell covers."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("thead", "tbody"):
            self._open.append(tag)
        elif tag == "tr" and self._open:
            self._row, self._tags = [], []
        elif tag in ("th", "td") and self._row is not None:
            attributes = dict(attrs)
            self._cover()
            self._text, self._span = [], int(attributes.get("colspan") or 1)
            if (below := int(attributes.get("rowspan") or 1) - 1) > 0:
                self._hanging[len(self._row)] = below

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and self._row is not None and self._text is not None:
            text = " ".join("".join(self._text).split())
            self._row += [text[:_CELL_CHARS]] * self._span
            self._tags += [tag] * self._span
            self._text = None
        elif tag == "tr" and self._row is not None:
            self._end_row()
        elif tag in ("thead", "tbody") and self._open:
            self._open.pop()

    def _cover(self) -> None:
        """Fill in cells that a `rowspan` in a row above covers."""
        assert self._row is not None
        while self._hanging.get(len(self._row), 0) > 0:
            self._hanging[len(self._row)] -= 1
            self._row.append("")
            self._tags.append("th")

    def _end_row(self) -> None:
        assert self._row is not None
        self._cover()
        if self._open[-1] == "thead":
            self.head.append(self._row)
        else:
            if not self.body:
                self.index = self._tags.count("th")
            self.body.append(self._row)
        self._row = None
