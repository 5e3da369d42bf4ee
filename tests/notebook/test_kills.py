"""A server that is killed while it saves loses no notebook."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("times", "seed"), [(8, 1), pytest.param(300, 11, marks=pytest.mark.long)])
def test_each_notebook_is_whole_on_disk_once_a_server_has_started_again(
    times: int, seed: int
) -> None:
    """Any reader at that moment, git or an editor too, finds all cells, once, in their last
    state.
    """
    command = [sys.executable, "-m", "tests.notebook.killed", str(times), str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    print(f"seed {seed}: {found}")  # noqa: T201
    assert sum(found.values()) == times
    assert found.keys() <= {"whole", "put right"}
