"""What the assistant changed, marked in the notebook itself until it is kept or reverted."""

from __future__ import annotations

import re

from nbformat.v4 import new_markdown_cell
from playwright.sync_api import Locator, expect

from jupyter_agent.models.base import Block
from jupyter_agent.testing import calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook, eventually
from tests.ui.panel import Panel

CELLS = ["x = 1", "y = 2\nprint(y)", "z = 3", "print('x is', x)"]
SOURCES = {f"c{number}": source for number, source in enumerate(CELLS)}
SCROLLED = (
    "path => agentTest.notebook(path).node.querySelector('.jp-WindowedPanel-outer').scrollTop"
)


def bar(notebook: OpenNotebook, cell_id: str) -> Locator:
    return notebook.cell(cell_id).locator(".jp-Agent-bar")


def box(notebook: OpenNotebook, position: int) -> Locator:
    """What stands below a cell whose change is shown."""
    return notebook.page.get_by_role("group", name=f"Change in cell {position}", exact=True)


def removed(notebook: OpenNotebook) -> Locator:
    return notebook.page.locator(".jp-Agent-removed")


def edits(cell_id: str, old: str, new: str) -> Block:
    return calls("update_cell", cell_id=cell_id, old_string=old, new_string=new)


def change_all(panel: Panel, replies: Replies) -> None:
    """One turn: c0 edited, c1 deleted, a cell added below c2."""
    added = calls("create_cell", source="new = 4", after="c2")
    replies.append([edits("c0", "1", "1\nw = 0"), calls("delete_cell", cell_id="c1"), added])
    replies.append([says("Done.")])
    panel.ask("Change all.")
    expect(panel.button("Undo turn")).to_be_visible()


