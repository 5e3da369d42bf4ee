"""Which cell is which in a notebook that keeps no ids: whoever opens one gives the cells others.

A *naming* is the ids that its cells had from one opening to the next. Those that we made edits
under are kept, so that a cell is known again by what stood where, not by its text alone: cells
that say the same are common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from jupyter_agent.document.merge import LARGEST_MATCH, unlike_ranges

Identified: TypeAlias = Sequence[tuple[str, str]]
"""Version and id of each cell, in order."""

_MOST = 20
"""Namings of one notebook; older ones go."""


@dataclass(frozen=True)
class Naming:
    """Ids of the cells of one notebook, as they were after our last edit under them."""

    cells: Identified
    gone: frozenset[str] = frozenset()
    """Of cells that there were before."""

    @property
    def ids(self) -> frozenset[str]:
        """Whatever was named, there or gone."""
        return self.gone.union(cell_id for _, cell_id in self.cells)


UNNAMED = Naming(())


class Namings(Protocol):
    """The namings of notebooks that keep no ids, by path."""

    async def of(self, path: str) -> Sequence[Naming]:
        """Those of one notebook, the latest last."""
        ...

    async def note(self, path: str, naming: Naming) -> None:
        """The cells have these ids now."""
        ...


class NamingsInMemory:
    """As long as the server lives."""

    def __init__(self) -> None:
        self._namings: dict[str, Sequence[Naming]] = {}

    async def of(self, path: str) -> Sequence[Naming]:
        return self._namings.get(path, ())

    async def note(self, path: str, naming: Naming) -> None:
        self._namings[path] = with_naming(self._namings.get(path, ()), naming)


def with_naming(namings: Sequence[Naming], new: Naming) -> list[Naming]:
    """The namings with that one, which goes on with those that it has most ids of: a file may keep
    some ids, and a page give others.
    """
    before = [naming for naming in namings if is_at_work(naming, new.ids)]
    ids = frozenset[str]().union(new.gone, *(naming.ids for naming in before))
    going_on = Naming(new.cells, ids.difference(cell_id for _, cell_id in new.cells))
    return [*(naming for naming in namings if naming not in before), going_on][-_MOST:]


def is_at_work(naming: Naming, ids: Collection[str]) -> bool:
    """Whether cells with these ids are named by it, some of which may be gone."""
    there = sum(cell_id in ids for _, cell_id in naming.cells)
    return 2 * there > len(naming.cells) or not naming.cells


class Pair(NamedTuple):
    """A cell then and now, by their indices."""

    former: int
    now: int
    same: bool
    """It says the same; else it is only in the same place."""


def paired(former: Sequence[str], now: Sequence[str]) -> list[Pair]:
    """The cells that were there before, by the versions of all: those between others that stayed,
    those that were moved, and those that were changed in their place.
    """
    pairs: list[Pair] = []
    in_place: list[tuple[int, int]] = []
    before = after = 0
    ends = (len(former),) * 2 + (len(now),) * 2
    for i, j, k, m in [*unlike_ranges(former, now, LARGEST_MATCH), ends]:
        pairs += [
            Pair(*pair, same=True) for pair in zip(range(before, i), range(after, k), strict=True)
        ]
        if j - i == m - k:
            in_place += zip(range(i, j), range(k, m), strict=True)
        before, after = j, m
    gone = set(range(len(former))).difference(pair.former for pair in pairs)
    come = set(range(len(now))).difference(pair.now for pair in pairs)
    moved = defaultdict[str, list[int]](list)
    for index in sorted(come, reverse=True):
        moved[now[index]].append(index)
    for index in sorted(gone):
        if moved[former[index]]:
            pairs.append(Pair(index, moved[former[index]].pop(), same=True))
    gone.difference_update(pair.former for pair in pairs)
    come.difference_update(pair.now for pair in pairs)
    return pairs + [Pair(i, k, same=False) for i, k in in_place if i in gone and k in come]
