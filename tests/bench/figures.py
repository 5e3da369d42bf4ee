"""What a row of the table measures, and what several rounds of it come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, TypeAlias

Judged: TypeAlias = Literal["ratio", "added", "value", "peer"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measurement beside those of what people would use instead."""

    what: str
    value: float
    unit: str = "ms"
    floors: Mapping[str, float] = field(default_factory=dict)
    """What the same takes without us, by name; together they are the floor."""
    peers: Mapping[str, float] = field(default_factory=dict)
    """What other assistants take."""
    judged: Judged = "ratio"
    """What the goal is about: the ratio to the floor, the difference from it, the value, or the
    ratio to the only peer.
    """
    goal: float | None = None
    at_least: bool = False
    """Whether the goal is the least, not the most."""

    @property
    def result(self) -> float:
        """Raises ValueError for a floor that takes no time: the measurement is noise."""
        floor = sum(self.floors.values())
        match self.judged:
            case "ratio":
                if floor <= 0:
                    raise ValueError(f"{self.what}: a floor of {floor}")
                return self.value / floor
            case "peer":
                (peer,) = self.peers.values()
                return self.value / peer
            case "added":
                return self.value - floor
            case "value":
                return self.value


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How measurements grow with the size of a notebook, a text or a crowd."""

    what: str
    size: str
    """What is counted along the axis, such as "cells"."""
    lines: Mapping[str, Mapping[int, float]]
    """By name, ours first: the measurement at each size."""
    unit: str = "ms"


Measured: TypeAlias = Figure | Curve


@dataclass(frozen=True)
class Summary:
    """Rounds of one figure."""

    rounds: Sequence[Figure]

    @property
    def what(self) -> str:
        return self.rounds[0].what

    @property
    def result(self) -> float:
        """The median."""
        return median(one.result for one in self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest."""
        results = [one.result for one in self.rounds]
        return min(results), max(results)

    @property
    def value(self) -> float:
        """The median, in the unit of the figure."""
        return median(one.value for one in self.rounds)

    @property
    def floors(self) -> dict[str, float]:
        return _medians([one.floors for one in self.rounds])

    @property
    def peers(self) -> dict[str, float]:
        return _medians([one.peers for one in self.rounds])

    @property
    def is_met(self) -> bool | None:
        """None without a goal."""
        first = self.rounds[0]
        if first.goal is None:
            return None
        return self.result >= first.goal if first.at_least else self.result <= first.goal

    @property
    def peers_ahead(self) -> list[str]:
        """Those whose median is better than ours."""
        sign = -1 if self.rounds[0].at_least else 1
        return [name for name, value in self.peers.items() if sign * value < sign * self.value]


def merged(curves: Sequence[Curve]) -> Curve:
    """The medians of rounds of one curve."""
    first = curves[0]
    lines = {
        name: {size: median(curve.lines[name][size] for curve in curves) for size in points}
        for name, points in first.lines.items()
    }
    return Curve(what=first.what, size=first.size, lines=lines, unit=first.unit)


def exponent(points: Mapping[int, float]) -> float:
    """By which power they grow: the slope of the line through the logarithms of the larger half,
    as a constant part hides how the small ones grow."""
    larger = sorted(points)[-max(2, (len(points) + 1) // 2) :]
    logs = [(math.log(size), math.log(points[size])) for size in larger]
    x0, y0 = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    return sum((x - x0) * (y - y0) for x, y in logs) / sum((x - x0) ** 2 for x, _ in logs)


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: median(one[name] for one in rounds) for name in rounds[0]}
