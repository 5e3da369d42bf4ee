"""An agent that uses the real tools at random, with a scripted kernel."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from typing import Any

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.cell import Cell, Change
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import CellNotFound, NotConfirmed, ToolError
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.kernel.reply import ExecutionReply
from jupyter_agent.kernel.widgets import Widgets
from jupyter_agent.tools import toolbox
from jupyter_agent.tools.base import Result
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.workspace import Services, Workspace

from .play import MARK, MOST_CELLS, Log


class Agent:
    """Calls tools at random, with cells that it read some time ago, and undoes its turns."""

    def __init__(self, notebooks: Notebooks, path: str, log: Log, random_: random.Random) -> None:
        self.refused: Counter[str] = Counter()
        self._runs = Runs()
        self._log = log
        self._random = random_
        self._toolbox = toolbox()
        services = Services(
            notebooks=notebooks,
            kernels=ScriptedKernels(random_),  # type: ignore[arg-type]
            runs=self._runs,
            files=None,  # type: ignore[arg-type]
            fresh=None,  # type: ignore[arg-type]
            identities=None,  # type: ignore[arg-type]
        )
        self.work = Workspace(services=services, user="u", authorize=_yes, home=path)
        self._turns: list[list[Change]] = [[]]
        self._deleted: set[str] = set()
        self._count = 0

    async def act(self) -> None:
        """One operation. Errors that tools report are logged, all others are bugs."""
        kinds = [self._update] * 5 + [self._replace] * 3 + [self._move] * 3 + [self._run] * 3
        kinds += [self._read] * 2 + [self._create, self._delete] * 2
        kinds += [self._undo, self._retype, self._end_turn]
        kind = self._random.choice(kinds)
        self._log.operations[kind.__name__.strip("_")] += 1
        self._collect()
        try:
            await kind()
        except ToolError as error:
            self.refused[type(error).__name__] += 1

    async def finish(self) -> None:
        for run in self._runs.of_turn(None):  # type: ignore[arg-type]
            await run.wait()
        self._collect()

    # ---- what it does

    async def _update(self) -> None:
        cell, mark = await self._cell(), self._mark()
        await self._call("read_cells", cell_ids=[cell.id])
        lines = (await self._notebook()).cached_cell(cell.id).source.split("\n")
        lines.insert(self._random.randrange(len(lines) + 1), mark)
        await self._think()
        await self._write([mark], "update_cell", cell_id=cell.id, source="\n".join(lines))

    async def _replace(self) -> None:
        cell = await self._cell()
        if own := MARK.findall(cell.source):
            old, mark = self._random.choice(own), self._mark()
            edit = {"cell_id": cell.id, "old_string": old, "new_string": mark}
            await self._write([mark, old], "update_cell", **edit)
            if old in self._log.marks:
                self._log.marks[old] = False

    async def _create(self) -> None:
        cells = (await self._notebook()).cached_cells()
        if len(cells) < MOST_CELLS:
            place = {"after": self._random.choice(cells).id} if cells else {}
            mark = self._mark()
            await self._write([mark], "create_cell", source=mark, **place)

    async def _delete(self) -> None:
        cell = await self._cell()
        if len((await self._notebook()).cached_cells()) <= 3:
            return
        try:
            result = await self._call("delete_cell", cell_id=cell.id)
        except NotConfirmed:
            self._log.removed(cell.source)  # the tool itself reports that this is unknown
            raise
        before = result.changes[0].before
        assert before is not None
        self._log.filed[cell.id] = before.source
        self._deleted.add(cell.id)

    async def _move(self) -> None:
        cell, other = await self._cell(), await self._cell()
        if cell.id != other.id:
            await self._call("move_cell", cell_id=cell.id, after=other.id)

    async def _retype(self) -> None:
        cell = await self._cell()
        kind = self._random.choice(["code", "markdown"])
        await self._call("update_cell", cell_id=cell.id, type=kind)

    async def _run(self) -> None:
        cell = await self._cell()
        await self._call("run_cell", cell_id=cell.id, wait=self._random.choice([0.0, 60.0]))

    async def _read(self) -> None:
        await self._call("get_notebook_state")

    async def _end_turn(self) -> None:
        self._turns = [*self._turns[-3:], []]

    async def _undo(self) -> None:
        turn = self._random.choice(self._turns)
        journal = [Change.from_json(json.loads(json.dumps(each.to_json()))) for each in turn]
        changes = [change for change in journal if not change.undone]
        notebook = await self._notebook()
        turn.clear()
        try:
            result = await undo(notebook, changes, journal)
        except NotConfirmed:
            for change in changes:  # the tool itself reports that this is unknown
                for state in filter(None, (change.before, change.after)):
                    self._log.removed(state.source)
            raise
        except ToolError:
            turn += journal
            raise
        marked = [replace(change, undone=True) for change in journal]
        turn += [
            done if done in result.undone else change
            for change, done in zip(journal, marked, strict=True)
        ]
        self.returned(notebook.cached_cells())
        there = {cell.id for cell in notebook.cached_cells()}
        left_alone = {conflict["cell_id"] for conflict in result.conflicts}
        for cell_id in {change.cell_id for change in changes} - left_alone:
            self._taken_back([each for each in changes if each.cell_id == cell_id], there)

    def returned(self, cells: Sequence[Cell]) -> None:
        """Log deleted cells that are there again, with all their content: restored by an undo, or
        by someone who typed there without knowing.
        """
        for cell in cells:
            self._log.filed.pop(cell.id, None)
            if cell.id in self._deleted:
                self._deleted.remove(cell.id)
                for mark in MARK.findall(cell.source):
                    if mark in self._log.marks:
                        self._log.marks[mark] = True

    def _taken_back(self, changes: Sequence[Change], there: Collection[str]) -> None:
        written: set[str] = set()
        replaced: set[str] = set()
        for change in changes:
            if change.kind in ("insert", "update") and change.after:
                before = set(MARK.findall(change.before.source)) if change.before else set()
                after = set(MARK.findall(change.after.source))
                written |= after - before
                replaced |= before - after
        created, cell_id = changes[0].before is None, changes[0].cell_id
        if created and changes[-1].after is None:
            self._log.filed.pop(cell_id, None)
        if created and (changes[-1].after is None or cell_id not in there):
            self._deleted.add(cell_id)
        for mark in (written | replaced) & self._log.marks.keys():
            self._log.marks[mark] = mark not in written

    # ---- how

    async def _call(self, tool: str, **input: Any) -> Result:
        assert tool in self._toolbox, "or its calls would all be refused, and test nothing"
        call = self._toolbox.parse(tool, input)
        async with lease(self.work, None) as nb:
            if call.is_exclusive:
                await nb.take()
            result = await call.run(nb)
        self._turns[-1] += result.changes
        return result

    async def _write(self, marks: Sequence[str], tool: str, **input: Any) -> None:
        """A call that writes the first of the marks."""
        self._log.marks[marks[0]] = False
        try:
            result = await self._call(tool, **input)
        except NotConfirmed:
            for mark in marks:  # the tool itself reports that this is unknown
                self._log.marks.pop(mark, None)
            raise
        if marks[0] in self._log.marks:  # else people deleted it at once
            self._log.marks[marks[0]] = bool(result.changes)

    async def _notebook(self) -> Notebook:
        return await self.work.find(None)

    async def _cell(self) -> Cell:
        """A cell as it was some time ago."""
        cells = (await self._notebook()).cached_cells()
        if not cells:
            raise CellNotFound("", known=[])  # the page froze before it was read
        cell = self._random.choice(cells)
        await self._think()
        return cell

    async def _think(self) -> None:
        for _ in range(self._random.randrange(30)):
            await asyncio.sleep(0)

    def _collect(self) -> None:
        for run in self._runs.of_turn(None):  # type: ignore[arg-type]
            if run.ended:
                self._turns[-1] += run.take_changes()

    def _mark(self) -> str:
        self._count += 1
        return f"é[{self._count}]😀"


async def _yes(action: str, resource: str) -> bool:
    return True


class ScriptedKernels:
    """One kernel, for whichever notebook."""

    def __init__(self, random_: random.Random) -> None:
        self._kernel = ScriptedKernel(random_)

    async def find(self, path: str) -> ScriptedKernel:
        return self._kernel

    get = find

    async def paths(self, kernel: ScriptedKernel) -> list[str]:
        return []


class ScriptedKernel:
    """A kernel whose cells print some lines, some turns of the event loop apart."""

    id = name = life = "scripted"
    connection_file = ""
    language_info = None
    language = "python"
    state = "idle"
    generation = 0
    busy_seconds = None
    widgets = Widgets()

    def __init__(self, random_: random.Random) -> None:
        self._random = random_
        self._queue = asyncio.Lock()
        self._count = 0

    def use(self, user: object) -> None: ...

    def execute(
        self, code: str, sink: OutputSink, *, store_history: bool, timeout: float | None
    ) -> Scripted:
        return Scripted(self._run(sink))

    async def _run(self, sink: OutputSink) -> ExecutionReply:
        async with self._queue:
            if not await sink.prepare():
                return ExecutionReply(status="interrupted")
            sink.on_start()
            self._count += 1
            for number in range(self._random.randrange(4)):
                sink.stream("stdout", f"run {self._count} line {number}\n")
                for _ in range(self._random.randrange(20)):
                    await asyncio.sleep(0)
            return ExecutionReply(status="ok", execution_count=self._count)


class Scripted:
    """One run of it."""

    request_id = "scripted"

    def __init__(self, work: Any) -> None:
        self._task: asyncio.Task[ExecutionReply] = asyncio.create_task(work)

    def __await__(self) -> Generator[Any, None, ExecutionReply]:
        return asyncio.shield(self._task).__await__()

    async def interrupt(self) -> None: ...

    async def cancel(self) -> None:
        self._task.cancel()
