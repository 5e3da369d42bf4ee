"""Users of a hub in its JupyterLab: they sign in, ask in the panel, and see only their own data."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.ui.panel import Panel

from .conftest import Hub


class Desk:
    """A person at a browser of their own."""

    def __init__(self, browser: Browser, hub: Hub, name: str) -> None:
        self.hub = hub
        self.name = name
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page = self.context.new_page()
        self.refused: list[str] = []
        self.page.on("response", lambda answer: self._note(answer.status, answer.url))

    def _note(self, status: int, url: str) -> None:
        if status >= 400 and "/api/agent/" in url:
            self.refused.append(f"{status} {url}")

    def enter(self, owner: str, mode: str = "auto") -> Panel:
        """Signs in, and opens the notebook on that owner's server with the panel beside it."""
        place = f"/user/{owner}/lab/workspaces/{self.name}/tree/coffee.ipynb"
        self.page.goto(f"{self.hub.url}/hub/login?next={quote(place)}")
        self.page.get_by_label("Username").fill(self.name)
        self.page.get_by_label("Password").fill("any")
        self.page.get_by_role("button", name="Sign in").click()
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        authorize = self.page.get_by_role("button", name="Authorize")
        expect(cells.first.or_(authorize)).to_be_visible()
        if authorize.is_visible():  # the hub asks before opening another user's server
            authorize.click()
        expect(cells.first).to_be_visible()
        return Panel(self.page).open(mode)

    def runs(self) -> list[str]:
        """The prompts of the code cells."""
        return self.page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()


@pytest.fixture
def desks(browser: Browser, hub: Hub) -> Iterator[dict[str, Desk]]:
    """Two users, each with a server, and an administrator of the hub. No request of the panel is
    refused."""
    tokens = {name: hub.start(name) for name in ("ada", "sam")}
    desks = {name: Desk(browser, hub, name) for name in (*tokens, "root")}
    yield desks
    assert [desk.refused for desk in desks.values()] == [[], [], []]
    for desk in desks.values():
        desk.context.close()
    for name in tokens:
        hub.stop(name)


def test_two_users_ask_at_once_and_each_is_answered_as_their_group_may(
    desks: dict[str, Desk],
) -> None:
    ada, sam = desks["ada"].enter("ada"), desks["sam"].enter("sam", "read")
    for panel, freer in ((ada, 0), (sam, 3)):
        modes = panel.region.get_by_label("Mode", exact=True).locator("option")
        expect(modes.and_(panel.page.locator(":disabled"))).to_have_count(freer)
    ada.ask("run all")
    sam.ask("run all")
    expect(ada.log).to_contain_text("'737.73 a day'")
    expect(sam.log).to_contain_text("allows no freer mode than read here")
    assert desks["ada"].runs() == ["[1]:", "[2]:", "[3]:"]
    assert desks["sam"].runs() == ["[ ]:"] * 3
    for name, panel in (("ada", ada), ("sam", sam)):
        chosen = panel.region.get_by_label("Model", exact=True)
        models = chosen.locator("option").all_inner_texts()
        assert any("Sonnet" in model for model in models) == (name == "ada")


def test_edits_reach_the_open_tab_through_the_proxy_and_are_undone_there(
    desks: dict[str, Desk], hub: Hub
) -> None:
    panel = desks["ada"].enter("ada")
    token = hub.token_of("ada")
    cells = desks["ada"].page.locator(".jp-Notebook .jp-Cell")
    expect(cells).to_have_count(4)
    call = {"notebook": "coffee.ipynb", "input": {"source": "1 + 1"}, "mode": "auto"}
    made = hub.ask("POST", "user/ada/api/agent/tools/create_cell", token, call)
    assert not made.body["is_error"]
    expect(cells).to_have_count(5)  # at once, and in no file yet
    (opened,) = hub.ask("GET", "user/ada/api/agent/status", token).body["notebooks"]
    assert opened["carrier"] == "tab"
    panel.ask("Show me what you can do")
    expect(panel.button("Undo")).to_be_visible()
    before = cells.count()
    panel.button("Undo").click()
    expect(cells).not_to_have_count(before)


def test_an_administrator_on_a_users_server_is_who_they_are(
    desks: dict[str, Desk], hub: Hub
) -> None:
    sam = desks["sam"].enter("sam", "read")
    sam.ask("run all")
    expect(sam.log).to_contain_text("allows no freer mode than read here")
    root = desks["root"].enter("sam")
    expect(root.region).not_to_contain_text("run all")  # not sam's conversation
    root.ask("run all")
    expect(root.log).to_contain_text("'737.73 a day'")
    assert desks["root"].runs() == ["[1]:", "[2]:", "[3]:"]
    found = hub.ask("GET", "user/sam/api/agent/conversations", hub.token_of("sam"))
    assert len(found.body["conversations"]) == 1
