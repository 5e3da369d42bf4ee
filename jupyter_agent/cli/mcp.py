"""`jupyter agent mcp`: a bridge for agents that start a program. Passes MCP messages between its
standard streams and the running Jupyter server.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode

from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import open_input
from jupyter_agent.client.server import Server, ServerRefused
from jupyter_agent.client.servers import find
from jupyter_agent.mcp_server.messages import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    VERSION_KEY,
    error_reply,
    header_value,
)

_SESSION = "Mcp-Session-Id"
_MOMENT_S = 1.0
"""Clients that end their input wait two seconds before they send a signal."""
_MODES = ("read", "ask", "edit", "auto")
EXAMPLES = """\
  jupyter agent mcp
  jupyter agent mcp sales.ipynb --mode edit
  claude mcp add jupyter -- jupyter agent mcp
"""
_SHARES = ("all", "no-outputs", "code-only")


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "mcp",
        help="let other agents work on live notebooks: an MCP server on standard input and output",
        description="Finds the running Jupyter server that serves PATH and passes the messages of "
        "the Model Context Protocol on to it. For the configuration of agents that start a "
        "program.",
        examples=EXAMPLES,
    )
    add_address(parser, nowhere="the current folder")
    parser.set_defaults(command=run)


def add_address(parser: argparse.ArgumentParser, nowhere: str) -> None:
    """Adds the arguments for the server, and for what the agent may do there."""
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        metavar="PATH",
        help=f"a folder, or the notebook for calls without one (default: {nowhere})",
    )
    parser.add_argument("--mode", choices=_MODES, help="what it may do (default: ask)")
    parser.add_argument(
        "--allow", metavar="TOOLS", help="tools to run without asking: run_cells,..."
    )
    parser.add_argument("--share", choices=_SHARES, help="what its model may see (default: all)")


def address_of(given: argparse.Namespace) -> dict[str, str]:
    """What the agent may do, as the query of the server's address."""
    address = {"mode": given.mode, "allow": given.allow, "share": given.share}
    return {name: value for name, value in address.items() if value}


def run(given: argparse.Namespace) -> int:
    """Passes messages on until standard input ends."""
    path, messages = (given.path or Path()).resolve(), open_input().buffer
    bridge = Bridge(path, address_of(given), sys.stdout.buffer)
    for line in messages:
        if line.strip():
            bridge.take(line)
    bridge.close()
    return 0


