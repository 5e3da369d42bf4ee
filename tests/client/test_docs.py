"""The Python examples work verbatim, and the table names every method."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path

import pytest

from jupyter_agent.client.agent import Agent, AsyncNotebook, AsyncTurn
from jupyter_agent.client.sync import SyncAgent, SyncNotebook
from jupyter_agent.client.turn import SyncTurn

from ..programs import run
from ..test_readme import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = [
    example
    for page in ("README.md", "docs/python.md")
    for example in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
]
SHOWN = (
    "['ok', 'ok', 'ok']",
    "I run all code cells",
    "changed",
    "",
    "Cells are as before",
    "('ok', '547.2')",
)


@pytest.mark.full
@pytest.mark.parametrize("number", range(len(SHOWN)))
def test_every_example_runs(number: int, tmp_path: Path) -> None:
    shutil.copy(ROOT / "jupyter_agent" / "examples" / "coffee.ipynb", tmp_path)
    done = run(tmp_path, sys.executable, "-W", "error", "-c", EXAMPLES[number])
    assert (done.returncode, done.stderr) == (0, "")
    assert SHOWN[number] in done.stdout


def test_no_example_is_left_out() -> None:
    assert len(EXAMPLES) == len(SHOWN)


def public(kind: type) -> dict[str, inspect.Signature | None]:
    return {
        name: inspect.signature(member) if inspect.isfunction(member) else None
        for name, member in vars(kind).items()
        if not name.startswith("_")
    }


def test_every_method_of_the_notebook_is_documented() -> None:
    for name in public(AsyncNotebook):
        assert f"`{name}(" in PAGE or name == "path"


@pytest.mark.parametrize(
    ("waits", "awaits"), [(SyncAgent, Agent), (SyncNotebook, AsyncNotebook), (SyncTurn, AsyncTurn)]
)
def test_the_twins_take_the_same(waits: type, awaits: type) -> None:
    there = public(waits)
    for name, signature in public(awaits).items():
        if name in there and signature is not None and there[name] is not None:
            assert list(signature.parameters) == list(there[name].parameters)  # type: ignore[union-attr]
    made = [list(inspect.signature(kind.__init__).parameters) for kind in (SyncAgent, Agent)]  # type: ignore[misc]
    assert made[0] == made[1]
