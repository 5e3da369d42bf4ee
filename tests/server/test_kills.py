"""SIGKILL at every durable step of a turn: afterwards the data are complete and true.

A step is a transaction of the store, a save of the notebook, or code sent to the kernel; each has a
point before and one after it. A server is killed at one of them, restarted, and asked what
happened.
"""

from __future__ import annotations

import random
import shutil
import urllib.error
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.fakes.server import in_thread

from ..programs import Server, jupyter_server

CONFIG = """
import os, signal, sys
from jupyter_agent.conversations.database import Database
from jupyter_agent.kernel.kernel import Kernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

POINTS = []
ARMED = []

def point(name):
    if name.endswith("ConversationStore.begin"):
        ARMED.append(True)
    if ARMED:
        POINTS.append(name)
        with open("points.log", "a") as log:
            log.write(name + "\\n")
        if len(POINTS) == int(os.environ.get("KILLED_AT", "0")):
            os.kill(os.getpid(), signal.SIGKILL)

def around(owner, method, name):
    real = getattr(owner, method)
    async def pointed(self, *args, **kwargs):
        step = name(sys._getframe(1), args)
        point("before " + step)
        done = await real(self, *args, **kwargs)
        point("after " + step)
        return done
    setattr(owner, method, pointed)

def caller(frame, args):
    while frame.f_code.co_filename.endswith("database.py"):
        frame = frame.f_back
    return frame.f_code.co_qualname

around(Database, "run", caller)
around(AsyncLargeFileManager, "save", lambda frame, args: "save " + args[1])
execute = Kernel.execute

def pointed_execute(self, code, *args, **kwargs):
    point("before execute " + code)
    done = execute(self, code, *args, **kwargs)
    point("after execute " + code)
    return done

Kernel.execute = pointed_execute
"""
MARK = "print('ran', file=open('ran.txt', 'a'))"
TURN = [
    [says("I look."), calls("get_notebook_state")],
    [
        calls("update_cell", cell_id="b", old_string="x = 1", new_string="x = 2"),
        calls("create_cell", source="y = x", after="b"),
        calls("delete_cell", cell_id="d"),
    ],
    [calls("run_cell", cell_id="a")],
    [says("Done.")],
]
QUESTION = {
    "id": "talk",
    "notebook": "work.ipynb",
    "model": "anthropic:claude-sonnet-5-5",
    "mode": "auto",
    "messages": [{"role": "user", "content": "Do it."}],
    "stream": False,
}


COMMAND = "jupyter server --port 8888 --IdentityProvider.token=secret"


@dataclass(frozen=True)
class Desk:
    """A folder with a notebook, and the fake model service for it."""

    folder: Path
    api: FakeAnthropic
    environment: pytest.MonkeyPatch

    @contextmanager
    def server(self, *, killed_at: int = 0) -> Iterator[Server]:
        """A server that kills itself at that point of the turn; 0: never."""
        self.environment.setenv("KILLED_AT", str(killed_at))
        with jupyter_server(self.folder, COMMAND) as server:
            yield server

    @property
    def points(self) -> list[str]:
        """The points that were passed."""
        return (self.folder / "points.log").read_text().splitlines()

    @property
    def ran(self) -> int:
        """How often the cell ran; it leaves a mark each time."""
        mark = self.folder / "ran.txt"
        return mark.read_text().count("ran") if mark.exists() else 0

    def reset(self, *replies: FakeReply) -> None:
        """Restores the notebook, empties the store, and sets the model's answers."""
        cells = [new_code_cell(MARK, id="a"), new_code_cell("x = 1", id="b"), new_code_cell(id="d")]
        nbformat.write(new_notebook(cells=cells), self.folder / "work.ipynb")
        for left in ("points.log", "ran.txt"):
            (self.folder / left).unlink(missing_ok=True)
        shutil.rmtree(self.folder / ".data", ignore_errors=True)
        self.api.script = type(self.api.script)(replies)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    config = tmp_path / ".config" / "jupyter_server_config.py"
    config.parent.mkdir()
    with in_thread(FakeAnthropic([])) as api:
        providers = {"anthropic": {"base_url": api.url, "api_key": api.api_key}}
        config.write_text(f"{CONFIG}\nc.JupyterAgent.providers = {providers!r}\n")
        yield Desk(tmp_path, api, monkeypatch)


def check(desk: Desk, server: Server) -> str:
    """Asserts what holds after any crash; returns the state of the turn."""
    notebook = nbformat.read(desk.folder / "work.ipynb", as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert {"a", "b"} <= set(ids)
    conversations = server.request("GET", "conversations")["conversations"]
    if not conversations:
        return "never began"
    (conversation,) = conversations
    messages = server.request("GET", "conversations/talk")["messages"]
    assert messages[0]["parts"][0]["text"] == "Do it."
    state: str = conversation["state"]
    return state


def kill(desk: Desk, number: int) -> str:
    """Kills a turn at that point and asserts the guarantees; returns the turn's state."""
    desk.reset(*TURN)
    with desk.server(killed_at=number) as server:
        try:
            server.request("POST", "chat", QUESTION)
        except (urllib.error.URLError, ConnectionError):
            server.process.wait(60)
        else:  # a turn may write its stream in fewer pieces than the one that was counted
            assert len(desk.points) < number
            return "not reached"
    ran = desk.ran
    assert ran <= 1
    desk.api.script = type(desk.api.script)([[says("Still here.")]])
    with desk.server() as server:
        state = check(desk, server)
        assert state in ("done", "interrupted", "never began")
        after = server.request("POST", "chat", QUESTION)  # the strict API takes the history
        assert after["state"] == "done"
        assert desk.api.refusals == []
        assert check(desk, server) == "done"
        if state == "interrupted":
            first = server.request("GET", "conversations/talk")["messages"][1]
            turn = server.request("GET", f"turns/{first['metadata']['turnId']}")
            assert turn["state"] == "interrupted"
            ends = {"done", "failed", "refused", "unknown"}  # N3: each call has one
            assert {made["state"] for made in turn["calls"]} <= ends
            undone = server.request("POST", f"turns/{turn['id']}/undo", {})
            assert undone["conflicts"] == []
            opened = {made["tool"] for made in turn["calls"] if made["state"] == "unknown"}
            cut_off = opened - {"get_notebook_state"}
            assert all(f"in the middle of `{tool}`" in undone["message"] for tool in cut_off)
            assert not (cut_off and "as before" in undone["message"])
    assert desk.ran == ran  # nothing is run again by itself
    return state


def number_of_points(desk: Desk) -> int:
    desk.reset(*TURN)
    with desk.server() as server:
        assert server.request("POST", "chat", QUESTION)["state"] == "done"
    return len(desk.points)


@pytest.mark.full
def test_a_kill_at_a_random_step_of_a_turn(desk: Desk) -> None:
    seed = random.randrange(2**32)
    count = number_of_points(desk)
    assert count > 40
    for number in random.Random(seed).sample(range(1, count + 1), 2):
        try:
            kill(desk, number)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, point {number}: {desk.points[-1]}") from error


@pytest.mark.long
def test_a_kill_at_every_step_of_a_turn(desk: Desk) -> None:
    states = Counter(kill(desk, number) for number in range(1, number_of_points(desk) + 1))
    assert set(states) <= {"never began", "interrupted", "done", "not reached"}
    assert states["interrupted"] > 40
