"""The players of the fuzz: people who type, programs that write files, and the agent with its
tools. Each keeps a log of what it was told is done; `Log.check` compares all logs with what is
there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Protocol

import nbformat
from pycrdt import Text

from jupyter_agent import tools
from jupyter_agent.errors import NotConfirmed, ToolError
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.kernel.run import Reply
from jupyter_agent.notebook.carriers import Notebooks
from jupyter_agent.notebook.cell import Cell, Change
from jupyter_agent.notebook.changes import undo
from jupyter_agent.notebook.document import Notebook
from jupyter_agent.notebook.shared import nbformat_cell, shared_cell
from jupyter_agent.tools.base import Result, Toolbox
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.workspace import Rooms, Workspace

MOST_CELLS = 9
PATIENCE = 100_000
"""Turns of the event loop."""
MARK = re.compile(r"é\[\d+\]😀")
WORD = re.compile(r"[一-鿿]abc")


class Log:
    """What was acknowledged, and has to be there."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        """Typed to the end by people, and not taken away by them."""
        self.marks: dict[str, bool] = {}
        """Written by the agent: whether it was told that the mark is there."""
        self.filed: dict[str, str] = {}
        """Cell id -> text, of cells that the agent has deleted: an undo brings them back."""
        self.operations: Counter[str] = Counter()

    def removed(self, text: str) -> None:
        """People took this text away."""
        self.words -= set(WORD.findall(text))
        for mark in MARK.findall(text):
            self.marks.pop(mark, None)

    def check(self, sources: Sequence[str]) -> None:
        text = "\0".join(sources)
        kept = "\0".join(self.filed.values())
        lost = {
            word: (text.count(word), kept.count(word))
            for word in self.words
            if text.count(word) + (word in kept) != 1
        }
        assert lost == {}, f"lost or doubled (in the notebook, in deleted cells): {lost}"
        wrong = {
            mark: (there, text.count(mark))
            for mark, there in self.marks.items()
            if (text.count(mark) != 1 if there else text.count(mark) != 0)
            and not (there and mark in kept)
        }
        assert wrong == {}, f"edits (told to be there, found): {wrong}"


class Screen(Protocol):
    """A notebook in a browser: `browser.Tab` or `rooms.Person`."""

    notebook: Any
    active_cell: str | None
    behind: bool

    def type(self, cell_id: str, text: str, at: int | None = None) -> None: ...
    def delete_cell(self, cell_id: str) -> None: ...
    def edit_in(self, cell_id: str) -> None: ...
    def cell(self, cell_id: str) -> Any: ...
    def ids(self) -> list[str]: ...


class Typist:
    """Types words letter by letter, and does with cells what people do."""

    def __init__(self, screen: Screen, log: Log, random_: random.Random) -> None:
        self.busy = asyncio.Lock()
        """Held in the middle of a word."""
        self.screen = screen
        self._log = log
        self._random = random_
        self._count = 0
        self._over = False

    async def work(self) -> None:
        while not self._over:
            async with self.busy:
                await self._next_moment()
                await self._word()
            await self._next_moment()
            for _ in range(self._random.randrange(150)):
                await asyncio.sleep(0)

    def stop(self) -> None:
        self._over = True

    def go_elsewhere(self) -> None:
        cell_id = self._random.choice(self.screen.ids())
        self.screen.active_cell = cell_id
        if len(self.screen.cell(cell_id)["source"]):  # pycrdt has no place in an empty text
            self.screen.edit_in(cell_id)

    def insert_cell(self) -> None:
        ids = self.screen.ids()
        if len(ids) < MOST_CELLS:
            cell = {"id": f"p{self._count}", "cell_type": "code", "source": self._new_word()}
            cell |= {"metadata": {}, "outputs": [], "execution_count": None}
            with self.screen.notebook.ydoc.transaction():
                self.screen.notebook.ycells.insert(
                    self._random.randrange(len(ids) + 1), shared_cell(cell)
                )
                self.screen.notebook.ystate["dirty"] = True
            self._log.words.add(cell["source"])

    def delete_cell(self) -> None:
        ids = self.screen.ids()
        if len(ids) > 2:
            cell_id = self._random.choice(ids)
            self._log.removed(str(self.screen.cell(cell_id)["source"]))
            self.screen.delete_cell(cell_id)
            if cell_id == self.screen.active_cell:
                self.go_elsewhere()

    def tidy_up(self) -> None:
        """Takes a word away again."""
        for cell_id in self.screen.ids():
            source: Text = self.screen.cell(cell_id)["source"]
            found = WORD.findall(str(source))
            if len(found) > 3:
                word = self._random.choice(found)
                at = len(str(source).split(word)[0].encode())
                with self.screen.notebook.ydoc.transaction():
                    del source[at : at + len(word.encode())]
                    self.screen.notebook.ystate["dirty"] = True
                self._log.removed(word)

    def _new_word(self) -> str:
        # The first letter is in no other word, so that the place in the text is found again.
        self._count += 1
        return f"{chr(0x4E00 + self._count)}abc"

    async def _next_moment(self) -> None:
        """Nobody can type in a page that is frozen, or that has just woken up."""
        await asyncio.sleep(0)
        while self.screen.behind:
            await asyncio.sleep(0)

    async def _word(self) -> None:
        cell_id = self.screen.active_cell
        if cell_id not in self.screen.ids():
            self.go_elsewhere()
            return
        letters, typed = self._new_word(), ""
        while typed != letters:
            text = str(self.screen.cell(cell_id)["source"])
            if typed:
                for _ in range(PATIENCE):
                    if cell_id not in self.screen.ids():
                        return
                    text = str(self.screen.cell(cell_id)["source"])
                    if typed in text:
                        break
                    await self._next_moment()  # the letters are on their way into a copy
                at = text.index(typed) + len(typed)
            else:
                ends = [len(before) for before in itertools.accumulate(text.splitlines(True))]
                at = self._random.choice([0, *ends])
                if self._random.random() < 0.5:
                    self.screen.type(cell_id, "\n", at)
            self.screen.type(cell_id, letters[len(typed)], at)
            typed += letters[len(typed)]
            for _ in range(self._random.randrange(4)):
                await self._next_moment()
            if cell_id not in self.screen.ids():
                return  # it was deleted with the letters so far, which its undo brings back
        self._log.words.add(letters)


class Program:
    """Another program that writes the notebook's file, each time as it finds it."""

    def __init__(self, path: Path, log: Log, random_: random.Random) -> None:
        self.busy = asyncio.Lock()
        """Held while it writes."""
        self._path = path
        self._log = log
        self._random = random_
        self._count = 0
        self._over = False

    async def work(self) -> None:
        while not self._over:
            async with self.busy:
                self.write()
            for _ in range(self._random.randrange(100)):
                await asyncio.sleep(0)

    def stop(self) -> None:
        self._over = True

    def write(self) -> None:
        content = json.loads(self._path.read_text(encoding="utf-8"))
        cells = content["cells"]
        self._count += 1
        word = f"{chr(0x4E00 + 9000 + self._count)}abc"
        kind = self._random.randrange(8) if cells else 0
        at = self._random.randrange(len(cells)) if cells else 0
        if kind == 0 and len(cells) < MOST_CELLS:
            cells.insert(at, _code(f"f{self._count}", word))
            self._log.words.add(word)
        elif kind == 1 and len(cells) > 2:
            self._log.removed("".join(cells.pop(at)["source"]))
        elif kind == 2:
            cells.insert(self._random.randrange(len(cells)), cells.pop(at))
        elif kind == 3:
            source = "".join(cells[at]["source"])
            words = WORD.findall(source)
            if words:
                cells[at]["source"] = source.replace(words[0], "").splitlines(keepends=True)
                self._log.removed(words[0])
        elif cells:
            lines = "".join(cells[at]["source"]).split("\n")
            lines.insert(self._random.randrange(len(lines) + 1), word)
            cells[at]["source"] = "\n".join(lines).splitlines(keepends=True)
            self._log.words.add(word)
        text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        self._path.write_text(text, encoding="utf-8")


