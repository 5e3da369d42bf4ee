"""Which tests notice a bug in the code behind our promises:

    python -m tests.mutants [--full] [WORD ...]

Each bug of mutants.toml is made in a copy of the checkout and tested: first with the tests beside
it, then with everything that `pytest` runs, then, with `--full`, with `pytest -m full`; bugs of the
panel with jest first, and then in the browser. Words select bugs whose file or sentence has one of
them. Prints a line for each: the stage and test that noticed it, and after how many seconds.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import ROOT, Mutant, listed, near

PANEL = Path("labextension")
BUILT = Path("jupyter_agent", "labextension")
PATIENCE = 1800
"""Seconds after which tests that do not end count as failed."""
_RED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)|^ +● (.+ › .+)$", re.MULTILINE)
"""Failures in the output of pytest and jest."""


class Stage(NamedTuple):
    """Tests that run together."""

    name: str
    command: Sequence[str]
    folder: Path = Path()


def stages(mutant: Mutant, full: bool) -> Iterator[Stage]:
    """The stages to run, until one fails."""
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
    if mutant.file.startswith(str(PANEL)):
        pytest = (*pytest, "tests/ui", "--reruns", "0")
        yield Stage("jest", ("jlpm", "test"), PANEL)
        yield Stage("build", ("jlpm", "build"), PANEL)
    else:
        yield Stage("near", (*pytest, "-n", "0", *near(mutant.file)))
    yield Stage("pytest", pytest)
    if full:
        yield Stage("full", (*pytest, "-m", "full"))


def is_red(stage: Stage, checkout: Path) -> str | None:
    """The first failure in this checkout; None if all is well."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    # In a group of their own, with all the servers and kernels that they start.
    with subprocess.Popen(
        stage.command,
        cwd=checkout / stage.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return f"no end after {PATIENCE} s"
    if running.returncode == 0:
        return None
    found = _RED.search(output)
    return (found[1] or found[2]) if found else output.strip()[-200:]


def copy_checkout(folder: Path) -> None:
    """Copies what git does not ignore, and the built and installed panel."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(ROOT / BUILT, folder / BUILT)
    (folder / PANEL / "node_modules").symlink_to(ROOT / PANEL / "node_modules")


def notice(mutant: Mutant, checkout: Path, full: bool) -> tuple[str, str]:
    """The stage that notices the bug, and the failure; both empty if no stage does."""
    file = checkout / mutant.file
    text = file.read_text(encoding="utf-8")
    file.write_text(mutant.made_in(text), encoding="utf-8")
    try:
        for stage in stages(mutant, full):
            if red := is_red(stage, checkout):
                return stage.name, red
    finally:
        file.write_text(text, encoding="utf-8")
    return "", ""


def main() -> int:
    """Returns the number of unnoticed bugs."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("words", nargs="*", metavar="WORD")
    asked = parser.parse_args()
    chosen = [
        mutant
        for mutant in listed()
        if not asked.words or any(word in f"{mutant.file} {mutant.breaks}" for word in asked.words)
    ]
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        for mutant in chosen:
            began = time.monotonic()
            stage, red = notice(mutant, Path(folder), asked.full)
            unnoticed += not stage
            facts = (mutant.file, mutant.breaks, stage or "unnoticed", red)
            sys.stdout.write("\t".join((*facts, f"{time.monotonic() - began:.0f} s")) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - unnoticed} of {len(chosen)} bugs are noticed\n")
    return unnoticed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
