"""Costs of notebooks for a model: `python -m tests.bench.tokens [notebook or folder ...]`.

Prints a line for each notebook: tokens of its JSON in the file, without pictures; of the default
text of `get_notebook_state`, of its outline, and of the largest text available.
No tokenizer is available offline, so tokens are counted in two ways: a token for 4 characters, the
agent's own estimate until a reply has the real number (agent/window.py); and, in brackets, by
`most_tokens`, which exceeds all tokenizers known to us.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from jupyter_agent.document.cell import Cell
from jupyter_agent.text.notebook import MOST, render

SAMPLES = Path(__file__).parent.parent / "notebook" / "samples"
_PIECE = re.compile(r"[^\W\d_]+|\d{1,3}|\s+|[^\w\s]|_")


@dataclass(frozen=True)
class Figures:
    """The texts of one notebook."""

    name: str
    cells: int
    json: str
    state: str
    outline: str
    most: str


def tokens(text: str) -> int:
    """A token for 4 characters."""
    return len(text) // 4


def most_tokens(text: str) -> int:
    """A token for every 6 letters of a word, every 3 digits, every other character, every gap but a
    single space.
    """
    return sum(_cost(piece.group()) for piece in _PIECE.finditer(text))


def _cost(piece: str) -> int:
    if piece == " ":
        return 0
    if piece.isalpha():
        return -(-len(piece) // 6) if piece.isascii() else len(piece)
    return 1


def figures(path: Path) -> Figures:
    """The costs of one notebook."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    cells = list(_cells(notebook))
    for cell in notebook.cells:
        cell.pop("attachments", None)
        for output in cell.get("outputs", ()):
            for kind in [kind for kind in output.get("data", ()) if kind.startswith("image/")]:
                del output["data"][kind]
    return Figures(
        name=path.name,
        cells=len(cells),
        json=nbformat.writes(notebook),
        state=render(cells).text,
        outline=render(cells, outline=True).text,
        most=render(cells, budget=MOST).text,
    )


def _cells(notebook: nbformat.NotebookNode) -> Iterator[Cell]:
    for index, cell in enumerate(notebook.cells):
        yield Cell(
            id=cell.get("id", f"{index:08x}"),
            index=index,
            type=cell.cell_type,
            source=cell.source,
            metadata=cell.metadata,
            outputs=cell.get("outputs", ()),
            execution_count=cell.get("execution_count"),
            attachments=cell.get("attachments"),
        )


def notebooks(named: Sequence[str]) -> list[Path]:
    """The notebooks in these files and folders."""
    paths = [Path(name) for name in named] or [SAMPLES]
    found = [sorted(path.glob("*.ipynb")) if path.is_dir() else [path] for path in paths]
    return [path for group in found for path in group]


def main() -> None:
    write = sys.stdout.write
    write(f"{'notebook':44} cells   JSON         state   share       outline            most\n")
    for path in notebooks(sys.argv[1:]):
        told = figures(path)
        columns = [f"{tokens(text):6} ({most_tokens(text):5})" for text in (told.state,)]
        columns.append(f"{tokens(told.state) / tokens(told.json):6.0%}")
        for text in (told.outline, told.most):
            columns.append(f"{tokens(text):6} ({most_tokens(text):5})")
        write(f"{told.name:44} {told.cells:5} {tokens(told.json):6} {' '.join(columns)}\n")


if __name__ == "__main__":
    main()
