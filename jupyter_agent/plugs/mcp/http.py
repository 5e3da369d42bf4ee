"""A server behind a URL: the SDK's transport, over an HTTP client that keeps our bounds.

The SDK's own tasks end with the first error that a request raises, and it reports little of it. So
nothing is raised here: what fails is answered to the SDK with an error reply, and the reason is
kept for `settle`.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from jupyter_agent.errors import ModelError
from jupyter_agent.models.bounds import bound
from jupyter_agent.models.network import Network
from jupyter_agent.plugs.mcp.messages import (
    MOST_OF_A_MESSAGE,
    NO_REPLY,
    NO_VERSION,
    TOO_LARGE,
    McpError,
    McpUnreachable,
    ServerMessage,
    parse_message,
    reason,
)
from jupyter_agent.plugs.mcp.way import Streams, Way

_INCOMPLETE = "its answer was incomplete; what it did is unknown"
_JSON = "application/json"
_EVENTS = "text/event-stream"
_SESSION = "mcp-session-id"
_MOST_OF_A_SESSION = 1024
_TRIES = 3
"""Attempts for a request that certainly did not arrive, or that the server refused for now."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_RESUMES = 50
"""How often the rest of one stream is requested."""
_PAUSES_MS = (100, 10_000)
"""The shortest and longest pause before that, whatever the server wishes."""
_FOR_NOW = (429, 503)
_NOTE_S = 2.0
"""Seconds for sending a message without an answer."""
_END_S = 1.0
"""Seconds for telling a server that its session ends."""


@dataclass
class _Stream:
    """What is needed to request the rest of a stream."""

    request: int
    """The id of the request that it answers."""
    resumes: int = 0
    last: str = ""
    """The id of its last event."""


