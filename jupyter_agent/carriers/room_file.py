"""How a room takes in its file, when it is made again and when another program has written it.

`YNotebook.aset` of jupyter-ydoc 3 empties the text of each cell that differs and writes it anew:
cursors go to its top, and what was typed at that moment, or offline, lands before or behind all of
it. Below nbformat 4.5 it replaces all cells: what was typed in them is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Text

from jupyter_agent.document.cell import version_of
from jupyter_agent.document.crdt import rewrite
from jupyter_agent.document.identities import paired

_MOST = 100_000
"""Characters of a text that is compared; it is done on the event loop."""


def take_in_texts(document: YNotebook, content: Mapping[str, Any]) -> dict[str, Any]:
    """Change the texts of a document to those of its file by small operations. The content to set
    then, in which cells have ids: where the file keeps none, those that they have in the document.
    """
    cells = identified(document, content["cells"])
    there = {cell.get("id"): cell.get("source") for cell in document.ycells}
    with document.ydoc.transaction():
        for cell in cells:
            text, source = there.get(cell.get("id")), cell.get("source")
            if isinstance(text, Text) and isinstance(source, str) and len(source) < _MOST:
                rewrite(text, source)
    return {**content, "cells": cells}


def identified(document: YNotebook, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells of a file with the ids that they have in the document, where the file keeps none.
    Those that are new have none.
    """
    if all("id" in cell for cell in cells):
        return cells
    former = [(cell.get("cell_type"), str(cell.get("source", ""))) for cell in document.ycells]
    now = [(cell["cell_type"], cell.get("source", "")) for cell in cells]
    pairs = paired(*[[version_of(*text) for text in texts] for texts in (former, now)])
    ids = {pair.now: document.ycells[pair.former].get("id") for pair in pairs}
    wanted = Counter([*ids.values(), *(cell["id"] for cell in cells if "id" in cell)])
    return [
        {**cell, "id": ids[index]} if "id" not in cell and wanted[ids.get(index)] == 1 else cell
        for index, cell in enumerate(cells)
    ]
