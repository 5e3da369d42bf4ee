"""A client of one MCP server, in whichever era of the protocol it speaks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from jupyter_agent.mcp_server.messages import (
    METHOD_NOT_FOUND,
    SESSIONS,
    STATELESS,
    UNSUPPORTED_VERSION,
    RpcMessage,
    header_value,
    notification,
)
from jupyter_agent.plugs.mcp.messages import (
    ErrorReply,
    McpError,
    McpUnreachable,
    SessionEnded,
    envelope,
    request,
    result_of,
)
from jupyter_agent.tasks import begin

_MOST_PAGES = 20
_MOST_TOOLS = 1_000
_MOST_ROUNDS = 5
"""How often a call is repeated with our answers to the server's questions."""
_MOST_ANSWERS = 8
"""Server requests that are answered at the same time."""
_NOTE_S = 2.0
"""Timeout in seconds for sending a message without an answer."""
_DISCOVER_S = 10.0
"""Seconds to wait for the answer that tells a server's era; old servers do not answer unknown
requests."""
_LONGEST_CALL_S = 3600.0
"""Longest time in seconds that progress notifications keep a call alive."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECLINED = {"action": "decline"}


class Transport(Protocol):
    """Carries messages to and from a server."""

    @property
    def fault(self) -> McpError | None:
        """Why the server cannot be used any more; None while it can."""

    async def open(self) -> None:
        """Connects. Raises McpError."""

    async def exchange(self, request: RpcMessage, headers: Mapping[str, str]) -> RpcMessage:
        """Sends a request and returns the reply. Raises McpError."""

    async def send(self, message: RpcMessage, headers: Mapping[str, str] | None = None) -> None:
        """Sends a message without an answer. Raises McpError."""

    async def close(self) -> None:
        """Closes the connection for good."""


class Client:
    """A server's tools, and calls of them."""

    def __init__(
        self,
        transport: Callable[[Callable[[RpcMessage], None]], Transport],
        *,
        about: Mapping[str, Any],
        timeout: float,
        cancels_by_closing: bool,
    ) -> None:
        """`transport` makes a transport that passes on the server's own messages; `about` describes
        us; `timeout` is how long a call may be silent, in seconds; `cancels_by_closing`: closing
        the connection cancels a request of a stateless server.
        """
        self._transport = transport(self._on_message)
        self._about = about
        self._timeout = timeout
        self._cancels_by_closing = cancels_by_closing
        self._version = ""
        """The version in use; empty before that is known."""
        self._sessions = 0
        """How many sessions were begun."""
        self._renewing = asyncio.Lock()
        """Held while an ended session is replaced."""
        self._ids = count(1)
        self._progress: dict[int, Callable[[], None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self.tools_changed = False
        """Whether the server announced a change since the last listing."""

    @property
    def fault(self) -> McpError | None:
        """Why the server cannot be asked any more; None while it can."""
        return self._transport.fault

    @property
    def version(self) -> str:
        """The MCP version in use."""
        return self._version

    @property
    def _stateless(self) -> bool:
        return self._version == STATELESS

    # -- life cycle

    async def open(self) -> None:
        """Connects, in the newer era if the server supports it. Raises McpError."""
        await self._transport.open()
        if not await self._discover():
            await self._initialize()

    async def close(self) -> None:
        """Closes the connection."""
        for task in self._answering:
            task.cancel()
        await self._transport.close()

    async def _discover(self) -> bool:
        """Whether the server is of the newer era; if so, uses that from now on."""
        self._version = STATELESS
        try:
            result = await self._ask("server/discover", {}, seconds=min(_DISCOVER_S, self._timeout))
        except ErrorReply as error:
            self._refuse_unknown(error)
        except McpUnreachable:
            raise
        except McpError:
            if self.fault is not None:
                raise
        else:
            supported = result.get("supportedVersions")
            if isinstance(supported, list) and STATELESS in supported:
                return True
        self._version = ""
        return False

    def _refuse_unknown(self, error: ErrorReply) -> None:
        """Raises McpError for a server whose listed versions are all unknown."""
        data = error.data if isinstance(error.data, Mapping) else {}
        named = data.get("supported")
        if error.code == UNSUPPORTED_VERSION and isinstance(named, list):
            if not set(map(str, named)) & {STATELESS, *SESSIONS}:
                raise McpError("no MCP version in common")

    async def _initialize(self) -> None:
        params = {"protocolVersion": SESSIONS[0], "capabilities": {}, "clientInfo": self._about}
        try:
            result = await self._ask("initialize", params, seconds=self._timeout)
        except ErrorReply as error:
            # A slow program may still have received the request of the newer era.
            if error.code == UNSUPPORTED_VERSION and await self._discover():
                return
            raise
        version = result.get("protocolVersion")
        if version not in SESSIONS:
            raise McpError("no MCP version in common")
        self._version = str(version)
        self._sessions += 1
        await self._transport.send(
            notification("notifications/initialized"), self._headers("notifications/initialized")
        )

    # -- tools

    async def tools(self) -> list[Mapping[str, Any]]:
        """The server's list of tools, unchecked. Raises McpError."""
        self.tools_changed = False
        listed: list[Mapping[str, Any]] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            page = await self._again_in_a_new_session("tools/list", params)
            tools = page.get("tools")
            if not isinstance(tools, list):
                raise McpError("`tools/list` returned no list")
            listed += [tool for tool in tools if isinstance(tool, Mapping)]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in cursors or len(listed) > _MOST_TOOLS:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return listed[:_MOST_TOOLS]

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, headers: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """The result of a call. Cancelling it also cancels it on the server. Raises McpError.

        Questions of the server to its user are declined.
        """
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        for _ in range(_MOST_ROUNDS):
            result = await self._again_in_a_new_session("tools/call", params, headers)
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            if kind != "input_required":
                raise McpError("unsupported type of result (such as a task)")
            params = {"name": tool, "arguments": dict(arguments), **_declining(result)}
        raise McpError(
            "it keeps asking questions that only a person could answer; all were declined"
        )

    async def _again_in_a_new_session(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        async with self._renewing:
            session = self._sessions
        try:
            return await self._ask(method, params, seconds=self._timeout, headers=headers)
        except SessionEnded:
            async with self._renewing:
                if session == self._sessions:  # else another call has begun one
                    await self._initialize()
            return await self._ask(method, params, seconds=self._timeout, headers=headers)

    async def _ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        id = next(self._ids)
        loop = asyncio.get_running_loop()
        latest = loop.time() + max(_LONGEST_CALL_S, seconds)
        meta: dict[str, Any] = envelope(STATELESS, self._about) if self._stateless else {}
        if method == "tools/call":
            meta["progressToken"] = id
        message = request(id, method, {**params, **({"_meta": meta} if meta else {})})
        try:
            async with asyncio.timeout(seconds) as limit:
                self._progress[id] = lambda: limit.reschedule(min(loop.time() + seconds, latest))
                reply = await self._transport.exchange(
                    message, {**(headers or {}), **self._headers(method, params.get("name"))}
                )
        except TimeoutError:
            self._cancel(id, method)
            raise McpError(
                f"no answer within {seconds:g} s"
                + ("; whether it carried out the call is unknown" if method == "tools/call" else "")
            ) from None
        except asyncio.CancelledError:
            self._cancel(id, method)
            raise
        finally:
            self._progress.pop(id, None)
        return result_of(reply)

    def _cancel(self, id: int, method: str) -> None:
        """Cancels a request on the server, in the way of its era, without waiting."""
        if method != "tools/call" or (self._stateless and self._cancels_by_closing):
            return
        params = {"requestId": id, "reason": "The client cancelled it."}
        begin(self._send(notification("notifications/cancelled", params)), self._answering)

    async def _send(self, message: RpcMessage) -> None:
        with suppress(McpError, TimeoutError):
            async with asyncio.timeout(_NOTE_S):
                await self._transport.send(message, self._headers(message.get("method", "")))

    def _headers(self, method: str, name: Any = None) -> dict[str, str]:
        """HTTP headers of a message, except for a session."""
        if not self._version or method == "initialize":
            return {}
        headers = {"MCP-Protocol-Version": self._version}
        if self._stateless:
            headers["Mcp-Method"] = method
            if isinstance(name, str):
                headers["Mcp-Name"] = header_value(name)
        return headers

    # -- messages of the server

    def _on_message(self, message: RpcMessage) -> None:
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, Mapping) else {}
        if "id" in message:
            self._answer(message["id"], method)
        elif method == "notifications/progress":
            token = params.get("progressToken")
            if type(token) is int and (alive := self._progress.get(token)):
                alive()
        elif method == "notifications/tools/list_changed":
            self.tools_changed = True

    def _answer(self, id: Any, method: Any) -> None:
        """Answers a ping of the server; declines all its other requests."""
        if type(id) not in (int, str) or len(self._answering) >= _MOST_ANSWERS:
            return
        reply: RpcMessage = {"jsonrpc": "2.0", "id": id}
        if method == "ping":
            reply["result"] = {}
        elif method == "elicitation/create":
            reply["result"] = _DECLINED
        else:
            reply["error"] = {"code": METHOD_NOT_FOUND, "message": "Not supported by this client."}
        begin(self._send(reply), self._answering)


def _declining(result: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters for repeating a call: no to each question, and the server's own state."""
    requests = result.get("inputRequests")
    more: dict[str, Any] = {}
    if isinstance(requests, Mapping) and requests:
        methods = [each.get("method") for each in requests.values() if isinstance(each, Mapping)]
        if len(methods) != len(requests) or set(methods) != {"elicitation/create"}:
            raise McpError("it requested something unsupported (such as a model or folders)")
        more["inputResponses"] = {key: _DECLINED for key in requests}
    if isinstance(state := result.get("requestState"), str):
        more["requestState"] = state
    return more


def header_params(schema: Any) -> dict[tuple[str, ...], str]:
    """The arguments that a server of the newer era also wants as headers: their paths and the
    names of the headers.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    return dict(_walk_header_params(schema, ()))


def _walk_header_params(
    schema: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(path) > 8:
        return
    for name, inner in properties.items():
        if isinstance(inner, Mapping):
            header = inner.get("x-mcp-header")
            if isinstance(header, str) and _TOKEN.fullmatch(header):
                yield (*path, name), f"Mcp-Param-{header}"
            yield from _walk_header_params(inner, (*path, name))


def argument_headers(
    names: Mapping[tuple[str, ...], str], arguments: Mapping[str, Any]
) -> dict[str, str]:
    """The headers for these arguments."""
    headers = {}
    for path, name in names.items():
        value = _at(arguments, path)
        if isinstance(value, bool):
            headers[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            headers[name] = header_value(str(value))
    return headers


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
