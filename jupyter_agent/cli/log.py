"""`jupyter agent log`: who decided and did what, when, by which model, and what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_agent.cli.offline import add_store, cut, local
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.stores import Unknown, names, opened

_WHY = 100
"""Characters of a reason at most."""

EXAMPLES = """\
  jupyter agent log sales.ipynb
  jupyter agent log --turn t_4f0c --json
"""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "log",
        help="every decision and effect: who, when, which model, tool and cell, and the outcome",
        description="Reads the audit from the store, also while a server runs.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, nargs="?", metavar="NOTEBOOK")
    parser.add_argument("--turn", metavar="ID", help="only that turn")
    parser.add_argument("--json", action="store_true", help="as `audit` of GET turns/ID")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per entry, the oldest first; 1 with a sentence where there is nothing."""
    console = standard()
    from jupyter_agent.conversations.audit import (
        entries,  # a second, for which others need not wait
    )

    paths = list(names(given.notebook.resolve())) if given.notebook else None
    try:
        with opened(given.store) as db:
            found = entries(db, notebooks=paths, turn_id=given.turn)
    except Unknown as error:
        console.tell(str(error))
        return 1
    if given.json:
        console.json(found)
        return 0
    if not found:
        console.tell("No matching audit entries.")
        return 1
    for entry in found:
        console.line(_line(entry))
    return 0


def _line(entry: Mapping[str, Any]) -> str:
    where = " ".join(filter(None, [entry["notebook"], entry["cell_id"]]))
    why = f" ({cut(entry['why'], _WHY)})" if entry["why"] else ""
    words = [
        local(entry["time"]),
        f"{entry['owner']} by {entry['model'] or entry['entry']}",
        f"{entry['tool']} {where}".rstrip(),
        f"{entry['decision']} -> {entry['outcome']}{why}",
    ]
    return "  ".join(cut(word, 1000) for word in words)
