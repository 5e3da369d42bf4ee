"""`jupyter agent verify`: checks that notebooks run from the top and give the same outputs."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store, local, shorten
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.server import Server, ServerRefused, Unreachable
from jupyter_agent.client.servers import existing, find, own, root_for

_WHY = 200
"""Maximum characters of a reason."""

EXAMPLES = """\
  jupyter agent verify sales.ipynb && git commit -a
  jupyter agent verify reports/*.ipynb --json
  jupyter agent verify sales.ipynb --update

exit codes: 0 all is well, 1 a cell failed or has other outputs,
2 usage, or a notebook could not be checked: it is missing or unreadable, its
kernel is not installed, the server refused; 130 interrupted
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "verify",
        help="run copies of notebooks from the top in fresh kernels and compare the outputs",
        description="Asks the Jupyter server that serves a notebook, including unsaved typing, or "
        "verifies the file itself if no server runs. All is well if every cell runs with the same "
        "outputs (with --update: if every cell runs and the new outputs are written).",
        examples=EXAMPLES,
    )
    parser.add_argument("notebooks", type=Path, nargs="+", metavar="NOTEBOOK")
    parser.add_argument(
        "--update", action="store_true", help="write the new outputs if every cell runs"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="if all is the same, record in the notebook when it was verified and with which "
        "versions; else remove such a record",
    )
    parser.add_argument("--kernel", metavar="NAME", help="use this kernel, not the notebook's own")
    parser.add_argument(
        "--json",
        action="store_true",
        help="as POST notebooks/NOTEBOOK/verify; a list for several, each with `notebook`",
    )
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per notebook, and one per cell with a difference. 2 if one could not be
    checked, else 1 if not all is well.
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
                console.tell(shorten(f"{notebook}: {error}" if several else str(error), 1000))
                answer = {"ok": False, "message": str(error), "reason": error.reason}
                # With --update, a cell failed or another edit came first: it was still checked.
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
    """The servers that verify: for each notebook the running one, else a server of our own, which
    is reused while the root stays the same.
    """

    def __init__(self, store: Path | None, body: Mapping[str, Any]) -> None:
        super().__init__()
        self._store = store
        self._body = {name: value for name, value in body.items() if value}
        self._own: Server | None = None

    def verify(self, notebook: Path) -> dict[str, Any]:
        """The route's answer. Raises ServerRefused."""
        server = find(notebook) or self._own_server(notebook)
        try:
            answer: dict[str, Any] = server.ask(
                "POST", server.route(notebook, "verify"), self._body
            )
        except Unreachable:
            self._end()  # a dead server of our own must not be reused
            raise
        return answer

    def _own_server(self, notebook: Path) -> Server:
        """A server of our own; recovery copies of a notebook we write to go to the usual
        store."""
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
    results = ", same results" if answer["ok"] else " gave the same results"
    yield shorten(
        f"{word} {name} {local(answer['at'])}: {same} of {len(cells)} cells{results} "
        f"({answer['kernel']}, {answer['seconds']:.1f} s, code {answer['hash'][:12]})",
        1000,
    )
    for cell in cells:
        if cell["status"] != "same":
            yield shorten(f"  {cell['cell_id']}  {cell['status']}: {cell['why']}", _WHY)
        elif cell.get("not_compared"):
            yield shorten(f"  {cell['cell_id']}  not compared: {cell['not_compared']}", _WHY)
    if answer.get("updated"):
        yield "The new outputs were written into the notebook."
    if answer.get("recorded"):
        yield "The notebook records this now."
