"""One server over HTTP: requests, streams, refusals."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from jupyter_agent.errors import tool_error

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the proxies of the environment: these servers are on this machine."""


class ServerRefused(Exception):
    """A server refused a request; the message says why."""

    def __init__(
        self,
        message: str,
        status: int | None = None,
        reason: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """None if no server answered."""
        self.reason = reason
        self.facts = facts or {}
        """More fields of the answer, such as `current`, the cell as it is now."""

    @property
    def is_of_model(self) -> bool:
        """Whether the model or its service is the reason: of the errors with 400, those that are
        neither in the request nor in the notebook or its kernel."""
        return (
            self.status == 400
            and not self.reason.startswith("invalid")
            and tool_error(self.reason, "", {}) is None
        )


class Unreachable(ServerRefused):
    """The server is not there, or does not have the assistant."""


@dataclass(frozen=True)
class Server:
    """A server with the assistant."""

    url: str
    """With its base path and a trailing slash."""
    token: str = field(repr=False)
    root: Path
    """The real path of the folder that paths are relative to."""
    own: bool = False
    """Whether this command started it."""

    def path(self, notebook: Path) -> str:
        """The notebook's path on this server."""
        return notebook.relative_to(self.root).as_posix()

    def route(self, notebook: Path, *more: str) -> str:
        """A route of a notebook, with the path quoted."""
        return "/".join(["notebooks", quote(self.path(notebook)), *(quote(m, "") for m in more)])

    def ask(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """The route's answer: JSON, other text, or None. Raises ServerRefused."""
        with self._open(method, route, body, headers or {}, seconds) as response:
            try:
                answer = response.read()
            except (OSError, HTTPException) as error:
                raise _unreachable(self.url, error) from None
            kind = response.headers.get_content_type()
        if not answer:
            return None
        if kind == "text/html":  # redirected to the login page
            raise Unreachable(f"The Jupyter server at {self.url} wants a login.", 403)
        return json.loads(answer) if kind == "application/json" else answer.decode()

    def stream(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The chunks of an event stream as they come, with their numbers.

        Raises ServerRefused, also if the stream breaks off before its end, or is silent for
        `seconds`.
        """
        with self._open(method, route, body, headers or {}, seconds) as response:
            seq = 0
            while line := _line(response, self.url):
                name, _, value = line.decode().rstrip("\r\n").partition(": ")
                if name == "id":
                    seq = int(value)
                elif name == "data" and value == "[DONE]":
                    return
                elif name == "data":
                    yield seq, json.loads(value)
            if response.status != 204:
                raise _unreachable(self.url)

    def _open(
        self, method: str, route: str, body: Any, headers: Mapping[str, str], seconds: float | None
    ) -> HTTPResponse:
        request = urllib.request.Request(
            f"{self.url}api/agent/{route}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", **headers},
        )
        try:
            response: HTTPResponse = _OPENER.open(request, timeout=seconds)
        except HTTPError as error:
            raise _refusal(error) from None
        except (OSError, HTTPException) as error:
            raise _unreachable(self.url, error) from None
        return response


def _line(response: HTTPResponse, url: str) -> bytes:
    try:
        line = response.readline()
    except TimeoutError:  # a dead connection
        raise _unreachable(url) from None
    except (OSError, HTTPException) as error:
        raise _unreachable(url, error) from None
    if line and not line.endswith(b"\n"):  # cut off within the line
        raise _unreachable(url)
    return line


def _unreachable(url: str, error: Exception | None = None) -> ServerRefused:
    """Unreachable only if the server is gone. One that is there but cannot be talked to may have
    the notebook open."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLError):
        return ServerRefused(
            f"The certificate of the Jupyter server at {url} cannot be verified ({cause.reason}). "
            "Set SSL_CERT_FILE to the file with the certificate.",
            403,
            "denied",
        )
    if isinstance(cause, TimeoutError):
        return ServerRefused(f"The Jupyter server at {url} does not answer. Try again, or stop it.")
    return Unreachable(f"The connection to the Jupyter server at {url} was lost.")


def _refusal(error: HTTPError) -> ServerRefused:
    """The assistant's refusal; Unreachable if another part of Jupyter answered."""
    try:
        with error:
            answer = json.loads(error.read())
        message, reason = str(answer.pop("message")), answer.pop("reason")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        message, reason = "", None
    if not reason:
        text = message or f"The Jupyter server answered with HTTP {error.code}."
        return Unreachable(text, error.code)
    return ServerRefused(message, error.code, str(reason), answer)
