"""A POST that is sent again with its `Idempotency-Key` is not done again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.idempotency import IdempotencyStore
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.server.once import ONCE, digest_of
from tests.fakes import FakeAnthropic, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask

CELLS = ("notebooks", PATH, "cells")
NEW = {"source": "once = 1"}


@pytest.fixture
def keyed(jp_auth_header: Any) -> dict[str, str]:
    """The headers of a request with a key."""
    return {**jp_auth_header, "Idempotency-Key": "k"}


async def made(call: Call) -> int:
    """How many of the tests' cells there are."""
    cells = (await call("GET", "notebooks", PATH)).body["cells"]
    return sum(cell["source"].startswith("once") for cell in cells)


async def test_a_cell_is_made_once_however_often_it_is_asked_for(
    call: Call, notebook: Path, keyed: dict[str, str]
) -> None:
    posts = [call("POST", *CELLS, body=NEW, headers=keyed) for _ in range(5)]
    answers = [*await asyncio.gather(*posts), await call("POST", *CELLS, body=NEW, headers=keyed)]
    assert {answer.status for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert await made(call) == 1
    other = {**keyed, "Idempotency-Key": "k2"}
    assert (await call("POST", *CELLS, body=NEW, headers=other)).status == 201
    assert await made(call) == 2


@pytest.mark.full
async def test_a_run_and_a_tool_have_their_effect_once(
    call: Call, notebook: Path, keyed: dict[str, str]
) -> None:
    source = "n = globals().get('n', 0) + 1; n"
    cell = (await call("POST", *CELLS, body={"source": source})).body["id"]
    runs = [await call("POST", *CELLS, cell, "run", body={}, headers=keyed) for _ in range(2)]
    assert runs[0].text == runs[1].text
    asked = {"input": {"source": "once"}, "notebook": PATH, "mode": "edit"}
    other = {**keyed, "Idempotency-Key": "k2"}
    for _ in range(2):
        tool = await call("POST", "tools", "create_cell", body=asked, headers=other)
        assert tool.body["is_error"] is False
    assert await made(call) == 1
    again = await call("POST", *CELLS, cell, "run", body={})
    assert [out["data"]["text/plain"] for out in again.body["outputs"]] == ["2"]


async def test_a_key_is_for_one_request(
    call: Call, notebook: Path, keyed: dict[str, str], replies: list[FakeReply]
) -> None:
    await call("POST", *CELLS, body=NEW, headers=keyed)
    for path, body in ((CELLS, {"source": "once more"}), ((*CELLS, "b2", "move"), {"index": 0})):
        refused = await call("POST", *path, body=body, headers=keyed)
        assert (refused.status, refused.body["reason"]) == (422, "idempotency_key_reused")
    assert await made(call) == 1
    assert (await call("POST", "chat", body=ask("hi"), headers=keyed)).status == 422


async def test_another_question_with_the_key_of_one_is_refused(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
    keyed: dict[str, str],
) -> None:
    replies += [[says("One.")]]
    first = await call("POST", "chat", body=ask("one", stream=False), headers=keyed)
    refused = await call("POST", "chat", body=ask("two"), headers=keyed)
    assert (refused.status, refused.body["reason"]) == (422, "idempotency_key_reused")
    again = await call("POST", "chat", body=ask("one", stream=False), headers=keyed)
    assert again.text == first.text
    assert len(fake.requests) == 1


async def test_after_a_day_a_key_may_be_another_question_s(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path, keyed: dict[str, str]
) -> None:
    replies += [[says("One.")], [says("Two.")]]
    first = await call("POST", "chat", body=ask("one", stream=False), headers=keyed)
    await agent.database.execute("UPDATE keyed SET made = '2026-01-01T00:00:00.000Z'")
    second = await call("POST", "chat", body=ask("two", stream=False), headers=keyed)
    assert second.body["turn_id"] != first.body["turn_id"]


async def test_what_was_refused_may_be_sent_again(
    call: Call, notebook: Path, keyed: dict[str, str]
) -> None:
    gone = notebook.rename(notebook.with_name("gone.ipynb"))
    assert (await call("POST", *CELLS, body=NEW, headers=keyed)).status == 404
    gone.rename(notebook)
    assert (await call("POST", *CELLS, body=NEW, headers=keyed)).status == 201


async def test_what_a_crash_cut_off_is_not_done_again(
    call: Call, agent: Assistant, notebook: Path, keyed: dict[str, str], jp_base_url: str
) -> None:
    assert agent.server is not None
    address = f"{jp_base_url}api/agent/runs/r/interrupt"
    digest = digest_of("POST", address, "{}")
    await agent.server.web_app.settings[ONCE].store.begin("local", "k", digest)
    unknown = await call("POST", "runs", "r", "interrupt", body={}, headers=keyed)
    assert (unknown.status, unknown.body["reason"]) == (409, "outcome_unknown")


async def test_answers_outlive_the_server_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened() -> Database:
        return Database(tmp_path / "store.db", MIGRATIONS, logging.getLogger("test"))

    first = opened()
    assert await IdempotencyStore(first).begin("local", "k", "d") is None
    await IdempotencyStore(first).end("local", "k", 201, "{}")
    first.close()
    second = opened()
    kept = await IdempotencyStore(second).begin("local", "k", "d")
    assert kept is not None
    assert (kept.status, kept.answer) == (201, "{}")
    assert await IdempotencyStore(second).begin("another", "k", "d") is None
    await second.execute("UPDATE keyed SET made = '2026-01-01T00:00:00.000Z'")
    assert await IdempotencyStore(second).begin("local", "k", "other") is None
    second.close()
