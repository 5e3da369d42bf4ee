"""The assistant's changes, marked in the notebook itself until they are kept or reverted."""

from __future__ import annotations

import json
import re

import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import Locator, expect

from jupyter_agent.models.base import Block
from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage, new_file
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies, settings
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

CELLS = ["x = 1", "y = 2\nprint(y)", "z = 3", "print('x is', x)"]
SOURCES = {f"c{number}": source for number, source in enumerate(CELLS)}
SCROLLED = (
    "path => agentTest.notebook(path).node.querySelector('.jp-WindowedPanel-outer').scrollTop"
)


def bar(notebook: OpenNotebook, cell_id: str) -> Locator:
    return notebook.cell(cell_id).locator(".jp-Agent-bar")


def head(notebook: OpenNotebook, position: int) -> Locator:
    """The header above a cell whose change is shown."""
    return notebook.page.get_by_role("group", name=f"Change in cell {position}", exact=True)


def pill(notebook: OpenNotebook) -> Locator:
    """The pill at the bottom of a notebook with changes to review."""
    return notebook.page.get_by_role("group", name="Review", exact=True)


def changes(panel: Panel) -> Locator:
    """The panel's bar for all changes to review."""
    return panel.region.get_by_role("group", name="Changes", exact=True)


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
    expect(panel.button("Undo")).to_be_visible()


