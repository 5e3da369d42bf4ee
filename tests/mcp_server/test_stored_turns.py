"""A client's actions and questions are stored first: wherever its call breaks off, and whenever the
store fails, nothing is asked twice, done in secret or left running for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations import client_questions, client_turn, clients
from jupyter_agent.conversations.log import LogEntry, StateChanged
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.errors import StoreUnavailable
from tests.notebook.browser import Tab
from tests.server.conftest import Listener
from tests.waiting import soon, until

from .conftest import EDIT, PATH, Ask, Call, Tool, sources

READ = {"notebook": PATH, "cell_ids": ["b2"]}
Append = Callable[..., Awaitable[None]]


@pytest.fixture(autouse=True)
def nobody_hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person takes longer to answer than a call waits."""
    monkeypatch.setattr(client_questions, "PANEL_S", 0.2)


class Store:
    """Fails, or blocks, the first time that it gets entries of a type."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    def at(self, kind: type[Any], act: Callable[[], Awaitable[None]]) -> None:
        real = ConversationStore.append

        async def append(
            store: ConversationStore, turn_id: str, entries: Sequence[LogEntry], *, after: int = 0
        ) -> None:
            if not self.reached.is_set() and any(isinstance(each, kind) for each in entries):
                self.reached.set()
                await act()
            await real(store, turn_id, entries, after=after)

        self._monkeypatch.setattr(ConversationStore, "append", append)

    def stands_still_at(self, kind: type[Any]) -> None:
        async def wait() -> None:
            await self.release.wait()

        self.at(kind, wait)

    def fails_at(self, kind: type[Any]) -> None:
        async def fail() -> None:
            raise StoreUnavailable("The disk is full.")

        self.at(kind, fail)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(monkeypatch)


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Task[Any]]:
    """The tasks of clients' calls, for cancelling."""
    tasks: list[asyncio.Task[Any]] = []
    real = clients._Client.working

    def working(client: Any, *given: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        return real(client, *given)

    monkeypatch.setattr(clients._Client, "working", working)
    return tasks


async def test_a_question_that_cannot_be_stored_is_not_shown_and_is_asked_by_the_next_call(
    agent: Assistant, ask: Ask, tool: Tool, tab: Tab, store: Store
) -> None:
    store.fails_at(Approval)
    failed = await ask("tools/call", {"name": "edit_cells", "arguments": EDIT})
    assert "The disk is full." in str(failed.body)
    (live,) = agent.runner.running
    assert not live.questions
    assert "tool-approval-request" not in [event.type for event in live.events]
    await tool("edit_cells", EDIT)
    assert len(live.questions) == 1


async def test_a_question_is_asked_once_though_its_call_is_given_up_while_it_is_stored(
    agent: Assistant, tool: Tool, tab: Tab, store: Store, given_up: list[asyncio.Task[Any]]
) -> None:
    store.stands_still_at(Approval)
    calling = asyncio.create_task(tool("edit_cells", EDIT))
    await soon(store.reached)
    given_up[0].cancel()
    await asyncio.sleep(0)
    store.release.set()
    with suppress(Exception):
        await calling
    await tool("edit_cells", EDIT)
    (live,) = agent.runner.running
    assert len(live.questions) == 1


async def test_of_two_equal_calls_that_nobody_answers_each_has_an_end(
    agent: Assistant, tool: Tool, tab: Tab
) -> None:
    await asyncio.gather(tool("edit_cells", EDIT), tool("edit_cells", EDIT))
    (live,) = agent.runner.running
    (question,) = live.questions
    assert await live.answer({question.id: Answer(approved=True)})
    assert (await tool("edit_cells", EDIT))["isError"] is False
    ends = ("tool-output-available", "tool-output-error", "tool-output-denied")
    begun = [event.call_id for event in live.events if event.type == "tool-input-available"]
    ended = Counter(event.call_id for event in live.events if event.type in ends)
    assert ended == Counter(begun)
    assert len(begun) == 2


async def test_a_call_that_is_given_up_while_its_turn_resumes_leaves_no_turn_that_runs(
    agent: Assistant,
    tool: Tool,
    notebook: Path,
    store: Store,
    given_up: list[asyncio.Task[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_turn, "REST_S", 0.05)
    await tool("read_cells", READ, mode="edit")
    await until(lambda: not agent.runner.running)
    store.stands_still_at(StateChanged)
    calling = asyncio.create_task(tool("read_cells", READ, mode="edit"))
    await soon(store.reached)
    given_up[-1].cancel()
    await asyncio.sleep(0)
    store.release.set()
    with suppress(Exception):
        await calling
    await until(lambda: not agent.runner.running)
    assert not await agent.runner.stores.conversations.live_turns()
    monkeypatch.setattr(client_turn, "PAUSE_S", 0.0)
    assert (await tool("read_cells", READ, mode="edit"))["isError"] is False


@pytest.mark.parametrize("stops", [True, False])
async def test_a_turn_whose_end_cannot_be_stored_does_not_run_for_ever(
    agent: Assistant, tool: Tool, notebook: Path, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*given: Any, after: int = 0) -> None:
        raise StoreUnavailable("The disk is full.")

    first = await tool("read_cells", READ, mode="edit")
    (live,) = agent.runner.running
    with monkeypatch.context() as patched:
        patched.setattr(ConversationStore, "append", full)
        if stops:
            await agent.runner.stop(live)
        else:
            patched.setattr(client_turn, "REST_S", 0.0)
            await until(lambda: not agent.runner.running)
    monkeypatch.setattr(client_turn, "PAUSE_S", 0.0)
    next_one = await tool("read_cells", READ, mode="edit")
    assert next_one["isError"] is False
    turn_ids = [each["structuredContent"]["turn_id"] for each in (first, next_one)]
    assert len(set(turn_ids)) == 2
    former = await agent.runner.stores.conversations.turn(turn_ids[0])
    assert former is not None
    assert former.state == "done"


@pytest.mark.parametrize("rested", [False, True])
async def test_nothing_is_edited_by_a_call_that_cannot_be_stored(
    agent: Assistant,
    ask: Ask,
    call: Call,
    tool: Tool,
    notebook: Path,
    rested: bool,
    page: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def full(*given: Any, after: int = 0) -> None:
        raise StoreUnavailable("The disk is full.")

    if rested:
        monkeypatch.setattr(client_turn, "REST_S", 0.0)
    turn_id = (await tool("read_cells", READ, mode="edit"))["structuredContent"]["turn_id"]
    await until(lambda: not (rested and agent.runner.running))
    body = {"new_string": "3", "old_string": "1"}
    with monkeypatch.context() as patched:
        patched.setattr(ConversationStore, "append", full)
        done = await ask("tools/call", {"name": "edit_cells", "arguments": EDIT}, mode="edit")
        by_rest = await call(
            "PATCH", "notebooks", PATH, "cells", "b2", body=body, params={"by": "script"}
        )
    assert "The disk is full." in str(done.body)
    assert by_rest.status == 503
    assert sources(notebook)["b2"] == "x = 1"
    monkeypatch.setattr(client_turn, "REST_S", 0.0)
    edited = await tool("edit_cells", EDIT, mode="edit")
    assert (edited["isError"], edited["structuredContent"]["turn_id"]) == (False, turn_id)
    while rested and await page.turn_announced("mcp_") is not None:
        pass  # the turn runs again: all of it is to be read
    await until(lambda: not agent.runner.running)
    store = agent.runner.stores.conversations
    turn, calls = await store.turn(turn_id), await store.calls(turn_id)
    assert turn is not None
    assert turn.state == "done"
    assert [(each["tool"], each["state"]) for each in calls] == [
        ("read_cells", "done"),
        ("edit_cells", "done"),
    ]
