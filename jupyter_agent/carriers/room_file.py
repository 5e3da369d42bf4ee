"""How a room takes in its file, when it is made again and when another program has written it.

`YNotebook.aset` of jupyter-ydoc 3 and 4 empties the text of each cell that differs and fills it
again: cursors go to its top, and what was typed at that moment, or offline, lands before or behind
all of it. It replaces cells that have other printed outputs, and below nbformat 4.5 all cells: what
was typed in them is gone. So what it would do so is done here before, in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Array, Text

from jupyter_agent.document.cell import version_of
from jupyter_agent.document.crdt import as_json, rewrite, shared_output
from jupyter_agent.document.identities import paired

_MOST = 100_000
"""Characters of a text that is compared; it is done on the event loop."""


def take_in(document: YNotebook, content: Mapping[str, Any]) -> dict[str, Any]:
    """Make texts and printed outputs of a document those of its file. The content to set then, in
    which cells have ids: where the file keeps none, those that they have in the document.
    """
    cells = identified(document, content["cells"])
    there = {cell.get("id"): cell for cell in document.ycells}
    printed: list[tuple[Array[Any], list[Any]]] = []
    with document.ydoc.transaction():
        for cell in cells:
            shared = there.get(cell.get("id"), {})
            text, source = shared.get("source"), cell.get("source")
            if isinstance(text, Text) and isinstance(source, str) and len(source) < _MOST:
                rewrite(text, source)
            former, outputs = shared.get("outputs"), cell.get("outputs", [])
            if isinstance(former, Array) and any(map(_is_printed, outputs)):
                if as_json(former.to_py()) != outputs:
                    printed.append((former, outputs))
                    former.clear()
    with document.ydoc.transaction():  # one in which outputs go and come, pages do not follow
        for former, outputs in printed:
            former.extend([shared_output(output) for output in outputs])
    return {**content, "cells": cells}


def _is_printed(output: Mapping[str, Any]) -> bool:
    return bool(output["output_type"] == "stream")


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
