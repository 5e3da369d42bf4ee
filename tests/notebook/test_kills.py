"""A server that is killed while it saves loses no notebook."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("times", "seed"), [(8, 1), pytest.param(200, 11, marks=pytest.mark.long)])
def test_no_notebook_is_lost_when_a_save_is_killed(times: int, seed: int) -> None:
    """The file, the contents manager's own backup or our recovery copy has all cells, once."""
    command = [sys.executable, "-m", "tests.notebook.killed", str(times), str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    print(f"seed {seed}: {found}")  # noqa: T201
    assert sum(found.values()) == times
    assert "lost" not in found
