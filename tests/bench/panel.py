"""Smoothness of the panel in Chromium: `python -m tests.bench.panel [ROUNDS]`. Asserts nothing.

Each row is an action that a long or large conversation makes expensive, beside a control of the
same round: the longest task of the page's main thread, and frames per second while it lasts.
Medians of all rounds. At the end, the size of the extension's JavaScript, gzipped.
"""

# ruff: noqa: T201

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Locator, Page, expect

import jupyter_agent
from tests.fakes import Scripted, calls, says
from tests.fakes.script import FakeReply
from tests.ui.conftest import launched, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel

WATCH = """() => {
  const seen = {frames: 0, longest: 0, start: performance.now(), over: false};
  new PerformanceObserver(list => {
    for (const {duration} of list.getEntries()) {
      seen.longest = Math.max(seen.longest, duration);
    }
  }).observe({type: 'longtask'});
  const frame = () => {
    seen.frames += 1;
    if (!seen.over) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  window.agentSeen = seen;
}"""
SEEN = """() => {
  agentSeen.over = true;
  return [agentSeen.longest, agentSeen.frames * 1000 / (performance.now() - agentSeen.start)];
}"""
SHOWN = """async ([selector, text]) => {
  while (!document.querySelector(selector)?.textContent.includes(text)) {
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}"""
"""Playwright's own waiting computes the names of all elements, which dominates the time."""
EDIT = """async ([path, edits]) => {
  for (const [id, text] of edits) {
    const cell = agentTest.notebook(path).widgets.find(({model}) => model.id === id);
    cell.model.sharedModel.setSource(text);
    await new Promise(resolve => setTimeout(resolve, 200));
  }
}"""
"""Six edits by the page itself."""
LOG = ".jp-Agent-log"
PARAGRAPH = "Revenue **grows** until June, then it falls; see `df` and $x_{n}$ for more of it. "
PACE_S = 0.02
"""Between two events of the model: 50 a second."""
EDITS = [(f"c{n}", "\n".join(f"y{n}_{line} = {line}" for line in range(20))) for n in range(6)]
PLOT = """\
import matplotlib.pyplot as plt
plt.figure(figsize=(3, 2))
plt.plot([1, {n}, 2])
plt.show()"""


@dataclass
class Watched:
    """Measurements of a page during an action."""

    longest_ms: float = 0
    """0 if no task took 50 ms or more, Chromium's threshold for reports."""
    frames_per_s: float = 0


@contextmanager
def watched(page: Page) -> Iterator[Watched]:
    result = Watched()
    page.evaluate(WATCH)
    yield result
    page.wait_for_timeout(200)  # the observer is called after the task
    result.longest_ms, result.frames_per_s = page.evaluate(SEEN)


@dataclass
class Bench:
    browser: Browser
    lab: Lab
    bare: Lab
    """A server whose pages do not load our extension."""
    replies: Replies
    opened: int = 0

    @contextmanager
    def notebook(self, *cells: str, lab: Lab | None = None) -> Iterator[OpenNotebook]:
        """A new notebook, in a browser with empty storage."""
        lab = lab or self.lab
        self.opened += 1
        context = self.browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        path = new_file(lab, f"n{self.opened}", cells)
        notebook = OpenNotebook(page, lab, path).open()
        page.wait_for_function(
            "path => agentTest.notebook(path).widgets.every(cell => cell.editor)",
            arg=notebook.path,
            timeout=120_000,
        )
        yield notebook
        context.close()
        lab.shut_down_kernels()

    def stream(self, notebook: OpenNotebook, text: str, pause_s: float = PACE_S) -> Watched:
        answer = Scripted(blocks=[says(f"{text}\n\nThe end.")], pause_s=pause_s)
        return self.turn(notebook, answer, until="The end.")

    def turn(self, notebook: OpenNotebook, *answers: FakeReply, until: str) -> Watched:
        """A turn in mode auto, until the conversation shows that text."""
        panel = Panel(notebook.page).open("auto")
        for answer in answers:
            self.replies.append(answer)
        with watched(notebook.page) as result:
            panel.ask("Do it.")
            notebook.page.evaluate(SHOWN, [LOG, until])
        return result


def empty(bench: Bench) -> Watched:
    """An answer of 400 words in an empty conversation: the baseline for all others."""
    with bench.notebook("x = 1") as notebook:
        return bench.stream(notebook, PARAGRAPH * 25)


def conversation_of_200(bench: Bench, notebook: OpenNotebook) -> Locator:
    """The entry in the panel's list that opens the conversation."""
    for n in range(100):
        bench.replies.append([says(f"Answer {n}.\n\n{PARAGRAPH * 3}\n\n```python\nx = 1\n```")])
        question = {"role": "user", "content": f"Question {n}"}
        body = {"id": notebook.path, "messages": [question], "notebook": notebook.path}
        assert bench.lab.call("POST", "chat", {**body, "stream": False}).status == 200
    panel = Panel(notebook.page).open()
    panel.button("Conversations").click()
    entry = panel.region.get_by_role("button", name="Question 0").first
    expect(entry).to_be_visible()
    return entry


