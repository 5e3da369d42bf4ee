"""A real server with the extension, and an HTTP client like a script's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pydantic import TypeAdapter
from tornado.httpclient import HTTPResponse
from tornado.websocket import WebSocketClientConnection

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.extension import JupyterAgent
from jupyter_agent.server.announce import SCHEMA
from tests.fakes import FakeAnthropic
from tests.fakes.chat import ChatCompletions, serving
from tests.fakes.script import FakeReply

from ..users import Named
from ..waiting import PATIENCE, until


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: Any
    headers: Any
    text: str


Call = Callable[..., Awaitable[Answer]]


@pytest.fixture
def replies() -> list[FakeReply]:
    """The model's answers; tests add to them before they ask."""
    return []


@pytest.fixture
def fake(
    jp_asyncio_loop: asyncio.AbstractEventLoop, replies: list[FakeReply]
) -> Iterator[FakeAnthropic]:
    """A strict fake of the API in the same loop as the server."""
    api = FakeAnthropic(replies)
    jp_asyncio_loop.run_until_complete(api.__aenter__())
    yield api
    jp_asyncio_loop.run_until_complete(api.__aexit__(None, None, None))


@pytest.fixture
def chat(jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[ChatCompletions]:
    """Another service in the same loop."""
    api = ChatCompletions([])
    running = serving(api)
    jp_asyncio_loop.run_until_complete(running.__aenter__())
    yield api
    jp_asyncio_loop.run_until_complete(running.__aexit__(None, None, None))


@pytest.fixture
def named_users() -> None:
    """Users have stable names, from a header."""


@pytest.fixture
def jp_server_config(
    tmp_path: Path, fake: FakeAnthropic, request: pytest.FixtureRequest
) -> dict[str, Any]:
    users = {"identity_provider_class": Named} if "named_users" in request.fixturenames else {}
    return {
        "ServerApp": {"jpserver_extensions": {"jupyter_agent": True}, **users},
        "JupyterAgent": {
            "store_dir": str(tmp_path / "store"),
            "default_model": "anthropic:claude-sonnet-5-5",
            "providers": {"anthropic": {"base_url": fake.url, "api_key": fake.api_key}},
        },
    }


@pytest.fixture
def agent(jp_serverapp: Any, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Assistant:
    """The assistant in the running server."""
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyter_agent"]
    assert isinstance(app, JupyterAgent)
    return jp_asyncio_loop.run_until_complete(app.load())


@pytest.fixture
def call(jp_fetch: Any, agent: Assistant) -> Call:
    """Sends a request under `api/agent`; errors are answers, too. Answers fit `openapi.json`."""
    specs = [route.spec() for route in agent.routes]
    routes = [(re.compile(pattern), handler) for pattern, handler, _ in specs]

    def check(method: str, path: str, status: int, answer: Any) -> None:
        handler = next((one for pattern, one in routes if pattern.fullmatch(path)), None)
        operation = getattr(getattr(handler, method.lower(), None), "operation", None)
        if operation and operation.gives and status in (operation.answers, *operation.also):
            TypeAdapter(operation.gives).validate_python(answer, by_alias=True)

    async def call(method: str, *path: str, body: Any = None, **more: Any) -> Answer:
        raw = body if isinstance(body, str | bytes | None) else json.dumps(body)
        if raw is None and method in ("POST", "PUT", "PATCH"):
            raw = "{}"
        response: HTTPResponse = await jp_fetch(
            "api", "agent", *path, method=method, body=raw, raise_error=False, **more
        )
        text = response.body.decode()
        kind = response.headers.get("Content-Type", "")
        parsed = json.loads(text) if kind.startswith("application/json") and text else None
        if parsed is not None and "?" not in path[-1]:
            spelled = re.sub("/+", "/", "/".join(("/api/agent", *path)))
            check(method, spelled, response.code, parsed)
        return Answer(response.code, parsed, response.headers, text)

    return call


@pytest.fixture
def users(call: Call, named_users: None) -> Any:
    """Requests by a named user."""

    async def as_user(name: str, method: str, *path: str, body: Any = None) -> Answer:
        return await call(method, *path, body=body, headers={"X-User": name})

    return as_user


@pytest.fixture
def notebook(jp_root_dir: Path) -> Path:
    """`sales, Q3/first look.ipynb`: three cells with ids a1, b2, c3."""
    path = jp_root_dir / "sales, Q3" / "first look.ipynb"
    path.parent.mkdir()
    cells = [
        new_markdown_cell("# Sales", id="a1"),
        new_code_cell("x = 1", id="b2"),
        new_code_cell("print('x is', x)", id="c3"),
    ]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), path)
    return path


PATH = "sales, Q3/first look.ipynb"


def frames(text: str) -> list[dict[str, Any]]:
    """The chunks of an event stream, with their numbers in it as `seq`; `[DONE]` gets that as its
    type."""
    found = []
    for frame in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        if fields.get("data") == "[DONE]":
            found.append({"type": "[DONE]"})
        elif "data" in fields:
            number = int(fields["id"]) % 10**9  # before it, the id names the turn
            found.append({**json.loads(fields["data"]), "seq": number})
    return found


async def live(agent: Assistant, holds: Callable[[LiveTurn], object] = bool) -> LiveTurn:
    """The running turn of the conversation `talk`, once `holds` is true of it."""

    def found() -> LiveTurn | None:
        turn = agent.runner.live_in("local", "talk")
        return turn if turn is not None and holds(turn) else None

    turn = await until(found)
    assert turn is not None
    return turn


def shown_early(turn: LiveTurn) -> bool:
    """Whether it has sent outputs of a cell that still runs."""
    return any(getattr(event, "preliminary", False) for event in turn.events)


async def answered(look: Callable[[], Awaitable[Answer]], holds: Callable[[Any], object]) -> Any:
    """The body of the first answer for which `holds` is true; each look waits for the server."""
    async with asyncio.timeout(PATIENCE):
        while not holds(body := (await look()).body):
            pass
    return body


async def ended(call: Call, run_id: str) -> dict[str, Any]:
    """The run, once it has ended."""
    run: dict[str, Any] = await answered(
        lambda: call("GET", "runs", run_id), lambda run: run["status"] not in ("queued", "running")
    )
    return run


def ask(text: str, **more: Any) -> dict[str, Any]:
    """The body of a chat request."""
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": "talk", "messages": [message], "notebook": PATH, "mode": "auto", **more}


class Listener:
    """A page that follows Jupyter's event stream."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection = connection

    async def turn_announced(self, conversation: str = "talk") -> str | None:
        """The turn of the next announcement, which is about a conversation whose id begins like
        that.
        """
        while True:
            async with asyncio.timeout(60):
                message = await self._connection.read_message()
            assert message is not None
            event = json.loads(message)
            if event["schema_id"] == SCHEMA:
                assert event["conversation_id"].startswith(conversation)
                turn_id: str | None = event["turn_id"]
                return turn_id

    async def close(self) -> None:
        """Close the connection, and wait for it: else its socket outlives the test."""
        self._connection.close()
        async with asyncio.timeout(60):
            while await self._connection.read_message() is not None:
                pass


@pytest.fixture
def page(jp_ws_fetch: Any, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[Listener]:
    """A page that was open before the assistant was loaded, unless the test loads it first."""
    connecting = jp_ws_fetch("api", "events", "subscribe")
    listener = Listener(jp_asyncio_loop.run_until_complete(connecting))
    yield listener
    jp_asyncio_loop.run_until_complete(listener.close())
