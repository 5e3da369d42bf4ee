"""`jupyter agent changes`: what answers changed in a notebook and nobody has kept or undone."""

from __future__ import annotations

import argparse
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.cli.words import Cells, told_change
from jupyter_agent.client.servers import existing, serving

EXAMPLES = """\
  jupyter agent changes sales.ipynb
  jupyter agent changes sales.ipynb --keep t_4f0c
"""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "changes",
        help="what answers changed in a notebook and nobody has kept or undone",
        description="Lists the changes by turn, as diffs; `jupyter agent undo TURN` takes those of "
        "a turn back.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--keep", metavar="TURN", help="mark the changes of that turn as reviewed")
    parser.add_argument("--json", action="store_true", help="as GET notebooks/NOTEBOOK/changes")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints the changes, the oldest first."""
    console, notebook = standard(), existing(given.notebook)
    with serving(notebook, given.store) as server:
        if given.keep:
            server.ask("POST", f"turns/{quote(given.keep, '')}/accept", {})
        found = server.ask("GET", server.route(notebook, "changes"))
        state = server.ask("GET", f"{server.route(notebook)}?outputs=none")
    if given.json:
        console.json(found)
        return 0
    cells = Cells([cell["id"] for cell in state["cells"]])
    for turn_id, changes in groupby(found, key=itemgetter("turn_id")):
        console.line(f"Turn {turn_id}", "strong")
        for change in changes:
            for text, style in told_change(change, cells.name):
                console.line(f"  {text}", style)
    if not found:
        console.tell("Nothing to review.")
    return 0