def test_changed_added_and_deleted_cells_are_marked_and_a_click_opens_the_difference(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    change_all(panel, replies)
    new = notebook.ids()[2]
    expect(bar(notebook, "c0")).to_have_text("~")
    expect(bar(notebook, "c0")).to_have_attribute("aria-label", re.compile("Cell 1 was edited"))
    expect(bar(notebook, new)).to_have_text("+")
    expect(bar(notebook, "c2")).to_have_count(0)
    text = notebook.sources()
    bar(notebook, "c0").click()
    expect(box(notebook, 1)).to_contain_text("Edited by the assistant")
    expect(notebook.cell("c0").locator(".cm-changedLine")).to_have_text("w = 0")
    bar(notebook, new).click()
    expect(box(notebook, 3)).to_contain_text("Added by the assistant")
    gone = removed(notebook)
    expect(gone).to_contain_text("Deleted cell, 2 lines: y = 2")
    assert gone.evaluate("node => node.parentElement === document.querySelectorAll('.jp-Cell')[0]")
    gone.get_by_role("button").first.click()
    expect(gone.locator("pre")).to_have_text("y = 2\nprint(y)")
    assert notebook.sources() == text, "looking changes nothing"
    notebook.reload()
    expect(bar(notebook, "c0")).to_have_text("~")
    expect(removed(notebook)).to_contain_text("y = 2")


def test_what_review_and_undo_open_comes_into_view(open_page: OpenPage, replies: Replies) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    longer = "\n".join(f"row{number} = {number}" for number in range(30))
    replies.append([edits("c0", "1", f"1\n{longer}"), edits("c2", "3", f"3\n{longer}")])
    replies.append([says("\n\n".join(f"Paragraph {number}." for number in range(40)))])
    panel.ask("Make them longer.")
    expect(panel.button("Undo turn")).to_be_in_viewport()
    panel.button("Review").click()
    expect(panel.region.get_by_role("group", name="Cell 1", exact=True)).to_be_in_viewport()
    expect(panel.region.get_by_text("row0 = 0").last).to_be_in_viewport()
    panel.button("Review").click()
    notebook.edit("c0")
    notebook.type("0")
    panel.button("Undo turn").click()
    told = panel.region.get_by_text("cell 1 meanwhile")
    expect(told).to_be_in_viewport(ratio=1)
    latest = panel.button("Jump to latest")
    assert not latest.is_visible() or not overlap(told, latest)


def overlap(one: Locator, other: Locator) -> bool:
    first, second = one.bounding_box(), other.bounding_box()
    assert first
    assert second
    upper, lower = sorted((first, second), key=lambda box: box["y"])
    return lower["y"] < upper["y"] + upper["height"]


def test_a_cell_is_kept_or_reverted_in_the_notebook_and_the_panel_says_so_at_once(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    change_all(panel, replies)
    other = open_page(path=notebook.path)
    seen = Panel(other.page).open()
    seen.button("Conversations").click()
    seen.region.get_by_role("button", name="Change all.").first.click()
    expect(bar(other, "c0")).to_be_visible()
    expect(seen.log).to_contain_text("3 cells changed")
    bar(notebook, "c0").click()
    box(notebook, 1).get_by_role("button", name="Keep", exact=True).click()
    expect(box(notebook, 1)).to_have_count(0)
    expect(bar(notebook, "c0")).to_have_count(0)
    expect(notebook.cell("c0").locator(".cm-changedLine")).to_have_count(0)
    expect(panel.call("Edited cell 1")).to_contain_text("Kept")
    expect(bar(other, "c0")).to_have_count(0)
    expect(seen.call("Edited cell 1")).to_contain_text("Kept")
    removed(notebook).get_by_role("button").first.click()
    removed(notebook).get_by_role("button", name="Revert", exact=True).click()
    eventually(notebook.ids, lambda ids: ids[:2] == ["c0", "c1"])
    expect(removed(notebook)).to_have_count(0)
    expect(removed(other)).to_have_count(0)
    panel.call("Added a cell after 3").get_by_role("button", name="Revert").click()
    eventually(notebook.ids, lambda ids: ids == ["c0", "c1", "c2", "c3"])
    expect(notebook.page.locator(".jp-Agent-bar")).to_have_count(0)
    assert notebook.sources() == {**SOURCES, "c0": "x = 1\nw = 0"}


def test_a_cell_that_is_as_it_was_is_not_marked_and_one_that_was_moved_says_so(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("c0", "1", "2"), calls("move_cell", cell_id="c2", after="c0")])
    replies.append([says("Done.")])
    panel.ask("Change both.")
    eventually(notebook.ids, lambda ids: ids == ["c0", "c2", "c1", "c3"])
    expect(bar(notebook, "c0")).to_have_text("~")
    bar(notebook, "c2").click()
    expect(box(notebook, 2)).to_contain_text("Moved by the assistant")
    notebook.edit("c0")
    notebook.page.keyboard.press("Control+a")
    notebook.type("x = 1")
    expect(bar(notebook, "c0")).to_have_count(0)
    notebook.type("0")
    expect(bar(notebook, "c0")).to_have_text("~")
    panel.button("Keep turn").click()
    expect(notebook.page.locator(".jp-Agent-bar")).to_have_count(0)
    expect(panel.button("Keep turn")).to_be_hidden()


def test_a_whole_turn_and_all_turns_are_kept_or_reverted_from_one_cell(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    change_all(panel, replies)
    replies.append([edits("c0", "w = 0", "w = 5"), edits("c3", "'x is', ", "")])
    replies.append([says("More.")])
    panel.ask("More.")
    expect(panel.button("Undo turn")).to_have_count(2)
    bar(notebook, "c0").click()
    change = box(notebook, 1)
    change.get_by_role("button", name="Revert turn").click()
    eventually(notebook.sources, lambda now: now["c3"] == CELLS[3])
    assert notebook.sources()["c0"] == "x = 1\nw = 0", "the first turn's change stays"
    expect(bar(notebook, "c3")).to_have_count(0)
    expect(change.get_by_role("button", name="Revert all 3")).to_be_visible()
    replies.append([edits("c2", "3", "4")])
    replies.append([says("And more.")])
    panel.ask("And more.")
    every = panel.region.get_by_role("group", name="All changes")
    expect(every).to_contain_text("4 cells of 2 turns to review")
    every.get_by_role("button", name="Revert all").click()
    eventually(notebook.sources, lambda now: now == SOURCES)
    expect(notebook.page.locator(".jp-Agent-bar, .jp-Agent-removed")).to_have_count(0)


def test_the_difference_of_rendered_markdown_is_below_it_and_follows_what_is_typed(
    open_page: OpenPage, replies: Replies
) -> None:
    text = "# Sales\n\nNorth only."
    notebook = open_page([new_markdown_cell(text, id="m0"), "x = 1"])
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("m0", "North only.", "North and south.")])
    replies.append([says("Done.")])
    panel.ask("Change it.")
    difference = panel.call("Edited cell 1").locator(".jp-Agent-diff")
    expect(difference.locator("code > span").first).to_have_text("#")  # of a heading
    expect(difference.get_by_text("and", exact=True)).to_have_count(0)  # no keyword of Python
    bar(notebook, "m0").click()
    cell = notebook.cell("m0")
    expect(cell.locator(".jp-RenderedMarkdown")).to_contain_text("North and south.")
    expect(box(notebook, 1).locator(".cm-deletedChunk")).to_have_text("North only.")
    expect(box(notebook, 1).locator(".cm-changedLine")).to_have_text("North and south.")
    cell.locator(".jp-RenderedMarkdown").dblclick()
    notebook.edit_line("m0", 2, end=True)
    notebook.type(" And east.")
    expect(notebook.page.locator(".cm-changedLine").first).to_have_text(
        "North and south. And east."
    )
    notebook.page.keyboard.press("Shift+Enter")
    expect(cell.locator(".jp-RenderedMarkdown")).to_contain_text("And east.")
    expect(box(notebook, 1).locator(".cm-changedLine")).to_have_text("North and south. And east.")


