"""Which cells show results that no longer follow from the code above them.

A document tells how often a kernel had run when a cell ran, and no more: counts begin anew with
each kernel, and an edit leaves them. So what is seen of a notebook over time is remembered:
in which order its cells ran, with which text, and from which cells their names came. After a
restart of the server that begins again, with what the counts say.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_agent.analysis.names import names_of, with_deferred
from jupyter_agent.document.cell import Cell

_NOTEBOOKS = 200
"""That are remembered, the last used ones."""
_ANYWHERE = ""
_EDITED = "It was edited and has not run since."


@dataclass(frozen=True)
class RecordedExecution:
    """How a cell ran last, as far as it was seen."""

    order: int
    """The higher, the later."""
    count: int | None
    version: str
    sources: Mapping[str, str]
    """Name -> id of the cell above that had set it, `_ANYWHERE` where that cannot be told."""


class Executions:
    """What was seen of the notebooks of this server."""

    def __init__(self) -> None:
        self._notebooks: OrderedDict[str, _Seen] = OrderedDict()

    async def stale(self, path: str, cells: Sequence[Cell], language: str) -> dict[str, str]:
        """Ids of the stale cells, each with why, as a sentence; `cells` are remembered."""
        _, now = await self._look(path, cells, language)
        return now

    async def news(self, path: str, cells: Sequence[Cell], language: str) -> list[str]:
        """Ids of the cells that are stale and were not at the last look, in order."""
        before, now = await self._look(path, cells, language)
        return [cell_id for cell_id in now if cell_id not in before]

    async def _look(
        self, path: str, cells: Sequence[Cell], language: str
    ) -> tuple[dict[str, str], dict[str, str]]:
        """What was stale at the last look, and what is."""
        seen = self._seen(path)
        async with seen.lock:
            sources = await asyncio.to_thread(_sources, cells, language)  # it parses them all
            before = seen.stale
            return before, seen.look(cells, language, sources)

    def _seen(self, path: str) -> _Seen:
        seen = self._notebooks.setdefault(path, _Seen())
        self._notebooks.move_to_end(path)
        if len(self._notebooks) > _NOTEBOOKS:
            self._notebooks.popitem(last=False)
        return seen


def stale_cells(cells: Sequence[Cell], language: str) -> dict[str, str]:
    """As `Executions.stale`, for a notebook that is seen for the first time."""
    return _Seen().look(cells, language, _sources(cells, language))


@dataclass
class _Seen:
    """One notebook over time."""

    stale: dict[str, str] = field(default_factory=dict)
    executions: dict[str, RecordedExecution] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One look at a time, in the order in which the cells were read."""

    def look(
        self, cells: Sequence[Cell], language: str, sources: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        code = [cell for cell in cells if cell.type == "code"]
        self._remember(code, sources)
        ran = [
            (cell, self.executions[cell.id])
            for cell in code
            if cell.id in self.executions and not cell.running
        ]
        if language == "python":
            self.stale = _by_names(ran, {cell.id: cell for cell in code}, self.executions, sources)
        else:
            self.stale = _by_counts(ran)
        return dict(self.stale)

    def _remember(self, code: Sequence[Cell], sources: Mapping[str, Mapping[str, str]]) -> None:
        """Which cells ran since the last look; of several the counts tell the order."""
        known = self.executions
        ran = [
            cell
            for cell in code
            if cell.execution_count is not None
            and not cell.running
            and (cell.id not in known or known[cell.id].count != cell.execution_count)
        ]
        last = max((execution.order for execution in known.values()), default=0)
        ran.sort(key=lambda cell: cell.execution_count or 0)
        for order, cell in enumerate(ran, start=last + 1):
            known[cell.id] = RecordedExecution(
                order, cell.execution_count, cell.version, sources.get(cell.id, {})
            )
        there = {cell.id for cell in code if cell.execution_count is not None or cell.running}
        for cell_id in known.keys() - there:
            del known[cell_id]


def _sources(cells: Sequence[Cell], language: str) -> dict[str, dict[str, str]]:
    """Id of a code cell -> where the names that it uses come from (`Execution.sources`); nothing
    in languages that we cannot read.
    """
    setters: dict[str, str] = {}
    opaque = False
    deferred: dict[str, set[str]] = {}
    found: dict[str, dict[str, str]] = {}
    for cell in cells if language == "python" else ():
        if cell.type != "code":
            continue
        names = names_of(cell.source)
        used = with_deferred(names.used, deferred)
        found[cell.id] = {
            name: setters.get(name, _ANYWHERE) for name in used if opaque or name in setters
        }
        if names.anything:
            opaque = True
            setters.clear()
            deferred.clear()
        for name in names.defined:
            setters[name] = cell.id
            deferred.pop(name, None)
        deferred.update(names.deferred)
        for name in names.imported:  # importing once more changes nothing
            setters[name] = _ANYWHERE
    return found


def _by_names(
    ran: Sequence[tuple[Cell, RecordedExecution]],
    by_id: Mapping[str, Cell],
    executions: Mapping[str, RecordedExecution],
    sources: Mapping[str, Mapping[str, str]],
) -> dict[str, str]:
    stale: dict[str, str] = {}
    for cell, own in ran:
        if own.version != cell.version:
            stale[cell.id] = _EDITED
            continue
        now = sources[cell.id]
        for name in sorted(own.sources.keys() | now.keys()):
            why = _reason(name, own, now.get(name), by_id, executions, stale)
            if why:
                stale[cell.id] = why
                break
    return stale


def _reason(
    name: str,
    own: RecordedExecution,
    setter: str | None,
    by_id: Mapping[str, Cell],
    executions: Mapping[str, RecordedExecution],
    stale: Mapping[str, str],
) -> str | None:
    former = own.sources.get(name)
    if _ANYWHERE in (former, setter):
        return None
    if setter is None:
        gone = "is gone" if former not in by_id else "no longer sets it above"
        return f"It uses `{name}`, but cell `{former}`, which set it, {gone}."
    execution = executions.get(setter)
    if execution is None:
        return f"It uses `{name}`, but cell `{setter}`, which sets it, has not run."
    if execution.order > own.order:
        return f"It uses `{name}`, which cell `{setter}` set again later."
    if execution.version != by_id[setter].version:
        return f"It uses `{name}` of cell `{setter}`, which was edited and has not run since."
    if setter in stale:
        return f"It uses `{name}` of cell `{setter}`, which is stale."
    if former != setter:
        return f"It uses `{name}`, which cell `{setter}` sets now, and did not when it ran."
    return None


def _by_counts(ran: Sequence[tuple[Cell, RecordedExecution]]) -> dict[str, str]:
    stale: dict[str, str] = {}
    latest: tuple[int, str] | None = None
    edited: str | None = None
    for cell, own in ran:
        if own.version != cell.version:
            stale[cell.id] = _EDITED
            edited = edited or cell.id
        elif edited is not None:
            stale[cell.id] = f"Cell `{edited}` above was edited and has not run since."
        elif latest is not None and own.order < latest[0]:
            stale[cell.id] = f"Cell `{latest[1]}` above ran after it."
        if latest is None or own.order > latest[0]:
            latest = own.order, cell.id
    return stale
