"""`jupyter agent undo`: takes back what an answer changed, but nothing that people wrote."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.servers import knowing_turn

EXAMPLES = """\
  jupyter agent undo t_4f0c
  jupyter agent changes sales.ipynb    # names the turns
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "undo",
        help="take back what an answer changed",
        description="Takes back the changes of a turn in all its notebooks. What people wrote "
        "there since then stays and is listed; kernels keep their variables. Exits with 1 if a "
        "change stays.",
        examples=EXAMPLES,
    )
    parser.add_argument("turn", metavar="TURN")
    parser.add_argument("--json", action="store_true", help="as POST turns/TURN/undo")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints the undone changes and those that stay; 1 if any stays."""
    console = standard()
    with knowing_turn(given.turn, given.store) as server:
        result = server.ask("POST", f"turns/{quote(given.turn, '')}/undo", {})
    if given.json:
        console.json(result)
    else:
        console.line(result["message"], "warning" if result["conflicts"] else "plain")
    return Exit.FAILED if result["conflicts"] else Exit.DONE
