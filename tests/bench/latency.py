"""How fast an agent's edit reaches the open cell: `python -m tests.bench.latency` (some 30 s).

Prints medians and the slowest of ten in milliseconds, over HTTP and with a real tab in Chromium.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.ui.conftest import FLAGS, new_file
from tests.ui.lab import Replies, running_lab
from tests.ui.page import OpenNotebook

EDITS = 50

WATCH_LINES = """
(cell) => {
  window.agentShown = {};
  new MutationObserver(() => {
    const text = cell.querySelector('.cm-content').textContent;
    agentShown[text] ??= performance.timeOrigin + performance.now();
  }).observe(cell, {childList: true, subtree: true, characterData: true});
}
"""


def edits(notebook: OpenNotebook) -> tuple[list[float], list[float]]:
    """Milliseconds from the request to the screen, and to the answer, for each edit."""
    cell = notebook.cell("c0")
    cell.evaluate(WATCH_LINES)
    shown, answered = [], []
    text = notebook.sources()["c0"]
    for number in range(EDITS):
        written = f"x = {1000 + number}  # {os.urandom(3).hex()}"
        start = time.time()
        notebook.lab.edit(notebook.path, "c0", old_string=text, new_string=written)
        answered.append(1000 * (time.time() - start))
        notebook.page.wait_for_function("text => agentShown[text]", arg=written)
        seen = notebook.page.evaluate("text => agentShown[text]", written)
        shown.append(seen - 1000 * start)
        text = written
    return shown, answered


def reads(notebook: OpenNotebook) -> list[float]:
    """Milliseconds of a barrier through the tab with the request around it."""
    return timed(lambda: notebook.lab.notebook(notebook.path))


def idle(notebook: OpenNotebook) -> list[float]:
    """Milliseconds of a request that asks no tab."""
    return timed(lambda: notebook.lab.call("GET", "tools"))


def timed(request: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(EDITS):
        start = time.perf_counter()
        request()
        times.append(1000 * (time.perf_counter() - start))
    return times


def report(what: str, times: list[float]) -> None:
    slow = statistics.quantiles(times, n=10)[-1]
    sys.stdout.write(f"{what:40} median {statistics.median(times):6.1f} ms, p90 {slow:6.1f} ms\n")


def main() -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", Replies()) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        path = new_file(lab, "latency", ["x = 1", *(f"y{n} = {n}" for n in range(20))])
        notebook = OpenNotebook(browser.new_page(), lab, path).open()
        notebook.wait_until_linked()
        notebook.wait_for_kernel()
        report("request that asks no tab", idle(notebook))
        report("fresh read (barrier through the tab)", reads(notebook))
        shown, answered = edits(notebook)
        report("edit to screen", shown)
        report("edit to answer, saved by the tab", answered)
        notebook.toggle_autosave()
        shown, answered = edits(notebook)
        report("edit to screen, without saving", shown)
        report("edit acknowledged by the tab, not saved", answered)
        browser.close()


if __name__ == "__main__":
    main()
