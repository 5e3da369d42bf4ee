"""People and an agent working in the same notebook, at random, in each carrier: everything typed,
and everything confirmed, is there exactly once.

A failure prints its seed: `JUPYTER_AGENT_FUZZ_SEED=... pytest tests/notebook/test_fuzz.py` plays
the same again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from jupyter_server.services.contents.largefilemanager import LargeFileManager
from jupyter_ydoc import YNotebook
from pycrdt import Doc
from tornado.iostream import IOStream

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.errors import Busy

from . import rooms
from .browser import Tab
from .conftest import cells_of, code, notebook_json
from .play import (
    PATIENCE,
    Clock,
    Log,
    Program,
    Screen,
    Typist,
    check_file,
    check_notebook,
    check_replicas,
)
from .tool_user import Agent

Write = Callable[..., Path]
SEED = int(os.environ.get("JUPYTER_AGENT_FUZZ_SEED", 20261124))
CELLS = [code("a", "x = 1\ny = 2\n"), code("b", ""), code("c", "print(x)")]

SESSION = 100
"""Operations with one seed."""


def impatient() -> Timeouts:
    return Timeouts(attach=0.05, sync=0.05, save=0.05, reconnect=1.0, page=0.05, quiet_page=0.01)


sessions = pytest.mark.parametrize(
    "sessions", [5, pytest.param(100, marks=pytest.mark.long)], ids=["few", "many"]
)
synchronous = pytest.mark.parametrize("contents", [LargeFileManager], indirect=True)


@pytest.fixture
def tabs() -> Tabs:
    return Tabs(impatient())


@pytest.fixture(autouse=True)
def undelayed(monkeypatch: pytest.MonkeyPatch) -> None:
    set_nodelay = IOStream.set_nodelay  # the system delays short messages by 40 ms otherwise
    monkeypatch.setattr(IOStream, "set_nodelay", lambda stream, _: set_nodelay(stream, True))


@pytest.fixture(autouse=True)
def replayable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing depends on the speed of threads, nor on random ids."""
    clients = itertools.count(2**40)

    async def at_once(work: Callable[..., Any], *given: Any, **more: Any) -> Any:
        return work(*given, **more)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    monkeypatch.setattr(
        "jupyter_agent.document.values.uuid4", lambda: UUID(int=random.getrandbits(128))
    )
    monkeypatch.setattr(
        "jupyter_agent.carriers.tab_link.YNotebook",
        lambda: YNotebook(Doc(client_id=next(clients))),
    )


@pytest.fixture
def clock(
    jp_asyncio_loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Clock]:
    """Time passes with the turns of the event loop, so a busy machine changes nothing."""
    clock = Clock(jp_asyncio_loop)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    clock.tick()
    yield clock
    clock.stop()


@asynccontextmanager
async def closing(notebooks: Notebooks) -> AsyncIterator[Notebooks]:
    try:
        yield notebooks
    finally:
        await notebooks.close()


async def opened(notebooks: Notebooks, path: str) -> Notebook:
    """The notebook, once its page has answered: on a busy machine it may take its time."""
    while True:
        try:
            return await notebooks.get(path)
        except Busy:
            continue


async def settled(notebook: Notebook) -> None:
    """Everything on its way has arrived."""
    while True:
        try:
            await notebook.read()
        except Busy:
            continue
        return


def shown(notebook: Notebook) -> list[str]:
    return [cell.source for cell in notebook.cached_cells()]


def on_screen(screen: Screen) -> list[str]:
    return [str(cell["source"]) for cell in screen.notebook.ycells]


