"""Response models of routes of notebooks, their cells, runs and files."""

from __future__ import annotations

from typing import Any, Literal

from jupyter_agent.document.cell import CarrierName, CellType
from jupyter_agent.server.answers.base import AnswerModel
from jupyter_agent.workspace.run import RunStatus


class CellAnswer(AnswerModel):
    """A cell as it is now; `saved` and `turn_id` only in answers to edits."""

    id: str
    index: int
    type: CellType
    source: str
    version: str
    execution_count: int | None
    outputs: list[dict[str, Any]] | str = []
    metadata: dict[str, Any]
    stale: bool
    stale_why: str = ""
    saved: bool = True
    note: str = ""
    turn_id: str = ""


class KernelAnswer(AnswerModel):
    """A notebook's kernel."""

    id: str
    name: str
    state: str


class VerifiedAnswer(AnswerModel):
    """The last verification of a notebook."""

    ok: bool
    at: str
    kernel: str
    packages: dict[str, str]
    """Versions of the packages that the cells import."""
    hash: str
    """SHA-256 of all code."""
    cells: int
    same: int
    outdated: bool
    """Whether the code has changed since."""
    recorded: bool
    """Whether it is recorded in the notebook."""
    here: bool
    """Whether this server did it; otherwise the notebook only claims it."""


class NotebookAnswer(AnswerModel):
    """A notebook, including unsaved typing."""

    path: str
    carrier: CarrierName
    kernel: KernelAnswer | None
    verified: VerifiedAnswer | None
    metadata: dict[str, Any]
    cells: list[CellAnswer]


class NewNotebookAnswer(AnswerModel):
    """A new notebook."""

    path: str
    carrier: CarrierName
    cells: list[CellAnswer]


class MetadataAnswer(AnswerModel):
    """The notebook's metadata."""

    path: str
    metadata: dict[str, Any]
    saved: bool


class EditAnswer(AnswerModel):
    """The result of one of several edits."""

    op: Literal["insert", "update", "delete", "move"]
    cell_id: str | None
    diff: str
    merged: bool
    cell: CellAnswer | None


class EditsAnswer(AnswerModel):
    """The results of several edits."""

    edits: list[EditAnswer]
    saved: bool
    note: str = ""
    turn_id: str = ""


class ClearAnswer(AnswerModel):
    """The cells whose outputs were cleared."""

    cleared: list[str]
    saved: bool
    turn_id: str = ""


class ListedRun(AnswerModel):
    """A run, without its outputs."""

    run_id: str
    notebook: str
    cell_id: str | None
    status: RunStatus
    execution_count: int | None
    seconds: float
    saved: bool | Literal["pending"] = True
    expected_error: bool = False
    note: str = ""
    blocked_by: str = ""
    turn_id: str = ""


class RunAnswer(ListedRun):
    """A run."""

    outputs: list[dict[str, Any]] | str = []
    wake: bool = False


class RunsAnswer(AnswerModel):
    """Runs of cells, in order."""

    cells: list[RunAnswer]
    turn_id: str = ""


class RunListAnswer(AnswerModel):
    """A page of runs."""

    runs: list[ListedRun]
    next_page: int | None


class TextAnswer(AnswerModel):
    """A text."""

    text: str


class SavedAnswer(AnswerModel):
    """The saved file of a notebook in a collaboration room."""

    path: str
    hash: str


class CopyAnswer(AnswerModel):
    """A stored copy of a notebook."""

    id: int
    made: str
    size: int


class CopiesAnswer(AnswerModel):
    """The stored copies of a notebook."""

    copies: list[CopyAnswer]


class FileAnswer(AnswerModel):
    """A notebook file."""

    cells: list[dict[str, Any]]
    metadata: dict[str, Any]
    nbformat: int


class BlamedCell(AnswerModel):
    """Who last changed a cell."""

    cell_id: str
    index: int
    turn_id: str | None
    conversation_id: str | None
    user: str | None
    model: str | None
    time: str | None
    request: str | None
    reviewed: bool
    changed_since: bool


class BlameAnswer(AnswerModel):
    """Who last changed each cell."""

    path: str
    cells: list[BlamedCell]
