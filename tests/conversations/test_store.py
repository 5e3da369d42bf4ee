"""Isolation between servers with the same store, and between people on the same server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.conversations.audit import AuditEntry, AuditLog
from jupyter_agent.conversations.changes import ChangesMade
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.idempotency import IdempotencyStore
from jupyter_agent.conversations.records import NewTurn
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Notice


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    database = Database(tmp_path / "store.db", MIGRATIONS, logging.getLogger("test"))
    yield ConversationStore(database)
    database.close()


def turn(id: str, **more: Any) -> NewTurn:
    given: dict[str, Any] = {
        "owner": "ann",
        "conversation_id": "talk",
        "question_id": f"question of {id}",
        "question": {},
        "answer_id": f"answer of {id}",
        "request": {"share": "all"},
        "model": "demo:tour",
        "notebook": None,
        "title": "Talk",
        "content": [{"type": "text", "text": "Hello."}],
        "server": "first server",
        **more,
    }
    return NewTurn(id=id, **given)


async def test_of_one_conversation_one_turn_runs_at_a_time(store: ConversationStore) -> None:
    await store.begin(turn("one"))
    with pytest.raises(RequestError, match="running in another server") as refused:
        await store.begin(turn("two", server="second server"))
    assert refused.value.status == 409
    await store.begin(turn("three", conversation_id="other"))


async def test_one_server_alone_ends_what_a_dead_one_left(store: ConversationStore) -> None:
    await store.begin(turn("one", server="dead server"))
    assert await store.claim("one", "dead server", "first server")
    assert not await store.claim("one", "dead server", "second server")


async def test_what_comes_after_a_conversation_was_deleted_leaves_only_the_audit(
    store: ConversationStore,
) -> None:
    """As of a run that ends later, or a summary that was being written."""
    await store.begin(turn("one", request={"share": "all", "model": "demo:tour"}))
    await store.delete("ann", "talk")
    entry = AuditEntry(
        owner="ann", entry="chat", tool="t", decision="run", outcome="done", turn_id="one"
    )
    message = MessageAdded({"role": "user", "content": []})
    await store.append("one", [message, Notice(kind="k", text="t"), entry])
    await store.append("one", [ChangesMade(call_id="c", changes=())])
    assert [each["tool"] for each in await AuditLog(store.database).of_turn("one")] == ["t"]
    assert await store.turn("one") is None


async def test_a_turn_is_found_by_its_key_by_its_owner_alone(store: ConversationStore) -> None:
    keys = IdempotencyStore(store.database)
    assert [await keys.begin(owner, "k", "d") for owner in ("ann", "bob")] == [None, None]
    await store.begin(turn("one", idempotency_key="k"))
    found = [await keys.begin(owner, "k", "d") for owner in ("ann", "bob")]
    assert [each and each.answer for each in found] == ["one", ""]
