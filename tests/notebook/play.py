"""The players of the fuzz: people who type, and programs that write files. They, and the agent
(`tool_user.py`), log each action that was confirmed, and `Log.check` compares the log with the
notebook.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import nbformat
from pycrdt import Text

from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.values import nbformat_cell, shared_cell

MOST_CELLS = 9
PATIENCE = 100_000
"""Turns of the event loop."""
MARK = re.compile(r"é\[\d+\]😀")
WORD = re.compile(r"[一-鿿]abc")


class Log:
    """Everything that was acknowledged, and has to be in the notebook."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        """Typed to the end by people, and not deleted by them."""
        self.marks: dict[str, bool] = {}
        """Written by the agent: whether it was confirmed that the mark is there."""
        self.filed: dict[str, str] = {}
        """Cell id -> text, of cells that the agent has deleted: an undo restores them."""
        self.operations: Counter[str] = Counter()

    def removed(self, text: str) -> None:
        """Text that people deleted."""
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


class Clock:
    """Tells the time by the turns of the event loop, so that a seed reproduces what happens on a
    busy machine.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = 0.0
        """Seconds."""
        self._loop = loop
        self._turn = 0.0
        self._next: asyncio.Handle | None = None

    def set(self, seed: int) -> None:
        """Run at the speed of that seed: a turn takes from 20 to 500 microseconds."""
        self._turn = 2e-5 * 25 ** random.Random(seed).random()

    def tick(self) -> None:
        """The loop always has something to do, and never waits for real time to pass."""
        self.now += self._turn
        self._next = self._loop.call_soon(self.tick)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()


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
    """Types words letter by letter, and edits cells as people do."""

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
        """Deletes a word again."""
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
        # The first letter is in no other word, which identifies the place in the text again.
        self._count += 1
        return f"{chr(0x4E00 + self._count)}abc"

    async def _next_moment(self) -> None:
        """No one can type in a page that is frozen, or that has just woken up."""
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
                return  # it was deleted with the letters so far, which its undo restores
        self._log.words.add(letters)


class Program:
    """Another program that reads and writes the notebook's file each time."""

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
        self._log.operations["write"] += 1
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


def check_replicas(notebook: Notebook, screen: Screen) -> None:
    """The server and the screen show the same."""
    ours = notebook.cached_cells()
    assert [cell.id for cell in ours] == screen.ids()
    assert [cell.source for cell in ours] == [
        str(screen.cell(cell_id)["source"]) for cell_id in screen.ids()
    ]


def check_notebook(notebook: Notebook, log: Log) -> None:
    """Nothing lost, nothing garbled, nothing twice, and valid."""
    cells = notebook.cached_cells()
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