class Bridge:
    """Passes messages on, each in a thread, and answers as they arrive."""

    def __init__(self, path: Path, address: Mapping[str, str], out: BinaryIO) -> None:
        """`path` has to be served by the server; `address` is the query of its URL."""
        self._path = path
        # New for each program, so that two with the same name do not share a conversation.
        self._address = {**address, "client": secrets.token_hex(8)}
        self._out = out
        self._writing = threading.Lock()
        self._beginning = threading.Lock()
        self._server: Server | None = None
        self._initialize: Mapping[str, Any] | None = None
        """The client's `initialize` message."""
        self._session: dict[str, str] = {}
        self._open: dict[str, HTTPConnection] = {}
        """By the request's id, as JSON."""
        self._given_up: set[str] = set()
        self._threads: list[threading.Thread] = []

    def take(self, line: bytes) -> None:
        """Handles one message of the client."""
        try:
            message = json.loads(line)
        except ValueError:
            return self._write(error_reply(None, PARSE_ERROR, "That is not valid JSON."))
        if not isinstance(message, dict):
            return self._write(error_reply(None, PARSE_ERROR, "Send one message per line."))
        if message.get("method") == "initialize":  # the next message may need its session already
            return self._pass_on(message)
        thread = threading.Thread(target=self._pass_on, args=(message,), daemon=True)
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

    def close(self) -> None:
        """Answers what takes no longer than a moment, for messages that come through a pipe, and
        cancels everything else that the client still waits for: it has gone.
        """
        until = time.monotonic() + _MOMENT_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        for id in list(self._open):
            self._give_up(id)

    def _pass_on(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == "notifications/cancelled":
            params = message.get("params")
            id = json.dumps(params.get("requestId") if isinstance(params, dict) else None)
            if not self._session:  # since 2026-07-28 an HTTP client closes the connection instead
                return self._give_up(id)
            self._given_up.add(id)
        try:
            self._exchange(message)
        except ServerRefused as error:
            self._fail(message, str(error))
        except (OSError, HTTPException, ValueError) as error:
            if json.dumps(message.get("id")) not in self._given_up:
                self._fail(message, f"The connection to the Jupyter server was lost ({error}).")

    def _give_up(self, id: str) -> None:
        self._given_up.add(id)
        if (connection := self._open.get(id)) is not None:
            with suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _exchange(self, message: Mapping[str, Any]) -> None:
        """Sends a message and writes the answer."""
        with self._request(message) as response:
            if response is None:
                return
            is_over = response.status == 404 and bool(self._session)
            if not is_over or message.get("method") == "initialize":
                return self._relay(message, response)
        self._reinitialize()  # the server was restarted and lost the session
        with self._request(message) as response:
            if response is not None:
                self._relay(message, response)

    def _reinitialize(self) -> None:
        with self._beginning:
            if self._initialize is not None:
                with self._request(self._initialize) as response:
                    if response is not None:
                        self._note_session(self._initialize, response, json.loads(response.read()))

    @contextmanager
    def _request(self, message: Mapping[str, Any]) -> Iterator[HTTPResponse | None]:
        """The server's response, or None after an error reply because there is no server."""
        connection = self._connect(message)
        if connection is None:
            folder = self._path if self._path.is_dir() else self._path.parent
            why = "No Jupyter server with the assistant serves this folder"
            self._fail(message, f"{why}: start `jupyter lab` in {folder}.")
            yield None
            return
        id = json.dumps(message["id"]) if "method" in message and "id" in message else ""
        if id:
            self._open[id] = connection
        try:
            yield connection.getresponse()
        finally:
            self._open.pop(id, None)
            connection.close()

    def _connect(self, message: Mapping[str, Any]) -> HTTPConnection | None:
        """A connection on which the message was sent."""
        server = self._server or find(self._path)
        if server is not None:
            with suppress(ConnectionRefusedError, FileNotFoundError):
                connection = self._send(server, message)
                self._server = server
                return connection
            server = find(self._path)  # it stopped; another may be running by now
        self._server = server
        return None if server is None else self._send(server, message)

    def _send(self, server: Server, message: Mapping[str, Any]) -> HTTPConnection:
        query = dict(self._address)
        if self._path.suffix == ".ipynb":
            query["notebook"] = server.path(self._path)
        return server.send(
            "POST",
            f"mcp?{urlencode(query)}",
            message,
            headers={
                "Accept": "application/json, text/event-stream",
                **self._headers(message),
            },
        )

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        params = message.get("params")
        params = params if isinstance(params, Mapping) else {}
        meta = params.get("_meta")
        version = meta.get(VERSION_KEY) if isinstance(meta, Mapping) else None
        if not isinstance(version, str):
            return {} if message.get("method") == "initialize" else dict(self._session)
        headers = {"MCP-Protocol-Version": version, "Mcp-Method": str(message.get("method"))}
        name = params.get("uri" if message.get("method") == "resources/read" else "name")
        return {**headers, **({"Mcp-Name": header_value(name)} if isinstance(name, str) else {})}

    def _relay(self, message: Mapping[str, Any], response: HTTPResponse) -> None:
        """Writes the server's answer to a message as it arrives."""
        if response.headers.get_content_type() == "text/event-stream":
            answered = False
            for line in response:
                if line.startswith(b"data:"):
                    sent = json.loads(line.removeprefix(b"data:"))
                    answered |= "method" not in sent
                    self._write(sent)
            if not answered:
                raise HTTPException("it ended before the answer")
            return
        body = response.read()
        if not body:
            return
        answer = json.loads(body)
        if "jsonrpc" not in answer:
            return self._fail(message, str(answer.get("message") or f"HTTP {response.status}"))
        self._note_session(message, response, answer)
        self._write(answer)

    def _note_session(
        self, message: Mapping[str, Any], response: HTTPResponse, answer: Mapping[str, Any]
    ) -> None:
        if message.get("method") == "initialize" and "result" in answer:
            self._initialize = message
            self._session = {
                _SESSION: response.headers.get(_SESSION, ""),
                "MCP-Protocol-Version": answer["result"]["protocolVersion"],
            }

    def _fail(self, message: Mapping[str, Any], why: str) -> None:
        if "id" in message and "method" in message:
            self._write(error_reply(message["id"], INTERNAL_ERROR, why))
        else:
            sys.stderr.write(f"{why}\n")

    def _write(self, message: Mapping[str, Any]) -> None:
        with self._writing, suppress(BrokenPipeError):
            self._out.write(json.dumps(message).encode() + b"\n")
            self._out.flush()
