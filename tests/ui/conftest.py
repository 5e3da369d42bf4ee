"""JupyterLab in Chromium: a real server, a real page, real keys. Only the model is scripted."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, sync_playwright

from tests.conftest import BROWSER
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.ui.window import SIZE, Window

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

OpenPage = Callable[..., OpenNotebook]
"""Opens a notebook: `open_page(cells=[...])` a new one, `open_page(path=...)` an existing one."""

SEED = 20261125
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Browser tests are `full` except for the stories. Failures are retried once, except in tests
    that explore at random; `--reruns 0` disables retries.
    """
    for item in items:
        if item.nodeid.startswith(BROWSER) and not item.get_closest_marker("long"):
            if config.option.reruns is None:
                item.add_marker(pytest.mark.flaky(reruns=1))
            if not item.get_closest_marker("story"):
                item.add_marker("full")


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """pytest-jupyter's loop would be in the way of playwright's own."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """No server runs in this process, so there is nothing to clean up."""


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser for a script."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found_chromium(), args=FLAGS)
        yield browser
        browser.close()


def found_chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="package")
def chromium() -> str:
    found = found_chromium()
    if found is None:
        pytest.skip("no Chromium: install it, or say where one is with CHROMIUM=/path/to/it")
    return found


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """Only for this folder: while it exists no other event loop can run."""
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def script() -> Replies:
    return Replies()


@pytest.fixture(scope="package")
def lab(
    browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """One server for all tests here; each has its own notebook. A token costs a thousandth."""
    price = {"input": 1000, "output": 1000}
    config = {"JupyterAgent": {"model_facts": {"anthropic:*": {"price": price}}}}
    with running_lab(tmp_path_factory.mktemp("lab") / "lab", script, config=config) as lab:
        yield lab


@pytest.fixture
def replies(script: Replies) -> Iterator[Replies]:
    """The model's next answers: append to it before you ask."""
    script.clear()
    yield script
    script.clear()


LISTS_AGAIN = """
{
  const once = window.fetch;
  window.fetch = async (input, init) => {
    const url = new URL(input.url ?? input, location.href);
    const lists = url.pathname.endsWith('/api/contents') && url.searchParams.get('content') === '1';
    for (;;) {
      const answer = await once(lists && input.url ? input.clone() : input, init);
      if (!lists || answer.status !== 404) {
        return answer;
      }
    }
  };
}
"""
"""Jupyter reports a folder as missing while a file in it is renamed, and JupyterLab's file
browser shows that in a dialog. The folder of all notebooks always exists."""


def _new_context(browser: Browser) -> BrowserContext:
    context = browser.new_context(viewport=SIZE)
    context.add_init_script(LISTS_AGAIN)
    return context


@pytest.fixture
def settings_changed(lab: Lab) -> Iterator[Callable[[], bool]]:
    """Whether the test has changed settings; they last as long as the test, as do its kernels."""
    with lab.kept_settings() as changed:
        yield changed
        lab.shut_down_kernels()


@pytest.fixture
def context(browser: Browser, lab: Lab, settings_changed: object) -> Iterator[BrowserContext]:
    """A browser with nothing stored in it."""
    context = _new_context(browser)
    yield context
    context.close()
    lab.stop_turns()


@pytest.fixture(scope="package")
def windows(browser: Browser) -> Iterator[dict[Lab, Window]]:
    """The open windows: that of the last server."""
    windows: dict[Lab, Window] = {}
    yield windows
    for window in windows.values():
        window.close()


@pytest.fixture(scope="module")
def shared_window(browser: Browser, lab: Lab, windows: dict[Lab, Window]) -> Window:
    """JupyterLab, which the tests here have open all the time, as people do: to load it takes
    longer than most of them."""
    for other in windows.keys() - {lab}:  # a file may have a server of its own
        windows.pop(other).close()
    return windows.setdefault(lab, Window(lambda: _new_context(browser), lab))