def _code(cell_id: str, source: str) -> dict[str, Any]:
    return {
        "id": cell_id,
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }


class Agent:
    """Calls tools at random, with what it read some time ago, and undoes its turns."""

    def __init__(self, notebooks: Notebooks, path: str, log: Log, random_: random.Random) -> None:
        self.refused: Counter[str] = Counter()
        self._runs = Runs()
        self._log = log
        self._random = random_
        self._toolbox = Toolbox(tools.ALL)
        rooms = Rooms(
            notebooks=notebooks,
            kernels=ScriptedKernels(random_),  # type: ignore[arg-type]
            runs=self._runs,
            files=None,  # type: ignore[arg-type]
            fresh=None,  # type: ignore[arg-type]
        )
        self.work = Workspace(rooms=rooms, user="u", authorize=_yes, home=path)
        self._turns: list[list[Change]] = [[]]
        self._count = 0

    async def act(self) -> None:
        """One operation. Errors that tools tell are noted, all others are bugs."""
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
        lines = (await self.work.notebook()).peek(cell.id).source.split("\n")
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
        cells = (await self.work.notebook()).cells()
        if len(cells) < MOST_CELLS:
            place = {"after": self._random.choice(cells).id} if cells else {}
            mark = self._mark()
            await self._write([mark], "create_cell", source=mark, **place)

    async def _delete(self) -> None:
        cell = await self._cell()
        if len((await self.work.notebook()).cells()) <= 3:
            return
        try:
            result = await self._call("delete_cell", cell_id=cell.id)
        except NotConfirmed:
            self._log.removed(cell.source)  # it says itself that it does not know
            raise
        before = result.changes[0].before
        assert before is not None
        self._log.filed[cell.id] = before.source

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
        changes = [Change.from_json(json.loads(json.dumps(each.to_json()))) for each in turn]
        notebook = await self.work.notebook()
        turn.clear()
        try:
            result = await undo(notebook, changes)
        except NotConfirmed:
            for change in changes:  # it says itself that it does not know
                for state in filter(None, (change.before, change.after)):
                    self._log.removed(state.source)
            raise
        except ToolError:
            turn += changes
            raise
        left_alone = {conflict["cell_id"] for conflict in result.conflicts}
        turn += [change for change in changes if change.cell_id in left_alone]
        self._returned({cell.id for cell in notebook.cells()})
        for cell_id in {change.cell_id for change in changes} - left_alone:
            self._taken_back([change for change in changes if change.cell_id == cell_id])

    def _returned(self, present: set[str]) -> None:
        """Deleted cells that are there again, with all that was in them."""
        for cell_id in self._log.filed.keys() & present:
            for mark in MARK.findall(self._log.filed.pop(cell_id)):
                if mark in self._log.marks:
                    self._log.marks[mark] = True

    def _taken_back(self, changes: Sequence[Change]) -> None:
        written: set[str] = set()
        replaced: set[str] = set()
        for change in changes:
            if change.kind in ("insert", "update") and change.after:
                before = set(MARK.findall(change.before.source)) if change.before else set()
                after = set(MARK.findall(change.after.source))
                written |= after - before
                replaced |= before - after
        if changes[0].before is None and changes[-1].after is None:
            self._log.filed.pop(changes[0].cell_id, None)
        for mark in (written | replaced) & self._log.marks.keys():
            self._log.marks[mark] = mark not in written

    # ---- how

    async def _call(self, tool: str, **input: Any) -> Result:
        result = await self._toolbox.parse(tool, input).run(self.work)
        self._turns[-1] += result.changes
        return result

    async def _write(self, marks: Sequence[str], tool: str, **input: Any) -> None:
        """A call that writes the first of the marks."""
        self._log.marks[marks[0]] = False
        try:
            result = await self._call(tool, **input)
        except NotConfirmed:
            for mark in marks:  # it says itself that it does not know
                self._log.marks.pop(mark, None)
            raise
        if marks[0] in self._log.marks:  # else people took it away at once
            self._log.marks[marks[0]] = bool(result.changes)

    async def _cell(self) -> Cell:
        """A cell as it was some time ago."""
        cell = self._random.choice((await self.work.notebook()).cells())
        await self._think()
        return cell

    async def _think(self) -> None:
        for _ in range(self._random.randrange(30)):
            await asyncio.sleep(0)

    def _collect(self) -> None:
        for run in self._runs.of_turn(None):  # type: ignore[arg-type]
            if run.ended:
                self._turns[-1] += run.report()

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