@pytest.mark.story
def test_changes_show_in_place_and_open_until_a_click_or_a_key_on_the_bar_closes_them(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    change_all(panel, replies)
    text = notebook.sources()
    new = notebook.ids()[2]
    expect(head(notebook, 1)).to_contain_text("Assistant +1")
    expect(notebook.cell("c0").locator(".cm-changedLine")).to_have_text("w = 0")
    expect(head(notebook, 3)).to_contain_text("Assistant, new cell +1")
    expect(notebook.cell(new)).to_have_class(re.compile("jp-Agent-inserted"))
    expect(head(notebook, 2)).to_have_count(0)
    expect(bar(notebook, "c0")).to_have_text("~")
    expect(bar(notebook, "c0")).to_have_attribute("aria-label", re.compile("Cell 1 was edited"))
    expect(bar(notebook, new)).to_have_text("+")
    expect(bar(notebook, "c2")).to_have_count(0)
    bar(notebook, "c0").click()
    expect(head(notebook, 1)).to_have_count(0)
    expect(notebook.cell("c0").locator(".cm-changedLine")).to_have_count(0)
    gone = removed(notebook)
    expect(gone).to_contain_text("Deleted cell, 2 lines: y = 2")
    assert gone.evaluate("node => node.parentElement === document.querySelectorAll('.jp-Cell')[0]")
    gone.get_by_role("button").first.click()
    expect(gone.locator("pre")).to_have_text("y = 2\nprint(y)")
    assert notebook.sources() == text, "looking changes nothing"
    bar(notebook, "c0").focus()
    notebook.page.keyboard.press("Enter")
    expect(bar(notebook, "c0")).to_have_attribute("aria-expanded", "true")
    notebook.page.keyboard.press("Enter")
    expect(bar(notebook, "c0")).to_have_attribute("aria-expanded", "false")
    notebook.page.keyboard.press("Enter")
    keep = head(notebook, 1).get_by_role("button", name="Keep", exact=True)
    keep.focus()
    notebook.page.keyboard.press("Space")
    expect(bar(notebook, "c0")).to_have_count(0)
    assert notebook.sources() == text


@pytest.mark.fresh
def test_whoever_prefers_bars_opens_each_difference(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    with settings(lab, changes="bar"):
        notebook = open_page(CELLS)
        panel = Panel(notebook.page).open("auto")
        change_all(panel, replies)
        expect(bar(notebook, "c0")).to_have_attribute("aria-expanded", "false")
        expect(notebook.page.locator(".jp-Agent-markHead")).to_have_count(0)
        bar(notebook, "c0").click()
        expect(head(notebook, 1)).to_contain_text("Assistant +1")
        expect(notebook.cell("c0").locator(".cm-changedLine")).to_have_text("w = 0")


def test_many_removed_lines_are_folded_until_asked_for(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(["\n".join(f"row_{n} = {n}" for n in range(60)), "x = 1"])
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("update_cell", cell_id="c0", source="rows = range(60)")])
    replies.append([says("Shorter.")])
    panel.ask("Make it short.")
    chunk = notebook.cell("c0").locator(".cm-deletedChunk")
    expect(chunk).to_be_visible()
    folded = chunk.bounding_box()
    head(notebook, 1).get_by_role("button", name="Show all 60 lines").click()
    expect(head(notebook, 1).get_by_role("button", name="Show all 60 lines")).to_be_hidden()
    whole = chunk.bounding_box()
    assert folded
    assert whole
    assert folded["height"] < 400 < 900 < whole["height"]


@pytest.mark.story
def test_undoing_a_turn_keeps_what_the_person_changed_since_and_says_so_in_view(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("c0", "1", "1\nw = 0"), edits("c2", "3", "30")])
    replies.append([says("\n\n".join(f"Paragraph {number}." for number in range(40)))])
    panel.ask("Make them longer.")
    expect(panel.button("Undo")).to_be_in_viewport()
    notebook.edit("c0")
    notebook.type("0")
    panel.button("Undo").click()
    undone = panel.region.get_by_role("status").filter(has_text="Undone, except cell 1.")
    expect(undone).to_contain_text("Cell 1 kept: you edited it after the assistant.")
    told = panel.region.get_by_text("Cell 1 kept")
    expect(told).to_be_in_viewport(ratio=1)
    latest = panel.button("Jump to latest")
    assert not latest.is_visible() or not overlap(told, latest)
    eventually(notebook.sources, {**SOURCES, "c0": "x = 1\nw = 00"}.__eq__)
    expect(changes(panel)).to_contain_text("cell 1")


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
    expect(head(other, 1)).to_contain_text("Assistant +1")
    expect(removed(other)).to_contain_text("y = 2")
    seen = Panel(other.page).open()
    seen.button("Conversations").click()
    seen.region.get_by_role("button", name="Change all.").first.click()
    expect(bar(other, "c0")).to_be_visible()
    expect(seen.log).to_contain_text("3 cells changed")
    expect(changes(seen)).to_contain_text("3 changes")
    expect(pill(notebook)).to_contain_text("3 changes")
    expect(changes(panel)).to_contain_text("3 changes")
    head(notebook, 1).get_by_role("button", name="Keep", exact=True).click()
    expect(head(notebook, 1)).to_have_count(0)
    expect(pill(notebook)).to_contain_text("2 changes")
    expect(changes(panel)).to_contain_text("2 changes")
    expect(bar(notebook, "c0")).to_have_count(0)
    expect(notebook.cell("c0").locator(".cm-changedLine")).to_have_count(0)
    panel.unfold()
    expect(panel.opened("Cell 1 edited")).to_contain_text("Kept")
    expect(bar(other, "c0")).to_have_count(0)
    seen.unfold()
    expect(seen.opened("Cell 1 edited")).to_contain_text("Kept")
    removed(notebook).get_by_role("button").first.click()
    removed(notebook).get_by_role("button", name="Undo", exact=True).click()
    eventually(notebook.ids, lambda ids: ids[:2] == ["c0", "c1"])
    expect(removed(notebook)).to_have_count(0)
    expect(removed(other)).to_have_count(0)
    panel.opened("Cell 4 added").get_by_role("button", name="Undo").click()
    eventually(notebook.ids, lambda ids: ids == ["c0", "c1", "c2", "c3"])
    expect(notebook.page.locator(".jp-Agent-bar")).to_have_count(0)
    for where in (pill(notebook), changes(panel), changes(seen)):
        expect(where).to_have_count(0)
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
    expect(head(notebook, 2)).to_contain_text("Assistant, moved")
    notebook.edit("c0")
    notebook.page.keyboard.press("Control+a")
    notebook.type("x = 1")
    expect(bar(notebook, "c0")).to_have_count(0)
    notebook.type("0")
    expect(bar(notebook, "c0")).to_have_text("~")
    panel.button("Keep all").click()
    expect(notebook.page.locator(".jp-Agent-bar")).to_have_count(0)
    expect(panel.button("Keep all")).to_be_hidden()


