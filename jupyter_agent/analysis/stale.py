"""Finds cells whose results no longer follow from the code above them.

A document only has execution counts: they restart with each kernel, and an edit leaves them
unchanged. So the history of a notebook is recorded as it is seen: the order in which its cells ran,
with which text, and which run had last set each name. This is compared with the cells above, which
would set the names in a run from the top. A run is identified by its count and its kernel process.
After a restart of the server the history starts again from the counts.
"""

from __future__ import annotations

import asyncio
import builtins
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_agent.analysis.name_finder import Names, with_deferred
from jupyter_agent.analysis.names import made_of, names_of
from jupyter_agent.document.cell import Cell

_NOTEBOOKS = 200
"""Notebooks to remember, the most recently used."""
_MAX_RUNS = 1_000
"""Reported runs of a notebook that are stored until the next look."""
_MANY = 200
"""Cells that take so long to parse that the event loop must not wait for it."""
_EDITED = "It was edited and has not run since."
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class Setter:
    """The cell that set a name."""

    cell_id: str
    module: str = ""
    """The module of an import, which sets the same however often it runs."""


_ANYWHERE = Setter("")
"""The setter is unknown: it may be any cell."""


@dataclass(frozen=True)
class _Run:
    """Identifies one run of a cell."""

    kernel: str
    """`Kernel.life`, if it was known."""
    count: int


@dataclass(frozen=True)
class RecordedExecution:
    """The last run of a cell, as far as it was seen."""

    order: int
    """Higher for later runs."""
    changed: Mapping[str, int]
    """Name -> the order of the last run of this cell that may have changed its value."""
    run: _Run
    writes: int
    """`Cell.writes` at the last look."""
    meaning: str
    source: str
    sources: Mapping[str, Setter]
    """Name -> the cell that had set it last."""


class Executions:
    """The execution histories of this server's notebooks."""

    def __init__(self) -> None:
        self._notebooks: OrderedDict[str, _History] = OrderedDict()

    def record_run(self, path: str, cell: Cell, count: int, kernel: str) -> None:
        """Record that a cell ran with this text and got this execution count; `kernel` is the
        `Kernel.life`.
        """
        self._history(path).reported.append((replace(cell, outputs=()), _Run(kernel, count)))

    async def stale(
        self, path: str, cells: Sequence[Cell], language: str, kernel: str
    ) -> dict[str, str]:
        """Stale cells: id -> the reason, as a sentence. Records the runs that `cells` show.

        `kernel` is the `Kernel.life` of the notebook's current kernel, empty if none runs.
        """
        history = self._history(path)
        async with history.lock:
            if texts := history.texts_to_parse(cells, language):
                await asyncio.to_thread(_parse, texts)
            return history.look(cells, language, kernel)

    def _history(self, path: str) -> _History:
        history = self._notebooks.setdefault(path, _History())
        self._notebooks.move_to_end(path)
        if len(self._notebooks) > _NOTEBOOKS:
            self._notebooks.popitem(last=False)
        return history


class _Flow:
    """Tracks which cell sets each name as cells run one after the other."""

    def __init__(self) -> None:
        self.setters: dict[str, Setter] = {}
        self._opaque = False
        """Whether some code may have set any name."""
        self._star: Setter | None = None
        """The star imports that may have set names that nothing else sets."""
        self._needs: dict[str, set[str]] = {}
        self._later: dict[str, set[str]] = {}

    def take(self, cell_id: str, names: Names) -> dict[str, Setter]:
        """Run the cell: returns the names that it uses, each with the cell that had set it."""
        used = with_deferred(names.used, self._needs)
        found = {name: setter for name in used if (setter := self._setter(name)) is not None}
        if names.stars:
            before = self._star.module.split() if self._star else []
            self._star = Setter(cell_id, " ".join(sorted({*before, *names.stars})))
            self.setters = dict.fromkeys(self.setters, _ANYWHERE)
        elif names.anything:
            self._opaque = True
            self.setters.clear()
            self._needs.clear()
        for name in names.defined:
            self._needs.pop(name, None)
            self._later.pop(name, None)
        self._needs.update(names.deferred)
        self._later.update(names.later)
        for name in self.names_set(names):
            self.setters[name] = Setter(cell_id)
        for name, module in names.imported.items():
            self.setters[name] = Setter(cell_id, module)
        if names.result != "none" and "_" not in names.defined:
            self.setters["_"] = Setter(cell_id) if names.result == "sure" else _ANYWHERE
        return found

    def names_set(self, names: Names) -> set[str]:
        """The names that the cell sets, itself or by the functions that it calls."""
        later = {**self._later, **names.later}
        called = with_deferred(names.called, {**self._needs, **names.deferred})
        return names.defined.union(*(later.get(name, ()) for name in called))

    def names_changing(self, names: Names) -> set[str]:
        """Those of the names that change each time the cell runs."""
        needed = with_deferred(names.called, {**self._needs, **names.deferred})
        return names.repeating | (needed & self.names_set(names)) - names.defined

    def _setter(self, name: str) -> Setter | None:
        if name in self.setters:
            return self.setters[name]
        if self._opaque:
            return _ANYWHERE
        return None if name in _BUILTINS else self._star


