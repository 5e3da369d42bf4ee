"""The display of a turn's work, during and after the turn: activity, waits and failures."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies
from tests.ui.panel import Panel
from tests.waiting import eventually

PLOT = "import matplotlib.pyplot as plt\nplt.plot({points})\nplt.show()"
PICTURE = """\
import base64, os
from IPython.display import display
data = base64.b64encode(b"\\x89PNG" + os.urandom(60_000)).decode()
display({"image/png": data, "text/plain": "<Figure>"}, raw=True)"""


def test_the_calls_between_two_passages_are_one_list_whose_failure_says_why(
    open_page: OpenPage, replies: Replies, gate: Gate
) -> None:
    panel = Panel(open_page(cells=["x = 1", "x.cost"]).page).open("auto")
    replies.append([says("I look first."), calls("get_notebook_state")])
    replies.append([calls("update_cell", cell_id="c0", source="x = 2"), calls("run_cells")])
    replies.append([says("It fails."), calls("update_cell", cell_id="c1", source="x")])
    replies.append(Scripted(blocks=[says("Done now.")], stop_after=0, then="wait", gate=gate))
    panel.ask("Make it run.")
    expect(panel.call("Cell 2 edited")).to_be_visible()
    blocks = panel.log.locator(".jp-Agent-work")
    expect(blocks).to_have_count(2)
    names = [one.get_attribute("aria-label") for one in blocks.first.get_by_role("group").all()]
    assert names == ["Read the notebook", "Cell 1 edited", "Ran cells 1–2"]
    failed = panel.call("Ran cells 1–2")
    expect(failed.get_by_role("button")).to_have_attribute("aria-expanded", "false")
    expect(failed).to_contain_text("error in cell 2")
    expect(failed).to_contain_text("AttributeError: 'int' object has no attribute 'cost'")
    expect(failed).not_to_contain_text("Traceback")
    expect(panel.opened("Ran cells 1–2")).to_contain_text("Traceback")
    gate.set()
    folded = panel.log.get_by_role("button", name="4 steps, 2 cells changed, ran 1–2")
    expect(folded).to_contain_text(re.compile(r"\d s"))
    expect(panel.log).to_contain_text("Done now.")
    expect(panel.log).not_to_contain_text("It fails.")  # a remark on the work
    expect(panel.log).not_to_contain_text("Traceback")
    folded.click()
    expect(panel.log).to_contain_text("It fails.")
    expect(panel.call("Ran cells 1–2")).to_be_visible()


def test_new_plots_are_small_pictures_of_their_cells_and_known_ones_are_not_shown_again(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    cells = [PLOT.format(points=[1, n, 2]) for n in range(5)]
    notebook = open_page(cells=cells)
    lab.run(notebook.path, "c0")
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("run_cells")])
    replies.append([says("All drawn.")])
    panel.ask("Run all.")
    expect(panel.log).to_contain_text("All drawn.")
    pictures = panel.log.get_by_role("img", name=re.compile("^Plot in cell"))
    expect(pictures).to_have_count(3)
    shown = [picture.get_attribute("alt") for picture in pictures.all()]
    assert shown == ["Plot in cell 2", "Plot in cell 3", "Plot in cell 4"]
    expect(panel.log).to_contain_text("+1 more")
    panel.log.get_by_role("button", name="Plot in cell 4").click()
    expect(notebook.page.locator(".jp-Cell.jp-mod-active")).to_contain_text("[1, 3, 2]")


def test_plots_that_are_too_large_for_an_answer_are_named_by_their_cells(
    open_page: OpenPage, replies: Replies
) -> None:
    panel = Panel(open_page(cells=[PICTURE] * 15).page).open("auto")
    replies.append([calls("run_cells")])
    replies.append([says("All drawn.")])
    panel.ask("Run all.")
    expect(panel.log).to_contain_text("All drawn.")
    panel.unfold()
    expect(panel.opened("Ran cells 1–15")).to_contain_text("Plots in cells 1–15")
    expect(panel.log).not_to_contain_text("characters")


def test_a_chord_allows_what_was_read_and_no_other_key_does(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(cells=["x = 1"])
    page = notebook.page
    panel = Panel(page).open("ask")
    long = "\n".join(f"line_{n} = {n}" for n in range(80))
    replies.append([calls("update_cell", cell_id="c0", source=long)])
    replies.append([says("Changed.")])
    panel.ask("Change it.")
    expect(panel.button("Show the rest")).to_be_visible()
    panel.message.press("Enter")
    page.keyboard.press("Escape")
    panel.message.focus()
    assert notebook.sources() == {"c0": "x = 1"}

    def press() -> bool:
        page.keyboard.press("Control+Enter")
        return panel.button("Show the rest").is_hidden()

    eventually(press, bool)  # it scrolls on; nothing is allowed unseen
    assert notebook.sources() == {"c0": "x = 1"}
    expect(panel.button("Allow")).to_be_visible()
    page.evaluate(
        """() => document.activeElement.dispatchEvent(new KeyboardEvent('keydown',
            {key: 'Enter', ctrlKey: true, repeat: true, bubbles: true, cancelable: true}))"""
    )
    assert notebook.sources() == {"c0": "x = 1"}
    page.keyboard.press("Control+Enter")
    expect(panel.log).to_contain_text("Changed.")
    assert notebook.sources() == {"c0": long}
    expect(panel.message).to_have_value("")


def test_what_was_begun_before_the_question_is_a_follow_up_and_no_reason(
    open_page: OpenPage, replies: Replies, gate: Gate
) -> None:
    notebook = open_page(cells=["x = 1"])
    panel = Panel(notebook.page).open("ask")
    edit = calls("update_cell", cell_id="c0", source="x = 2")
    replies.append(Scripted(blocks=[says("Wait."), edit], stop_after=3, then="wait", gate=gate))
    replies.append([says("Changed.")])
    replies.append([says("Plotted.")])
    panel.ask("Change it.")
    expect(panel.log).to_contain_text("Wait.")
    panel.message.press_sequentially("And then plot")
    gate.set()
    expect(panel.button("Deny")).to_be_visible()
    panel.message.press_sequentially(" it.\n")
    expect(panel.region.get_by_role("region", name="Queued")).to_contain_text("And then plot it.")
    panel.message.press_sequentially("or later")  # begun while it asks
    expect(panel.region.get_by_role("note")).to_contain_text("Enter denies with this reason.")
    panel.message.fill("")
    panel.button("Allow").click()
    expect(panel.log).to_contain_text("Plotted.")
    assert notebook.sources() == {"c0": "x = 2"}


def test_of_a_run_known_cells_are_a_line_each_and_changed_ones_come_first_in_full(
    open_page: OpenPage, replies: Replies
) -> None:
    tricky = "a = '\u202e'\nb = 2"
    notebook = open_page(cells=["x = 1\ny = 2", "z = 3\nz + 1", tricky, "w = 4\nw + 1"])
    panel = Panel(notebook.page).open("ask")
    replies.append([calls("update_cell", cell_id="c1", old_string="z = 3", new_string="z = 30")])
    replies.append([calls("run_cells")])
    replies.append([says("It ran.")])
    panel.ask("Change and run.")
    expect(panel.button("Allow")).to_be_visible()
    panel.button("Allow").click()
    card = panel.region.get_by_role("group", name="Run all cells?")
    lines = card.locator(".jp-Agent-foldedCell")
    expect(lines).to_have_text(["cell 1x = 1+1 line", "cell 4w = 4+1 line"])
    code = card.locator("pre.jp-Agent-code")
    expect(code).to_have_count(2)  # changed by the assistant, or not what it looks like
    assert "z = 30\nz + 1" in code.first.inner_text()
    lines.first.click()
    expect(lines).to_have_count(0)
    expect(code).to_have_count(4)
    panel.allow()
    expect(panel.log).to_contain_text("It ran.")


def test_the_error_of_a_failed_answer_stays_with_it(panel: Panel, replies: Replies) -> None:
    said = "Your credit balance is too low to access the API."
    replies.append(Scripted(status=400, error=("invalid_request_error", said)))
    replies.append([says("Here I am.")])
    panel.ask("Are you there?")
    alert = panel.region.get_by_role("alert")
    expect(alert).to_contain_text("Your Anthropic credit is used up.")
    expect(alert).not_to_contain_text("Nothing was lost")
    expect(alert.get_by_role("link", name="Open billing")).to_be_visible()
    expect(alert).not_to_contain_text(said)
    alert.get_by_role("button", name="Details").click()
    expect(alert).to_contain_text(said)
    panel.ask("And now?")
    expect(panel.log).to_contain_text("Here I am.")
    expect(alert).to_have_count(0)
    first = panel.log.get_by_role("article", name="Answer").first
    expect(first).to_contain_text("Your Anthropic credit is used up.")


def test_an_answer_is_copied_and_asked_for_again_with_what_was_attached(
    panel: Panel, replies: Replies, lab: Lab
) -> None:
    replies.append([says("It is **seven**."), calls("get_notebook_state")])
    replies.append([says("As I said.")])
    replies.append([says("It is eight.")])
    panel.ask("How many?")
    expect(panel.log).to_contain_text("As I said.")
    expect(panel.log.get_by_role("article", name="Answer")).to_contain_text("2 requests, ")
    expect(panel.region.get_by_role("heading", name="How many?")).to_have_count(0)
    panel.button("Copy").click()
    panel.message.focus()
    panel.page.keyboard.press("Control+v")
    expect(panel.message).to_have_value("It is **seven**.\n\nAs I said.")
    panel.message.fill("")
    panel.button("Retry").click()
    expect(panel.log).to_contain_text("It is eight.")
    expect(panel.log).not_to_contain_text("As I said.")
    expect(panel.log.locator(".jp-Agent-question")).to_have_count(1)
    assert "x = 1" in str(lab.fake.requests[-1]["messages"][-1])  # the active cell, as before
