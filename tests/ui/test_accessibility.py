"""axe-core finds nothing serious in the panel, light and dark, in each of its main states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jupyter_agent.testing import calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies
from tests.ui.panel import Panel

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"
LOOK = """async selector => {
    const {violations} = await axe.run(selector, {resultTypes: ['violations']});
    return violations
        .filter(({impact}) => impact === 'serious' || impact === 'critical')
        .map(({id, help, nodes}) => `${id}: ${help}: ` + nodes.map(one => one.html).join(' '));
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
    """What axe calls serious or critical."""
    if not page.evaluate("() => 'axe' in window"):
        page.add_script_tag(path=AXE)
    found: list[str] = page.evaluate(LOOK, selector)
    return found


def theme(page: Page, name: str) -> None:
    page.evaluate(
        "name => jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name
    )
    page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)


@pytest.fixture(params=["JupyterLab Light", "JupyterLab Dark"])
def themed(request: pytest.FixtureRequest, open_page: OpenPage, lab: Lab) -> Iterator[Panel]:
    assert AXE.exists(), f"{AXE} is missing: run `jlpm install` in labextension"
    notebook = open_page(cells=["x = 1", "1 / 0"])
    lab.run(notebook.path, "c1")
    theme(notebook.page, request.param)
    yield Panel(notebook.page).open("ask")
    theme(notebook.page, "JupyterLab Light")


def test_nothing_serious_is_found_in_any_state(themed: Panel, replies: Replies) -> None:
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
    panel.ask("And then?")
    expect(panel.region.get_by_role("region", name="Waiting to be asked")).to_be_visible()
    assert findings(panel.page) == []  # what waits
    panel.button("Remove “And then?”").click()
    while panel.button("Allow").is_visible():
        panel.button("Allow").click()
        expect(panel.button("Allow").or_(panel.button("Undo turn"))).to_be_visible()
    expect(panel.log).to_contain_text("Done.")
    panel.region.get_by_role("button", name="2 steps").click()
    assert findings(panel.page) == []  # an answer with cards, and the account
    panel.message.press_sequentially("/")
    expect(panel.region.get_by_role("listbox", name="Suggestions")).to_be_visible()
    assert findings(panel.page) == []  # suggestions
    panel.message.fill("")
    panel.button("Conversations").click()
    expect(panel.region.get_by_role("listitem").first).to_be_visible()
    assert findings(panel.page) == []
    panel.button("Models and keys").click()
    assert findings(panel.page) == []
    panel.message.fill("/help")
    panel.message.press("Escape")
    panel.message.press("Enter")
    expect(panel.region.get_by_role("region", name="Help")).to_be_visible()
    assert findings(panel.page) == []
    assert findings(panel.page, ".jp-Agent-fix") == []
    assert findings(panel.page, ".jp-Agent-status") == []
