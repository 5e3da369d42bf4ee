"""Uses the connections to services again, so that not each step of a turn needs a TLS handshake.

Imports httpx, so it is imported with the SDKs, off the event loop.
"""

from __future__ import annotations

import time
from typing import Any

import httpx2

SOON_S = 2.0
"""How soon a request meets the end of its connection; a later failure is the service's."""


class _Repeating(httpx2.AsyncClient):
    """Repeats a request at once if the connection that it used had ended since its last response.

    A service may close a connection at any time, and the request that meets this says nothing about
    the service. Any other failure is raised.
    """

    async def send(self, request: httpx2.Request, **arguments: Any) -> httpx2.Response:
        while True:
            request.extensions["trace"] = attempt = _Attempt()
            try:
                return await super().send(request, **arguments)
            except (httpx2.NetworkError, httpx2.RemoteProtocolError):
                # Each repetition takes another connection, in the end a new one.
                if not attempt.met_the_end:
                    raise


class _Attempt:
    """Notices what a request did with its connection: httpx calls it with the name of each step.

    Source: https://www.encode.io/httpcore/extensions/#trace.
    """

    def __init__(self) -> None:
        self._is_connection_new = False
        self._sent_at = 0.0
        self._is_answered = False

    async def __call__(self, step: str, _details: object) -> None:
        if step.endswith(".connect_tcp.started"):
            self._is_connection_new = True
        elif step.endswith(".send_request_headers.started"):
            self._sent_at = time.monotonic()
        elif step.endswith(".receive_response_headers.complete"):
            self._is_answered = True

    @property
    def met_the_end(self) -> bool:
        """Whether a failed request met the end of a connection that had served another one."""
        is_soon = time.monotonic() < self._sent_at + SOON_S
        return is_soon and not self._is_connection_new and not self._is_answered


def repeating(client: type[httpx2.AsyncClient]) -> type[httpx2.AsyncClient]:
    """The class of clients, with requests that are repeated on another connection."""
    return type(client.__name__, (_Repeating, client), {})
