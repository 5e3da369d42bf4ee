"""The main job over HTTP: ask, and the model reads, edits and runs cells until it is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.log import LogEntry
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import TextDelta
from jupyter_agent.server import sse
from tests.fakes import FakeAnthropic, Scripted, calls, says, thinks
from tests.fakes.script import FakeReply
from tests.fakes.server import API_KEY
from tests.waiting import until

from .conftest import PATH, Call, ask, frames, live


def types(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def results(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool results at the end of a request to the model."""
    content = request["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"]


async def test_a_client_that_waits_is_told_that_the_stream_lives(
    call: Call, replies: list[FakeReply], notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sse.HEARTBEAT == 15
    monkeypatch.setattr(sse, "HEARTBEAT", 0.01)
    replies.append([calls("run_cell", cell_id="b2")])  # a kernel takes a moment to start
    replies.append([says("Done.")])
    answer = await call("POST", "chat", body=ask("Run it."))
    assert ": still here" in answer.text.split("\n\n")
    assert types(frames(answer.text))[-2:] == ["finish", "[DONE]"]


@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_streamed_does_not_wait_for_a_slow_store(
    call: Call,
    agent: Assistant,
    replies: list[FakeReply],
    notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: bool,
) -> None:
    store, gate, release = agent.runner.stores.conversations, asyncio.Event(), asyncio.Event()
    held: list[Sequence[LogEntry]] = []
    append = store.append

    async def slowly(turn_id: str, entries: Sequence[LogEntry], *, after: int = 0) -> None:
        if not held and any(isinstance(entry, TextDelta) for entry in entries):
            held.append(entries)
            gate.set()
            await release.wait()
            if fails:
                raise StoreUnavailable("The disk is full.")
        await append(turn_id, entries, after=after)

    monkeypatch.setattr(store, "append", slowly)
    text = "one two three four five " * 20
    replies.append(Scripted(blocks=[says(text)], stop_after=3, then="wait", gate=gate))
    asking = asyncio.create_task(call("POST", "chat", body=ask("Write.")))
    await gate.wait()
    (turn,) = agent.runner.running

    def written() -> str:
        return "".join(event.delta for event in turn.events if isinstance(event, TextDelta))

    await until(lambda: written() == text)
    assert not release.is_set()
    release.set()
    chunks = frames((await asking).text)
    assert types(chunks)[-2:] == ["finish", "[DONE]"]
    assert [chunk["seq"] for chunk in chunks[:-1]] == list(range(1, len(chunks)))
    stored = await store.events(turn.record.id)
    assert [seq for seq, _ in stored] == list(range(1, len(chunks)))
    deltas = [event.delta for _, event in stored if isinstance(event, TextDelta)]
    assert "".join(deltas) == text


def said(result: dict[str, Any]) -> str:
    """The text of a tool result."""
    content = result["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.full
async def test_the_main_job(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [
        [thinks("First look."), says("I look."), calls("get_notebook_state")],
        [
            calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2"),
            calls("create_cell", source="x * 21", after="c3"),
        ],
        [calls("run_cells")],
        [says("It is 42.")],
    ]
    answer = await call("POST", "chat", body=ask("What is 21 times x?"))

    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    chunks = frames(answer.text)
    assert [chunk.get("seq") for chunk in chunks] == [*range(1, len(chunks)), None]
    assert types(chunks)[0] == "start"
    assert chunks[0]["messageMetadata"]["conversationId"] == "talk"
    assert chunks[0]["messageMetadata"]["notebook"] == PATH
    assert types(chunks)[-2:] == ["finish", "[DONE]"]
    assert types(chunks).count("start-step") == types(chunks).count("finish-step") == 4
    finish = chunks[-2]
    assert finish["finishReason"] == "stop"
    assert finish["messageMetadata"]["stopReason"] == "end_turn"
    assert finish["messageMetadata"]["steps"] == 4
    assert finish["messageMetadata"]["stepLimitReached"] is False

    written = nbformat.read(notebook, as_version=4)
    nbformat.validate(written)
    assert [cell.source for cell in written.cells] == [
        "# Sales",
        "x = 2",
        "print('x is', x)",
        "x * 21",
    ]
    assert written.cells[2].outputs[0].text == "x is 2\n"
    assert written.cells[3].outputs[0].data["text/plain"] == "42"
    assert written.cells[3].execution_count == 3

    ran = results(fake.requests[3])
    assert len(ran) == 1
    assert "x is 2" in said(ran[0])
    assert "42" in said(ran[0])
    assert fake.refusals == []


async def test_the_stream_is_as_the_contract_shows_it(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [
        [
            says("I set it."),
            calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2"),
        ],
        [says("Done.")],
    ]
    chunks = frames((await call("POST", "chat", body=ask("x = 2, please"))).text)
    assert [kind for kind in types(chunks) if not kind.endswith("-delta")] == [
        "start",
        "start-step",
        "text-start",
        "text-end",
        "tool-input-start",
        "tool-input-available",
        "tool-output-available",
        "data-changes",
        "message-metadata",
        "finish-step",
        "start-step",
        "text-start",
        "text-end",
        "message-metadata",
        "finish-step",
        "finish",
        "[DONE]",
    ]
    pieces = [c["inputTextDelta"] for c in chunks if c["type"] == "tool-input-delta"]
    given = {"cell_id": "b2", "old_string": "x = 1", "new_string": "x = 2"}
    assert json.loads("".join(pieces)) == given
    (result,) = results(fake.requests[1])
    assert {c["toolCallId"] for c in chunks if "toolCallId" in c} == {result["tool_use_id"]}
    by_type = {chunk["type"]: chunk for chunk in chunks}
    output = by_type["tool-output-available"]["output"]
    assert output["text"] == "Edited cell `b2` (+1 -1)."
    assert output["saved"] is True
    (change,) = by_type["data-changes"]["data"]["changes"]
    assert change["cell_id"] == "b2"
    assert change["kind"] == "update"
    assert change["before"]["source"] == "x = 1"
    assert change["after"]["source"] == "x = 2"


async def test_without_a_stream_the_answer_is_one_json(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("I look."), calls("get_notebook_state")], [says("Hello.")]]
    answer = await call("POST", "chat", body=ask("hi", stream=False))
    assert answer.body["state"] == "done"
    parts = answer.body["message"]["parts"]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    assert texts == ["I look.", "Hello."]
    assert parts[-1] == {"type": "text", "text": "Hello.", "state": "done"}
    assert answer.body["message"]["metadata"]["stopReason"] == "end_turn"
    assert answer.body["usage"]["input_tokens"] == 200
    kept = await call("GET", "conversations", "talk")
    assert [message["role"] for message in kept.body["messages"]] == ["user", "assistant"]
    assert kept.body["messages"][1]["metadata"].pop("seconds") >= 0
    assert kept.body["messages"][1] == answer.body["message"]


async def test_a_turn_that_names_no_limit_has_twenty_five_steps(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [*([calls("get_notebook_state")] for _ in range(24)), [says("Enough.")]]
    done = (await call("POST", "chat", body=ask("look", stream=False))).body
    assert len(fake.requests) == 25
    assert done["message"]["metadata"]["stepLimitReached"]


async def test_why_a_turn_failed_stands_wherever_it_is_looked_at(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    fake.api_key = "another"
    streamed = frames((await call("POST", "chat", body=ask("hi"))).text)
    assert types(streamed)[-3:] == ["data-notice", "error", "[DONE]"]
    notice = streamed[-3]["data"]
    assert (notice["kind"], notice["reason"]) == ("failed", "authentication")
    assert notice["error"] == streamed[-2]["errorText"]
    (stored,) = (await call("GET", "conversations", "talk")).body["messages"][1:]
    assert stored["parts"][-1]["data"] == notice
    failed = (await call("POST", "chat", body=ask("hi", id="talk2", stream=False))).body
    assert failed["state"] == "failed"
    error = failed["error"]
    assert (error["kind"], error["message"]) == (
        "authentication",
        "Anthropic does not accept the API key. Set a valid one.",
    )
    assert error["request_id"].startswith("req_")
    assert failed["message"]["metadata"]["error"] == error
    turn = (await call("GET", "turns", failed["turn_id"])).body
    assert (turn["state"], turn["error"]) == ("failed", error)
    kept = (await call("GET", "conversations", "talk2")).body["messages"][1]
    assert kept["metadata"]["error"] == error
    assert kept["metadata"]["seconds"] >= 0
    text = (await call("GET", "conversations", "talk2", "export", params={"format": "md"})).text
    assert error["message"] in text
    assert error["request_id"] in text
    fake.api_key = API_KEY
    replies += [[says("Hello.")]]
    fine = (await call("POST", "chat", body=ask("hi", stream=False))).body
    assert fine["error"] is None
    assert "error" not in fine["message"]["metadata"]
    assert (await call("GET", "turns", fine["turn_id"])).body["error"] is None


async def test_two_answers_to_one_question_are_refused_and_nothing_runs(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Run it.", mode="ask")))
    turn = await waiting(agent)
    (approval,) = turn.questions
    for answers in ([False, True], [True, True]):
        body = {"approvals": [{"id": approval.id, "approved": yes} for yes in answers]}
        refused = await call("POST", "chat", "talk", "approvals", body=body)
        assert (refused.status, refused.body["reason"]) == (400, "invalid_body")
        assert "answered twice" in refused.body["message"]
        parts = [
            {
                "type": "dynamic-tool", "toolName": "run_cell", "toolCallId": "c", "input": {},
                "state": "approval-responded", "approval": each,
            }
            for each in body["approvals"]
        ]  # fmt: skip
        messages = [{"id": "m", "role": "assistant", "parts": parts}]
        stock = await call("POST", "chat", body={"id": "talk", "messages": messages})
        assert (stock.status, stock.body["reason"]) == (400, "invalid_body")
    assert turn.state == "waiting"
    body = {"approvals": [{"id": approval.id, "approved": False}]}
    assert (await call("POST", "chat", "talk", "approvals", body=body)).status == 200
    assert "tool-output-denied" in (await asking).text
    assert nbformat.read(notebook, as_version=4).cells[1].execution_count is None


async def test_a_lost_client_loses_nothing(
    agent: Assistant,
    call: Call,
    jp_http_port: int,
    jp_auth_header: dict[str, str],
    jp_base_url: str,
    replies: list[FakeReply],
    notebook: Path,
) -> None:
    gate = asyncio.Event()
    replies += [
        Scripted(
            blocks=[says("I run it."), calls("run_cells")], stop_after=3, then="wait", gate=gate
        ),
        [says("Done.")],
    ]
    heard = asyncio.Event()
    got: list[bytes] = []

    def on_data(data: bytes) -> None:
        got.append(data)
        if b"text-start" in data or b"text-delta" in data:
            heard.set()

    client = AsyncHTTPClient(force_instance=True)
    url = f"http://127.0.0.1:{jp_http_port}{jp_base_url}api/agent/chat"
    request = HTTPRequest(
        url,
        method="POST",
        headers=jp_auth_header,
        body=json.dumps(ask("run all")),
        streaming_callback=on_data,
    )
    asked = asyncio.ensure_future(client.fetch(request, raise_error=False))
    await heard.wait()
    client.close()
    asked.cancel()
    turn = agent.runner.live_in("local", "talk")
    assert turn is not None
    gate.set()
    await turn.wait_while_running()

    seen = frames(b"".join(got).decode())
    last = max(chunk["seq"] for chunk in seen)
    rest = frames(
        (
            await call(
                "GET",
                "chat",
                "talk",
                "stream",
                headers={**jp_auth_header, "Last-Event-ID": str(last)},
            )
        ).text
    )
    assert rest[0]["seq"] == last + 1
    assert types(rest)[-2:] == ["finish", "[DONE]"]
    state = (await call("GET", "turns", turn.record.id)).body
    assert state["state"] == "done"
    written = nbformat.read(notebook, as_version=4)
    assert written.cells[2].outputs[0].text == "x is 1\n"
    assert (await call("GET", "chat", "talk", "stream")).status == 204


async def test_a_model_that_never_stops_is_made_to_answer(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    look = [calls("get_notebook_state", outline=True)]
    replies += [look, look, [says("That is all I know.")]]
    chunks = frames((await call("POST", "chat", body=ask("look", max_steps=3))).text)
    choices = [request["tool_choice"]["type"] for request in fake.requests]
    assert choices == ["auto", "auto", "none"]
    assert fake.requests[2]["tools"] == fake.requests[0]["tools"]
    finish = chunks[-2]
    assert finish["finishReason"] == "stop"
    assert finish["messageMetadata"]["stepLimitReached"] is True
    assert "That is all I know." in "".join(chunk.get("delta", "") for chunk in chunks)


async def test_both_changed_the_same_line_and_the_persons_text_stays(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    gate = asyncio.Event()
    replies += [
        [calls("read_cells", cell_ids=["b2"])],
        Scripted(
            blocks=[calls("update_cell", cell_id="b2", source="x = 5")],
            stop_after=1,
            then="wait",
            gate=gate,
        ),
        [says("You were faster.")],
    ]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("x = 5")))
    while len(fake.requests) < 2:
        fake.asked.clear()
        await fake.asked.wait()
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 'mine'"})
    gate.set()
    await asking
    (result,) = results(fake.requests[2])
    assert result["is_error"] is True
    assert "x = 'mine'" in said(result)
    written = nbformat.read(notebook, as_version=4)
    assert written.cells[1].source == "x = 'mine'"


async def test_a_whole_rewrite_needs_a_look_first(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    unseen = calls("update_cell", notebook=PATH, cell_id="b2", source="x = 5")
    replies += [[unseen], [says("Sorry.")]]
    await call(
        "POST", "chat", body=ask("x = 5", notebook=None)
    )  # so it did not come with the question
    (result,) = results(fake.requests[1])
    assert result["is_error"] is True
    assert "x = 1" in said(result)
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 1"


async def waiting(agent: Assistant) -> Any:
    """The turn, once it waits for a person."""
    turn = await live(agent)
    await turn.wait_while_running()
    return turn


@pytest.mark.full
async def test_in_mode_ask_a_run_waits_and_the_shown_code_runs(
    agent: Assistant, call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("run", mode="ask")))
    turn = await waiting(agent)
    assert turn.state == "waiting"
    (approval,) = (await call("GET", "turns", turn.record.id)).body["approvals"]
    assert approval["code"] == "x = 1"
    assert approval["cell_id"] == "b2"
    assert nbformat.read(notebook, as_version=4).cells[1].execution_count is None
    answered = await call(
        "POST",
        "chat",
        "talk",
        "approvals",
        body={"approvals": [{"id": approval["id"], "approved": True}], "wait": 60},
    )
    assert answered.body["state"] == "done"
    chunks = frames((await asking).text)
    position = types(chunks).index("tool-approval-request")
    assert chunks[position]["toolCallId"] == approval["call_id"]
    assert chunks[position - 1]["data"]["approval"] == approval
    assert nbformat.read(notebook, as_version=4).cells[1].execution_count == 1
    again = await call(
        "POST",
        "chat",
        "talk",
        "approvals",
        body={"approvals": [{"id": approval["id"], "approved": True}]},
    )
    assert again.status == 409


async def test_what_was_approved_is_not_run_when_the_cell_changed(
    agent: Assistant, call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("It changed.")]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("run", mode="ask")))
    turn = await waiting(agent)
    (approval,) = turn.questions
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "import os"})
    body = {"approvals": [{"id": approval.id, "approved": True}]}
    await call("POST", "chat", "talk", "approvals", body=body)
    await asking
    (result,) = results(fake.requests[1])
    assert result["is_error"] is True
    assert "changed" in said(result)
    assert nbformat.read(notebook, as_version=4).cells[1].execution_count is None


@pytest.mark.full
async def test_a_stock_client_ends_its_stream_to_ask_and_answers_with_a_post(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    first = frames(
        (await call("POST", "chat", body=ask("run", mode="ask", on_approval="end"))).text
    )
    assert types(first)[-3:] == ["finish-step", "finish", "[DONE]"]
    assert first[-2]["finishReason"] == "tool-calls"
    assert first[-2]["messageMetadata"]["state"] == "waiting"
    request = next(chunk for chunk in first if chunk["type"] == "tool-approval-request")
    part = {
        "type": "dynamic-tool",
        "toolName": "run_cell",
        "toolCallId": request["toolCallId"],
        "state": "approval-responded",
        "input": {"cell_id": "b2"},
        "approval": {"id": request["approvalId"], "approved": True},
    }
    message = {"id": first[0]["messageId"], "role": "assistant", "parts": [part]}
    body = ask("run", mode="ask", on_approval="end")
    second = frames(
        (await call("POST", "chat", body={**body, "messages": [*body["messages"], message]})).text
    )
    assert second[0]["seq"] == first[-2]["seq"] + 1
    assert "tool-output-available" in types(second)
    assert types(second).count("finish-step") == 1
    assert types(second)[-2:] == ["finish", "[DONE]"]


async def test_a_question_asked_again_replaces_its_turn(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    edit = calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")
    replies += [[edit], [says("First.")], [says("Second.")]]
    await call("POST", "chat", body=ask("x = 2"))
    body = {"id": "talk", "trigger": "regenerate-message", "undo": True, "notebook": PATH}
    await call("POST", "chat", body=body)
    assert [message["role"] for message in fake.requests[-1]["messages"]] == ["user"]
    whole = (await call("GET", "conversations", "talk")).body
    assert whole["messages"][-1]["parts"][-1]["text"] == "Second."
    assert len(whole["messages"]) == 2
    cell = await call("GET", "notebooks", PATH, "cells", "b2")
    assert cell.body["source"] == "x = 1"
