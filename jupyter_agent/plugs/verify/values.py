"""Compares stored values with those of two fresh runs."""

from __future__ import annotations

import array
import ast
import base64
import binascii
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from jupyter_agent.legible import clip

Likeness: TypeAlias = Literal["same", "close", "differs"]

SAME = 1e-6
"""Relative: other processors and libraries compute the same sum within this."""
CLOSE = 1e-3
"""Relative: such a number looks like the same result but is not equal."""
_NOISE = 1e-14
"""Absolute: smaller numbers are rounding errors around zero."""
_SHOWN = 80
"""Characters of a value or line in an explanation."""
_NAMED = 3
"""Items of one kind that an explanation names."""
_PACKED = {"f8": "d", "f4": "f", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
"""Type of plotly's packed arrays -> that of `array`. https://plotly.com/python/reference/"""


class Findings:
    """Collects the differences that a comparison finds."""

    def __init__(self) -> None:
        self.differs = ""
        """The first difference, as a sentence."""
        self.close = ""
        """The first small difference, as a sentence."""
        self._volatile: list[str] = []
        self._incomparable: list[str] = []

    def differ(self, why: str) -> None:
        """Note a difference that counts."""
        self.differs = self.differs or why

    def is_close(self, why: str) -> None:
        """Note a small difference."""
        self.close = self.close or why

    def volatile(self, what: str) -> None:
        """Note something that differs in every run and so was not compared."""
        self._volatile.append(what)

    def incomparable(self, what: str) -> None:
        """Note something that cannot be compared."""
        self._incomparable.append(what)

    @property
    def not_compared(self) -> str:
        """The parts that were not compared, in words; empty if everything was."""
        notes = []
        if self._volatile:
            notes.append(f"Different in every run: {_list(self._volatile)}.")
        if self._incomparable:
            notes.append(f"Not comparable: {_list(self._incomparable)}.")
        return " ".join(notes)


def numbers(old: float, new: float) -> Likeness:
    """How similar two numbers are; two integers are never `close`."""
    if old == new or (old != old and new != new):
        return "same"
    if isinstance(old, int) and isinstance(new, int):
        return "differs"
    if math.isclose(old, new, rel_tol=SAME):
        return "same"
    noise = abs(old) < _NOISE and abs(new) < _NOISE
    return "close" if noise or math.isclose(old, new, rel_tol=CLOSE) else "differs"


def compare_values(
    old: Any, new: Any, again: Any, found: Findings, *, at: str = "", ordered: bool = False
) -> None:
    """Compare, and report differences to `found`; those between the two new values do not count.
    `ordered`: the order of a dict's entries is visible and counts.
    """
    old, new, again = _unpack(old), _unpack(new), _unpack(again)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and isinstance(again, Mapping):
        _mappings(old, new, again, found, at, ordered)
    elif _is_list(old) and _is_list(new) and _is_list(again):
        if len(new) != len(again):
            found.volatile(at or "a list")
        elif len(old) != len(new):
            found.differ(f"{at or 'it'} had {len(old)} items, has {len(new)} now")
        else:
            for place, items in enumerate(zip(old, new, again, strict=True)):
                compare_values(*items, found, at=f"{at}[{place}]", ordered=ordered)
    elif _is_number(old) and _is_number(new):
        likeness = numbers(old, new)
        if likeness != "same" and _is_number(again) and numbers(new, again) == "same":
            tell = found.is_close if likeness == "close" else found.differ
            tell(_was(old, new, at))
        elif likeness != "same":
            found.volatile(_name_or_value(new, at))
    elif old != new:
        if new != again:
            found.volatile(_name_or_value(new, at))
        else:
            found.differ(_was(old, new, at))


def brief(text: str) -> str:
    """The start of a text, on one line."""
    return clip(" ".join(text.split()), _SHOWN)


def _mappings(
    old: Mapping[Any, Any],
    new: Mapping[Any, Any],
    again: Mapping[Any, Any],
    found: Findings,
    at: str,
    ordered: bool,
) -> None:
    if new.keys() != again.keys():
        found.volatile(f"names in {at}" if at else "names")
    elif old.keys() != new.keys():
        (other,) = sorted(map(str, old.keys() ^ new.keys()))[:1]
        found.differ(f"`{brief(f'{at}.{other}'.lstrip('.'))}` is in only one of the two")
    elif ordered and list(old) != list(new) and list(new) == list(again):
        found.is_close("the same entries in another order")
    for key in new:
        if key in old and key in again:
            where = f"{at}.{key}".lstrip(".")
            compare_values(old[key], new[key], again[key], found, at=where, ordered=ordered)


def _unpack(value: Any) -> Any:
    """The numbers of an array that plotly packed; any other value unchanged."""
    if not (isinstance(value, Mapping) and isinstance(value.get("bdata"), str)):
        return value
    code = _PACKED.get(str(value.get("dtype")))
    if code is None:
        return value
    numbers_in = array.array(code)
    try:
        numbers_in.frombytes(base64.b64decode(value["bdata"], validate=True))
    except (binascii.Error, ValueError):
        return value
    if sys.byteorder == "big":
        numbers_in.byteswap()
    shape = {"shape": value["shape"]} if "shape" in value else None
    return [shape, *numbers_in] if shape else list(numbers_in)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _was(old: Any, new: Any, at: str) -> str:
    where = f"`{brief(at)}` " if at else ""
    return f"{where}was `{brief(str(old))}`, is now `{brief(str(new))}`"


def _name_or_value(value: Any, at: str) -> str:
    return f"`{brief(at)}`" if at else f"`{brief(str(value))}`"


def _list(items: Sequence[str]) -> str:
    items = list(dict.fromkeys(items))
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


_OWN = (
    (re.compile(r" at 0x[0-9a-fA-F]+(?=[>\s])"), " at 0x"),
    (re.compile(r"\b(In|Out) ?\[\d+\]"), r"\1[]"),
    (
        re.compile(r"^(?:\S?[A-Za-z]?:?[^:\n]*[/\\])?([^/\\:\n]+|<[^>\n]+>):\d+: (?=\w*Warning: )"),
        r"\1: ",
    ),
)
_UNITS = {
    **dict.fromkeys(("ns",), 1e-9),
    **dict.fromkeys(("us", "µs", "μs"), 1e-6),
    **dict.fromkeys(("ms",), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_PART = rf"\d{{1,12}}(?:\.\d{{1,12}})?(?:e-?\d{{1,3}})? ?(?:{_UNIT})\b"
_MEASURED = re.compile(rf"(\d+(?:\.\d+)?(?:e-?\d+)?) ?({_UNIT})\b")
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_TIME = "|".join(
    (
        rf"\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]{_CLOCK}{_ZONE})?",
        rf"{_DAY},? +{_MONTH} +\d{{1,2}} +{_CLOCK}{_ZONE} +\d{{4}}",  # ctime
        rf"{_DAY},? +\d{{1,2}} {_MONTH} \d{{4}}(?: {_CLOCK}{_ZONE})?",  # RFC 2822
        rf"\d{{1,2}} {_MONTH} \d{{4}}(?: {_CLOCK})?",
        rf"{_MONTH} \d{{1,2}}, \d{{4}}(?:,? {_CLOCK})?",
    )
)
_TOKEN = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<meter>\[[\d:]{4,8}<[\d:?]{1,8}, *[\d.?]{1,12} ?[^\s\]/]{0,12}/[^\s\],]{1,12}"
    r"|\b\d{1,6}[mµu]?s \d{1,6}[mµu]?s/step)"
    rf"|(?P<time>\b(?:{_TIME})(?![\w-]))"
    rf"|(?P<clock>(?<![\w.:]){_CLOCK}(?![\w:]))"
    rf"|(?P<duration>(?<![\w.])(?!\d{{4}}s){_PART}(?:,? {_PART}){{0,4}})"
    r"|(?P<number>(?:(?<=[\s(\[,=:{|])|^)[-+](?=[\d.])(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?!\.?\w)"
    r"|(?<![\w.])(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?!\.?\w))"
    r"|(?P<word>\w++|[^\w\s])"
)
_LITERAL = 4_000
"""Characters of a literal up to which it is parsed."""


@dataclass(frozen=True)
class Token:
    """One token of a line."""

    kind: str
    text: str

    @property
    def value(self) -> Any:
        """The value of a number, a duration (in seconds) or a literal; else the text."""
        if self.kind == "literal":
            return literal(self.text)
        if self.kind == "duration":
            return sum(float(count) * _UNITS[unit] for count, unit in _MEASURED.findall(self.text))
        if self.kind == "number":
            return int(self.text) if self.text.lstrip("+-").isdecimal() else float(self.text)
        return self.text


def tokens(line: str) -> list[Token]:
    """The tokens of a line, in order.

    A difference between two runs is located by its token. So a token is as large as what changes as
    a whole (a date, an id, `5 min 2 s`), and no larger.

    Text that the language itself writes around results is left out: the address in Python's own
    `<object at 0x...>`, the count in `In [3]`, and the place of a warning's code.
    """
    for pattern, instead in _OWN:
        line = pattern.sub(instead, line)
    found: list[Token] = []
    place, tried = 0, 0
    while (match := _TOKEN.search(line, place)) is not None:
        place = match.end()
        if match.group() == "{" and tried < _LITERAL:
            text = _braced_text(line, match.start())
            tried += len(text) or _LITERAL
            if text and literal(text) is not None:
                found.append(Token("literal", text))
                place = match.start() + len(text)
                continue
        found.append(Token(match.lastgroup or "", match.group()))
    return found


@lru_cache(maxsize=256)
def literal(text: str) -> Any:
    """The value of a Python literal; None for other text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _braced_text(line: str, start: int) -> str:
    """The text from a brace to its closing brace; empty if that is too far away."""
    depth, quote = 0, ""
    for place in range(start, min(len(line), start + _LITERAL)):
        character = line[place]
        if quote:
            quote = "" if character == quote and line[place - 1] != "\\" else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character == "{") - (character == "}")
            if not depth:
                return line[start : place + 1]
    return ""
