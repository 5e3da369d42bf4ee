"""Speed of outside agents in a notebook over MCP, open in a tab and closed:
`python -m tests.bench.agents [PYTHON]` (about four minutes).

Compares an edit over MCP with the same edit over REST, alternating. With PYTHON, that of an
environment with `jupyter-mcp-server` (which brings JupyterLab with real-time collaboration), also
with that: its own JupyterLab with the same notebooks, one open in a tab of its own, the same
client.

Prints medians and the slowest of ten in milliseconds, until an edit is answered, until the tab has
it (by the clock of the page) and until the file has it: we answer when both have,
jupyter-mcp-server when its own copy has. Edits of MCP and REST alternate in one notebook, so MCP
has to read the changes of REST. Prints the load of the machine, too: with more than one browser on
two cores it is high. Asserts nothing.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser

from tests.bench.speed import Client
from tests.ui.conftest import launched, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

ROUNDS = 40
PAUSE_S = 0.2
"""Between two calls, like thinking agents: after a save JupyterLab lists folder and checkpoints."""
SOURCES = ["x = 1", "1 + 1", *(f"y{n} = {n}" for n in range(20))]
VERSION = "2025-11-25"
WATCH = """path => {
  window.benchSeen = {};
  const cell = agentTest.cells(path)[0].sharedModel;
  cell.changed.connect(() => {
    benchSeen[cell.getSource()] ??= performance.timeOrigin + performance.now();
  });
}"""


class Agent:
    """An MCP client with one connection, which stays open."""

    def __init__(self, lab: Lab, route: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(lab.url).netloc, timeout=600)
        self._route = route
        self._headers = {
            "Authorization": f"token {lab.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        about = {"name": "bench", "version": "1"}
        begun = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about}
        self._ask("initialize", begun)
        self._headers["MCP-Protocol-Version"] = VERSION

    def call(self, tool: str, **input: Any) -> Any:
        result = self._ask("tools/call", {"name": tool, "arguments": input})
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result}")
        return result

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._connection.request("POST", self._route, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        if (session := answer.headers.get("Mcp-Session-Id")) is not None:
            self._headers["Mcp-Session-Id"] = session
        content = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{method}: {answer.status} {content}")
        lines = [line for line in content.splitlines() if line.startswith("data: ")]
        reply = json.loads(lines[-1].removeprefix("data: ") if lines else content)
        if "result" not in reply:
            raise RuntimeError(f"{method}: {reply}")
        return reply["result"]


class Ours:
    """Over MCP and over REST, in one notebook."""

    def __init__(self, lab: Lab, path: str) -> None:
        self._path = path
        self._agent = Agent(lab, "/api/agent/mcp?mode=auto")
        self._script = Client(lab)
        self._text = SOURCES[0]

    def edit(self, source: str) -> None:
        change = {"cell_id": "c0", "old_string": self._text, "new_string": source}
        self._agent.call("edit_cells", notebook=self._path, edits=[change])
        self._text = source

    def execute(self, _: str) -> None:
        self._agent.call("run_cell", notebook=self._path, cell_id="c1")

    def patch(self, source: str) -> None:
        change = {"old_string": self._text, "new_string": source}
        self._script.agent("PATCH", f"notebooks/{self._path}/cells/c0", change)
        self._text = source


class Theirs:
    """jupyter-mcp-server, as an extension of its own JupyterLab."""

    def __init__(self, lab: Lab, path: str) -> None:
        self._agent = Agent(lab, "/mcp")
        self._agent.call("use_notebook", notebook_name="bench", notebook_path=path)

    def edit(self, source: str) -> None:
        self._agent.call("overwrite_cell_source", cell_id="c0", cell_source=source)

    def execute(self, _: str) -> None:
        self._agent.call("execute_cell", cell_id="c1")


@contextmanager
def served(python: str, *, rooms: bool) -> Iterator[Lab]:
    config = {"YDocExtension": {"disable_rtc": not rooms}}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(
            Path(folder) / "lab",
            Replies(),
            python=python,
            config=config,
            panel=python == sys.executable,
        ) as lab,
    ):
        yield lab


def opened(browser: Browser, lab: Lab, path: str) -> OpenNotebook:
    page = OpenNotebook(browser.new_page(), lab, path).open()
    page.wait_for_kernel()
    page.page.evaluate(WATCH, path)
    return page


def carrier_of(lab: Lab) -> str:
    return str(lab.notebook("bench.ipynb")["carrier"])


@dataclass(frozen=True)
class Row:
    """What to measure, in which notebook; without a tab it is closed."""

    act: Callable[[str], object]
    file: Path
    tab: OpenNotebook | None = None
    edits: bool = True

    def measure(self, source: str) -> tuple[float, float, float]:
        """Milliseconds to the answer, to the tab and to the file; 0 without one of these."""
        start = time.time()

        def since() -> float:
            return (time.time() - start) * 1000

        self.act(source)
        answered = since()
        if not self.edits:
            return answered, 0, 0
        there = self._seen(source) - start * 1000 if self.tab is not None else 0
        eventually(self._first_cell, source.__eq__)
        return answered, there, since()

    def _seen(self, source: str) -> float:
        """When the page had it, in milliseconds since 1970."""
        assert self.tab is not None
        evaluate = self.tab.page.evaluate
        seen: float = eventually(lambda: evaluate("source => benchSeen[source]", source), bool)
        return seen

    def _first_cell(self) -> str:
        try:
            cells = json.loads(self.file.read_text(encoding="utf-8"))["cells"]
        except ValueError:  # being written right now
            return ""
        return "".join(cells[0]["source"])


def report(what: str, times: Sequence[float]) -> None:
    median, slow = statistics.median(times), statistics.quantiles(times, n=10)[-1]
    sys.stdout.write(f"  {what:44} median {median:7.1f} ms, p90 {slow:7.1f} ms\n")
    sys.stdout.flush()


def rows(stack: ExitStack, browser: Browser, python: str | None) -> Iterator[tuple[str, Row]]:
    for carrier, rooms in (("tab", False), ("room", True)):
        lab = stack.enter_context(served(sys.executable, rooms=rooms))
        tab = opened(browser, lab, new_file(lab, "bench", SOURCES))
        file = lab.root / tab.path
        eventually(partial(carrier_of, lab), carrier.__eq__)
        ours = Ours(lab, tab.path)
        yield f"{carrier}: edit, REST", Row(ours.patch, file, tab)
        yield f"{carrier}: edit, MCP", Row(ours.edit, file, tab)
        yield f"{carrier}: run, MCP", Row(ours.execute, file, tab, edits=False)
        if not rooms:
            closed = Ours(lab, new_file(lab, "closed", SOURCES))
            yield "closed: edit, MCP", Row(closed.edit, lab.root / "closed.ipynb")
            yield "closed: run, MCP", Row(closed.execute, lab.root / "closed.ipynb", edits=False)
    if python is not None:
        lab = stack.enter_context(served(python, rooms=True))
        tab = opened(browser, lab, new_file(lab, "bench", SOURCES))
        theirs = Theirs(lab, tab.path)
        file = lab.root / tab.path
        yield "jupyter-mcp-server: edit", Row(theirs.edit, file, tab)
        yield "jupyter-mcp-server: run", Row(theirs.execute, file, tab, edits=False)
        # A server of its own: all clients of a server share their current notebook.
        lab = stack.enter_context(served(python, rooms=True))
        file = lab.root / new_file(lab, "closed", SOURCES)
        theirs = Theirs(lab, file.name)
        yield "jupyter-mcp-server, closed: edit", Row(theirs.edit, file)
        yield "jupyter-mcp-server, closed: run", Row(theirs.execute, file, edits=False)


def main(python: str | None) -> None:
    sys.stdout.write(f"load before: {os.getloadavg()[0]:.1f}\n")
    with ExitStack() as stack:
        browser = stack.enter_context(launched())
        measured = dict(rows(stack, browser, python))
        times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in measured}
        for number in range(ROUNDS):
            for name, row in measured.items():
                time.sleep(PAUSE_S)
                times[name].append(row.measure(f"x = {number}  # {name}"))
        medians = {}
        for name, found in times.items():
            answered, there, saved = zip(*found, strict=True)
            report(name, answered)
            if measured[name].edits:
                if measured[name].tab is not None:
                    report("    ... and in the tab", there)
                report("    ... and on disk", saved)
            medians[name] = statistics.median(answered)
        for carrier in ("tab", "room"):
            ratio = medians[f"{carrier}: edit, MCP"] / medians[f"{carrier}: edit, REST"]
            sys.stdout.write(f"{carrier}: edit over MCP, of REST {ratio:.2f} (goal <= 2)\n")
        sys.stdout.write(f"load after: {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
