"""Another extension beside ours, as installed by pip, each in an environment of its own.

`bash .ci/neighbours` makes the environments and runs these tests; elsewhere they are not collected.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Response

from tests.ui.conftest import (
    browser,
    chromium,
    jp_asyncio_loop,
    jp_server_cleanup,
    new_file,
    playwright,
    pytest_runtest_makereport,
    replies,
    script,
)
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

__all__ = [
    "browser",
    "chromium",
    "jp_asyncio_loop",
    "jp_server_cleanup",
    "playwright",
    "pytest_runtest_makereport",
    "replies",
    "script",
]

if "NEIGHBOUR" not in os.environ:
    collect_ignore_glob = ["test_*.py"]

HERE = Path(__file__).parent
CELLS = ["x = 1", "print('x is', x)"]
LISTS = """() => ({
    commands: jupyterapp.commands.listCommands(),
    bindings: jupyterapp.commands.keyBindings.map(
        ({command, keys, selector}) => ({command, keys: keys.join(' '), selector})
    ),
    extensions: JSON.parse(
        document.getElementById('jupyter-config-data').textContent
    ).federated_extensions.map(({name}) => name)
})"""
FAULTS = re.compile(r"^\[E .*?\] (.*)|^(\w*(?:Error|Exception)\b.*)", re.M)
VARYING = re.compile(r"[0-9a-f]{8}[0-9a-f-]{4,}|\d+(?:\.\d+)?")
"""Ids, ports and times."""


@dataclass
class Seen:
    """One page of JupyterLab in which a person works briefly, and its server."""

    faults: set[str] = field(default_factory=set)
    """Errors in the console and of the page, answers from 400 on, errors in the server's log."""
    commands: set[str] = field(default_factory=set)
    bindings: list[dict[str, str]] = field(default_factory=list)
    extensions: set[str] = field(default_factory=set)
    """The page's extensions, by name."""
    patterns: list[str] = field(default_factory=list)
    """The server's routes, in order."""

    def watch(self, page: Page) -> None:
        """Records faults from now on."""

        def console(message: ConsoleMessage) -> None:
            if message.type == "error":
                place = urlsplit(message.location["url"]).path
                self.fault(f"console: {message.text} ({place})")

        def answered(response: Response) -> None:
            if response.status >= 400:
                asked = f"{response.request.method} {urlsplit(response.url).path}"
                self.fault(f"answer: {asked}", f": {response.status}")

        page.on("console", console)
        page.on("pageerror", lambda error: self.fault(f"page: {error}"))
        page.on("response", answered)

    def fault(self, text: str, end: str = "") -> None:
        """Records a text without parts that vary between runs; `end` verbatim."""
        self.faults.add(VARYING.sub("N", text) + end)

    def look(self, notebook: OpenNotebook) -> None:
        """Records the registered parts, and the server's log."""
        lists = notebook.page.evaluate(LISTS)
        self.commands = set(lists["commands"])
        self.bindings = lists["bindings"]
        self.extensions = set(lists["extensions"])
        self.patterns = notebook.lab.request("GET", "listed-routes").body["patterns"]
        log = notebook.lab.root.parent / "lab.log"  # `Lab.log` only returns new lines
        for fault in FAULTS.finditer(log.read_text(encoding="utf-8", errors="replace")):
            self.fault(f"log: {fault[1] or fault[2]}")


@contextmanager
def lab_beside(folder: Path, script: Replies, *, ours: bool) -> Iterator[Lab]:
    """JupyterLab with all installed extensions enabled, except for us without `ours`."""
    folder.mkdir()
    shutil.copy(HERE / "listed_routes.py", folder)  # the server's working directory
    extensions = {"listed_routes": True} | ({} if ours else {"jupyter_agent": False})
    config: dict[str, Any] = {
        "ServerApp": {"jpserver_extensions": extensions},
        "YDocExtension": {"disable_rtc": False},
    }
    page = folder / "config" / "labconfig" / "page_config.json"
    with running_lab(folder, script, config=config, panel=False) as lab:
        if not ours:  # before any page requests it
            page.parent.mkdir()
            page.write_text(json.dumps({"disabledExtensions": {"jupyter-agent": True}}))
        yield lab


@contextmanager
def a_page(browser: Browser) -> Iterator[BrowserContext]:
    """A browser with empty storage."""
    context = browser.new_context(viewport={"width": 1500, "height": 900})
    yield context
    context.close()


def work(lab: Lab, context: BrowserContext, seen: Seen) -> OpenNotebook:
    """A person opens a notebook, types, runs it and saves, all by keys and without us."""
    page = context.new_page()
    seen.watch(page)
    welcome = page.locator("[role=dialog]:not(.jp-Dialog)")
    page.add_locator_handler(welcome, lambda _: page.keyboard.press("Escape"))
    notebook = OpenNotebook(page, lab, new_file(lab, "beside", CELLS)).open()
    notebook.wait_for_kernel()
    notebook.dismiss_dialogs()
    notebook.edit("c0")
    notebook.type(" + 1")
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    eventually(lambda: notebook.output_text("c1").strip(), "x is 2".__eq__)
    notebook.save()
    eventually(lambda: notebook.saved()["c0"], "x = 1 + 1".__eq__)
    return notebook


@pytest.fixture(scope="package")
def alone(browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The neighbours without us."""
    seen = Seen()
    folder = tmp_path_factory.mktemp("alone") / "lab"
    with lab_beside(folder, script, ours=False) as lab, a_page(browser) as context:
        notebook = work(lab, context, seen)
        seen.look(notebook)
    return seen


@pytest.fixture(scope="package")
def together() -> Seen:
    """The record of `notebook`."""
    return Seen()


@pytest.fixture(scope="package")
def lab(
    browser: Browser, alone: Seen, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The neighbours and us. Not at the same time as `alone`: some use a fixed port."""
    with lab_beside(tmp_path_factory.mktemp("beside") / "lab", script, ours=True) as lab:
        yield lab


@pytest.fixture(scope="package")
def notebook(lab: Lab, browser: Browser, together: Seen) -> Iterator[OpenNotebook]:
    """The same work beside us, and its notebook."""
    with a_page(browser) as context:
        yield work(lab, context, together)
