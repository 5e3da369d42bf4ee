"""`jupyter agent changes`: changes of a notebook that no one has kept or undone yet."""

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
from jupyter_agent.cli.words import Cells, describe_change
from jupyter_agent.client.servers import existing, serving

EXAMPLES = """\
  jupyter agent changes sales.ipynb
  jupyter agent changes sales.ipynb --keep t_4f0c
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "changes",
        help="list changes of a notebook that no one has kept or undone yet",
        description="Lists the changes by turn, as diffs; `jupyter agent undo TURN` takes back "
        "those of a turn.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--keep", metavar="TURN", help="mark the changes of that turn as reviewed")
    parser.add_argument("--json", action="store_true", help="as GET notebooks/NOTEBOOK/changes")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints the changes, oldest first."""
    console, notebook = standard(), existing(given.notebook)
    with serving(notebook, given.store) as server:
        if given.keep:
            server.ask("POST", f"turns/{quote(given.keep, '')}/accept", {})
        pending = server.ask("GET", server.route(notebook, "changes"))
        state = server.ask("GET", f"{server.route(notebook)}?outputs=none")
    if given.json:
        console.json(pending)
        return 0
    cells = Cells([cell["id"] for cell in state["cells"]])
    for turn_id, changes in groupby(pending, key=itemgetter("turn_id")):
        console.line(f"Turn {turn_id}", "strong")
        for change in changes:
            for text, style in describe_change(change, cells.name):
                console.line(f"  {text}", style)
    if not pending:
        console.tell("Nothing to review.")
    return 0
