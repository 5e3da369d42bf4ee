"""Delay from a kernel's print to the screen: `python -m tests.bench.browser [RUNS]`.

A cell prints the time, sleeps and prints again, run by the assistant; the page notes when each line
appears in the notebook. Kernel and browser share this machine's clock.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.ui.conftest import FLAGS, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

LINES = 40
PRINTING = f"""\
import random, time
for _ in range({LINES}):
    time.sleep(random.uniform(0.02, 0.3))
    print(f"at {{time.time() * 1000:.3f}}", flush=True)"""

WATCH = """() => {
  window.agentSeen = {};
  const area = document.querySelector('.jp-Cell-outputArea');
  const look = () => {
    for (const [line] of area.textContent.matchAll(/at [0-9]+\\.[0-9]{3}/g)) {
      agentSeen[line] ??= performance.timeOrigin + performance.now();
    }
  };
  new MutationObserver(look).observe(area, {childList: true, subtree: true, characterData: true});
}"""


def delays(page: Page, lab: Lab, name: str) -> list[float]:
    """Milliseconds from each print to the screen, in one run."""
    notebook = OpenNotebook(page, lab, new_file(lab, name, [PRINTING])).open()
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    page.evaluate(WATCH)
    assert lab.run(notebook.path, "c0")["status"] == "ok"
    seen = eventually(lambda: page.evaluate("() => agentSeen"), lambda seen: len(seen) == LINES)
    return [at - float(line.removeprefix("at ")) for line, at in seen.items()]


def main(runs: int) -> None:
    """Prints the figures of that many runs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", Replies()) as lab,
        sync_playwright() as playwright,
    ):
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        found = sorted(
            delay
            for number in range(runs)
            for delay in delays(browser.new_page(), lab, f"printing {number}")
        )
        browser.close()
    shown = {
        "median": statistics.median(found),
        "95 %": found[int(len(found) * 0.95)],
        "99 %": found[int(len(found) * 0.99)],
        "most": found[-1],
    }
    figures = ", ".join(f"{name} {delay:.0f} ms" for name, delay in shown.items())
    print(f"{len(found)} lines from print to screen: {figures}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
