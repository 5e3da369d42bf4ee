"""A server behind a URL: each message is a POST, answered with one JSON or a stream of events.

In the older era the server may assign a session, which goes with every request, and may close a
stream early: the client then requests the rest by the id of the last event.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_agent.errors import ModelError
from jupyter_agent.mcp_server.messages import RpcMessage
from jupyter_agent.models.network import Network
from jupyter_agent.plugs.mcp.messages import (
    MOST_OF_A_MESSAGE,
    McpError,
    McpUnreachable,
    SessionEnded,
    parse_message,
    reason,
)

if TYPE_CHECKING:
    import httpx2

_MOST_OF_A_STREAM = 64 * 2**20
_MOST_OF_A_SESSION = 1024
_TRIES = 3
"""Attempts for a request that certainly did not arrive, or that the server refused for now."""
_FIRST_PAUSE_S = 0.5
_SHORTEST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_RESUMES = 5
"""Attempts in a row to fetch the rest of a stream without receiving any of it."""
_FOR_NOW = (429, 503)


@dataclass
class _StreamProgress:
    """The progress of a reply's stream."""

    last: str = ""
    """The id of its last event."""
    pause: float = 1.0
    """Seconds to wait before requesting the rest, as the server wishes."""
    received: int = 0
    """How many events with an id have arrived."""


