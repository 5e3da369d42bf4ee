"""Which cell is which in a notebook that keeps no ids: whoever opens one gives the cells others.

A *naming* is the ids that its cells had from one opening to the next. Those that we made edits
under are kept, so that a cell is known again by what stood where, not by its text alone: cells
that say the same are common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol, TypeAlias

from jupyter_agent.document.merge import differing

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
    """The namings with that one, which goes on with the one that it has ids of."""
    others = [naming for naming in namings if naming.ids.isdisjoint(new.ids)]
    before = frozenset[str]().union(*(each.ids for each in namings if each not in others))
    gone = (before | new.gone).difference(cell_id for _, cell_id in new.cells)
    return [*others, Naming(new.cells, gone)][-_MOST:]


def inherited(former: Identified, now: Sequence[str]) -> dict[int, str]:
    """Index -> id, for cells that were there before, unchanged or changed in their place. `now`:
    the versions of the cells.
    """
    return {
        index: cell_id
        for ids, indices in aligned(former, now)
        if len(ids) == len(indices)
        for index, cell_id in zip(indices, ids, strict=True)
    }


def aligned(
    former: Identified, now: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Ids of former cells, and the indices of those that stand in their place now: alike, or, if
    they are as many, changed.
    """
    versions = [version for version, _ in former]
    ids = [cell_id for _, cell_id in former]
    start, end, until = differing(versions, now)
    yield ids[:start], range(start)
    matcher = SequenceMatcher(None, versions[start:end], now[start:until], autojunk=False)
    for _, i, j, k, m in matcher.get_opcodes():
        yield ids[start + i : start + j], range(start + k, start + m)
    yield ids[end:], range(until, len(now))
