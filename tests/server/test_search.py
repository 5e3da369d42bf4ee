"""A search that never ends delays no one else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.assistant import Assistant
from tests.fakes import calls, says
from tests.fakes.script import FakeReply
from tests.waiting import until

from .conftest import Call

EVIL = r"\s+\s+\s+\s+x"


@pytest.fixture
def spaces(jp_root_dir: Path) -> str:
    """A notebook in which that expression takes longer than anyone lives."""
    cells = [new_code_cell(" " * 20_000, id="a1"), new_code_cell("price = 1", id="b2")]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "a.ipynb")
    return "a.ipynb"


def matching() -> list[psutil.Process]:
    """The running processes that match."""
    return [each for each in psutil.Process().children() if "matcher.py" in str(each.cmdline())]


async def test_while_an_evil_search_runs_others_are_answered(
    call: Call, spaces: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.text.search.SECONDS", 600)
    body = {"notebook": spaces, "input": {"query": EVIL, "regex": True}}
    search = asyncio.create_task(call("POST", "tools", "search_notebook", body=body))
    (matcher,) = await until(matching)
    for _ in range(5):
        assert (await call("GET", "notebooks", spaces)).status == 200
    assert not search.done()
    matcher.kill()
    told = (await search).body
    assert told["is_error"]
    assert "plain text" in told["text"]


async def test_an_evil_search_has_a_second(call: Call, spaces: str) -> None:
    body = {"notebook": spaces, "input": {"query": EVIL, "regex": True}}
    told = (await call("POST", "tools", "search_notebook", body=body)).body
    assert told["is_error"]
    assert "took longer than 1 s" in told["text"]
    assert "plain text" in told["text"]
    assert matching() == []


async def test_a_search_ends_with_the_turn_that_is_stopped(
    call: Call, agent: Assistant, replies: list[FakeReply], spaces: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("jupyter_agent.text.search.SECONDS", 600)
    replies += [[calls("search_notebook", query=EVIL, regex=True)] * 3, [says("Never said.")]]
    message = {"role": "user", "content": "Search."}
    body = {"id": "talk", "notebook": spaces, "messages": [message], "stream": False}
    turn = asyncio.create_task(call("POST", "chat", body=body))
    await until(matching)
    stopped = (await call("POST", "chat", "talk", "stop")).body
    assert stopped["state"] == "stopped"
    assert matching() == []
    assert (await turn).body["state"] == "stopped"
