"""Shared base of the fake model services."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.fakes.script import FakeReply, Script, Scripted


class FakeService:
    """A script of replies, and the requests received."""

    def __init__(self, replies: Iterable[FakeReply]) -> None:
        self.script = Script(replies)
        self.requests: list[dict[str, Any]] = []
        """The bodies of all valid requests."""
        self.headers: list[Mapping[str, str]] = []
        """Their headers."""
        self.refusals: list[str] = []
        """Error messages for the other requests."""
        self.asked = asyncio.Event()
        """Set when a request has arrived."""
        self.left = asyncio.Event()
        """Set when a client disconnected before its reply was complete."""

    def accept(self, body: dict[str, Any], headers: Mapping[str, str]) -> Scripted:
        """Record a valid request and return its reply."""
        self.requests.append(body)
        self.headers.append(dict(headers))
        self.asked.set()
        reply = self.script.next()
        assert reply is not None, "The script is over."
        return reply


def reset_at_close(connection: socket.socket) -> None:
    """Closing drops unsent data and sends RST then."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drop(handler: RequestHandler, *, reset: bool) -> None:
    """Closes the connection in the middle of a response."""
    connection = handler.detach()
    if reset:
        reset_at_close(connection.socket)
    connection.close()


@asynccontextmanager
async def http_service(*routes: tuple[str, type[RequestHandler]]) -> AsyncIterator[str]:
    """Serves these routes (a pattern of the whole path, and its handler) in the running loop;
    yields the address.
    """
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application(list(routes)))
    server.add_sockets(sockets)
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.stop()
        await server.close_all_connections()
