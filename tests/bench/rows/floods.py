"""G13: other clients of the server while it has much to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from tests.bench import large
from tests.bench.bench import Bench
from tests.bench.client import Probe
from tests.bench.figures import Figure, Measured
from tests.ui.conftest import write_notebook

FLOODS = {
    "10,000 displays": "for i in range(10_000): display({'text/plain': str(i)}, raw=True)",
    "a picture of 50 MB": (
        "import base64, os; d = base64.b64encode(os.urandom(37_500_000)).decode()\n"
        "display({'image/png': d}, raw=True)"
    ),
    "1,000,000 prints": "for i in range(1_000_000): print(i)",
}
TIMES = 3
EDITS = 20


def floods(bench: Bench) -> Iterator[Measured]:
    """How long status requests take, beside those of a server without us."""
    for number, (name, source) in enumerate(FLOODS.items()):
        path = f"flood{number}.ipynb"
        write_notebook(bench.lab, path, ["1", source])
        bench.client.agent("POST", f"notebooks/{path}/cells/c0/run", {})
        ours, idle = Probe(bench.lab), Probe(bench.bare)
        for _ in range(TIMES):
            run = bench.client.agent("POST", f"notebooks/{path}/cells/c1/run", {})
            assert (run["status"], run["saved"]) == ("ok", True), run
        yield Figure(
            what=f"99 % of other requests, while a cell shows {name}",
            value=ours.end(),
            floors={"an idle server beside it": idle.end()},
            judged="value",
            goal=100,
        )


def edits(bench: Bench) -> Iterator[Measured]:
    """The same during edits of large notebooks, beside PUTs of the same file."""
    route = "api/contents/big.ipynb"
    for name in ("10,000 cells", "50 MB"):
        if name == "50 MB":
            large.write(bench.lab.root / "big.ipynb", 10_000)
        else:
            write_notebook(bench.lab, "big.ipynb", [f"x{n} = {n}" for n in range(10_000)])
        file = bench.client.call("GET", route)
        put = partial(bench.client.call, "PUT", route, json.dumps(file).encode())
        floor = _probed(bench, [put] * EDITS)
        bench.client.agent("GET", "notebooks/big.ipynb?outputs=none")
        ours = [
            partial(
                bench.client.agent,
                "PATCH",
                "notebooks/big.ipynb/cells/c5",
                {"source": f"edited = {number}"},
            )
            for number in range(EDITS)
        ]
        yield Figure(
            what=f"99 % of other requests, during edits of a notebook of {name}",
            value=_probed(bench, ours),
            floors={"during PUTs": floor},
            judged="value",
            goal=100,
        )


def _probed(bench: Bench, work: list[partial[object]]) -> float:
    probe = Probe(bench.lab)
    for each in work:
        each()
    return probe.end()
