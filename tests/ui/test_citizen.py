"""A good citizen of JupyterLab and Notebook 7: commands, menus, keys, settings, layout, status."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Response, expect

from tests.fakes import calls, says
from tests.ui.conftest import OpenPage, new_file
from tests.ui.lab import Lab, Replies, right_area
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

LABEXTENSION = Path(__file__).parents[2] / "labextension"
SCHEMA = json.loads((LABEXTENSION / "schema/plugin.json").read_text())
COMMANDS = """async () => {
    const {commands} = jupyterapp;
    const own = commands.listCommands().filter(id => id.startsWith('jupyter-agent:'));
    return Promise.all(own.map(async id => ({
        id,
        label: commands.label(id),
        caption: commands.caption(id),
        describedBy: (await commands.describedBy(id)).args
    })));
}"""
BINDINGS = """() => jupyterapp.commands.keyBindings.map(
    ({command, keys, selector}) => ({command, keys: keys.join(' '), selector})
)"""
OFF_PALETTE = {"jupyter-agent:send", "jupyter-agent:cell-menu"}
"""One needs arguments, the other a place."""


def test_every_command_is_described_and_in_the_palette_and_its_keys_are_nobody_elses(
    notebook: OpenNotebook,
) -> None:
    page = notebook.page
    commands = page.evaluate(COMMANDS)
    assert len(commands) >= 13
    for command in commands:
        assert command["caption"], command
        assert command["describedBy"]["type"] == "object", command
        assert command["label"] or command["id"] == "jupyter-agent:cell-menu", command
        for argument in command["describedBy"]["properties"].values():
            assert argument["description"], command
    bindings = page.evaluate(BINDINGS)
    own = {one["keys"] for one in bindings if one["command"].startswith("jupyter-agent:")}
    others = {one["keys"] for one in bindings if not one["command"].startswith("jupyter-agent:")}
    assert own
    assert not own & others
    notebook.wait_for_kernel()  # before that JupyterLab may take the focus from its own palette
    page.keyboard.press("Control+Shift+C")
    shown = page.locator(".lm-CommandPalette-item[data-command^='jupyter-agent:']")
    page.locator(".lm-CommandPalette-input:visible").fill("Assistant")
    listed = {command["id"] for command in commands} - OFF_PALETTE
    eventually(
        lambda: {item.get_attribute("data-command") for item in shown.all()},
        lambda ids: ids >= listed - {"jupyter-agent:stop", "jupyter-agent:export"},
    )


def test_a_page_loads_little_covers_nothing_asks_for_the_status_once_and_shares_its_packages(
    context: BrowserContext, open_page: OpenPage
) -> None:
    """`.ci/labs` asks for the packages of each version of JupyterLab that we support; what
    extensions of others there (ipywidgets) ask for is not ours.
    """
    widgets = "**/lab/extensions/@jupyter-widgets/**"
    context.route(widgets, lambda route: route.abort())
    asked: list[str] = []
    warned: list[str] = []
    loaded: list[Response] = []
    context.on("request", lambda request: asked.append(request.url))
    context.on("response", lambda response: loaded.append(response))
    context.on("console", lambda message: warned.append(message.text))
    notebook = open_page()
    page = notebook.page
    notebook.wait_for_kernel()
    ours = [response for response in loaded if "/extensions/jupyter-agent/" in response.url]
    scripts = [
        response.body() for response in ours if response.url.partition("?")[0].endswith(".js")
    ]
    page.locator(".jp-Agent-status button").wait_for()
    expect(Panel(page).region).to_be_hidden()
    assert notebook.dialogs() == []
    expect(page.locator(".Toastify__toast")).to_have_count(0)
    box = notebook.cell("c0").bounding_box()
    assert box
    top = "([x, y]) => Boolean(document.elementFromPoint(x, y).closest('.jp-Cell'))"
    assert page.evaluate(top, [box["x"] + 100, box["y"] + 10])
    Panel(page).open()
    assert [text for text in warned if re.search(r"(Unsatisfied|satisfying) version", text)] == []
    assert len([url for url in asked if "/api/agent/status" in url]) == 1
    assert scripts
    loaded = sum(len(gzip.compress(script)) for script in scripts)
    assert loaded < 64_000, "is the panel built for development? See `jlpm build:prod`"


def test_the_run_menu_has_it_and_the_view_menu_opens_it(notebook: OpenNotebook) -> None:
    page = notebook.page
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menu").get_by_text("Assistant", exact=True).hover()
    menu = page.get_by_role("menu").filter(has_text="Refactor This Cell")
    for label in ("Explain This Cell", "Stop the Assistant", "Undo the Last Answer"):
        expect(menu.get_by_text(label)).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.get_by_role("menuitem", name="View", exact=True).click()
    page.get_by_role("menu").get_by_text("Open the Assistant").click()
    expect(Panel(page).message).to_be_focused()


TO_THE_LEFT = """() => {
    const { shell } = jupyterapp;
    shell.add([...shell.widgets('right')].find(one => one.id === 'jupyter-agent'), 'left');
}"""


@pytest.mark.fresh
def test_its_key_gives_the_focus_in_a_page_that_is_never_idle_and_on_either_side(
    notebook: OpenNotebook,
) -> None:
    page = notebook.page
    page.evaluate("window.requestIdleCallback = () => 0")
    panel = Panel(page).open()
    page.evaluate(TO_THE_LEFT)  # by its menu JupyterLab keeps it for all pages
    notebook.cell("c0").click()
    expect(panel.message).to_be_hidden()  # taken out of the page
    panel.open()
    notebook_box, box = notebook.cell("c0").bounding_box(), panel.region.bounding_box()
    assert notebook_box
    assert box
    assert box["x"] < notebook_box["x"]  # it was moved
    button = page.locator(".jp-NotebookPanel-toolbar").get_by_text("Assistant", exact=True)
    button.click()
    expect(panel.message).to_be_hidden()
    button.click()
    expect(panel.message).to_be_focused()


def test_every_setting_is_explained() -> None:
    def explained(name: str, schema: dict[str, Any]) -> None:
        assert schema["title"], name
        assert schema["description"].endswith((".", "?")), name
        for inner, more in schema.get("items", {}).get("properties", {}).items():
            explained(f"{name}.{inner}", more)

    for name, schema in SCHEMA["properties"].items():
        assert "default" in schema, name
        explained(name, schema)


def test_styles_have_no_colours_of_their_own() -> None:
    colour = re.compile(
        r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\(|:\s*(?:white|black|red|gr[ae]y)\b", re.I
    )
    files = [*(LABEXTENSION / "style").glob("*.css")]
    assert files
    for file in files:
        assert not colour.findall(file.read_text()), file.name


def test_notifications_stand_beside_the_panel(panel: Panel) -> None:
    page = panel.page
    told = page.locator(".Toastify__toast")

    def room() -> float:
        """Pixels between the notification and the panel's left edge, or the window's right one."""
        box = told.bounding_box()
        region = panel.region.bounding_box() if panel.region.is_visible() else None
        assert box
        right = region["x"] if region else page.evaluate("innerWidth")
        return float(right - box["x"] - box["width"])

    page.evaluate(
        """() => void jupyterapp.commands.execute('apputils:notify', {
            message: 'Something else happened.',
            type: 'info',
            options: {autoClose: false, actions: [{label: 'Show', commandId: 'apputils:reset'}]}
        })"""
    )
    expect(told).to_be_visible()
    eventually(room, lambda pixels: 0 < pixels < 40, 10)
    page.keyboard.press("Control+B")  # the file browser: the panel is as wide as before
    eventually(room, lambda pixels: 0 < pixels < 40, 10)
    page.set_viewport_size({"width": 900, "height": 700})
    eventually(room, lambda pixels: 0 < pixels < 40, 10)
    page.locator(".jp-SideBar [data-id='jupyter-agent']").click()
    expect(panel.region).to_be_hidden()
    eventually(room, lambda pixels: 0 < pixels < 40, 10)


def test_the_layout_is_restored_with_the_panel(
    notebook: OpenNotebook, panel: Panel, lab: Lab
) -> None:
    eventually(lambda: right_area(lab, panel.page.url), lambda area: area["collapsed"] is False, 20)
    notebook.reload()
    expect(panel.message).to_be_visible()


def test_the_status_bar_tells_model_state_and_tokens_and_opens_the_panel(
    notebook: OpenNotebook, replies: Replies
) -> None:
    page = notebook.page
    item = page.locator(".jp-Agent-status").get_by_role("button")
    expect(item).to_have_text("Sonnet 5.5 · ready")
    panel = Panel(page)
    item.click()
    expect(panel.message).to_be_focused()
    panel.region.get_by_label("Mode", exact=True).select_option("ask")
    replies.append([calls("update_cell", cell_id="c0", source="x = 2")])
    replies.append([says("Done.")])
    panel.ask("Change it.")
    expect(item).to_have_text(re.compile("needs approval"))
    panel.button("Allow").click()
    expect(item).to_have_text(re.compile(r"Sonnet 5\.5 · ready · \d+ tokens"))


def test_everything_in_the_panel_is_reached_with_the_tab_key_and_has_a_name(
    panel: Panel, replies: Replies
) -> None:
    replies.append([calls("update_cell", cell_id="c0", source="x = 2")])
    replies.append([says("Like this:\n\n```python\ny = 1\n```")])
    panel.ask("Change it.")
    expect(panel.button("Undo")).to_be_visible()
    page = panel.page
    page.locator(".jp-Agent-header h2").click()  # the Tab key continues from there
    reached: list[str] = []
    while len(reached) < 40:
        page.keyboard.press("Tab")
        name = page.evaluate(
            """() => {
                const one = document.activeElement;
                return one.closest('#jupyter-agent')
                    ? one.getAttribute('aria-label') || one.title || one.textContent
                    : null;
            }"""
        )
        if name is None:
            break
        assert name.strip()
        reached.append(name)
    wanted = ["New conversation", "Conversations", "Settings", "Conversation"]
    wanted += ["Edit and resend", "Retry", "Undo the changes of this answer", "More"]
    wanted += ["Previous change", "Next change", "Undo all", "Keep all"]
    wanted += ["Message", "Mode", "Model"]
    places = [reached.index(name) for name in wanted]
    assert places == sorted(places)


OTHER_DRIVE = """path => {
    const {contents} = jupyterapp.serviceManager;
    const own = contents._defaultDrive;
    const facts = {name: 'Shelf', contentProviderRegistry: undefined};
    const value = name => typeof own[name] === 'function' ? own[name].bind(own) : own[name];
    contents.addDrive(
        new Proxy(own, {get: (_, name) => name in facts ? facts[name] : value(name)})
    );
    return jupyterapp.commands.execute("docmanager:open", {path: `Shelf:${path}`})
        .then(() => null);
}"""


def test_a_notebook_on_another_drive_is_left_alone_and_the_panel_says_so(
    lab: Lab, notebook: OpenNotebook, replies: Replies
) -> None:
    panel = Panel(notebook.page).open("auto")
    expect(panel.message).to_have_attribute("placeholder", "Ask about this notebook…")
    new_file(lab, "theirs", ["x = 'on the shelf'"])
    notebook.page.evaluate(OTHER_DRIVE, "theirs.ipynb")
    theirs = notebook.page.locator(".jp-NotebookPanel:visible")
    expect(theirs).to_contain_text("on the shelf")
    said = "The assistant can't open notebooks on drive “Shelf”."
    expect(panel.message).to_have_attribute("placeholder", said)
    replies.append([says("Gladly.")])
    panel.ask("Hello?")
    expect(panel.log).to_contain_text("Gladly.")
    assert "Shelf" not in json.dumps(lab.fake.requests[-1])
    assert "Shelf" not in json.dumps(lab.call("GET", "status").body["notebooks"])
