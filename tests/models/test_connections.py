"""The connections to a service: each serves many requests, and none outlives its use."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.reply import Reply, receive
from jupyter_agent.errors import ModelError
from jupyter_agent.models import connections
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.network import DIRECT, Network
from jupyter_agent.models.registry import Models
from tests.fakes import Scripted, says
from tests.fakes.service import reset_at_close
from tests.waiting import soon, until

from .conftest import request
from .corporate import make_authority, proxy
from .kinds import KEY, KINDS, Kind

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def response(kind: Kind, *, text: str = "Hello.") -> bytes:
    """A response without its end."""
    return HEAD + chunk(b"".join(kind.frames(Scripted(blocks=[says(text)]))))


@dataclass
class Connections:
    """The connections to a service."""

    url: str = ""
    requests: Counter[int] = field(default_factory=Counter)
    """Counts of requests, by number of the connection."""
    open: int = 0


Answer = Callable[[int, int, asyncio.StreamWriter], Awaitable[bool | None]]
"""Answers the nth request of the nth connection; the connection ends if it returns False."""


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connections]:
    seen = Connections()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(seen.requests) + 1
        seen.requests[number] = 0
        seen.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if length := re.search(rb"content-length: (\d+)", head.lower()):
                    await reader.readexactly(int(length[1]))
                seen.requests[number] += 1
                if await answer(number, seen.requests[number], writer) is False:
                    return
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            seen.open -= 1
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        scheme = "http" if tls is None else "https"
        seen.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield seen
        await until(lambda: not seen.open)


@asynccontextmanager
async def asking(
    kind: Kind, answer: Answer, network: Network = DIRECT, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Connections, Any]]:
    """A service that answers so, and a model that uses it."""
    async with serving(answer, tls) as seen:
        base_url = f"{seen.url}{kind.root}"
        service = Service(provider="lab", api_key=KEY, base_url=base_url, network=network)
        model = kind.model("m", service)
        try:
            yield seen, model
        finally:
            await model.close()


async def reply_of(model: Any) -> Reply:
    """A reply as the loop reads it. Raises ModelError."""
    reply = Reply(1, Limits())
    async for _ in receive(model, request(), reply, idle_seconds=10):
        pass
    return reply


@pytest.mark.parametrize("is_late", [False, True])
async def test_requests_use_the_connections_of_earlier_ones(kind: Kind, is_late: bool) -> None:
    complete = asyncio.Event()

    async def answer(_connection: int, _request: int, writer: asyncio.StreamWriter) -> None:
        writer.write(response(kind))
        if is_late:
            await soon(complete)
            complete.clear()
        writer.write(END)

    async with asking(kind, answer) as (seen, model):
        for _ in range(20):
            await reply_of(model)
            for _ in range(50):  # turns of the loop, in which dropped generators are closed
                await asyncio.sleep(0)
            complete.set()
            await until(lambda: not complete.is_set() or not is_late)
    assert sum(seen.requests.values()) == 20
    assert len(seen.requests) <= 2  # the next request may come before the end of the last response


@pytest.mark.parametrize("rest", ["nothing", "pings", "text"])
async def test_nobody_waits_for_the_end_of_a_response_and_its_connection_is_closed(
    kind: Kind, rest: str
) -> None:
    waiting = asyncio.Event()

    async def answer(_connection: int, _request: int, writer: asyncio.StreamWriter) -> None:
        writer.write(response(kind))
        await writer.drain()
        if rest == "nothing":
            await waiting.wait()
        while True:
            writer.write(chunk(b": ping\n\n" if rest == "pings" else b"data: x" * 10_000))
            await writer.drain()
            await asyncio.sleep(0)

    async with asking(kind, answer) as (seen, model):
        for _ in range(3):
            assert (await reply_of(model)).complete
        waiting.set()
        await until(lambda: not seen.open)
    assert len(seen.requests) == 3


async def test_a_model_that_is_closed_right_after_a_reply_leaves_nothing(kind: Kind) -> None:
    forever = asyncio.Event()

    async def answer(_connection: int, _request: int, writer: asyncio.StreamWriter) -> None:
        writer.write(response(kind))
        await writer.drain()
        await forever.wait()

    async with asking(kind, answer) as (_, model):
        await reply_of(model)
        await model.close()
        assert not [t for t in asyncio.all_tasks() if "_read_rest" in repr(t.get_coro())]
        forever.set()


ODD = (
    b"data: null\n\n", b"data: {broken\n\n", b"<html>", b"data: \xff\xfe\n\n",
    b'event: error\ndata: {"type": "error", "error": {"message": "No."}}\n\n',
    b'event: message_start\ndata: {"type": "message_start", "message": 3}\n\n',
    b'event: response.done\ndata: {"type": "response.done", "response": "x"}\n\n',
    b'data: {"choices": [{"delta": 3}]}\n\n',
)  # fmt: skip


@pytest.mark.parametrize("end", [END, b"", b"ZZZ\r\nnope"])
async def test_nothing_after_a_complete_reply_can_spoil_it(kind: Kind, end: bytes) -> None:
    complaints: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: complaints.append(context["message"]))
    second = response(kind, text="Stale.").removeprefix(HEAD)
    rests = [second, *map(chunk, ODD)]

    async def answer(connection: int, request: int, writer: asyncio.StreamWriter) -> bool | None:
        rest = rests[(connection + request) % len(rests)]
        writer.write(response(kind) + rest + end)
        await writer.drain()
        return None if end == END else False

    async with asking(kind, answer) as (_, model):
        for _ in rests:
            reply = await reply_of(model)
            assert (reply.complete, reply.text) == (True, [says("Hello.")])
        events = [event["type"] async for event in model.stream(request())]
        assert events.index("message_stop") == len(events) - 1
    loop.set_exception_handler(None)
    assert not complaints


@pytest.mark.parametrize("fate", ["ends", "is reset", "has leftovers"])
async def test_a_request_that_meets_the_end_of_an_idle_connection_is_sent_again(
    kind: Kind, fate: str
) -> None:
    """Silently, and however many of them have ended."""
    together = asyncio.Event()

    async def answer(connection: int, request: int, writer: asyncio.StreamWriter) -> bool | None:
        if connection == 3:
            together.set()
        await together.wait()
        if request == 2 and connection <= 3 and fate != "has leftovers":
            if fate == "is reset":
                reset_at_close(writer.get_extra_info("socket"))
            return False
        writer.write(response(kind) + END + (END if fate == "has leftovers" else b""))
        return None

    async with asking(kind, answer) as (seen, model):
        await asyncio.gather(*(reply_of(model) for _ in range(3)))
        for _ in range(3):
            assert (await reply_of(model)).complete
    assert len(seen.requests) > 3


async def test_connections_through_a_proxy_to_tls_are_used_again_and_may_end(
    kind: Kind, tmp_path: Path
) -> None:
    async def answer(_connection: int, request: int, writer: asyncio.StreamWriter) -> bool | None:
        if request == 4:
            return False
        writer.write(response(kind) + END)
        return None

    authority = make_authority(tmp_path)
    async with proxy() as gate:
        network = Network(
            ca_bundle=authority.bundle,
            proxy=gate.url,
            proxy_headers={"X-Team": "atlas-secret"},
        )
        async with asking(kind, answer, network, authority.server()) as (seen, model):
            for _ in range(12):
                assert (await reply_of(model)).complete
    assert len(gate.tunnels) == len(seen.requests) < 10


@pytest.mark.parametrize("way", ["later", "in silence"])
async def test_a_request_that_fails_at_a_working_service_is_not_sent_again(
    kind: Kind, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forever = asyncio.Event()

    async def answer(_connection: int, request: int, writer: asyncio.StreamWriter) -> bool | None:
        if request == 2:
            if way == "in silence":
                await forever.wait()
            return False
        writer.write(response(kind) + END)
        return None

    if way == "later":
        monkeypatch.setattr(connections, "SOON_S", 0.0)
    async with asking(kind, answer, Network(read_seconds=0.5)) as (seen, model):
        for _ in range(3):  # by the third, there is a connection that served one
            try:
                await reply_of(model)
            except ModelError:
                break
        else:
            pytest.fail("No request was the second one of its connection.")
        assert sum(seen.requests.values()) == len(seen.requests) + 1
        forever.set()


async def test_a_response_that_breaks_off_is_not_asked_for_again() -> None:
    async def answer(_connection: int, request: int, writer: asyncio.StreamWriter) -> bool | None:
        listed = b'{"data": [{"id": "m"}]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        head += b"Content-Length: %d\r\n\r\n" % len(listed)
        writer.write(head + (listed if request == 1 else listed[:3]))
        return None if request == 1 else False

    async with asking(KINDS["chat-completions"], answer) as (seen, model):
        assert await model.names() == ["m"]
        with pytest.raises(ModelError):
            await model.names()
    assert dict(seen.requests) == {1: 2}


async def test_a_request_that_fails_on_a_new_connection_is_not_sent_again(kind: Kind) -> None:
    async def answer(_connection: int, _request: int, _writer: asyncio.StreamWriter) -> bool:
        return False

    async with asking(kind, answer) as (seen, model):
        with pytest.raises(ModelError, match="connection") as caught:
            await reply_of(model)
    assert (caught.value.retryable, dict(seen.requests)) == (True, {1: 1})


async def test_a_reply_that_breaks_off_is_not_asked_for_again(kind: Kind) -> None:
    async def answer(connection: int, request: int, writer: asyncio.StreamWriter) -> bool:
        whole = response(kind) + END
        is_first = (connection, request) == (1, 1)
        writer.write(whole if is_first else whole[: len(whole) // 2])
        return is_first

    async with asking(kind, answer) as (seen, model):
        await reply_of(model)
        with pytest.raises(ModelError):
            await reply_of(model)
    assert sum(seen.requests.values()) == 2


async def test_connections_with_an_outdated_key_are_closed_after_their_last_use(
    tmp_path: Path,
) -> None:
    kind = KINDS["anthropic"]
    pause = asyncio.Event()

    async def answer(connection: int, _request: int, writer: asyncio.StreamWriter) -> None:
        head, tail = response(kind)[:300], response(kind)[300:]
        writer.write(head)
        if connection == 1:
            await pause.wait()
        writer.write(tail + END)

    async with serving(answer) as seen:
        keys = {"KEY": "sk-0"}
        models = Models(
            default="lab:m",
            key_file=tmp_path / "keys.json",
            environment=keys,
            providers={
                "lab": {"kind": "anthropic", "base_url": seen.url, "api_key": {"env": "KEY"}}
            },
        )
        old = models.get()
        running = asyncio.create_task(reply_of(old))
        await until(lambda: seen.open)
        for count in range(1, 5):
            keys["KEY"] = f"sk-{count}"
            await reply_of(models.get())
        await until(lambda: seen.open <= 2)
        pause.set()
        assert (await running).complete
        assert (await reply_of(old)).complete  # the next step of its turn
        await until(lambda: seen.open <= 1)
        await models.close()
