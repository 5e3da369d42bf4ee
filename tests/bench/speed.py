"""Speed of runs, edits and reads: `python -m tests.bench.speed [NAME ...]` (about two minutes).

Every figure is a ratio to what people would use instead, for the same notebook on the same machine
in the same minutes, alternating: `jupyter_client` alone, nbclient, Jupyter's own contents API, an
idle server. The goal is printed beside each. Names: runs, edits, state, stream, loop, big.
Asserts nothing.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
from jupyter_client.manager import start_new_kernel
from jupyter_ydoc import YNotebook
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.document.crdt import SharedCells, rewrite
from jupyter_agent.events import TextDelta
from jupyter_agent.text.notebook import render
from tests.bench import large
from tests.ui.lab import Lab, Replies, running_lab

PATH = "bench.ipynb"
CELLS = 40
ROUNDS = 3
PROBE = 0.02
"""Seconds between two probes of a server."""


class Client:
    """One persistent connection, like a page's."""

    def __init__(self, lab: Lab) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(lab.url).netloc, timeout=600)
        self._headers = {
            "Authorization": f"token {lab.token}",
            "Content-Type": "application/json",
        }

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer."""
        text = None if body is None else json.dumps(body)
        self._connection.request(method, f"/{path}", text, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {content!r}")
        return json.loads(content or b"null")

    def agent(self, method: str, path: str, body: Any = None) -> Any:
        """The same for one of our routes."""
        return self.call(method, f"api/agent/{path}", body)


def ms(work: Callable[..., object], *arguments: Any) -> float:
    """How many milliseconds it takes."""
    start = time.perf_counter()
    work(*arguments)
    return (time.perf_counter() - start) * 1000


def percentile(times: Sequence[float], share: float) -> float:
    """The time within which that share of them is."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def report(what: str, ratio: float, goal: str, detail: str) -> None:
    sys.stdout.write(f"{what:44} {ratio:6.2f}  goal {goal:12} {detail}\n")
    sys.stdout.flush()


def written(lab: Lab, sources: Sequence[str], path: str = PATH) -> None:
    cells = [new_code_cell(source, id=f"c{number}") for number, source in enumerate(sources)]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), lab.root / path)


