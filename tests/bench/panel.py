"""How fast the panel is in Chromium: `python -m tests.bench.panel [DELTAS]`. Asserts nothing.

A turn whose text comes in so many deltas: how long each frame takes meanwhile, and all of it. A
conversation of 200 messages, and a notebook of 500 cells with a change in each tenth: how long
until they are there. The JavaScript of the extension, gzipped.
"""

# ruff: noqa: T201

from __future__ import annotations

import gzip
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

import jupyter_agent
from jupyter_agent.testing import Scripted, calls, says
from tests.ui.conftest import FLAGS, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel

WATCH = """() => {
  window.agentFrames = [];
  let last = performance.now();
  const look = now => {
    agentFrames.push(now - last);
    last = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
SHOWN = """async text => {
  while (!document.querySelector('.jp-Agent-log')?.textContent.includes(text)) {
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}"""
"""Playwright's own waiting reads the names of all elements, which takes longer than all else."""
PARAGRAPH = "Revenue **grows** until June, then it falls; see `df` and $x_{n}$ for more of it. "


def opened(page: Page, lab: Lab, name: str, cells: int) -> tuple[OpenNotebook, Panel]:
    path = new_file(lab, name, [f"x{n} = {n}" for n in range(cells)])
    notebook = OpenNotebook(page, lab, path).open()
    return notebook, Panel(page).open("auto")


def shown(frames: list[float]) -> str:
    slow = frames[int(len(frames) * 0.95)]
    middle = statistics.median(frames)
    found = f"median {middle:.0f} ms, 95 % {slow:.0f} ms, most {frames[-1]:.0f} ms"
    return f"{len(frames)} frames: {found}"


def streaming(page: Page, lab: Lab, replies: Replies, deltas: int) -> None:
    """The fake sends a word at a time."""
    _, panel = opened(page, lab, "streaming", 3)
    words = len(PARAGRAPH.split()) + 1
    text = "".join(
        f"{PARAGRAPH}{n}.{chr(10) * 2 if n % 4 == 3 else ' '}" for n in range(deltas // words)
    )
    replies.append(Scripted(blocks=[says(text + "\n\nThe end.")]))
    page.evaluate(WATCH)
    start = time.perf_counter()
    panel.ask("Write a lot.")
    page.evaluate(SHOWN, "The end.")
    total = time.perf_counter() - start
    frames = sorted(page.evaluate("() => agentFrames"))
    print(f"{len(text.split())} deltas, {len(text)} characters: {total:.1f} s; {shown(frames)}")


def long_conversation(page: Page, lab: Lab, replies: Replies) -> None:
    path = new_file(lab, "long", ["x = 1"])
    for n in range(100):
        replies.append([says(f"Answer {n}.\n\n" + PARAGRAPH * 3 + "\n\n```python\nx = 1\n```\n")])
        body = {
            "id": "long",
            "messages": [{"role": "user", "content": f"Question {n}"}],
            "notebook": path,
            "stream": False,
        }
        assert lab.call("POST", "chat", body).status == 200
    start = time.perf_counter()
    lab.call("GET", "conversations/long")
    print(f"200 messages: read from the server in {(time.perf_counter() - start) * 1000:.0f} ms")
    OpenNotebook(page, lab, path).open()
    panel = Panel(page).open()
    panel.button("Conversations").click()
    entry = panel.region.get_by_role("button", name="Question 0").first
    expect(entry).to_be_visible()
    took = page.evaluate(
        """async entry => {
            const start = performance.now();
            entry.click();
            const there = () => document.querySelector('.jp-Agent-log')
                ?.textContent.includes('Answer 99.');
            while (!there()) await new Promise(requestAnimationFrame);
            const shown = performance.now() - start;
            await new Promise(requestAnimationFrame);
            await new Promise(resolve => setTimeout(resolve));
            return [shown, performance.now() - start];
        }""",
        entry.element_handle(),
    )
    print(f"200 messages: there after {took[0]:.0f} ms, painted after {took[1]:.0f} ms")


def many_cells(page: Page, lab: Lab, replies: Replies) -> None:
    notebook, panel = opened(page, lab, "many", 500)
    edits = [
        calls("update_cell", cell_id=f"c{n}", old_string=f"x{n}", new_string=f"y{n}")
        for n in range(0, 500, 10)
    ]
    replies.append(edits)
    replies.append([says("Done.")])
    start = time.perf_counter()
    page.wait_for_function(
        "path => agentTest.notebook(path).widgets.every(cell => cell.editor)",
        arg=notebook.path,
        timeout=120_000,
    )
    print(f"500 cells: JupyterLab is done {time.perf_counter() - start:.1f} s after it shows them")
    page.evaluate(WATCH)
    start = time.perf_counter()
    panel.ask("Rename.")
    page.evaluate(SHOWN, "50 cells changed")
    frames = sorted(page.evaluate("() => agentFrames"))
    print(f"50 edits in 500 cells: {time.perf_counter() - start:.1f} s; {shown(frames)}")
    bar = page.locator(".jp-Agent-bar").first
    took = page.evaluate(
        """async bar => {
            const start = performance.now();
            bar.click();
            while (!document.querySelector('.cm-deletedChunk'))
                await new Promise(requestAnimationFrame);
            return performance.now() - start;
        }""",
        bar.element_handle(),
    )
    print(f"a difference opened after {took:.0f} ms, the merge view's code loaded with it")
    assert notebook.sources()["c0"] == "y0 = 0"


def weight() -> None:
    folder = Path(jupyter_agent.__file__).parent / "labextension" / "static"
    sizes = {file.name: len(gzip.compress(file.read_bytes())) for file in folder.glob("*.js")}
    print(f"JavaScript, gzipped: {sum(sizes.values()) / 1000:.0f} kB in {len(sizes)} files")


def main(deltas: int) -> None:
    replies = Replies()
    weight()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", replies) as lab,
        sync_playwright() as playwright,
    ):
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        streaming(browser.new_page(), lab, replies, deltas)
        many_cells(browser.new_page(), lab, replies)
        long_conversation(browser.new_page(), lab, replies)
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
