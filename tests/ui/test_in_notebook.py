"""The assistant's actions in the notebook itself, and its notifications for a user who was away."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies, right_area, settings, workspace
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.ui.test_composer import sent, suggestions
from tests.waiting import eventually

OFFERED = [
    "Explain This Cell",
    "Fix the Error in This Cell",
    "Refactor This Cell",
    "Add a Test for This Cell",
    "Continue From Here",
    "Ask About This Cell…",
]


def test_a_cell_that_failed_is_a_first_request_and_has_a_button_to_fix_it_until_it_runs(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    table = "sales = pd.DataFrame({'a': [1]})"
    notebook = open_page(cells=[table, "y = 1 / 0", "'the active one'"])
    page = notebook.page
    fix = page.get_by_role("button", name="Fix with the assistant")
    expect(fix).to_have_count(0)
    lab.run(notebook.path, "c1")
    expect(fix).to_have_count(1)
    panel = Panel(page).open()
    expect(panel.button("Fix the error in cell 2")).to_be_visible()
    expect(panel.button("Plot the key trends in sales")).to_be_visible()
    notebook.edit("c2")
    replies.append([says("You divide by zero.")])
    fix.click()
    expect(panel.log).to_contain_text("You divide by zero.")
    asked = str(lab.fake.requests[-1]["messages"][-1])
    assert "Find out why this cell fails, and fix it." in asked
    assert "y = 1 / 0" in asked
    assert asked.count("the active one") == 1  # in the notebook; it is not attached
    lab.edit(notebook.path, "c1", source="y = 1")
    lab.run(notebook.path, "c1")
    expect(fix).to_have_count(0)


@pytest.mark.fresh
def test_settings_switch_the_button_under_errors_off_and_add_commands_of_the_users_own(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    own = {"name": "german", "description": "Auf Deutsch", "text": "Say in German: {input}!"}
    with settings(lab, errorButton=False, commands=[own]):
        notebook = open_page(cells=["1 / 0"])
        lab.run(notebook.path, "c0")
        expect(notebook.cell("c0")).to_contain_text("ZeroDivisionError")
        notebook.page.get_by_role("button", name="Assistant", exact=False).first.wait_for()
        expect(notebook.page.locator(".jp-Agent-fix")).to_have_count(0)
        panel = Panel(notebook.page).open()
        panel.page.keyboard.type("/ger")
        expect(suggestions(panel)).to_contain_text("Auf Deutsch")
        panel.page.keyboard.press("Tab")
        replies.append([says("Guten Morgen!")])
        panel.page.keyboard.type("good morning\n")
        expect(panel.log).to_contain_text("Guten Morgen!")
        assert "Say in German: good morning!" in sent(lab)


@pytest.mark.story
def test_the_menus_of_a_cell_offer_what_can_be_done_with_it_and_a_selection_goes_along(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    notebook = open_page(cells=["x = 1", "double = lambda n: 2 * n"])
    page = notebook.page
    panel = Panel(page)
    notebook.edit("c1")
    cell = notebook.cell("c1")
    cell.locator("[data-command='jupyter-agent:cell-menu']").click()
    menu = page.get_by_role("menu").last
    expect(menu.locator(".lm-Menu-itemLabel")).to_have_text(OFFERED)
    replies.append([says("I would test it.")])
    menu.get_by_text("Add a Test for This Cell").click()
    expect(panel.log).to_contain_text("I would test it.")
    asked = str(lab.fake.requests[-1]["messages"][-1])
    assert "Add a cell below this one that tests it" in asked
    assert "double = lambda" in asked
    cell.click(button="right")
    page.get_by_role("menu").get_by_text("Assistant", exact=True).hover()
    submenu = page.get_by_role("menu").filter(has_text="Refactor This Cell")
    expect(submenu.locator(".lm-Menu-itemLabel")).to_have_text(OFFERED)
    replies.append([says("Two is doubled.")])
    submenu.get_by_text("Explain This Cell").click()
    expect(panel.log).to_contain_text("Two is doubled.")
    asked = str(lab.fake.requests[-1]["messages"][-1])
    assert "Explain this cell." in asked
    assert "double = lambda" in asked
    notebook.edit("c0", at=0)
    page.keyboard.press("Shift+ArrowRight")
    page.evaluate("() => void jupyterapp.commands.execute('jupyter-agent:send-selection')")
    expect(panel.message).to_be_focused()
    expect(panel.button("Remove @ selection, 1 characters")).to_be_visible()


def test_what_changed_meanwhile_is_announced_and_one_click_away(
    notebook: OpenNotebook, panel: Panel, replies: Replies, gate: Gate
) -> None:
    replies.append([calls("update_cell", cell_id="c0", source="x = 2")])
    replies.append(Scripted(blocks=[says("Ready. " * 400)], stop_after=3, then="wait", gate=gate))
    panel.ask("Work on.")
    expect(panel.log).to_contain_text("Ready.")
    expect(panel.button("Stop")).to_be_visible()
    tab = panel.page.locator(".jp-SideBar [data-id='jupyter-agent']")
    tab.click()
    expect(panel.region).to_be_hidden()
    gate.set()
    told = panel.page.locator(".jp-Notification-Toast, .Toastify__toast")
    expect(told).to_contain_text(f"1 cell changed in {notebook.path}.")
    expect(tab).to_have_class(re.compile("jp-Agent-news"))
    panel.page.get_by_role("button", name="Show", exact=True).click()
    expect(panel.log).to_contain_text("Ready.")
    panel.unfold()
    expect(panel.call("Cell 1 edited")).to_be_in_viewport()
    expect(tab).not_to_have_class(re.compile("jp-Agent-news"))


def test_a_turn_that_ended_while_no_page_was_open_is_announced_once_in_the_next_one(
    context: BrowserContext, open_page: OpenPage, lab: Lab, replies: Replies, gate: Gate
) -> None:
    notebook = open_page()
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("update_cell", cell_id="c0", source="x = 2")])
    replies.append(Scripted(blocks=[says("Ready.")], stop_after=3, then="wait", gate=gate))
    panel.ask("Work on.")
    expect(panel.call("Cell 1 edited")).to_be_visible()
    address = notebook.page.url
    eventually(lambda: right_area(lab, address), lambda area: area["collapsed"] is False)
    panel.page.locator(".jp-SideBar [data-id='jupyter-agent']").click()
    eventually(lambda: right_area(lab, address), lambda area: area["collapsed"] is True)
    eventually(lambda: workspace(lab, address), lambda saved: "jupyter-agent:assistant" in saved)
    notebook.page.close()
    gate.set()
    eventually(lambda: lab.call("GET", "status").body["turns"], lambda turns: not turns)
    page = context.new_page()
    later = OpenNotebook(page, lab, notebook.path).open(address)
    page.get_by_text("1 cell changed in").wait_for()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(Panel(page).log).to_contain_text("Ready.")
    later.reload()
    expect(Panel(page).open().log).to_contain_text("Ready.")
    expect(page.get_by_text("1 cell changed in")).to_have_count(0)
