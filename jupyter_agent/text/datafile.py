"""The beginning of a file of data as a model reads it, and how much there is of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath

_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
_ENDINGS = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/json": ".json",
    "text/plain": ".txt",
}
"""Of media types, where the name of a file says less."""
_SNIFFED = 10
"""Lines by which the delimiter is told."""


def shape(name: str, text: str, media_type: str = "") -> str:
    """How much data is in a file of that name or type: "1,204 rows, 5 columns"; empty for other
    files.
    """
    ending = PurePosixPath(name).suffix.lower()
    if ending not in (*_DELIMITERS, ".json"):
        ending = _ENDINGS.get(media_type, ending)
    if ending == ".txt" and _is_table(text):  # "Unicode text" of Excel
        ending = ".tsv"
    if ending in _DELIMITERS:
        return _table(text, _DELIMITERS[ending])
    if ending == ".json":
        return _json(text)
    return f"{_counted(len(text.splitlines()), 'line')}" if ending == ".txt" else ""


def beginning(text: str, most: int) -> str:
    """At most so many characters of a text, as whole lines where one fits."""
    if len(text) <= most:
        return text
    head = text[:most]
    end = head.rfind("\n")
    return head[:end] if end > 0 else head


def _is_table(text: str) -> bool:
    """Whether its lines have the same number of tabs."""
    lines = _sniffed(text)
    tabs = {line.count("\t") for line in lines}
    return len(lines) > 1 and len(tabs) == 1 and tabs != {0}


def _sniffed(text: str) -> list[str]:
    return list(islice((line for line in text.splitlines() if line.strip()), _SNIFFED))


def _table(text: str, delimiters: str) -> str:
    lines = _sniffed(text)
    if not lines:
        return "empty"
    delimiter = max(delimiters, key=lambda one: min(line.count(one) for line in lines))
    records = csv.reader(_bounded(text), delimiter=delimiter)
    try:
        header = next(records)
        rows = sum(1 for record in records if record)
    except csv.Error:  # a cell that no program takes
        return _counted(len(text.splitlines()), "line")
    return f"{_counted(rows, 'row')} below the first, {_counted(len(header), 'column')}"


def _bounded(text: str) -> Iterator[str]:
    """Lines with their ends, without blank ones at the top."""
    lines = iter(text.splitlines(keepends=True))
    first = next((line for line in lines if line.strip()), "")
    yield first
    yield from lines


def _json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "not valid JSON"
    if isinstance(value, list):
        return f"a list of {_counted(len(value), 'item')}"
    if isinstance(value, dict):
        return f"an object of {_counted(len(value), 'key')}"
    return "a single value"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