class ScriptedKernel:
    """A kernel whose cells print some lines, each some turns of the event loop after the other."""

    id = name = life = "scripted"
    language = "python"
    state = "idle"
    generation = 0
    busy_seconds = None

    def __init__(self, random_: random.Random) -> None:
        self._random = random_
        self._queue = asyncio.Lock()
        self._count = 0

    def execute(self, code: str, sink: OutputSink, *, timeout: float | None) -> Scripted:
        return Scripted(self._run(sink))

    async def _run(self, sink: OutputSink) -> Reply:
        async with self._queue:
            if not await sink.wanted():
                return Reply(status="interrupted")
            sink.started()
            self._count += 1
            for number in range(self._random.randrange(4)):
                sink.stream("stdout", f"run {self._count} line {number}\n")
                for _ in range(self._random.randrange(20)):
                    await asyncio.sleep(0)
            return Reply(status="ok", execution_count=self._count)


class Scripted:
    """One run of it."""

    def __init__(self, work: Any) -> None:
        self._task: asyncio.Task[Reply] = asyncio.create_task(work)

    def __await__(self) -> Generator[Any, None, Reply]:
        return asyncio.shield(self._task).__await__()

    async def interrupt(self) -> None: ...

    async def cancel(self) -> None:
        self._task.cancel()


def check_replicas(notebook: Notebook, screen: Screen) -> None:
    """The server and the screen show the same."""
    ours = notebook.cells()
    assert [cell.id for cell in ours] == screen.ids()
    assert [cell.source for cell in ours] == [
        str(screen.cell(cell_id)["source"]) for cell_id in screen.ids()
    ]


def check_notebook(notebook: Notebook, log: Log) -> None:
    """Nothing lost, nothing garbled, nothing twice, and valid."""
    cells = notebook.cells()
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids), f"doubled: {ids}"
    for cell in cells:
        nbformat.validate(
            nbformat_cell(cell.id, cell.state()),
            ref=f"{cell.type}_cell",
            version=4,
            version_minor=5,
            relax_add_props=True,
        )
    log.check([cell.source for cell in cells])


def check_file(path: Path) -> None:
    content = nbformat.read(path, as_version=4)
    nbformat.validate(content)
    ids = [cell.id for cell in content.cells]
    assert len(set(ids)) == len(ids)
