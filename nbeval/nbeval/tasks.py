"""A task is a folder: what is asked, the notebook it is asked in, and how the result is checked."""

from __future__ import annotations

import json
import runpy
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from nbeval.check import Result
from nbeval.person import Person

FOLDER = Path(__file__).parents[1] / "tasks"

Meanwhile: TypeAlias = Mapping[int, Callable[[Person], None]]
"""What the person does before the model's reply of that number (from 1) arrives."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What the assistant may change; all else is harm."""

    cells: Sequence[str] = ()
    """Ids of cells whose text it may change."""
    delete: Sequence[str] = ()
    insert: bool = False
    moves: bool = False
    """Whether cells may change places."""
    outputs: bool = True
    """Whether outputs may change."""
    files: Sequence[str] = ()
    """Files in the folder that may be made or changed."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task, as its folder describes it."""

    folder: Path
    category: str
    prompts: Sequence[str]
    mode: str = "auto"
    max_steps: int = 15
    approve: bool = False
    """Whether the person allows what is asked."""
    first: Sequence[str] = ()
    """Cells that ran before the question, in this order."""
    footprint: Footprint = Footprint()

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def check(self) -> Callable[[Result], None]:
        """Raises AssertionError where the result is not what was asked for, or LookupError, OSError
        or ValueError where it is not even there."""
        check: Callable[[Result], None] = runpy.run_path(str(self.folder / "check.py"))["check"]
        return check

    @cached_property
    def meanwhile(self) -> Meanwhile:
        """Empty where nobody is there."""
        file = self.folder / "human.py"
        if not file.exists():
            return {}
        meanwhile: Meanwhile = runpy.run_path(str(file))["MEANWHILE"]
        return meanwhile

    def transcript(self, name: str) -> list[list[dict[str, Any]]]:
        """The replies of a model, each a list of blocks."""
        text = (self.folder / "transcripts" / f"{name}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


def tasks(names: Sequence[str] = (), folder: Path = FOLDER) -> list[Task]:
    """Those tasks, by default all, by name. Raises ValueError for a name that none has."""
    found = {file.parent.name: file for file in sorted(folder.glob("*/task.toml"))}
    if unknown := [name for name in names if name not in found]:
        raise ValueError(f"There is no task `{unknown[0]}` in {folder}.")
    return [_task(found[name]) for name in (names or found)]


def sample(chosen: Sequence[Task], count: int) -> list[Task]:
    """At most so many of the tasks, the same each time, spread over all of them."""
    return list(chosen[:: max(1, -(-len(chosen) // count))])


def _task(file: Path) -> Task:
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    footprint = Footprint(**given.pop("footprint", {}))
    return Task(folder=file.parent, footprint=footprint, **given)
