"""Three-way merge of texts by lines, and small operations that turn one text into another.

Pure functions on `str`. The merge decides the text of a cell that both the user and a model
changed; the operations write it into a shared text so that concurrent typing keeps its place.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

LARGEST_WORD_DIFF = 250_000
"""Product of two word counts above which a block is replaced whole: the diff is quadratic and runs
on the event loop.
"""

LARGEST_MATCH = 40_000
"""Product of two line counts above which lines are not matched by the longest unchanged run: that
takes a minute if many lines are alike.
"""

LARGEST_PAIRING = 20_000
"""Pairs of equal lines above which a merge falls back as above `LARGEST_MATCH`: it looks at them
once more for each unchanged run.
"""

LARGEST_ALIGNMENT = 50_000_000
"""Product of two lengths above which only the common start and end count as equal: an alignment
needs a bit of memory for each pair.
"""

WORD = re.compile(r"\d+|[\w\u0300-\u036f]+|\r\n|.", re.DOTALL)
"""A unit that operations do not split: a number, a name with its accents, or one character. Text
typed behind a number is a word of its own, which keeps the cursor when the number changes.
"""
Span: TypeAlias = tuple[int, int]
"""(start, end) in code points of a text."""
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
    """Apply the changes of both `current` and `new` to `base`.

    Lines that both added at the same place all stay, those of `current` first. Raises MergeConflict
    if both changed or removed the same lines differently.
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
    start, base_end, end = trim_common(base, lines)
    a, b = base[start:base_end], lines[start:end]
    there = Counter(b)
    if sum(there[line] for line in a if line.strip()) > LARGEST_PAIRING:
        ranges = differing_ranges(a, b, 0)
    else:
        # Blank lines are alike everywhere: they do not help to match lines.
        matcher = SequenceMatcher(lambda line: not line.strip(), a, b, autojunk=False)
        ranges = _changed_ranges(matcher)
    return [_Hunk(start + i, start + j, b[k:m]) for i, j, k, m in ranges]


