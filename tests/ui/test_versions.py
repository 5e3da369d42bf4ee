"""Approval and review in the notebook, in JupyterLab and in Notebook 7 of the installed version."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.fakes import calls, says
from tests.ui.conftest import new_file
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually


def cell(page: Page, position: int) -> Locator:
    return page.locator(".jp-Notebook .jp-Cell").nth(position - 1)


def head(page: Page, position: int) -> Locator:
    return page.get_by_role("group", name=f"Change in cell {position}", exact=True)


def opened(context: BrowserContext, lab: Lab, place: str, path: str) -> Panel:
    """The panel beside the notebook, its tab linked."""
    page = context.new_page()
    if place == "lab":
        OpenNotebook(page, lab, path).open()
        Panel(page).open("ask")
    else:
        page.goto(f"{lab.url}/notebooks/{path}?token={lab.token}")
        expect(cell(page, 1).locator(".cm-content")).to_have_text("x = 1")
        page.get_by_role("menuitem", name="View", exact=True).click()
        page.get_by_role("menu").get_by_text("Open the Assistant").click()
        expect(Panel(page).message).to_be_focused()
        Panel(page).region.get_by_label("Mode", exact=True).select_option("ask")
    eventually(lambda: lab.notebook(path)["carrier"], lambda name: name == "tab", 60)
    return Panel(page)


@pytest.mark.story
@pytest.mark.parametrize("place", [pytest.param("lab", marks=pytest.mark.full), "notebook"])
def test_changes_are_allowed_shown_in_place_walked_with_keys_kept_and_undone(
    context: BrowserContext, lab: Lab, replies: Replies, place: str
) -> None:
    errors: list[str] = []
    context.on("weberror", lambda web: errors.append(web.error.stack or str(web.error)))
    path = new_file(lab, f"versions_{place}", ["x = 1", "y = 2", "z = 3", "print(x)"])
    panel = opened(context, lab, place, path)
    page, keys = panel.page, panel.page.keyboard
    edits = [
        calls("update_cell", cell_id=f"c{n}", source=f"{name} = {n + 10}")
        for n, name in enumerate("xyz")
    ]
    replies.append(edits)
    replies.append([calls("run_cell", cell_id="c3")])
    replies.append([says("Done.")])
    panel.ask("Change three and run.")
    expect(panel.button("Allow")).to_be_visible()
    assert [one["source"] for one in lab.notebook(path)["cells"]][0] == "x = 1"
    panel.allow()
    for position in (1, 2, 3):
        expect(head(page, position)).to_contain_text("Assistant +1 −1")
    expect(cell(page, 1).locator(".cm-deletedChunk")).to_have_text("x = 1")
    expect(panel.button("Deny")).to_be_visible()
    panel.message.fill("Run it later.")
    panel.message.press("Enter")
    expect(panel.log).to_contain_text("Done.")
    expect(cell(page, 4).locator(".jp-InputPrompt")).to_have_text("[ ]:")
    pill = page.get_by_role("group", name="Review", exact=True)
    bar = panel.region.get_by_role("group", name="Changes", exact=True)
    expect(pill).to_contain_text("3 changes")
    expect(bar).to_contain_text("3 changes")
    for number in (1, 2):
        keys.press("Alt+F5")
        expect(pill).to_contain_text(f"Change {number} of 3")
        expect(bar).to_contain_text(f"Change {number} of 3")
        expect(head(page, number)).to_be_in_viewport()
    head(page, 2).get_by_role("button", name="Undo", exact=True).click()
    expect(cell(page, 2).locator(".cm-content")).to_have_text("y = 2")
    head(page, 1).get_by_role("button", name="Keep", exact=True).click()
    expect(head(page, 1)).to_have_count(0)
    expect(cell(page, 1).locator(".cm-content")).to_have_text("x = 10")
    bar.get_by_role("button", name="Undo all", exact=True).click()
    expect(pill).to_have_count(0)
    expect(bar).to_have_count(0)
    sources = [one["source"] for one in lab.notebook(path)["cells"]]
    assert sources == ["x = 10", "y = 2", "z = 3", "print(x)"]
    replies.append([calls("run_cell", cell_id="c0")])
    replies.append([says("It ran.")])
    panel.ask("Run it.")
    panel.allow()
    expect(panel.log).to_contain_text("It ran.")
    expect(cell(page, 1).locator(".jp-InputPrompt")).to_have_text("[1]:")
    panel.unfold()
    expect(panel.call("Ran cell 1")).to_be_visible()
    assert [error for error in errors if "jupyter-agent" in error] == []
