"""The same tasks with another harness under the same scripted model, so that only it differs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nbformat import NotebookNode

from jupyter_agent import __version__
from jupyter_agent.tools import toolbox
from nbeval.check import read
from nbeval.jupyter_ai import JupyterAi
from nbeval.jupyterlite_ai import JupyterliteAi
from nbeval.mcp_peer import mcp_player
from nbeval.notebook_intelligence import NotebookIntelligence
from nbeval.pages import page_player
from nbeval.play import NOTEBOOK
from nbeval.run import Answers, attempts, played
from nbeval.score import Score
from nbeval.script import Reply, calls_in, without_ids
from nbeval.sides import Side
from nbeval.spent import tokens_of
from nbeval.tasks import Task


class Harness(Protocol):
    """One that plays tasks."""

    @property
    def name(self) -> str:
        """With its version."""

    @property
    def definitions(self) -> int:
        """Tokens of its tools' definitions; asked after the tasks."""

    def lacks(self, replies: Sequence[Reply]) -> str:
        """What the script takes that it does not have; empty if it can be played."""

    def play(self, task: Task, replies: Sequence[Reply]) -> Score:
        """Raises nothing for what goes wrong in it: that is its score."""


PEERS: Mapping[str, Callable[[str], AbstractContextManager[Harness]]] = {
    "jupyter-mcp-server": mcp_player,
    "notebook-intelligence": lambda python: page_player(NotebookIntelligence(), python),
    "jupyterlite-ai": lambda python: page_player(JupyterliteAi(), python),
    "jupyter-ai": lambda python: page_player(JupyterAi(), python),
}
"""Other harnesses, given the Python of their environment."""


def beside_ours(chosen: Sequence[Task], transcript: str, peer: str, python: str) -> list[Side]:
    """Ours, and the peer of that environment; tells on standard error how far it is."""
    ours = []
    for score in played(iter(attempts(chosen, 1)), Answers(transcript=transcript)):
        _tell("ours", score)
        ours.append(score)
    name = f"jupyter_agent {__version__}"
    return [
        Side(name, tokens_of(toolbox().specs()), ours),
        play_all(chosen, transcript, peer, python),
    ]


def play_all(chosen: Sequence[Task], transcript: str, peer: str, python: str) -> Side:
    """The peer, in one JupyterLab of that environment."""
    scores, missing = [], {}
    with PEERS[peer](python) as harness:
        for task in chosen:
            replies = without_ids(task.transcript(transcript))
            if why := not_offered(task, replies) or harness.lacks(replies):
                missing[task.name] = why
            else:
                scores.append(harness.play(task, replies))
                _tell(peer, scores[-1])
        return Side(harness.name, harness.definitions, scores, missing)


def _tell(who: str, score: Score) -> None:
    sys.stderr.write(f"{who}: {score.task}: {score.why or 'passed'}\n")


def not_offered(task: Task, replies: Sequence[Reply]) -> str:
    """What the task is about that no peer claims to have; empty if it is one for them."""
    if task.category == "permission" or task.mode in ("read", "ask"):
        return f"modes that ask or refuse (here `{task.mode}`)"
    guarded = {cell.get("id") for cell in read(task.folder / NOTEBOOK).cells if _is_guarded(cell)}
    inputs: list[Mapping[str, Any]] = [block["input"] for block in calls_in(*replies)]
    edits = [edit for input in inputs for edit in (input, *input.get("edits", ()))]
    if any(edit.get("cell_id") in guarded for edit in edits):
        return "cells that only others may change"
    return ""


def _is_guarded(cell: NotebookNode) -> bool:
    """Whether it is locked, or what Papermill wrote."""
    locked = cell.metadata.get("editable", True) is False
    return locked or "injected-parameters" in cell.metadata.get("tags", ())
