"""Requests that are too large, too deep or too clever are refused; no token is in our output."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.tools.run import RunCode
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.waiting import until

from .conftest import PATH, Call, ask


@pytest.mark.parametrize(
    ("path", "mebibytes"),
    [
        (("chat",), 33),
        (("chat", "talk", "approvals"), 2),
        (("conversations", "talk"), 2),
        (("tools", "create_cell"), 17),
        (("notebooks", PATH, "cells"), 17),
        (("providers", "anthropic", "key"), 2),
    ],
)
async def test_a_body_is_no_larger_than_its_route_has_use_for(
    call: Call, jp_http_port: int, jp_base_url: str, jp_auth_header: Any,
    path: tuple[str, ...], mebibytes: int,
) -> None:  # fmt: skip
    """The answer arrives before the body is sent."""
    method = {"conversations": "PATCH", "providers": "PUT"}.get(path[0], "POST")
    route = "/".join(path).replace(" ", "%20")
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    head = f"{method} {jp_base_url}api/agent/{route} HTTP/1.1\r\nHost: localhost\r\n"
    token = f"Authorization: {jp_auth_header['Authorization']}\r\n"
    writer.write(f"{head}{token}Content-Length: {mebibytes << 20}\r\n\r\n".encode())
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"}")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["reason"] == "too_large"


async def test_who_sends_all_of_a_body_that_is_too_large_gets_the_answer(
    call: Call, jp_http_port: int, jp_base_url: str, jp_auth_header: Any
) -> None:
    token = f"Host: localhost\r\nAuthorization: {jp_auth_header['Authorization']}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    head = f"PATCH {jp_base_url}api/agent/conversations/x HTTP/1.1\r\n{token}"
    async with asyncio.timeout(60):
        writer.write(f"{head}Content-Length: {2 << 20}\r\n\r\n".encode() + b" " * (2 << 20))
        await writer.drain()
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 413 ")
        writer.write(f"GET {jp_base_url}api/agent/status HTTP/1.1\r\n{token}\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")  # on the same connection
    writer.close()


async def test_nobody_sends_a_body_before_they_are_known(
    call: Call, jp_http_port: int, jp_base_url: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    head = f"POST {jp_base_url}api/agent/chat HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{head}Authorization: token wrong\r\nContent-Length: 1000\r\n\r\n".encode())
    async with asyncio.timeout(60):
        assert (await reader.readline()).startswith(b"HTTP/1.1 403 ")
    writer.close()


STRANGERS = json.loads((Path(__file__).parents[1] / "security" / "bodies.json").read_text())


@pytest.mark.sample(6)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    "sender", STRANGERS["strangers"], ids=lambda each: f"{each['method']} {each['route']}"
)
async def test_of_a_stranger_no_body_is_taken_whatever_they_send_with_it(
    call: Call, jp_http_port: int, jp_base_url: str, sender: Any, chunked: bool
) -> None:
    """The answer comes, and the connection ends, before the rest of the body is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    size = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": "1000000"}
    headers = {"Host": "localhost", **sender["headers"], **size}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(
        f"{sender['method']} {jp_base_url}api/agent/{sender['route']} HTTP/1.1\r\n".encode()
    )
    writer.write(f"{head}\r\n{'64' if chunked else ''}\r\n".encode() + b" " * 100)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    statuses = (
        (b"400", b"403", b"405") if sender["method"] != "OPTIONS" else (b"204", b"200", b"400")
    )
    assert answer.split(b" ")[1] in statuses, answer
    assert (await call("GET", "status")).status == 200


