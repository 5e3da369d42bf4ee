"""Entry points where hostile text reaches our regular expressions: `... expressions DOOR`.

Runs in a separate process, which can be killed if an expression never ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from jupyter_agent.agent.permissions import leaves_language
from jupyter_agent.analysis.names import names_of
from jupyter_agent.analysis.remote_content import added_addresses
from jupyter_agent.document.cell import Cell, CellType, Output
from jupyter_agent.legible import legible
from jupyter_agent.models.faults import wanted_wait
from jupyter_agent.models.keys import secrets_in
from jupyter_agent.plugs.verify.compare import compare
from jupyter_agent.text.notebook import render_cells
from jupyter_agent.text.outputs import plain

CHARACTERS = 100_000
PIECES: list[list[str]] = json.loads(Path(__file__).with_name("patterns.json").read_text())
"""Head, repeated part, and end."""


def _cell(text: str, type: CellType = "code", outputs: tuple[Output, ...] = ()) -> Cell:
    return Cell(id="c", index=0, type=type, source=text, metadata={}, outputs=outputs)


def _rendered(text: str) -> None:
    error: Output = {"output_type": "error", "ename": text, "evalue": "", "traceback": [text] * 2}
    html: Output = {"output_type": "display_data", "data": {"text/html": text}, "metadata": {}}
    render_cells([_cell(text, "markdown"), _cell(text, outputs=(error, html))])


def _compared(text: str) -> None:
    stored: Output = {"output_type": "stream", "name": "stdout", "text": text}
    compare([stored], [{**stored, "text": f"{text} y"}])


DOORS: Mapping[str, Callable[[str], object]] = {
    "a cell to run": leaves_language,
    "names in a cell": names_of,
    "a cell to be shown in a page": lambda text: added_addresses([], [_cell(text, "markdown")]),
    "what a model reads": _rendered,
    "outputs to compare": _compared,
    "a terminal's output": plain,
    "a name": legible,
    "headers of a model service": lambda text: wanted_wait(
        {"retry-after": text[:65_000], "x-ratelimit-reset-requests": text[:65_000]},
        now=datetime(2026, 1, 1, tzinfo=UTC),
    ),
    "the environment": lambda text: secrets_in({"A_TOKEN": text}),
}


if __name__ == "__main__":
    for head, piece, end in PIECES:
        DOORS[sys.argv[1]](head + piece * (CHARACTERS // len(piece)) + end)
        sys.stdout.write(".")
    sys.stdout.write(" done\n")