class HttpTransport:
    """The transport over HTTP. `on_message` gets each message that is not a reply to a request."""

    def __init__(
        self,
        url: str,
        network: Network,
        *,
        agent: str,
        on_message: Callable[[RpcMessage], None],
    ) -> None:
        """`agent` is our user agent."""
        self._url = url
        self._network = network
        self._agent = agent
        self._on_message = on_message
        self._session = ""
        self._client: httpx2.AsyncClient | None = None

    async def open(self) -> None:
        """Makes the client; sends nothing yet. Raises McpError for a configuration that cannot be
        used."""
        try:
            self._client = await asyncio.to_thread(self._network.client)
        except ModelError as error:
            raise McpError(error.message) from None

    @property
    def fault(self) -> McpError | None:
        """Always None: each request is a connection of its own."""
        return None

    async def exchange(self, request: RpcMessage, headers: Mapping[str, str]) -> RpcMessage:
        """The reply to a request. Raises McpError, SessionEnded if the session has ended."""
        if request["method"] == "initialize":
            self._session = ""
        pause = _FIRST_PAUSE_S
        for attempt in range(1, _TRIES + 1):
            reply, wait = await self._once(request, headers, last=attempt == _TRIES)
            if reply is not None:
                return reply
            await asyncio.sleep(pause if wait is None else wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    async def send(self, message: RpcMessage, headers: Mapping[str, str] | None = None) -> None:
        """Posts a message that is not a request. The server's response does not matter."""
        import httpx2

        content, sent = _body(message), self._headers(headers or {})
        try:
            async with self._open.stream("POST", self._url, content=content, headers=sent):
                pass
        except httpx2.HTTPError as error:
            raise self._broken(error) from None

    async def close(self) -> None:
        """Ends the session, if the server supports that, and closes all connections."""
        import httpx2

        if self._client is None:
            return
        with suppress(httpx2.HTTPError, TimeoutError):
            if self._session:
                async with asyncio.timeout(1.0):
                    await self._client.delete(self._url, headers=self._headers({}))
        await self._client.aclose()

    async def _once(
        self, request: RpcMessage, headers: Mapping[str, str], *, last: bool
    ) -> tuple[RpcMessage | None, float | None]:
        """The reply; or None if another attempt is due, and the seconds that the server wishes."""
        import httpx2

        stream = _StreamProgress()
        content, sent = _body(request), self._headers(headers)
        try:
            async with self._open.stream("POST", self._url, content=content, headers=sent) as got:
                if got.status_code in _FOR_NOW and not last:
                    wait = _seconds(got.headers.get("retry-after"))
                    if wait is None or wait <= _LONGEST_PAUSE_S:
                        return None, wait
                reply = await self._reply(got, request, stream)
                if reply is not None:
                    return reply, None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if last:
                raise self._unreachable(error) from None
            return None, None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            if not stream.last:
                raise self._broken(error) from None
        return await self._rest(request, stream), None

    async def _reply(
        self, response: httpx2.Response, request: RpcMessage, stream: _StreamProgress
    ) -> RpcMessage | None:
        """The reply, or None if the stream ended before it. Raises McpError."""
        self._refuse_status(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            raise McpError("unexpected Content-Encoding")
        if response.is_success and request["method"] == "initialize":
            self._begin(response.headers.get("mcp-session-id", ""))
        if kind == "text/event-stream" and response.is_success:
            return await self._read_stream(response, request, stream)
        if kind == "application/json":
            message = await parse_message(await _whole(response))
            if _answers(message, request, rejected=not response.is_success):
                return {**message, "id": request["id"]}
        if response.is_success:
            what = "a web page" if kind == "text/html" else "something else"
            raise McpError(f"{what} came instead of an MCP answer: is `url` right?")
        raise McpError(f"it answered with HTTP status {response.status_code}")

    def _refuse_status(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in (401, 403):
            raise McpUnreachable(
                f"it rejected our credentials (HTTP status {status}): see its `headers` in "
                "`mcp_servers`"
            )
        if status == 404 and "mcp-session-id" in response.request.headers:
            raise SessionEnded("its session has ended")
        if response.is_redirect:
            raise McpError("it redirects, which is not followed: use the new address as `url`")

    def _begin(self, session: str) -> None:
        if len(session) > _MOST_OF_A_SESSION or not session.isascii():
            raise McpError("it sent an invalid session id")
        self._session = session

    async def _read_stream(
        self, response: httpx2.Response, request: RpcMessage, stream: _StreamProgress
    ) -> RpcMessage | None:
        async with aclosing(_events(response, stream)) as events:
            async for data in events:
                message = await parse_message(data)
                if "method" in message:
                    self._on_message(message)
                elif _answers(message, request):
                    return message
        return None

    async def _rest(self, request: RpcMessage, stream: _StreamProgress) -> RpcMessage:
        """Fetches the rest of a stream that ended early and returns the reply."""
        import httpx2

        tries = 0
        while stream.last and tries < _RESUMES:
            received = stream.received
            await asyncio.sleep(min(max(stream.pause, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S))
            headers = {**self._headers({}), "Last-Event-ID": stream.last}
            with suppress(httpx2.HTTPError):
                async with self._open.stream("GET", self._url, headers=headers) as response:
                    if not response.is_success:
                        break
                    reply = await self._read_stream(response, request, stream)
                    if reply is not None:
                        return reply
            tries = 0 if stream.received > received else tries + 1
        raise McpError("its answer was incomplete; what it did is unknown")

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        session = {"Mcp-Session-Id": self._session} if self._session else {}
        return {
            **self._network.headers,
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": self._agent,
            **session,
            **headers,
        }

    @property
    def _open(self) -> httpx2.AsyncClient:
        assert self._client is not None
        return self._client

    def _unreachable(self, error: Exception) -> McpUnreachable:
        return McpUnreachable(f"it cannot be reached ({self._error_text(error)})")

    def _broken(self, error: Exception) -> McpError:
        return McpError(
            f"the connection broke ({self._error_text(error)}); "
            "whether it carried out the call is unknown"
        )

    def _error_text(self, error: Exception) -> str:
        return self._network.mask(reason(str(error))) or type(error).__name__


def _body(message: RpcMessage) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _answers(message: Mapping[str, Any], request: RpcMessage, *, rejected: bool = False) -> bool:
    """Whether it is the reply to this request; one rejected unread may have no id."""
    id = message.get("id")
    if rejected:
        return "error" in message
    return type(id) is int and id == request["id"]


def _seconds(text: str | None) -> float | None:
    """`Retry-After` in seconds; dates are too rare to support."""
    return float(text) if text and text.isdecimal() and len(text) < 9 else None


async def _whole(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > MOST_OF_A_MESSAGE:
            raise McpError(f"its answer is larger than {MOST_OF_A_MESSAGE >> 20} MiB")
    return bytes(body)


async def _events(
    response: httpx2.Response, stream: _StreamProgress
) -> AsyncGenerator[bytes, None]:
    """The data of the events with messages.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    data: list[bytes] = []
    size = 0
    kind = b""
    async for line in _lines(response):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data and kind in (b"", b"message"):
                yield b"\n".join(data)
            data, size, kind = [], 0, b""
        elif name == b"data":
            if value:  # empty lines have no meaning in JSON
                data.append(value)
            size += len(value)
            if size > MOST_OF_A_MESSAGE:
                raise McpError(f"its answer is larger than {MOST_OF_A_MESSAGE >> 20} MiB")
        elif name == b"event":
            kind = value
        elif name == b"id" and value.isascii() and b"\0" not in value:
            stream.last = value.decode()
            stream.received += 1
        elif name == b"retry" and value.isdigit():
            stream.pause = int(value[:9]) / 1000


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Lines without their ends, limited one by one and in total."""
    held: list[bytes] = []
    total = size = 0
    async for piece in response.aiter_raw():
        total += len(piece)
        first, *lines = piece.split(b"\n")
        held.append(first)
        size += len(first)
        for line in lines:
            yield b"".join(held).removesuffix(b"\r")
            held, size = [line], len(line)
        if size > MOST_OF_A_MESSAGE or total > _MOST_OF_A_STREAM:
            raise McpError(f"its answer is larger than {MOST_OF_A_MESSAGE >> 20} MiB")
        await asyncio.sleep(0)  # serve others, however much it sends
