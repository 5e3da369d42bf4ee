"""Announcements in Jupyter's event stream for every page, whichever browser or script acted."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from jupyter_agent.assistant import Assistant
from jupyter_agent.server import announce
from jupyter_agent.server.announce import NEWS, SCHEMA
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, Listener, ask

ROOT = Path(__file__).parents[2]


async def answered(call: Call, question: str, mode: str = "auto") -> str:
    """The id of the turn that answers it, at its end or when it asks."""
    answer = await call("POST", "chat", body=ask(question, stream=False, mode=mode))
    turn_id: str = answer.body["turn_id"]
    return turn_id


async def test_each_page_hears_of_a_turn_its_changes_and_what_became_of_them(
    call: Call,
    replies: list[FakeReply],
    notebook: Path,
    page: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announce, "DELAY_S", 0.0)
    edit = calls("update_cell", cell_id="b2", old_string="1", new_string="2")
    replies += [[edit, calls("delete_cell", cell_id="a1")], [says("Done.")]]
    turn_id = await answered(call, "Change.")
    told = [await page.turn_announced() for _ in ("its beginning", "two changes", "", "its end")]
    assert told == [turn_id] * 4
    one = {"cells": [{"notebook": PATH, "cell_id": "b2"}]}
    await call("POST", "turns", turn_id, "accept", body=one)
    assert await page.turn_announced() == turn_id
    await call("POST", "turns", turn_id, "undo")
    assert await page.turn_announced() == turn_id
    await call("PATCH", "conversations", "talk", body={"title": "Sales"})
    assert await page.turn_announced() is None
    await call("DELETE", "conversations", "talk")
    assert await page.turn_announced() is None


async def test_a_question_is_announced_with_its_whole_conversation(
    call: Call, replies: list[FakeReply], notebook: Path, page: Listener
) -> None:
    replies.append([calls("delete_cell", cell_id="a1")])
    turn_id = await answered(call, "Change.", mode="ask")
    assert {await page.turn_announced(), await page.turn_announced()} == {turn_id, None}


async def test_what_changes_within_a_moment_is_read_once_and_after_the_last_change(
    call: Call,
    replies: list[FakeReply],
    notebook: Path,
    page: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announce, "DELAY_S", 1.0)
    replies += [[calls("delete_cell", cell_id="a1")], [says("Done.")]]
    turn_id = await answered(call, "Change.")
    for number in range(5):
        await call("PATCH", "conversations", "talk", body={"title": f"Sales {number}"})
    assert [await page.turn_announced(), await page.turn_announced()] == [turn_id, None]
    await call("POST", "turns", turn_id, "accept", body={})
    assert await page.turn_announced() == turn_id


async def test_the_end_of_the_server_does_not_swallow_what_was_to_be_announced(
    agent: Assistant,
    call: Call,
    replies: list[FakeReply],
    page: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announce, "DELAY_S", 600.0)
    replies.append([says("Done.")])
    turn_id = await answered(call, "Look.")
    await agent.stop()
    assert await page.turn_announced() == turn_id


async def test_a_page_that_was_open_before_the_assistant_was_loaded_hears_it_too(
    page: Listener, jp_fetch: Any, replies: list[FakeReply]
) -> None:
    replies.append([says("Done.")])
    question = json.dumps(ask("Look.", stream=False))
    response = await jp_fetch("api", "agent", "chat", method="POST", body=question)
    assert await page.turn_announced() == json.loads(response.body)["turn_id"]


async def test_events_of_ours_are_described_at_the_address_that_is_their_schemas_id(
    jp_serverapp: ServerApp, call: Call
) -> None:
    assert (await call("GET", "status")).status == 200  # it is loaded
    assert jp_serverapp.event_logger is not None
    known = jp_serverapp.event_logger.schemas
    ours = {one for one in known.schema_ids if not one.startswith("https://events.jupyter.org/")}
    assert ours == {NEWS["$id"]}  # which .ci/docs/reference.py puts into the site
    panel = ROOT / "labextension" / "src" / "api" / "announcements.ts"
    assert f"'{SCHEMA}'" in panel.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SCHEMA.startswith(project["urls"]["Documentation"])
