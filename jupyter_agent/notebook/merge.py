"""Text against text: the three-way merge by lines, and one text turned into another with small
operations.

Pure functions on `str`. The merge decides what a cell shall say when a person and a model both
changed it; the operations write that into a shared text so that whatever is typed at the same
moment stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeAlias

LARGEST_CHARACTER_DIFF = 250_000
"""Product of two lengths above which a block is replaced whole: the diff is quadratic and runs
on the event loop.
"""

Operation: TypeAlias = tuple[int, int, str]
"""(start, end, replacement) in code points of the text before any operation."""


class MergeConflict(ValueError):
    """Both sides changed the same lines, each in its own way."""


class _Hunk(NamedTuple):
    """Lines `start:end` of the base become `lines`."""

    start: int
    end: int
    lines: Sequence[str]


def merge(base: str, current: str, new: str) -> str:
    """What comes of `base` with the changes of both `current` and `new`.

    Lines that both added at the same place are all kept, those of `current` first.
    Raises MergeConflict where both changed or removed the same lines differently.
    """
    if new in (base, current):
        return current
    if current == base:
        return new
    lines = base.split("\n")
    merged: list[str] = []
    position = 0
    for hunk in _in_order(_hunks(lines, current), _hunks(lines, new)):
        if hunk.start < position:
            raise MergeConflict("both changed the same lines")
        merged += lines[position : hunk.start]
        merged += hunk.lines
        position = hunk.end
    return "\n".join(merged + lines[position:])


def _hunks(base: Sequence[str], text: str) -> list[_Hunk]:
    lines = text.split("\n")
    start, base_end, end = _differing(base, lines)
    a, b = base[start:base_end], lines[start:end]
    # Blank lines are alike everywhere: they tell nothing of what became of which line.
    matcher = SequenceMatcher(lambda line: not line.strip(), a, b, autojunk=False)
    return [
        _Hunk(start + i, start + j, b[k:m])
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _in_order(ours: list[_Hunk], theirs: list[_Hunk]) -> list[_Hunk]:
    """The hunks of both sides from top to bottom; a change that both made alike counts once."""
    # At one place insertions (empty ranges) go before replacements, and of two insertions `ours`.
    alike = [hunk for hunk in theirs if hunk in ours]
    return sorted(ours + [hunk for hunk in theirs if hunk not in alike], key=lambda hunk: hunk[:2])


def text_operations(old: str, new: str) -> Iterator[Operation]:
    """Small operations that make `new` of `old`, from right to left, so that earlier offsets stay
    true.

    Lines first, then characters within the lines that differ: unchanged text is never touched.
    """
    start, old_end, new_end = _differing(old, new)
    before = old[start:old_end].splitlines(keepends=True)
    after = new[start:new_end].splitlines(keepends=True)
    offsets = [start]
    for line in before:
        offsets.append(offsets[-1] + len(line))
    for tag, i, j, k, m in reversed(
        SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    ):
        if tag != "equal":
            block = _characters("".join(before[i:j]), "".join(after[k:m]))
            yield from (
                (offsets[i] + first, offsets[i] + last, text) for first, last, text in block
            )


def _characters(old: str, new: str) -> Iterator[Operation]:
    start, old_end, new_end = _differing(old, new)
    a, b = old[start:old_end], new[start:new_end]
    if not a or not b or len(a) * len(b) > LARGEST_CHARACTER_DIFF:
        yield start, old_end, b
        return
    for tag, i, j, k, m in reversed(SequenceMatcher(None, a, b, autojunk=False).get_opcodes()):
        if tag != "equal":
            yield start + i, start + j, b[k:m]


def _differing(old: Sequence[str], new: Sequence[str]) -> tuple[int, int, int]:
    """Start, and the two ends, of what is left without the common beginning and end."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < shorter - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, len(new) - tail
