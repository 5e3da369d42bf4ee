"""Recognizing cells in a notebook that stores no ids: each program that opens it assigns new ones.

A *naming* records the ids that the cells had from one opening to the next. Namings under which we
made edits are stored, so that a cell is recognized by its position and not by its text alone: cells
with the same text are common. Namings of other notebooks are stored when these are closed: programs
such as nbstripout give their cells other ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from jupyter_agent.document.merge import LARGEST_MATCH, differing_ranges

Identified: TypeAlias = Sequence[tuple[str, str]]
"""Version and id of each cell, in order."""

_MOST = 20
"""Namings stored per notebook; older ones are dropped."""


@dataclass(frozen=True)
class Naming:
    """Ids of the cells of one notebook after our last edit under them."""

    cells: Identified
    gone: frozenset[str] = frozenset()
    """Ids of cells that existed before."""

    @property
    def ids(self) -> frozenset[str]:
        """All ids, including those of cells that are gone."""
        return self.gone.union(cell_id for _, cell_id in self.cells)


UNNAMED = Naming(())


class Namings(Protocol):
    """The namings of notebooks that keep no ids, by path."""

    async def of(self, path: str) -> Sequence[Naming]:
        """The namings of one notebook, the latest last."""
        ...

    async def note(self, path: str, naming: Naming) -> None:
        """Record that the cells have these ids now."""
        ...


class NamingsInMemory:
    """Namings that last as long as the server."""

    def __init__(self) -> None:
        self._namings: dict[str, Sequence[Naming]] = {}

    async def of(self, path: str) -> Sequence[Naming]:
        return self._namings.get(path, ())

    async def note(self, path: str, naming: Naming) -> None:
        self._namings[path] = with_naming(self._namings.get(path, ()), naming)


def with_naming(namings: Sequence[Naming], new: Naming) -> list[Naming]:
    """The namings plus the new one, which replaces and continues those most of whose ids it has: a
    file may keep some ids, and a page assign others.
    """
    before = [
        naming
        for naming in namings
        if is_in_use(naming, new.ids) and not is_numbered_again(naming.cells, new.cells)
    ]
    ids = frozenset[str]().union(new.gone, *(naming.ids for naming in before))
    continued = Naming(new.cells, ids.difference(cell_id for _, cell_id in new.cells))
    return [*(naming for naming in namings if naming not in before), continued][-_MOST:]


def is_in_use(naming: Naming, ids: Collection[str]) -> bool:
    """Whether the cells with these ids go by this naming; some cells may be gone."""
    there = sum(cell_id in ids for _, cell_id in naming.cells)
    return 2 * there > len(naming.cells) or not naming.cells


def has_other_ids(former: Identified, now: Identified) -> bool:
    """Whether a program has given the cells other ids: none of the former ones is left, or they
    belong to other cells.
    """
    gone = {cell_id for _, cell_id in former}.isdisjoint(cell_id for _, cell_id in now)
    return (gone and bool(former)) or is_numbered_again(former, now)


def is_numbered_again(former: Identified, now: Identified) -> bool:
    """Whether most cells whose text is that of no other have another id, as after a program that
    numbers the cells.
    """
    counts = [Counter(version for version, _ in cells) for cells in (former, now)]
    ids = dict(now)
    certain = [(version, each) for version, each in former if all(c[version] == 1 for c in counts)]
    differing = sum(ids[version] != cell_id for version, cell_id in certain)
    return differing > 1 and 2 * differing > len(certain)


class Pair(NamedTuple):
    """A cell before and now, by index."""

    former: int
    now: int
    same: bool
    """The text is the same; if False, only the place is."""


def match_cells(former: Sequence[str], now: Sequence[str]) -> list[Pair]:
    """Match former cells to present ones by version: cells between others that stayed, cells that
    moved, and cells that changed in place.
    """
    pairs: list[Pair] = []
    in_place: list[tuple[int, int]] = []
    before = after = 0
    ends = (len(former),) * 2 + (len(now),) * 2
    for i, j, k, m in [*differing_ranges(former, now, LARGEST_MATCH), ends]:
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