def test_an_answer_is_undone_by_itself_and_all_answers_at_once(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    change_all(panel, replies)
    replies.append([edits("c0", "w = 0", "w = 5"), edits("c3", "'x is', ", "")])
    replies.append([says("More.")])
    panel.ask("More.")
    expect(panel.button("Undo")).to_have_count(2)
    expect(changes(panel)).to_contain_text("4 changes")
    panel.button("Undo").last.click()
    eventually(notebook.sources, lambda now: now["c3"] == CELLS[3])
    assert notebook.sources()["c0"] == "x = 1\nw = 0", "the first answer's change stays"
    expect(bar(notebook, "c3")).to_have_count(0)
    expect(changes(panel)).to_contain_text("3 changes")
    replies.append([edits("c2", "3", "4")])
    replies.append([says("And more.")])
    panel.ask("And more.")
    expect(changes(panel)).to_contain_text("4 changes")
    panel.button("Undo all").click()
    eventually(notebook.sources, lambda now: now == SOURCES)
    expect(notebook.page.locator(".jp-Agent-bar, .jp-Agent-removed")).to_have_count(0)
    expect(changes(panel)).to_have_count(0)


@pytest.mark.story
def test_undo_all_keeps_what_the_person_typed_since_and_says_so(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("c0", "1", "10"), edits("c2", "3", "30")])
    replies.append([says("Done.")])
    panel.ask("Change both.")
    expect(panel.button("Undo")).to_be_visible()
    notebook.edit("c0")
    notebook.type("0")
    panel.button("Undo all").click()
    left = changes(panel).get_by_role("status").filter(has_text="Undone, except cell 1.")
    expect(left).to_contain_text("Cell 1 kept: you edited it after the assistant.")
    eventually(notebook.sources, lambda now: now == {**SOURCES, "c0": "x = 100"})
    expect(changes(panel)).to_contain_text("1 change")
    pill(notebook).get_by_role("button", name="Undo all").click()
    told = notebook.page.locator(".Toastify__toast").filter(has_text="Cell 1 kept")
    expect(told).to_be_visible()
    assert notebook.sources()["c0"] == "x = 100"


def test_the_difference_of_rendered_markdown_is_below_it_and_follows_what_is_typed(
    open_page: OpenPage, replies: Replies
) -> None:
    text = "# Sales\n\nNorth only."
    notebook = open_page([new_markdown_cell(text, id="m0"), "x = 1"])
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("m0", "North only.", "North and south.")])
    replies.append([says("Done.")])
    panel.ask("Change it.")
    panel.unfold()
    difference = panel.opened("Cell 1 edited").locator(".jp-Agent-diff")
    expect(difference.locator("code > span").first).to_have_text("#")  # of a heading
    expect(difference.get_by_text("and", exact=True)).to_have_count(0)  # no keyword of Python
    cell = notebook.cell("m0")
    below = cell.locator(".jp-Agent-markDiff")
    expect(cell.locator(".jp-RenderedMarkdown")).to_contain_text("North and south.")
    expect(below.locator(".cm-deletedChunk")).to_have_text("North only.")
    expect(below.locator(".cm-changedLine")).to_have_text("North and south.")
    notebook.page.keyboard.press("Alt+F5")
    expect(pill(notebook)).to_contain_text("Change 1 of 1")
    expect(cell.locator(".jp-RenderedMarkdown")).to_be_visible()  # it is looked at, not edited
    cell.locator(".jp-RenderedMarkdown").dblclick()
    notebook.edit_line("m0", 2, end=True)
    notebook.type(" And east.")
    expect(below.locator(".cm-changedLine")).to_have_text("North and south. And east.")
    notebook.page.keyboard.press("Shift+Enter")
    expect(cell.locator(".jp-RenderedMarkdown")).to_contain_text("And east.")
    expect(below.locator(".cm-changedLine")).to_have_text("North and south. And east.")


