"""Turns with tiny tools on a real store, stopped at random moments while the store fails now and
then: each is stored completely.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.loop import run_turn
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.agent.turn import Ending, internal_failure_ending
from jupyter_agent.conversations import live
from jupyter_agent.conversations.audit import AuditLog
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.errors import StoreUnavailable
from tests.agent.conftest import Bench
from tests.fakes import ScriptedModel, calls, check_messages, says

from .test_live import NEW, Unsteady, database, stores_on

__all__ = ["database"]
ENDS = ("tool-output-available", "tool-output-error", "tool-output-denied", "tool-input-error")
LOOKS = [calls("look", cell_id=cell_id) for cell_id in ("a", "b", "c")]
STEPS = [
    [says("I look."), *LOOKS],
    [calls("write", cell_id="a", source="x = 2"), calls("write", cell_id="b", source="y = 3")],
    [calls("execute", cell_id="a"), calls("say", text="Half."), calls("restart")],
    [says("Done.")],
]


class Person:
    """Answers questions at some time, or not at all."""

    def __init__(self, turn: LiveTurn, chance: random.Random) -> None:
        self._turn = turn
        self._chance = chance

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        answering = asyncio.create_task(self._answer(approvals))
        try:
            return await self._turn.wait(approvals)
        finally:
            answering.cancel()

    async def _answer(self, approvals: Sequence[Approval]) -> None:
        for approval in approvals:
            await asyncio.sleep(self._chance.choice((0, 0.001)))
            with suppress(StoreUnavailable):
                await self._turn.answer({approval.id: Answer(approved=self._chance.random() < 0.7)})


async def played(turn: LiveTurn, bench: Bench, history: Sequence[dict[str, object]]) -> Ending:
    played = replace(
        bench.turn(ScriptedModel(STEPS)),
        transcript=Transcript(history),
        log=turn,
        answers=Person(turn, random.Random(1)),
        stop=turn.stop,
    )
    try:
        return await run_turn(played)
    except StoreUnavailable as error:
        return internal_failure_ending(error.message, "store_unavailable")


@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", range(60))
async def test_what_the_file_says_of_a_turn_is_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(live, "STREAM_LAG_S", chance.choice((0.0005, 10)))
    store = Unsteady(database)
    store.chance, store.fails = chance, chance.choice((0.0, 0.0, 0.1, 0.3))
    opening = await store.begin(NEW)
    turn = LiveTurn(opening.turn, stores_on(database, store), ends_to_ask=chance.random() < 0.3)
    bench = Bench(policy=Policy(mode=chance.choice(("ask", "auto"))))
    bench.limits = replace(bench.limits, approval_seconds=chance.choice((0.005, 5)))
    turn.use_policy(bench.policy)
    running = asyncio.create_task(played(turn, bench, opening.history))
    if chance.random() < 0.7:
        for _ in range(chance.randrange(120)):
            await asyncio.sleep(0)
        turn.stop.request()
    ending = await running
    store.fails = 0.0
    await turn.end(ending)
    await turn.close()

    stored = await store.events("t1")
    assert [seq for seq, _ in stored] == list(range(1, len(stored) + 1))
    assert [event for _, event in stored] == list(turn.events)
    begun = Counter(e.call_id for _, e in stored if e.type == "tool-input-start")
    ended = Counter(
        e.call_id for _, e in stored if e.type in ENDS and not getattr(e, "preliminary", False)
    )
    assert begun == ended
    history = await store.history("ann", "talk")
    check_messages(Transcript([*history, NEXT]).sendable("scripted"))
    written = [entry.removeprefix("write ") for entry in bench.desk.log if "write" in entry]
    assert [entry.change.cell_id for entry in await Journal(database).of_turn("t1")] == written
    audits = Counter(each["call_id"] for each in await AuditLog(database).of_turn("t1"))
    assert max(audits.values(), default=0) <= 2  # a person's answers, and their outcomes
    record = await store.turn("t1")
    assert record is not None
    assert (record.state, turn.state) == (ending.state, ending.state)
    await store.begin(replace(NEW, id="t2", question_id="q2", answer_id="a2"))


NEXT = {"role": "user", "content": [{"type": "text", "text": "And now?"}]}
