"""Tools of MCP servers in the panel: their server, and exactly the input they would get."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.fakes import calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.panel import Panel
from tests.ui.screenshots import RESIZE
from tests.waiting import eventually

pytestmark = pytest.mark.plugs
PROGRAM = Path(__file__).parent.parent / "mcp" / "program.py"


@pytest.fixture(scope="module")
def lab(script: Replies, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server that has an MCP server, `shop`, which is a program."""
    folder = tmp_path_factory.mktemp("servers")
    command = [sys.executable, str(PROGRAM), "new", str(folder / "received.jsonl")]
    config = {"JupyterAgent": {"mcp_servers": {"shop": {"command": command}}}}
    with running_lab(folder / "lab", script, config=config) as lab:
        yield lab


def test_a_question_about_a_call_shows_server_tool_and_arguments_and_a_failed_one_says_why(
    open_page: OpenPage, replies: Replies
) -> None:
    panel = Panel(open_page(cells=["x = 1"]).page).open("ask")
    given = {"source": "DELETE FROM t", "cell_id": "c0", "notebook": 7, "note": "a\u202eb"}
    replies.append([calls("mcp__shop__echo", **given)])
    replies.append([says("It is gone.")])
    panel.ask("Clean up.")
    card = panel.region.get_by_role("group", name="Call echo on shop?")
    expect(card).to_contain_text("The MCP server “shop” gets this for “echo”")
    for words in ('"source": "DELETE FROM t"', '"cell_id": "c0"', '"notebook": 7'):
        expect(card).to_contain_text(words)
    expect(card.get_by_role("note")).to_contain_text("It contains hidden characters")
    panel.allow_more()
    scope = panel.region.get_by_role("menuitem", name="Call echo on shop, with any input, in ")
    expect(scope).to_be_visible()
    panel.page.keyboard.press("Escape")
    panel.allow()
    expect(panel.log).to_contain_text("It is gone.")
    panel.unfold()
    called = panel.opened("Called echo on shop")
    called.get_by_role("button", name="Details").click()
    expect(called).to_contain_text("mcp__shop__echo")
    expect(called).to_contain_text("DELETE FROM t")
    panel.region.get_by_label("Mode", exact=True).select_option("auto")
    replies.append([calls("mcp__shop__die")])
    replies.append([says("It died.")])
    panel.ask("Try it.")
    expect(panel.log).to_contain_text("It died.")
    panel.unfold()
    call = panel.call("Call die on shop")
    expect(call).to_contain_text("failed")
    expect(call).to_contain_text("The MCP server `shop` failed:")
    expect(call).to_contain_text("it exited (exit code 3).")
    panel.region.get_by_label("Mode", exact=True).select_option("ask")
    wide = {"sql": "SELECT " + ", ".join(f"column_{n}" for n in range(40)), "x" * 60: ["y" * 200]}
    replies.append([calls("mcp__shop__echo", **wide)])
    replies.append([says("Fine.")])
    panel.page.evaluate(RESIZE, 300)
    eventually(panel.region.bounding_box, lambda box: box and abs(box["width"] - 300) < 3)
    panel.ask("Look.")
    expect(card).to_be_visible()
    wider = (
        "card => [card, ...card.querySelectorAll('*')]"
        ".filter(box => box.getBoundingClientRect().right"
        " > card.getBoundingClientRect().right + 1).map(box => box.className)"
    )
    assert card.evaluate(wider) == []
    panel.allow()
    expect(panel.log).to_contain_text("Fine.")
