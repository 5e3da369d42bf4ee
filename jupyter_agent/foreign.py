"""Limits for foreign data: from models, servers, programs, notebooks."""

from __future__ import annotations

import json
import math
import os
from typing import Any, NoReturn

MOST_IN_PATH = 4_096
"""Characters of a path: more than Linux, macOS or Windows can open."""
MOST_FOLDERS = 255
"""In a path: each is checked separately."""
DEEPEST = 64
"""Levels of JSON in a message. Recursive code could fail on deeper values."""


def parse(text: str, deepest: int = DEEPEST, *, constants: bool = False) -> Any:
    """The value of a JSON text; with `constants` also with `NaN` and `Infinity`, as Python writes
    them. Raises ValueError if it is invalid, nested too deep, or has a number that is too large to
    be sent on.
    """
    try:
        value = (_WITH_CONSTANTS if constants else _FINITE).decode(text)
    except RecursionError:
        raise too_deep(deepest) from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) or "set_int_max_str_digits" not in str(error):
            raise
        raise ValueError("it has a number with too many digits") from None
    refuse_deep(value, deepest, text)
    return value


def path_fault(path: str) -> str:
    """Why nothing can have this path, as a sentence; empty if something can."""
    if "\0" in path:
        return "Paths must not contain NUL."
    if len(path) > MOST_IN_PATH or path.count("/") > MOST_FOLDERS:
        return (
            f"A path has at most {MOST_IN_PATH:,} characters and {MOST_FOLDERS} folders; this "
            f"one has {len(path):,} and {path.count('/')}."
        )
    try:
        os.fsencode(path)
    except ValueError:  # a lone surrogate
        return f"{path!r} cannot be a path."
    return ""


def refuse_deep(value: Any, deepest: int = DEEPEST, text: str | None = None) -> None:
    """Raises ValueError for JSON that is nested too deep; `text` is its spelling, if known."""
    if text is not None and text.count("[") + text.count("{") <= deepest:
        return
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(deepest):
        if not level:
            return
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
    if level:
        raise too_deep(deepest)


def printable(value: Any, deepest: int = DEEPEST) -> Any:
    """JSON with lone surrogates replaced: no file, socket or database takes them.

    Raises ValueError if it is nested too deep.
    """
    try:
        text = _UNESCAPED.encode(value)
    except RecursionError:
        raise too_deep(deepest) from None
    refuse_deep(value, deepest, text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return value


def json_text(value: Any) -> str:
    """JSON that each client can read: `NaN` and infinite numbers, which only Python reads, as in
    the metadata of a notebook, are null.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda name: None))


def too_deep(deepest: int = DEEPEST) -> ValueError:
    """The error for JSON that is nested too deep."""
    return ValueError(f"it is nested deeper than {deepest} levels")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _refuse(text)
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Made once, because `json` makes a new one for each call with options.
_FINITE = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_WITH_CONSTANTS = json.JSONDecoder(parse_constant=float)
_UNESCAPED = json.JSONEncoder(ensure_ascii=False)
