"""A client of one MCP server: the SDK's session, with our bounds and our errors.

Imports the SDK, so it is imported in a thread, and only if a server is configured.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import mcp_types as types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from mcp.client import ClientSession
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, mcp_param_headers, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from jupyter_agent import __version__
from jupyter_agent.plugs.mcp.config import ServerConfig
from jupyter_agent.plugs.mcp.http import HttpWay
from jupyter_agent.plugs.mcp.messages import NO_VERSION, McpError, McpUnreachable
from jupyter_agent.plugs.mcp.stdio import Program
from jupyter_agent.plugs.mcp.way import Streams, Way
from jupyter_agent.tasks import surely

_DISCOVER = "server/discover"
_MOST_PAGES = 20
_MOST_TOOLS = 1_000
_MOST_ROUNDS = 5
"""How often a call is repeated with our answers to the server's questions."""
_LONGEST_CALL_S = 3600.0
"""Longest time in seconds that progress notifications keep a call alive."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name of a header; the SDK would drop a tool for another one among its parameters."""


def client_for(
    config: ServerConfig,
    environment: Mapping[str, str],
    mask: Callable[[str], str],
    log: logging.Logger,
) -> Client:
    """The client for a configured server, not connected yet. Raises ModelError that names a missing
    value of the configuration.
    """
    way: Way
    if config.url is not None:
        agent = f"jupyter_agent/{__version__}"
        way = HttpWay(config.url, config.network(environment), agent=agent)
    else:
        given = config.environment(environment)
        way = Program(
            config.name, config.command, environment=given, cwd=config.cwd, mask=mask, log=log
        )
    return Client(way, timeout=config.timeout)


