"""Approvals in mode `ask`: in the client's form, else in the panel, and for exactly that code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from tests.notebook.browser import Tab
from tests.waiting import until

from .conftest import (
    ALLOWED,
    EDIT,
    FORMS,
    PATH,
    Begin,
    Call,
    HangUp,
    Streaming,
    Tool,
    message,
    sources,
    text,
)

RUN = {"notebook": PATH, "cell_id": "b2"}


def answering(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that repeat a call with its answer."""
    return {"inputResponses": {"approval": answer}, "requestState": asked["requestState"]}


def shown(asked: Mapping[str, Any]) -> str:
    params = asked["inputRequests"]["approval"]["params"]
    return str(params["message"])


async def test_the_form_shows_the_exact_diff_and_the_repeated_call_does_it(
    call: Call, tool: Tool, notebook: Path
) -> None:
    asked = await tool("edit_cells", EDIT, capabilities=FORMS)
    assert asked["resultType"] == "input_required"
    assert "ttlMs" not in asked
    (request,) = asked["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    assert request["params"]["mode"] == "form"
    assert request["params"]["requestedSchema"]["required"] == ["answer"]
    assert f"Claude Code wants to edit cell `b2` in {PATH}." in shown(asked)
    assert "-x = 1\n+x = 2" in shown(asked)
    assert sources(notebook)["b2"] == "x = 1"
    done = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, ALLOWED))
    assert (done["resultType"], done["isError"]) == ("complete", False)
    assert sources(notebook)["b2"] == "x = 2"
    turn = (await call("GET", "turns", done["structuredContent"]["turn_id"])).body
    assert [entry["entry"] for entry in turn["audit"]] == ["person", "mcp"]
    assert turn["approvals"] == []


@pytest.mark.full
async def test_a_run_shows_its_code_and_a_decline_says_why(tool: Tool, notebook: Path) -> None:
    asked = await tool("run_cell", RUN, capabilities=FORMS)
    assert f"wants to run cell `b2` in {PATH}." in shown(asked)
    assert "Kernel “python3”." in shown(asked)
    assert "```\nx = 1\n```" in shown(asked)
    said = {"action": "accept", "content": {"answer": "Decline", "reason": "Use df instead."}}
    refused = await tool("run_cell", RUN, capabilities=FORMS, given=answering(asked, said))
    assert refused["isError"] is True
    assert refused["structuredContent"]["reason"] == "denied"
    assert "Use df instead." in text(refused)


async def test_only_a_chosen_yes_is_one(tool: Tool, notebook: Path) -> None:
    for answer in (
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept"},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"answer": "yes"}},
        {"action": "decline", "content": {"answer": "Allow"}},
    ):
        asked = await tool("edit_cells", EDIT, capabilities=FORMS)
        refused = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, answer))
        assert refused["structuredContent"]["reason"] == "denied", answer
        assert sources(notebook)["b2"] == "x = 1"


async def test_an_answer_is_for_that_call_alone_and_once(tool: Tool, notebook: Path) -> None:
    asked = await tool("edit_cells", EDIT, capabilities=FORMS)
    other = {"notebook": PATH, "edits": [{"cell_id": "b2", "old_string": "1", "new_string": "9"}]}
    for more in ({}, {"client": "Codex"}, {"mode": "edit", "notebook": "else.ipynb"}):
        named = {"given": answering(asked, ALLOWED), "capabilities": FORMS, **more}
        again = await tool("edit_cells", other, **named)
        assert again["resultType"] == "input_required", more
    forged = {**asked, "requestState": "approval_0"}
    again = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(forged, ALLOWED))
    assert again["requestState"] == asked["requestState"]  # the same question is still open
    assert sources(notebook)["b2"] == "x = 1"
    await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, ALLOWED))
    assert sources(notebook)["b2"] == "x = 2"
    twice = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, ALLOWED))
    assert twice.get("resultType") != "complete" or twice["isError"]


