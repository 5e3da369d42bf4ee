"""Asking at a cell: a line in the notebook, whose answer is a change in the cell."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import Locator, expect

from jupyter_agent.models.base import Block
from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies, settings
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel

KEY = "Control+Alt+k"


def prompt(notebook: OpenNotebook) -> Locator:
    return notebook.page.get_by_role("group", name="Ask the assistant", exact=True)


def field(notebook: OpenNotebook) -> Locator:
    return notebook.page.get_by_role("textbox", name="Ask about this cell", exact=True)


def opened(notebook: OpenNotebook, cell_id: str) -> Locator:
    """The field of the cell, which has the focus."""
    notebook.edit(cell_id)
    notebook.page.keyboard.press(KEY)
    expect(field(notebook)).to_be_focused()
    return field(notebook)


def edits(cell_id: str, old: str, new: str) -> Block:
    return calls("update_cell", cell_id=cell_id, old_string=old, new_string=new)


@pytest.mark.story
@pytest.mark.fresh
def test_a_question_at_a_cell_changes_it_in_place_and_is_in_the_history_of_the_panel(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    with settings(lab, mode="auto"):
        notebook = open_page()
        page = notebook.page
        replies.append([edits("c1", "x is", "x =")])
        replies.append([says("Done.")])
        written = opened(notebook, "c1")
        page.keyboard.type("Use an equals sign")
        assert notebook.sources() == {"c0": "x = 1", "c1": "print('x is', x)"}
        written.press("Enter")
        head = page.get_by_role("group", name="Change in cell 2", exact=True)
        expect(head).to_contain_text("Assistant +1")
        expect(prompt(notebook)).to_have_count(0)
        assert notebook.cursor() == ("c1", 15)
        assert notebook.sources()["c1"] == "print('x =', x)"
        assert "print('x is', x)" in str(lab.fake.requests[-2]["messages"][-1])
        head.get_by_role("button", name="Undo").click()
        expect(head).to_have_count(0)
        assert notebook.sources()["c1"] == "print('x is', x)"
        panel = Panel(page).open()
        expect(panel.log).to_contain_text("Use an equals sign")
        expect(panel.log).to_contain_text("Done.")


def test_it_says_how_far_it_is_while_one_types_in_the_cell_and_escape_stops_it(
    open_page: OpenPage, lab: Lab, replies: Replies, gate: Gate
) -> None:
    notebook = open_page()
    page = notebook.page
    replies.append(Scripted(blocks=[says("Well. " * 400)], stop_after=3, then="wait", gate=gate))
    opened(notebook, "c1").fill("Explain")
    page.keyboard.press("Enter")
    line = prompt(notebook)
    expect(line.get_by_role("timer")).to_contain_text("Writing, 1 s")
    expect(field(notebook)).to_be_focused()
    notebook.edit("c1")
    notebook.type(" # mine")
    assert notebook.sources()["c1"] == "print('x is', x) # mine"
    assert notebook.cursor() == ("c1", 23)
    line.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Escape")
    expect(line).to_contain_text("Stopped.")
    expect(field(notebook)).to_have_value("Explain")
    expect(field(notebook)).to_be_editable()
    page.keyboard.press("Escape")
    expect(line).to_have_count(0)
    assert notebook.cursor() is not None
    assert opened(notebook, "c1").input_value() == "Explain"


def test_words_and_approvals_lead_to_the_panel(open_page: OpenPage, replies: Replies) -> None:
    notebook = open_page()
    page = notebook.page
    replies.append([edits("c0", "1", "2")])
    replies.append([says("As you like:\nit stays.")])
    opened(notebook, "c0").fill("Make it 2")
    page.keyboard.press("Enter")
    line = prompt(notebook)
    expect(line).to_contain_text("Waiting for your approval")
    line.get_by_role("button", name="Show request").click()
    panel = Panel(page)
    panel.read()
    panel.button("Deny").click()
    expect(line).to_contain_text("As you like: it stays.")
    expect(line.get_by_role("button", name="Show answer")).to_be_visible()
    line.get_by_role("button", name="Close").click()
    expect(line).to_have_count(0)
    assert opened(notebook, "c0").input_value() == ""


def test_nothing_that_was_written_is_lost_when_the_server_refuses_it(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    notebook = open_page()
    page = notebook.page
    page.route("**/api/agent/chat*", lambda route: route.fulfill(status=413, body="{}"))
    opened(notebook, "c0").fill("Make it 2")
    page.keyboard.press("Enter")
    line = prompt(notebook)
    expect(line.get_by_role("button", name="Show in panel")).to_be_visible()
    expect(field(notebook)).to_have_value("Make it 2")
    page.unroute("**/api/agent/chat*")
    replies.append([says("Yes.")])
    asked = len(lab.fake.requests)
    field(notebook).press("Enter")
    expect(line).to_contain_text("Yes.")
    assert len(lab.fake.requests) == asked + 1
    notebook.page.keyboard.press(KEY)
    field(notebook).fill("Another")
    notebook.reload()
    assert opened(notebook, "c0").input_value() == "Another"


def test_a_question_while_another_answer_is_written_is_queued_and_answered(
    panel: Panel, notebook: OpenNotebook, replies: Replies, gate: Gate
) -> None:
    page = notebook.page
    replies.append(Scripted(blocks=[says("One. " * 400)], stop_after=3, then="wait", gate=gate))
    replies.append([edits("c1", "x is", "x =")])
    replies.append([says("Two.")])
    panel.ask("First")
    expect(panel.log).to_contain_text("One.")
    opened(notebook, "c1").fill("Second")
    page.keyboard.press("Enter")
    expect(prompt(notebook)).to_contain_text("Queued")
    gate.set()
    expect(page.get_by_role("group", name="Change in cell 2", exact=True)).to_be_visible()
    expect(prompt(notebook)).to_have_count(0)


def test_an_empty_cell_offers_to_be_written_until_somebody_types(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(["x = 1", ""])
    page = notebook.page
    Panel(page).open("auto")
    offer = page.get_by_role("button", name="Generate…", exact=True)
    expect(offer).to_have_count(0)
    box = notebook.cell("c1").bounding_box()
    notebook.edit("c1")
    expect(offer).to_be_visible()
    assert notebook.cell("c1").bounding_box() == box
    notebook.type("y")
    expect(offer).to_have_count(0)
    page.keyboard.press("Backspace")
    replies.append([calls("update_cell", cell_id="c1", source="print(x)")])
    replies.append([says("Done.")])
    offer.click()
    expect(field(notebook)).to_be_focused()
    notebook.type("Print it")
    page.keyboard.press("Enter")
    expect(notebook.cell("c1").locator(".cm-changedLine")).to_have_text("print(x)")
    expect(offer).to_have_count(0)


def test_the_line_goes_with_a_moved_cell_and_keeps_its_text_for_a_deleted_one(
    open_page: OpenPage,
) -> None:
    notebook = open_page([new_markdown_cell("# A title", id="title"), "x = 1", "y = 2"])
    page = notebook.page
    written = opened(notebook, "c1")
    notebook.type("Make it 2")
    page.evaluate("() => jupyterapp.commands.execute('notebook:move-cell-down')")
    expect(notebook.cell("c1").locator(".jp-Agent-promptField")).to_have_value("Make it 2")
    assert notebook.ids() == ["title", "c2", "c1"]
    page.evaluate("() => jupyterapp.commands.execute('notebook:delete-cell')")
    expect(written).to_have_count(0)
    page.evaluate("() => jupyterapp.commands.execute('notebook:undo-cell-action')")
    assert opened(notebook, "c1").input_value() == "Make it 2"
    page.keyboard.press("Escape")
    notebook.cell("title").click()
    page.evaluate("() => jupyterapp.commands.execute('jupyter-agent:ask-in-cell', {text: 'Hi'})")
    expect(notebook.cell("title").locator(".jp-Agent-promptField")).to_have_value("Hi")
