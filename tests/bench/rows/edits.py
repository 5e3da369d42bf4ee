"""G5: edits by REST, until they are on disk and until a tab shows them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from statistics import median

from tests.bench.bench import Bench
from tests.bench.client import ms
from tests.bench.figures import Curve, Figure, Measured
from tests.ui.conftest import write_notebook
from tests.waiting import eventually

TIMES = 40
PAUSE_S = 0.1
"""Between two edits: after a save, JupyterLab lists folder and checkpoints."""
SOURCES = ["x = 1", "1 + 1", *(f"y{n} = {n}" for n in range(20))]
WATCH = """path => {
  const notebook = agentTest.notebook(path).node;
  window.benchShown = {};
  new MutationObserver(() => {
    const text = notebook.querySelector('.jp-Cell .cm-content')?.textContent;
    benchShown[text] ??= performance.timeOrigin + performance.now();
  }).observe(notebook, {childList: true, subtree: true, characterData: true});
}"""
"""When the editor of the first cell had which text."""


def on_disk(bench: Bench) -> Iterator[Measured]:
    """An edit by REST in a closed notebook, beside a PUT of the file, and in a tab."""
    ours: dict[int, float] = {}
    put: dict[int, float] = {}
    _closed(bench, 10, times=20)  # a new server is slower
    for size in (10, 100, 1_000, 10_000):
        ours[size], foreign, put[size] = _closed(bench, size, times=20 if size <= 100 else 5)
        for what, value, goal in (
            ("edit by REST, on disk", ours[size], 1.2),
            ("the same after another program's write", foreign, None),
        ):
            yield Figure(
                what=f"{what}, notebook of {size:,} cells",
                value=value,
                floors={"PUT": put[size]},
                goal=goal,
            )
    yield Curve(what="edit on disk", size="cells", lines={"ours": ours, "PUT": put})
    yield _in_a_tab(bench)


def _closed(bench: Bench, size: int, times: int) -> tuple[float, float, float]:
    """Milliseconds of our edit after one of our own, after a PUT, and of the PUT."""
    client, path = bench.client, f"closed-{size}.ipynb"
    write_notebook(bench.lab, path, [f"x{n} = {n}\nprint(x{n})" for n in range(size)])
    file = json.dumps(client.call("GET", f"api/contents/{path}")).encode()

    def edit() -> float:
        change = {"source": f"x = {time.time_ns()}"}
        return ms(client.agent, "PATCH", f"notebooks/{path}/cells/c5", change)

    ours, foreign, put = [], [], []
    for _ in range(times):
        put.append(ms(client.call, "PUT", f"api/contents/{path}", file))
        foreign.append(edit())
        ours += [edit(), edit()]
    return median(ours), median(foreign), median(put)


def _in_a_tab(bench: Bench) -> Figure:
    tab = bench.open(bench.lab, SOURCES, WATCH)
    tab.wait_until_linked()
    shown, status = [], []
    for _ in range(TIMES):
        time.sleep(PAUSE_S)
        status.append(ms(bench.client.call, "GET", "api/status"))
        source = f"x = {time.time_ns()}"
        start = time.time() * 1000
        bench.client.agent("PATCH", f"notebooks/{tab.path}/cells/c0", {"source": source})
        when = partial(tab.page.evaluate, "source => benchShown[source]", source)
        shown.append(eventually(when, bool) - start)
    return Figure(
        what="edit by REST in a tab until the editor shows it",
        value=median(shown),
        floors={"status request": median(status)},
        judged="added",
        goal=8,
    )
