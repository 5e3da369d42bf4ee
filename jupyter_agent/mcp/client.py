"""One server, asked in whichever era it speaks: what it has, and to do something."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from jupyter_agent.mcp.messages import (
    METHOD_NOT_FOUND,
    SESSIONS,
    STATELESS,
    UNSUPPORTED_VERSION,
    ErrorReply,
    McpError,
    McpUnreachable,
    RpcMessage,
    SessionEnded,
    envelope,
    notification,
    request,
    result_of,
)
from jupyter_agent.tasks import begin

_MOST_PAGES = 20
_MOST_TOOLS = 1_000
_MOST_ROUNDS = 5
"""How often a call is repeated with our answers to what the server wants to know."""
_MOST_ANSWERS = 8
"""Requests of a server that are answered at the same time."""
_NOTE_S = 2.0
"""Seconds that a message which nobody answers may take to be sent."""
_DISCOVER_S = 10.0
"""Seconds that a server may take to say of which era it is; old ones do not answer unknown
requests."""
_LONGEST_CALL_S = 3600.0
"""Seconds for which signs of progress keep a call alive."""
_PLAIN = re.compile(r"[\x20-\x7e]*")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECLINED = {"action": "decline"}


class Transport(Protocol):
    """How messages come there and back."""

    @property
    def fault(self) -> McpError | None:
        """Why nothing can be asked any more; None as long as it can."""

    async def open(self) -> None:
        """Makes it ready. Raises McpError."""

    async def exchange(self, request: RpcMessage, headers: Mapping[str, str]) -> RpcMessage:
        """The reply to a request. Raises McpError."""

    async def send(self, message: RpcMessage, headers: Mapping[str, str] | None = None) -> None:
        """Sends what nobody answers. Raises McpError."""

    async def close(self) -> None:
        """Ends it for good."""


class Client:
    """What one server has, and what it does for us."""

    def __init__(
        self,
        transport: Callable[[Callable[[RpcMessage], None]], Transport],
        *,
        about: Mapping[str, Any],
        timeout: float,
        cancels_by_closing: bool,
    ) -> None:
        """`transport` makes one that tells what the server says of its own accord; `about` is what
        we tell of us; `timeout` in seconds, for which a call may be silent; `cancels_by_closing`:
        a stateless server learns by a closed connection that nobody waits any more.
        """
        self._transport = transport(self._hear)
        self._about = about
        self._timeout = timeout
        self._cancels_by_closing = cancels_by_closing
        self._version = ""
        """Which one is spoken; empty before that is known."""
        self._ids = count(1)
        self._progress: dict[int, Callable[[], None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self.tools_changed = False
        """Whether the server said so since they were listed."""

    @property
    def fault(self) -> McpError | None:
        """Why the server cannot be asked any more; None as long as it can."""
        return self._transport.fault

    @property
    def version(self) -> str:
        """The version of MCP that is spoken."""
        return self._version

    @property
    def _stateless(self) -> bool:
        return self._version == STATELESS

    # -- its life

    async def open(self) -> None:
        """Reaches the server, in the newer era if it is of that. Raises McpError."""
        await self._transport.open()
        if not await self._discover():
            await self._initialize()

    async def close(self) -> None:
        """Ends it."""
        for task in self._answering:
            task.cancel()
        await self._transport.close()

    async def _discover(self) -> bool:
        """Whether the server is of the newer era, which is spoken from now on then."""
        self._version = STATELESS
        try:
            found = await self._ask("server/discover", {}, seconds=min(_DISCOVER_S, self._timeout))
        except ErrorReply as error:
            self._refuse_unknown(error)
        except McpUnreachable:
            raise
        except McpError:
            if self.fault is not None:
                raise
        else:
            supported = found.get("supportedVersions")
            if isinstance(supported, list) and STATELESS in supported:
                return True
        self._version = ""
        return False

    def _refuse_unknown(self, error: ErrorReply) -> None:
        """Raises McpError for a server that names its versions, and none of them is ours."""
        data = error.data if isinstance(error.data, Mapping) else {}
        named = data.get("supported")
        if error.code == UNSUPPORTED_VERSION and isinstance(named, list):
            if not set(map(str, named)) & {STATELESS, *SESSIONS}:
                raise McpError("it speaks no version of MCP that we know")

    async def _initialize(self) -> None:
        asked = {"protocolVersion": SESSIONS[0], "capabilities": {}, "clientInfo": self._about}
        try:
            found = await self._ask("initialize", asked, seconds=self._timeout)
        except ErrorReply as error:
            # A program that starts slowly may have taken the question of the newer era meanwhile.
            if error.code == UNSUPPORTED_VERSION and await self._discover():
                return
            raise
        version = found.get("protocolVersion")
        if version not in SESSIONS:
            raise McpError("it speaks no version of MCP that we know")
        self._version = str(version)
        await self._transport.send(
            notification("notifications/initialized"), self._headers("notifications/initialized")
        )

    # -- what it has, and does

    async def tools(self) -> list[Mapping[str, Any]]:
        """What the server describes, unchecked. Raises McpError."""
        self.tools_changed = False
        listed: list[Mapping[str, Any]] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            page = await self._again_in_a_new_session("tools/list", params)
            found = page.get("tools")
            if not isinstance(found, list):
                raise McpError("its list of tools is none")
            listed += [tool for tool in found if isinstance(tool, Mapping)]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in cursors or len(listed) > _MOST_TOOLS:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return listed[:_MOST_TOOLS]

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, headers: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """The result of a call. Whoever cancels it cancels it there, too. Raises McpError.

        What the server asks its person meanwhile is declined.
        """
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        for _ in range(_MOST_ROUNDS):
            result = await self._again_in_a_new_session("tools/call", params, headers)
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            if kind != "input_required":
                raise McpError("it answered with something that we cannot follow (such as a task)")
            params = {"name": tool, "arguments": dict(arguments), **_declining(result)}
        raise McpError(
            "it keeps asking questions that only a person could answer; all are declined"
        )

    async def _again_in_a_new_session(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        try:
            return await self._ask(method, params, seconds=self._timeout, headers=headers)
        except SessionEnded:
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
        asked = request(id, method, {**params, **({"_meta": meta} if meta else {})})
        try:
            async with asyncio.timeout(seconds) as limit:
                self._progress[id] = lambda: limit.reschedule(min(loop.time() + seconds, latest))
                reply = await self._transport.exchange(
                    asked, {**(headers or {}), **self._headers(method, params.get("name"))}
                )
        except TimeoutError:
            self._cancel(id, method)
            raise McpError(
                f"it did not answer within {seconds:g} s"
                + ("; whether it did what was asked is unknown" if method == "tools/call" else "")
            ) from None
        except asyncio.CancelledError:
            self._cancel(id, method)
            raise
        finally:
            self._progress.pop(id, None)
        return result_of(reply)

    def _cancel(self, id: int, method: str) -> None:
        """Tells the server that nobody waits any more, as its era wants it, and without waiting."""
        if method != "tools/call" or (self._stateless and self._cancels_by_closing):
            return
        told = {"requestId": id, "reason": "Nobody waits for it any more."}
        begin(self._send(notification("notifications/cancelled", told)), self._answering)

    async def _send(self, message: RpcMessage) -> None:
        with suppress(McpError, TimeoutError):
            async with asyncio.timeout(_NOTE_S):
                await self._transport.send(message, self._headers(message.get("method", "")))

    def _headers(self, method: str, name: Any = None) -> dict[str, str]:
        """What goes with a message in HTTP, besides a session."""
        if not self._version or method == "initialize":
            return {}
        headers = {"MCP-Protocol-Version": self._version}
        if self._stateless:
            headers["Mcp-Method"] = method
            if isinstance(name, str):
                headers["Mcp-Name"] = header_value(name)
        return headers

    # -- what it says of its own accord

    def _hear(self, message: RpcMessage) -> None:
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
        """A request of the server: there is nothing that we let it have."""
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
    """What goes with a call that is repeated: no to each question, and the server's own state."""
    asked = result.get("inputRequests")
    more: dict[str, Any] = {}
    if isinstance(asked, Mapping) and asked:
        methods = [each.get("method") for each in asked.values() if isinstance(each, Mapping)]
        if len(methods) != len(asked) or set(methods) != {"elicitation/create"}:
            raise McpError("it wants something of us that we do not give it (a model, or folders)")
        more["inputResponses"] = {key: _DECLINED for key in asked}
    if isinstance(state := result.get("requestState"), str):
        more["requestState"] = state
    return more


def header_value(text: str) -> str:
    """A text as a header carries it in the newer era: in base64 where it is not plain."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def plain_value(value: str) -> str | None:
    """The text that a header carries so; None for what is no base64."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


def mirrored(schema: Any) -> dict[tuple[str, ...], str]:
    """The arguments that a server of the newer era wants as headers, too: their paths, and the
    headers' names.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    return dict(_mirrored(schema, ()))


def _mirrored(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(path) > 8:
        return
    for name, inner in properties.items():
        if isinstance(inner, Mapping):
            header = inner.get("x-mcp-header")
            if isinstance(header, str) and _TOKEN.fullmatch(header):
                yield (*path, name), f"Mcp-Param-{header}"
            yield from _mirrored(inner, (*path, name))


def mirrored_headers(
    names: Mapping[tuple[str, ...], str], arguments: Mapping[str, Any]
) -> dict[str, str]:
    """The headers of a call with these arguments."""
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
