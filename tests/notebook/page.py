"""The common part of a user's page in every carrier: its own document, and the user's actions in
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from jupyter_ydoc import YNotebook
from nbformat.v4 import new_output
from pycrdt import Assoc, Doc, Text

from jupyter_agent.document.values import shared_output


class Page:
    """An open notebook; subclasses define how it reaches the server."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Yjs makes client ids of 32 bits, pycrdt of 53. They decide the order of text that both
        # insert at one place at the same moment: the user's comes first.
        self.notebook = YNotebook(Doc(client_id=random.getrandbits(32)))
        self.active_cell: str | None = None
        self.frozen = False

    # ---- what the person does

    def type(self, cell_id: str, text: str, at: int | None = None) -> None:
        """Insert text in a cell, at its end if no offset (in code points) is given."""
        source: Text = self.cell(cell_id)["source"]
        now = str(source)
        with self.notebook.ydoc.transaction():
            source.insert(len(now[:at].encode()), text)
            self._mark()

    def _mark(self) -> None:
        if not self.dirty:  # JupyterLab sets it once
            self.notebook.ystate["dirty"] = True

    def cursor(self, cell_id: str, at: int) -> Callable[[], int]:
        """Where a cursor is later that is now behind the letter at this offset."""
        source: Text = self.cell(cell_id)["source"]
        index = source.sticky_index(len(str(source)[:at].encode()), Assoc.BEFORE)
        return lambda: len(str(source).encode()[: index.get_index()].decode())

    def erase(self, cell_id: str, text: str) -> None:
        """Delete that text, which occurs once in the cell."""
        source: Text = self.cell(cell_id)["source"]
        before, found, after = str(source).partition(text)
        assert found
        assert text not in after
        start = len(before.encode())
        with self.notebook.ydoc.transaction():
            del source[start : start + len(text.encode())]
            self._mark()

    def insert_cell(self, index: int, cell_id: str, text: str) -> None:
        cell = {"id": cell_id, "cell_type": "code", "source": text, "metadata": {}}
        with self.notebook.ydoc.transaction():
            self.notebook.ycells.insert(
                index, self.notebook.create_ycell({**cell, "outputs": [], "execution_count": None})
            )
            self._mark()

    def tag(self, cell_id: str, tag: str) -> None:
        with self.notebook.ydoc.transaction():
            self.cell(cell_id)["metadata"]["tags"] = [tag]
            self._mark()

    def run(self, cell_id: str, prints: str) -> None:
        """It prints that, and is no longer running then."""
        cell = self.cell(cell_id)
        with self.notebook.ydoc.transaction():
            cell["outputs"].append(shared_output(new_output("stream", text=prints)))
            cell["execution_count"] = 1.0
            self._mark()

    def delete_cell(self, cell_id: str) -> None:
        with self.notebook.ydoc.transaction():
            del self.notebook.ycells[self.ids().index(cell_id)]
            self._mark()

    def retype(self, cell_id: str) -> None:
        """To Markdown: Lab replaces the cell by a copy."""
        index, source = self.ids().index(cell_id), self.source(cell_id)
        cell = {"id": cell_id, "cell_type": "markdown", "source": source, "metadata": {}}
        with self.notebook.ydoc.transaction():
            del self.notebook.ycells[index]
            self.notebook.ycells.insert(index, self.notebook.create_ycell(cell))
            self._mark()

    # ---- the screen

    def cell(self, cell_id: str) -> Any:
        return self.notebook.ycells[self.ids().index(cell_id)]

    def source(self, cell_id: str) -> str:
        return str(self.cell(cell_id)["source"])

    def ids(self) -> list[str]:
        return [cell["id"] for cell in self.notebook.ycells]

    @property
    def dirty(self) -> bool:
        return bool(self.notebook.dirty)
