"""`jupyter agent show`: a notebook as it is now, unsaved typing included."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, standard
from jupyter_agent.client.servers import existing, serving
from jupyter_agent.legible import pluralize, quoted
from jupyter_agent.text.outputs import images, output_text

EXAMPLES = """\
  jupyter agent show sales.ipynb
  jupyter agent show sales.ipynb --no-outputs | less
  jupyter agent show sales.ipynb --for-model
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "show",
        help="print a notebook as it is now, unsaved typing included",
        description="Asks the Jupyter server that serves the notebook, or a temporary one.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--no-outputs", action="store_true", help="only the cells")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--for-model", action="store_true", help="as a model reads it")
    form.add_argument("--json", action="store_true", help="as GET notebooks/NOTEBOOK")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints the cells; 2 if there is no such notebook."""
    console, notebook = standard(), existing(given.notebook)
    whole = given.json or console.shows_pictures
    outputs = "none" if given.no_outputs else "full" if whole else "text"
    query = "format=text" if given.for_model else f"outputs={outputs}"
    with serving(notebook, given.store) as server:
        answer = server.ask("GET", f"{server.route(notebook)}?{query}")
    if given.json:
        console.json(answer)
    elif given.for_model:
        console.line(answer.rstrip("\n"))
    else:
        _show(console, answer)
    return 0


def _show(console: Console, answer: Mapping[str, Any]) -> None:
    kernel = answer["kernel"]
    state = f"kernel {kernel['name']} {kernel['state']}" if kernel else "no kernel"
    console.line(
        f"{quoted(answer['path'])}: {pluralize(len(answer['cells']), 'cell')}, {state}", "faint"
    )
    for cell in answer["cells"]:
        console.line()
        _show_cell(console, cell)


def _show_cell(console: Console, cell: Mapping[str, Any]) -> None:
    count = f" [{cell['execution_count']}]" if cell.get("execution_count") else ""
    stale = f", stale: {cell['stale_why']}" if cell["stale"] else ""
    head = f"{cell['index'] + 1} {quoted(cell['id'])} {cell['type']}{count}{stale}"
    console.line(head, "strong")
    for line in cell["source"].splitlines():
        console.line(f"    {line}")
    outputs = cell.get("outputs") or ""
    for line in (outputs if isinstance(outputs, str) else output_text(outputs)).splitlines():
        console.line(f"  > {line}", "faint")
    if not isinstance(outputs, str):
        console.pictures(images(outputs))
