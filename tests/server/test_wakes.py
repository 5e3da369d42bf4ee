"""A run that ends after its turn wakes its conversation, if its person wants that: once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.records import NewTurn, Opening
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.gates import Gate
from tests.waiting import soon, until

from .conftest import PATH, Call, answered, ask, ended


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """The cell runs until it is open."""
    return Gate(tmp_path / "gate")


@pytest.fixture
def replies(replies: list[FakeReply]) -> list[FakeReply]:
    replies += [[calls("run_cell", cell_id="b2", wait=0)], [says("It runs.")]]
    return replies


async def started(call: Call, gate: Gate, then: str = "6 * 7", **more: Any) -> str:
    """A finished turn, and the id of the run that it left behind."""
    source = {"source": f"{gate.waits}\n{then}"}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=source)
    answer = (await call("POST", "chat", body=ask("Train it.", stream=False, **more))).body
    assert answer["state"] == "done", answer
    [part] = [part for part in answer["message"]["parts"] if part["type"] == "dynamic-tool"]
    return str(part["output"]["run_id"])


async def wake(call: Call, run_id: str, method: str = "PUT") -> int:
    return (await call(method, "runs", run_id, "wake")).status


async def turns(call: Call) -> list[dict[str, Any]]:
    return list((await call("GET", "conversations", "talk")).body["turns"])


async def woken(call: Call, number: int = 2) -> list[dict[str, Any]]:
    """The turns of the conversation, once there are that many and all have ended."""
    states = ["done"] * number
    return await turned(call, lambda turns: [turn["state"] for turn in turns] == states)


async def turned(call: Call, holds: Callable[[list[dict[str, Any]]], object]) -> Any:
    """The turns of the conversation, once `holds` is true of them."""
    talk = await answered(
        lambda: call("GET", "conversations", "talk"), lambda talk: holds(talk["turns"])
    )
    return talk["turns"]


@pytest.mark.full
@pytest.mark.parametrize(("then", "status"), [("6 * 7", "ok"), ("1 / 0", "error")])
async def test_the_end_of_a_run_starts_one_turn_that_says_which_ended_with_what(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
    gate: Gate,
    then: str,
    status: str,
) -> None:
    replies += [[says("It is done.")]]
    run_id = await started(call, gate, then, mode="auto", effort="low")
    assert await wake(call, run_id) == 204
    assert (await call("GET", "runs", run_id)).body["wake"] is True
    assert len(await turns(call)) == 1
    gate.open()
    _, second = await woken(call)
    messages = (await call("GET", "conversations", "talk")).body["messages"]
    question = messages[2]
    assert question["role"] == "user"
    assert question["metadata"]["ended"]["run_id"] == run_id
    assert question["metadata"]["ended"]["status"] == status
    assert messages[3]["parts"][-1]["text"] == "It is done."
    told = json.dumps(fake.requests[-1]["messages"][-1], ensure_ascii=False)
    assert f"cell `b2` in {PATH}, status {status}, after" in told
    turn = (await call("GET", "turns", second["id"])).body
    assert (turn["mode"], turn["notebook"], turn["effort"]) == ("auto", PATH, "low")
    assert turn["model"] == "anthropic:claude-sonnet-5-5"
    assert (await call("GET", "runs", run_id)).body["wake"] is False
    again = await call("PUT", "runs", run_id, "wake")
    assert (again.status, again.body["reason"]) == (409, "run_ended")
    assert fake.refusals == []


async def test_what_was_allowed_in_a_turn_is_asked_again_in_the_one_that_is_woken(
    call: Call, replies: list[FakeReply], notebook: Path, gate: Gate
) -> None:
    replies += [[calls("run_cell", cell_id="c3")], [says("Waits.")]]
    run_id = await started(call, gate, mode="edit", allow=["run_cell"])
    assert await wake(call, run_id) == 204
    gate.open()
    await turned(call, lambda turns: turns[-1]["state"] == "waiting")
    await call("POST", "chat", "talk", "stop")


@pytest.mark.full
@pytest.mark.parametrize("again", [False, True])
async def test_nobody_is_woken_who_took_it_back_unless_they_want_it_after_all(
    call: Call,
    agent: Assistant,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
    gate: Gate,
    again: bool,
) -> None:
    replies += [[says("It is done.")]]
    run_id = await started(call, gate)
    for method in ("PUT", "PUT", "DELETE", "DELETE", *(["PUT"] if again else [])):
        assert await wake(call, run_id, method) == 204
    gate.open()
    await ended(call, run_id)
    if again:
        assert len(await woken(call)) == 2
    else:
        assert not agent.wakes._waiting
        assert len(await turns(call)) == 1
        assert len(fake.requests) == 2


@pytest.mark.full
async def test_a_turn_that_is_just_starting_runs_although_its_wake_is_taken_back(
    call: Call,
    agent: Assistant,
    replies: list[FakeReply],
    notebook: Path,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies += [[says("It is done.")], [says("And more.")]]
    run_id = await started(call, gate)
    assert await wake(call, run_id) == 204
    store, stored, taken_back = agent.runner.stores.conversations, asyncio.Event(), asyncio.Event()
    begin = store.begin

    async def slowly(turn: NewTurn) -> Opening:
        opening = await begin(turn)
        stored.set()
        await taken_back.wait()
        return opening

    monkeypatch.setattr(store, "begin", slowly)
    gate.open()
    await soon(stored)
    assert await wake(call, run_id, "DELETE") == 204
    taken_back.set()
    assert len(await woken(call)) == 2
    assert (await call("POST", "chat", body=ask("And?", stream=False))).body["state"] == "done"


@pytest.mark.full
async def test_a_turn_that_runs_comes_first(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path, gate: Gate
) -> None:
    replies += [[calls("run_code", code="1")], [says("Second.")], [says("It is done.")]]
    run_id = await started(call, gate)
    assert await wake(call, run_id) == 204
    body = ask("And?", stream=False, mode="edit")
    body["messages"][0]["id"] = "u2"
    asking = asyncio.ensure_future(call("POST", "chat", body=body))
    await turned(call, lambda turns: turns[-1]["state"] == "waiting")
    gate.open()
    await ended(call, run_id)
    assert [turn["state"] for turn in await turns(call)] == ["done", "waiting"]
    await call("POST", "chat", "talk", "stop")
    await asking
    await turned(call, lambda turns: len(turns) == 3)


@pytest.mark.full
async def test_a_run_that_no_turn_started_wakes_nobody(
    call: Call, notebook: Path, gate: Gate
) -> None:
    source = {"source": gate.waits}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=source)
    run = (await call("POST", "notebooks", PATH, "cells", "b2", "run", body={"wait": 0})).body
    refused = await call("PUT", "runs", run["run_id"], "wake")
    assert (refused.status, refused.body["reason"]) == (400, "no_conversation")
    assert await wake(call, "gone") == 404
    gate.open()


@pytest.mark.full
async def test_a_deleted_conversation_is_not_woken(
    call: Call, fake: FakeAnthropic, notebook: Path, gate: Gate, agent: Assistant
) -> None:
    run_id = await started(call, gate)
    assert await wake(call, run_id) == 204
    await call("DELETE", "conversations", "talk")
    gate.open()
    await until(lambda: not agent.wakes._waiting)
    assert len(fake.requests) == 2
    assert await wake(call, run_id) == 404


@pytest.mark.full
async def test_a_server_that_stops_wakes_nobody(
    call: Call, fake: FakeAnthropic, notebook: Path, gate: Gate, agent: Assistant
) -> None:
    run_id = await started(call, gate)
    assert await wake(call, run_id) == 204
    await agent.wakes.close()
    gate.open()
    await ended(call, run_id)
    assert len(fake.requests) == 2
    assert (await call("GET", "runs", run_id)).body["wake"] is True, "who comes back is asked again"
    fake.script = type(fake.script)([[says("It is done.")]])
    assert await wake(call, run_id) == 204, "also where it ended meanwhile"
    assert len(await woken(call)) == 2
    assert await wake(call, run_id) == 409
