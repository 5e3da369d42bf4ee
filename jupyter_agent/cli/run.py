"""`jupyter agent run`: cells of a notebook in its kernel, with their outputs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, Style, Working, standard
from jupyter_agent.cli.words import Cells
from jupyter_agent.client.runs import CellRun, may_continue, saved
from jupyter_agent.client.servers import Server, ServerRefused, existing, serving
from jupyter_agent.text.outputs import output_text

EXAMPLES = """\
  jupyter agent run sales.ipynb                # all code cells, up to the first error
  jupyter agent run sales.ipynb 3 summary      # by number or id
  jupyter agent run sales.ipynb --keep-going --timeout 600 --json

exit codes: 0 all ran, 1 a cell failed, 2 usage, 3 not allowed, 130 interrupted
"""
_ALL = 10_000_000
"""Characters of outputs."""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "run",
        help="run all or some cells of a notebook and print their outputs",
        description="Runs the cells in the notebook's kernel, through the Jupyter server that "
        "serves it; where none runs, in a fresh kernel of its own. The outputs are written into "
        "the notebook. Ctrl-C interrupts the cell that runs.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "cells", nargs="*", metavar="CELL", help="id or number; default: all code cells"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at an error")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="interrupt a cell that takes longer"
    )
    parser.add_argument("--json", action="store_true", help="as POST notebooks/NOTEBOOK/run")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Runs one cell after the other; 1 where one did not end well."""
    console, notebook = standard(), existing(given.notebook)
    with serving(notebook, given.store) as server, console.working() as working:
        found = server.ask("GET", f"{server.route(notebook)}?outputs=none")["cells"]
        runs = _Runs(server, notebook, Cells([cell["id"] for cell in found]), working)
        shown = None if given.json else console
        code = runs.run_all(chosen(found, given.cells), given, shown)
        ended = runs.saved()
    if given.json:
        console.json({"cells": ended})
    for note in dict.fromkeys(str(each.get("note") or "") for each in ended):
        if note:
            console.tell(note, "warning")
    return code


def chosen(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Ids of the cells that were named by id or number; all code cells where none was.

    Raises ServerRefused for a name that no cell has.
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


class _Runs:
    """The runs of one command, in their order."""

    def __init__(self, server: Server, notebook: Path, cells: Cells, working: Working) -> None:
        self._server = server
        self._notebook = notebook
        self._cells = cells
        self._working = working
        self._ended: list[dict[str, Any]] = []

    def run_all(
        self, cell_ids: Sequence[str], given: argparse.Namespace, console: Console | None
    ) -> Exit:
        """Runs them, up to the first that fails unless it is to go on."""
        code = Exit.DONE
        for cell_id in cell_ids:
            self._working.on(f"Running {self._cells.name(cell_id)}")
            run, interrupted = self._run(cell_id, given.timeout)
            self._ended.append(run)
            self._working.on("")
            if console is not None:
                self._show(console, run)
            if interrupted:
                return Exit.STOPPED
            if not may_continue(run):
                code = Exit.FAILED
                if not given.keep_going:
                    break
        return code

    def saved(self) -> list[dict[str, Any]]:
        """The runs once their outputs are on disk, or it is known why not."""
        return [saved(self._server, each) for each in self._ended]

    def _run(self, cell_id: str, timeout: float | None) -> tuple[dict[str, Any], bool]:
        """The run at its end, and whether Ctrl-C interrupted it."""
        run = CellRun(self._server, self._notebook, cell_id, timeout)
        try:
            return run.wait(), False
        except KeyboardInterrupt:
            self._working.on("Interrupting the cell")
            return run.interrupt(), True

    def _show(self, console: Console, ended: Mapping[str, Any]) -> None:
        style: Style = "strong" if may_continue(ended) else "warning"
        name = self._cells.name(ended["cell_id"])
        console.line(f"* {name}: {ended['status']}, {ended['seconds']:.1f} s", style)
        for line in output_text(ended["outputs"], limit=_ALL, rows=None).splitlines():
            console.line(f"    {line}")
