"""G6 and G7: what a model is shown of a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import nbformat
from jupyter_ydoc import YNotebook
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.document.crdt import SharedCells, rewrite
from jupyter_agent.text.notebook import render
from tests.bench.bench import Bench
from tests.bench.client import ms
from tests.bench.figures import Curve, Figure, Measured
from tests.bench.tokens import tokens as count

SIZE = 1_000


def state(bench: Bench) -> Iterator[Measured]:
    """The text for a model, beside the JSON of the same shared document."""
    cold: dict[int, float] = {}
    edited: dict[int, float] = {}
    get: dict[int, float] = {}
    for size in (10, 100, SIZE, 10_000):
        document = YNotebook()
        document.set(nbformat.from_dict(_notebook(size)))
        gets, colds, edits = [], [], []
        cells = SharedCells(document)
        _read(cells)
        for number in range(20 if size <= SIZE else 5):
            colds.append(ms(_read_first, document))
            with cells.transaction():
                rewrite(cells.live_cell("c5")["source"], f"edited = {number}")
            gets.append(ms(document.get))
            edits.append(ms(_read, cells))
        cold[size], edited[size], get[size] = median(colds), median(edits), median(gets)
    floor = {"YNotebook.get": get[SIZE]}
    yield Figure(what="state of 1,000 cells, cold", value=cold[SIZE], floors=floor, goal=1.2)
    yield Figure(
        what="state of 1,000 cells, after an edit", value=edited[SIZE], floors=floor, goal=0.15
    )
    yield Curve(
        what="text of a notebook for a model",
        size="cells",
        lines={"ours, after an edit": edited, "ours, cold": cold, "YNotebook.get": get},
    )


def tokens(bench: Bench) -> Iterator[Measured]:
    """Tokens of the state of 1,000 cells, in one call."""
    notebook = nbformat.from_dict(_notebook(SIZE))
    document = YNotebook()
    document.set(notebook)
    yield Figure(
        what="tokens to understand a notebook of 1,000 cells, in one call",
        value=count(_read_first(document)),
        unit="tokens",
        floors={"its JSON": count(nbformat.writes(notebook))},
        judged="value",
        goal=6_000,
    )


def _read(cells: SharedCells) -> str:
    return render(cells.all()).text


def _read_first(document: YNotebook) -> str:
    cells = SharedCells(document)
    text = _read(cells)
    cells.close()
    return text


def _notebook(size: int) -> Any:
    output = {"output_type": "stream", "name": "stdout", "text": "a line of output\n" * 3}
    return new_notebook(
        cells=[
            new_code_cell(f"# Step {n}\nx{n} = {n} * 2", id=f"c{n}", outputs=[output])
            for n in range(size)
        ]
    )
