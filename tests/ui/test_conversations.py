"""Conversations: listed, found, exported; questions asked again and in other words."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.fakes import calls, says
from tests.ui.conftest import OpenPage, new_file
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually


@pytest.mark.story
def test_the_list_can_be_searched_kept_to_one_notebook_and_exported(
    panel: Panel, lab: Lab, replies: Replies
) -> None:
    replies.append([says("There is no zeppelin there.")])
    lab.ask("A question about lighthouses", new_file(lab, "elsewhere", ["x = 1"]))
    replies.append([says("Close by: **here**.")])
    panel.ask("A question about harbours")
    expect(panel.log).to_contain_text("Close by")
    panel.button("Conversations").click()
    entries = panel.region.get_by_role("list", name="Conversations").get_by_role("listitem")
    search = panel.region.get_by_role("searchbox", name="Search conversations")
    search.fill("lighthouses")
    expect(entries).to_have_count(1)
    search.fill("zeppelin")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("There is no zeppelin there.")
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


ENDS_COMPOSITION = """field => field.dispatchEvent(
    new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}))"""


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
    panel.region.get_by_role("heading", name="Make it two.").dblclick()
    title = panel.region.get_by_role("textbox", name="Title")
    title.fill("Ein Titel")
    title.evaluate(ENDS_COMPOSITION)
    expect(title).to_be_focused()
    title.press("Enter")
    expect(panel.message).to_be_focused()
    panel.button("Edit and resend").first.click()
    field = panel.log.get_by_role("textbox", name="Your question")
    expect(field).to_be_focused()
    expect(panel.log.get_by_text("The 3 messages below will be replaced")).to_be_visible()
    expect(panel.log.get_by_label("Also undo the changes made since")).to_be_checked()
    field.press("Escape")
    expect(field).to_be_hidden()
    expect(panel.message).to_be_focused()
    panel.button("Edit and resend").first.click()
    question = field.input_value()
    panel.page.keyboard.type(" Or not.")
    expect(field).to_have_value(f"{question} Or not.")
    field.fill("Leave it.")
    panel.button("Conversations").click()
    expect(field).to_be_hidden()
    notebook.reload()
    panel.open()
    expect(field).to_have_value("Leave it.")
    field.press("Enter")
    expect(panel.message).to_be_focused()
    expect(panel.log).to_contain_text("It stays one.")
    expect(panel.log).not_to_contain_text("As you like.")
    eventually(notebook.sources, lambda now: now["c0"] == "x = 1")
    assert "Make it two." not in str(lab.fake.requests[-1]["messages"])
