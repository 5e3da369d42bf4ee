"""One server over HTTP: requests, streams, refusals."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from jupyter_agent.errors import ToolError, tool_error

_SAME_VALUES = {"Cookie": "_xsrf=jupyter_agent", "X-XSRFToken": "jupyter_agent"}
"""A server without a token takes changes only from those that can set a header and a cookie to the
same value, which other websites cannot.
"""


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
    def is_of_attempt(self) -> bool:
        """Whether the server tried and failed, for example to save."""
        return self.reason == ToolError.reason

    @property
    def is_of_model(self) -> bool:
        """Whether the model or its service is the reason: of the errors with 400, those that are
        neither in the request nor in the notebook or its kernel."""
        return (
            self.status == 400
            and not self.reason.startswith("invalid")
            and not self.is_of_attempt
            and tool_error(self.reason, "", {}) is None
        )


UNKNOWN_NAME = "unknown_name"
"""Reason of Unreachable: the name of the server may become known, or it may be running here."""


class Unreachable(ServerRefused):
    """The server is not there, or does not have the assistant."""


class _SocketConnection(HTTPConnection):
    """To a server on a Unix socket."""

    def __init__(self, file: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._file = file

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._file)


@dataclass(frozen=True)
class Server:
    """A server with the assistant."""

    url: str
    """With its base path and a trailing slash; `http+unix://FILE/` for a Unix socket, quoted."""
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
        if kind == "text/html":
            raise _wants_login(self.url)
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

    def send(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        headers: Mapping[str, str],
        seconds: float | None = None,
    ) -> HTTPConnection:
        """A connection on which the request was sent. Raises OSError or HTTPException."""
        address = urlsplit(self.url)
        connection = self._connection(seconds)
        with ExitStack() as failing:
            failing.callback(connection.close)
            connection.request(
                method,
                f"{quote(address.path, safe='/%')}api/agent/{route}",
                body=None if body is None else json.dumps(body).encode(),
                headers={
                    "Content-Type": "application/json",
                    **_SAME_VALUES,
                    **({"Authorization": f"token {self.token}"} if self.token else {}),
                    **headers,
                },
            )
            failing.pop_all()
        return connection

    def _connection(self, seconds: float | None) -> HTTPConnection:
        address = urlsplit(self.url)
        if address.scheme == "http+unix":
            return _SocketConnection(unquote(address.netloc), seconds)
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        return kind(address.hostname or "localhost", address.port, timeout=seconds)

    def _open(
        self, method: str, route: str, body: Any, headers: Mapping[str, str], seconds: float | None
    ) -> HTTPResponse:
        with ExitStack() as failing:
            try:
                connection = self.send(
                    method, route, body, headers={"Connection": "close", **headers}, seconds=seconds
                )
                failing.callback(connection.close)
                response = connection.getresponse()
            except (OSError, HTTPException) as error:
                raise _unreachable(self.url, error) from None
            failing.pop_all()
        if 300 <= response.status < 400:
            response.close()
            raise _wants_login(self.url)
        if response.status >= 400:
            raise _refusal(response)
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


def _wants_login(url: str) -> Unreachable:
    return Unreachable(f"The Jupyter server at {url} wants a login.", 403)


def _unreachable(url: str, error: Exception | None = None) -> ServerRefused:
    """Unreachable only if the server is gone. One that is there but cannot be talked to may have
    the notebook open."""
    if isinstance(error, ssl.SSLError):
        return ServerRefused(
            f"The certificate of the Jupyter server at {url} cannot be verified ({error.reason}). "
            "Set SSL_CERT_FILE to the file with the certificate.",
            403,
            "denied",
        )
    if isinstance(error, TimeoutError):
        return ServerRefused(f"The Jupyter server at {url} does not answer. Try again, or stop it.")
    if isinstance(error, socket.gaierror):
        return Unreachable(
            f"The Jupyter server at {url} cannot be reached: this machine does not know that name. "
            "Start the server with the option `--ip 127.0.0.1`, or add the name to the hosts file.",
            reason=UNKNOWN_NAME,
        )
    return Unreachable(f"The connection to the Jupyter server at {url} was lost.")


def _refusal(response: HTTPResponse) -> ServerRefused:
    """The assistant's refusal; Unreachable if another part of Jupyter answered."""
    try:
        with response:
            answer = json.loads(response.read())
        message, reason = str(answer.pop("message")), answer.pop("reason")
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
        message, reason = "", None
    if not reason:
        text = message or f"The Jupyter server answered with HTTP {response.status}."
        return Unreachable(text, response.status)
    return ServerRefused(message, response.status, str(reason), answer)
