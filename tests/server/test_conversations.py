"""Conversations are stored, listed, searched, renamed, exported and deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.access import MAX_READS
from jupyter_agent.conversations.audit import AuditEntry
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.log import LogEntry, TurnEnded
from jupyter_agent.conversations.requests import SentRequest
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.events import (
    CallInputDelta,
    CallOutput,
    CallReady,
    CallStarted,
    CellsChanged,
    StepFinished,
    StepStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    TurnFinished,
    TurnStarted,
    UsageUpdated,
)
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask, frames, live


async def test_conversations_are_listed_newest_first_and_found(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("One.")], [says("Two.")], [says("Three.")]]
    await call("POST", "chat", body=ask("How many rows has the table?", id="first"))
    await call("POST", "chat", body=ask("Plot 100% of it", id="second", notebook=None))
    listed = (await call("GET", "conversations")).body
    assert [item["id"] for item in listed["conversations"]] == ["second", "first"]
    assert listed["next_page"] is None
    assert listed["conversations"][1]["title"] == "How many rows has the table?"
    assert listed["conversations"][1]["state"] == "done"
    assert listed["conversations"][1]["usage"]["input_tokens"] == 100

    async def found(**query: str) -> list[str]:
        answer = await call("GET", "conversations", params=query)
        return [item["id"] for item in answer.body["conversations"]]

    assert await found(notebook=PATH) == ["first"]
    assert await found(q="rows") == ["first"]
    assert await found(q="100%") == ["second"]
    assert await found(q="%") == ["second"], "a wildcard is a character like any other"
    assert (await call("GET", "conversations", params={"page": "0"})).status == 400
    await call("POST", "chat", body=ask("And columns?", id="first"))
    assert await found() == ["first", "second"]


async def test_a_search_finds_the_words_of_answers_and_shows_them(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    long = f"{'First. ' * 30}There is no `cost` column in Größen.csv, only “price”. {'Last. ' * 30}"
    replies += [
        [says("I look."), calls("read_cells", cell_ids=["c0"])],
        [says(long)],
        [says("Costly.")],
        [says("Nothing of that.")],
    ]
    await call("POST", "chat", body=ask("Why does it fail?", id="first"))
    await call("POST", "chat", body=ask("What does naïve cost?", id="second"))
    await call("POST", "chat", body=ask(f"{'Here. ' * 30}\nMore of the façade", id="third"))

    async def found(q: str) -> dict[str, str | None]:
        answer = await call("GET", "conversations", params={"q": q})
        return {item["id"]: item["match"] for item in answer.body["conversations"]}

    of_cost = await found("COST")
    assert list(of_cost) == ["second", "first"]
    assert of_cost["second"] is None, "the title says it"
    assert of_cost["first"] is not None
    assert "There is no `cost` column in Größen.csv" in of_cost["first"]
    assert of_cost["first"].startswith("…")
    assert of_cost["first"].endswith("…")
    assert len(of_cost["first"]) < 150
    assert list(await found("in Größen.csv, only “price”")) == ["first"]
    of_question = (await found("of the façade"))["third"]
    assert of_question is not None
    assert of_question.endswith("Here. More of the façade")
    for elsewhere in ("read_cells", "cell_ids", "tool_use", "text", "u00f6"):
        assert await found(elsewhere) == {}, "only what people read is searched"
    replies.append([says("Another answer.")])
    again = (await call("GET", "conversations", "first")).body["messages"][0]["id"]
    await call("POST", "chat", body=ask("Why?", id="first") | {"messageId": again})
    assert list(await found("`cost` column")) == [], "an answer that was replaced is not shown"


async def test_a_conversation_is_renamed_exported_and_deleted(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("get_notebook_state")], [says("Three cells.")]]
    await call("POST", "chat", body=ask("How many cells?"))
    renamed = await call("PATCH", "conversations", "talk", body={"title": "Counting"})
    assert renamed.body["title"] == "Counting"
    readable = await call("GET", "conversations", "talk", "export", params={"format": "md"})
    assert readable.headers["Content-Type"].startswith("text/markdown")
    assert readable.text.startswith("# Counting\n")
    assert "Three cells." in readable.text
    whole = (await call("GET", "conversations", "talk", "export")).body
    assert [message["role"] for message in whole["history"]] == [
        "user",
        "user",  # what holds in this turn
        "assistant",
        "user",
        "assistant",
    ]
    assert whole["turns"][0]["events"][0]["type"] == "start"
    assert (await call("DELETE", "conversations", "talk")).status == 204
    assert (await call("GET", "conversations", "talk")).status == 404


async def test_a_running_turns_message_so_far_is_part_of_the_conversation(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("I ask."), calls("run_cell", cell_id="b2")], [says("Done.")]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("run", mode="ask")))
    turn = await live(agent)
    await turn.wait_while_running()
    whole = (await call("GET", "conversations", "talk")).body
    assert whole["state"] == "waiting"
    parts = whole["messages"][-1]["parts"]
    assert {"type": "text", "text": "I ask.", "state": "done"} in parts
    (tool,) = [part for part in parts if part["type"] == "dynamic-tool"]
    assert tool["state"] == "approval-requested"
    stream = asyncio.ensure_future(call("GET", "chat", "talk", "stream"))
    (approval,) = turn.questions
    reply = {"id": approval.id, "approved": False}
    await call("POST", "chat", "talk", "approvals", body={"approvals": [reply]})
    assert frames((await stream).text) == frames((await asking).text)


async def test_a_question_keeps_what_was_attached_to_it(
    call: Call, replies: list[FakeReply], fake: Any, notebook: Path
) -> None:
    replies += [[calls("update_cell", cell_id="b2", source="x = 7")], [says("Done.")]]
    attached = [{"type": "cell", "cell_id": "b2"}, {"type": "file", "path": "nothing.csv"}]
    await call("POST", "chat", body=ask("seven, please", context=attached))
    _, context, question = fake.requests[0]["messages"][0]["content"]
    assert "x = 1" in context["text"]
    assert "nothing.csv" in context["text"]
    assert question["text"] == "seven, please"
    # The cell was shown in full, so it may be rewritten as a whole.
    cell = await call("GET", "notebooks", PATH, "cells", "b2")
    assert cell.body["source"] == "x = 7"
    whole = (await call("GET", "conversations", "talk")).body
    kept = whole["messages"][0]["metadata"]["context"]
    assert [item["type"] for item in kept] == ["cell", "file"]


async def test_a_picture_reaches_the_model(
    call: Call, replies: list[FakeReply], fake: Any, notebook: Path
) -> None:
    replies += [[says("A dot.")]]
    dot = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    part = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{dot}"}
    body = ask("what is it?")
    body["messages"][0]["parts"].append(part)
    assert (await call("POST", "chat", body=body)).status == 200
    image = fake.requests[0]["messages"][0]["content"][-1]
    assert image["source"]["data"] == dot
    part["url"] = "https://example.org/picture.png"
    assert (await call("POST", "chat", body={**body, "id": "other"})).status == 400


def test_only_its_owner_can_read_the_store(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    Database(path, MIGRATIONS, logging.getLogger("test")).close()
    assert path.stat().st_mode & 0o077 == 0


async def test_what_a_conversation_has_read_is_forgotten_with_it(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("read_cells", cell_ids=["b2"])], [says("One is.")]]
    await call("POST", "chat", body=ask("What is x?"))
    assert agent.runner.access.reads("local", "talk").source(PATH, "b2") == "x = 1"
    await call("DELETE", "conversations", "talk")
    assert agent.runner.access.reads("local", "talk").source(PATH, "b2") is None


async def test_what_many_conversations_have_read_is_kept_of_the_latest(agent: Assistant) -> None:
    first, second = (agent.runner.access.reads("local", each) for each in ("first", "second"))
    for number in range(MAX_READS - 1):
        agent.runner.access.reads("local", "second")
        agent.runner.access.reads("local", str(number))
    assert agent.runner.access.reads("local", "second") is second
    assert agent.runner.access.reads("local", "first") is not first


STREAMED = (
    CallInputDelta, CallStarted, StepFinished, StepStarted, TextDelta, TextEnded, TextStarted,
    UsageUpdated,
)  # fmt: skip


async def test_a_turn_is_written_a_moment_at_a_time(
    call: Call, replies: list[FakeReply], notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.conversations.live.STREAM_LAG_S", 600)
    written: list[Sequence[LogEntry]] = []
    real = ConversationStore.append

    async def counted(
        self: ConversationStore, turn_id: str, entries: Sequence[LogEntry], *, after: int = 0
    ) -> None:
        written.append(entries)
        await real(self, turn_id, entries, after=after)

    monkeypatch.setattr(ConversationStore, "append", counted)
    replies += [
        [says("I change it."), calls("update_cell", cell_id="b2", old_string="1", new_string="2")],
        [says("Done.")],
    ]
    assert "Done." in (await call("POST", "chat", body=ask("Change it."))).text
    begun, asked, reply, done, results, end = (
        [entry for entry in entries if not isinstance(entry, STREAMED)] for entries in written
    )
    assert [type(entry) for entry in begun] == [TurnStarted, MessageAdded]
    assert [type(entry) for entry in asked] == [SentRequest]
    assert [type(entry) for entry in reply] == [CallReady, MessageAdded]
    assert [type(entry) for entry in done] == [CallOutput, CellsChanged, AuditEntry]
    assert [type(entry) for entry in results] == [MessageAdded, SentRequest]
    assert [type(entry) for entry in end] == [MessageAdded, TurnFinished, TurnEnded]
