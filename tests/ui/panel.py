"""The side panel as a person uses it; its parts are found by their visible names."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

STEPS = re.compile(r"^\d+ steps?\b")
"""The line that the work of an answer folds to."""

expect.set_options(timeout=60_000)  # milliseconds; machines that test may be slow and shared


class Panel:
    """The panel of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.region = page.get_by_role("region", name="Assistant")
        self.log = page.get_by_role("log", name="Conversation")
        self.message = page.get_by_role("textbox", name="Message")

    def open(self, mode: str | None = None) -> Panel:
        self.page.keyboard.press("Control+Alt+g")
        expect(self.message).to_be_focused()
        if mode:
            self.region.get_by_label("Mode", exact=True).select_option(mode)
        return self

    def clear(self) -> None:
        """Nothing is drafted or attached, and it is closed."""
        self.ask("/clear")
        self.page.evaluate("jupyterapp.shell.collapseRight()")

    def ask(self, text: str) -> None:
        self.message.fill(text)
        self.message.press("Enter")

    def call(self, words: str) -> Locator:
        return self.log.get_by_role("group", name=words, exact=True)

    def unfold(self) -> None:
        """Show the steps of the answers, once the last one is done."""
        folded = self.log.get_by_role("button", name=STEPS, expanded=False)
        expect(folded.last).to_be_visible()
        while folded.count():
            folded.first.click()

    def opened(self, words: str) -> Locator:
        """The call with all its details."""
        call = self.call(words)
        head = call.get_by_role("button").first
        if head.get_attribute("aria-expanded") == "false":
            head.click()
        return call

    def button(self, name: str) -> Locator:
        return self.region.get_by_role("button", name=name, exact=True)

    def read(self) -> None:
        """Read the question to its end."""
        more, allow = self.button("Show the rest"), self.button("Allow")
        expect(more.or_(allow)).to_be_visible()
        while more.is_visible():
            more.click()

    def allow(self) -> None:
        """Read the question to its end, and allow it."""
        self.read()
        self.button("Allow").click()

    def allow_more(self) -> None:
        """Read the question, and open the menu of longer approvals."""
        self.read()
        self.button("Allow more").click()