class Client:
    """A server's tools, and calls of them."""

    def __init__(self, way: Way, *, timeout: float) -> None:
        """`timeout` is how long a call may be silent, in seconds."""
        self._way = way
        self._timeout = timeout
        self._connection: asyncio.Task[None] | None = None
        self._dispatcher: _Dispatcher | None = None
        self._session: ClientSession | None = None
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._fault: McpError | None = None

    @property
    def fault(self) -> McpError | None:
        """Why the server cannot be asked any more; None while it can."""
        return self._way.fault or self._fault

    @property
    def version(self) -> str | None:
        """The MCP version in use."""
        return self._session.protocol_version if self._session is not None else None

    @property
    def tools_changed(self) -> bool:
        """Whether the server announced a change since the last listing."""
        return self._dispatcher is not None and self._dispatcher.tools_changed

    # -- life cycle

    async def open(self) -> None:
        """Connects, in the newer era if the server supports it. Raises McpError."""
        self._connection = asyncio.create_task(self._connect())
        await self._opened.wait()
        if self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """Closes the connection."""
        self._closing.set()
        if self._connection is not None:
            if not self._opened.is_set():
                self._connection.cancel()
            await surely(_wait_for(self._connection))

    async def _connect(self) -> None:
        """Connects, and stays until `close`: the SDK has to end in the task that it began in."""
        try:
            async with self._way.streams() as streams:
                self._dispatcher = _Dispatcher(streams, self._way, self._timeout)
                about = types.Implementation(name="jupyter_agent", version=__version__)
                async with ClientSession(dispatcher=self._dispatcher, client_info=about) as session:
                    await self._use(session)
        except McpError as error:
            self._end(error)
        except Exception as error:  # noqa: BLE001  whatever tasks of the SDK raised
            self._end(McpError(f"the connection broke ({type(error).__name__})"))
        finally:
            self._end(McpError("it was stopped"))

    async def _use(self, session: ClientSession) -> None:
        try:
            await _negotiate(session)
        except McpError as error:
            self._end(error)
        else:
            self._session = session
            self._opened.set()
            await self._closing.wait()

    def _end(self, fault: McpError) -> None:
        self._fault = self._fault or fault
        self._opened.set()

    # -- tools

    async def tools(self) -> list[Mapping[str, Any]]:
        """The server's list of tools, unchecked. Raises McpError."""
        assert self._dispatcher is not None
        self._dispatcher.tools_changed = False
        listed: list[Mapping[str, Any]] = []
        cursors: set[str | None] = {None}
        params = None
        for _ in range(_MOST_PAGES):
            page = await self._ask(types.ListToolsRequest(params=params))
            tools = page.get("tools")
            if not isinstance(tools, list):
                raise McpError("`tools/list` returned no list")
            listed += [tool for tool in tools if isinstance(tool, Mapping)]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or cursor in cursors or len(listed) > _MOST_TOOLS:
                break
            cursors.add(cursor)
            params = types.PaginatedRequestParams(cursor=cursor)
        self._dispatcher.headers_of = {
            str(tool.get("name")): _header_map(tool.get("inputSchema")) for tool in listed
        }
        return listed[:_MOST_TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of a call, unchecked. Cancelling it also cancels it on the server. Raises
        McpError.

        Questions of the server to its user are declined.
        """
        more: dict[str, Any] = {}
        for _ in range(_MOST_ROUNDS):
            params = types.CallToolRequestParams(name=tool, arguments=dict(arguments), **more)
            result = await self._ask(types.CallToolRequest(params=params))
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            if kind != "input_required":
                raise McpError("unsupported type of result (such as a task)")
            more = _declining(result)
        raise McpError(
            "it keeps asking questions that only a person could answer; all were declined"
        )

    async def _ask(self, request: types.ListToolsRequest | types.CallToolRequest) -> dict[str, Any]:
        if self._session is None:
            raise self.fault or McpError("it is not ready yet")
        try:
            await self._session.send_request(request, types.EmptyResult)
        except _Answer as answer:
            return answer.result
        except MCPError as error:
            raise self.fault or McpError(error.message) from None
        raise AssertionError("the dispatcher raises the answer")


class _Answer(Exception):
    """A result that passes the SDK's session by: it would refuse a list for one odd tool, and the
    result of a call that was carried out for one odd part."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result


class _Patience:
    """Keeps a call alive with each sign of progress."""

    def __init__(self, limit: asyncio.Timeout, seconds: float, latest: float) -> None:
        """`latest` is the end in any case, as the event loop's time."""
        self._limit = limit
        self._seconds = seconds
        self._latest = latest

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        with suppress(RuntimeError):  # the call has just ended
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(min(now + self._seconds, self._latest))


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, with our timeouts and errors, and closed to requests of a server."""

    def __init__(self, streams: Streams, way: Way, timeout: float) -> None:
        super().__init__(*streams)
        self._way = way
        self._timeout = timeout
        self._ids = count(1)
        self.tools_changed = False
        self.headers_of: Mapping[str, Mapping[tuple[str, ...], str]] = {}
        """By tool: its arguments that a server of the newer era also wants as headers."""

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, Any]:
        """The result of a request; for one about tools it is raised as _Answer. Raises MCPError
        for an error of the server, McpError without an answer.
        """
        id = next(self._ids)
        options: CallOptions = {**(opts or {}), "request_id": id}
        seconds = min(self._timeout, options.pop("timeout", self._timeout))
        latest = asyncio.get_running_loop().time() + max(_LONGEST_CALL_S, seconds)
        try:
            async with asyncio.timeout(seconds) as limit:
                if method == "tools/call":
                    self._add_headers(params or {}, options)
                    options["on_progress"] = _Patience(limit, seconds, latest)
                result = await super().send_raw_request(method, params, options)
        except TimeoutError:
            raise self._failure(method, _no_answer(seconds, method)) from None
        except MCPError as error:
            if (fault := self._way.settle(id)) is None:
                raise
            raise self._failure(method, fault) from error
        finally:
            self._way.settle(id)
        if method.startswith("tools/"):
            raise _Answer(result)
        return {"ttlMs": 0, "cacheScope": "private", **result} if method == _DISCOVER else result

    def _failure(self, method: str, fault: McpError) -> Exception:
        """An old server may answer the first request with anything, or not at all."""
        if method == _DISCOVER and not isinstance(fault, McpUnreachable) and not self._way.fault:
            return MCPError(types.INTERNAL_ERROR, fault.message)
        return fault

    def _add_headers(self, params: Mapping[str, Any], options: CallOptions) -> None:
        headers = options.get("headers", {})
        if MCP_METHOD_HEADER in headers:  # only in the newer era
            named = self.headers_of.get(params["name"], {})
            headers.update(mcp_param_headers(named, params.get("arguments") or {}))

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """Receives messages until the way ends; those of the server itself do not get to the
        session."""
        await super().run(_decline, on_notify, self._note, task_status=task_status)

    def _note(self, method: str, params: Mapping[str, Any] | None) -> bool:
        if method == "notifications/tools/list_changed":
            self.tools_changed = True
        return True


async def _negotiate(session: ClientSession) -> None:
    """Finds the era of a server, and its version. Raises McpError."""
    try:
        if not await _discover(session):
            await _initialize(session)
    except RuntimeError:
        raise McpError(NO_VERSION) from None
    except ValidationError:
        raise McpError("its answer to `initialize` is invalid") from None
    except MCPError as error:
        raise McpError(error.message) from None


async def _discover(session: ClientSession) -> bool:
    try:
        await session.discover()
    except MCPError as error:
        named = error.data.get("supported") if isinstance(error.data, Mapping) else None
        if error.code == types.UNSUPPORTED_PROTOCOL_VERSION and isinstance(named, list):
            if not set(map(str, named)).intersection(KNOWN_PROTOCOL_VERSIONS):
                raise McpError(NO_VERSION) from None
        return False
    except (RuntimeError, ValidationError):  # no version in common, or no answer of that era
        return False
    return True


async def _initialize(session: ClientSession) -> None:
    try:
        await session.initialize()
    except MCPError as error:
        # A slow program may still have received the request of the newer era.
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


async def _decline(
    context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Answers a ping of the server; declines all its other requests."""
    if method == "ping":
        return {}
    if method == "elicitation/create":
        return {"action": "decline"}
    raise MCPError(types.METHOD_NOT_FOUND, "Not supported by this client.")


def _declining(result: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters for repeating a call: no to each question, and the server's own state."""
    requests = result.get("inputRequests")
    more: dict[str, Any] = {}
    if isinstance(requests, Mapping) and requests:
        methods = [each.get("method") for each in requests.values() if isinstance(each, Mapping)]
        if len(methods) != len(requests) or set(methods) != {"elicitation/create"}:
            raise McpError("it requested something unsupported (such as a model or folders)")
        more["input_responses"] = {key: types.ElicitResult(action="decline") for key in requests}
    if isinstance(state := result.get("requestState"), str):
        more["request_state"] = state
    return more


def _header_map(schema: Any) -> dict[tuple[str, ...], str]:
    named = x_mcp_header_map(schema) if isinstance(schema, dict) else {}
    return {path: name for path, name in named.items() if _TOKEN.fullmatch(name)}


def _no_answer(seconds: float, method: str) -> McpError:
    unknown = "; whether it carried out the call is unknown" if method == "tools/call" else ""
    return McpError(f"no answer within {seconds:g} s{unknown}")


async def _wait_for(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
