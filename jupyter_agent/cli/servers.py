"""Jupyter servers that commands ask: one that runs and serves a notebook, or one of their own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from jupyter_server.serverapp import ServerApp, list_running_servers
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

ALONE = "--YDocExtension.disable_rtc=True"
"""Where jupyter-collaboration is installed: it would leave its database in the current folder."""


class Refused(Exception):
    """A server answered that it does not do that; the text says why."""


def ask_running(
    notebook: Path, route: str, body: Any = None, *, seconds: float | None
) -> dict[str, Any] | None:
    """What a running server that serves the notebook answers about it; None if none does.

    It is a POST with a body. Raises Refused.
    """
    for server in _running():
        root = _root(server)
        if not notebook.is_relative_to(root):
            continue
        path = quote(notebook.relative_to(root).as_posix())
        answer = _ask(server, f"notebooks/{path}/{route}", body, seconds)
        if answer is not None:
            return answer
    return None


def ask_any(folder: Path, route: str, *, seconds: float) -> dict[str, Any] | None:
    """What a running server answers, of several preferably one that serves the folder; None if none
    does. Raises Refused.
    """
    servers = sorted(_running(), key=lambda server: not folder.is_relative_to(_root(server)))
    answers = (_ask(server, route, None, seconds) for server in servers)
    return next((answer for answer in answers if answer is not None), None)


def _running() -> list[dict[str, Any]]:
    """Those that listen on a port."""
    return [server for server in list_running_servers() if not server.get("sock")]


def _root(server: Mapping[str, Any]) -> Path:
    return Path(server.get("root_dir") or server.get("notebook_dir") or "/").resolve()


def _ask(
    server: Mapping[str, Any], route: str, body: Any, seconds: float | None
) -> dict[str, Any] | None:
    """None if the assistant does not answer there."""
    request = urllib.request.Request(
        f"{server['url']}api/agent/{route}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"token {server['token']}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            answer: dict[str, Any] = json.loads(response.read())
            return answer
    except HTTPError as error:
        if message := _refusal(error.read()):
            raise Refused(message) from None
    except (OSError, ValueError):  # gone, without the assistant, or behind a password
        pass
    return None


def _refusal(body: bytes) -> str:
    """Why the assistant refuses; empty where another part of Jupyter answered."""
    try:
        answer = json.loads(body)
        return str(answer["message"]) if answer["reason"] else ""
    except (ValueError, LookupError, TypeError):
        return ""


@contextlib.contextmanager
def own_server(folder: Path, options: Sequence[str]) -> Iterator[ServerApp]:
    """A quiet server of that folder, not yet started."""
    app = ServerApp()
    app.initialize(
        [
            f"--ServerApp.root_dir={folder}",
            f"--ServerApp.port={_free_port()}",  # of 0, Jupyter Server 2.14 tells no address
            "--ServerApp.open_browser=False",
            "--ServerApp.answer_yes=True",  # Ctrl-C ends it without a question
            "--Application.log_level=ERROR",  # lines of each step are for servers
            ALONE,
            *(["--allow-root"] if is_root() else []),
            *options,
        ]
    )
    app.log.disabled = True  # what the server says of its address is no part of the command
    yield app


async def request(
    app: ServerApp, method: str, route: str, on_chunk: Any = None, body: Any = None
) -> bytes:
    """One request to our own server, as any script would make it; `on_chunk` is called with pieces
    of the answer as they come. Raises Refused."""
    pieces: list[bytes] = []

    def hear(chunk: bytes) -> None:
        pieces.append(chunk)
        if on_chunk is not None:
            on_chunk(chunk)

    response = await AsyncHTTPClient().fetch(
        HTTPRequest(
            f"{app.connection_url}api/agent/{route}",
            method=method,
            headers={"Authorization": f"token {app.identity_provider.token}"},
            body=None if body is None else json.dumps(body),
            streaming_callback=hear,
            request_timeout=0,
        ),
        raise_error=False,
    )
    if response.error is not None:
        raise Refused(_refusal(b"".join(pieces)) or str(response.error))
    return b"".join(pieces)


def is_root() -> bool:
    """Jupyter refuses to start as root unless told so; these servers end with their command."""
    return sys.platform != "win32" and os.geteuid() == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
