"""Time until an agent's edit reaches people: `python -m tests.bench.latency` (about 60 s).

For each carrier, over HTTP and with real pages in Chromium: medians and the slowest of ten in
milliseconds, and how many times as long as the floor, a request in the same run that touches no
notebook.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from tests.ui.conftest import launched, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook

EDITS = 50
SOURCES = ["x = 1", *(f"y{n} = {n}" for n in range(20))]

WATCH_LINES = """
(cell) => {
  const notebook = cell.closest('.jp-Notebook');
  window.agentShown = {};
  new MutationObserver(() => {
    const text = notebook.querySelector('.jp-Cell .cm-content')?.textContent;
    agentShown[text] ??= performance.timeOrigin + performance.now();
  }).observe(notebook, {childList: true, subtree: true, characterData: true});
}
"""
"""Records when the first cell shows which text. A reload replaces its element."""


class Floor:
    """The time of a request that does nothing, and ratios to it."""

    def __init__(self, lab: Lab) -> None:
        self._median = statistics.median(timed(lambda: lab.call("GET", "tools")))
        sys.stdout.write(f"floor: a request that touches no notebook {self._median:.1f} ms\n")

    def report(self, what: str, times: Sequence[float]) -> None:
        median, slow = statistics.median(times), statistics.quantiles(times, n=10)[-1]
        ratio = median / self._median
        sys.stdout.write(
            f"  {what:44} median {median:6.1f} ms, p90 {slow:6.1f} ms, {ratio:5.1f} x floor\n"
        )


def edits(lab: Lab, path: str, pages: Sequence[OpenNotebook]) -> list[list[float]]:
    """Milliseconds from each edit's request to its answer, then to the screen of each page."""
    for page in pages:
        page.cell("c0").evaluate(WATCH_LINES)
    times: list[list[float]] = [[] for _ in range(1 + len(pages))]
    text = {cell["id"]: cell["source"] for cell in lab.notebook(path)["cells"]}["c0"]
    for number in range(EDITS):
        written = f"x = {1000 + number}  # {os.urandom(3).hex()}"
        start = time.time()
        lab.edit(path, "c0", old_string=text, new_string=written)
        times[0].append(1000 * (time.time() - start))
        for page, seen in zip(pages, times[1:], strict=True):
            page.page.wait_for_function("text => agentShown[text]", arg=written)
            shown = page.page.evaluate("text => agentShown[text]", written)
            seen.append(shown - 1000 * start)
        text = written
    return times


def timed(request: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(EDITS):
        start = time.perf_counter()
        request()
        times.append(1000 * (time.perf_counter() - start))
    return times


@contextmanager
def served(*, rooms: bool) -> Iterator[Lab]:
    config = {"YDocExtension": {"disable_rtc": not rooms}}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", Replies(), config=config) as lab,
    ):
        yield lab


def opened(browser: Browser, lab: Lab, path: str) -> OpenNotebook:
    return OpenNotebook(browser.new_page(), lab, path).open()


def measure(floor: Floor, lab: Lab, carrier: str, path: str, pages: Sequence[OpenNotebook]) -> None:
    assert lab.notebook(path)["carrier"] == carrier
    sys.stdout.write(f"{carrier}\n")
    floor.report("fresh read", timed(lambda: lab.notebook(path)))
    answered, *seen = edits(lab, path, pages)
    floor.report("edit to answer, saved", answered)
    for which, times in zip(("screen of the first page", "second client"), seen, strict=False):
        floor.report(f"edit to the {which}", times)


def main() -> None:
    with launched() as browser:
        with served(rooms=False) as lab:
            floor = Floor(lab)
            # Readers of a file see an edit when it is on disk, which it is when answered.
            measure(floor, lab, "file", new_file(lab, "file", SOURCES), [])
            path = new_file(lab, "tab", SOURCES)
            first = opened(browser, lab, path)
            first.wait_until_linked()
            first.wait_for_kernel()
            measure(floor, lab, "tab", path, [first])
            first.toggle_autosave()
            answered, shown = edits(lab, path, [first])
            floor.report("edit acknowledged by the tab, not saved", answered)
            floor.report("edit to the screen, without saving", shown)
            first.toggle_autosave()
            second = opened(browser, lab, path)
            second.wait_for_kernel()
            measure(floor, lab, "tab", path, [first, second])
        with served(rooms=True) as lab:
            floor = Floor(lab)
            path = new_file(lab, "room", SOURCES)
            first, second = (opened(browser, lab, path) for _ in range(2))
            first.wait_for_kernel()
            measure(floor, lab, "room", path, [first, second])


if __name__ == "__main__":
    main()