@asynccontextmanager
async def at_work(work: Any, stop: Callable[[], None]) -> AsyncIterator[None]:
    """Someone works until the block ends; their errors are raised here."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        stop()
        await task


class Session:
    """The players of one session; a failure reports the seed."""

    def __init__(self, seed: int, notebooks: Notebooks, path: str) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.log = Log()
        self.agent = Agent(notebooks, path, self.log, self.random)
        self.seed = seed
        self._later: dict[asyncio.Task[None], Callable[[], object]] = {}
        random.seed(seed)  # of the ids of the people's documents

    def later(self, turns: int, action: Callable[[], object]) -> None:
        """Run it after at most so many turns of the event loop."""

        async def after() -> None:
            for _ in range(self.random.randrange(turns)):
                await asyncio.sleep(0)
            del self._later[task]
            action()

        task = asyncio.create_task(after())
        self._later[task] = action

    def at_once(self) -> None:
        """Run everything that was postponed."""
        while self._later:
            task, action = self._later.popitem()
            task.cancel()
            action()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None:
            error.add_note(f"JUPYTER_AGENT_FUZZ_SEED={self.seed} {self.log.operations}")


@sessions
@synchronous
async def test_a_person_types_in_a_tab(
    contents: Any, write: Write, clock: Clock, sessions: int
) -> None:
    for seed in range(SEED, SEED + sessions):
        clock.set(seed)
        path, tabs = write(f"{seed}.ipynb", CELLS), Tabs(impatient())
        async with closing(Notebooks(contents, tabs)) as notebooks:
            with Session(seed, notebooks, path.name) as session:
                await in_a_tab(session, contents, tabs, notebooks, path)


async def in_a_tab(
    session: Session, contents: Any, tabs: Tabs, notebooks: Notebooks, path: Path
) -> None:
    log, random_, agent = session.log, session.random, session.agent
    program = Program(path, log, random_)
    tab = await Tab(tabs, contents, session.path).open()
    tab.edit_in("a")
    person = Typist(tab, log, random_)
    notebook = await opened(notebooks, session.path)

    async def same() -> None:
        async with asyncio.timeout(60):
            while True:  # work left undone by a lost connection is done as soon as the page is back
                await settled(notebook)
                if shown(notebook) == on_screen(person.screen):
                    break
        check_replicas(notebook, person.screen)
        agent.returned(notebook.cached_cells())
        check_notebook(notebook, log)

    async def close_and_open() -> None:
        session.at_once()
        await settled(notebook)
        await tab.save()
        tab.cut()
        for _ in range(random_.randrange(3)):
            await agent.act()
        await agent.finish()
        person.screen = await Tab(tabs, contents, session.path, f"page-{random_.random()}").open()
        person.go_elsewhere()

    async with at_work(person.work(), person.stop):
        for _ in range(SESSION):
            tab = cast(Tab, person.screen)
            match random_.randrange(24):
                case 0 | 1:
                    session.later(30, partial(cut_for_a_while, session, tab))
                case 2:
                    freeze_for_a_while(session, tab)
                case kind:
                    async with person.busy:
                        match kind:
                            case 3 | 4 | 5 | 6:
                                person.go_elsewhere()
                            case 7:
                                person.insert_cell()
                            case 8:
                                person.delete_cell()
                            case 9 | 10 | 11:
                                person.tidy_up()
                            case 12:
                                await tab.save()
                            case 13:
                                await close_and_open()
                            case 14 if tab.at_rest and not notebook.busy:
                                program.write()
                                await settled(notebook)
            await agent.act()
            session.at_once()
            async with person.busy:
                await same()
    session.at_once()
    await agent.finish()
    await same()
    tab = cast(Tab, person.screen)
    await tab.save()
    check_file(path)
    tab.cut()


def cut_for_a_while(session: Session, tab: Tab) -> None:
    def come_back() -> None:
        tab.connect()
        if session.random.random() < 0.5:
            session.later(20, partial(freeze_for_a_while, session, tab))

    tab.cut()
    session.later(60, come_back)


def freeze_for_a_while(session: Session, tab: Tab) -> None:
    """For a moment, or until the agent gives up."""
    tab.freeze()
    session.later(session.random.choice([30, PATIENCE]), tab.thaw)


@pytest.mark.full
@sessions
@synchronous
async def test_another_program_writes_the_file(
    contents: Any, write: Write, clock: Clock, sessions: int
) -> None:
    for seed in range(SEED, SEED + sessions):
        clock.set(seed)
        path = write(f"{seed}.ipynb", CELLS)
        async with closing(Notebooks(contents, Tabs())) as notebooks:
            with Session(seed, notebooks, path.name) as session:
                await in_a_file(session, notebooks, path)


async def in_a_file(session: Session, notebooks: Notebooks, path: Path) -> None:
    program = Program(path, session.log, session.random)
    notebook = await notebooks.get(session.path)
    async with at_work(program.work(), program.stop):
        for _ in range(SESSION):
            await session.agent.act()
            async with program.busy:
                await settled(notebook)
                check_notebook(notebook, session.log)
                check_file(path)
    await session.agent.finish()
    await settled(notebook)
    assert [cell.source for cell in notebook.cached_cells()] == [
        cell["source"] for cell in cells_of(path)
    ]
    check_notebook(notebook, session.log)


@pytest.mark.full
@sessions
async def test_a_person_types_in_a_room(
    room_server: rooms.RoomServer, room_notebooks: Notebooks, sessions: int
) -> None:
    for seed in range(SEED, SEED + sessions):
        path = room_server.root / f"{seed}.ipynb"
        path.write_text(notebook_json(CELLS), encoding="utf-8")
        with Session(seed, room_notebooks, path.name) as session:
            await in_a_room(session, room_server, room_notebooks, path)


async def in_a_room(
    session: Session, server: rooms.RoomServer, notebooks: Notebooks, path: Path
) -> None:
    """Other programs write only saved content: the room puts their file over unsaved typing."""
    log, random_, agent = session.log, session.random, session.agent
    program = Program(path, log, random_)
    screen = await rooms.Person(server, session.path).open()
    screen.edit_in("a")
    person = Typist(screen, log, random_)
    notebook = await notebooks.get(session.path)

    async def same() -> None:
        async with asyncio.timeout(60):
            while True:  # the room follows its file by itself, too
                await screen.sync()
                await settled(notebook)
                await screen.sync()
                if shown(notebook) == on_screen(screen):
                    break
        check_replicas(notebook, screen)
        agent.returned(notebook.cached_cells())
        check_notebook(notebook, log)

    async with at_work(person.work(), person.stop):
        for _ in range(SESSION):
            async with person.busy:
                match random_.randrange(24):
                    case 0 | 1:
                        screen.cut()  # they continue to type
                    case 2:
                        screen.frozen = True  # their typing gets out, and nothing gets in
                    case 3 | 4 | 5:
                        person.go_elsewhere()
                    case 6:
                        person.insert_cell()
                    case 7:
                        person.delete_cell()
                    case 8 | 9 | 10:
                        person.tidy_up()
                    case 11:
                        await notebook.save()
                    case 12 | 13 if not notebook.busy:
                        await screen.sync()  # else it may continue without letters on their way
                        if (await notebook.save()).saved:
                            program.write()
                            await settled(notebook)
                            await screen.sync()
            await agent.act()
            async with person.busy:
                screen.thaw()
                await screen.connect()
                await same()
    await agent.finish()
    await same()
    await notebook.save()
    check_file(path)
    await screen.close()