def cpu_seconds(process: int) -> float:
    """User and system time of a process. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def runs(lab: Lab, client: Client) -> None:
    """Single runs compared with the raw round trip, many with nbclient."""
    written(lab, ["1+1"] * CELLS)
    manager, kernel = start_new_kernel(kernel_name="python3")
    once = partial(kernel.execute_interactive, "1+1", output_hook=_nothing)
    client.agent("POST", f"notebooks/{PATH}/cells/c0/run", {})
    model = client.call("GET", f"api/contents/{PATH}")
    raw, status, put, saved, pending = ([] for _ in range(5))
    for _ in range(CELLS):
        raw.append(ms(once))
        status.append(ms(client.call, "GET", "api/status"))
        put.append(ms(client.call, "PUT", f"api/contents/{PATH}", model))
        client.agent("GET", f"notebooks/{PATH}?outputs=none")  # reads the new file
        saved.append(ms(client.agent, "POST", f"notebooks/{PATH}/cells/c0/run", {}))
        body = {"save": False}
        pending.append(ms(client.agent, "POST", f"notebooks/{PATH}/cells/c0/run", body))
    for share, goals in ((0.5, ("<= 1.3", "<= 1.3")), (0.95, ("<= 2", "-"))):
        floors = [percentile(each, share) for each in (raw, status, put)]
        name = "median" if share == 0.5 else "p95"
        ours = percentile(saved, share), percentile(pending, share)
        detail = (
            f"{ours[0]:.1f} ms; raw {floors[0]:.1f}, status {floors[1]:.1f}, PUT {floors[2]:.1f}"
        )
        report(f"`1+1`, saved, of raw+status+PUT, {name}", ours[0] / sum(floors), goals[0], detail)
        detail = f"{ours[1]:.1f} ms"
        report(
            f"`1+1`, pending, of raw+status, {name}", ours[1] / sum(floors[:2]), goals[1], detail
        )
    by_us, by_tool, by_nbclient, cpu = [], [], [], []
    notebook = new_notebook(cells=[new_code_cell("1+1") for _ in range(CELLS)])
    runner = NotebookClient(notebook, kernel_name="python3")
    with runner.setup_kernel():
        for _ in range(ROUNDS):
            started = time.perf_counter()
            for index, cell in enumerate(notebook.cells):
                runner.execute_cell(cell, index)
            by_nbclient.append((time.perf_counter() - started) * 1000 / CELLS)
            used = cpu_seconds(lab.process)
            by_us.append(ms(client.agent, "POST", f"notebooks/{PATH}/run", {}) / CELLS)
            cpu.append((cpu_seconds(lab.process) - used) * 100 / CELLS)
            body = {"notebook": PATH, "input": {}, "mode": "auto"}
            by_tool.append(ms(client.agent, "POST", "tools/run_cells", body) / CELLS)
    floor = statistics.median(by_nbclient)
    ours, tool = statistics.median(by_us), statistics.median(by_tool)
    detail = f"{ours:.1f} ms a cell; nbclient {floor:.1f}"
    report(f"`POST run` of {CELLS} cells, of nbclient", ours / floor, "<= 1.3", detail)
    report("`run_cells`, of nbclient", tool / floor, "<= 1.5", f"{tool:.1f} ms a cell")
    report("server CPU of 100 trivial cells, s", statistics.median(cpu), "<= 0.5", "")
    kernel.stop_channels()
    manager.shutdown_kernel(now=True)


def _nothing(message: Any) -> None:
    """The floor stores no output."""


def edits(lab: Lab, client: Client) -> None:
    """An edit of a large file, on disk before the answer, compared with a PUT of the file."""
    written(
        lab, [f"x{number} = {number}\nprint(x{number})" for number in range(1000)], "large.ipynb"
    )
    model = client.call("GET", "api/contents/large.ipynb")
    put, ours = [], []
    for number in range(8):
        put.append(ms(client.call, "PUT", "api/contents/large.ipynb", model))
        client.agent("GET", "notebooks/large.ipynb?outputs=none")
        for again in range(2):
            body = {"source": f"edited = {number * 2 + again}"}
            route = "notebooks/large.ipynb/cells/c5"
            ours.append(ms(client.agent, "PATCH", route, body))
    detail = f"{statistics.median(ours):.0f} ms; PUT {statistics.median(put):.0f}"
    ratio = statistics.median(ours) / statistics.median(put)
    report("edit of 1,000 cells, of PUT", ratio, "<= 1.2", detail)


def state() -> None:
    """A model's view of 1,000 cells after one edit, compared with the document's own JSON."""
    document = YNotebook()
    output = {"output_type": "stream", "name": "stdout", "text": "a line of output\n" * 3}
    cells = [
        new_code_cell(
            f"# Step {number}\nx{number} = {number} * 2", id=f"c{number}", outputs=[output]
        )
        for number in range(1000)
    ]
    document.set(nbformat.from_dict(new_notebook(cells=cells)))
    shared = SharedCells(document)

    def read() -> object:
        return render(shared.all())

    read()
    get, ours = [], []
    for number in range(20):
        with shared.transaction():
            rewrite(shared.live_cell("c5")["source"], f"edited = {number}")
        get.append(ms(document.get))
        ours.append(ms(read))
    ratio = statistics.median(ours) / statistics.median(get)
    detail = f"{statistics.median(ours):.1f} ms; get {statistics.median(get):.1f}"
    report("state of 1,000 cells after an edit, of get", ratio, "<= 0.15", detail)


class SlowStore:
    """A conversation store whose commits take 100 ms; it stores nothing."""

    async def append(self, turn_id: str, entries: Any, *, after: int = 0) -> None:
        await asyncio.sleep(0.1)


async def stream() -> None:
    """The delay of a delta while the store is slow."""
    record: Any = type("Record", (), {"id": "t", "owner": "local", "conversation_id": "c"})
    stores: Any = type("Stores", (), {"conversations": SlowStore(), "announce": _nothing})
    turn = LiveTurn(record, stores, ends_to_ask=False)
    sent: list[float] = []
    late: list[float] = []

    async def follow() -> None:
        async for events in turn.follow():
            now = time.perf_counter()
            late.extend((now - sent[seq - 1]) * 1000 for seq, _ in events)
            if len(late) == 300:
                return

    following = asyncio.create_task(follow())
    for _ in range(300):
        sent.append(time.perf_counter())
        await turn.show(TextDelta(part_id="1", delta="word "))
        await asyncio.sleep(0.005)
    await following
    await turn.close()
    report("latest delta while the store is slow, ms", max(late), "<= 15", "commits take 100 ms")


class Probe(threading.Thread):
    """Probes a server in a loop and records the times."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        self._client = Client(lab)
        self._over = threading.Event()
        self.times: list[float] = []

    def run(self) -> None:
        while not self._over.wait(PROBE):
            self.times.append(ms(self._client.call, "GET", "api/status"))

    def end(self) -> str:
        self._over.set()
        self.join()
        middle, slow = percentile(self.times, 0.5), percentile(self.times, 0.99)
        return f"{middle:.0f}/{slow:.0f}/{max(self.times):.0f}"


