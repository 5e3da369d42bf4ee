"""A turn ends when stopped, anywhere and any number of times, and the next one is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.log import LogEntry
from jupyter_agent.conversations.records import NewTurn, Opening
from jupyter_agent.conversations.requests import SentRequest
from jupyter_agent.events import Notice
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply

from ..gates import FOREVER
from ..waiting import soon, until
from .conftest import PATH, Call, ask, frames, live


def ends(stream: str) -> list[str]:
    """The types of the last two chunks."""
    return [chunk["type"] for chunk in frames(stream)][-2:]


def held(after: int) -> Scripted:
    """A reply that hangs for ever after that many events."""
    blocks = [says("I write.")]
    return Scripted(blocks=blocks, stop_after=after, then="wait", gate=asyncio.Event())


async def test_stop_ends_the_stream_wherever_the_turn_is(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path, agent: Assistant
) -> None:
    writing = held(3)
    limited = Scripted(
        status=429, error=("rate_limit_error", "Slow down"), headers={"retry-after": "50"}
    )
    await call(
        "PATCH", "notebooks", PATH, "cells", "c3", body={"source": "print(1)\nwhile True: pass"}
    )

    run = [calls("run_cell", cell_id="c3")]
    code = [calls("run_code", code=FOREVER)]
    written = [calls("create_cells", cells=[{"source": FOREVER}], run=True)]

    def runs(turn: LiveTurn) -> bool:
        return any(run.started for run in agent.services.runs.of_turn(turn.record.id))

    def told(kind: str) -> Callable[[LiveTurn], bool]:
        return lambda turn: any(isinstance(e, Notice) and e.kind == kind for e in turn.events)

    phases: list[tuple[FakeReply, str, Callable[[LiveTurn], bool]]] = [
        (writing, "auto", lambda turn: any(e.type == "text-delta" for e in turn.events)),
        (run, "auto", runs),
        (code, "auto", runs),
        (written, "auto", runs),
        (run, "ask", lambda turn: turn.state == "waiting"),
        (limited, "auto", told("retrying")),
    ]  # fmt: skip
    for reply, mode, ready in phases:
        replies.append(reply)
        asking = asyncio.ensure_future(call("POST", "chat", body=ask("Go.", mode=mode)))
        turn = await live(agent, ready)
        stopped = await call("POST", "chat", "talk", "stop")
        assert stopped.body["state"] == "stopped"
        shown = (await asking).text
        assert ends(shown) == ["abort", "[DONE]"]
        state = (await call("GET", "turns", turn.record.id)).body
        assert state["state"] == "stopped"
        assert {done["state"] for done in state["calls"]} <= {"done", "failed", "refused"}
        made = [frame["data"] for frame in frames(shown) if frame["type"] == "data-changes"]
        assert {each["toolCallId"] for each in made} <= {done["call_id"] for done in state["calls"]}
        reported = [change["cell_id"] for each in made for change in each["changes"]]
        assert sorted(reported) == sorted(change["cell_id"] for change in state["changes"])
        if reply is run and mode == "auto":
            assert reported == ["c3"]
        if reply is written:
            assert "insert" in [change["kind"] for change in state["changes"]]
        for begun in agent.services.runs.of_turn(turn.record.id):
            assert await begun.wait(60)
            assert begun.status == "interrupted"
    replies.append([says("Fine.")])
    assert "Fine." in str((await call("POST", "chat", body=ask("And now?", stream=False))).body)
    assert fake.refusals == []


async def test_stopping_twice_or_after_the_end_is_stopping_once(
    call: Call, replies: list[FakeReply], notebook: Path, agent: Assistant
) -> None:
    reply = held(1)
    replies.append(reply)
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Go.")))
    await live(agent)
    stops = await asyncio.gather(*(call("POST", "chat", "talk", "stop") for _ in range(3)))
    late = await call("POST", "chat", "talk", "stop")
    assert {answer.status for answer in (*stops, late)} == {200}
    await asking
    assert (await call("POST", "chat", "nothing", "stop")).status == 404


@pytest.mark.sample(3)
@pytest.mark.parametrize("ticks", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_a_stop_at_the_very_start_ends_the_turn(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path, ticks: int
) -> None:
    gate = asyncio.Event()
    late = Scripted(blocks=[says("Late.")], stop_after=0, then="wait", gate=gate)
    replies += [late, [says("Hello.")]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("hi")))
    while (turn := agent.runner.live_in("local", "talk")) is None:
        await asyncio.sleep(0)
    for _ in range(ticks):
        await asyncio.sleep(0)
    await agent.runner.stop(turn)
    assert ends((await asking).text) == ["abort", "[DONE]"]
    assert (await call("GET", "turns", turn.record.id)).body["state"] == "stopped"
    gate.set()
    assert ends((await call("POST", "chat", body=ask("again"))).text) == ["finish", "[DONE]"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", ("chat", "talk", "stop"), 200),
        ("DELETE", ("conversations", "talk"), 204),
    ],
)
async def test_a_turn_that_is_just_starting_is_stopped_too(
    agent: Assistant,
    call: Call,
    replies: list[FakeReply],
    notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: tuple[str, ...],
    status: int,
) -> None:
    replies += [[says("Hello.")], held(3)]
    await call("POST", "chat", body=ask("hi"))
    store, starts, gate = agent.runner.stores.conversations, asyncio.Event(), asyncio.Event()
    begin = store.begin

    async def slow(new: NewTurn) -> Opening:
        starts.set()
        await gate.wait()
        return await begin(new)

    monkeypatch.setattr(store, "begin", slow)
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("again")))
    await soon(starts)
    stopping = asyncio.ensure_future(call(method, *path))
    await asyncio.wait([stopping], timeout=0.2)  # it is not answered yet
    gate.set()
    assert (await stopping).status == status
    assert ends((await asking).text) == ["abort", "[DONE]"]
    states = [turn["state"] for turn in (await call("GET", "turns")).body["turns"]]
    assert states == (["stopped", "done"] if status == 200 else [])


async def test_a_stop_while_a_request_is_being_stored_writes_nothing_twice(
    agent: Assistant,
    call: Call,
    replies: list[FakeReply],
    notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies += [[says("Never said.")]]
    store, stored, gate = agent.runner.stores.conversations, asyncio.Event(), asyncio.Event()
    append = store.append

    async def slow(turn_id: str, entries: Sequence[LogEntry], *, after: int = 0) -> None:
        await append(turn_id, entries, after=after)
        if any(isinstance(entry, SentRequest) for entry in entries):
            stored.set()
            await gate.wait()

    monkeypatch.setattr(store, "append", slow)
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("hi")))
    await soon(stored)
    turn = agent.runner.live_in("local", "talk")
    assert turn is not None
    stopping = asyncio.ensure_future(agent.runner.stop(turn))
    await until(lambda: turn.stop.requested)
    gate.set()
    await stopping
    assert ends((await asking).text) == ["abort", "[DONE]"]
    assert (await call("GET", "turns", turn.record.id)).body["state"] == "stopped"