def test_differences_that_open_take_no_key_no_focus_and_no_place(
    open_page: OpenPage, replies: Replies, gate: Gate
) -> None:
    filler = [f"filler = {n}\n" * 6 for n in range(12)]
    notebook = open_page(["x = 1", "y = 2\nz = 3", *filler])
    panel = Panel(notebook.page).open("auto")
    replies.append(Scripted(blocks=[says("I begin.")], stop_after=2, then="wait", gate=gate))
    panel.ask("Change both.")
    replies.append([edits("c0", "1", "1\nw = 0"), edits("c1", "z = 3", "z = 30")])
    replies.append([says("Done.")])
    notebook.edit_line("c1", 0, end=True)
    notebook.type("  # m")
    gate.set()
    panel.ask("Go on.")
    notebook.edit_line("c1", 0, end=True)
    typed = "  # m"
    while not head(notebook, 2).is_visible() or len(typed) < 100:
        notebook.type("i")
        typed += "i"
        assert len(typed) < 3000, "no change came"
    notebook.type("ne")
    expect(notebook.cell("c1").locator(".cm-deletedChunk")).to_have_text("z = 3")
    expect(head(notebook, 2)).to_contain_text("Assistant +1 −1")
    expect(notebook.cell("c1").locator(".cm-changedLine")).to_have_text("z = 30")
    assert notebook.sources()["c1"] == f"y = 2{typed}ne\nz = 30"
    assert notebook.cursor() == ("c1", len(f"y = 2{typed}ne"))
    assert notebook.page.evaluate(SCROLLED, notebook.path) == 0
    notebook.edit_line("c1", 1, end=True)
    notebook.type("0")
    head(notebook, 2).get_by_role("button", name="Undo", exact=True).click()
    expect(head(notebook, 2)).to_contain_text("These lines were edited since.")
    assert notebook.sources()["c1"] == f"y = 2{typed}ne\nz = 300"


@pytest.mark.fresh
def test_a_change_in_folded_code_is_unfolded(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    path = "lab/api/settings/@jupyterlab/notebook-extension:tracker"
    raw = '{"codeCellConfig": {"codeFolding": true}}'
    assert lab.request("PUT", path, {"raw": raw}).status == 204
    functions = [f"def {name}():\n    {name} = 1\n    return {name}" for name in "fg"]
    notebook = open_page(["\n\n".join(functions)])
    panel = Panel(notebook.page).open("auto")
    cell = notebook.cell("c0")
    for function in (1, 0):
        cell.get_by_title("Fold line").filter(visible=True).nth(function).click()
    folded = cell.get_by_label("folded code")
    expect(folded).to_have_count(2)
    replies.append([edits("c0", "f = 1", "f = 10")])
    replies.append([says("Done.")])
    panel.ask("Change f.")
    expect(cell.locator(".cm-changedLine")).to_have_text("    f = 10")
    expect(folded).to_have_count(1)


@pytest.mark.story
def test_what_the_person_edits_since_is_not_the_assistants(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(["a = 1\nb = 2\nc = 3"])
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("c0", "b = 2", "b = 20")])
    replies.append([says("Done.")])
    panel.ask("Change b.")
    cell = notebook.cell("c0")
    expect(cell.locator(".cm-changedLine")).to_have_text("b = 20")
    notebook.edit_line("c0", 2, end=True)
    notebook.type("0\nd = 4")
    notebook.edit_line("c0", 0, end=True)
    notebook.type("\nmine = 5")
    assert notebook.sources()["c0"] == "a = 1\nmine = 5\nb = 20\nc = 30\nd = 4"
    expect(cell.locator(".cm-changedLine")).to_have_text("b = 20")
    expect(cell.locator(".cm-deletedChunk")).to_have_text("b = 2")
    expect(head(notebook, 1)).to_contain_text("Assistant +1 −1")
    head(notebook, 1).get_by_role("button", name="Undo", exact=True).click()
    eventually(notebook.sources, lambda now: now["c0"] == "a = 1\nmine = 5\nb = 2\nc = 30\nd = 4")
    expect(notebook.page.locator(".jp-Agent-bar")).to_have_count(0)


