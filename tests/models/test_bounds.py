"""However much a service sends, little of it is in memory, and other tasks keep running."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from jupyter_agent.errors import ModelError
from jupyter_agent.models import bounds
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel

REQUEST = ModelRequest(
    system="", messages=[{"role": "user", "content": [{"type": "text", "text": "Hi."}]}], tools=[],
    max_tokens=100,
)  # fmt: skip
MIB = 1 << 20
DELTA = (
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": '
    b'{"type": "text_delta", "text": "' + b"x" * 4000 + b'"}}\n\n'
)


def one_line(mebibytes: int) -> Iterator[bytes]:
    yield b"data: "
    for _ in range(mebibytes):
        yield b"x" * MIB


def many_deltas(mebibytes: int) -> Iterator[bytes]:
    piece = DELTA * (MIB // len(DELTA))
    for _ in range(mebibytes):
        yield piece


def packed(pieces: Iterator[bytes], wbits: int) -> Iterator[bytes]:
    packing = zlib.compressobj(9, zlib.DEFLATED, wbits)
    for piece in pieces:
        yield packing.compress(piece)
    yield packing.flush()


@asynccontextmanager
async def sending(pieces: Iterator[bytes], encoding: str) -> AsyncIterator[str]:
    """A service that always answers with this."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
            writer.write(f"Content-Encoding: {encoding}\r\nConnection: close\r\n\r\n".encode())
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass  # the client closed the connection
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Turns:
    """Counts how often the event loop runs other tasks."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self.count += 1
        self._next = asyncio.get_running_loop().call_soon(self._serve)

    def end(self) -> None:
        self._next.cancel()


async def refused(kind: type[AnthropicModel] | type[OpenAIModel], url: str) -> tuple[str, int, int]:
    """The kind of error, the most bytes in memory, and how often other tasks ran."""
    model = kind("m", Service(provider="lab", api_key="sk-test-key", base_url=url))
    async with model._use_client():
        pass  # imports the SDK, which is not measured
    turns = Turns()
    tracemalloc.start()
    try:
        async with asyncio.timeout(300):
            async for _ in model.stream(REQUEST):
                pass
    except ModelError as error:
        return error.kind, tracemalloc.get_traced_memory()[1], turns.count
    finally:
        tracemalloc.stop()
        turns.end()
        await model.close()
    raise AssertionError("It was taken.")


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
@pytest.mark.parametrize(
    ("bomb", "mebibytes"),
    [
        (one_line, 20),
        pytest.param(one_line, 1500, marks=pytest.mark.long),
        pytest.param(many_deltas, 480, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(
    ("encoding", "wbits"), [("gzip", 31), ("deflate", 15), ("deflate", -15), ("identity", 0)]
)
async def test_a_bomb_is_given_up_before_it_is_parsed_and_others_are_served(
    kind: type[AnthropicModel] | type[OpenAIModel], bomb: object, mebibytes: int, encoding: str,
    wbits: int,
) -> None:  # fmt: skip
    pieces: Iterator[bytes] = bomb(mebibytes)  # type: ignore[operator]
    if wbits:
        pieces = packed(pieces, wbits)
    async with sending(pieces, encoding) as url:
        fault, held, turns = await refused(kind, url)
    assert fault == "too_large"
    assert held < 6 * bounds.MOST_OF_A_LINE
    assert turns > 100


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
async def test_what_is_packed_as_nobody_asked_for_is_a_broken_stream(
    kind: type[AnthropicModel] | type[OpenAIModel],
) -> None:
    async with sending(iter([b"?"]), "br") as url:
        fault, _, _ = await refused(kind, url)
    assert fault == "broken_stream"
