"""A strict MCP server on a real socket: it refuses what the specification forbids clients to send.

It speaks both eras at one address, like real servers; each field and header of a request is
checked, and errors are in `refusals`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

META = "io.modelcontextprotocol/"
NEW = "2026-07-28"
OLD = "2025-11-25"
Behaviour = Callable[["Exchange", Mapping[str, Any]], Awaitable[Any]]


def text(said: str, **more: Any) -> dict[str, Any]:
    """A result with one text."""
    return {"content": [{"type": "text", "text": said}], **more}


def tool(name: str, *, reads: bool = False, **more: Any) -> dict[str, Any]:
    """A server's description of a tool."""
    described = {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
    return {**described, **({"annotations": {"readOnlyHint": True}} if reads else {}), **more}


class Fake:
    """The server's tools, and the requests it received."""

    def __init__(self, *, new: bool = True, old: bool = True, token: str | None = None) -> None:
        self.new = new
        self.old = old
        self.token = token
        self.tools: list[dict[str, Any]] = []
        self.does: dict[str, Behaviour] = {}
        self.page_size = 100
        self.version = OLD
        """The version that the older era answers to `initialize`."""
        self.statuses: list[tuple[int, dict[str, str]]] = []
        """Answers, with headers, to the next requests, whatever these are."""
        self.received: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refusals: list[str] = []
        self.sessions: set[str] = set()
        self.cancelled = asyncio.Event()
        self.left = asyncio.Event()
        self.began = asyncio.Event()
        """Set when a call is being handled."""
        self.resumed: list[str] = []
        """The event ids from which streams were resumed."""
        self.rest: list[list[tuple[str, Any]]] = []
        """The rest of the streams for such requests: (event id, message)."""
        self.ended: list[str] = []
        self.url = ""
        self._made = 0

    def add(self, name: str, does: Behaviour | dict[str, Any], **more: Any) -> None:
        """Adds a tool with this behaviour."""
        self.tools.append(tool(name, **more))
        if isinstance(does, dict):
            answer = does

            async def says(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
                return answer

            self.does[name] = says
        else:
            self.does[name] = does

    def methods(self) -> list[str]:
        """The requested methods, in order."""
        return [message.get("method", "(answer)") for message in self.received]

    def calls(self) -> list[Any]:
        """The parameters of all calls."""
        return [each["params"] for each in self.received if each.get("method") == "tools/call"]

    def answers(self) -> dict[str, Any]:
        """Answers to its own questions, by their ids."""
        return {each["id"]: each for each in self.received if "method" not in each}

    def session(self) -> str:
        """Starts a session."""
        self._made += 1
        self.sessions.add(f"session-{self._made}")
        return f"session-{self._made}"

    def page(self, cursor: str | None) -> dict[str, Any]:
        """A page of the tools."""
        start = int(cursor or 0)
        end = start + self.page_size
        more = {"nextCursor": str(end)} if end < len(self.tools) else {}
        return {"tools": self.tools[start:end], **more}


@asynccontextmanager
async def serving(fake: Fake) -> AsyncIterator[Fake]:
    """Serves at `fake.url`, in the running loop."""
    sockets = bind_sockets(0, "127.0.0.1")
    fake.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp"
    server = HTTPServer(Application([("/mcp", Exchange, {"fake": fake})]))
    server.add_sockets(sockets)
    try:
        yield fake
    finally:
        server.stop()
        await server.close_all_connections()


class Wrong(Exception):
    """The request breaks the specification."""


class Exchange(RequestHandler):
    """One POST, GET or DELETE."""

    def initialize(self, fake: Fake) -> None:
        self.fake = fake
        self.message: dict[str, Any] = {}

    @property
    def era(self) -> str:
        return "new" if self.request.headers.get("MCP-Protocol-Version") == NEW else "old"

    # -- for tools: more than returning a result

    async def say(self, message: Any, *, id: str = "", event: str = "message") -> None:
        """Sends an event of the stream, which starts with the first one."""
        self.set_header("Content-Type", "text/event-stream")
        data = message if isinstance(message, str) else json.dumps(message)
        number = f"id: {id}\n" if id else ""
        with suppress(StreamClosedError):
            self.write(f"event: {event}\n{number}data: {data}\n\n")
            await self.flush()

    async def progress(self, n: int) -> None:
        token = self.message["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": n}
        await self.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    # -- answering

    async def post(self) -> None:
        self.fake.headers.append(dict(self.request.headers))
        try:
            self.message = self._checked()
        except Wrong as wrong:
            self.fake.refusals.append(str(wrong))
            self.set_status(400)
            self._finish_with({"error": {"code": -32600, "message": str(wrong)}}, None)
            return
        self.fake.received.append(self.message)
        if self.fake.statuses and "id" in self.message:
            status, headers = self.fake.statuses.pop(0)
            self.set_status(status)
            for name, value in headers.items():
                self.set_header(name, value)
            self.finish()
            return
        if self.fake.token is not None:
            if self.request.headers.get("Authorization") != f"Bearer {self.fake.token}":
                self.set_status(401)
                self.finish()
                return
        if "id" not in self.message or "method" not in self.message:
            if self.message.get("method") == "notifications/cancelled":
                self.fake.cancelled.set()
            self.set_status(202)
            self.finish()
            return
        await self._answer(self.message["method"], self.message.get("params", {}))

    async def _answer(self, method: str, params: dict[str, Any]) -> None:
        id = self.message["id"]
        if method == "server/discover" and self.fake.new:
            capabilities = {"tools": {"listChanged": True}}
            found = {"supportedVersions": [NEW], "capabilities": capabilities}
            self._finish_with({"result": self._new({**found, "ttlMs": 0, "cacheScope": "private"})})
        elif method == "initialize" and self.fake.old:
            self.set_header("Mcp-Session-Id", self.fake.session())
            info = {"name": "fake", "version": "1"}
            result = {"protocolVersion": self.fake.version, "capabilities": {}, "serverInfo": info}
            self._finish_with({"result": result})
        elif method == "tools/list" and self._is_known():
            page = self.fake.page(params.get("cursor"))
            if self.era == "new":
                page = self._new({**page, "ttlMs": 0, "cacheScope": "private"})
            self._finish_with({"result": page})
        elif method == "tools/call" and self._is_known():
            self.fake.began.set()
            result = await self.fake.does[params["name"]](self, params.get("arguments", {}))
            if result is None or self._finished:
                return
            if isinstance(result, bytes):
                self.set_header("Content-Type", "application/json")
                self.finish(result)
            elif self._headers_written:
                await self.say({"jsonrpc": "2.0", "id": id, "result": self._new(result)})
                self.finish()
            else:
                self._finish_with({"result": self._new(result)})
        elif not self._is_known():
            self.set_status(404)
            self.finish()
        else:
            self.set_status(404 if self.era == "new" else 200)
            self._finish_with({"error": {"code": -32601, "message": "Method not found"}})

    def _is_known(self) -> bool:
        """Whether the older era's session exists."""
        session = self.request.headers.get("Mcp-Session-Id")
        return self.era == "new" or session in self.fake.sessions

    def _new(self, result: dict[str, Any]) -> dict[str, Any]:
        return {"resultType": "complete", **result} if self.era == "new" else result

    def _finish_with(self, reply: dict[str, Any], id: Any = ...) -> None:
        self.set_header("Content-Type", "application/json")
        number = self.message["id"] if id is ... else id
        self.finish(json.dumps({"jsonrpc": "2.0", "id": number, **reply}))

    async def get(self) -> None:
        last = self.request.headers.get("Last-Event-ID")
        if last is None or not self.fake.rest:
            self.set_status(405)
            self.finish()
            return
        self.fake.resumed.append(last)
        for number, message in self.fake.rest.pop(0):
            await self.say(message, id=number)
        self.finish()

    def delete(self) -> None:
        session = self.request.headers.get("Mcp-Session-Id", "")
        self.fake.ended.append(session)
        self.fake.sessions.discard(session)
        self.finish()

    def on_connection_close(self) -> None:
        self.fake.left.set()

    # -- strictness

    def _checked(self) -> dict[str, Any]:
        headers = self.request.headers
        if headers.get("Accept") != "application/json, text/event-stream":
            raise Wrong(f"Accept: {headers.get('Accept')}")
        if headers.get("Content-Type") != "application/json":
            raise Wrong(f"Content-Type: {headers.get('Content-Type')}")
        message = json.loads(self.request.body)
        check_message(message)
        params = message.get("params", {})
        method = message.get("method")
        version = headers.get("MCP-Protocol-Version")
        if version == NEW:
            self._check_new(method, params)
        elif method == "initialize":
            if version is not None or "Mcp-Session-Id" in headers:
                raise Wrong("initialize begins a session: no version, no session")
        elif version != self.fake.version:
            raise Wrong(f"MCP-Protocol-Version: {version}")
        elif "Mcp-Method" in headers or f"{META}protocolVersion" in params.get("_meta", {}):
            raise Wrong("that belongs to the newer era")
        return dict(message)

    def _check_new(self, method: str, params: Mapping[str, Any]) -> None:
        headers = self.request.headers
        if "Mcp-Session-Id" in headers:
            raise Wrong("the newer era has no sessions")
        if headers.get("Mcp-Method") != method:
            raise Wrong(f"Mcp-Method: {headers.get('Mcp-Method')}")
        if method == "tools/call" and headers.get("Mcp-Name") != params["name"]:
            raise Wrong(f"Mcp-Name: {headers.get('Mcp-Name')}")
        if method.startswith("notifications/"):
            raise Wrong("no notification goes to a server of the newer era over HTTP")
        check_envelope(params)


def check_message(message: Any) -> None:
    """Raises Wrong for an invalid client message."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Wrong("no JSON-RPC 2.0")
    if "method" in message:
        if not message.keys() <= {"jsonrpc", "id", "method", "params"}:
            raise Wrong(f"fields: {sorted(message)}")
        if "id" in message and type(message["id"]) is not int:
            raise Wrong("an id is a number here")
        if message["method"] == "initialize":
            wanted = {"protocolVersion": OLD, "capabilities": {}}
            if {**message["params"], **wanted} != message["params"]:
                raise Wrong(f"initialize: {message['params']}")
            if not message["params"]["clientInfo"].keys() >= {"name", "version"}:
                raise Wrong("initialize: clientInfo")
        if message["method"] == "tools/call" and not isinstance(
            message["params"].get("arguments"), dict
        ):
            raise Wrong("tools/call: arguments")
    elif ("result" in message) == ("error" in message) or "id" not in message:
        raise Wrong("an answer has an id, and either a result or an error")


def check_envelope(params: Mapping[str, Any]) -> None:
    """Raises Wrong for a request of the newer era without the required fields."""
    meta = params.get("_meta", {})
    if meta.get(f"{META}protocolVersion") != NEW:
        raise Wrong("_meta: protocolVersion")
    if meta.get(f"{META}clientCapabilities") != {}:
        raise Wrong("_meta: clientCapabilities")
    if not meta.get(f"{META}clientInfo", {}).keys() >= {"name", "version"}:
        raise Wrong("_meta: clientInfo")