def test_keys_lead_from_change_to_change_and_keep_or_undo_each(
    open_page: OpenPage, replies: Replies
) -> None:
    cells = [f"v{n} = {n}" for n in range(60)]
    notebook = open_page(cells)
    keyboard = notebook.page.keyboard
    panel = Panel(notebook.page).open("auto")
    replies.append(
        [
            edits("c2", "v2", "w2"),
            edits("c30", "v30", "w30"),
            calls("delete_cell", cell_id="c40"),
            edits("c58", "v58", "w58"),
        ]
    )
    replies.append([says("Done.")])
    panel.ask("Change four.")
    expect(panel.button("Undo")).to_be_visible()
    expect(notebook.page.locator(".jp-Cell")).to_have_count(59)  # laid out when idle
    for number, position in ((1, 3), (2, 31)):
        keyboard.press("Alt+F5")
        expect(pill(notebook)).to_contain_text(f"Change {number} of 4")
        expect(head(notebook, position)).to_be_in_viewport()
    keyboard.press("Alt+F5")
    expect(pill(notebook)).to_contain_text("Change 3 of 4")
    expect(removed(notebook).locator("pre")).to_have_text("v40 = 40")
    expect(removed(notebook)).to_be_in_viewport()
    keyboard.press("Alt+F5")
    expect(head(notebook, 58)).to_be_in_viewport()  # it was 59 before
    keyboard.press("Alt+F5")
    expect(head(notebook, 3)).to_be_in_viewport()
    keyboard.press("Shift+Alt+F5")
    expect(changes(panel)).to_contain_text("Change 4 of 4")
    expect(notebook.page.locator(".jp-Notebook .jp-Cell:focus")).to_have_count(1)
    keyboard.press("Control+Alt+Enter")
    expect(pill(notebook)).to_contain_text("Change 3 of 3")
    keyboard.press("Control+Alt+Backspace")
    eventually(notebook.ids, lambda ids: ids[40] == "c40")
    expect(pill(notebook)).to_contain_text("Change 2 of 2")
    expect(head(notebook, 31)).to_be_in_viewport()
    keyboard.press("Control+Alt+Backspace")
    expect(pill(notebook)).to_contain_text("Change 1 of 1")
    eventually(notebook.sources, lambda now: now["c30"] == "v30 = 30")
    keyboard.press("Control+Alt+Enter")
    expect(pill(notebook)).to_have_count(0)
    changed = {"c2": "w2 = 2", "c58": "w58 = 58"}
    assert notebook.sources() == {**{f"c{n}": cell for n, cell in enumerate(cells)}, **changed}


@pytest.mark.fresh
def test_keys_work_where_cells_out_of_view_are_not_in_the_page(
    lab: Lab, open_page: OpenPage, replies: Replies
) -> None:
    path = "lab/api/settings/@jupyterlab/notebook-extension:tracker"
    answer = lab.request("PUT", path, {"raw": '{"windowingMode": "full"}'})
    assert answer.status == 204
    notebook = open_page([f"v{n} = {n}" for n in range(300)])
    keyboard = notebook.page.keyboard
    panel = Panel(notebook.page).open("auto")
    added = calls("create_cell", source="new = 1", after="c200")
    replies.append([edits("c100", "v100", "w100"), added, edits("c290", "v290", "w290")])
    replies.append([says("Done.")])
    panel.ask("Change three.")
    expect(panel.button("Undo")).to_be_visible()
    keyboard.press("Escape")  # to the notebook
    keyboard.press("Alt+F5")
    expect(head(notebook, 101)).to_be_in_viewport()
    keyboard.press("Control+Alt+Enter")
    expect(pill(notebook)).to_contain_text("Change 1 of 2")
    expect(head(notebook, 202)).to_be_in_viewport()
    keyboard.press("Control+Alt+Backspace")
    eventually(notebook.ids, lambda ids: len(ids) == 300)
    expect(pill(notebook)).to_contain_text("Change 1 of 1")
    keyboard.press("Control+Alt+Backspace")
    expect(pill(notebook)).to_have_count(0)
    eventually(notebook.sources, lambda now: now["c290"] == "v290 = 290")


@pytest.mark.fresh
@pytest.mark.parametrize("windowing", ["contentVisibility", "defer"])
def test_keys_lead_to_changes_in_cells_that_are_not_laid_out_yet(
    lab: Lab, open_page: OpenPage, replies: Replies, windowing: str
) -> None:
    path = "lab/api/settings/@jupyterlab/notebook-extension:tracker"
    raw = json.dumps({"windowingMode": windowing})
    assert lab.request("PUT", path, {"raw": raw}).status == 204
    notebook = open_page([f"v{n} = {n}" + "\n" * 5 for n in range(1000)])
    panel = Panel(notebook.page).open("auto")
    delete = calls("delete_cell", cell_id="c800")
    replies.append([*(edits(f"c{n}", f"v{n}", f"w{n}") for n in (600, 900)), delete])
    replies.append([says("Done.")])
    panel.ask("Change three.")
    expect(panel.button("Undo")).to_be_visible()
    keyboard = notebook.page.keyboard
    for shown in (head(notebook, 601), removed(notebook), head(notebook, 900)):
        keyboard.press("Alt+F5")
        expect(shown).to_be_in_viewport()
    order = notebook.page.evaluate(
        "[...document.querySelectorAll('.jp-Cell')].map(cell => +cell.dataset.windowedListIndex)"
    )
    assert order == sorted(order)


