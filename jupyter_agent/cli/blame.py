"""`jupyter agent blame`: which turn, model and request last changed each cell of a notebook."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_agent.cli.offline import Unknown, add_store, cut, local, names, opened
from jupyter_agent.cli.servers import Refused, ask_running
from jupyter_agent.conversations.changes import CellText, blame

_SECONDS = 10.0
"""That a running server may take to answer."""
_WIDEST = {"model": 32, "text": 30, "request": 60}
"""Characters of a column at most."""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = commands.add_parser(
        "blame",
        help="which turn, model and request last changed each cell of a notebook",
        description="Asks the Jupyter server that serves the notebook, or reads the store where "
        "none runs. Nothing is written into the notebook for it.",
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--json", action="store_true", help="as GET notebooks/NOTEBOOK/blame")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per cell; 1 with a sentence where nothing can be told."""
    notebook = given.notebook.resolve()
    try:
        source = _cells(notebook)
        found = (None if given.store else _ask(notebook)) or _look_up(notebook, source, given.store)
    except Unknown as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if given.json:
        sys.stdout.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    else:
        texts = {cell.id: cell.source for cell in source}
        sys.stdout.write("".join(f"{line}\n" for line in _table(found["cells"], texts)))
    return 0


def _cells(notebook: Path) -> list[CellText]:
    """The cells as the file has them."""
    try:
        content = json.loads(notebook.read_text(encoding="utf-8"))
        cells = content["cells"]
        ids = [cell.get("id") for cell in cells]
    except FileNotFoundError:
        raise Unknown(f"There is no notebook at {notebook}.") from None
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
    with suppress(Refused):  # the store may know more than a server of another root
        return ask_running(notebook, "blame", seconds=_SECONDS)
    return None


def _look_up(notebook: Path, cells: Sequence[CellText], store: Path | None) -> dict[str, Any]:
    """What the store says, which is only read."""
    with opened(store, f"No running Jupyter server serves {notebook.name}. ") as db:
        found = blame(db, list(names(notebook)), cells, None)
    return {"path": notebook.name, "cells": [each.to_json() for each in found]}


def _table(cells: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> Iterator[str]:
    rows = [{"cell": "cell", "model": "model", "time": "time", "state": "", "text": "text"}]
    rows[0]["request"] = "request"
    rows += [_row(cell, texts.get(cell["cell_id"], "")) for cell in cells]
    widths = {
        key: min(max(len(row[key]) for row in rows), _WIDEST.get(key, 1000)) for key in rows[0]
    }
    for row in rows:
        shown = [cut(row[key], width).ljust(width) for key, width in widths.items()]
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
