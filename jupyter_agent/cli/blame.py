"""`jupyter agent blame`: which turn, model and request last changed each cell of a notebook."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_agent.cli.offline import add_store, local, shorten
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.server import ServerRefused
from jupyter_agent.client.servers import ask_running, existing
from jupyter_agent.client.stores import Unknown, open_store, stored_paths
from jupyter_agent.conversations.changes import CellText, blame

_SECONDS = 10.0
"""Timeout for a running server."""
_WIDEST = {"model": 32, "text": 30, "request": 60}
"""Maximum characters per column."""

EXAMPLES = """\
  jupyter agent blame sales.ipynb
  jupyter agent blame sales.ipynb --json
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "blame",
        help="which turn, model and request last changed each cell of a notebook",
        description="Asks the Jupyter server that serves the notebook, or reads the store if "
        "no server runs. Writes nothing into the notebook.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--json", action="store_true", help="as GET notebooks/NOTEBOOK/blame")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per cell; 1 with a message if there is no answer, 2 if no such notebook."""
    console, notebook = standard(), existing(given.notebook)
    try:
        source = _cells(notebook)
        answer = (None if given.store else _ask(notebook)) or _look_up(
            notebook, source, given.store
        )
    except Unknown as error:
        console.tell(str(error))
        return 1
    if given.json:
        console.json(answer)
    else:
        texts = {cell.id: cell.source for cell in source}
        for line in _table(answer["cells"], texts):
            console.line(line)
    return 0


def _cells(notebook: Path) -> list[CellText]:
    """The cells in the file."""
    try:
        content = json.loads(notebook.read_text(encoding="utf-8"))
        cells = content["cells"]
        ids = [cell.get("id") for cell in cells]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise Unknown(f"{notebook} cannot be read as a notebook.") from None
    if None in ids:
        raise Unknown(
            f"The cells of {notebook.name} have no ids (a format before 4.5): "
            "the assistant has not changed it yet."
        )
    return [
        CellText(id=cell["id"], type=cell["cell_type"], source="".join(cell["source"]))
        for cell in cells
    ]


def _ask(notebook: Path) -> dict[str, Any] | None:
    with suppress(ServerRefused):  # the store may know more than a server of another root
        return ask_running(notebook, "blame", seconds=_SECONDS)
    return None


def _look_up(notebook: Path, cells: Sequence[CellText], store: Path | None) -> dict[str, Any]:
    """Reads the answer from the store."""
    with open_store(store, f"No running Jupyter server serves {notebook.name}. ") as db:
        found = blame(db, stored_paths(notebook), cells, None)
    return {"path": notebook.name, "cells": [each.to_json() for each in found]}


def _table(cells: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> Iterator[str]:
    rows = [{"cell": "cell", "model": "model", "time": "time", "state": "", "text": "text"}]
    rows[0]["request"] = "request"
    rows += [_row(cell, texts.get(cell["cell_id"], "")) for cell in cells]
    widths = {
        key: min(max(len(row[key]) for row in rows), _WIDEST.get(key, 1000)) for key in rows[0]
    }
    for row in rows:
        shown = [shorten(row[key], width).ljust(width) for key, width in widths.items()]
        yield "  ".join(shown).rstrip()


def _row(cell: Mapping[str, Any], text: str) -> dict[str, str]:
    state = "changed since" if cell["changed_since"] else "reviewed" if cell["reviewed"] else ""
    return {
        "cell": f"{cell['index'] + 1} {cell['cell_id']}",
        "model": cell["model"] or "-",
        "time": local(cell["time"]) if cell["time"] else "-",
        "state": state,
        "text": next((line for line in text.splitlines() if line.strip()), ""),
        "request": " ".join((cell["request"] or "").split()),
    }
