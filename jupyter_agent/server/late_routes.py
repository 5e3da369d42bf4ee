"""Routes of an extension that loads after the server has started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.routing import Router
from tornado.web import Application


class LateRoutes(Router):
    """Holds requests until `ready` has returned, which adds the routes to the application; after
    that it matches nothing, so the application tries its own routes."""

    SUPPORTED_METHODS = ()
    """For Jupyter's check that handlers authenticate: this one answers nothing."""

    def __init__(self, app: Application, ready: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._ready = ready
        self._open = False

    def find_handler(self, request: HTTPServerRequest, **_: Any) -> HTTPMessageDelegate | None:
        return None if self._open else _HeldRequest(self, request)

    async def handler_for(self, request: HTTPServerRequest) -> HTTPMessageDelegate:
        """The handler of a held request, once the routes are there."""
        if not self._open:
            await self._ready()
            self._open = True
        return self._app.find_handler(request)


class _HeldRequest(HTTPMessageDelegate):
    """A request whose headers have arrived; nothing more is read from its connection until then."""

    def __init__(self, routes: LateRoutes, request: HTTPServerRequest) -> None:
        self._routes = routes
        self._request = request
        self._handler: HTTPMessageDelegate | None = None

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        handler = self._handler = await self._routes.handler_for(self._request)
        if (received := handler.headers_received(start_line, headers)) is not None:
            await received

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        assert self._handler is not None
        return self._handler.data_received(chunk)

    def finish(self) -> None:
        assert self._handler is not None
        self._handler.finish()

    def on_connection_close(self) -> None:
        if self._handler is not None:
            self._handler.on_connection_close()