async def flood(port: int, begin: bytes, pieces: Iterable[bytes]) -> bytes:
    """The answer of a server that gets too much; empty if it just closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begin)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_body_in_chunks_has_the_same_limit(
    call: Call, jp_http_port: int, jp_base_url: str, jp_auth_header: Any
) -> None:
    head = f"PATCH {jp_base_url}api/agent/conversations/x HTTP/1.1\r\nHost: localhost\r\n"
    token = f"Authorization: {jp_auth_header['Authorization']}\r\n"
    begin = f"{head}{token}Transfer-Encoding: chunked\r\n\r\n".encode()
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = await flood(jp_http_port, begin, [piece] * 40)  # more than 1 MiB
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert (await call("GET", "status")).status == 200


async def test_a_picture_of_twenty_megabytes_is_refused_with_what_would_do(
    call: Call, fake: FakeAnthropic, notebook: Path
) -> None:
    body = ask("What is it?", stream=False)
    url = "data:image/png;base64," + "A" * (20 << 20)
    body["messages"][0]["parts"].append({"type": "file", "mediaType": "image/png", "url": url})
    answer = await call("POST", "chat", body=body)
    assert (answer.status, answer.body["reason"]) == (413, "too_large")
    assert "at most 20 MB" in answer.body["message"]
    assert not fake.requests


async def test_a_packed_body_is_not_unpacked(call: Call, jp_auth_header: Any) -> None:
    bomb = gzip.compress(b" " * (200 << 20), 9)
    assert len(bomb) < 1 << 20
    headers = {**jp_auth_header, "Content-Encoding": "gzip"}
    began = time.process_time()
    answer = await call("POST", "chat", body=bomb, headers=headers)
    assert answer.status == 400
    assert time.process_time() - began < 5  # unpacking and parsing it takes far longer


async def test_a_flood_of_headers_is_cut_off(
    call: Call, jp_http_port: int, jp_base_url: str
) -> None:
    begin = f"GET {jp_base_url}api/agent/status HTTP/1.1\r\nHost: localhost\r\n".encode()
    headers = (f"X-Flood-{number}: {'x' * 100}\r\n".encode() for number in range(20_000))
    answer = await flood(jp_http_port, begin, headers)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert (await call("GET", "status")).status == 200


@pytest.mark.full
async def test_an_expression_that_would_take_for_ever_is_refused(
    call: Call, notebook: Path
) -> None:
    cell = ("notebooks", PATH, "cells", "b2")
    await call("PATCH", *cell, body={"source": f"s = '{'a' * 5_000}'"})
    for query in ("(a+)+$", "(a|a)*b", "(a*)*b", "([a-z]+)*!", r"(\w+\s?)*$", "(.*)*x", "(a|aa)+$"):
        body = {"notebook": PATH, "input": {"query": query, "regex": True}}
        async with asyncio.timeout(60):
            answer = await call("POST", "tools", "search_notebook", body=body)
        assert answer.status == 200


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [900, 3_000, 100_000])
async def test_a_deep_input_of_a_call_ends_neither_turn_nor_conversation(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path, levels: int
) -> None:
    block = {**calls("read_cells"), "input": f'{{"cell_ids": {deep(levels)}}}'}
    replies += [[block], [says("Sorry.")], [says("Go on.")]]
    turn = (await call("POST", "chat", body=ask("Look.", stream=False))).body
    assert turn["state"] == "done"
    assert "deeper than 64 levels" in str(fake.requests[-1]["messages"][-1])
    assert (await call("POST", "chat", body=ask("And now?", stream=False))).body["state"] == "done"
    assert (await call("GET", "conversations", "talk")).status == 200
    for format in ("md", "json"):
        exported = call("GET", "conversations", "talk", "export", params={"format": format})
        assert (await exported).status == 200


async def test_a_deep_text_is_no_copy_of_a_notebook(call: Call, notebook: Path) -> None:
    notebook.with_name("deep.txt").write_text('{"cell_type": ' + deep(5_000) + "}")
    path = f"{PATH.rpartition('/')[0]}/deep.txt"
    body = {"notebook": PATH, "input": {"path": path}}
    answer = await call("POST", "tools", "read_file", body=body)
    assert (answer.status, answer.body["is_error"]) == (200, True)
    assert "cannot be read as one" in answer.body["text"]


async def test_what_a_tool_did_before_a_bug_is_in_the_audit_and_the_turn_ends(
    call: Call, replies: list[FakeReply], notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> Any:
        raise RecursionError("as of something deep")

    monkeypatch.setattr(RunCode, "run", broken)
    replies += [[calls("run_code", code="1")], [says("Still here.")]]
    turn = (await call("POST", "chat", body=ask("Go.", mode="auto", stream=False))).body
    assert turn["state"] == "failed"
    (entry,) = (await call("GET", "turns", turn["turn_id"])).body["audit"]
    assert (entry["tool"], entry["outcome"]) == ("run_code", "failed")
    assert "RecursionError" in entry["why"]
    assert (await call("POST", "chat", body=ask("And?", stream=False))).body["state"] == "done"


async def test_a_turn_whose_end_cannot_be_written_is_over_all_the_same(
    agent: Assistant, call: Call, replies: list[FakeReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, after: int = 0) -> Any:
        raise RecursionError("as of something deep")

    replies += [[says("Lost.")], [says("Still here.")]]
    store = agent.runner.stores.conversations
    with monkeypatch.context() as patched:
        patched.setattr(type(store), "append", broken)
        await call("POST", "chat", body=ask("Go.", stream=False))
    assert (await call("POST", "chat", body=ask("And?", stream=False))).body["state"] == "done"
    states = [turn["state"] for turn in (await call("GET", "conversations", "talk")).body["turns"]]
    assert states == ["interrupted", "done"]


async def test_a_tab_cannot_send_a_frame_larger_than_a_notebook_can_be(
    agent: Assistant, jp_ws_fetch: Any
) -> None:
    socket = await jp_ws_fetch("api", "agent", "tab")
    (handler,) = [route.handler for route in agent.routes if route.template == "tab"]
    assert handler.max_message_size.fget(None) == 256 << 20  # type: ignore[attr-defined]
    socket.close()


async def test_no_token_and_no_key_in_our_log_or_in_a_url(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path, jp_serverapp: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    token = jp_serverapp.identity_provider.token
    caplog.set_level(logging.DEBUG)
    replies.append([says("Hello.")])
    answers = [
        await call("POST", "chat", body=ask("Hi.")),
        await call("GET", "status", params={"token": token}),
        await call("GET", "chat", "talk", "stream", params={"token": token}),
        await call("GET", "openapi.json"),
        await call("GET", "conversations", "talk", "export"),
        await call("POST", "chat", body="{"),
    ]
    for answer in answers:
        assert token not in answer.text
        assert fake.api_key not in answer.text
    ours = [record for record in caplog.records if "jupyter_agent" in record.pathname]
    assert ours
    for record in caplog.records:
        assert fake.api_key not in record.getMessage()
        if record.name.startswith("jupyter_agent") or record in ours:
            assert token not in record.getMessage()
    requests = [r.getMessage() for r in caplog.records if "/api/agent/" in r.getMessage()]
    assert all(token not in line for line in requests)


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
    b'{"a":' * 100_000,
    b"[" * 1_000_000,
    b'{"messages": ' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"id": "\x00", "messages": [{"role": "user", "content": "x"}]}',
    json.dumps({"id": "x" * 129, "messages": [{"role": "user", "content": "x"}]}).encode(),
    b"<html>",
    b"messages=1&stream=false",
]


async def test_garbage_is_a_400_with_a_sentence(call: Call) -> None:
    for body in GARBAGE:
        answer = await call("POST", "chat", body=body)
        assert answer.status == 400, body[:100]
        assert answer.body["message"]
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (
            gzip.compress(b'{"source": "y"}'),
            {"Content-Encoding": "gzip"},
            "UTF-8, not compressed",
        ),
        ('{"source": "y"}'.encode("utf-16"), {}, "UTF-8, not compressed"),
        (b'{"metadata": {"n": ' + b"9" * 5_000 + b"}}", {}, "a number with too many digits."),
        (b'\xef\xbb\xbf{"source": "y"}', {}, ""),
    ],
    ids=["gzip", "UTF-16", "digits", "a byte order mark"],
)
async def test_a_body_that_cannot_be_read_says_what_to_send(
    call: Call, notebook: Path, jp_auth_header: Any, body: bytes, headers: dict[str, str], why: str
) -> None:
    given = {**jp_auth_header, **headers}
    answer = await call("PATCH", "notebooks", PATH, "cells", "b2", body=body, headers=given)
    if why:
        assert answer.status == 400
        assert why in answer.body["message"]
    else:  # as PowerShell writes one
        assert answer.body["source"] == "y"


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


@pytest.mark.parametrize("query", ["", "?format=text", "?format=ipynb"])
async def test_a_client_that_leaves_before_its_answer_is_no_error(
    query: str,
    notebook: Path,
    call: Call,
    jp_http_port: int,
    jp_base_url: str,
    jp_auth_header: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert (await call("GET", "status")).status == 200  # it is loaded
    address = f"{jp_base_url}api/agent/notebooks/{quote(PATH)}{query}"
    token = f"Authorization: {jp_auth_header['Authorization']}"
    _, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    writer.write(f"GET {address} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n".encode())
    await writer.drain()
    writer.close()
    await until(lambda: f"GET {address}" in caplog.text)
    assert "Uncaught" not in caplog.text
