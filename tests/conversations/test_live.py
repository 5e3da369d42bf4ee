"""Entries and questions in the log of a turn reach the file and its followers: all of them, once
and in order, even if writers are cancelled or the store fails.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.agent.turn import internal_failure_ending
from jupyter_agent.conversations import live
from jupyter_agent.conversations.approvals import (
    AnswerGiven,
    ApprovalStore,
    QuestionClosed,
)
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.live import WITHDRAWN, LiveTurn
from jupyter_agent.conversations.log import LogEntry, TurnEnded
from jupyter_agent.conversations.records import NewTurn
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.conversations.turn_stores import TurnStores
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import Event, TextDelta
from jupyter_agent.tools.base import Question
from tests.waiting import soon, until

WRITERS, ENTRIES = 4, 25
YES = Answer(approved=True)
NEW = NewTurn(
    id="t1",
    owner="ann",
    conversation_id="talk",
    question_id="q1",
    question={},
    answer_id="a1",
    request={"share": "all"},
    model="demo:tour",
    notebook=None,
    title="Talk",
    content=[{"type": "text", "text": "Hello."}],
    server="here",
)


class Unsteady(ConversationStore):
    """A store that is slow and fails now and then."""

    chance: random.Random
    fails = 0.2

    async def append(self, turn_id: str, entries: Sequence[LogEntry], *, after: int = 0) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        if self.chance.random() < self.fails:
            raise StoreUnavailable("The disk is full.")
        await super().append(turn_id, entries, after=after)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "store.db", MIGRATIONS, logging.getLogger("test"))
    yield database
    database.close()


def stores_on(database: Database, conversations: ConversationStore) -> TurnStores:
    return replace(TurnStores.on(database, lambda *_: None), conversations=conversations)


def words(events: Sequence[Event]) -> list[str]:
    return [event.delta for event in events if isinstance(event, TextDelta)]


def of(writer: int, texts: Sequence[str]) -> list[str]:
    return [text for text in texts if text.startswith(f"{writer}.")]


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(12))
async def test_a_log_has_all_of_it_once_and_in_order(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(live, "STREAM_LAG_S", 0.001)
    chance = random.Random(seed)
    store = Unsteady(database)
    store.chance = chance
    opening = await store.begin(NEW)
    turn = LiveTurn(opening.turn, stores_on(database, store), ends_to_ask=False)
    followed: list[tuple[int, Event]] = []

    async def follow() -> None:
        async for events in turn.follow():
            followed.extend(events)

    async def write(writer: int) -> None:
        for number in range(ENTRIES):
            text = f"{writer}.{number}"
            entries = (TextDelta(part_id="1", delta=text), message(text))
            act = turn.append if chance.random() < 0.4 else turn.show
            writing = asyncio.create_task(act(*entries))
            await asyncio.sleep(chance.choice((0, 0, 0.001)))
            if chance.random() < 0.3:
                writing.cancel()
            with suppress(StoreUnavailable, asyncio.CancelledError):
                await writing

    following = asyncio.create_task(follow())
    await asyncio.gather(*map(write, range(WRITERS)))
    store.fails = 0.0
    await turn.end(internal_failure_ending("That was all.", "test"))
    await following
    await turn.close()

    stored = await store.events("t1")
    assert [seq for seq, _ in stored] == list(range(1, len(stored) + 1))
    assert stored == followed
    history = [each["content"][0]["text"] for each in await store.history("ann", "talk")]
    for writer in range(WRITERS):
        every = [f"{writer}.{number}" for number in range(ENTRIES)]
        assert of(writer, words(turn.events)) == every
        assert of(writer, history) == every


def message(text: str) -> MessageAdded:
    return MessageAdded({"role": "user", "content": [{"type": "text", "text": text}]})


# -- questions


class Slow(ConversationStore):
    """Waits before entries of a type until it is released."""

    at: type[object] = TurnEnded

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    async def append(self, turn_id: str, entries: Sequence[LogEntry], *, after: int = 0) -> None:
        if any(isinstance(entry, self.at) for entry in entries):
            self.reached.set()
            await self.release.wait()
        await super().append(turn_id, entries, after=after)


@pytest.fixture
def slow(database: Database) -> Slow:
    return Slow(database)


async def asking(store: ConversationStore, seconds: float = 60) -> tuple[LiveTurn, Approval]:
    """A turn that has asked a question."""
    opening = await store.begin(NEW)
    turn = LiveTurn(opening.turn, stores_on(store.database, store), ends_to_ask=False)
    approval = Approval(
        id="?1",
        call_id="c1",
        tool="run_cell",
        input={},
        question=Question(notebook="a.ipynb"),
        notebook="a.ipynb",
        group="g",
        binding="b",
        expires=datetime.now(UTC) + timedelta(seconds=seconds),
    )
    await turn.append(approval)
    assert turn.questions == [approval]
    return turn, approval


async def state_of(store: ConversationStore, turn: LiveTurn) -> tuple[str, str | None]:
    """The turn's state and that of its question, in the file."""
    record = await store.turn("t1")
    assert record is not None
    assert record.state == turn.state
    return record.state, await ApprovalStore(store.database).state("t1", "?1")


async def test_a_question_is_not_answered_any_more_while_the_end_of_its_turn_is_stored(
    slow: Slow,
) -> None:
    turn, question = await asking(slow)
    ending = asyncio.create_task(turn.end(internal_failure_ending("Stopped.", "test")))
    await soon(slow.reached)
    answering = asyncio.create_task(turn.answer({question.id: YES}))
    await asyncio.sleep(0)
    slow.release.set()
    await ending
    assert await answering is False
    assert await turn.wait([question]) == {question.id: WITHDRAWN}
    assert await state_of(slow, turn) == ("failed", "expired")


async def test_an_answer_counts_for_the_turn_if_it_counts_for_the_file(slow: Slow) -> None:
    """An answer is being stored when its question expires."""
    turn, question = await asking(slow, seconds=0.3)
    waiting = asyncio.create_task(turn.wait([question]))
    slow.at = AnswerGiven
    answering = asyncio.create_task(turn.answer({question.id: YES}))
    await soon(slow.reached)
    await until(lambda: datetime.now(UTC) > question.expires)
    await asyncio.sleep(0.05)
    slow.release.set()
    assert await answering is True
    assert await waiting == {question.id: YES}
    assert await state_of(slow, turn) == ("running", "approved")


async def test_a_question_that_is_withdrawn_is_closed_for_all_though_who_withdrew_it_is_gone(
    slow: Slow,
) -> None:
    turn, question = await asking(slow)
    slow.at = QuestionClosed
    withdrawing = asyncio.create_task(turn.withdraw())
    await soon(slow.reached)
    withdrawing.cancel()
    await asyncio.sleep(0)
    slow.release.set()
    with pytest.raises(asyncio.CancelledError):
        await withdrawing
    assert turn.questions == []
    assert await turn.answer({question.id: YES}) is False
    assert await state_of(slow, turn) == ("running", "expired")


async def test_a_question_that_expires_after_its_turn_changes_nothing(database: Database) -> None:
    store = Unsteady(database)
    store.chance, store.fails = random.Random(0), 0.0
    turn, question = await asking(store, seconds=0.2)
    waiting = asyncio.create_task(turn.wait([question]))
    await asyncio.sleep(0)
    store.fails = 1.0
    with suppress(StoreUnavailable):
        await turn.withdraw()
    store.fails = 0.0
    await turn.end(internal_failure_ending("Stopped.", "test"))
    await waiting
    await until(lambda: datetime.now(UTC) > question.expires)
    assert await state_of(store, turn) == ("failed", "expired")
