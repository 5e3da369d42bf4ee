"""`jupyter agent verify`: does a notebook still run from the top and show what it shows?"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_agent.cli.offline import add_store, cut, local
from jupyter_agent.cli.servers import Refused, ask_running, own_server, request

_WHY = 200
"""Characters of a reason at most."""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = commands.add_parser(
        "verify",
        help="runs a copy of a notebook from the top in a fresh kernel and compares the outputs",
        description="Asks the Jupyter server that serves the notebook, which knows unsaved typing, "
        "or does it itself where none runs. Ends with 0 where every cell runs and shows the same "
        "(with --update: where every cell runs and the fresh outputs are written), else with 1.",
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
    notebook = given.notebook.resolve()
    body = {"update": given.update, "record": given.record}
    try:
        if not notebook.is_file():
            raise Refused(f"There is no notebook at {notebook}.")
        body = {key: value for key, value in body.items() if value}
        answer = ask_running(notebook, "verify", body, seconds=None)
        if answer is None:
            answer = _verify_alone(notebook, body, given.store)
    except Refused as error:
        sys.stderr.write(f"{cut(str(error), 1000)}\n")
        return 1
    if given.json:
        sys.stdout.write(json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(notebook.name, answer)))
    return 0 if answer["ok"] or answer.get("updated") else 1


def _verify_alone(notebook: Path, body: Mapping[str, Any], store: Path | None) -> dict[str, Any]:
    """By a server of our own. A copy of a notebook that is written goes to the usual store."""
    answers: list[bytes | Refused] = []
    with ExitStack() as stack:
        folder = store
        if store is None and not body:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options = [f"--IdentityProvider.token={secrets.token_hex(16)}"]
        options += [f"--JupyterAgent.store_dir={folder}"] if folder is not None else []
        app = stack.enter_context(own_server(notebook.parent, options))

        async def ask() -> None:
            try:
                path = quote(notebook.name)
                answers.append(await request(app, "POST", f"notebooks/{path}/verify", body=body))
            except Refused as error:
                answers.append(error)
            finally:
                app.stop()

        app.io_loop.add_callback(ask)
        app.start()
    match answers:
        case [bytes() as answer]:
            found: dict[str, Any] = json.loads(answer)
            return found
        case [Refused() as refused]:
            raise refused
    raise Refused("It was stopped.")


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
