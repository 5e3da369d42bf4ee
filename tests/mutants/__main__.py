"""Which tests notice a bug in the code that keeps our promises:

    python -m tests.mutants [--full] [WORD ...]

Each bug of mutants.toml is made in a copy of the checkout and tested: with the tests beside it,
then with all that `pytest` runs, then, with `--full`, with `pytest -m full`; those of the panel
with jest first, and then in the browser. Words choose those whose file or sentence has one of
them. One line is printed for each: where it was noticed, by what, and after how many seconds.
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
"""Seconds after which tests that do not end count as red."""
_RED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)|^ +● (.+ › .+)$", re.MULTILINE)
"""As pytest and jest name what is red."""


class Stage(NamedTuple):
    """Tests that are run at once."""

    name: str
    command: Sequence[str]
    folder: Path = Path()


def stages(mutant: Mutant, full: bool) -> Iterator[Stage]:
    """What is run, until something is red."""
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
    """What fails first in this checkout; None if all is well."""
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
    """What git does not ignore, and what was built and installed for the panel."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(ROOT / BUILT, folder / BUILT)
    (folder / PANEL / "node_modules").symlink_to(ROOT / PANEL / "node_modules")


def notice(mutant: Mutant, checkout: Path, full: bool) -> tuple[str, str]:
    """The stage that notices the bug, and by what; both empty where none does."""
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
    """The number of bugs that nothing noticed."""
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
