"""The client rows of the fault matrix, C1 to C9: whatever a client does, the turn goes on."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.events import Notice
from jupyter_agent.testing import FakeAnthropic, Scripted, calls, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Answer, Call, ask, frames

Running = Callable[..., Awaitable[LiveTurn]]


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    jp_server_config["JupyterAgent"]["approval_seconds"] = 3
    return jp_server_config


@pytest.fixture
def running(agent: Assistant) -> Running:
    """The turn of the conversation, once it runs and `ready` holds of it."""

    async def find(ready: Callable[[LiveTurn], bool] = lambda turn: True) -> LiveTurn:
        while True:
            turn = agent.runner.live_in("local", "talk")
            if turn is not None and ready(turn):
                return turn
            await asyncio.sleep(0)  # the loop goes round: what we wait for happens in it

    return find


def held(*blocks: Any, after: int = 1) -> tuple[Scripted, asyncio.Event]:
    """A reply that waits for its gate after so many events."""
    gate = asyncio.Event()
    return Scripted(blocks=blocks, stop_after=after, then="wait", gate=gate), gate


def numbered(stream: str) -> list[str]:
    """The frames but for heartbeats, byte by byte."""
    return [frame for frame in stream.split("\n\n") if not frame.startswith(":")]


async def test_a_stream_cut_after_any_event_goes_on_with_the_same_bytes(
    call: Call, replies: list[FakeReply], notebook: Path, running: Running, jp_auth_header: Any
) -> None:
    last, gate = held(says("Done, and a little more."), after=0)
    replies += [[says("I look."), calls("get_notebook_state")], last]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Look.")))
    turn = await running(lambda turn: len(turn.events) > 8)
    cuts = range(turn.last_seq + 1)

    async def follow(after: int) -> str:
        headers = {**jp_auth_header, **({"Last-Event-ID": str(after)} if after else {})}
        answer = await call("GET", "chat", "talk", "stream", headers=headers)
        return answer.text

    following = [asyncio.ensure_future(follow(after)) for after in cuts]
    await asyncio.sleep(0)
    gate.set()
    whole = (await asking).text
    for after, rest in zip(cuts, await asyncio.gather(*following), strict=True):
        assert numbered(rest) == numbered(whole)[after:]


def long_text(pieces: int) -> bytes:
    """A reply of so many pieces of 100,000 characters, each six bytes in our stream's JSON."""
    start, opened, _, closed, delta, stop = Scripted(blocks=[says("x")]).events()
    piece = {"type": "text_delta", "text": "€" * 100_000}
    written = [{"type": "content_block_delta", "index": 0, "delta": piece}] * pieces
    events = [start, opened, *written, closed, delta, stop]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


async def test_who_does_not_read_delays_nobody(
    call: Call, replies: list[FakeReply], notebook: Path, jp_http_port: int, jp_base_url: str,
    jp_auth_header: dict[str, str], running: Running,
) -> None:  # fmt: skip
    first, gate = held(calls("list_files", path=""))
    replies += [first, Scripted(body=long_text(19))]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Much.")))
    await running()
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    deaf.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(deaf, ("127.0.0.1", jp_http_port))
    token = jp_auth_header["Authorization"]
    request = f"GET {jp_base_url}api/agent/chat/talk/stream HTTP/1.1\r\nHost: localhost\r\n"
    await loop.sock_sendall(deaf, f"{request}Authorization: {token}\r\n\r\n".encode())
    assert (await loop.sock_recv(deaf, 1)) == b"H"  # it follows, and reads no more
    gate.set()
    text = "".join(chunk.get("delta", "") for chunk in frames((await asking).text))
    assert len(text) == 1_900_000
    assert (await call("GET", "status")).status == 200
    deaf.close()


async def test_twenty_posts_with_one_key_are_one_turn(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path, jp_auth_header: Any
) -> None:
    replies.append([says("Once.")])
    headers = {**jp_auth_header, "Idempotency-Key": "k"}
    posts = [call("POST", "chat", body=ask("Hi."), headers=headers) for _ in range(20)]
    answers = await asyncio.gather(*posts)
    assert len({answer.text for answer in answers}) == 1
    assert len(fake.requests) == 1


async def test_two_tabs_see_one_turn_and_only_one_writes(
    call: Call, replies: list[FakeReply], notebook: Path, running: Running
) -> None:
    reply, gate = held(says("Both of you."))
    replies.append(reply)
    first = asyncio.ensure_future(call("POST", "chat", body=ask("Hi.")))
    await running()
    second = asyncio.ensure_future(call("GET", "chat", "talk", "stream"))
    refused = await call("POST", "chat", body=ask("Me too."))
    assert (refused.status, refused.body["reason"]) == (409, "turn_running")
    gate.set()
    assert (await first).text == (await second).text


