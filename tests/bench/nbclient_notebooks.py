"""nbclient's own notebooks through nbclient and through us, cell by cell:
`python -m tests.bench.nbclient_notebooks FOLDER` (a few minutes).

FOLDER is `tests/files` of nbclient's source distribution; nothing is fetched. Each notebook is run
from the top by both, errors do not end it, and the outputs in the files are compared as
`tests/kernel/test_as_nbclient.py` compares them. Prints each cell that differs, and at the end
"cells equal of total".
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from tests.kernel.test_as_nbclient import comparable
from tests.programs import Server, environment, jupyter_server

_CELL_S = 20
"""Seconds for a cell before it is interrupted."""
_SKIP = "skip-execution"
_SHUTDOWN = {"action": "shutdown"}
_SHOWN = 300
"""Characters of different outputs."""


def through_nbclient(file: Path) -> Any:
    """The notebook after nbclient ran it."""
    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(
        notebook,
        allow_errors=True,
        timeout=_CELL_S,
        interrupt_on_timeout=True,
        resources={"metadata": {"path": str(file.parent)}},
    )
    try:
        client.execute()
    except DeadKernelError:
        pass  # outputs up to then are in the notebook
    return notebook


def through_us(server: Server, file: Path) -> Any:
    """The notebook's file after its cells were run over REST."""
    route = f"notebooks/{quote(file.name)}"
    for cell in server.request("GET", route)["cells"]:
        tags = cell.get("metadata", {}).get("tags", [])
        if cell["type"] == "code" and cell["source"].strip() and _SKIP not in tags:
            run = server.request("POST", f"{route}/cells/{cell['id']}/run", {"timeout": _CELL_S})
            if run["status"] == "died":
                break  # nbclient stops there
    return nbformat.read(file, as_version=4)


def differences(theirs: Any, ours: Any) -> Iterator[tuple[int, bool, str]]:
    """Number, equality, and the differences of each code cell with code."""
    for index, (their, our) in enumerate(zip(theirs.cells, ours.cells, strict=True)):
        if their.cell_type == "code" and their.source.strip():
            pair = comparable(their.outputs), comparable(our.outputs)
            told = "\n".join(json.dumps(each)[:_SHOWN] for each in pair)
            yield index, pair[0] == pair[1], told


def main(folder: Path) -> None:
    """Runs all, and prints the figure."""
    equal = total = whole = notebooks = 0
    with tempfile.TemporaryDirectory() as made:
        places = Path(made) / "theirs", Path(made) / "ours"
        for place in places:
            shutil.copytree(folder, place)
        os.environ.update(
            environment(places[1])
        )  # tracebacks name files relative to the home folder
        os.environ["IPYTHONDIR"] = str(Path(made) / "ipython")
        with jupyter_server(places[1]) as server:
            for file in sorted(places[0].glob("*.ipynb")):
                theirs = through_nbclient(file)
                ours = through_us(server, places[1] / file.name)
                found = list(differences(theirs, ours))
                same = sum(is_equal for _, is_equal, _ in found)
                equal, total = equal + same, total + len(found)
                whole, notebooks = whole + (same == len(found)), notebooks + 1
                sys.stdout.write(f"{file.name}: {same} of {len(found)}\n")
                for index, is_equal, told in found:
                    if not is_equal:
                        sys.stdout.write(f"  cell {index}\n{told}\n")
                sys.stdout.flush()
                server.request("POST", f"notebooks/{quote(file.name)}/kernel", _SHUTDOWN)
    sys.stdout.write(f"{equal} of {total} cells equal, {whole} of {notebooks} notebooks wholly\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
