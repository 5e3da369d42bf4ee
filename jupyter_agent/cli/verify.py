"""`jupyter agent verify`: does a notebook still run from the top and show what it shows?"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jupyter_agent.cli.offline import add_store, cut, local
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.servers import ServerRefused, ask_running, own

_WHY = 200
"""Characters of a reason at most."""

EXAMPLES = """\
  jupyter agent verify sales.ipynb && git commit -a
  jupyter agent verify sales.ipynb --update
"""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "verify",
        help="runs a copy of a notebook from the top in a fresh kernel and compares the outputs",
        description="Asks the Jupyter server that serves the notebook, which knows unsaved typing, "
        "or does it itself where none runs. Ends with 0 where every cell runs and shows the same "
        "(with --update: where every cell runs and the fresh outputs are written), else with 1.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "--update", action="store_true", help="write the fresh outputs where every cell runs"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write into the notebook when it was verified and with which versions, where all is "
        "the same; else take such a record out",
    )
    parser.add_argument("--json", action="store_true", help="as POST notebooks/NOTEBOOK/verify")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line, and one per cell that is not the same; 1 where not all is well."""
    console = standard()
    notebook = given.notebook.resolve()
    body = {"update": given.update, "record": given.record}
    try:
        if not notebook.is_file():
            raise ServerRefused(f"There is no notebook at {notebook}.")
        body = {key: value for key, value in body.items() if value}
        answer = ask_running(notebook, "verify", body, seconds=None)
        if answer is None:
            answer = _verify_alone(notebook, body, given.store)
    except ServerRefused as error:
        console.tell(cut(str(error), 1000))
        return 1
    if given.json:
        console.json(answer)
    else:
        for line in _lines(notebook.name, answer):
            console.line(line)
    return 0 if answer["ok"] or answer.get("updated") else 1


def _verify_alone(notebook: Path, body: Mapping[str, Any], store: Path | None) -> dict[str, Any]:
    """By a server of our own. A copy of a notebook that is written goes to the usual store."""
    with ExitStack() as stack:
        if store is None and not body:
            store = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(own(notebook.parent, store))
        answer: dict[str, Any] = server.ask("POST", server.route(notebook, "verify"), body)
        return answer


def _lines(name: str, answer: Mapping[str, Any]) -> Iterator[str]:
    cells = answer["cells"]
    same = sum(cell["status"] == "same" for cell in cells)
    word = "Verified" if answer["ok"] else "Checked"
    yield cut(
        f"{word} {name} {local(answer['at'])}: {same} of {len(cells)} cells, same results "
        f"({answer['kernel']}, {answer['seconds']:.1f} s, code {answer['hash'][:12]})",
        1000,
    )
    for cell in cells:
        if cell["status"] != "same":
            yield cut(f"  {cell['cell_id']}  {cell['status']}: {cell['why']}", _WHY)
        elif cell.get("not_compared"):
            yield cut(f"  {cell['cell_id']}  not compared: {cell['not_compared']}", _WHY)
    if answer.get("updated"):
        yield "The fresh outputs were written into the notebook."
    if answer.get("recorded"):
        yield "The notebook says so now."
