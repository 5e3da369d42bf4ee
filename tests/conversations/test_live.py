"""What is written into the log of a turn is in the file and with its followers: all of it, once and
in order, whoever gives up meanwhile and whenever the store fails.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.agent.turn import broken
from jupyter_agent.conversations import live
from jupyter_agent.conversations.approvals import ApprovalStore, RuleStore
from jupyter_agent.conversations.audit import AuditLog
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.instructions import TrustStore
from jupyter_agent.conversations.live import LiveTurn, TurnStores
from jupyter_agent.conversations.log import LogEntry
from jupyter_agent.conversations.requests import RequestStore
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.store import ConversationStore, NewTurn
from jupyter_agent.conversations.usage import UsageStore
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import Event, TextDelta

WRITERS, ENTRIES = 4, 25
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
    """Fails now and then, and takes its time."""

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
    return TurnStores(
        conversations=conversations,
        journal=Journal(database),
        approvals=ApprovalStore(database),
        requests=RequestStore(database),
        rules=RuleStore(database),
        trust=TrustStore(database),
        usage=UsageStore(database),
        audit=AuditLog(database),
        announce=lambda *_: None,
    )


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
    await turn.end(broken("That was all.", "test"))
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
