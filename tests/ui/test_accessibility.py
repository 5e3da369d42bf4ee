"""axe-core finds no issues in the panel, light and dark, in any of its states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.fakes import calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.panel import Panel
from tests.ui.states import NO_KEY, STATES, Reach, scene

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"
LOOK = """async selector => {
    const {violations} = await axe.run(selector, {resultTypes: ['violations']});
    return violations.map(
        ({id, help, impact, nodes}) =>
            `${id} (${impact}): ${help}: ` + nodes.map(one => one.html).join(' ')
    );
}"""
ANSWER = """\
## Found

A table, and `code`:

| month | revenue |
|---|---|
| June | 17 |

```python
print("June")
```
"""


def findings(page: Page, selector: str = "#jupyter-agent") -> list[str]:
    """Each rule that is broken, minor ones too."""
    if not page.evaluate("() => 'axe' in window"):
        page.add_script_tag(path=AXE)
    found: list[str] = page.evaluate(LOOK, selector)
    return found


def theme(page: Page, name: str) -> None:
    page.evaluate(
        "name => jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name
    )
    page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)


@pytest.fixture(
    params=["JupyterLab Light", pytest.param("JupyterLab Dark", marks=pytest.mark.full)]
)
def themed(request: pytest.FixtureRequest, open_page: OpenPage, lab: Lab) -> Iterator[Panel]:
    assert AXE.exists(), f"{AXE} is missing: run `jlpm install` in labextension"
    notebook = open_page(cells=["x = 1", "1 / 0"])
    lab.run(notebook.path, "c1")
    theme(notebook.page, request.param)
    yield Panel(notebook.page).open("ask")
    theme(notebook.page, "JupyterLab Light")


UNSEEN = """() => [...document.querySelectorAll('#jupyter-agent button')].filter(button => {
    const icon = button.querySelector('svg [fill]:not([fill=none])');
    return icon && getComputedStyle(icon).fill === getComputedStyle(button).backgroundColor;
}).map(button => button.getAttribute('aria-label'))"""
"""Buttons whose icon has the colour of their background."""


@pytest.mark.full
def test_icons_of_buttons_are_seen_in_forced_colours(panel: Panel) -> None:
    panel.page.emulate_media(forced_colors="active")
    panel.message.fill("Look.")
    expect(panel.button("Send")).to_be_enabled()
    unseen = panel.page.evaluate(UNSEEN)
    panel.page.emulate_media(forced_colors="none")
    assert unseen == []


@pytest.mark.story
def test_nothing_is_found_while_a_turn_is_asked_about_allowed_and_reviewed(
    themed: Panel, replies: Replies
) -> None:
    panel = themed
    assert findings(panel.page) == []  # empty, with first requests
    panel.log.evaluate("log => log.append(document.createElement('button'))")
    assert len(findings(panel.page)) == 1  # it does look
    panel.log.evaluate("log => log.lastChild.remove()")
    replies.append(
        [says(ANSWER), calls("update_cell", cell_id="c0", source="x = 2"), calls("run_cells")]
    )
    replies.append([says("Done.")])
    panel.ask("Look at this.")
    expect(panel.button("Allow")).to_be_visible()
    assert findings(panel.page) == []  # a question
    panel.button("Allow more").click()
    expect(panel.region.get_by_role("menu", name="Allow more")).to_be_visible()
    assert findings(panel.page) == []  # the menu of longer approvals
    panel.page.keyboard.press("Escape")
    panel.message.fill("And then?")
    assert findings(panel.page) == []  # a reason
    panel.button("Queue it instead").click()
    expect(panel.region.get_by_role("region", name="Queued")).to_be_visible()
    assert findings(panel.page) == []  # the queue
    panel.button("Remove “And then?”").click()
    while panel.button("Allow").is_visible():
        panel.button("Allow").click()
        expect(panel.button("Allow").or_(panel.button("Undo"))).to_be_visible()
    expect(panel.log).to_contain_text("Done.")
    panel.unfold()
    panel.button("Usage").click()
    assert findings(panel.page) == []  # an answer with cards, and the account
    panel.message.press_sequentially("/")
    expect(panel.region.get_by_role("listbox", name="Suggestions")).to_be_visible()
    assert findings(panel.page) == []  # suggestions
    panel.message.fill("")
    panel.button("Conversations").click()
    expect(panel.region.get_by_role("listitem").first).to_be_visible()
    assert findings(panel.page) == []
    panel.button("Settings").click()
    assert findings(panel.page) == []
    panel.message.fill("/help")
    panel.message.press("Escape")
    panel.message.press("Enter")
    expect(panel.region.get_by_role("region", name="Help")).to_be_visible()
    assert findings(panel.page) == []
    for mark in (".jp-Agent-markHead", ".jp-Agent-bar", ".jp-Agent-pill", ".jp-Agent-fix"):
        assert findings(panel.page, mark) == []  # in the notebook: an open difference
    assert findings(panel.page, ".jp-Agent-status") == []


THEMES = ("JupyterLab Light", "JupyterLab Dark")
IN_NOTEBOOK = (".jp-Agent-markHead", ".jp-Agent-bar", ".jp-Agent-pill", ".jp-Agent-removed")


@pytest.mark.long
@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
def test_nothing_is_found_in_any_state(
    context: BrowserContext,
    lab: Lab,
    replies: Replies,
    reach: Reach,
    request: pytest.FixtureRequest,
) -> None:
    page = context.new_page()
    shown = scene(page, lab, replies, request.node.name)
    try:
        page.add_script_tag(path=AXE)  # while there is a connection
        reach(shown)
        for name in THEMES:
            theme(page, name)
            assert findings(page) == [], name
            for mark in IN_NOTEBOOK:
                if page.locator(mark).count():
                    assert findings(page, mark) == [], name
    finally:
        shown.end()
        theme(page, THEMES[0])


@pytest.mark.long
def test_nothing_is_found_where_no_key_is_set(context: BrowserContext, tmp_path: Path) -> None:
    replies = Replies()
    with running_lab(tmp_path / "lab", replies, config=NO_KEY) as lab:
        page = context.new_page()
        shown = scene(page, lab, replies, "keyless")
        setup = shown.panel.region.get_by_role("region", name="Set up a model")
        expect(setup).to_be_visible()
        for name in THEMES:
            theme(page, name)
            assert findings(page) == [], name
