"""`jupyter agent run`: runs cells of a notebook in its kernel and prints their outputs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, Style, Working, standard
from jupyter_agent.cli.words import Cells
from jupyter_agent.client.runs import CellRuns, is_live, may_continue, name_client
from jupyter_agent.client.server import ServerRefused
from jupyter_agent.client.servers import existing, serving
from jupyter_agent.text.outputs import images, output_text

EXAMPLES = """\
  jupyter agent run sales.ipynb                # all code cells, up to the first error
  jupyter agent run sales.ipynb 3 summary      # by number or id
  jupyter agent run sales.ipynb --keep-going --timeout 600 --json
  jupyter agent run sales.ipynb --end-kernel   # leave no kernel behind

exit codes: 0 all ran, 1 a cell failed, 2 usage, 3 not allowed, 130 interrupted
"""
_ALL = 10_000_000
"""Characters of outputs, in effect unlimited."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "run",
        help="run all or some cells of a notebook and print their outputs",
        description="Runs the cells in the notebook's kernel through the Jupyter server that "
        "serves it, or in a new kernel if no server runs. The outputs are written into the "
        "notebook. Ctrl-C interrupts the running cell. `jupyter agent undo` restores the earlier "
        "outputs.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "cells", nargs="*", metavar="CELL", help="id or number; default: all code cells"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at an error")
    parser.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="interrupt a cell that takes longer"
    )
    parser.add_argument(
        "--end-kernel",
        action="store_true",
        help="end the kernel afterwards if this started it and no one else uses it",
    )
    parser.add_argument("--json", action="store_true", help="as POST notebooks/NOTEBOOK/run")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Runs one cell after the other; 1 if one failed."""
    console, notebook = standard(), existing(given.notebook)
    with serving(notebook, given.store) as server, console.working() as working:
        cells = server.ask("GET", f"{server.route(notebook)}?outputs=none")["cells"]
        runs = CellRuns(
            server,
            notebook,
            chosen(cells, given.cells),
            by=name_client("jupyter agent run"),
            keep_going=given.keep_going,
            timeout=given.timeout,
            keep_kernel=not given.end_kernel,
        )
        shown = None if given.json else console
        code, ended = _follow(runs, Cells([cell["id"] for cell in cells]), working, shown)
    if given.json:
        turn = {"turn_id": runs.turn_id} if runs.turn_id else {}
        console.json({"cells": ended, **turn})
        return code
    for note in dict.fromkeys(str(each.get("note") or "") for each in ended):
        if note:
            console.tell(note, "warning")
    if runs.turn_id:
        console.tell(f"Undo: jupyter agent undo {runs.turn_id}", "faint")
    return code


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds above 0")


def chosen(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Ids of the cells named by id or number; all code cells if `names` is empty.

    Raises ServerRefused for a name without a cell.
    """
    if not names:
        return [cell["id"] for cell in cells if cell["type"] == "code" and cell["source"].strip()]
    return [cell_id(cells, name) for name in names]


def cell_id(cells: Sequence[Mapping[str, Any]], name: str) -> str:
    """The id of the cell with that id or number. Raises ServerRefused."""
    ids = [str(cell["id"]) for cell in cells]
    if name in ids:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(ids):
        return ids[int(name) - 1]
    raise ServerRefused(f"No cell `{name}`. Cells now: {', '.join(ids)}.", 404, "cell_not_found")


def _follow(
    runs: CellRuns, cells: Cells, working: Working, console: Console | None
) -> tuple[Exit, list[dict[str, Any]]]:
    """Runs the cells and shows each when it ends; Ctrl-C interrupts the running one."""
    code, ended = Exit.DONE, []
    working.on("Starting")
    try:
        for run in runs:
            if is_live(run):
                working.on(f"Running {cells.name(run['cell_id'])}")
                continue
            ended.append(run)
            working.on("")
            if not may_continue(run):
                code = Exit.FAILED
            if console is not None:
                _show(console, cells, run)
    except KeyboardInterrupt:
        working.on("Interrupting the cell")
        stopped = runs.interrupt()
        working.on("")
        if console is not None:
            for run in stopped:
                _show(console, cells, run)
        return Exit.STOPPED, [*ended, *stopped]
    return code, ended


def _show(console: Console, cells: Cells, ended: Mapping[str, Any]) -> None:
    style: Style = "strong" if may_continue(ended) else "warning"
    name = cells.name(ended["cell_id"])
    console.line(f"* {name}: {ended['status']}, {ended['seconds']:.1f} s", style)
    for line in output_text(ended["outputs"], limit=_ALL, rows=None).splitlines():
        console.line(f"    {line}")
    console.pictures(images(ended["outputs"]))
