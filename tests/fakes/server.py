"""The Messages API on a real socket, answering from a script."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.fakes.rules import Refused, check_request
from tests.fakes.script import FakeReply, Scripted
from tests.fakes.service import FakeService, drop

Served = TypeVar("Served")

_PING = 0.02
"""Seconds between two pings."""

API_KEY = "sk-ant-test-0123456789"
"""The accepted key by default."""


class FakeAnthropic(FakeService):
    """Refuses what the real API refuses, in its words, else sends the next scripted reply.

    `async with FakeAnthropic([[says("Hi")]]) as api:` serves it at `api.url` in the running loop.
    """

    def __init__(
        self,
        replies: Iterable[FakeReply],
        *,
        api_key: str = API_KEY,
        max_chars: int | None = None,
        refuses: Callable[[dict[str, Any]], str | None] = lambda body: None,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(replies)
        self.api_key = api_key
        self.max_chars = max_chars
        """A longer history is refused as too long."""
        self.refuses = refuses
        """A model's message about a valid request that it refuses; None to accept it."""
        self._port = port
        self._tls = tls
        self._server: HTTPServer | None = None

    @property
    def url(self) -> str:
        """The `base_url` for clients."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def reply_to(self, body: dict[str, Any]) -> Scripted | None:
        """The reply to a valid request: the next of the script; None after the last one."""
        return self.script.next()

    @property
    def input_tokens(self) -> int:
        """Tokens of all valid requests, cached or not: a token for 4 characters of their JSON."""
        return sum(len(json.dumps(body, ensure_ascii=False)) // 4 for body in self.requests)

    async def __aenter__(self) -> Self:
        sockets = bind_sockets(self._port, "127.0.0.1")
        self._port = sockets[0].getsockname()[1]
        routes = [("/v1/messages", _Messages), ("/v1/models", _Models)]
        application = Application([(path, handler, {"api": self}) for path, handler in routes])
        self._server = HTTPServer(application, ssl_options=self._tls)
        self._server.add_sockets(sockets)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()


@contextmanager
def in_thread(api: AbstractAsyncContextManager[Served]) -> Iterator[Served]:
    """Serves in a thread, for programs without an event loop."""
    serving = threading.Event()
    entered: list[Served] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with api as served:
            entered.append(served)
            serving.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    serving.wait()
    try:
        yield entered[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


class _Handler(RequestHandler):
    def initialize(self, api: FakeAnthropic) -> None:
        self._api = api

    def _check_key(self) -> None:
        # Version 2 of the SDK sends the key as a bearer token, older ones as `x-api-key`.
        bearer = self.request.headers.get("authorization", "").removeprefix("Bearer ")
        key = self.request.headers.get("x-api-key") or bearer
        if not key:
            raise _Refusal(401, "authentication_error", "x-api-key header is required")
        if key != self._api.api_key:
            raise _Refusal(401, "authentication_error", "invalid x-api-key")
        if "anthropic-version" not in self.request.headers:
            message = "anthropic-version: header is required"
            raise _Refusal(400, "invalid_request_error", message)

    def _fail(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        request_id = f"req_{uuid4().hex}"
        self.set_status(status)
        self.set_header("request-id", request_id)
        for name, value in (headers or {}).items():
            self.set_header(name, value)
        error = {"type": kind, "message": message}
        self.finish({"type": "error", "error": error, "request_id": request_id})


class _Models(_Handler):
    def get(self) -> None:
        self._api.asked.set()
        try:
            self._check_key()
        except _Refusal as refusal:
            self._fail(refusal.status, refusal.kind, refusal.message)
            return
        names = ("claude-sonnet-5-5", "claude-haiku-5-5")
        made = "2026-01-01T00:00:00Z"
        data = [
            {"type": "model", "id": name, "display_name": name, "created_at": made}
            for name in names
        ]
        self.finish({"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]})


class _Messages(_Handler):
    async def post(self) -> None:
        self._api.asked.set()
        try:
            body = self._checked_body()
        except _Refusal as refusal:
            self._api.refusals.append(refusal.message)
            self._fail(refusal.status, refusal.kind, refusal.message)
            return
        reply = self._api.reply_to(body)
        if reply is None:
            self._fail(500, "api_error", "The script is over.")
        elif reply.status != 200:
            self._fail(reply.status, *reply.error, headers=reply.headers)
        else:
            await self._stream(reply)

    def on_connection_close(self) -> None:
        self._api.left.set()

    def _checked_body(self) -> dict[str, Any]:
        self._check_key()
        body: dict[str, Any]
        try:
            body = json.loads(self.request.body)
            check_request(body, max_chars=self._api.max_chars)
        except (ValueError, Refused) as error:
            raise _Refusal(400, "invalid_request_error", str(error)) from error
        if refused := self._api.refuses(body):
            raise _Refusal(400, "invalid_request_error", refused)
        if not body.get("stream"):
            message = "stream: this fake only streams; send true"
            raise _Refusal(400, "invalid_request_error", message)
        self._api.requests.append(body)
        self._api.headers.append(dict(self.request.headers))
        return body

    async def _stream(self, reply: Scripted) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("request-id", f"req_{uuid4().hex}")
        for name, value in reply.headers.items():
            self.set_header(name, value)
        try:
            if reply.body is not None:
                await self._send(reply.body, reply.piece)
                return
            for position, event in enumerate(reply.events()):
                if position == reply.stop_after and not await self._continues(reply):
                    return
                if reply.pause_s:
                    await asyncio.sleep(reply.pause_s)
                await self._send(reply.frame(event), reply.piece)
        except StreamClosedError:
            pass  # the client disconnected: `left` is set

    async def _continues(self, reply: Scripted) -> bool:
        match reply.then:
            case "wait":
                assert reply.gate is not None
                await reply.gate.wait()
                return True
            case "ping":
                while True:
                    await self._send(reply.frame({"type": "ping"}), reply.piece)
                    await asyncio.sleep(_PING)
            case "error":
                kind, message = reply.error
                error = {"type": "error", "error": {"type": kind, "message": message}}
                await self._send(reply.frame(error), reply.piece)
            case "cut" | "reset":
                await self.flush()
                drop(self, reset=reply.then == "reset")
        return False

    async def _send(self, data: bytes, piece: int | None) -> None:
        size = piece or len(data) or 1
        for start in range(0, len(data), size):
            self.write(data[start : start + size])
            await self.flush()


class _Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
