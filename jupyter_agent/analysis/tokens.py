"""Lines of text as what they say: numbers, times, durations, literals, words.

Where two runs of one cell say something else in a place, that place is found by its token: so a
token is as large as what changes as a whole (a date, an id, `5 min 2 s`), and no larger.

What the language itself writes around results is left out here: the address in Python's own
`<object at 0x...>`, the count in `In [3]`, and the place of a warning's code.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

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
