"""G14 and G17: very many turns, and many at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

from tests.bench.bench import Bench
from tests.bench.client import Client, memory_mb, served
from tests.bench.figures import Curve, Figure, Measured
from tests.bench.model import STEP_S, ask
from tests.ui.conftest import write_notebook
from tests.ui.lab import Lab

PATH = "turns.ipynb"
WARM, TURNS = 50, 5_000
IN_A_CONVERSATION = 50
AT_ONCE = (1, 5, 20, 50, 100, 200)
STEPS = 2


@dataclass(frozen=True)
class State:
    """Of the server's process and its store."""

    memory_mb: float
    descriptors: int
    tasks: int
    store_mb: float


def many(bench: Bench) -> Iterator[Measured]:
    """What 5,000 turns of one call each leave, beside the first 50."""
    counting = {"tests.bench.tasks": True}
    importable = patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parents[3]))
    with importable, served(model=bench.model, extensions=counting) as lab:
        write_notebook(lab, PATH, ["x = 1"])
        states: dict[int, State] = {}
        start = time.perf_counter()
        for number in range(TURNS + 1):
            if number in (WARM, TURNS // 2, TURNS):
                states[number] = _state(lab)
            if number % IN_A_CONVERSATION == 0:
                client = Client(lab)
            conversation = f"c{number // IN_A_CONVERSATION}"
            client.chat(ask("words", 20), PATH, id=conversation).read()
        took = time.perf_counter() - start
    first, middle, last = (states[number] for number in (WARM, TURNS // 2, TURNS))
    for what, unit, goal, name in (
        ("memory", "MB", 5, "memory_mb"),
        ("open descriptors", "", 0, "descriptors"),
        ("asyncio tasks", "", 0, "tasks"),
    ):
        yield Figure(
            what=f"{what} after {TURNS:,} turns",
            value=getattr(last, name),
            unit=unit,
            floors={f"after {WARM}": getattr(first, name)},
            judged="added",
            goal=goal,
        )
    yield Figure(
        what="growth of the store, second half of the turns",
        value=last.store_mb - middle.store_mb,
        unit="MB",
        floors={"first half": (middle.store_mb - first.store_mb) * TURNS / (TURNS - 2 * WARM)},
        goal=1.1,
    )
    yield Figure(what="one turn", value=took * 1000 / TURNS, judged="value")


def at_once(bench: Bench) -> Iterator[Measured]:
    """Conversations at once: turns of two steps with a call, each step a second of the model."""
    write_notebook(bench.lab, PATH, ["x = 1"])
    _turn(bench.lab, "first")  # loads what the server loads late
    took: dict[int, float] = {}
    for number in AT_ONCE:
        names = [f"{number}-{n}" for n in range(number)]
        with ThreadPoolExecutor(number) as threads:
            start = time.perf_counter()
            list(threads.map(partial(_turn, bench.lab), names))
            took[number] = time.perf_counter() - start
    for number in (20, 100, 200):
        yield Figure(
            what=f"throughput of {number} conversations at once, of {number} times one",
            value=took[1] / took[number],
            unit="x n",
            judged="value",
            goal=0.9,
            at_least=True,
        )
    model = dict.fromkeys(took, STEPS * STEP_S)
    yield Curve(
        what="turns of two steps at once",
        size="conversations",
        unit="s",
        lines={"ours": took, "the model alone": model},
    )


def _turn(lab: Lab, conversation: str) -> None:
    text = Client(lab).chat(ask("step"), PATH, id=conversation).read().decode()
    assert '"Done."' in text, text


def _state(lab: Lab) -> State:
    store = lab.root.parent / "store"
    return State(
        memory_mb=memory_mb(lab.process),
        descriptors=len(os.listdir(f"/proc/{lab.process}/fd")),
        tasks=Client(lab).call("GET", "bench/tasks"),
        store_mb=sum(file.stat().st_size for file in store.rglob("*") if file.is_file()) / 1e6,
    )