@dataclass
class _History:
    """The execution history of one notebook."""

    executions: dict[str, RecordedExecution] = field(default_factory=dict)
    reported: deque[tuple[Cell, _Run]] = field(default_factory=lambda: deque(maxlen=_MAX_RUNS))
    """Runs since the last look that were reported with `record_run`, in order."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held for a look: one at a time, in the order in which the cells were read."""
    flow: _Flow = field(default_factory=_Flow)
    order: int = 0
    last: _Run = _Run("", 0)
    """The most recently recorded run."""
    texts: set[str] = field(default_factory=set)
    """The code at the last look."""

    def texts_to_parse(self, cells: Sequence[Cell], language: str) -> set[str]:
        """The code that may have to be parsed: the last look did not see it, or it is so much that
        the cache of `names_of` may have lost it.
        """
        if language != "python":
            return set()
        former, self.texts = self.texts, {cell.source for cell in cells if cell.type == "code"}
        return self.texts if len(self.texts) > _MANY else self.texts - former

    def look(self, cells: Sequence[Cell], language: str, kernel: str) -> dict[str, str]:
        code = [cell for cell in cells if cell.type == "code"]
        self._remember(code, language, kernel)
        ran = [
            (cell, self.executions[cell.id])
            for cell in code
            if cell.id in self.executions and not cell.running
        ]
        if language == "python":
            above = _Flow()
            expected = {cell.id: above.take(cell.id, names_of(cell.source)) for cell in code}
            by_id = {cell.id: cell for cell in code}
            return _by_names(ran, by_id, self.executions, expected)
        return _by_counts(ran)

    def _remember(self, code: Sequence[Cell], language: str, kernel: str) -> None:
        """Record the cells that ran since the last look, ordered by their counts."""
        known = self.executions
        reported = [
            (cell, run)
            for cell, run in self.reported
            if cell.id not in known or known[cell.id].run != run
        ]
        counts = {(cell.id, run.count) for cell, run in self.reported}
        self.reported.clear()
        seen = [
            (cell, _Run(kernel, cell.execution_count))
            for cell in code
            if cell.execution_count is not None
            and not cell.running
            and (cell.id, cell.execution_count) not in counts
            and self._is_new(cell, kernel)
        ]
        seen.sort(key=lambda each: each[1].count)
        for cell, run in reported:
            while seen and seen[0][1].count < run.count:
                self._record(*seen.pop(0), language)
            self._record(cell, run, language)
        for cell, run in seen:
            self._record(cell, run, language)
        there = {cell.id for cell in code if cell.execution_count is not None or cell.running}
        for cell_id in known.keys() - there:
            del known[cell_id]
        for cell in code:
            if cell.id in known and not cell.running and known[cell.id].writes != cell.writes:
                known[cell.id] = replace(known[cell.id], writes=cell.writes)

    def _is_new(self, cell: Cell, kernel: str) -> bool:
        """Whether the cell's execution count is from a run that is not recorded. After a restart of
        the kernel a new run may have the same count as before.
        """
        known = self.executions.get(cell.id)
        if known is None or known.run.count != cell.execution_count:
            return True
        return known.run.kernel != kernel and cell.writes not in (0, known.writes)

    def _record(self, cell: Cell, run: _Run, language: str) -> None:
        names = names_of(cell.source) if language == "python" else Names(meaning=cell.source)
        former = self.executions.get(cell.id)
        if run.kernel != self.last.kernel or run.count <= self.last.count:
            self.flow = _Flow()  # another kernel process: nothing is set in it
        self.last = run
        repeating = self.flow.names_changing(names)
        sources = self.flow.take(cell.id, names)
        if former is not None:
            # A name that the cell changed itself keeps its setter if running again changes nothing.
            sources = {
                name: former.sources.get(name, setter)
                if setter.cell_id == cell.id and name not in repeating
                else setter
                for name, setter in sources.items()
            }
        self.order += 1
        same = (
            former is not None
            and names.pure
            and former.sources == sources
            and not self._changed_since(former.order, sources)
        )
        changed = {
            name: former.changed.get(name, self.order)
            if former is not None and same and _same(name, former.source, cell.source)
            else self.order
            for name in self.flow.names_set(names).union(names.imported, ["_"])
        }
        self.executions[cell.id] = RecordedExecution(
            self.order, changed, run, cell.writes, names.meaning, cell.source, sources
        )

    def _changed_since(self, order: int, sources: Mapping[str, Setter]) -> bool:
        """Whether one of these names changed after that run."""
        for name, setter in sources.items():
            execution = self.executions.get(setter.cell_id)
            if execution is None or execution.changed.get(name, execution.order) > order:
                return True
        return False


