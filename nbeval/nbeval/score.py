"""What a task came to: done or not, what was harmed, what it took."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from nbeval.check import shown
from nbeval.person import Typed
from nbeval.tasks import Footprint

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
_SMALL = 10
"""Whole numbers up to this are words: "the 2 cells"."""
_OWN = ("kernelspec", "language_info")
"""What Jupyter itself writes into a notebook."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of one attempt at a task. Everything but seconds is the same in each run of a script."""

    task: str
    category: str
    passed: bool
    why: str = ""
    """Why not."""
    runs: bool
    """Whether the notebook runs from the top in a fresh kernel."""
    lost: int
    """Keystrokes of the person that are nowhere."""
    unwanted: Sequence[str]
    """Changes outside of the footprint."""
    unborne: Sequence[str]
    """Numbers of the answer that no output bears out."""
    state: str
    model_calls: int
    tool_calls: int
    failed_calls: int
    questions: int
    input_tokens: int
    output_tokens: int
    seconds: float
    tool_seconds: float
    seed: int = 1
    """Which attempt at the task it was."""
    cached_tokens: int = 0
    """Of the input, read from the model's cache or written to it; with a real model."""
    cost: float | None = None
    """In dollars; None where no price is known."""
    model_seconds: float | None = None
    """How long the model was waited for; None where that is not known."""
    kernel_seconds: float | None = None
    """How long code ran."""

    @property
    def tokens(self) -> int:
        """All that were processed."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    @property
    def own_seconds(self) -> float | None:
        """What neither the model nor the kernel took."""
        if self.model_seconds is None or self.kernel_seconds is None:
            return None
        return max(0.0, round(self.seconds - self.model_seconds - self.kernel_seconds, 1))


@dataclass(frozen=True)
class Snapshot:
    """A notebook and the folder around it at one moment."""

    notebook: NotebookNode
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, name: str, notebook: NotebookNode) -> Snapshot:
        files = {
            path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
            if path.is_file() and ".ipynb_checkpoints" not in path.parts and path.name != name
        }
        return cls(notebook, files)

    @property
    def language(self) -> str:
        """Of its kernel."""
        return str(self.notebook.metadata.get("kernelspec", {}).get("language", "python"))

    @property
    def with_outputs(self) -> Sequence[str]:
        """Ids of the cells that have some."""
        return [cell.id for cell in self.notebook.cells if cell.get("outputs")]


def unwanted(
    before: Snapshot,
    after: Snapshot,
    allowed: Footprint,
    typed: Sequence[Typed],
    deleted: Sequence[str],
) -> list[str]:
    """What changed outside of the footprint and was not the person."""
    return [
        *_cells(before.notebook, after.notebook, allowed, typed, deleted),
        *_metadata(before.notebook, after.notebook),
        *(
            f"file {name}"
            for name in sorted(before.files.keys() | after.files.keys())
            if before.files.get(name) != after.files.get(name) and name not in allowed.files
        ),
    ]


def _cells(
    before: NotebookNode,
    after: NotebookNode,
    allowed: Footprint,
    typed: Sequence[Typed],
    deleted: Sequence[str],
) -> Iterator[str]:
    was = {cell.id: cell for cell in before.cells}
    now = {cell.id: cell for cell in after.cells}
    for id in was.keys() - now.keys():
        if id not in allowed.delete and id not in deleted:
            yield f"cell {id} deleted"
    if not allowed.insert:
        yield from (f"cell {id} added" for id in now if id not in was)
    stayed = [id for id in was if id in now]
    if stayed != [id for id in now if id in was] and not allowed.moves:
        yield "cells moved"
    for id in stayed:
        source = now[id].source
        for keys in typed:
            if keys.cell_id == id:
                source = source.replace(keys.text, "", 1)
        if source != was[id].source and id not in allowed.cells:
            yield f"text of cell {id}"
        if now[id].cell_type != was[id].cell_type and id not in allowed.cells:
            yield f"type of cell {id}"
        if not allowed.outputs and shown(now[id]) != shown(was[id]):
            yield f"outputs of cell {id}"
        if _kept(now[id].metadata) != _kept(was[id].metadata):
            yield f"metadata of cell {id}"


def _metadata(before: NotebookNode, after: NotebookNode) -> Iterator[str]:
    for key in sorted(before.metadata.keys() | after.metadata.keys()):
        if key not in _OWN and before.metadata.get(key) != after.metadata.get(key):
            yield f"metadata {key}"


def _kept(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Without what JupyterLab itself writes when it opens or runs a notebook."""
    kept = {key: value for key, value in metadata.items() if key not in ("execution", "trusted")}
    shown = dict(kept.pop("jupyter", {}))
    if shown.get("outputs_hidden") == kept.get("collapsed"):
        shown.pop("outputs_hidden", None)
    return {**kept, "jupyter": shown} if shown else kept


def lost(after: NotebookNode, typed: Sequence[Typed], deleted: Sequence[str]) -> int:
    """How many of the person's keystrokes are nowhere in the notebook."""
    text = "\n".join(cell.source for cell in after.cells)
    return sum(len(k.text) for k in typed if k.text not in text and k.cell_id not in deleted)


def unborne(answer: str, notebook: NotebookNode, told: Sequence[str]) -> list[str]:
    """Numbers of the answer that are in no output, no code and in none of `told`, the texts that
    the model got, rounded or not."""
    texts = [*told, *(f"{cell.source}\n{shown(cell)}" for cell in notebook.cells)]
    known = Counter(_value(number) for text in texts for number in _NUMBER.findall(text))
    return [number for number in _NUMBER.findall(answer) if not _is_borne(number, known)]


def _is_borne(number: str, known: Mapping[float, int]) -> bool:
    value = _value(number)
    if value.is_integer() and abs(value) <= _SMALL:
        return True
    digits = len(number.partition(".")[2])
    return any(round(each, digits) == value for each in known)


def _value(number: str) -> float:
    return float(number.replace(",", ""))