def test_keys_lead_to_a_change_in_a_collapsed_section(
    open_page: OpenPage, replies: Replies
) -> None:
    headings = [new_markdown_cell("# A", id="c1"), new_markdown_cell("## B", id="c2")]
    notebook = open_page(["x = 1", *headings, "y = 2", "z = 3"])
    panel = Panel(notebook.page).open("auto")
    replies.append([edits("c0", "1", "10"), edits("c3", "2", "20"), edits("c4", "3", "30")])
    replies.append([says("Done.")])
    panel.ask("Change all.")
    expect(panel.button("Undo")).to_be_visible()
    for cell in ("c2", "c1"):
        notebook.cell(cell).click()
        notebook.page.keyboard.press("ArrowLeft")  # collapses the section
    expect(head(notebook, 4)).to_be_hidden()
    head(notebook, 1).get_by_role("button", name="Keep", exact=True).click()
    notebook.page.keyboard.press("Alt+F5")
    expect(pill(notebook)).to_contain_text("Change 1 of 2")
    expect(head(notebook, 4)).to_be_in_viewport()
    notebook.page.keyboard.press("Control+Alt+Backspace")
    eventually(notebook.sources, lambda now: now["c3"] == "y = 2")
    expect(head(notebook, 5)).to_be_in_viewport()


def test_two_views_of_a_notebook_have_the_same_marks(open_page: OpenPage, replies: Replies) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    notebook.page.evaluate("() => jupyterapp.commands.execute('docmanager:clone')")
    change_all(panel, replies)
    expect(head(notebook, 1)).to_have_count(2)
    expect(removed(notebook)).to_have_count(2)
    expect(pill(notebook)).to_have_count(2)
    head(notebook, 1).last.get_by_role("button", name="Undo", exact=True).click()
    expect(head(notebook, 1)).to_have_count(0)
    pill(notebook).first.get_by_role("button", name="Undo all").click()
    eventually(notebook.sources, SOURCES.__eq__)
    expect(pill(notebook)).to_have_count(0)


def test_a_new_cell_is_undone_by_who_is_in_its_editor(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(CELLS)
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("create_cell", after="c1", source="new = 1")])
    replies.append([says("Done.")])
    panel.ask("Add one.")
    expect(panel.button("Undo")).to_be_visible()
    notebook.edit(notebook.ids()[2])
    head(notebook, 3).get_by_role("button", name="Undo", exact=True).click()
    eventually(notebook.sources, SOURCES.__eq__)


def test_the_bar_of_the_panel_leads_through_all_notebooks_and_opens_them(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(CELLS)
    other = new_file(lab, "closed_one", ["n = 1"])
    panel = Panel(notebook.page).open("auto")
    replies.append(
        [
            edits("c0", "1", "10"),
            calls("update_cell", notebook=other, cell_id="c0", old_string="1", new_string="5"),
        ]
    )
    replies.append([says("Both.")])
    panel.ask("Change both.")
    expect(changes(panel)).to_contain_text("2 changes")
    expect(changes(panel)).to_contain_text("2 notebooks")
    step = panel.button("Next change")
    step.focus()
    notebook.page.keyboard.press("Enter")
    expect(changes(panel)).to_contain_text("Change 1 of 2")
    notebook.page.keyboard.press("Enter")
    expect(step).to_be_focused()
    expect(changes(panel)).to_contain_text("Change 2 of 2")
    shown = notebook.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(shown.locator(".cm-changedLine")).to_have_text("n = 5")
    panel.button("Undo all").click()
    expect(changes(panel)).to_have_count(0)
    assert notebook.sources() == SOURCES
    expect(shown.locator(".cm-content").first).to_have_text("n = 1")


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
    panel.unfold()
    expect(panel.opened("Cell 1 edited")).to_contain_text("Kept")
    lab.call("POST", f"turns/{turn['id']}/undo")
    expect(notebook.page.locator(".jp-Agent-bar, .jp-Agent-removed")).to_have_count(0)
    expect(panel.log).to_contain_text("Changes undone")
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