def test_an_open_difference_takes_no_key_no_focus_and_no_place(
    open_page: OpenPage, replies: Replies
) -> None:
    filler = [f"filler = {n}\n" * 6 for n in range(12)]
    notebook = open_page(["x = 1", "y = 2", *filler])
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("c0", "1", "1\nw = 0"), edits("c1", "2", "20")])
    replies.append([says("Done.")])
    panel.ask("Change both.")
    expect(panel.button("Undo turn")).to_be_visible()
    notebook.edit("c1")
    notebook.type("0")
    bar(notebook, "c0").click()
    expect(box(notebook, 1)).to_be_visible()
    notebook.type("1")
    assert notebook.page.evaluate(SCROLLED, notebook.path) == 0
    notebook.page.mouse.move(600, 500)
    notebook.page.mouse.wheel(0, 30)
    eventually(lambda: notebook.page.evaluate(SCROLLED, notebook.path), lambda top: top == 30)
    top = notebook.cell("c1").bounding_box()
    bar(notebook, "c1").click()
    expect(notebook.cell("c1").locator(".cm-deletedChunk")).to_have_text("y = 2")
    notebook.type("2  # mine")
    assert notebook.cursor() == ("c1", len("y = 20012  # mine"))
    now = notebook.cell("c1").bounding_box()
    assert top == {**(now or {}), "height": top["height"] if top else 0}
    expect(notebook.cell("c1").locator(".cm-changedLine")).to_have_text("y = 20012  # mine")
    assert notebook.sources()["c1"] == "y = 20012  # mine"
    box(notebook, 2).get_by_role("button", name="Revert", exact=True).click()
    expect(box(notebook, 2)).to_contain_text("Somebody changed the same lines since.")
    kept = "You changed cell 2 meanwhile; I kept yours."
    expect(notebook.page.get_by_text(kept).first).to_be_visible()
    assert notebook.sources()["c1"] == "y = 20012  # mine"


def test_the_mark_is_used_with_the_keyboard(open_page: OpenPage, replies: Replies) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("update_cell", cell_id="c0", source="x = 100")])
    replies.append([says("Done.")])
    panel.ask("Change one.")
    bar(notebook, "c0").focus()
    notebook.page.keyboard.press("Enter")
    expect(bar(notebook, "c0")).to_have_attribute("aria-expanded", "true")
    keep = box(notebook, 1).get_by_role("button", name="Keep", exact=True)
    keep.focus()
    notebook.page.keyboard.press("Space")
    expect(bar(notebook, "c0")).to_have_count(0)
    assert notebook.sources()["c0"] == "x = 100"


def test_a_page_that_nobody_touches_is_in_step_with_what_a_script_does(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    change_all(panel, replies)
    talk = notebook.lab.call("GET", "conversations").body["conversations"][0]["id"]
    (turn,) = lab.call("GET", f"conversations/{talk}").body["turns"]
    kept = {"cells": [{"notebook": notebook.path, "cell_id": "c0"}]}
    lab.call("POST", f"turns/{turn['id']}/accept", kept)
    expect(bar(notebook, "c0")).to_have_count(0)
    expect(panel.call("Edited cell 1")).to_contain_text("Kept")
    lab.call("POST", f"turns/{turn['id']}/undo")
    expect(notebook.page.locator(".jp-Agent-bar, .jp-Agent-removed")).to_have_count(0)
    expect(panel.log).to_contain_text("This turn was undone")
    replies.append([edits("c2", "3", "30")])
    replies.append([says("A script asked me.")])
    message = {"id": "u_2", "role": "user", "parts": [{"type": "text", "text": "From a script"}]}
    asked = {"notebook": notebook.path, "mode": "auto", "messages": [message], "stream": False}
    lab.call("POST", "chat", {**asked, "id": talk})
    expect(panel.log).to_contain_text("From a script")
    expect(panel.log).to_contain_text("A script asked me.")
    expect(bar(notebook, "c2")).to_have_text("~")
    replies.append([edits("c3", "'x is', ", "")])
    replies.append([says("In another conversation.")])
    lab.call("POST", "chat", {**asked, "id": "elsewhere"})
    expect(bar(notebook, "c3")).to_have_text("~")
    lab.call("PATCH", f"conversations/{talk}", {"title": "Sales"})
    expect(panel.region).to_contain_text("Sales")
