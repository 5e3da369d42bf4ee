"""Two people and an agent in a room: while one is away, everybody goes on, moves, retypes, splits
and merges cells. Every word that anybody wrote is there at the end, and once: but cells that
somebody merges while the agent moves or retypes one of them may be there beside what was merged.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from pathlib import Path

import pytest

from jupyter_agent.carriers import Notebooks
from jupyter_agent.document.cell import CellType
from jupyter_agent.document.notebook import Notebook

from .conftest import code, notebook_json
from .rooms import Person, RoomServer

ROUNDS = 4
TYPES: tuple[CellType, ...] = ("code", "markdown", "raw")
WORD = re.compile(r"w\d{3}w")


@pytest.fixture
def path(room_server: RoomServer) -> str:
    cells = [code("a", "x = 1\ny = 2\nz = 3"), code("b", "b = 1\nbb = 2"), code("c", "")]
    Path(room_server.root / "a.ipynb").write_text(notebook_json(cells))
    return "a.ipynb"


class Session:
    """What everybody does, by chance."""

    def __init__(self, seed: int, notebook: Notebook) -> None:
        self.chance = random.Random(seed)
        self.agent_moves = self.chance.random() < 0.5
        self.written: list[str] = []
        self.log: list[str] = [f"seed {seed}"]
        self._notebook = notebook
        self._numbers = itertools.count()

    def act(self, person: Person) -> None:
        """Of somebody who is away."""
        kind = self.chance.choice(["type", "type", "move", "retype", "split", "merge", "insert"])
        cell = self.chance.choice(person.ids())
        self.log.append(f"  away: {kind} {cell}")
        match kind:
            case "type":
                text = person.source(cell)
                person.type(cell, f" {self._word()} ", self._place(text))
            case "move":
                person.move_cell(cell, self.chance.randrange(len(person.ids())))
            case "retype":
                person.retype(cell, self.chance.choice(TYPES))
            case "split":
                person.split(cell, self._place(person.source(cell)), self._id())
            case "merge" if cell != person.ids()[-1]:
                below = person.ids()[person.ids().index(cell) + 1]
                person.merge_cells(cell, below, new=self._id())
            case "insert":
                index = self.chance.randrange(len(person.ids()) + 1)
                person.insert_cell(index, self._id(), self._word())

    async def type(self, person: Person) -> None:
        """Of somebody who is there."""
        cell = self.chance.choice(person.ids())
        self.log.append(f"  there: type {cell}")
        person.type(cell, f"\n{self._word()}", self.chance.choice([0, None]))
        await person.sync()

    async def edit(self) -> None:
        """Of the agent."""
        cell = self.chance.choice(cells := await self._notebook.read())
        moves = ["move", "retype"] if self.agent_moves else []
        match self.chance.choice(["write", "write", "write", *moves]):
            case "move":
                self.log.append(f"  agent: move {cell.id}")
                await self._notebook.move(cell.id, index=self.chance.randrange(len(cells)))
                return
            case "retype":
                self.log.append(f"  agent: retype {cell.id}")
                new = self.chance.choice([type for type in TYPES if type != cell.type])
                await self._notebook.update(cell.id, type=new)
                return
        lines = cell.source.split("\n")
        lines.insert(self.chance.randrange(len(lines) + 1), self._word())
        self.log.append(f"  agent: edit {cell.id}")
        await self._notebook.update(cell.id, source="\n".join(lines), base=cell.source)

    def _word(self) -> str:
        self.written.append(f"w{len(self.written):03}w")
        self.log.append(f"  {self.written[-1]}")
        return self.written[-1]

    def _id(self) -> str:
        return f"n{next(self._numbers)}"

    def _place(self, text: str) -> int:
        """Somewhere, but in no word."""
        inside = {place for word in WORD.finditer(text) for place in range(*word.span())}
        starts = {word.start() for word in WORD.finditer(text)}
        return self.chance.choice([*starts, *({*range(len(text) + 1)} - inside)])


async def play(server: RoomServer, notebooks: Notebooks, path: str, seed: int) -> None:
    people = [await Person(server, path).open() for _ in range(2)]
    notebook = await notebooks.get(path)
    session = Session(seed, notebook)
    for _ in range(ROUNDS):
        away, there = session.chance.sample(people, 2)
        away.cut()
        plan = ["away"] * session.chance.randrange(1, 5) + ["agent"] * session.chance.randrange(
            1, 4
        )
        plan += ["there"] * session.chance.randrange(3)
        session.chance.shuffle(plan)
        for who in plan:
            match who:
                case "away":
                    session.act(away)
                case "there":
                    await session.type(there)
                case "agent":
                    await session.edit()
        session.log.append("back")
        await away.connect()
        cells = {cell.id: cell.source for cell in await notebook.read()}
        session.log += [f"  {cell_id}: {text!r}" for cell_id, text in cells.items()]
        found = sorted(WORD.findall("\0".join(cells.values())))
        if session.agent_moves:
            found = sorted(set(found))
        assert found == session.written, "\n".join(session.log)
        for person in people:
            await person.sync()
            assert {cell_id: person.source(cell_id) for cell_id in person.ids()} == cells
    for person in people:
        await person.close()


async def test_no_word_is_lost_when_somebody_comes_back_to_a_room(
    room_server: RoomServer, room_notebooks: Notebooks, path: str
) -> None:
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
    await play(room_server, room_notebooks, path, seed)


@pytest.mark.long
@pytest.mark.parametrize("number", range(100))
async def test_no_word_is_lost_in_many_returns_to_rooms(
    room_server: RoomServer, room_notebooks: Notebooks, path: str, number: int
) -> None:
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6)) + number
    await play(room_server, room_notebooks, path, seed)
