"""A page in which the tests run one after the other, as a person keeps JupyterLab open all day."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Error, Page, expect

from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel

SIZE = {"width": 1280, "height": 900}

CLEAR = """async () => {
  const { commands, shell } = jupyterapp;
  await commands.execute('jupyter-agent:open');
  for (const widget of [...shell.widgets('main')]) {
    widget.dispose();
  }
  document.querySelectorAll('.Toastify__close-button').forEach(button => button.click());
}"""


class Window:
    """The page of the tests here: loading JupyterLab takes longer than most of them."""

    def __init__(self, new_context: Callable[[], BrowserContext], lab: Lab) -> None:
        self._new_context = new_context
        self._lab = lab
        self._context: BrowserContext | None = None
        self._is_taken = False
        self.errors: list[str] = []
        """Of its pages, since the test began."""

    @property
    def context(self) -> BrowserContext:
        if self._context is None:
            self._context = self._new_context()
        return self._context

    def begin(self) -> None:
        """Start a new test: earlier errors are not from its pages."""
        self.errors.clear()
        self._is_taken = False

    def open(self, path: str) -> OpenNotebook:
        """Open it in the page; a second one gets its own page."""
        pages = self.context.pages
        if self._is_taken or not pages:
            notebook = OpenNotebook(self._new_page(), self._lab, path).open()
        else:
            notebook = OpenNotebook(pages[0], self._lab, path).show()
        self._is_taken = True
        return notebook

    def _new_page(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        return page

    def clear(self) -> None:
        """Leave one page, as it was when it was loaded, for the next test."""
        if self._context is None:
            return
        try:
            page, *others = self._context.pages
            for other in others:
                other.close()
            self._context.unroute_all()
            page.unroute_all()
            page.set_viewport_size(SIZE)
            page.evaluate(CLEAR)
            Panel(page).clear()
            expect(page.locator(".jp-Dialog")).to_have_count(0, timeout=1_000)
        except (AssertionError, Error, ValueError):  # it is gone, or not to be used any more
            self.close()

    def close(self) -> None:
        """The next test has a browser with nothing stored in it."""
        if self._context is not None:
            self._context.close()
            self._context = None
