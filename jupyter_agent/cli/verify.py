"""`jupyter agent verify`: do notebooks still run from the top and show what they show?"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store, cut, local
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.servers import (
    Server,
    ServerRefused,
    Unreachable,
    existing,
    find,
    own,
    root_for,
)

_WHY = 200
"""Characters of a reason at most."""

EXAMPLES = """\
  jupyter agent verify sales.ipynb && git commit -a
  jupyter agent verify reports/*.ipynb --json
  jupyter agent verify sales.ipynb --update

exit codes: 0 all is well, 1 a cell failed or shows something else,
2 usage, or a notebook could not be checked: it is missing or unreadable, its
kernel is not installed, the server refused; 130 interrupted
"""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "verify",
        help="runs copies of notebooks from the top in fresh kernels and compares the outputs",
        description="Asks the Jupyter server that serves a notebook, which knows unsaved typing, "
        "or does it itself where none runs. All is well where every cell runs and shows the same "
        "(with --update: where every cell runs and the fresh outputs are written).",
        examples=EXAMPLES,
    )
    parser.add_argument("notebooks", type=Path, nargs="+", metavar="NOTEBOOK")
    parser.add_argument(
        "--update", action="store_true", help="write the fresh outputs where every cell runs"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write into the notebook when it was verified and with which versions, where all is "
        "the same; else take such a record out",
    )
    parser.add_argument("--kernel", metavar="NAME", help="in this kernel, not the notebook's own")
    parser.add_argument(
        "--json",
        action="store_true",
        help="as POST notebooks/NOTEBOOK/verify; of several notebooks a list, each with `notebook`",
    )
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per notebook, and one per cell that is not the same. 2 where one could not be
    checked, else 1 where not all is well.
    """
    console, several = standard(), len(given.notebooks) > 1
    answers: list[Mapping[str, Any]] = []
    codes: list[Exit] = []
    body = {"update": given.update, "record": given.record, "kernel": given.kernel}
    with _Servers(given.store, body) as servers:
        for notebook in given.notebooks:
            try:
                answer = servers.verify(existing(notebook))
            except ServerRefused as error:
                console.tell(cut(f"{notebook}: {error}" if several else str(error), 1000))
                answer = {"ok": False, "message": str(error), "reason": error.reason}
                # with --update, a cell failed or somebody was faster: it was checked
                codes.append(Exit.FAILED if error.reason == "changed" else Exit.USAGE)
            else:
                codes.append(Exit.DONE if answer["ok"] or answer.get("updated") else Exit.FAILED)
                if not given.json:
                    for line in _lines(str(notebook), answer):
                        console.line(line)
            answers.append({"notebook": str(notebook), **answer} if several else answer)
    if several and given.json:
        console.json(answers)
    elif several:
        console.line(f"{codes.count(Exit.DONE)} of {len(codes)} notebooks verified.")
    elif given.json and "cells" in answers[0]:
        console.json(answers[0])
    return max(codes)


class _Servers(ExitStack):
    """Those that verify: for each notebook the one that runs, else one of our own, which the
    notebooks that follow share while their root is the same.
    """

    def __init__(self, store: Path | None, body: Mapping[str, Any]) -> None:
        super().__init__()
        self._store = store
        self._body = {name: value for name, value in body.items() if value}
        self._own: Server | None = None

    def verify(self, notebook: Path) -> dict[str, Any]:
        """The answer of the route. Raises ServerRefused."""
        server = find(notebook) or self._alone(notebook)
        try:
            answer: dict[str, Any] = server.ask(
                "POST", server.route(notebook, "verify"), self._body
            )
        except Unreachable:
            self._end()  # a server of our own that is gone serves no other notebook
            raise
        return answer

    def _alone(self, notebook: Path) -> Server:
        """A copy of a notebook that is written goes to the usual store."""
        root = root_for(notebook, self._store)
        if self._own is None or self._own.root != root:
            self._end()
            store = self._store
            if store is None and not self._body.keys() & {"update", "record"}:
                store = Path(self.enter_context(tempfile.TemporaryDirectory()))
            self._own = self.enter_context(own(root, store))
        return self._own

    def _end(self) -> None:
        self._own = None
        self.close()


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
