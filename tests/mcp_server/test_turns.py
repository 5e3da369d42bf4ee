"""A client is a conversation: its calls are turns, with journal, blame, limits and undo."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations import client_turn
from tests.gates import FOREVER
from tests.waiting import until

from .conftest import EDIT, PATH, Call, Tool, sources, text


async def conversations(call: Call) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await call("GET", "conversations")).body["conversations"]
    return found


async def turn_of(call: Call, result: dict[str, Any]) -> dict[str, Any]:
    answer = await call("GET", "turns", result["structuredContent"]["turn_id"])
    return dict(answer.body)


async def test_a_client_is_a_conversation_of_its_own_name(
    call: Call, tool: Tool, notebook: Path
) -> None:
    await tool("get_notebook_state", {"notebook": PATH}, mode="edit")
    await tool("edit_cells", EDIT, mode="edit")
    (talk,) = await conversations(call)
    assert talk["title"] == "Claude Code, first look.ipynb"
    assert (talk["notebook"], talk["model"]) == (PATH, "Claude Code")
    whole = (await call("GET", "conversations", talk["id"])).body
    question, answer = whole["messages"]
    assert question["parts"][0]["text"] == f"Claude Code works in {PATH}."
    tools = [part["toolName"] for part in answer["parts"] if part["type"] == "dynamic-tool"]
    assert tools == ["get_notebook_state", "edit_cells"]
    assert {part.get("state") for part in answer["parts"] if "state" in part} == {
        "output-available"
    }


async def test_what_it_did_is_journalled_audited_and_blamed_on_it(
    call: Call, tool: Tool, notebook: Path
) -> None:
    meta = {"claudecode/toolUseId": "toolu_01"}
    done = await tool("edit_cells", EDIT, mode="edit", meta=meta)
    turn = await turn_of(call, done)
    (change,) = turn["changes"]
    assert (change["cell_id"], change["call_id"]) == ("b2", "toolu_01")
    (entry,) = turn["audit"]
    assert (entry["entry"], entry["model"], entry["outcome"]) == ("mcp", "Claude Code", "done")
    blamed = (await call("GET", "notebooks", PATH, "blame")).body["cells"]
    assert [cell["model"] for cell in blamed] == [None, "Claude Code", None]
    pending = (await call("GET", "notebooks", PATH, "changes")).body
    assert [each["turn_id"] for each in pending] == [turn["id"]]


async def test_calls_without_a_pause_are_one_turn_and_undone_together(
    call: Call, tool: Tool, notebook: Path
) -> None:
    before = sources(notebook)
    first = await tool("edit_cells", EDIT, mode="edit")
    new = {"notebook": PATH, "cells": [{"source": "y = 3"}]}
    second = await tool("create_cells", new, mode="edit")
    turn_id = first["structuredContent"]["turn_id"]
    assert second["structuredContent"]["turn_id"] == turn_id
    assert sources(notebook) != before
    undone = await tool("undo_turn", mode="edit")
    assert "Taken back: 2 changes of 2 cells" in text(undone)
    assert undone["structuredContent"]["conflicts"] == []
    assert sources(notebook) == before
    third = await tool("edit_cells", EDIT, mode="edit")
    assert third["structuredContent"]["turn_id"] != turn_id
    undone = await tool("undo_turn", mode="edit")
    assert text(undone) == "Taken back: 1 change of 1 cell."


async def test_what_a_person_changed_since_stays_when_it_undoes(
    call: Call, tool: Tool, notebook: Path
) -> None:
    await tool("edit_cells", EDIT, mode="edit")
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 'mine'"})
    undone = await tool("undo_turn", mode="edit")
    (conflict,) = undone["structuredContent"]["conflicts"]
    assert conflict["cell_id"] == "b2"
    assert sources(notebook)["b2"] == "x = 'mine'"


async def test_what_its_user_kept_it_does_not_undo(call: Call, tool: Tool, notebook: Path) -> None:
    done = await tool("edit_cells", EDIT, mode="edit")
    await call("POST", "turns", done["structuredContent"]["turn_id"], "accept")
    refused = await tool("undo_turn", mode="edit")
    assert refused["structuredContent"]["reason"] == "denied"
    assert sources(notebook)["b2"] == "x = 2"


async def test_nobody_undoes_the_turns_of_others(call: Call, tool: Tool, notebook: Path) -> None:
    done = await tool("edit_cells", EDIT, mode="edit")
    named = {"turn_id": done["structuredContent"]["turn_id"]}
    refused = await tool("undo_turn", named, mode="edit", client="Codex")
    assert refused["structuredContent"]["reason"] == "denied"
    unknown = await tool("undo_turn", {"turn_id": "t_0"}, mode="edit")
    assert "no such turn" in text(unknown)
    assert "no such turn" in text(await tool("undo_turn", mode="edit", client="Cursor"))
    assert sources(notebook)["b2"] == "x = 2"


async def test_a_begun_turn_is_named_by_its_goal_and_ends_when_it_says_so(
    call: Call, tool: Tool, notebook: Path
) -> None:
    first = await tool("get_notebook_state", {"notebook": PATH}, mode="edit")
    await tool("begin_turn", {"goal": "Use the median."}, mode="edit")
    second = await tool("edit_cells", EDIT, mode="edit")
    assert second["structuredContent"]["turn_id"] != first["structuredContent"]["turn_id"]
    ended = await tool("end_turn", mode="edit")
    assert ended["structuredContent"]["turn_id"] == second["structuredContent"]["turn_id"]
    turn = await turn_of(call, second)
    assert (turn["state"], turn["stop_reason"]) == ("done", "end_turn")
    assert turn["ended"]
    (blamed,) = [
        cell
        for cell in (await call("GET", "notebooks", PATH, "blame")).body["cells"]
        if cell["model"]
    ]
    assert blamed["request"] == "Use the median."
    assert "No turn was open" in text(await tool("end_turn", mode="edit"))
    unsaid = await tool("begin_turn", {}, mode="edit")
    assert unsaid["structuredContent"]["reason"] == "invalid_input"


@pytest.mark.parametrize("jp_argv", [["--JupyterAgent.mcp_max_calls=2"]])
async def test_a_turn_has_a_budget_of_calls(tool: Tool, notebook: Path) -> None:
    read = {"notebook": PATH, "cell_ids": ["b2"]}
    for _ in range(2):
        assert (await tool("read_cells", read))["isError"] is False
    spent = await tool("read_cells", read)
    assert spent["structuredContent"]["reason"] == "calls_spent"
    assert "begin_turn" in text(spent)
    await tool("begin_turn", {"goal": "Go on."})
    assert (await tool("read_cells", read))["isError"] is False


async def test_a_rewrite_rests_on_what_this_client_has_read(tool: Tool, notebook: Path) -> None:
    rewrite = {"notebook": PATH, "edits": [{"cell_id": "b2", "source": "x = 5"}]}
    unread = await tool("edit_cells", rewrite, mode="edit")
    assert unread["structuredContent"]["reason"] == "not_read"
    await tool("read_cells", {"notebook": PATH, "cell_ids": ["b2"]}, mode="edit", client="Codex")
    unread = await tool("edit_cells", rewrite, mode="edit")
    assert unread["structuredContent"]["reason"] == "not_read"
    await tool("read_cells", {"notebook": PATH, "cell_ids": ["b2"]}, mode="edit")
    assert (await tool("edit_cells", rewrite, mode="edit"))["isError"] is False


@pytest.mark.full
async def test_a_turn_rests_between_calls_and_a_person_can_undo_it_then(
    agent: Assistant, call: Call, tool: Tool, notebook: Path
) -> None:
    done = await tool("edit_cells", EDIT, mode="edit")
    turn_id = done["structuredContent"]["turn_id"]
    live = agent.runner.live(turn_id)
    assert live is not None
    assert live.task is not None
    await live.task
    assert agent.activity() is None
    undone = await call("POST", "turns", turn_id, "undo")
    assert (undone.status, len(undone.body["undone"])) == (200, 1)
    again = await tool("edit_cells", EDIT, mode="edit")
    assert again["structuredContent"]["turn_id"] == turn_id
    assert agent.activity() is not None


@pytest.mark.full
async def test_a_person_deletes_the_conversation_of_a_turn_that_rests(
    agent: Assistant, call: Call, tool: Tool, notebook: Path
) -> None:
    done = await tool("edit_cells", EDIT, mode="edit")
    live = agent.runner.live(done["structuredContent"]["turn_id"])
    assert live is not None
    assert live.task is not None
    await live.task
    talk = live.record.conversation_id
    assert (await call("DELETE", "conversations", talk)).status == 204
    back = {"notebook": PATH, "edits": [{"cell_id": "b2", "old_string": "2", "new_string": "1"}]}
    later = await tool("edit_cells", back, mode="edit")
    assert later["isError"] is False
    assert later["structuredContent"]["turn_id"] != live.record.id


async def test_after_ten_minutes_without_a_call_another_turn_begins(
    agent: Assistant, call: Call, tool: Tool, notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await tool("edit_cells", EDIT, mode="edit")
    second = await tool("get_notebook_state", {"notebook": PATH}, mode="edit")
    monkeypatch.setattr(client_turn, "PAUSE_S", 0.0)
    third = await tool("get_notebook_state", {"notebook": PATH}, mode="edit")
    ids = [each["structuredContent"]["turn_id"] for each in (first, second, third)]
    assert ids[0] == ids[1] != ids[2]
    (talk,) = await conversations(call)
    turns = (await call("GET", "conversations", talk["id"])).body["turns"]
    assert [turn["id"] for turn in turns] == [ids[0], ids[2]]
    assert turns[0]["state"] == "done"


@pytest.mark.full
async def test_a_person_stops_what_it_does(
    agent: Assistant, call: Call, tool: Tool, notebook: Path
) -> None:
    code = f"print('on')\n{FOREVER}"
    running = asyncio.create_task(
        tool("run_code", {"notebook": PATH, "code": code}, mode="auto", meta={})
    )
    (live,) = await until(lambda: agent.runner.running)
    await until(lambda: [e for e in live.events if e.type == "tool-output-available"])
    stopped = await call("POST", "chat", live.record.conversation_id, "stop")
    assert stopped.body["state"] == "stopped"
    refused = await running
    assert refused["isError"] is True
    assert "The user stopped this" in text(refused)
    (run,) = agent.services.runs.of_turn(live.record.id)
    assert await until(lambda: run.ended)
    later = await tool("get_notebook_state", {"notebook": PATH}, mode="auto")
    assert later["structuredContent"]["turn_id"] != live.record.id


async def test_elsewhere_is_asked_about_where_the_address_names_a_notebook(
    call: Call, tool: Tool, notebook: Path
) -> None:
    await call("POST", "notebooks", "other.ipynb", body={"cells": [{"source": "1"}]})
    new = {"cells": [{"source": "2"}]}
    elsewhere = {**new, "notebook": "other.ipynb"}
    other = await tool("create_cells", elsewhere, mode="edit", notebook=PATH)
    assert other["structuredContent"]["reason"] == "needs_approval"
    own = await tool("create_cells", new, mode="edit", notebook=PATH)
    assert own["isError"] is False
