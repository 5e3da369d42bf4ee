"""A person types in a tab while an agent edits the same notebook, over a wire that is slow, cut
and frozen.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_ydoc import YNotebook
from pycrdt import Array, Doc, Map, Text

from jupyter_agent.errors import Busy, CellNotFound, Conflict, NotConfirmed
from jupyter_agent.notebook.carriers import Notebooks, TabLink, Tabs, replica
from jupyter_agent.notebook.document import Notebook
from jupyter_agent.notebook.shared import SharedCells

from .browser import Tab
from .conftest import code

Write = Callable[..., Path]


class Person:
    """Types words letter by letter in one cell, and remembers them."""

    def __init__(self, tab: Tab, random_: random.Random) -> None:
        self.typed: list[str] = []
        self.away = asyncio.Event()
        self._typing = asyncio.Lock()
        self._tab = tab
        self._random = random_

    async def work(self) -> None:
        while not self.away.is_set() and len(self.typed) < 500:
            async with self._typing:
                await self._word()
            await self._next_moment()

    async def go_elsewhere(self) -> None:
        """Put the cursor into another cell, between two words."""
        async with self._typing:
            await self._next_moment()
            self._tab.edit_in(self._random.choice(self._tab.ids()))

    async def _next_moment(self) -> None:
        """Nobody can type in a page that is frozen, or that has just woken up."""
        await asyncio.sleep(0)
        while self._tab.behind:
            await asyncio.sleep(0)

    async def _word(self) -> None:
        cell_id = self._tab.active_cell
        assert cell_id is not None
        # The first letter is in no other word, so that the place in the text is found again.
        letters = chr(0x4E00 + len(self.typed)) + "abc"
        typed = ""
        source: Text = self._tab.cell(cell_id)["source"]
        while typed != letters:
            text = str(source)
            if typed:
                at = text.index(typed) + len(typed)
            else:
                ends = [len(before) for before in itertools.accumulate(text.splitlines(True))]
                at = self._random.choice([0, *ends])
            self._tab.type(cell_id, letters[len(typed)], at)
            typed += letters[len(typed)]
            for _ in range(self._random.randrange(4)):
                await self._next_moment()
        self.typed.append(letters)


class Agent:
    """Writes marked lines, moves and deletes, and remembers what it was told of each."""

    def __init__(self, notebook: Notebook, random_: random.Random) -> None:
        self.there: set[str] = set()
        self.not_there: set[str] = set()
        self.refused = 0
        self._notebook = notebook
        self._random = random_
        self._count = 0

    async def edit(self) -> None:
        mark = f"[{self._count}]"
        self._count += 1
        try:
            cells = await self._notebook.read()
            for _ in range(self._random.randrange(6)):  # the model thinks, the person types
                await asyncio.sleep(0)
            await self._do(mark, self._random.choice(cells))
        except (Busy, Conflict, CellNotFound):
            self.refused += 1
            self.not_there.add(mark)
        except NotConfirmed:
            self.refused += 1

    async def _do(self, mark: str, cell: Any) -> None:
        cells = self._notebook.cells()
        match self._random.randrange(8):
            case 0:
                await self._notebook.insert(source=mark, index=self._random.randrange(len(cells)))
            case 1 | 2:
                await self._notebook.move(cell.id, index=self._random.randrange(len(cells)))
                return
            case _:
                lines = cell.source.split("\n")
                lines.insert(self._random.randrange(len(lines) + 1), f"é{mark}😀")
                await self._notebook.update(cell.id, source="\n".join(lines), base=cell.source)
        self.there.add(mark)


async def play(seed: int, contents: Any, tabs: Tabs, notebooks: Notebooks) -> None:
    random_ = random.Random(seed)
    tab = await Tab(tabs, contents, "a.ipynb").open()
    notebook = await notebooks.get("a.ipynb")
    person, agent = Person(tab, random_), Agent(notebook, random_)
    tab.edit_in("a")
    work = asyncio.create_task(person.work())
    for _ in range(25):
        match random_.randrange(12):
            case 0:
                asyncio.get_running_loop().call_soon(tab.cut)
                asyncio.get_running_loop().call_later(random_.random() / 50, tab.connect)
            case 1:
                tab.freeze()
                asyncio.get_running_loop().call_later(random_.random() / 10, tab.thaw)
            case 2:
                await person.go_elsewhere()
        await agent.edit()
    person.away.set()
    await work
    text = "\0".join(cell.source for cell in await settled(notebook))
    assert [str(cell["source"]) for cell in tab.notebook.ycells] == text.split("\0")
    assert [word for word in person.typed if text.count(word) != 1] == []
    assert [mark for mark in agent.there if text.count(mark) != 1] == []
    assert [mark for mark in agent.not_there if mark in text] == []
    assert agent.there


async def settled(notebook: Notebook) -> list[Any]:
    while True:
        try:
            return await notebook.read()
        except Busy:
            continue


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("attach_timeout", "sync_timeout", "save_timeout"):
        monkeypatch.setattr(TabLink, name, 0.05)
    monkeypatch.setattr(replica, "RECONNECT", 1.0)
    monkeypatch.setattr("jupyter_agent.notebook.carriers.choose.RECONNECT", 1.0)


@pytest.fixture
def three_cells(write: Write) -> None:
    write("a.ipynb", [code("a", "x = 1\ny = 2\n"), code("b", ""), code("c", "print(x)")])


@pytest.mark.usefixtures("three_cells")
@pytest.mark.parametrize("seed", range(3))
async def test_no_keystroke_is_lost_and_no_edit_is_claimed_that_is_not_there(
    contents: Any, tabs: Tabs, notebooks: Notebooks, seed: int
) -> None:
    await play(seed, contents, tabs, notebooks)


@pytest.mark.long
@pytest.mark.usefixtures("three_cells")
@pytest.mark.parametrize("seed", range(1000, 1200))
async def test_no_keystroke_is_lost_in_many_sessions(
    contents: Any, tabs: Tabs, notebooks: Notebooks, seed: int
) -> None:
    await play(seed, contents, tabs, notebooks)


def test_snapshots_follow_any_change_of_the_document() -> None:
    random_ = random.Random(3)
    document = YNotebook()
    cells = SharedCells(document)
    array: Array[Any] = document.ycells
    for step in range(600):
        with document.ydoc.transaction():
            for number in range(random_.randrange(1, 4)):
                _change(array, random_, f"{step}-{number}")
        if random_.random() < 0.7:
            assert cells.values() == array.to_py()
            assert cells.ids() == [cell["id"] for cell in array.to_py() or []]
    remote: Doc[Any] = Doc()
    remote.apply_update(document.ydoc.get_update())
    for step in range(200):
        with remote.transaction():
            for number in range(random_.randrange(1, 4)):
                _change(remote.get("cells", type=Array), random_, f"r{step}-{number}")
        document.ydoc.apply_update(remote.get_update(document.ydoc.get_state()))
        assert cells.values() == array.to_py()


def _change(cells: Array[Any], random_: random.Random, name: str) -> None:
    index = random_.randrange(len(cells) + 1)
    if index == len(cells) or random_.random() < 0.25:
        new = {"id": name, "source": Text("é"), "outputs": Array([]), "metadata": Map({})}
        cells.insert(index, Map(new))
    elif random_.random() < 0.25:
        del cells[index]
    elif random_.random() < 0.5:
        cells[index]["source"].insert(0, "😀x")
    else:
        cells[index]["outputs"].append(Map({"output_type": "stream", "text": Text("t")}))