FLOODS = {
    "10,000 displays": "for i in range(10_000): display({'text/plain': str(i)}, raw=True)",
    "a picture of 50 MB": (
        "import base64, os; d = base64.b64encode(os.urandom(37_500_000)).decode()\n"
        "display({'image/png': d}, raw=True)"
    ),
    "1e6 prints": "for i in range(1_000_000): print(i)",
}


def loop(lab: Lab, client: Client, idle: Lab) -> None:
    """The effect of floods on other clients, compared with an idle server."""
    written(lab, ["1", *FLOODS.values()], "floods.ipynb")
    client.agent("POST", "notebooks/floods.ipynb/cells/c0/run", {})
    for number, name in enumerate(FLOODS, start=1):
        ours, control = Probe(lab), Probe(idle)
        ours.start()
        control.start()
        route = f"notebooks/floods.ipynb/cells/c{number}/run"
        seconds = ms(client.agent, "POST", route, {"save": True}) / 1000
        detail = f"{ours.end()} ms p50/p99/max; control {control.end()}; {seconds:.1f} s"
        p99 = percentile(ours.times, 0.99) - percentile(control.times, 0.99)
        report(f"{name}: p99 beyond the control, ms", p99, "<= 50", detail)


def big(lab: Lab, client: Client) -> None:
    """The effect of edits of a large notebook on other clients, compared with PUTs of its file."""
    for name in ("10,000 cells", "the same with 50 MB of outputs"):
        if name == "10,000 cells":
            written(lab, [f"x{number} = {number}" for number in range(10_000)], "big.ipynb")
        else:
            large.write(lab.root / "big.ipynb", 10_000)
        model = client.call("GET", "api/contents/big.ipynb")
        client.agent("GET", "notebooks/big.ipynb?outputs=none")
        figures = {}
        for who in ("PUT", "ours"):
            probe = Probe(lab)
            probe.start()
            took = [
                ms(client.call, "PUT", "api/contents/big.ipynb", model)
                if who == "PUT"
                else ms(
                    client.agent,
                    "PATCH",
                    "notebooks/big.ipynb/cells/c5",
                    {"source": f"edited = {number}"},
                )
                for number in range(10)
            ]
            figures[who] = percentile(probe.times, 0.99)
            detail = f"{probe.end()} ms p50/p99/max, {statistics.median(took):.0f} each"
            sys.stdout.write(f"  {name}, {who}: {detail}\n")
        report(f"{name}: p99 of polls", figures["ours"], "<= 100", f"PUT {figures['PUT']:.0f}")


@contextmanager
def served(**extensions: bool) -> Iterator[Lab]:
    config = {"ServerApp": {"jpserver_extensions": extensions}}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", Replies(), config=config) as lab,
    ):
        yield lab


def main(names: Sequence[str]) -> None:
    wanted = set(names or ("runs", "edits", "state", "stream", "loop", "big"))
    sys.stdout.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M}\n")
    if "state" in wanted:
        state()
    if "stream" in wanted:
        asyncio.run(stream())
    if wanted & {"runs", "edits", "loop", "big"}:
        with served() as lab:
            client = Client(lab)
            if "runs" in wanted:
                runs(lab, client)
            if "edits" in wanted:
                edits(lab, client)
            if "big" in wanted:
                big(lab, client)
            if "loop" in wanted:
                with served(jupyter_agent=False) as idle:
                    loop(lab, client, idle)


if __name__ == "__main__":
    main(sys.argv[1:])
