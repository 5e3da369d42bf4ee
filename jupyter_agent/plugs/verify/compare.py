"""Whether a cell shows the same as before, as a reader would judge it.

Outputs that differ between two fresh runs are volatile and not compared; everything else counts.
So `compare` also takes the outputs of a second fresh run, if there was one. It says in words what
it did not compare. These count as equal:

* numbers within 1e-6 (`close`: within 0.1 %, or rounding around zero); integers only exactly;
* sets in any order, if their text can be parsed; a dict in another order is `close`;
* PNG pictures with the same pixels (`close`: the same thumbnail); JPEG and other files with the
  same bytes;
* figures and other JSON by value, data frames by the contents of their table, pages and SVG
  regardless of the ids in them, and all other text line by line: indentation and blank lines
  count, the width of gaps does not.

Stdout, stderr and displays are compared separately, since their relative order depends on timing.
Three things are known to be measured even without a second run: progress meters, durations if the
cell's code measures time, and today's dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, TypeVar

from jupyter_agent.document.cell import Output
from jupyter_agent.plugs.verify.ids import number_ids
from jupyter_agent.plugs.verify.pixels import Png, png
from jupyter_agent.plugs.verify.values import (
    Findings,
    Likeness,
    Token,
    brief,
    compare_values,
    numbers,
    tokens,
)
from jupyter_agent.text.images import pixels
from jupyter_agent.text.outputs import bundle_text, join_lines, plain
from jupyter_agent.text.tables import frame_text

_LOOKS_SAME = 12
"""Of 255: how much the fields of a thumbnail may differ if another version of a font or library
drew the same. Determined by drawing matplotlib figures shifted by a pixel or two."""
_BY_CHANCE = 3
"""How many times more a picture has to differ from the stored one than from another run's."""
_LONGEST = 1_000_000
"""Characters of a line up to which it is parsed; a longer one has to be equal."""
_ALIGNED = 200
"""Lines or tokens that are aligned if two runs have different numbers of them; of more, only the
common start and end are used, since aligning takes quadratic time."""
_NOW = timedelta(hours=1)
_T = TypeVar("_T")
_STREAMS = ("stdout", "stderr")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_TAKES_TIME = re.compile(
    r"(?m)^\s*%%?time(?:it)?\b|\b(?:perf_counter|process_time|monotonic|time\.time|timeit)\b"
)
_TIMED = re.compile(r"^(?:CPU times: |Wall time: )| per loop|\bloops? each\)")
"""Output of IPython's `%time` and `%timeit`."""
_TAGS = re.compile(r">\s*<")


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison."""

    likeness: Likeness
    why: str = ""
    """The first difference, as a sentence; empty if all is the same."""
    not_compared: str = ""
    """The parts that were not compared, in words; empty if everything was."""


def compare(
    stored: Sequence[Output],
    fresh: Sequence[Output],
    again: Sequence[Output] | None = None,
    *,
    source: str = "",
) -> Comparison:
    """Compare the fresh outputs of a cell with this source with its stored ones.

    `again` are its outputs in a second fresh run; without them everything counts.
    """
    comparer = _Comparer(source)
    runs = (stored, fresh, fresh if again is None else again)
    for name in _STREAMS:
        comparer.text(*(_stream(outputs, name) for outputs in runs), at=f"{name}: ")
    comparer.displays(*(_displays(outputs) for outputs in runs))
    found = comparer.found
    likeness: Likeness = "differs" if found.differs else "close" if found.close else "same"
    return Comparison(likeness, found.differs or found.close, found.not_compared)


def _stream(outputs: Sequence[Output], name: str) -> str:
    return plain(
        "".join(join_lines(output["text"]) for output in outputs if output.get("name") == name)
    )


def _displays(outputs: Sequence[Output]) -> list[Output]:
    return [output for output in outputs if output["output_type"] != "stream"]


class _Comparer:
    """Compares the outputs of one cell."""

    def __init__(self, source: str) -> None:
        self.found = Findings()
        self._takes_time = bool(_TAKES_TIME.search(source))
        self._now = datetime.now(UTC)

    # -- displays

    def displays(
        self, stored: Sequence[Output], fresh: Sequence[Output], again: Sequence[Output]
    ) -> None:
        if len(fresh) != len(again):
            self.found.volatile(f"the number of outputs ({len(fresh)} and {len(again)})")
        elif len(stored) > len(fresh):
            self.found.differ(f"an output is missing: `{_brief(stored[len(fresh)])}`")
        elif len(fresh) > len(stored):
            self.found.differ(f"a new output: `{_brief(fresh[len(stored)])}`")
        for number, outputs in enumerate(zip(stored, fresh, again, strict=False), start=1):
            self._display(*outputs, at=f"output {number}: " if len(fresh) > 1 else "")

    def _display(self, old: Output, new: Output, again: Output, *, at: str) -> None:
        if "error" in (old["output_type"], new["output_type"]):
            self.text(_message(old), _message(new), _message(again), at=at)
            return
        before, now, once_more = (output.get("data", {}) for output in (old, new, again))
        if _kinds(before) != _kinds(now):
            if _kinds(now) != _kinds(once_more):
                self.found.volatile(f"{at}the kind of output")
            else:
                self.found.differ(f"{at}{_kind_names(before)} before, {_kind_names(now)} now")
            return
        for kind in _kinds(now):
            values = [data.get(kind, "") for data in (before, now, once_more)]
            self._kind(kind, *values, at=at)
        self.text(*(_text_of(data) for data in (before, now, once_more)), at=at)

    def _kind(self, kind: str, old: Any, new: Any, again: Any, *, at: str) -> None:
        if kind == _WIDGET:
            self.found.incomparable("the state of a widget")
        elif kind == "image/png":
            self._picture(*map(join_lines, (old, new, again)), at=at)
        elif kind == "image/svg+xml":
            self._page(*map(join_lines, (old, new, again)), at=f"{at}{kind}: ")
        elif kind == "text/html":
            self._html(*map(join_lines, (old, new, again)), at=at)
        elif not isinstance(new, str | list) or kind.endswith("json"):
            compare_values(old, new, again, self.found)
        elif "".join(join_lines(old).split()) != "".join(join_lines(new).split()):
            if join_lines(new) != join_lines(again):
                self.found.volatile(f"{kind}")
            else:
                self.found.differ(
                    f"{at}{kind} is a different file (compared by its bytes, not by its pixels)"
                )

    def _html(self, old: str, new: str, again: str, *, at: str) -> None:
        """Compare pages, except data frames, whose tables are compared as text."""
        if None in (frame_text(old), frame_text(new), frame_text(again)):
            self._page(old, new, again, at=at)

    def _page(self, old: str, new: str, again: str, *, at: str) -> None:
        if old != new:
            pages = number_ids((old, new, again))
            self.text(*(_TAGS.sub(">\n<", page) for page in pages), at=at)

    # -- pictures

    def _picture(self, old: str, new: str, again: str, *, at: str) -> None:
        if "".join(old.split()) == "".join(new.split()):
            return
        before, now = png(old), png(new)
        if before is None or now is None:
            if new != again:
                self.found.volatile("a picture")
            else:
                self.found.differ(f"{at}image/png is a different file (compared by its bytes)")
            return
        if before == now:
            return
        if not (_near(before.width, now.width) and _near(before.height, now.height)):
            sizes = (pixels("image/png", value) for value in (old, new))
            was, is_now = (f"{size[0]}x{size[1]}" if size else "" for size in sizes)
            if png(again) is not None and pixels("image/png", again) != pixels("image/png", new):
                self.found.volatile("the size of a picture")
            else:
                self.found.differ(f"{at}image/png {was} before, {is_now} now")
            return
        once_more = now if again == new else png(again) or now
        self._thumbnails(before, now, once_more, at)

    def _thumbnails(self, before: Png, now: Png, again: Png, at: str) -> None:
        """Fields that differ between the two fresh runs do not count. If the runs differ from each
        other about as much as from the stored picture, nothing counts: the picture is random.
        """
        old, new, once_more = (b"".join(each.thumbnail) for each in (before, now, again))
        changes = [abs(was - is_now) for was, is_now in zip(old, new, strict=True)]
        chance = [abs(is_now - then) for is_now, then in zip(new, once_more, strict=True)]
        steady = (change for change, by in zip(changes, chance, strict=True) if not by)
        most = max(steady, default=0)
        if any(chance):
            self.found.volatile("a part of a picture")
            if sum(changes) <= _BY_CHANCE * sum(chance):
                return
        if most > _LOOKS_SAME:
            self.found.differ(f"{at}the picture shows something else")
        elif most or not any(chance):
            self.found.is_close(f"{at}the picture looks the same, but not all of its pixels are")

    # -- text

    def text(self, stored: str, fresh: str, again: str, *, at: str) -> None:
        if stored == fresh:
            return
        runs = [_lines(text) for text in (stored, fresh, again)]
        old, new, once_more = runs
        if len(new) != len(once_more):
            self._pattern(old, new, once_more, at)
            return
        numbered = len(new) > 1
        shifted = False
        for number, (was, is_now, then) in enumerate(
            zip(old, new, once_more, strict=False), start=1
        ):
            where = f"{at}line {number} " if numbered else at
            if not self._line(was, is_now, then, where):
                return
            shifted = shifted or was.strip() != is_now.strip()
        if len(new) < len(old):
            self.found.differ(f"{at}ends before `{_first(old[len(new) :])}`")
        elif len(new) > len(old):
            self.found.differ(f"{at}continues with `{_first(new[len(old) :])}`")
        elif not shifted and (why := _indent_difference(old, new, once_more)):
            self.found.differ(f"{at}{why}")

    def _pattern(
        self, old: Sequence[str], new: Sequence[str], again: Sequence[str], at: str
    ) -> None:
        """The two runs differ in their number of lines: those that both have must be in the stored
        text.
        """
        self.found.volatile(f"{at}the number of lines")
        missing = _misfit(old, new, again, _same_line)
        if missing:
            self.found.differ(f"{at}no `{brief(missing[0])}` in the stored output")

    def _line(self, old: str, new: str, again: str, at: str) -> bool:
        """Compare a line; False if the rest need not be compared."""
        if old == new:
            return True
        was_now = f"{at}was `{brief(old)}`, is now `{brief(new)}`"
        if max(len(old), len(new), len(again)) > _LONGEST:
            if new != again:
                self.found.volatile(f"`{brief(new)}`")
                return True
            self.found.differ(was_now)
            return False
        if self._takes_time and _TIMED.search(old) and _TIMED.search(new):
            self.found.volatile(f"`{brief(new)}`")
            return True
        before, now, once_more = _tokens(old), _tokens(new), _tokens(again)
        if before == now:
            return True
        if not len(before) == len(now) == len(once_more):
            if now == once_more or _misfit(before, now, once_more, self._same_token):
                self.found.differ(was_now)
                return False
            self.found.volatile(f"`{brief(new)}`")
            return True
        for token, fresh, then in zip(before, now, once_more, strict=True):
            if not self._tokens(token, fresh, then, old, new, was_now):
                return False
        return True

    def _tokens(
        self, old: Token, new: Token, again: Token, line: str, fresh: str, was_now: str
    ) -> bool:
        if old == new:
            return True
        if old.kind == new.kind == again.kind == "literal":
            found = Findings()
            compare_values(old.value, new.value, again.value, found, ordered=True)
            if found.differs:
                self.found.differ(was_now)
            elif found.close:
                self.found.is_close(was_now)
            if found.not_compared:
                self.found.volatile(f"`{brief(fresh)}`")
            return not found.differs
        likeness = self._token(old, new)
        if likeness == "same":
            return True
        if new != again or self._is_measured(old, new):
            self.found.volatile(f"`{brief(fresh)}`")
            return True
        if likeness == "close":
            self.found.is_close(was_now)
            return True
        self.found.differ(was_now)
        return False

    def _same_token(self, old: Token, new: Token) -> bool:
        return self._token(old, new) == "same"

    def _token(self, old: Token, new: Token) -> Likeness:
        if old.kind != new.kind or old.kind not in ("number", "duration"):
            return "same" if old == new else "differs"
        return numbers(old.value, new.value)

    def _is_measured(self, old: Token, new: Token) -> bool:
        if old.kind != new.kind:
            return False
        if new.kind == "time":
            return _is_now(new.text, self._now)
        return new.kind == "meter" or (new.kind == "duration" and self._takes_time)


def _misfit(
    old: Sequence[_T], new: Sequence[_T], again: Sequence[_T], same: Callable[[_T, _T], bool]
) -> list[_T]:
    """The first item that both fresh runs share and the stored one lacks in that order, as a list;
    empty if the stored one has all of them. Anything may stand between shared items.
    """
    start = _common_prefix(new, again)
    end = min(_common_prefix(new[::-1], again[::-1]), len(new) - start, len(again) - start)
    left, right = new[start : len(new) - end], again[start : len(again) - end]
    shared = [*new[:start]]
    if max(len(left), len(right)) <= _ALIGNED:
        for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
            shared += left[block.a : block.a + block.size]
    candidates = iter(old)
    for item in [*shared, *new[len(new) - end :]]:
        if not any(same(candidate, item) for candidate in candidates):
            return [item]
    return []


def _common_prefix(one: Sequence[_T], other: Sequence[_T]) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _brief(output: Output) -> str:
    if output["output_type"] == "error":
        return brief(_message(output))
    data = output.get("data", {})
    return brief(_first(_lines(bundle_text(data)))) or ", ".join(data)


def _message(output: Output) -> str:
    if output["output_type"] != "error":
        return "no error"
    return plain(f"{output['ename']}: {output['evalue']}")


def _kinds(data: Mapping[str, Any]) -> list[str]:
    """MIME types that are compared by themselves; the text types are part of `bundle_text`."""
    texts = ("text/plain", "text/markdown", "text/latex")
    return sorted(kind for kind in data if kind not in texts)


def _kind_names(data: Mapping[str, Any]) -> str:
    pictures = [kind for kind in _kinds(data) if kind.startswith("image/")]
    return ", ".join(pictures or _kinds(data)) or "no picture"


def _text_of(data: Mapping[str, Any]) -> str:
    """The text of a bundle; empty if it is only compared by its other MIME types."""
    if set(_kinds(data)) - {"text/html"} and "text/plain" not in data:
        return ""
    return bundle_text(data)


def _near(old: int, new: int) -> bool:
    return abs(old - new) <= max(1, old // 50)


def _lines(text: str) -> list[str]:
    """Lines without blank ones at both ends."""
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def _first(lines: Sequence[str]) -> str:
    return brief(next((line for line in lines if line.strip()), ""))


def _indent_difference(old: Sequence[str], new: Sequence[str], again: Sequence[str]) -> str:
    """Which line starts in another column, for lines that are otherwise the same."""
    for number, (was, is_now, then) in enumerate(zip(old, new, again, strict=True), start=1):
        columns = [len(line) - len(line.lstrip()) for line in (was, is_now, then)]
        if columns[0] != columns[1] == columns[2]:
            return f"line {number} `{brief(is_now)}` is indented differently"
    return ""


def _tokens(line: str) -> tuple[Token, ...]:
    return _cached_tokens(line) if len(line) < 10_000 else tuple(tokens(line))


@lru_cache(maxsize=1024)
def _cached_tokens(line: str) -> tuple[Token, ...]:
    return tuple(tokens(line))


def _same_line(one: str, other: str) -> bool:
    return one == other or _tokens(one) == _tokens(other)


def _is_now(text: str, now: datetime) -> bool:
    """Whether a date or time is that of this verification, which may have passed midnight; without
    a time zone it may be local or UTC.
    """
    try:
        time = datetime.fromisoformat(text.replace("/", "-").replace(",", "."))
    except ValueError:
        return False
    local = now.astimezone()
    if ":" not in text:
        began = (now - _NOW, local - _NOW)
        return time.date() in {each.date() for each in (now, local, *began)}
    if time.tzinfo is not None:
        return abs(time - now) < _NOW
    return any(abs(time - each.replace(tzinfo=None)) < _NOW for each in (now, local))