@pytest.fixture
def window(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Window]:
    """JupyterLab as it is when it was loaded. Tests marked `fresh`, or with a `context`, load it
    in a browser of their own; for the others what the last one left there is cleared away.
    """
    if "context" in request.fixturenames or request.node.get_closest_marker("fresh"):
        context: BrowserContext = request.getfixturevalue("context")
        yield Window(lambda: context, lab)
        return
    changed: Callable[[], bool] = request.getfixturevalue("settings_changed")
    window: Window = request.getfixturevalue("shared_window")
    ended = lab.ended
    window.begin()
    yield window
    lab.stop_turns()
    if lab.ended != ended or _FAILED in request.node.stash or changed():
        window.close()
    else:
        window.clear()


@pytest.fixture
def open_page(request: pytest.FixtureRequest, lab: Lab, window: Window) -> Iterator[OpenPage]:
    """Opens notebooks: the first in the test's window, each other in a page of its own. Errors of
    our code in a page fail the test; JupyterLab has some of its own when a server ends or a
    notebook is closed, also in a save that was on its way through our code.
    """

    def open_page(
        cells: Sequence[str | NotebookNode] | None = None, path: str | None = None
    ) -> OpenNotebook:
        if path is None:
            path = new_file(lab, request.node.name, cells or ["x = 1", "print('x is', x)"])
        return window.open(path)

    yield open_page
    ours = [error for error in window.errors if "jupyter-agent" in error]
    assert not [error for error in ours if not error.startswith("Error: Disposed")]


@pytest.fixture
def notebook(open_page: OpenPage) -> OpenNotebook:
    """A fresh notebook, open: cells `c0`, `x = 1`, and `c1`, `print('x is', x)`."""
    return open_page()


@pytest.fixture
def page(notebook: OpenNotebook) -> Page:
    """The page in which `notebook` is open."""
    return notebook.page


@pytest.fixture
def panel(notebook: OpenNotebook) -> Panel:
    """The panel beside `notebook`, in mode auto."""
    return Panel(notebook.page).open("auto")


@pytest.fixture
def gate() -> Iterator[Gate]:
    """For `Scripted(then="wait", gate=gate)`; open when the test is over."""
    gate = Gate()
    yield gate
    gate.set()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Always the same, but a new one in each run of a test marked `long`; `SEED=` repeats one."""
    explores = request.node.get_closest_marker("long")
    seed = int(
        os.environ.get("SEED") or (random.SystemRandom().randrange(10**6) if explores else SEED)
    )
    print(f"SEED={seed}")  # noqa: T201 - shown when the test fails
    return seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what the server logged during a test that failed, and keeps pictures of its pages."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    fixtures = getattr(item, "funcargs", {})
    lab: Any = fixtures.get("lab")
    if isinstance(lab, Lab):
        logged = lab.log()
        if report.failed:
            report.sections.append(("JupyterLab's log", logged))
            context: Any = fixtures.get("context")
            if isinstance(context, BrowserContext):
                _take_pictures(context, item.config.cache, item.name)
    return report


def _take_pictures(context: BrowserContext, cache: pytest.Cache | None, test: str) -> None:
    """One of each page, in `.pytest_cache/d/pages`; none of a page that does not answer."""
    folder = Path(tempfile.gettempdir()) if cache is None else cache.mkdir("pages")
    name = re.sub(r"\W+", "-", test)
    for number, page in enumerate(context.pages):
        with suppress(Error):
            page.screenshot(path=folder / f"{name}-{number}.png", timeout=5_000)


def new_file(lab: Lab, name: str, sources: Sequence[str | NotebookNode]) -> str:
    """A new notebook, as by `write_notebook`; its path."""
    # Never the path of an earlier one, which may have been renamed, or have its page still.
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    path = next(path for each in names if (path := f"{each}.ipynb") not in lab.paths)
    lab.paths.add(path)
    write_notebook(lab, path, sources)
    return path


def write_notebook(lab: Lab, path: str, sources: Sequence[str | NotebookNode]) -> None:
    """Write a Python notebook with these cells, or code cells `c0`, `c1` and so on."""
    cells = [
        new_code_cell(source, id=f"c{n}") if isinstance(source, str) else source
        for n, source in enumerate(sources)
    ]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), lab.root / path)