def _same(name: str, before: str, now: str) -> bool:
    """Whether two texts of a cell give a name the same value."""
    if before == now or names_of(before).meaning == names_of(now).meaning:
        return True
    return name != "_" and made_of(before, name) == made_of(now, name)


def _parse(texts: Iterable[str]) -> None:
    """Fill the cache of `names_of`, which takes a while."""
    for text in texts:
        names_of(text)


def _by_names(
    ran: Sequence[tuple[Cell, RecordedExecution]],
    by_id: Mapping[str, Cell],
    executions: Mapping[str, RecordedExecution],
    expected: Mapping[str, Mapping[str, Setter]],
) -> dict[str, str]:
    stale: dict[str, str] = {}
    spoiled: set[str] = set()
    """Cells whose names have other values than in a run from the top."""
    for cell, own in ran:
        now = expected[cell.id]
        for name in sorted(own.sources.keys() | now.keys()):
            why = _reason(name, cell.id, own, now.get(name), by_id, executions, spoiled)
            if why:
                stale[cell.id] = why
                spoiled.add(cell.id)
                break
        if own.meaning != names_of(cell.source).meaning:
            stale[cell.id] = _EDITED
    return stale


def _reason(
    name: str,
    cell_id: str,
    own: RecordedExecution,
    setter: Setter | None,
    by_id: Mapping[str, Cell],
    executions: Mapping[str, RecordedExecution],
    spoiled: Collection[str],
) -> str | None:
    former = own.sources.get(name)
    if setter == _ANYWHERE or (setter is None and former == _ANYWHERE):
        return None
    if setter is None:
        return _no_setter(name, cell_id, former, by_id)
    if setter.module:
        if former is None or not former.module or former.module == setter.module:
            return None  # importing again changes nothing
        return f"It uses `{name}`, but cell `{setter.cell_id}` now imports a different `{name}`."
    above = setter.cell_id
    execution = executions.get(above)
    if execution is None:
        return f"It uses `{name}`, but cell `{above}`, which sets it, has not run."
    if execution.changed.get(name, execution.order) > own.order:
        return f"It uses `{name}`, which cell `{above}` set again later."
    if not _same(name, execution.source, by_id[above].source):
        return f"It uses `{name}` of cell `{above}`, which was edited and has not run since."
    if above in spoiled:
        return f"It uses `{name}` of cell `{above}`, which is stale."
    if former == _ANYWHERE:
        return None
    if former is None:
        return (
            None if execution.order < own.order else f"It ran before cell `{above}` set `{name}`."
        )
    if former.cell_id == cell_id:
        return f"It changes `{name}`, which it uses, and ran more than once."
    if former.cell_id != above:
        if former.cell_id not in by_id:
            return f"It used `{name}` of cell `{former.cell_id}`, which is gone."
        return (
            f"It used `{name}` of cell `{former.cell_id}`, which ran last before it; "
            f"in order cell `{above}` sets it."
        )
    return None


def _no_setter(
    name: str, cell_id: str, former: Setter | None, by_id: Mapping[str, Cell]
) -> str | None:
    if former is None or former.cell_id == cell_id or former.module:
        return None
    if former.cell_id not in by_id:
        return f"It uses `{name}`, but cell `{former.cell_id}`, which set it, is gone."
    return f"It uses `{name}`, but cell `{former.cell_id}`, which set it, no longer sets it above."


def _by_counts(ran: Sequence[tuple[Cell, RecordedExecution]]) -> dict[str, str]:
    stale: dict[str, str] = {}
    latest: tuple[int, str] | None = None
    edited: str | None = None
    for cell, own in ran:
        if own.meaning != cell.source:
            stale[cell.id] = _EDITED
            edited = edited or cell.id
        elif edited is not None:
            stale[cell.id] = f"Cell `{edited}` above was edited and has not run since."
        elif latest is not None and own.order < latest[0]:
            stale[cell.id] = f"Cell `{latest[1]}` above ran after it."
        if latest is None or own.order > latest[0]:
            latest = own.order, cell.id
    return stale
