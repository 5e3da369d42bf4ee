"""Chromium with windows, on a screen that only exists in memory: there tabs are really hidden.

Playwright's own Chromium shows every page all the time. So this one is started as a person starts
it, with all its throttling, and playwright only looks on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Playwright

from tests.waiting import eventually

TICKS = """() => {
  window.agentTicks = [];
  const tick = () => {
    agentTicks.push(Date.now());
    setTimeout(tick, 10);
  };
  tick();
}"""


@contextmanager
def headed_chromium(
    playwright: Playwright, chromium: str, folder: Path, *flags: str
) -> Iterator[BrowserContext]:
    """The context of its one window; `flags` are Chromium's."""
    with _screen() as display:
        process = subprocess.Popen(
            [
                chromium,
                "--remote-debugging-port=0",
                f"--user-data-dir={folder}",
                *flags,
                "about:blank",
            ],
            env={**os.environ, "DISPLAY": display},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port_file = folder / "DevToolsActivePort"
            port = eventually(
                lambda: port_file.read_text().split() if port_file.exists() else [], bool, 30
            )[0]
            address = f"http://127.0.0.1:{port}"
            browser = playwright.chromium.connect_over_cdp(address, no_defaults=True)
            yield browser.contexts[0]
            browser.close()
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _screen() -> Iterator[str]:
    """The address of a screen of its own; raises FileNotFoundError where Xvfb is not installed."""
    server = shutil.which("Xvfb")
    if server is None:
        raise FileNotFoundError("Xvfb")
    read, write = os.pipe()
    size = "1280x900x24"
    process = subprocess.Popen(
        [server, "-displayfd", str(write), "-screen", "0", size, "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as told:
        number = told.readline().strip()
    try:
        yield f":{number}"
    finally:
        process.terminate()
        process.wait()


class Tab:
    """A page in that window, which can be sent to the background."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._devtools = page.context.new_cdp_session(page)

    def hide(self) -> None:
        """Put another tab in front."""
        self.page.evaluate(TICKS)
        self.page.context.new_page().bring_to_front()
        state = "() => document.visibilityState"
        eventually(lambda: self.page.evaluate(state), lambda now: now == "hidden")

    def wait_until_throttled(self) -> None:
        """Until timers of ten milliseconds run once a second, as in the background they do."""
        pauses = "() => agentTicks.slice(-4).map((tick, index, all) => tick - all[index - 1])"
        eventually(
            lambda: self.page.evaluate(pauses)[1:],
            lambda pauses: len(pauses) == 3 and min(pauses) > 900,
            30,
        )

    def freeze(self) -> None:
        """Let nothing run in it any more; only a hidden tab can be frozen."""
        self._devtools.send("Page.setWebLifecycleState", {"state": "frozen"})

    def thaw(self) -> None:
        self._devtools.send("Page.setWebLifecycleState", {"state": "active"})

    def show(self) -> None:
        self.page.bring_to_front()
        state = "() => document.visibilityState"
        eventually(lambda: self.page.evaluate(state), lambda now: now == "visible")
