"""The official MCP clients in a notebook that is open in two tabs while a person types in it.

Run by `bash .ci/mcp-clients`, which makes their environments.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pytest
from playwright.sync_api import expect

from jupyter_agent.mcp_server.catalogue import FIRST
from tests.agents.conftest import Connect
from tests.agents.sdk import SdkClient
from tests.ui.conftest import OpenPage
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

T = TypeVar("T")

pytestmark = pytest.mark.skipif(
    "MCP_CLIENTS" not in os.environ, reason="needs the official clients: bash .ci/mcp-clients"
)
CELLS = ["x = 1", "print('x is', x)", "# notes"]
ALLOW = {"action": "accept", "content": {"answer": "Allow"}}
KEY_MS = 120
"""Milliseconds between two keys of a fast typist."""
DECLINE = {"action": "decline"}
VERSIONS = {"1": "2025-11-25", "2": "2026-07-28", "2-legacy": "2025-11-25"}


@pytest.fixture
def tabs(open_page: OpenPage) -> tuple[OpenNotebook, OpenNotebook]:
    """One notebook in two tabs."""
    first = open_page(cells=CELLS)
    second = open_page(path=first.path)
    for tab in (first, second):
        tab.wait_until_linked()
        tab.wait_for_kernel()
    return first, second


def text(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def edit(notebook: OpenNotebook, old: str, new: str, cell: str = "c0") -> dict[str, Any]:
    change = {"cell_id": cell, "old_string": old, "new_string": new}
    return {"notebook": notebook.path, "edits": [change]}


def done(client: SdkClient, tool: str, input: dict[str, Any]) -> dict[str, Any]:
    result = client.call(tool, input)
    assert not result["isError"], text(result)
    return result


def typed_meanwhile(tab: OpenNotebook, cell: str, work: Callable[[], T]) -> tuple[str, T]:
    """Text that a person types at the end of the cell while the work lasts, and its result."""
    tab.edit(cell)
    typed = ""
    with ThreadPoolExecutor() as aside:
        working = aside.submit(work)
        while not working.done() or not typed:
            word = f"\n# w{len(typed)}"
            tab.page.keyboard.type(word, delay=KEY_MS)
            typed += word
        return typed, working.result()


def test_it_edits_and_runs_in_both_tabs_and_takes_it_back_while_a_person_types(
    tabs: tuple[OpenNotebook, OpenNotebook], connect: Connect, request: pytest.FixtureRequest
) -> None:
    first, second = tabs
    client = connect("mode=auto")
    assert client.begun() == VERSIONS[request.node.callspec.params["connect"]]
    names = [tool["name"] for tool in client.tools()]
    assert set(FIRST) <= set(names)
    state = done(client, "get_notebook_state", {"notebook": first.path})
    assert all(source in text(state) for source in CELLS)

    def work() -> str:
        for value in range(1, 9):
            done(client, "edit_cells", edit(first, f"x = {value}", f"x = {value + 1}"))
        new = {"notebook": first.path, "cells": [{"source": "y = x"}], "after": "c0"}
        (made,) = done(client, "create_cells", new)["structuredContent"]["cell_ids"]
        for cell in ("c0", made, "c1"):
            done(client, "run_cell", {"notebook": first.path, "cell_id": cell})
        return str(made)

    typed, made = typed_meanwhile(first, "c2", work)
    changed = {"c0": "x = 9", made: "y = x", "c1": CELLS[1]}
    eventually(first.shown, lambda shown: shown == {**changed, "c2": CELLS[2] + typed})
    eventually(second.shown, lambda shown: changed.items() <= shown.items())
    for tab in tabs:
        eventually(partial(tab.output_text, "c1"), lambda shown: "x is 9" in shown)

    more, undone = typed_meanwhile(first, "c2", lambda: done(client, "undo_turn", {}))
    assert "What ran in a kernel is not undone." in text(undone)
    first.save()
    expected = {"c0": CELLS[0], "c1": CELLS[1], "c2": CELLS[2] + typed + more}
    assert first.shown() == first.saved() == expected
    eventually(second.ids, lambda ids: ids == first.ids())
    eventually(second.shown, lambda shown: shown["c0"] == CELLS[0])


def test_it_reads_what_is_typed_and_not_saved_in_whichever_tab(
    tabs: tuple[OpenNotebook, OpenNotebook], connect: Connect
) -> None:
    client = connect("mode=read")
    client.begun()
    done(client, "read_cells", {"notebook": tabs[0].path, "cell_ids": ["c0", "c2"]})
    for tab, cell, source in zip(tabs, ("c0", "c2"), (CELLS[0], CELLS[2]), strict=True):
        tab.edit(cell)
        tab.type(f" # typed in {cell}")
        assert tab.saved()[cell] == source
        told = text(done(client, "read_cells", {"notebook": tab.path, "cell_ids": ["c1"]}))
        assert f"{source} # typed in {cell}" in told
        assert "since you read it" in told
        tab.save()


def test_its_form_shows_the_diff_and_a_decline_leaves_all_as_it_is(
    tabs: tuple[OpenNotebook, OpenNotebook], connect: Connect
) -> None:
    first, second = tabs
    client = connect("mode=ask")
    client.begun()
    wanted = edit(first, "x = 1", "x = 2")
    refused = client.call("edit_cells", wanted, answer=DECLINE)
    assert refused["isError"]
    assert refused["structuredContent"]["reason"] == "denied"
    assert "-x = 1\n+x = 2" in client.asked[0]
    assert first.sources()["c0"] == second.sources()["c0"] == "x = 1"

    def allowed() -> dict[str, Any]:
        return client.call("edit_cells", wanted, answer=ALLOW)

    typed, changed = typed_meanwhile(first, "c2", allowed)
    assert not changed["isError"], text(changed)
    assert len(client.asked) == 2
    run = client.call("run_cell", {"notebook": first.path, "cell_id": "c0"}, answer=ALLOW)
    assert not run["isError"], text(run)
    assert "run code in" in client.asked[2]
    for tab in tabs:
        eventually(tab.shown, lambda shown: shown["c0"] == "x = 2")
    assert first.shown()["c2"] == CELLS[2] + typed


def test_without_forms_the_panel_asks(
    tabs: tuple[OpenNotebook, OpenNotebook], connect: Connect
) -> None:
    first, _ = tabs
    client = connect("mode=ask", forms=False)
    client.begun()
    panel = Panel(first.page).open()
    with ThreadPoolExecutor() as aside:
        calling = aside.submit(client.call, "edit_cells", edit(first, "x = 1", "x = 2"))
        asked = first.page.locator(".Toastify__toast").filter(has_text="needs your approval")
        expect(asked).to_contain_text("MCP client")
        first.edit("c2")
        first.type(" typed while it waits")
        asked.get_by_role("button", name="Show").click()
        panel.allow()
        result = calling.result(timeout=60)
    assert not result["isError"], text(result)
    assert client.asked == []
    for tab in tabs:
        eventually(tab.shown, lambda shown: shown["c0"] == "x = 2")
    assert first.shown()["c2"] == "# notes typed while it waits"


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_token_it_is_refused_with_401(connect: Connect, token: str | None) -> None:
    assert "401" in connect("mode=auto", token=token).failure()