async def test_a_call_that_fails_before_its_answer_withdraws_its_question(
    call: Call, tool: Tool, notebook: Path
) -> None:
    asked = await tool("edit_cells", EDIT, capabilities=FORMS)
    content = notebook.read_bytes()
    notebook.unlink()
    failed = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, ALLOWED))
    assert failed["structuredContent"]["reason"] == "not_found"
    notebook.write_bytes(content)
    again = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, ALLOWED))
    assert again["resultType"] == "input_required"
    assert sources(notebook)["b2"] == "x = 1"
    (turn,) = (await call("GET", "turns", params={"notebook": PATH})).body["turns"]
    audit = (await call("GET", "turns", turn["id"])).body["audit"]
    assert [entry["outcome"] for entry in audit] == ["failed"]


async def test_code_that_changed_since_is_not_run(call: Call, tool: Tool, notebook: Path) -> None:
    asked = await tool("run_cell", RUN, capabilities=FORMS)
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 'other'"})
    refused = await tool("run_cell", RUN, capabilities=FORMS, given=answering(asked, ALLOWED))
    assert refused["structuredContent"]["reason"] == "changed"
    cell = (await call("GET", "notebooks", PATH, "cells", "b2")).body
    assert cell["execution_count"] is None


async def test_always_is_for_that_tool_in_that_notebook(tool: Tool, notebook: Path) -> None:
    always = {"action": "accept", "content": {"answer": "Always allow in this notebook"}}
    asked = await tool("edit_cells", EDIT, capabilities=FORMS)
    await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(asked, always))
    back = {"notebook": PATH, "edits": [{"cell_id": "b2", "old_string": "2", "new_string": "3"}]}
    done = await tool("edit_cells", back, capabilities=FORMS)
    assert done["resultType"] == "complete"
    assert sources(notebook)["b2"] == "x = 3"
    run = await tool("run_cell", RUN, capabilities=FORMS)
    assert run["resultType"] == "input_required"


async def test_a_client_without_forms_is_sent_none(tool: Tool, notebook: Path) -> None:
    for capabilities in ({}, {"elicitation": {"url": {}}}, {"roots": {}}):
        refused = await tool("edit_cells", EDIT, capabilities=capabilities)
        assert refused["resultType"] == "complete"
        assert refused["structuredContent"]["reason"] == "needs_approval"


async def test_two_questions_of_one_client_may_be_open(tool: Tool, notebook: Path) -> None:
    first = await tool("edit_cells", EDIT, capabilities=FORMS)
    new = {"notebook": PATH, "cells": [{"source": "y = 1"}]}
    second = await tool("create_cells", new, capabilities=FORMS)
    made = await tool("create_cells", new, capabilities=FORMS, given=answering(second, ALLOWED))
    done = await tool("edit_cells", EDIT, capabilities=FORMS, given=answering(first, ALLOWED))
    assert (made["isError"], done["isError"]) == (False, False)


# -- before 2026-07-28: our request on the stream of the call


async def test_in_a_session_the_question_comes_on_the_stream(
    session: Begin, streaming: Streaming, notebook: Path
) -> None:
    ask = await session(capabilities=FORMS)
    params = {"name": "edit_cells", "arguments": EDIT}
    async with streaming(ask, message("tools/call", params, 7)) as stream:
        request = await stream.next()
        assert request["method"] == "elicitation/create"
        assert "Cursor wants to edit cell `b2`" in request["params"]["message"]
        assert sources(notebook)["b2"] == "x = 1"
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": ALLOWED}
        accepted = await ask(reply)
        assert (accepted.status, accepted.text) == (202, "")
        last = await stream.next()
        assert (last["id"], last["result"]["isError"]) == (7, False)
        assert await stream.ended()
    assert sources(notebook)["b2"] == "x = 2"


