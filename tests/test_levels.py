"""The levels in pyproject.toml, implemented by tests/conftest.py and tests/full.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parent.parent

TESTS = """
import pytest

def test_quick(): pass
@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [1, 2, 3, pytest.param(4, marks=pytest.mark.long)])
def test_cases(number): pass
@pytest.mark.full
def test_table(): pass
@pytest.mark.full
@pytest.mark.long
def test_explores(): pass
@pytest.mark.full
@pytest.mark.MARK("it waits for a clock")
def test_red(): assert False
""".replace("MARK", "quarantine")  # so that no one counts it as one of our tests


@pytest.mark.parametrize(
    ("asked", "run", "cases"),
    [
        pytest.param([], "quick", 1, id="default"),
        pytest.param(["-m", "full"], "table", 2, id="full"),
        pytest.param(["-m", "long"], "explores", 1, id="long"),
        pytest.param(["-m", ""], "both", 3, id="all"),
    ],
)
def test_each_level_has_its_tests_and_lists_what_is_quarantined(
    tmp_path: Path, asked: list[str], run: str, cases: int
) -> None:
    tests = tmp_path / "test_some.py"
    tests.write_text(TESTS)
    options = ["-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-n", "1", "-v", *asked]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tests], cwd=ROOT, capture_output=True, text=True
    )
    expected = {"quick", "table"} if run == "both" else {run}
    assert {name for name in ("quick", "table", "explores") if f"test_{name}" in done.stdout} == (
        expected
    ), done.stdout
    assert f"{len(expected) + cases} passed" in done.stdout
    assert "test_red: it waits for a clock" in done.stdout
