"""MCP clients of both eras, against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant
from tests.mcp_server.streaming import Stream
from tests.notebook.browser import Tab
from tests.server.conftest import (
    PATH,
    Answer,
    Call,
    agent,
    call,
    fake,
    jp_server_config,
    notebook,
    page,
    replies,
)

__all__ = [
    "PATH",
    "Answer",
    "agent",
    "call",
    "fake",
    "jp_server_config",
    "notebook",
    "page",
    "replies",
]

NEW = "2026-07-28"
OLD = "2025-11-25"
FORMS = {"elicitation": {}}
EDIT = {"notebook": PATH, "edits": [{"cell_id": "b2", "old_string": "1", "new_string": "2"}]}
ALLOWED = {"action": "accept", "content": {"answer": "Allow"}}
Ask = Callable[..., Awaitable[Answer]]
Tool = Callable[..., Awaitable[dict[str, Any]]]
Begin = Callable[..., Awaitable[Ask]]
HangUp = Callable[..., Awaitable[asyncio.StreamWriter]]
Streaming = Callable[..., AbstractAsyncContextManager[Stream]]


def envelope(client: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": dict(capabilities),
    }


def message(method: str, params: Mapping[str, Any], id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params)}


def headers(**more: str) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **named,
    }


@pytest.fixture
def post(call: Call, jp_auth_header: dict[str, str]) -> Ask:
    """Sends one message verbatim."""

    async def post(
        body: Any, address: Mapping[str, str] = {}, *, hear: Any = None, **given: str
    ) -> Answer:
        sent = {**jp_auth_header, **headers(**given)}
        more = {} if hear is None else {"streaming_callback": hear}
        return await call("POST", "mcp", body=body, headers=sent, params=dict(address), **more)

    return post


@pytest.fixture
def ask(post: Ask) -> Ask:
    """Sends a complete request of the newer era."""

    async def ask(
        method: str,
        params: Mapping[str, Any] = {},
        *,
        client: str = "Claude Code",
        capabilities: Mapping[str, Any] = {},
        meta: Mapping[str, Any] = {},
        hear: Any = None,
        **address: str,
    ) -> Answer:
        named = params.get("uri" if method == "resources/read" else "name")
        about = {**params, "_meta": {**envelope(client, capabilities), **meta}}
        more = {"Mcp_Name": named} if isinstance(named, str) else {}
        body = message(method, about)
        own = {"MCP_Protocol_Version": NEW, "Mcp_Method": method, **more}
        return await post(body, address, hear=hear, **own)

    return ask


@pytest.fixture
def tool(ask: Ask) -> Tool:
    """The result of a call of a tool."""

    async def tool(name: str, input: Mapping[str, Any] = {}, **more: Any) -> dict[str, Any]:
        given = more.pop("given", {})
        answer = await ask("tools/call", {"name": name, "arguments": dict(input), **given}, **more)
        assert answer.status == 200, answer.text
        result: dict[str, Any] = answer.body["result"]
        return result

    return tool


def text(result: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def events(body: str) -> list[dict[str, Any]]:
    """The messages of a stream."""
    lines = [line for line in body.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def sources(path: Path) -> dict[str, str]:
    return {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}


@pytest.fixture
def session(post: Ask) -> Begin:
    """Starts a session and returns a function for its requests."""

    async def begin(
        version: str = OLD, client: str = "Cursor", capabilities: Mapping[str, Any] = {}
    ) -> Ask:
        about = {"name": client, "version": "1"}
        asked = {
            "protocolVersion": version,
            "capabilities": dict(capabilities),
            "clientInfo": about,
        }
        begun = await post(message("initialize", asked))
        assert begun.status == 200, begun.text
        assert begun.body["result"]["protocolVersion"] == version
        assert begun.body["result"]["serverInfo"]["name"] == "jupyter_agent"
        own = {"Mcp_Session_Id": begun.headers["Mcp-Session-Id"], "MCP_Protocol_Version": version}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        accepted = await post(note, **own)
        assert (accepted.status, accepted.text) == (202, "")

        async def ask(
            body: Mapping[str, Any], address: Mapping[str, str] = {}, **more: Any
        ) -> Answer:
            return await post(body, address, **{**own, **more})

        return ask

    return begin


@pytest.fixture
def streaming() -> Streaming:
    """The answer to a request, as it arrives; an endless request is cancelled."""

    @asynccontextmanager
    async def streaming(ask: Ask, *given: Any, **more: Any) -> AsyncIterator[Stream]:
        stream = Stream()
        asking = asyncio.create_task(ask(*given, hear=stream.feed, **more))
        asking.add_done_callback(lambda _: stream.close())
        try:
            yield stream
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    return streaming


@pytest.fixture
def hang_up(
    jp_http_port: int, jp_base_url: str, jp_auth_header: dict[str, str], agent: Assistant
) -> HangUp:
    """Makes a call in the newer era on a connection of its own, which closes on command."""

    async def begin(
        name: str, input: Mapping[str, Any], address: str = "mode=ask"
    ) -> asyncio.StreamWriter:
        params = {"name": name, "arguments": dict(input), "_meta": envelope("Claude Code", {})}
        body = json.dumps(message("tools/call", params)).encode()
        own = {"MCP-Protocol-Version": NEW, "Mcp-Method": "tools/call", "Mcp-Name": name}
        sent = {**jp_auth_header, **headers(), **own, "Host": "localhost"}
        sent["Content-Length"] = str(len(body))
        lines = [f"POST {jp_base_url}api/agent/mcp?{address} HTTP/1.1"]
        lines += [f"{key}: {value}" for key, value in sent.items()]
        _, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return writer

    return begin


@pytest.fixture
def tab(
    jp_asyncio_loop: asyncio.AbstractEventLoop, agent: Assistant, jp_serverapp: Any, notebook: Path
) -> Tab:
    """A page of the user, with the notebook open."""
    page = Tab(agent.tabs, jp_serverapp.contents_manager, PATH, "local/page-1")
    return jp_asyncio_loop.run_until_complete(page.open())
