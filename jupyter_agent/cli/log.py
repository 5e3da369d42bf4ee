"""`jupyter agent log`: the audit: who decided and did what, when, with which model and outcome."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_agent.cli.offline import add_store, local, shorten
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.stores import Unknown, open_store, stored_paths

_WHY = 100
"""Maximum characters of a reason."""

EXAMPLES = """\
  jupyter agent log sales.ipynb
  jupyter agent log --turn t_4f0c --json
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "log",
        help="every decision and effect: who, when, which model, tool and cell, and the outcome",
        description="Reads the audit from the store, even while a server runs.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, nargs="?", metavar="NOTEBOOK")
    parser.add_argument("--turn", metavar="ID", help="only that turn")
    parser.add_argument("--json", action="store_true", help="as `audit` of GET turns/ID")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per entry, oldest first; 1 with a message if there is nothing."""
    console = standard()
    from jupyter_agent.conversations.audit import (
        entries,  # slow to import: about a second
    )

    paths = stored_paths(Path(os.path.realpath(given.notebook))) if given.notebook else None
    try:
        with open_store(given.store) as db:
            audit = entries(db, paths=paths, turn_id=given.turn)
    except Unknown as error:
        console.tell(str(error))
        return 1
    if given.json:
        console.json(audit)
        return 0
    if not audit:
        console.tell("No matching audit entries.")
        return 1
    for entry in audit:
        console.line(_line(entry))
    return 0


def _line(entry: Mapping[str, Any]) -> str:
    where = " ".join(filter(None, [entry["notebook"], entry["cell_id"]]))
    why = f" ({shorten(entry['why'], _WHY)})" if entry["why"] else ""
    words = [
        local(entry["time"]),
        f"{entry['owner']} by {entry['model'] or entry['entry']}",
        f"{entry['tool']} {where}".rstrip(),
        f"{entry['decision']} -> {entry['outcome']}{why}",
    ]
    return "  ".join(shorten(word, 1000) for word in words)