class HttpWay(Way, httpx2.AsyncBaseTransport):
    """The way over HTTP; for the SDK's HTTP client it is the transport."""

    def __init__(self, url: str, network: Network, *, agent: str) -> None:
        """`agent` is our user agent."""
        super().__init__()
        self._url = url
        self._network = network
        self._agent = agent
        self._client: httpx2.AsyncClient | None = None
        self._faults: dict[int, McpError] = {}
        """By the id of a request, why it has no reply of the server."""
        self._streams: dict[int, _Stream] = {}
        """Streams that may be resumed, by the id of their request."""
        self._initialize: httpx2.Request | None = None
        self._session = ""
        """The session that every request belongs to, whatever the SDK believes."""
        self._renewing = asyncio.Lock()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Makes the client; sends nothing yet. Raises McpError for a configuration that cannot be
        used."""
        headers = {
            **self._network.headers,
            "Accept-Encoding": "identity",
            "User-Agent": self._agent,
        }
        try:
            self._client = await asyncio.to_thread(self._network.client)
            client = httpx2.AsyncClient(
                transport=self, headers=headers, timeout=self._client.timeout
            )
            client.build_request("POST", self._url)
        except ModelError as error:
            raise McpError(error.message) from None
        except (httpx2.InvalidURL, ValueError) as error:
            raise McpError(self._error_text(error)) from None
        async with (
            self._client,
            client,
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=None
            ) as streams,
        ):
            yield streams

    def settle(self, id: int) -> McpError | None:
        self._streams.pop(id, None)
        return self._faults.pop(id, None)

    # -- requests of the SDK

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response for the SDK, which needs no more checks."""
        if request.method == "DELETE":
            return await self._tell(request, _END_S)
        if request.method == "GET":
            return await self._resume(request)
        message = json.loads(request.content)
        if "method" not in message:
            self._count_answer()
        if "id" not in message or "method" not in message:
            return await self._tell(request, _NOTE_S)
        try:
            return await self._ask(request, message["id"], message["method"])
        except McpError as error:
            self._faults[message["id"]] = error
            return httpx2.Response(200, json=_error_reply(message["id"]))

    async def _tell(self, request: httpx2.Request, seconds: float) -> httpx2.Response:
        """Sends a request whose response does not matter."""
        with suppress(httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError):
            async with asyncio.timeout(seconds):
                await (await self._send(request)).aclose()
        return httpx2.Response(200 if request.method == "DELETE" else 202)

    async def _ask(self, request: httpx2.Request, id: int, method: str) -> httpx2.Response:
        if method == "initialize":
            self._initialize = request
        response = await self._send_surely(request)
        if response.status_code == 404 and self._session and _SESSION in request.headers:
            await response.aclose()
            await self._renew(request)
            response = await self._send_surely(request)
        try:
            kind = self._kind_of(response)
            if method == "initialize" and response.is_success:
                self._session = _session_of(response)
            headers = {_SESSION: self._session} if self._session else {}
            if kind == _EVENTS and response.is_success:
                return self._pass_on(response, _Stream(id), headers)
            message = await self._read(response, kind, id)
        except BaseException:
            await response.aclose()
            raise
        return httpx2.Response(200, json=message, headers=headers)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        assert self._client is not None
        if request.headers.pop(_SESSION, None) is not None and self._session:
            request.headers[_SESSION] = self._session
        return await self._client.send(request, stream=True)

    async def _send_surely(self, request: httpx2.Request) -> httpx2.Response:
        """Sends, and repeats a request that was certainly not carried out. Raises McpError."""
        pause = _FIRST_PAUSE_S
        for attempt in range(1, _TRIES + 1):
            wait = None
            try:
                response = await self._send(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if attempt == _TRIES:
                    why = self._error_text(error)
                    raise McpUnreachable(f"it cannot be reached ({why})") from None
            except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                raise self._broken(error) from None
            else:
                wait = _seconds(response.headers.get("retry-after"))
                again = attempt < _TRIES and (wait or 0) <= _LONGEST_PAUSE_S
                if response.status_code not in _FOR_NOW or not again:
                    return response
                await response.aclose()
            await asyncio.sleep(pause if wait is None else wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _renew(self, rejected: httpx2.Request) -> None:
        """Begins another session in place of the one that the server no longer knows. The SDK
        knows only the first: it cannot begin another one in the same streams. Raises McpError.
        """
        async with self._renewing:
            if rejected.headers.get(_SESSION) != self._session or self._initialize is None:
                return  # another request has begun it
            response = await self._send_surely(self._initialize)
            try:
                reply = await self._reply(response, json.loads(self._initialize.content)["id"])
                if "error" in reply:
                    raise McpError(reply["error"]["message"])
                if reply["result"].get("protocolVersion") != rejected.headers.get(
                    "mcp-protocol-version"
                ):
                    raise McpError(NO_VERSION)
                self._session = _session_of(response)
            finally:
                await response.aclose()
            headers = rejected.headers.copy()
            del headers["content-length"]
            begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            note = httpx2.Request(
                "POST", self._url, headers=headers, json=begun, extensions=rejected.extensions
            )
            await self._tell(note, _NOTE_S)

    # -- responses of the server

    def _kind_of(self, response: httpx2.Response) -> str:
        """The type of a response. Raises McpError for one that is not read."""
        status = response.status_code
        if status in (401, 403):
            raise McpUnreachable(
                f"it rejected our credentials (HTTP status {status}): see its `headers` in "
                "`mcp_servers`"
            )
        if response.is_redirect:
            raise McpError("it redirects, which is not followed: use the new address as `url`")
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            raise McpError("unexpected Content-Encoding")
        return str(response.headers.get("content-type", "").partition(";")[0].strip().lower())

    async def _reply(self, response: httpx2.Response, id: int) -> ServerMessage:
        """The reply in a response of either type. Raises McpError."""
        kind = self._kind_of(response)
        if kind == _EVENTS and response.is_success:
            async with aclosing(self._events(response, _Stream(id))) as events:
                async for _, message in events:
                    if message is not None and "method" not in message:
                        return message
            raise McpError(_INCOMPLETE)
        return await self._read(response, kind, id)

    async def _read(self, response: httpx2.Response, kind: str, id: int) -> ServerMessage:
        """The reply in a JSON response. Raises McpError."""
        if kind == _JSON:
            message = await parse_message(await self._whole(response))
            if response.is_success:
                if _answers(message, id):
                    return message
            elif message.get("error", {}).get("message", NO_REPLY) != NO_REPLY:
                return {**message, "id": id}  # one that was rejected unread may lack it
        if response.is_success:
            what = "a web page" if kind == "text/html" else "something else"
            raise McpError(f"{what} came instead of an MCP answer: is `url` right?")
        raise McpError(f"it answered with HTTP status {response.status_code}")

    async def _whole(self, response: httpx2.Response) -> bytes:
        await bound(response, most=MOST_OF_A_MESSAGE)
        try:
            return await response.aread()
        except ModelError:
            raise McpError(f"its answer is {TOO_LARGE}") from None
        except httpx2.HTTPError as error:
            raise self._broken(error) from None

    # -- streams

    async def _resume(self, request: httpx2.Request) -> httpx2.Response:
        """The rest of a stream that ended early. Streams of the server itself are not opened: they
        would be held open for as long as Jupyter runs.
        """
        last = request.headers.get("last-event-id")
        stream = next((each for each in self._streams.values() if each.last == last), None)
        if stream is None or stream.resumes >= _RESUMES:
            return httpx2.Response(405)
        stream.resumes += 1
        response = await self._send(request)
        with suppress(McpError):
            if self._kind_of(response) == _EVENTS and response.is_success:
                return self._pass_on(response, stream, {})
        await response.aclose()
        return httpx2.Response(405)

    def _pass_on(
        self, response: httpx2.Response, stream: _Stream, headers: Mapping[str, str]
    ) -> httpx2.Response:
        body = _Body(response, self._pieces(response, stream))
        return httpx2.Response(200, headers={**headers, "content-type": _EVENTS}, stream=body)

    async def _pieces(
        self, response: httpx2.Response, stream: _Stream
    ) -> AsyncGenerator[bytes, None]:
        """The stream for the SDK. It ends with a reply, unless the rest can be requested."""
        fault, resumes = McpError(_INCOMPLETE), True
        try:
            async with aclosing(self._events(response, stream)) as events:
                async for retry, message in events:
                    if message is not None and "method" not in message:
                        self._faults.pop(stream.request, None)
                        yield _event(stream.last, retry, message)
                        return
                    yield _event(stream.last, retry, message)
        except McpError as error:
            fault, resumes = error, False
        except httpx2.HTTPError as error:
            fault = fault if stream.last else self._broken(error)
        self._faults[stream.request] = fault
        if resumes and stream.last:
            self._streams[stream.request] = stream
        else:
            yield _event("", None, _error_reply(stream.request))

    async def _events(
        self, response: httpx2.Response, stream: _Stream
    ) -> AsyncGenerator[tuple[int | None, ServerMessage | None], None]:
        """The pause that an event asks for, and its message, if it concerns us. Raises McpError,
        HTTPError if the connection breaks.
        """
        await bound(response)
        response.encoding = "utf-8"
        try:
            async for event in httpx2.EventSource(response, max_event_size=MOST_OF_A_MESSAGE):
                if event.id.isascii():
                    stream.last = event.id
                message = None
                if event.event == "message" and event.data.strip():
                    message = await parse_message(event.data.encode())
                    ours = "method" in message or _answers(message, stream.request)
                    message = message if ours and self._admits(message) else None
                yield event.retry, message
        except (ModelError, httpx2.SSEError):
            raise McpError(f"its answer is {TOO_LARGE}") from None

    # -- errors

    def _broken(self, error: Exception) -> McpError:
        return McpError(
            f"the connection broke ({self._error_text(error)}); "
            "whether it carried out the call is unknown"
        )

    def _error_text(self, error: Exception) -> str:
        return self._network.mask(reason(str(error))) or type(error).__name__


class _Body(httpx2.AsyncByteStream):
    """The body of a response for the SDK, made from that of a server."""

    def __init__(self, response: httpx2.Response, pieces: AsyncGenerator[bytes, None]) -> None:
        self._response = response
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._response.aclose()


def _answers(message: ServerMessage, id: int) -> bool:
    """Whether it is the reply to the request with this id."""
    given = message.get("id")
    return "method" not in message and type(given) is int and given == id


def _error_reply(id: int) -> ServerMessage:
    """The reply that ends a request for the SDK; `settle` returns the reason."""
    error = {"code": INTERNAL_ERROR, "message": "no reply"}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def _event(id: str, retry: int | None, message: ServerMessage | None) -> bytes:
    """An event for the SDK; without a message only its id counts."""
    lines = [f"id: {id}"] if id else []
    if retry is not None:
        lines.append(f"retry: {min(max(retry, _PAUSES_MS[0]), _PAUSES_MS[1])}")
    data = "" if message is None else json.dumps(message, ensure_ascii=False)
    return "\n".join([*lines, f"data: {data}", "", ""]).encode()


def _session_of(response: httpx2.Response) -> str:
    session = str(response.headers.get(_SESSION, ""))
    if len(session) > _MOST_OF_A_SESSION or not session.isascii():
        raise McpError("it sent an invalid session id")
    return session


def _seconds(text: str | None) -> float | None:
    """`Retry-After` in seconds; dates are too rare to support."""
    return float(text) if text and text.isdecimal() and len(text) < 9 else None
