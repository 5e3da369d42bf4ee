"""The display of an answer while it streams, and its details."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage
from tests.ui.gate import Gate
from tests.ui.lab import Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

TOP = "log => log.scrollTop"
BELOW = "log => log.scrollHeight - log.scrollTop - log.clientHeight"


def test_each_request_of_a_turn_opens_as_the_model_got_it(panel: Panel, replies: Replies) -> None:
    replies.append([calls("read_cells", cell_ids=["c1"])])
    replies.append([says("It prints x.")])
    panel.ask("What does the last cell do?")
    expect(panel.log).to_contain_text("It prints x.")
    panel.button("More").click()
    panel.region.get_by_role("menuitem", name="View requests").click()
    sent = panel.region.get_by_role("group", name="Requests")
    expect(sent.get_by_text("Request 1")).to_be_visible()
    sent.get_by_text("Request 2").click()
    second = sent.locator("details").filter(has_text="Request 2").first
    expect(second).to_contain_text("127.0.0.1")
    second.get_by_text("3. user").click()
    expect(second).to_contain_text("print('x is', x)")
    panel.button("More").click()
    panel.region.get_by_role("menuitem", name="Hide requests").click()
    expect(sent).to_have_count(0)


def test_the_reader_stays_where_they_are_while_an_answer_grows(
    panel: Panel, replies: Replies, gate: Gate
) -> None:
    text = "\n\n".join(f"Paragraph {n}." for n in range(120))
    replies.append(Scripted(blocks=[says(text)], stop_after=180, then="wait", gate=gate))
    panel.ask("Write a lot.")
    expect(panel.log).to_contain_text("Paragraph 70.")
    latest = panel.button("Jump to latest")
    expect(latest).to_be_hidden()
    panel.log.hover()
    panel.page.mouse.wheel(0, -300)
    expect(latest).to_be_visible()
    expect(latest).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")  # it is above text
    top = panel.log.evaluate(TOP)
    gate.set()
    expect(panel.log).to_contain_text("Paragraph 119.")
    assert panel.log.evaluate(TOP) == top
    latest.click()
    expect(latest).to_be_hidden()


def test_the_end_is_in_view_after_a_reload_and_after_a_question(
    notebook: OpenNotebook, panel: Panel, replies: Replies
) -> None:
    table = "| a | b |\n|---|---|\n| 1 | $y$ |"
    replies.append([says("\n\n".join(f"Then $x_{n}^2$ is\n\n{table}" for n in range(15)))])
    replies.append([says("The end.")])
    replies.append([says("Not quite.")])
    panel.ask("Derive it.")
    expect(panel.button("Retry")).to_be_visible()
    panel.ask("And then?")
    expect(panel.log).to_contain_text("The end.")
    latest = panel.button("Jump to latest")
    for _ in range(3):
        notebook.reload()
        expect(panel.log.locator("mjx-container").nth(29)).to_be_attached()
        expect(panel.log).to_contain_text("The end.")
        eventually(lambda: panel.log.evaluate(BELOW), lambda below: below < 2)
    expect(latest).to_be_hidden()
    panel.log.evaluate("log => log.scrollTo(0, 0)")
    expect(latest).to_be_visible()
    panel.ask("Is it?")
    expect(panel.log.get_by_text("Not quite.")).to_be_in_viewport()
    expect(latest).to_be_hidden()


def test_the_place_that_is_written_at_is_named_quietly_and_the_focus_stays(
    open_page: OpenPage, replies: Replies, gate: Gate
) -> None:
    notebook = open_page(["x = 1", "y = 2"])
    panel = Panel(notebook.page).open("auto")
    edit = {"cell_id": "c1", "old_string": "2", "new_string": "3  # as you said"}
    reply = [calls("edit_cells", edits=[edit])]
    replies.append(Scripted(blocks=reply, stop_after=8, then="wait", gate=gate))
    replies.append([says("Written.")])
    panel.ask("Set y.")
    line = notebook.cell("c1").locator(".jp-Agent-writing")
    expect(line).to_have_text("The assistant is writing…")
    notebook.edit("c0")
    notebook.type("0")
    gate.set()
    expect(panel.log).to_contain_text("Written.")
    expect(line).to_have_count(0)
    assert notebook.cursor() == ("c0", 6)
    eventually(notebook.sources, lambda now: now == {"c0": "x = 10", "c1": "y = 3  # as you said"})


def test_pointing_at_a_call_marks_its_cell_and_a_click_goes_there(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook: OpenNotebook = open_page([f"x{n} = {n}" for n in range(40)])
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("update_cell", cell_id="c39", old_string="= 39", new_string="= 40")])
    replies.append([says("Done.")])
    panel.ask("Set the last.")
    panel.unfold()
    call = panel.opened("Cell 40 edited")
    call.hover()
    marked = re.compile("jp-Agent-marked")
    call.get_by_role("button", name="Go to cell").click()
    last = notebook.page.locator(".jp-Cell.jp-mod-active")
    expect(last).to_contain_text("x39 = 40")
    expect(last).to_be_in_viewport()
    expect(last).to_have_class(marked)
    panel.message.hover()
    expect(last).not_to_have_class(marked)


def test_of_attempts_that_failed_one_after_the_other_only_the_last_is_shown(
    panel: Panel, replies: Replies
) -> None:
    for _ in range(2):
        replies.append(Scripted(status=529, error=("overloaded_error", "Overloaded")))
    replies.append([says("At last.")])
    panel.ask("Are you there?")
    expect(panel.log).to_contain_text("At last.")
    notices = panel.log.get_by_text("Retried.")
    expect(notices).to_have_count(2)
    expect(notices.first).to_be_hidden()
    expect(notices.last).to_be_visible()
    for _ in range(3):
        replies.append(Scripted(status=529, error=("overloaded_error", "Overloaded")))
    panel.ask("And now?")
    expect(panel.region).to_contain_text("Anthropic is overloaded.")
    expect(notices).to_have_count(4)
    expect(notices.last).to_be_hidden()
