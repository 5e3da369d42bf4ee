"""What came out of a task: the notebook as it is on disk, run from the top in a fresh kernel."""

from __future__ import annotations

import ast
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from nbformat import NotebookNode

CELL_S = 120


@dataclass
class Result:
    """For `check.py`: the notebook, the answer and a kernel in which the notebook has just run."""

    folder: Path
    notebook: NotebookNode
    answer: str
    """The words of the assistant, all turns of them."""
    _client: BlockingKernelClient
    errors: list[str] = field(default_factory=list)
    """What failed in the fresh kernel, by cell."""

    @property
    def cells(self) -> Sequence[NotebookNode]:
        cells: Sequence[NotebookNode] = self.notebook.cells
        return cells

    def source(self, cell_id: str) -> str:
        """Raises AssertionError where there is no such cell."""
        found = [cell.source for cell in self.cells if cell.id == cell_id]
        assert found, f"cell {cell_id} is gone"
        return str(found[0])

    def output(self, cell_id: str) -> str:
        """What the cell shows in the notebook as it was saved."""
        (cell,) = (cell for cell in self.cells if cell.id == cell_id)
        return shown(cell)

    def runs(self) -> None:
        """Raises AssertionError where it does not run from the top."""
        assert not self.errors, "from the top: " + "; ".join(self.errors)

    def raises(self, code: str) -> str:
        """The name of the error with which this code ends in the fresh kernel, or ''."""
        reply = self._client.execute(code, reply=True, timeout=CELL_S)
        return str(reply["content"].get("ename", ""))

    def value(self, expression: str) -> Any:
        """What a Python expression is in the fresh kernel, of the kinds that literals have."""
        reply = self._client.execute(
            "", silent=True, user_expressions={"it": expression}, reply=True, timeout=CELL_S
        )
        it = reply["content"]["user_expressions"]["it"]
        assert it["status"] == "ok", f"{expression}: {it.get('evalue')}"
        return ast.literal_eval(it["data"]["text/plain"])


def read(file: Path) -> NotebookNode:
    """A notebook; cells without ids, as older formats have them, go by their positions."""
    book: NotebookNode = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    for position, cell in enumerate(book.cells, start=1):
        cell.setdefault("id", str(position))
    return book


def kernel_of(notebook: NotebookNode) -> str:
    """The name of the kernel that it names."""
    return str(notebook.metadata.get("kernelspec", {}).get("name", "python3"))


def shown(cell: NotebookNode) -> str:
    """The text of a cell's outputs."""
    parts = []
    for output in cell.get("outputs", ()):
        parts.append(output.get("text") or output.get("evalue") or "")
        parts.append(str(output.get("data", {}).get("text/plain", "")))
    return "\n".join(filter(None, parts))


@contextmanager
def fresh(folder: Path, book: NotebookNode, answer: str) -> Iterator[Result]:
    """The result in a copy of the folder, so that running it changes nothing."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        manager, client = start_new_kernel(
            kernel_name=kernel_of(book), cwd=copy, stderr=subprocess.DEVNULL
        )
        try:
            result = Result(folder, book, answer, client)
            for number, cell in enumerate(book.cells, start=1):
                if cell.cell_type == "code" and cell.source.strip():
                    try:
                        reply = client.execute(cell.source, reply=True, timeout=CELL_S)["content"]
                    except TimeoutError:
                        result.errors.append(f"cell {number} ({cell.id}) runs for too long")
                        break
                    if reply["status"] != "ok":
                        why = f"{reply.get('ename')}: {reply.get('evalue')}"
                        result.errors.append(f"cell {number} ({cell.id}) {why}")
            yield result
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
