"""How sure a share of passed tasks is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import comb, sqrt
from statistics import fmean

from nbeval.score import Score

_Z = 1.959964
"""Of the normal distribution, 95 % of which lie within."""


@dataclass(frozen=True)
class Share:
    """A part of so many tasks, and where it lies with a confidence of 95 % (Wilson)."""

    share: float
    of: int
    low: float
    high: float

    @classmethod
    def over(cls, tasks: Sequence[float]) -> Share:
        """Of tasks that passed, or of which such a part passed. The interval is that of tasks, of
        which each is seen once: several attempts at one task do not say more about others.
        """
        count = len(tasks)
        if not count:
            return cls(0.0, 0, 0.0, 1.0)
        share = fmean(tasks)
        middle = share + _Z**2 / (2 * count)
        reach = _Z * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
        low, high = ((middle + sign * reach) / (1 + _Z**2 / count) for sign in (-1, 1))
        return cls(share, count, max(0.0, low), min(1.0, high))

    def __str__(self) -> str:
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%})"


def by_task(scores: Sequence[Score]) -> dict[str, list[Score]]:
    """The attempts at each task."""
    found: dict[str, list[Score]] = {}
    for score in scores:
        found.setdefault(score.task, []).append(score)
    return found


def seeds(scores: Sequence[Score]) -> int:
    """How often the tasks were played."""
    return max((len(those) for those in by_task(scores).values()), default=1)


def passed(scores: Sequence[Score]) -> Share:
    """Of one attempt: pass^1."""
    return Share.over([fmean(s.passed for s in those) for those in by_task(scores).values()])


def passed_each_time(scores: Sequence[Score]) -> Share:
    """Of all attempts at a task, k of them: pass^k. Tasks with fewer attempts do not count."""
    times = seeds(scores)
    tasks = [those for those in by_task(scores).values() if len(those) == times]
    return Share.over([float(all(score.passed for score in those)) for those in tasks])


def by_category(scores: Sequence[Score]) -> Mapping[str, Share]:
    """What part passed in each category, by its name."""
    ordered = sorted(scores, key=lambda score: score.category)
    grouped = groupby(ordered, key=lambda score: score.category)
    return {category: passed(list(those)) for category, those in grouped}


def sign_test(better: int, worse: int) -> float:
    """How likely it is that at least so many of the tasks that differ do it in one direction, if
    neither run is better."""
    count, most = better + worse, max(better, worse)
    ways = sum(comb(count, k) for k in range(most, count + 1))
    return min(1.0, 2 * ways / float(2**count))