async def test_a_session_that_takes_no_stream_is_not_asked_on_one(
    session: Begin, notebook: Path
) -> None:
    ask = await session(capabilities=FORMS)
    params = {"name": "edit_cells", "arguments": EDIT}
    answer = await ask(message("tools/call", params), Accept="application/json")
    assert answer.body["result"]["structuredContent"]["reason"] == "needs_approval"


# -- clients without forms: the panel


async def waiting_question(agent: Assistant, call: Call) -> tuple[str, dict[str, Any]]:
    """The conversation and the question that the panel shows."""
    await until(lambda: [turn for turn in agent.runner.running if turn.questions])
    (talk,) = (await call("GET", "conversations")).body["conversations"]
    assert talk["state"] == "waiting"
    (live,) = agent.runner.running
    turn = (await call("GET", "turns", live.record.id)).body
    (approval,) = turn["approvals"]
    return talk["id"], approval


async def answer(call: Call, talk: str, approval: dict[str, Any], **said: Any) -> None:
    """Answers in the panel."""
    body = {"approvals": [{"id": approval["id"], **said}]}
    assert (await call("POST", "chat", talk, "approvals", body=body)).status == 200


async def test_the_panel_is_asked_and_its_answer_lets_the_call_continue(
    agent: Assistant, call: Call, tool: Tool, tab: Tab, notebook: Path
) -> None:
    editing = asyncio.create_task(tool("edit_cells", EDIT))
    talk, approval = await waiting_question(agent, call)
    assert "+x = 2" in approval["diff"]
    await answer(call, talk, approval, approved=True)
    assert (await editing)["isError"] is False
    assert tab.source("b2") == "x = 2"


async def test_the_panel_may_answer_before_the_form_does(
    agent: Assistant, call: Call, session: Begin, streaming: Streaming, tab: Tab
) -> None:
    ask = await session(capabilities=FORMS)
    params = {"name": "edit_cells", "arguments": EDIT}
    async with streaming(ask, message("tools/call", params, 7)) as stream:
        request = await stream.next()
        talk, approval = await waiting_question(agent, call)
        await answer(call, talk, approval, approved=False, reason="Not now.")
        over = await stream.next()
        assert over["method"] == "notifications/cancelled"
        assert over["params"]["requestId"] == request["id"]
        last = await stream.next()
    assert "Not now." in text(last["result"])
    late = await ask({"jsonrpc": "2.0", "id": request["id"], "result": ALLOWED})
    assert late.status == 202
    assert tab.source("b2") == "x = 1"


async def test_a_client_that_gave_up_waiting_calls_again_for_the_answer(
    agent: Assistant, call: Call, tool: Tool, hang_up: HangUp, tab: Tab
) -> None:
    connection = await hang_up("edit_cells", EDIT)
    talk, approval = await waiting_question(agent, call)
    connection.close()
    await until(lambda: not agent.requests.count)
    await answer(call, talk, approval, approved=True)
    assert tab.source("b2") == "x = 1"
    done = await tool("edit_cells", EDIT)
    assert done["isError"] is False
    assert tab.source("b2") == "x = 2"
    turn = (await call("GET", "turns", done["structuredContent"]["turn_id"])).body
    assert len(turn["calls"]) == 1
    assert json.dumps(turn["audit"]).count('"answered"') == 1


async def test_of_two_equal_calls_one_has_the_answer(
    agent: Assistant, call: Call, tool: Tool, tab: Tab
) -> None:
    new = {"notebook": PATH, "cells": [{"source": "once = 1"}]}
    twice = [asyncio.create_task(tool("create_cells", new)) for _ in range(2)]
    talk, approval = await waiting_question(agent, call)
    await until(lambda: agent.requests.count == 2)
    await answer(call, talk, approval, approved=True)
    results = await asyncio.gather(*twice)
    assert sorted(result["isError"] for result in results) == [False, True]
    assert [tab.source(id) for id in tab.ids()].count("once = 1") == 1
