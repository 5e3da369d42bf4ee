"""Another agent works over MCP in a notebook that is open here, while a person types in it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from playwright.sync_api import expect

from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab
from tests.ui.panel import Panel
from tests.waiting import eventually

NEW = "2026-07-28"


def call(lab: Lab, tool: str, input: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a client without forms, as the protocol of 2026-07-28 has it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": {"name": "Claude Code", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": dict(input), "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": NEW,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    result: dict[str, Any] = lab.call("POST", "mcp", body, headers=headers).body["result"]
    return result


def test_its_question_is_led_to_and_answered_while_a_person_types(
    open_page: OpenPage, lab: Lab
) -> None:
    notebook = open_page(cells=["x = 1", "y = 1"])
    page = notebook.page
    panel = Panel(page).open("ask")
    edit = {"cell_id": "c0", "old_string": "1", "new_string": "2"}
    with ThreadPoolExecutor() as aside:
        calling: Future[dict[str, Any]] = aside.submit(
            call, lab, "edit_cells", {"notebook": notebook.path, "edits": [edit]}
        )
        told = page.locator(".Toastify__toast").filter(has_text="needs your approval")
        expect(told).to_contain_text("Claude Code")
        notebook.edit("c1")
        page.keyboard.type("# typed while it waits")
        told.get_by_role("button", name="Show").click()
        card = panel.region.locator(".jp-Agent-approval")
        expect(card).to_contain_text("x = 2")
        panel.allow()
        assert calling.result(timeout=60)["isError"] is False
    eventually(notebook.sources, lambda sources: sources["c0"] == "x = 2")
    assert "# typed while it waits" in notebook.sources()["c1"]
    expect(told).to_have_count(0)
