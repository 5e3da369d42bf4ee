"""Streams that are cut, not read, or read twice: the turn continues, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply

from ..waiting import until
from .conftest import Call, ask, frames, live


def held(*blocks: Any, after: int = 1) -> tuple[Scripted, asyncio.Event]:
    """A reply that waits for its gate after that many events."""
    gate = asyncio.Event()
    return Scripted(blocks=blocks, stop_after=after, then="wait", gate=gate), gate


def numbered(stream: str) -> list[str]:
    """The frames without heartbeats, byte by byte."""
    return [frame for frame in stream.split("\n\n") if not frame.startswith(":")]


async def test_a_stream_cut_after_any_event_goes_on_with_the_same_bytes(
    call: Call, replies: list[FakeReply], notebook: Path, agent: Assistant, jp_auth_header: Any
) -> None:
    last, gate = held(says("Done, and a little more."), after=0)
    replies += [[says("I look."), calls("get_notebook_state")], last]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Look.")))
    turn = await live(agent, lambda turn: len(turn.events) > 8)
    cuts = range(turn.last_seq + 1)

    async def follow(after: int) -> str:
        headers = {**jp_auth_header, **({"Last-Event-ID": str(after)} if after else {})}
        answer = await call("GET", "chat", "talk", "stream", headers=headers)
        return answer.text

    following = [asyncio.ensure_future(follow(after)) for after in cuts]
    gate.set()
    whole = (await asking).text
    for after, rest in zip(cuts, await asyncio.gather(*following), strict=True):
        assert numbered(rest) == numbered(whole)[after:]


async def test_a_stream_that_was_cut_goes_on_with_its_own_turn_and_then_the_next(
    call: Call, replies: list[FakeReply], notebook: Path, agent: Assistant, jp_auth_header: Any
) -> None:
    look, gate = held(calls("get_notebook_state"))
    replies += [[says("The first answer.")], look, [says("The second answer.")]]
    first = numbered((await call("POST", "chat", body=ask("Hi."))).text)
    *ids, last_id = [frame.partition("\n")[0].removeprefix("id: ") for frame in first[:-2]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("And?")))
    await live(agent)

    async def follow(after: str) -> list[str]:
        headers = {**jp_auth_header, "Last-Event-ID": after}
        return numbered((await call("GET", "chat", "talk", "stream", headers=headers)).text)

    for seen, after in enumerate(ids, 1):
        assert await follow(after) == first[seen:]
    following = asyncio.ensure_future(follow(last_id))
    of_a_turn_that_is_gone = asyncio.ensure_future(follow(f"{10**9 + 3}"))
    await until(lambda: agent.requests.count == 3)
    gate.set()
    second = numbered((await asking).text)
    assert await following == await of_a_turn_that_is_gone == second
    assert {frame.partition("\n")[0] for frame in first[:-2]}.isdisjoint(
        frame.partition("\n")[0] for frame in second[:-2]
    )


@pytest.mark.parametrize("id", ["x", "-1", "1.5", "\xb2", "9" * 5_000])
async def test_what_is_no_id_of_a_frame_is_refused(
    call: Call, jp_auth_header: Any, id: str
) -> None:
    headers = {**jp_auth_header, "Last-Event-ID": id}
    answer = await call("GET", "chat", "talk", "stream", headers=headers)
    assert (answer.status, answer.body["reason"]) == (400, "invalid_header")


def long_text(pieces: int) -> bytes:
    """A reply of that many pieces of 100,000 characters, each six bytes in our stream's JSON."""
    start, opened, _, closed, delta, stop = Scripted(blocks=[says("x")]).events()
    piece = {"type": "text_delta", "text": "€" * 100_000}
    written = [{"type": "content_block_delta", "index": 0, "delta": piece}] * pieces
    events = [start, opened, *written, closed, delta, stop]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


async def test_who_does_not_read_delays_nobody(
    call: Call, replies: list[FakeReply], notebook: Path, jp_http_port: int, jp_base_url: str,
    jp_auth_header: dict[str, str], agent: Assistant,
) -> None:  # fmt: skip
    first, gate = held(calls("list_files", path=""))
    replies += [first, Scripted(body=long_text(19))]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Much.")))
    await live(agent)
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


async def test_two_tabs_see_one_turn_and_only_one_writes(
    call: Call, replies: list[FakeReply], notebook: Path, agent: Assistant
) -> None:
    reply, gate = held(says("Both of you."))
    replies.append(reply)
    first = asyncio.ensure_future(call("POST", "chat", body=ask("Hi.")))
    await live(agent)
    second = asyncio.ensure_future(call("GET", "chat", "talk", "stream"))
    refused = await call("POST", "chat", body=ask("Me too."))
    assert (refused.status, refused.body["reason"]) == (409, "turn_running")
    gate.set()
    assert (await first).text == (await second).text


async def test_twenty_posts_with_one_key_are_one_turn(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path, jp_auth_header: Any
) -> None:
    replies.append([says("Once.")])
    headers = {**jp_auth_header, "Idempotency-Key": "k"}
    posts = [call("POST", "chat", body=ask("Hi."), headers=headers) for _ in range(20)]
    answers = await asyncio.gather(*posts)
    late = await call("POST", "chat", body=ask("Hi."), headers=headers)
    assert {answer.text for answer in answers} == {late.text}
    assert len(fake.requests) == 1
