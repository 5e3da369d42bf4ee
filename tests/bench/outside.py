"""Outside agents over MCP: what they do, with our server and with jupyter-mcp-server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from tests.ui.lab import Lab

VERSION = "2025-11-25"


class McpClient:
    """With one connection, which stays open."""

    def __init__(self, lab: Lab, route: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(lab.url).netloc, timeout=600)
        self._route = route
        self._headers = {
            "Authorization": f"token {lab.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        about = {"name": "bench", "version": "1"}
        begun = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about}
        self._ask("initialize", begun)
        self._headers["MCP-Protocol-Version"] = VERSION

    def call(self, tool: str, **input: Any) -> Any:
        """The result. Raises RuntimeError if it is an error."""
        result = self._ask("tools/call", {"name": tool, "arguments": input})
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result}")
        return result

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._connection.request("POST", self._route, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        if (session := answer.headers.get("Mcp-Session-Id")) is not None:
            self._headers["Mcp-Session-Id"] = session
        content = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{method}: {answer.status} {content}")
        lines = [line for line in content.splitlines() if line.startswith("data: ")]
        reply = json.loads(lines[-1].removeprefix("data: ") if lines else content)
        if "result" not in reply:
            raise RuntimeError(f"{method}: {reply}")
        return reply["result"]


class OutsideAgent(Protocol):
    """Works in the first cells of one notebook, `c0` and `c1`."""

    name: ClassVar[str]

    def read(self) -> None:
        """Reads the first cell."""

    def replace(self, source: str) -> None:
        """Replaces the first cell's source. Raises RuntimeError if refused."""

    def change(self, old: str, new: str) -> None:
        """Changes a string of the first cell's source. Raises RuntimeError if refused."""

    def execute(self) -> None:
        """Runs the second cell."""


class Ours:
    name: ClassVar[str] = "ours"

    def __init__(self, lab: Lab, path: str) -> None:
        self._client = McpClient(lab, "/api/agent/mcp?mode=auto")
        self._path = path

    def read(self) -> None:
        self._client.call("read_cells", notebook=self._path, cell_ids=["c0"])

    def replace(self, source: str) -> None:
        self._edit(source=source)

    def change(self, old: str, new: str) -> None:
        self._edit(old_string=old, new_string=new)

    def execute(self) -> None:
        self._client.call("run_cell", notebook=self._path, cell_id="c1")

    def _edit(self, **edit: Any) -> None:
        self._client.call("edit_cells", notebook=self._path, edits=[{"cell_id": "c0", **edit}])


class JupyterMcpServer:
    """An extension of its own JupyterLab. All its clients share its current notebook."""

    name: ClassVar[str] = "jupyter-mcp-server"

    def __init__(self, lab: Lab, path: str) -> None:
        self._client = McpClient(lab, "/mcp")
        self._client.call("use_notebook", notebook_name="bench", notebook_path=path)

    def read(self) -> None:
        self._client.call("read_cell", cell_id="c0")

    def replace(self, source: str) -> None:
        self._client.call("overwrite_cell_source", cell_id="c0", cell_source=source)

    def change(self, old: str, new: str) -> None:
        self._client.call("edit_cell_source", cell_id="c0", old_string=old, new_string=new)

    def execute(self) -> None:
        self._client.call("execute_cell", cell_id="c1")
