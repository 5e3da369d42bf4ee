"""A small client of MCP servers over HTTP, ours and others."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

VERSION = "2025-11-25"
"""Of the protocol."""


class McpClient:
    """A session with one connection, which stays open."""

    def __init__(self, url: str, token: str, route: str) -> None:
        """`route` is the path of the server's endpoint at `url`."""
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)
        self._route = route
        self._headers = {
            "Authorization": f"token {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        about = {"name": "tests", "version": "1"}
        begun = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about}
        server = self.ask("initialize", begun)["result"]
        self.version: str = server["serverInfo"]["version"]
        self.instructions: str = server.get("instructions", "")
        """For models."""
        self._headers["MCP-Protocol-Version"] = VERSION

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The reply, with its `result` or `error`. Raises RuntimeError for another status."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._connection.request("POST", self._route, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        if (session := answer.headers.get("Mcp-Session-Id")) is not None:
            self._headers["Mcp-Session-Id"] = session
        content = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{method}: {answer.status} {content}")
        lines = [line for line in content.splitlines() if line.startswith("data: ")]
        return json.loads(lines[-1].removeprefix("data: ") if lines else content)
