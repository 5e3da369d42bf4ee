"""Outside agents over MCP: what they do, with our server and with jupyter-mcp-server."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tests.mcp_client import McpClient
from tests.ui.lab import Lab


class Tools:
    """The tools of an MCP server."""

    def __init__(self, lab: Lab, route: str) -> None:
        self._client = McpClient(lab.url, lab.token, route)

    def call(self, tool: str, **input: Any) -> None:
        """Raises RuntimeError if the result is an error."""
        reply = self._client.ask("tools/call", {"name": tool, "arguments": input})
        if "result" not in reply or reply["result"].get("isError"):
            raise RuntimeError(f"{tool}: {reply}")


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
        self._tools = Tools(lab, "/api/agent/mcp?mode=auto")
        self._path = path

    def read(self) -> None:
        self._tools.call("read_cells", notebook=self._path, cell_ids=["c0"])

    def replace(self, source: str) -> None:
        self._edit(source=source)

    def change(self, old: str, new: str) -> None:
        self._edit(old_string=old, new_string=new)

    def execute(self) -> None:
        self._tools.call("run_cell", notebook=self._path, cell_id="c1")

    def _edit(self, **edit: Any) -> None:
        self._tools.call("edit_cells", notebook=self._path, edits=[{"cell_id": "c0", **edit}])


class JupyterMcpServer:
    """An extension of its own JupyterLab. All its clients share its current notebook."""

    name: ClassVar[str] = "jupyter-mcp-server"

    def __init__(self, lab: Lab, path: str) -> None:
        self._tools = Tools(lab, "/mcp")
        self._tools.call("use_notebook", notebook_name="bench", notebook_path=path)

    def read(self) -> None:
        self._tools.call("read_cell", cell_id="c0")

    def replace(self, source: str) -> None:
        self._tools.call("overwrite_cell_source", cell_id="c0", cell_source=source)

    def change(self, old: str, new: str) -> None:
        self._tools.call("edit_cell_source", cell_id="c0", old_string=old, new_string=new)

    def execute(self) -> None:
        self._tools.call("execute_cell", cell_id="c1")
