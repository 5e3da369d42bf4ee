"""MCP servers on a socket and as programs, and clients that close with the test."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.plugs.mcp.config import servers_of
from jupyter_agent.plugs.mcp.servers import Servers
from tests.waiting import until

from .fake import Fake, serving

PROGRAM = str(Path(__file__).parent / "program.py")


@asynccontextmanager
async def servers(
    configured: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[Servers]:
    """Servers as in the extension; a list of tools is fresh until a change is announced."""
    options: dict[str, Any] = {"patience": 60.0, "fresh": 3600.0, **more}
    if environment is not None:
        options["environment"] = environment
    made = Servers(servers_of(configured), **options)
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def at(fake: Fake, **more: Any) -> AsyncIterator[Servers]:
    """The strict fake, at `s`. Any refusal of it fails the test."""
    async with serving(fake), servers({"s": {"url": fake.url, **more}}) as made:
        await made.fetch_offers()
        yield made
    assert fake.refusals == []


async def call(made: Servers, tool: str, **arguments: Any) -> Mapping[str, Any]:
    """Calls a tool of `s`."""
    offer = await made.current("s", tool)
    assert offer is not None
    return await made.call(offer, arguments)


def said(result: Mapping[str, Any]) -> str:
    """The text of a result."""
    (block,) = result["content"]
    return str(block["text"])


class Child:
    """A server as a program."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def configured(self, era: str = "old", **more: Any) -> dict[str, Any]:
        return {"s": {"command": [sys.executable, PROGRAM, era, str(self.log)], **more}}

    def received(self) -> list[dict[str, Any]]:
        """All messages that it has received; none before it runs."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    async def got(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first such message, once it has arrived."""
        return await until(lambda: next(filter(wanted, self.received()), {}))


class Clock:
    """The event loop's clock, which a test can advance."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patch: pytest.MonkeyPatch) -> None:
        self._skipped = 0.0
        read = loop.time
        patch.setattr(loop, "time", lambda: read() + self._skipped)

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


@pytest.fixture
def clock(jp_asyncio_loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(jp_asyncio_loop, monkeypatch)


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path / "received.jsonl")