async def test_stop_ends_the_stream_wherever_the_turn_is(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path, running: Running
) -> None:
    writing, _ = held(says("I write."), after=3)
    limited = Scripted(
        status=429, error=("rate_limit_error", "Slow down"), headers={"retry-after": "50"}
    )
    await call("PATCH", "notebooks", PATH, "cells", "c3", body={"source": "while True: pass"})

    run = [calls("run_cell", cell_id="c3")]

    def told(kind: str) -> Callable[[LiveTurn], bool]:
        return lambda turn: any(isinstance(e, Notice) and e.kind == kind for e in turn.events)

    phases: list[tuple[FakeReply, str, Callable[[LiveTurn], bool]]] = [
        (writing, "auto", lambda turn: any(e.type == "text-delta" for e in turn.events)),
        (run, "auto", lambda turn: any(e.type == "tool-input-available" for e in turn.events)),
        (run, "ask", lambda turn: turn.state == "waiting"),
        (limited, "auto", told("retrying")),
    ]  # fmt: skip
    for reply, mode, ready in phases:
        replies.append(reply)
        asking = asyncio.ensure_future(call("POST", "chat", body=ask("Go.", mode=mode)))
        turn = await running(ready)
        stopped = await call("POST", "chat", "talk", "stop")
        assert stopped.body["state"] == "stopped"
        assert [chunk["type"] for chunk in frames((await asking).text)][-2:] == ["abort", "[DONE]"]
        state = (await call("GET", "turns", turn.record.id)).body
        assert state["state"] == "stopped"
        assert {made["state"] for made in state["calls"]} <= {"done", "failed", "refused"}
    replies.append([says("Fine.")])
    assert "Fine." in str((await call("POST", "chat", body=ask("And now?", stream=False))).body)
    assert fake.refusals == []


async def test_stopping_twice_or_after_the_end_is_stopping_once(
    call: Call, replies: list[FakeReply], notebook: Path, running: Running
) -> None:
    reply, _ = held(says("I write."))
    replies.append(reply)
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Go.")))
    await running()
    stops = await asyncio.gather(*(call("POST", "chat", "talk", "stop") for _ in range(3)))
    late = await call("POST", "chat", "talk", "stop")
    assert {answer.status for answer in (*stops, late)} == {200}
    await asking
    assert (await call("POST", "chat", "nothing", "stop")).status == 404


async def answer_to(call: Call, approval_id: str, approved: bool = True) -> Answer:
    body = {"approvals": [{"id": approval_id, "approved": approved}]}
    return await call("POST", "chat", "talk", "approvals", body=body)


async def test_a_question_waits_over_a_reload_and_unanswered_is_denied(
    call: Call, replies: list[FakeReply], notebook: Path, running: Running
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("As you like.")]]
    body = ask("Run.", mode="ask")
    asking = asyncio.ensure_future(call("POST", "chat", body=body))
    turn = await running(lambda turn: turn.state == "waiting")
    asking.cancel()  # the tab is closed
    (approval,) = (await call("GET", "turns", turn.record.id)).body["approvals"]
    messages = (await call("GET", "conversations", "talk")).body["messages"]
    assert approval["id"] in json.dumps(messages[-1])  # what a page that is loaded again shows
    await turn.settled()
    assert turn.task is not None
    await turn.task
    late = await answer_to(call, approval["id"])
    assert late.status in (404, 409)
    given = {"id": approval["id"], "approved": True}
    part = {"type": "dynamic-tool", "state": "approval-responded", "approval": given}
    stock = {"role": "assistant", "parts": [part]}
    late = await call("POST", "chat", body={**body, "messages": [*body["messages"], stock]})
    assert (late.status, late.body["reason"]) == (409, "approval_closed")
    state = (await call("GET", "turns", turn.record.id)).body
    assert state["state"] == "done"
    assert [made["state"] for made in state["calls"]] == ["refused"]
    assert (await call("GET", "notebooks", PATH)).body["kernel"] is None


GARBAGE: list[bytes] = [
    b"",
    b"\x00",
    b"\xff\xfe{",
    b"null",
    b'"text"',
    b"[[[[[",
    b'{"messages": 1}',
    b'{"messages": [{"role": "user", "content": 7}]}',
    b'{"messages": [{"role": "user", "parts": [{"type": "file", "url": "data:,x"}]}]}',
    b'{"messages": [{"role": "user", "parts": [{"type": "text"}]}]}',
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"id": "\x00", "messages": [{"role": "user", "content": "x"}]}',
    json.dumps({"id": "x" * 129, "messages": [{"role": "user", "content": "x"}]}).encode(),
    b"<html>",
    b"messages=1&stream=false",
]


@pytest.mark.full
@pytest.mark.parametrize("body", GARBAGE)
async def test_garbage_is_a_400_with_a_sentence(call: Call, body: bytes) -> None:
    answer = await call("POST", "chat", body=body)
    assert answer.status == 400
    assert answer.body["message"]
    assert "Traceback" not in answer.text


async def test_random_bytes_never_break_the_server(call: Call) -> None:
    rng = random.Random(9)
    whole = json.dumps(ask("Hi.", model="nobody:x")).encode()
    for _ in range(60):
        broken = bytearray(whole)
        for _ in range(rng.randrange(1, 8)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        assert (await call("POST", "chat", body=bytes(broken))).status == 400


async def test_odd_characters_survive(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies.append([says("Yes.")])
    body = json.dumps(ask("a\x00b \ud800 \u202e 🙂", stream=False))
    assert (await call("POST", "chat", body=body)).body["state"] == "done"
    assert "🙂" in fake.requests[0]["messages"][-1]["content"][-1]["text"]
    assert (await call("GET", "conversations", "talk")).status == 200


async def test_a_body_of_a_gigabyte_is_refused_before_it_is_read(
    call: Call, jp_http_port: int, jp_base_url: str, jp_auth_header: dict[str, str]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    head = f"POST {jp_base_url}api/agent/chat HTTP/1.1\r\nHost: localhost\r\n"
    token = f"Authorization: {jp_auth_header['Authorization']}\r\n"
    writer.write(f"{head}{token}Content-Length: {10**9}\r\n\r\n".encode())
    answer = await reader.read()
    assert answer == b"" or b" 400 " in answer or b" 413 " in answer
    writer.close()
    assert (await call("GET", "status")).status == 200
