"""Reads streams as the loop does, and a server that sends any bytes as chat completions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from tornado.web import RequestHandler

from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import Message, Model, ModelRequest
from jupyter_agent.models.openai import OpenAIModel
from tests.fakes.service import drop, http_service

from .kinds import KINDS, Kind

RECORDINGS = Path(__file__).parent.parent / "recordings"
TOOLS = [
    {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
]


def recording(name: str) -> bytes:
    """A recorded stream; the files lack the blank line that ends the last event."""
    return (RECORDINGS / name).read_bytes().rstrip() + b"\n\n"


def request(*messages: Message, **more: Any) -> ModelRequest:
    asked = messages or ({"role": "user", "content": [{"type": "text", "text": "Please."}]},)
    return ModelRequest(**{"system": "Be short.", "tools": TOOLS, "messages": asked, **more})


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


async def read(model: Model, asked: ModelRequest | None = None, into: Reply | None = None) -> Reply:
    """The reply, complete if the stream was."""
    reply = into or Reply(1, Limits())
    async with aclosing(model.stream(asked or request())) as stream:
        async for event in stream:
            reply.feed(event)
    return reply


async def read_and_close(model: OpenAIModel | AnthropicModel) -> Reply | ModelError:
    """The reply, or the error that was raised instead."""
    try:
        return await read(model)
    except ModelError as error:
        return error
    finally:
        await model.close()


class Chat:
    """The answers of a chat completions server, and the requests that it got."""

    def __init__(self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None):
        self.body = body
        self.status = status
        self.headers = headers or {}
        self.then: Literal["end", "cut", "stay open"] = "end"
        """How the connection continues after the body."""
        self.requests: list[dict[str, Any]] = []
        self.addresses: list[str] = []
        self.received: list[dict[str, str]] = []
        """The headers of each request."""
        self.models: list[dict[str, Any]] = [{"id": "llama", "object": "model"}]
        """What `GET models` lists."""
        self.loads: dict[str, int] = {}
        """As in Ollama: the window with which each model is loaded at its first request."""
        self.loaded: list[str] = []
        self.url = ""


@asynccontextmanager
async def serving(chat: Chat) -> AsyncIterator[Chat]:
    class Completions(RequestHandler):
        async def post(self) -> None:
            chat.requests.append(json.loads(self.request.body))
            chat.addresses.append(self.request.uri or "")
            chat.received.append(dict(self.request.headers))
            self.set_status(chat.status)
            event_stream = "text/event-stream" if chat.status == 200 else "application/json"
            self.set_header("Content-Type", event_stream)
            for name, value in chat.headers.items():
                self.set_header(name, value)
            if chat.then == "end":
                await self.finish(chat.body)
                return
            self.write(chat.body)
            await self.flush()
            if chat.then == "stay open":
                await asyncio.Event().wait()
            drop(self, reset=False)

    class Listed(RequestHandler):
        def get(self) -> None:
            chat.addresses.append(self.request.uri or "")
            self.finish({"object": "list", "data": chat.models})

    class Load(RequestHandler):
        def post(self) -> None:
            chat.addresses.append(self.request.uri or "")
            name = json.loads(self.request.body)["model"]
            if name in chat.loads:
                chat.loaded.append(name)
                self.finish({"model": name, "response": "", "done": True, "done_reason": "load"})
            else:
                self.set_status(404)
                self.finish({"error": f"model '{name}' not found"})

    class Loaded(RequestHandler):
        def get(self) -> None:
            chat.addresses.append(self.request.uri or "")
            tags = [(name, name if ":" in name else f"{name}:latest") for name in chat.loaded]
            running = [
                {"name": tag, "model": tag, "context_length": chat.loads[name]}
                for name, tag in tags
            ]
            self.finish({"models": running})

    answers = [(f"/v1/{path}", Completions) for path in ("chat/completions", "responses")]
    more = (("/v1/models", Listed), ("/api/generate", Load), ("/api/ps", Loaded))
    async with http_service(*answers, *more) as address:
        chat.url = f"{address}/v1"
        yield chat


def _type_of(body: bytes) -> str:
    if body.startswith((b"data:", b"event:", b":")):
        return "text/event-stream"
    return "text/html" if body.startswith(b"<") else "application/json"


class Sequel:
    """The next answers of a service, in order; then always `plain`."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self.bodies: list[bytes] = []
        self.refusals: list[str] = []
        """Messages with which it refuses requests, before it answers."""
        self.requests: list[Any] = []
        """The bodies of all requests."""
        self.status = 200
        self.silent = False
        """Whether it never answers."""
        self.asked = 0
        self.url = ""


@asynccontextmanager
async def sequels(plain: bytes) -> AsyncIterator[Sequel]:
    """An API that accepts any request."""
    sequel = Sequel(plain)

    class Answer(RequestHandler):
        async def post(self) -> None:
            sequel.asked += 1
            if sequel.silent:
                await asyncio.Event().wait()
            sequel.requests.append(json.loads(self.request.body or b"null"))
            if sequel.refusals:
                error = {"message": sequel.refusals.pop(0), "type": "invalid_request_error"}
                self.set_status(400)
                self.finish({"error": error})
                return
            self.set_status(sequel.status)
            body = sequel.bodies.pop(0) if sequel.bodies else sequel.plain
            self.set_header("Content-Type", _type_of(body))
            self.finish(body or None)

        get = post

    async with http_service((r".*", Answer)) as sequel.url:
        yield sequel
