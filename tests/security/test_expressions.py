"""Text made to keep a regular expression busy for ever does not succeed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .expressions import CHARACTERS, DOORS, PIECES

ROOT = Path(__file__).parents[2]


@pytest.mark.full
@pytest.mark.parametrize("door", DOORS)
def test_hostile_text_ends_at_every_door(door: str) -> None:
    """Quadratic growth takes hours here; the child process is killed before that."""
    assert len(PIECES) * CHARACTERS > 10_000_000
    child = subprocess.run(
        [sys.executable, "-m", "tests.security.expressions", door],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.stdout.endswith("done\n"), child.stderr
