"""Runs the level `full`, and continues an earlier run of the same commit:

    python -m tests.full

Passed tests are stored by commit in `.pytest_cache/full`; with uncommitted changes, everything
runs. Arguments go to pytest, and the summary says how many tests are left. As a plugin of pytest
(`-p tests.full`) it does the same for any selection.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


class Progress:
    """The passed tests, in a file; a test counts once all phases of its last attempt passed."""

    def __init__(self) -> None:
        self._file = ROOT / ".pytest_cache" / "full" / _git("rev-parse", "HEAD")
        if _git("status", "--porcelain"):
            self._file.unlink(missing_ok=True)
        self.passed = set(self._file.read_text().splitlines()) if self._file.exists() else set()
        self._red: set[str] = set()
        self.wanted: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leaves out tests that have passed already."""
        config.hook.pytest_deselected(items=[one for one in items if one.nodeid in self.passed])
        items[:] = [item for item in items if item.nodeid not in self.passed]
        self.wanted.update(item.nodeid for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """pytest-xdist: a worker has collected its tests."""
        self.wanted.update(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records a test at the end of its teardown, in the first process only."""
        if report.when == "setup":
            self._red.discard(report.nodeid)  # from an earlier attempt
        if report.outcome not in ("passed", "skipped"):
            self._red.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self._red and not _is_worker():
            self.passed.add(report.nodeid)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(report.nodeid + "\n")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Reports how many tests are left."""
        left = sorted(self.wanted - self.passed)
        terminalreporter.write_line(f"{len(left)} left of this commit", yellow=bool(left))


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_configure(config: pytest.Config) -> None:
    """Installs the plugin, in the first process and in each worker."""
    config.pluginmanager.register(Progress(), "progress")


if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "tests.full", "-m", "full", *sys.argv[1:]]))