def long_conversation(bench: Bench) -> Watched:
    """The same answer below 200 messages."""
    with bench.notebook("x = 1") as notebook:
        entry = conversation_of_200(bench, notebook)
        entry.click()
        for text in ("Answer 99.", "Answer 0."):  # the oldest are added last
            notebook.page.evaluate(SHOWN, [LOG, text])
        return bench.stream(notebook, PARAGRAPH * 25)


def open_conversation(bench: Bench) -> Watched:
    """Opens a conversation of 200 messages, until the first of them is there."""
    with bench.notebook("x = 1") as notebook:
        entry = conversation_of_200(bench, notebook)
        with watched(notebook.page) as result:
            entry.click()
            for text in ("Answer 99.", "Answer 0."):
                notebook.page.evaluate(SHOWN, [LOG, text])
        return result


def long_answer(bench: Bench) -> Watched:
    """An answer of 5,000 lines, as fast as it comes."""
    lines = "".join(f"- June {n}\n" if n % 10 else f"\n## Year {n}\n\n" for n in range(5000))
    with bench.notebook("x = 1") as notebook:
        return bench.stream(notebook, lines, pause_s=0)


def many_cells(bench: Bench) -> Watched:
    """Six edits of 20 lines in a notebook of 500 cells, each shown as a diff."""
    with bench.notebook(*[f"x{n} = {n}" for n in range(500)]) as notebook:
        edits = [[calls("update_cell", cell_id=cell, source=text)] for cell, text in EDITS]
        return bench.turn(notebook, *edits, [says("Done.")], until="6 cells changed")


def many_cells_without_us(bench: Bench) -> Watched:
    with bench.notebook(*[f"x{n} = {n}" for n in range(500)], lab=bench.bare) as notebook:
        with watched(notebook.page) as result:
            notebook.page.evaluate(EDIT, [notebook.path, EDITS])
        return result


def forty_plots(bench: Bench) -> Watched:
    """The assistant runs a notebook of 40 plots."""
    with bench.notebook(*[PLOT.format(n=n) for n in range(40)]) as notebook:
        return bench.turn(notebook, [calls("run_cells")], [says("Done.")], until="ran 1–40")


def forty_plots_without_us(bench: Bench) -> Watched:
    with bench.notebook(*[PLOT.format(n=n) for n in range(40)], lab=bench.bare) as notebook:
        notebook.wait_for_kernel()
        with watched(notebook.page) as result:
            notebook.page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")
        return result


Scene = Callable[[Bench], Watched]
ROWS: list[tuple[str, Scene, str, Scene]] = [
    ("200 messages, an answer of 400 words", long_conversation, "empty conversation", empty),
    ("200 messages are opened", open_conversation, "empty conversation", empty),
    ("an answer of 5,000 lines", long_answer, "empty conversation", empty),
    ("500 cells, six edits", many_cells, "JupyterLab alone", many_cells_without_us),
    ("40 plots", forty_plots, "JupyterLab alone", forty_plots_without_us),
]


def weight() -> None:
    folder = Path(jupyter_agent.__file__).parent / "labextension" / "static"
    sizes = {file.name: len(gzip.compress(file.read_bytes())) for file in folder.glob("*.js")}
    print(f"JavaScript, gzipped: {sum(sizes.values()) / 1000:.0f} kB in {len(sizes)} files")


def shown(results: list[Watched]) -> str:
    longest = [result.longest_ms for result in results]
    frames = median(result.frames_per_s for result in results)
    spread = f"{min(longest):.0f}-{max(longest):.0f}"
    return f"longest task {median(longest):4.0f} ms ({spread}), {frames:3.0f} frames/s"


def main(rounds: int) -> None:
    replies = Replies()
    seen: dict[Scene, list[Watched]] = defaultdict(list)
    scenes = dict.fromkeys(scene for _, ours, _, control in ROWS for scene in (ours, control))
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", replies) as lab,
        running_lab(Path(folder) / "bare", Replies(), panel=False) as bare,
        launched() as browser,
    ):
        bench = Bench(browser, lab, bare, replies)
        for number in range(rounds):
            for scene in scenes:
                seen[scene].append(scene(bench))
                taken = time.perf_counter() - start
                print(f"round {number + 1}, {scene.__name__}: {taken:.0f} s", file=sys.stderr)
    for name, ours, control_name, control in ROWS:
        print(f"{name}: {shown(seen[ours])}\n  {control_name}: {shown(seen[control])}")
    weight()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
