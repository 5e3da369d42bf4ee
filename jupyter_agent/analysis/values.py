"""Values that are compared by what they are, of two fresh runs with one that was stored."""

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
"""Relative: what other processors and libraries make of the same sum."""
CLOSE = 1e-3
"""Relative. Such a number is no other result at first sight, and is not the same either."""
_NOISE = 1e-14
"""Numbers around zero that are rounding alone."""
_SHOWN = 80
"""Characters of a value or line in an explanation."""
_NAMED = 3
"""Things of one kind that are named in an explanation."""
_PACKED = {"f8": "d", "f4": "f", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
"""Types of plotly's packed arrays -> those of `array`. https://plotly.com/python/reference/"""


class Findings:
    """What a comparison found, gathered along the way."""

    def __init__(self) -> None:
        self.differs = ""
        """The first difference, as a sentence."""
        self.close = ""
        """The first that is small."""
        self._anew: list[str] = []
        self._unread: list[str] = []

    def differ(self, why: str) -> None:
        """A difference that counts."""
        self.differs = self.differs or why

    def is_close(self, why: str) -> None:
        """One that is small."""
        self.close = self.close or why

    def anew(self, what: str) -> None:
        """Each run makes this anew, so it was not compared."""
        self._anew.append(what)

    def unread(self, what: str) -> None:
        """This cannot be compared, so it was not."""
        self._unread.append(what)

    @property
    def not_compared(self) -> str:
        """In words; empty where everything was."""
        anew = f"What each run makes anew: {_list(self._anew)}." if self._anew else ""
        unread = f"What cannot be compared: {_list(self._unread)}." if self._unread else ""
        return " ".join(filter(None, (anew, unread)))


def numbers(old: float, new: float) -> Likeness:
    """How much alike two numbers are; whole ones are the same or not."""
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
    """Compare, and tell `found` what is not the same; what differs between the two new ones does
    not count. `ordered`: the order of a dict's entries is seen.
    """
    old, new, again = _unpacked(old), _unpacked(new), _unpacked(again)
    if isinstance(old, Mapping) and isinstance(new, Mapping) and isinstance(again, Mapping):
        _mappings(old, new, again, found, at, ordered)
    elif _is_list(old) and _is_list(new) and _is_list(again):
        if len(new) != len(again):
            found.anew(at or "a list")
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
            found.anew(_named(new, at))
    elif old != new:
        if new != again:
            found.anew(_named(new, at))
        else:
            found.differ(_was(old, new, at))


def brief(text: str) -> str:
    """The beginning of a text, on one line."""
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
        found.anew(f"names in {at}" if at else "names")
    elif old.keys() != new.keys():
        (other,) = sorted(map(str, old.keys() ^ new.keys()))[:1]
        found.differ(f"`{brief(f'{at}.{other}'.lstrip('.'))}` is there only once")
    elif ordered and list(old) != list(new) and list(new) == list(again):
        found.is_close("the same entries in another order")
    for key in new:
        if key in old and key in again:
            where = f"{at}.{key}".lstrip(".")
            compare_values(old[key], new[key], again[key], found, at=where, ordered=ordered)


def _unpacked(value: Any) -> Any:
    """The numbers of an array as plotly packs it; everything else as it is."""
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


def _named(value: Any, at: str) -> str:
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
"""Characters of a literal that is read."""


@dataclass(frozen=True)
class Token:
    """One thing that a line says."""

    kind: str
    text: str

    @property
    def value(self) -> Any:
        """What a number, a duration (in seconds) or a literal is worth; else its text."""
        if self.kind == "literal":
            return literal(self.text)
        if self.kind == "duration":
            return sum(float(count) * _UNITS[unit] for count, unit in _MEASURED.findall(self.text))
        if self.kind == "number":
            return int(self.text) if self.text.lstrip("+-").isdecimal() else float(self.text)
        return self.text


def tokens(line: str) -> list[Token]:
    """What the line says, in order."""
    for pattern, instead in _OWN:
        line = pattern.sub(instead, line)
    found: list[Token] = []
    place, tried = 0, 0
    while (match := _TOKEN.search(line, place)) is not None:
        place = match.end()
        if match.group() == "{" and tried < _LITERAL:
            text = _braced(line, match.start())
            tried += len(text) or _LITERAL
            if text and literal(text) is not None:
                found.append(Token("literal", text))
                place = match.start() + len(text)
                continue
        found.append(Token(match.lastgroup or "", match.group()))
    return found


@lru_cache(maxsize=256)
def literal(text: str) -> Any:
    """The value of a Python literal; None where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _braced(line: str, start: int) -> str:
    """From a brace to the one that closes it; empty where none does soon."""
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
