"""Whether a cell shows the same as before: what a reader would call the same.

What is compared is what the outputs say as text (notebook/output_text.py), line by line, and which
pictures there are. Stdout, stderr and displays are compared each for themselves, as their order
among each other depends on timing. The same are

* numbers with a fraction or an exponent within 0.1 %, or 1e-8 around zero; whole numbers exactly;
* pictures of one kind whose width and height differ by at most 2 % (a tight layout moves by a
  pixel when a label does), whatever they show;
* lines that are one Python literal with the same value: a set has no order.

Lines of more than 4,000 characters have to be equal.

Left out of account, because each run makes them anew:

* memory addresses, random UUIDs, `id()`s (whole numbers where addresses lie), process ids, ports;
* execution counts (`In [3]`), the names of temporary files, and the folder of a source file that a
  warning or a frame names, with its line;
* durations (`1.2 s`, `CPU times:`, `per loop`) and lines that are progress bars;
* a time, a date or a time stamp where the new run shows its own present: dates in data count.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jupyter_agent.document.cell import Output
from jupyter_agent.legible import clip
from jupyter_agent.text.images import pixels
from jupyter_agent.text.outputs import bundle_text, joined, plain

_RELATIVE = 1e-3
_ABSOLUTE = 1e-8
_PICTURE = 0.02
_PRESENT = timedelta(days=1)
"""Time zones: a clock without one may be that far from ours."""
_ADDRESSES = range(0x5000_0000_0000, 0x8000_0000_0000)
"""Where programs and heap lie on 64-bit Linux and macOS, so the `id()` of an object."""
_LONGEST = 4_000
"""Characters of a line that is looked into; a longer one has to be equal."""
_SHOWN = 80
"""Characters of a line in an explanation."""

_PROGRESS = re.compile(
    r"\d%\|.*\||^[^|\[]*[|\[].*\dit/s|\[[>.=]+\]|[━█▉▊▋▌▍▎▏]{3}"
    r"|^\s*(?:CPU times:|Wall time:)|per loop \("
)
_UNIT = r"(?:ns|[µμu]s|ms|s|secs?|seconds?|mins|minutes?|hours?)"
_VOLATILE = (
    (re.compile(r"\bat 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{8,}\b"), "<address>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I), "<uuid>"),
    # Version and variant of a random UUID stand in their places; a checksum rarely has them.
    (re.compile(r"\b[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}\b"), "<uuid>"),
    (re.compile(r"(?:/tmp|/var/folders)/[^\s'\"<>:,)]+|<ipython-input-[^>]*>"), "<temporary>"),
    (
        re.compile(
            r"(?<![\w.~/\\-])(?:[A-Za-z]:)?[\w.~-]*[/\\](?:[^\s'\":]+[/\\])?([^\s'\":/\\]+\.py):\d+"
        ),
        r"\1",
    ),
    (re.compile(r"\b(In|Input In|Out) ?\[\d+\]"), r"\1[]"),
    (re.compile(r"\b(pid|PID|process)([ =:]+)\d+\b"), r"\1\2<n>"),
    (re.compile(r"\b(localhost|127\.0\.0\.1|0\.0\.0\.0):\d+"), r"\1:<n>"),
    # `1990s` are years; everything else before a unit of time was measured.
    (re.compile(rf"(?<![\w.])(?!\d{{4}}s)\d+(?:\.\d+)?(?:e-?\d+)? ?{_UNIT}\b"), "<duration>"),
)
_TIME = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_TOKEN = re.compile(
    rf"(?P<time>{_TIME})"
    r"|(?P<number>(?:(?<=[\s(\[,=:{|])|^)[-+](?=[\d.])(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?!\.?\w)"
    r"|(?<![\w.])(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?!\.?\w))"
    r"|(?P<word>\w+|[^\w\s])"
)
_STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class _Picture:
    kind: str
    size: tuple[int, int] | None


def difference(stored: Sequence[Output], fresh: Sequence[Output]) -> str | None:
    """What is not the same in the fresh outputs, as a sentence; None where nothing is."""
    for name in _STREAMS:
        why = _text(_stream(stored, name), _stream(fresh, name))
        if why is not None:
            return f"{name}: {why}"
    return _displays(_shown(stored), _shown(fresh))


def _stream(outputs: Sequence[Output], name: str) -> str:
    return plain(
        "".join(joined(output["text"]) for output in outputs if output.get("name") == name)
    )


def _shown(outputs: Sequence[Output]) -> list[Output]:
    return [output for output in outputs if output["output_type"] != "stream"]


def _displays(stored: Sequence[Output], fresh: Sequence[Output]) -> str | None:
    for number, (old, new) in enumerate(zip(stored, fresh, strict=False), start=1):
        why = _display(old, new)
        if why is not None:
            return f"output {number}: {why}" if len(fresh) > 1 else why
    if len(stored) > len(fresh):
        return f"an output is missing: `{_brief(stored[len(fresh)])}`"
    if len(fresh) > len(stored):
        return f"a new output: `{_brief(fresh[len(stored)])}`"
    return None


def _brief(output: Output) -> str:
    if output["output_type"] == "error":
        return _cut(_message(output))
    data = output.get("data", {})
    text = next(_lines(bundle_text(data)), "")
    return _cut(text or ", ".join(data))


def _display(old: Output, new: Output) -> str | None:
    if "error" in (old["output_type"], new["output_type"]):
        return _text(_message(old), _message(new))
    old_data, new_data = old.get("data", {}), new.get("data", {})
    why = _pictures(_pictures_of(old_data), _pictures_of(new_data))
    return why or _text(bundle_text(old_data), bundle_text(new_data))


def _message(output: Output) -> str:
    if output["output_type"] != "error":
        return "no error"
    return plain(f"{output['ename']}: {output['evalue']}")


def _pictures_of(data: Mapping[str, Any]) -> list[_Picture]:
    return [
        _Picture(kind, pixels(kind, joined(data[kind])))
        for kind in sorted(data)
        if kind.startswith("image/")
    ]


def _pictures(stored: Sequence[_Picture], fresh: Sequence[_Picture]) -> str | None:
    if [picture.kind for picture in stored] != [picture.kind for picture in fresh]:
        return f"{_kinds(stored)} before, {_kinds(fresh)} now"
    for old, new in zip(stored, fresh, strict=True):
        if old.size and new.size and not all(map(_near, old.size, new.size)):
            return f"{new.kind} {_times(old.size)} before, {_times(new.size)} now"
    return None


def _kinds(pictures: Sequence[_Picture]) -> str:
    return ", ".join(picture.kind for picture in pictures) or "no picture"


def _near(old: int, new: int) -> bool:
    return abs(old - new) <= max(1, _PICTURE * old)


def _times(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _text(stored: str, fresh: str) -> str | None:
    old, new = list(_lines(stored)), list(_lines(fresh))
    present = datetime.now(UTC)
    for number, (before, now) in enumerate(zip(old, new, strict=False), start=1):
        if not _same_line(before, now, present):
            where = f"line {number} " if len(new) > 1 else ""
            return f"{where}was `{_cut(before)}`, is now `{_cut(now)}`"
    if len(old) > len(new):
        return f"ends before `{_cut(old[len(new)])}`"
    if len(new) > len(old):
        return f"goes on with `{_cut(new[len(old)])}`"
    return None


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if line.strip() and (len(line) > _LONGEST or not _PROGRESS.search(line)):
            yield " ".join(line.split())


def _cut(line: str) -> str:
    return clip(line, _SHOWN)


def _same_line(old: str, new: str, present: datetime) -> bool:
    if old == new:
        return True
    if max(len(old), len(new)) > _LONGEST:
        return False
    before, now = _tokens(old), _tokens(new)
    if len(before) == len(now) and all(
        _same_token(a, b, present) for a, b in zip(before, now, strict=True)
    ):
        return True
    return _same_literal(old, new)


def _tokens(line: str) -> list[tuple[str, str]]:
    for pattern, name in _VOLATILE:
        line = pattern.sub(name, line)
    return [(match.lastgroup or "", match.group()) for match in _TOKEN.finditer(line)]


def _same_token(old: tuple[str, str], new: tuple[str, str], present: datetime) -> bool:
    if old == new:
        return True
    (old_kind, before), (kind, now) = old, new
    if old_kind != kind:
        return False
    if kind == "time":
        return _is_present(now, present)
    return kind == "number" and _same_number(before, now, present)


def _is_present(text: str, present: datetime) -> bool:
    try:
        time = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return False
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    # A date without a time is the day's first moment.
    return -2 * _PRESENT < time - present < _PRESENT


def _same_number(old: str, new: str, present: datetime) -> bool:
    if abs(float(new) - present.timestamp()) < _PRESENT.total_seconds():
        return True
    if old.lstrip("+-").isdecimal() and new.lstrip("+-").isdecimal():
        before, now = int(old), int(new)
        return before == now or (before in _ADDRESSES and now in _ADDRESSES)
    return math.isclose(float(old), float(new), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _same_literal(old: str, new: str) -> bool:
    if not (old.startswith("{") and new.startswith("{")):
        return False
    try:
        return bool(ast.literal_eval(old) == ast.literal_eval(new))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
