"""G1 to G3: running cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.bench.bench import Bench
from tests.bench.client import cpu_seconds, median_ms, ms
from tests.bench.figures import Curve, Figure, Measured
from tests.ui.conftest import write_notebook

PATH = "runs.ipynb"
CELLS = 100
TIMES = 40


def runs(bench: Bench) -> Iterator[Measured]:
    manager, kernel = start_new_kernel(kernel_name="python3")
    try:
        yield from _single(bench, kernel)
        yield from _many(bench)
        yield _printing(bench, kernel)
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


def _single(bench: Bench, kernel: BlockingKernelClient) -> Iterator[Figure]:
    """A run by REST, with the save of the notebook and without, beside its parts, alternating."""
    client = bench.client
    write_notebook(bench.lab, PATH, ["1+1"] * 40)
    route = f"notebooks/{PATH}/cells/c0/run"
    client.agent("POST", route, {})
    file = json.dumps(client.call("GET", f"api/contents/{PATH}")).encode()
    parts: dict[str, list[float]] = {"raw kernel": [], "status request": [], "PUT": []}
    saved, pending = [], []
    for _ in range(TIMES):
        parts["raw kernel"].append(ms(_raw, kernel, "1+1"))
        parts["status request"].append(ms(client.call, "GET", "api/status"))
        parts["PUT"].append(ms(client.call, "PUT", f"api/contents/{PATH}", file))
        client.agent("GET", f"notebooks/{PATH}?outputs=none")  # reads the new file
        saved.append(ms(client.agent, "POST", route, {}))
        pending.append(ms(client.agent, "POST", route, {"save": False}))
    floors = {name: median(times) for name, times in parts.items()}
    yield Figure(
        what="run `1+1` by REST, on disk before the answer",
        value=median(saved),
        floors={name: floors[name] for name in ("raw kernel", "PUT")},
        goal=1.3,
    )
    yield Figure(
        what="run `1+1` by REST, on disk later",
        value=median(pending),
        floors={name: floors[name] for name in ("raw kernel", "status request")},
        goal=1.3,
    )


def _many(bench: Bench) -> Iterator[Figure]:
    """All cells of a notebook, by REST and by a tool of a model, beside nbclient."""
    write_notebook(bench.lab, PATH, ["1+1"] * CELLS)
    notebook = new_notebook(cells=[new_code_cell("1+1") for _ in range(CELLS)])
    runner = NotebookClient(notebook, kernel_name="python3")
    call = {"notebook": PATH, "input": {}, "mode": "auto"}
    with runner.setup_kernel():
        by_nbclient, by_us, by_tool, cpu = [], [], [], []
        for _ in range(3):
            by_nbclient.append(ms(_each_cell, runner))
            before = cpu_seconds(bench.lab.process)
            by_us.append(ms(bench.client.agent, "POST", f"notebooks/{PATH}/run", {}))
            cpu.append(cpu_seconds(bench.lab.process) - before)
            by_tool.append(ms(bench.client.agent, "POST", "tools/run_cells", call))
    floor = {"nbclient": median(by_nbclient)}
    for what, times, goal in (
        (f"`POST run` of {CELLS} cells", by_us, 1.3),
        (f"the tool `run_cells`, {CELLS} cells", by_tool, 1.5),
    ):
        yield Figure(what=what, value=median(times), floors=floor, goal=goal)
    yield Figure(
        what=f"CPU of the server for {CELLS} cells",
        value=median(cpu),
        unit="s",
        judged="value",
        goal=0.4,
    )


def _each_cell(runner: NotebookClient) -> None:
    for index, cell in enumerate(runner.nb.cells):
        runner.execute_cell(cell, index)


def _printing(bench: Bench, kernel: BlockingKernelClient) -> Curve:
    sizes = [10**power for power in range(7)]
    ours, raw = {}, {}
    for size in sizes:
        source = f"print('x' * {size})"
        write_notebook(bench.lab, PATH, [source])
        run = partial(bench.client.agent, "POST", f"notebooks/{PATH}/cells/c0/run", {})
        run()
        ours[size] = median_ms(5, run)
        raw[size] = median_ms(5, _raw, kernel, source)
    return Curve(
        what="run that prints a text",
        size="characters",
        lines={"ours, on disk": ours, "raw kernel": raw},
    )


def _raw(kernel: BlockingKernelClient, source: str) -> None:
    kernel.execute_interactive(source, output_hook=_nothing)


def _nothing(message: Any) -> None:
    """The floor stores no output."""
