"""Conversations: listed, found, exported; questions asked again and in other words."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from jupyter_agent.testing import calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually


def test_the_list_can_be_searched_kept_to_one_notebook_and_exported(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    other = open_page(cells=["x = 1"])
    (lab.root / "elsewhere.ipynb").write_bytes((lab.root / other.path).read_bytes())
    notebook = open_page(path=other.path)
    replies.append([says("Far away.")])
    lab.ask("A question about lighthouses", "elsewhere.ipynb")
    panel = Panel(notebook.page).open("auto")
    replies.append([says("Close by: **here**.")])
    panel.ask("A question about harbours")
    expect(panel.log).to_contain_text("Close by")
    panel.button("Conversations").click()
    entries = panel.region.get_by_role("list", name="Conversations").get_by_role("listitem")
    search = panel.region.get_by_role("searchbox", name="Search conversations")
    search.fill("lighthouses")
    expect(entries).to_have_count(1)
    search.fill("A question about")
    expect(entries).to_have_count(2)
    panel.region.get_by_label("This notebook only").check()
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("A question about harbours")
    with panel.page.expect_download() as download:
        panel.button("Export “A question about harbours”").click()
    assert download.value.suggested_filename == "A question about harbours.md"
    text = Path(download.value.path()).read_text()
    assert text.startswith("# A question about harbours")
    assert "Close by: **here**." in text


def test_what_cannot_be_done_in_the_list_is_told_and_not_shown_as_done(
    panel: Panel, replies: Replies
) -> None:
    page = panel.page
    replies.append([says("Here.")])
    panel.ask("A question about the tides")
    expect(panel.log).to_contain_text("Here.")
    panel.button("Conversations").click()
    entry = panel.region.get_by_role("button").filter(has_text="A question about the tides")
    expect(entry).to_have_count(1)
    page.route("**/api/agent/conversations**/**", lambda route: route.abort())
    told = page.get_by_text("The server does not answer.")
    panel.button("Rename “A question about the tides”").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("Lighthouses")
    page.keyboard.press("Enter")
    expect(told).to_have_count(1)
    panel.button("Delete “A question about the tides”").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(told).to_have_count(2)
    expect(entry).to_have_count(1)


def test_more_conversations_than_a_page_holds_can_be_shown(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    notebook = open_page()
    for number in range(51):
        replies.append([says("Noted.")])
        lab.ask(f"Number {number} of many", notebook.path)
    panel = Panel(notebook.page).open()
    panel.button("Conversations").click()
    panel.region.get_by_role("searchbox").fill("of many")
    entries = panel.region.get_by_role("list", name="Conversations").get_by_role("listitem")
    expect(entries).to_have_count(50)
    panel.button("Show older").click()
    expect(entries).to_have_count(51)
    expect(panel.button("Show older")).to_be_hidden()


def test_a_question_is_asked_again_with_what_was_attached(
    notebook: OpenNotebook, panel: Panel, lab: Lab, replies: Replies
) -> None:
    replies.append([says("One.")])
    replies.append([says("Another.")])
    panel.ask("How many?")
    expect(panel.log).to_contain_text("One.")
    panel.button("Retry").click()
    expect(panel.log).to_contain_text("Another.")
    expect(panel.log).not_to_contain_text("One.")
    expect(panel.log.locator(".jp-Agent-question")).to_have_count(1)
    assert "x = 1" in str(lab.fake.requests[-1]["messages"][-1])  # the active cell, as before
    notebook.reload()
    panel.open()
    expect(panel.log).to_contain_text("Another.")
    expect(panel.log).not_to_contain_text("One.")


def test_a_question_is_edited_and_what_its_turns_changed_is_taken_back(
    panel: Panel, notebook: OpenNotebook, lab: Lab, replies: Replies
) -> None:
    replies.append([calls("update_cell", cell_id="c0", source="x = 2")])
    replies.append([says("It is two.")])
    replies.append([says("As you like.")])
    replies.append([says("It stays one.")])
    panel.ask("Make it two.")
    expect(panel.log).to_contain_text("It is two.")
    panel.ask("Thank you.")
    expect(panel.log).to_contain_text("As you like.")
    panel.button("Edit and resend").first.click()
    field = panel.log.get_by_role("textbox", name="Your question")
    expect(field).to_be_focused()
    expect(panel.log.get_by_text("The 3 messages below will be replaced")).to_be_visible()
    expect(panel.log.get_by_label("Also undo the changes made since")).to_be_checked()
    field.press("Escape")
    expect(field).to_be_hidden()
    panel.button("Edit and resend").first.click()
    field.fill("Leave it.")
    field.press("Enter")
    expect(panel.log).to_contain_text("It stays one.")
    expect(panel.log).not_to_contain_text("As you like.")
    eventually(notebook.sources, lambda now: now["c0"] == "x = 1")
    assert "Make it two." not in str(lab.fake.requests[-1]["messages"])
