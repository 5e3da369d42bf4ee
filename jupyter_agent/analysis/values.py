"""Values that are compared by what they are, of two fresh runs with one that was stored."""

from __future__ import annotations

import array
import base64
import binascii
import math
import sys
from collections.abc import Mapping, Sequence
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
