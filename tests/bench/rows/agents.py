"""G4: outside agents over MCP, until they have an answer, until the browser has their edits and
until the file has them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

from tests.bench.bench import Bench
from tests.bench.client import carrier_of
from tests.bench.figures import Figure, Measured
from tests.bench.outside import JupyterMcpServer, Ours, OutsideAgent
from tests.ui.conftest import new_file
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

TIMES = 20
PAUSE_S = 0.2
"""Between two calls, like thinking agents: after a save JupyterLab lists folder and checkpoints."""
SOURCES = ["x = 1", "1 + 1", *(f"y{n} = {n}" for n in range(20))]
WATCH = """path => {
  const cell = agentTest.cells(path)[0].sharedModel;
  window.benchSeen = {};
  cell.changed.connect(() => {
    benchSeen[cell.getSource()] ??= performance.timeOrigin + performance.now();
  });
}"""


@dataclass
class Side:
    """An agent and its notebook, which is closed without a tab."""

    agent: OutsideAgent
    file: Path
    tab: OpenNotebook | None = None
    answered: list[float] = field(default_factory=list)
    """All in milliseconds from the call."""
    seen: list[float] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)

    def edit(self, old: str, new: str) -> None:
        start = time.time() * 1000
        self.agent.change(old, new)
        self.answered.append(time.time() * 1000 - start)
        if self.tab is not None:
            evaluate = partial(self.tab.page.evaluate, "source => benchSeen[source]", new)
            self.seen.append(eventually(evaluate, bool) - start)
        eventually(self._first_cell, new.__eq__)
        self.saved.append(time.time() * 1000 - start)

    def execute(self) -> None:
        start = time.time() * 1000
        self.agent.execute()
        self.ran.append(time.time() * 1000 - start)

    def _first_cell(self) -> str:
        try:
            cells = json.loads(self.file.read_text(encoding="utf-8"))["cells"]
        except ValueError:  # being written right now
            return ""
        return "".join(cells[0]["source"])


def agents(bench: Bench) -> Iterator[Measured]:
    sides = dict(_ours(bench))
    if bench.peer is not None:
        sides |= _theirs(bench)
    text, order = SOURCES[0], Random(4)
    # Each edit is on disk before the next one; runs come last, since some are saved a second later.
    for number in range(100, 100 + TIMES):
        new = f"x = {number}"
        for side in order.sample([*sides.values()], len(sides)):
            time.sleep(PAUSE_S)
            side.edit(text, new)
        text = new
    for _ in range(TIMES):
        for side in order.sample([*sides.values()], len(sides)):
            time.sleep(PAUSE_S)
            side.execute()
    yield from _figures(sides)


def _ours(bench: Bench) -> Iterator[tuple[str, Side]]:
    for carrier, lab in (("tab", bench.lab), ("room", bench.rooms)):
        tab = bench.open(lab, SOURCES, WATCH)
        eventually(partial(carrier_of, lab, tab.path), carrier.__eq__)
        yield carrier, Side(Ours(lab, tab.path), lab.root / tab.path, tab)
    path = new_file(bench.lab, "closed", SOURCES)
    yield "closed", Side(Ours(bench.lab, path), bench.lab.root / path)


def _theirs(bench: Bench) -> Iterator[tuple[str, Side]]:
    """On two servers: all clients of a server share their current notebook."""
    lab = bench.start_peer()
    tab = bench.open(lab, SOURCES, WATCH)
    yield "their room", Side(JupyterMcpServer(lab, tab.path), lab.root / tab.path, tab)
    lab = bench.start_peer()
    path = new_file(lab, "closed", SOURCES)
    yield "their closed", Side(JupyterMcpServer(lab, path), lab.root / path)


def _figures(sides: dict[str, Side]) -> Iterator[Figure]:
    for place in ("tab", "room", "closed"):
        side = sides[place]
        peer = sides.get("their closed" if place == "closed" else "their room")
        for what, times, theirs, goal in (
            ("edit over MCP until the browser has it", side.seen, peer and peer.seen, 0.5),
            ("edit over MCP until it is on disk", side.saved, peer and peer.saved, None),
            ("edit over MCP until the answer", side.answered, peer and peer.answered, None),
            ("run over MCP until the answer", side.ran, peer and peer.ran, None),
        ):
            if not times:
                continue
            peers = {JupyterMcpServer.name: median(theirs)} if theirs else {}
            yield Figure(
                what=f"{what}, {place}",
                value=median(times),
                peers=peers,
                judged="peer" if goal and peers else "value",
                goal=goal if peers else None,
            )
