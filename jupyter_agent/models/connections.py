"""Uses the connections to services again, so that not each step of a turn needs a TLS handshake.

Imports httpx, so it is imported with the SDKs, off the event loop.
"""

from __future__ import annotations

from typing import Any

import httpx2


class _Repeating(httpx2.AsyncClient):
    """Repeats a request at once if the connection that it used had ended since its last response.

    A service may close a connection at any time, and the request that meets this says nothing about
    the service. Any other failure is raised.
    """

    async def send(self, request: httpx2.Request, **arguments: Any) -> httpx2.Response:
        while True:
            request.extensions["trace"] = connection = _Connection()
            try:
                return await super().send(request, **arguments)
            except (httpx2.NetworkError, httpx2.ProtocolError):
                # Each repetition takes another connection, in the end a new one.
                if not connection.is_used_again:
                    raise


class _Connection:
    """Notices whether a request opened its connection; httpx calls it with the name of each step.

    Source: https://www.encode.io/httpcore/extensions/#trace.
    """

    def __init__(self) -> None:
        self.is_used_again = False
        self._is_new = False

    async def __call__(self, step: str, _details: object) -> None:
        if step.endswith(".connect_tcp.started"):
            self._is_new = True
        elif step.endswith(".send_request_headers.started"):
            self.is_used_again = not self._is_new


def repeating(client: type[httpx2.AsyncClient]) -> type[httpx2.AsyncClient]:
    """The class of clients, with requests that are repeated on another connection."""
    return type(client.__name__, (_Repeating, client), {})
