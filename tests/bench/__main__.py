"""The table of performance: `python -m tests.bench [ROW ...]` (about ten minutes a round).

Each row compares what we do with what people would use instead, for the same notebook on the same
machine, alternating in the same minutes; so ratios count, not times. Rounds are medians of several
measurements; the table has the median of the rounds and their spread. `results.json` and
`index.html`, a page with the table and plots of growth, are written after each row. With
`--peer PYTHON`, that of an environment with jupyter-mcp-server, that one is beside us.

Use the machine for nothing else: `results.json` has its load. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from tests.bench.bench import Bench
from tests.bench.figures import Curve, Figure, Measured, Summary, exponent, merged
from tests.bench.page import markdown, page
from tests.bench.rows.agents import agents
from tests.bench.rows.edits import on_disk
from tests.bench.rows.floods import edits, floods
from tests.bench.rows.keys import typing
from tests.bench.rows.reads import state, tokens
from tests.bench.rows.runs import runs
from tests.bench.rows.starts import starts
from tests.bench.rows.streams import first_byte, inputs, relay, stop
from tests.bench.rows.turns import at_once, many

Measure: TypeAlias = Callable[[Bench], Iterator[Measured]]
ROWS: Mapping[str, Sequence[Measure]] = {
    "G1-G3": [runs],
    "G4": [agents],
    "G5": [on_disk],
    "G6": [state],
    "G7": [tokens],
    "G8": [relay],
    "G9": [inputs],
    "G10": [starts],
    "G11": [first_byte],
    "G12": [stop],
    "G13": [floods, edits],
    "G14": [many],
    "G16": [typing],
    "G17": [at_once],
}


class Table:
    """What all rounds have measured, in the order of the rows."""

    def __init__(self) -> None:
        self._figures: dict[str, dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
        self._curves: dict[str, list[Curve]] = defaultdict(list)

    def add(self, row: str, measured: Measured) -> None:
        if isinstance(measured, Curve):
            self._curves[measured.what].append(measured)
        else:
            self._figures[row][measured.what].append(measured)

    @property
    def summaries(self) -> dict[str, list[Summary]]:
        """By row."""
        return {
            row: [Summary(rounds) for rounds in figures.values()]
            for row, figures in self._figures.items()
        }

    @property
    def curves(self) -> list[Curve]:
        return [merged(rounds) for rounds in self._curves.values()]

    def write(self, folder: Path, about: Mapping[str, Any]) -> None:
        """`results.json` and `index.html`."""
        folder.mkdir(parents=True, exist_ok=True)
        results = {
            "about": about,
            "table": {
                row: [
                    {
                        "what": one.what,
                        "result": one.result,
                        "spread": one.spread,
                        "met": one.is_met,
                        "peers_ahead": one.peers_ahead,
                        "rounds": [asdict(figure) for figure in one.rounds],
                    }
                    for one in summaries
                ]
                for row, summaries in self.summaries.items()
            },
            "curves": [
                {
                    **asdict(curve),
                    "exponents": {name: exponent(line) for name, line in curve.lines.items()},
                }
                for curve in self.curves
            ],
        }
        (folder / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        (folder / "index.html").write_text(
            page(about, self.summaries, self.curves), encoding="utf-8"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="FOLDER")
    options = parser.parse_args()
    if unknown := set(options.rows) - ROWS.keys():
        parser.error(f"there is no row {', '.join(sorted(unknown))}; rows are {', '.join(ROWS)}")
    table = Table()
    about = _about(options.peer)
    for number in range(1, options.rounds + 1):
        for row in options.rows or ROWS:
            began = time.monotonic()
            for measure in ROWS[row]:
                with ExitStack() as stack:
                    for measured in measure(Bench(stack, options.peer)):
                        table.add(row, measured)
            sys.stderr.write(f"round {number}, {row}: {time.monotonic() - began:.0f} s\n")
            about |= {"rounds": number, "load after": _load()}
            table.write(options.out, about)
    sys.stdout.write(markdown(table.summaries) + "\n")


def _about(peer: str | None) -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit.stdout.strip(),
        "Python": platform.python_version(),
        "JupyterLab": version("jupyterlab"),
        "processors": os.cpu_count(),
        "peer": peer and "jupyter-mcp-server " + _peer_version(peer),
        "load before": _load(),
    }


def _peer_version(python: str) -> str:
    code = "from importlib.metadata import version; print(version('jupyter-mcp-server'))"
    command = [python, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