def _changed_ranges(matcher: SequenceMatcher[str]) -> Iterator[tuple[int, int, int, int]]:
    return ((i, j, k, m) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal")


def differing_ranges(
    before: Sequence[str], after: Sequence[str], most: int
) -> Iterator[tuple[int, int, int, int]]:
    """The ranges that differ, from the start: `before[i:j]` became `after[k:m]`. If the product of
    their lengths is above `most`, finds the longest common subsequence instead of the longest
    unchanged runs.
    """
    start, end, until = trim_common(before, after)
    a, b = before[start:end], after[start:until]
    if len(a) * len(b) <= most:
        matcher = SequenceMatcher(None, a, b, autojunk=False)
        for i, j, k, m in _changed_ranges(matcher):
            yield start + i, start + j, start + k, start + m
    else:
        small = len(a) * len(b) <= LARGEST_ALIGNMENT
        i, k = start, start
        for j, m in [
            *(reversed(list(_common_subsequence(a, b))) if small else ()),
            (len(a), len(b)),
        ]:
            if start + j > i or start + m > k:
                yield i, start + j, k, start + m
            i, k = start + j + 1, start + m + 1


def _in_order(ours: list[_Hunk], theirs: list[_Hunk]) -> list[_Hunk]:
    """The hunks of both sides from top to bottom; a change that both made alike counts once."""
    # At one place insertions (empty ranges) go before replacements, and of two insertions `ours`.
    here = {(hunk.start, hunk.end, tuple(hunk.lines)) for hunk in ours}
    others = [hunk for hunk in theirs if (hunk.start, hunk.end, tuple(hunk.lines)) not in here]
    return sorted(ours + others, key=lambda hunk: hunk[:2])


def text_operations(old: str, new: str, within: Span | None = None) -> Iterator[Operation]:
    """Small operations that turn `old` into `new`, from right to left, so that earlier offsets stay
    valid. `within` is the only part of `old` that was rewritten: text outside is not touched, even
    letters of the same word that someone is typing.

    Lines first, then words within the lines that differ: unchanged text is never touched, and
    nothing between unchanged lines is deleted if text was only added. A word grows, shrinks or is
    replaced whole: if a user typed it and an agent changed it, the user's undo leaves no piece
    behind. If an insertion or deletion could equally be a few characters further left, it goes
    between words.
    """
    start, end = within or (0, len(old))
    old, new = old[start:end], new[start : len(new) - (len(old) - end)]
    return _shift(_at_best_places(old, list(_operations(old, new))), start)


def _at_best_places(old: str, operations: Sequence[Operation]) -> Iterator[Operation]:
    for (start, end, text), (_, limit, _) in pairwise([*operations, (0, 0, "")]):
        if start == end or not text:
            left = _slide(old, limit, start, text or old[start:end], inserts=start == end)
            text = (old[start - left : start] + text)[: len(text)]
            start, end = start - left, end - left
        yield start, end, text


def _operations(old: str, new: str) -> Iterator[Operation]:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    end, new_end = len(old), len(new)
    for start, new_start, length in _anchors(before, after):
        block = old[start + length : end], new[new_start + length : new_end]
        yield from _shift(_block(*block), start + length)
        end, new_end = start, new_start
    yield from _block(old[:end], new[:new_end])


def _slide(old: str, limit: int, start: int, text: str, *, inserts: bool) -> int:
    """How much further left to insert `text` at `start`, or to delete it from there, so that it
    starts and ends between lines, or else between words. The resulting text is the same.
    """

    def last(place: int) -> str:
        at = place + len(text) - 1
        return old[at] if at < start else text[at - start]

    best, highest = 0, -1
    for place in range(start, limit - 1, -1):
        if place < start and old[place] != last(place + 1):
            break
        first = old[place] if place < start else text[0]
        after = place if inserts else place + len(text)
        inside, outside = (first, last(place)), (old[place - 1 : place], old[after : after + 1])
        rank = (
            (not _is_joined(outside[0], inside[0]))
            + (not _is_joined(inside[1], outside[1]))
            + _is_lines(inside, outside)
        )
        if rank > highest:
            best, highest = start - place, rank
    return best


def _is_lines(inside: tuple[str, str], outside: tuple[str, str]) -> bool:
    """Whether a text with these first and last characters is whole lines between these
    neighbours.
    """
    return (outside[0] in ("", "\n") and inside[1] == "\n") or (
        inside[0] == "\n" and outside[1] in ("", "\n")
    )


def _is_joined(left: str, right: str) -> bool:
    """Whether the two characters belong to one name, or form one character or line ending."""
    return bool(left and right) and (
        (_is_in_name(left) and _is_in_name(right)) or left + right == "\r\n"
    )


def _is_in_name(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def _anchors(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """The lines that occur once in both: their two offsets and their length, from the end."""
    once = Counter(before) | Counter(after)
    own = {line for line, count in once.items() if count == 1 and line.strip()}
    old, new = _places(before, own), _places(after, own)
    common = [line for line in old if line in new]
    for index in reversed(longest_increase([new[line] for line in common])):
        line = common[index]
        yield old[line], new[line], len(line)


def longest_increase(numbers: Sequence[int]) -> list[int]:
    """The indices of a longest increasing subsequence of different numbers (Schensted, "Longest
    increasing and decreasing subsequences", 1961).
    """
    ends: list[int] = []
    lowest: list[int] = []
    before: dict[int, int | None] = {}
    for index, number in enumerate(numbers):  # by the lowest end of each length
        length = bisect_left(lowest, number)
        before[index] = ends[length - 1] if length else None
        lowest[length : length + 1] = [number]
        ends[length : length + 1] = [index]
    found: list[int] = []
    last = ends[-1] if ends else None
    while last is not None:
        found.append(last)
        last = before[last]
    return found[::-1]


def _places(lines: Sequence[str], own: Collection[str]) -> dict[str, int]:
    ends = [0, *accumulate(map(len, lines))]
    return {line: start for line, start in zip(lines, ends, strict=False) if line in own}


def _shift(operations: Iterator[Operation], by: int) -> Iterator[Operation]:
    return ((start + by, end + by, text) for start, end, text in operations)


def _block(old: str, new: str) -> Iterator[Operation]:
    for pieces in (WORD.findall, list):
        grown = _one_sided_diff(pieces(old), pieces(new))
        if grown is not None and not any(_tears(old, *operation) for operation in grown):
            return iter(grown)
    lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return _diff_within(*lines, _words, LARGEST_MATCH)


def _one_sided_diff(before: Sequence[str], after: Sequence[str]) -> Sequence[Operation] | None:
    """The operations if text was only added or only removed; None if both."""
    start, old_end, new_end = trim_common(before, after)
    a, b = before[start:old_end], after[start:new_end]
    if len(a) * len(b) <= LARGEST_ALIGNMENT:
        kept = list(_common_subsequence(a, b))
        if len(kept) in (len(a), len(b)):
            return list(_shift(_gaps_between(kept, a, b), len("".join(before[:start]))))
    return None


def _tears(old: str, start: int, end: int, text: str) -> bool:
    """Whether the operation inserts or deletes text inside a word. Two words that are joined, as
    when the line between them is deleted, are not torn.
    """
    left, right = old[start - 1 : start], old[end : end + 1]
    inserts = start == end
    within = inserts or (not text and all(map(_is_in_name, old[start:end])))
    return _is_joined(left, right) and within


def _gaps_between(
    kept: Sequence[tuple[int, int]], before: Sequence[str], after: Sequence[str]
) -> Iterator[Operation]:
    """The operations between the words that stay, which are given from the end."""
    offsets = [0, *accumulate(map(len, before))]
    end, new_end = len(before), len(after)
    for i, j in [*kept, (-1, -1)]:
        if i + 1 < end or j + 1 < new_end:
            yield offsets[i + 1], offsets[end], "".join(after[j + 1 : new_end])
        end, new_end = i, j


def _words(before: Sequence[str], after: Sequence[str]) -> Iterator[Operation]:
    old, new = "".join(before), "".join(after)
    a, b = WORD.findall(old), WORD.findall(new)
    start, old_end, new_end = trim_common(a, b)
    if (old_end - start) * (new_end - start) > LARGEST_WORD_DIFF:
        first, last = len("".join(a[:start])), len("".join(a[:old_end]))
        return iter([(first, last, "".join(b[start:new_end]))])
    return _diff_within(a, b, _letters, LARGEST_WORD_DIFF)


def _letters(before: Sequence[str], after: Sequence[str]) -> Iterator[Operation]:
    """Only the letters added or removed, if a single word grew or shrank, or if all other letters
    are on one side.
    """
    old, new = "".join(before), "".join(after)
    start, old_end, new_end = trim_common(old, new)
    same = old_end == start or new_end == start
    if same and (len(before) == len(after) == 1 or start == 0 or old_end == len(old)):
        yield start, old_end, new[start:new_end]
    else:
        yield 0, len(old), new


def _diff_within(
    before: Sequence[str],
    after: Sequence[str],
    within: Callable[[Sequence[str], Sequence[str]], Iterator[Operation]],
    most: int,
) -> Iterator[Operation]:
    """Apply `within` to each pair of pieces that differ, from the end."""
    offsets = [0, *accumulate(map(len, before))]
    for i, j, k, m in reversed(list(differing_ranges(before, after, most))):
        yield from _shift(within(before[i:j], after[k:m]), offsets[i])


def keeps_edit(before: str, after: str, now: str, within: Span | None = None) -> bool:
    """Whether `now` still has everything that the edit from `before` to `after` inserted, whatever
    else was inserted or deleted since. `within`: as given to `text_operations`.
    """
    kept = {place for place, _ in _alignment(after, now)}
    grown = 0
    for start, end, text in reversed(list(text_operations(before, after, within))):
        if not kept.issuperset(range(start + grown, start + grown + len(text))):
            return False
        grown += len(text) - (end - start)
    return True


def is_nearer(text: str, other: str, now: str) -> bool:
    """Whether `now` has more characters in common, in order, with `text` than with `other`."""
    return len(list(_alignment(text, now))) > len(list(_alignment(other, now)))


def merge_typing(text: str, before: str, now: str) -> str:
    """`text`, an edit of `before`, with the typing of a user who still saw `before` and made it
    into `now`. Typed letters are always accepted, and stay with the letter on their left.
    """
    kept, edits = _insertions(before, text)
    left, letters = _insertions(before, now)
    merged: list[str] = []
    for place, letter in enumerate((*before, "")):
        merged += (letters.get(place, ""), edits.get(place, ""))
        if place in kept and place in left:
            merged.append(letter)
    return "".join(merged)


def _insertions(old: str, new: str) -> tuple[Collection[int], dict[int, str]]:
    """The indices of the characters of `old` that stay in `new`, and the text inserted at each
    index.
    """
    inserted: dict[int, str] = {}
    kept = dict(_alignment(old, new))
    place = end = 0
    for i, j in (*kept.items(), (len(old), len(new))):
        if j > end:
            inserted[place] = new[end:j]
        place, end = i + 1, j + 1
    return kept.keys(), inserted


def _alignment(old: str, new: str) -> Iterator[tuple[int, int]]:
    """The index pairs of a longest common subsequence; of equal characters it takes the first.

    Bit-parallel (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004): a bit of a row is
    unset if one more character of `old` adds one to the length.
    """
    start, old_end, new_end = trim_common(old, new)
    yield from ((i, i) for i in range(start))
    a, b = old[start:old_end], new[start:new_end]
    if len(a) * len(b) <= LARGEST_ALIGNMENT:
        yield from ((start + i, start + j) for i, j in reversed(list(_common_subsequence(a, b))))
    yield from zip(range(old_end, len(old)), range(new_end, len(new)), strict=True)


def _common_subsequence(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The pairs from the end."""
    size = len(a) // 8 + 1
    places = {item: bytearray(size) for item in set(b)}
    for i, item in enumerate(a):
        if item in places:  # in bytes, since a change of one bit would copy all of an integer
            places[item][i >> 3] |= 1 << (i & 7)
    masks = {item: int.from_bytes(bits, "little") for item, bits in places.items()}
    every = (1 << len(a)) - 1
    row = every
    rows = [row.to_bytes(size, "little")]
    for item in b:
        both = row & masks[item]
        row = (row + both | row - both) & every
        rows.append(row.to_bytes(size, "little"))
    i, j = len(a), len(b)
    while i and j:
        at, bit = i - 1 >> 3, 1 << (i - 1 & 7)
        if rows[j][at] & bit:
            i -= 1
        elif not rows[j - 1][at] & bit:
            j -= 1
        else:
            i, j = i - 1, j - 1
            yield i, j


def trim_common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int, int]:
    """The start and the two ends of what remains without the common prefix and suffix."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < shorter - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, len(new) - tail
