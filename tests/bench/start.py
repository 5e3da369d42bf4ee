"""What we add to the start of JupyterLab's server: `python -m tests.bench.start [RUNS]` (Linux).

Starts it with and without the extension, alternating, and prints medians of the difference of two
neighbouring starts: until the server answers, and five seconds later, when everything loaded after
the start is there, too. Asserts nothing.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

from tests.programs import environment, free_port

SETTLED_S = 5.0
"""After that, nothing more is loaded by itself."""
GOALS = ("<= 60 ms", "", "<= 8 MB", "", "")
NAMES = ("wall, ms", "CPU, ms", "memory, MB", "CPU after 5 s, ms", "memory after 5 s, MB")


@dataclass
class Start:
    """The start of one server."""

    wall_ms: float
    """From the start of the process to the first answer."""
    cpu_ms: float
    memory_mb: float
    later_cpu_ms: float
    later_memory_mb: float


def start(folder: Path, *, ours: bool) -> Start:
    port = free_port()
    config = {
        "ServerApp": {
            "port": port,
            "port_retries": 0,
            "open_browser": False,
            "allow_root": True,
            "root_dir": str(folder),
            "jpserver_extensions": {"jupyter_agent": ours},
        },
        "IdentityProvider": {"token": "bench"},
    }
    (folder / ".config").mkdir(exist_ok=True)
    (folder / ".config" / "jupyter_server_config.json").write_text(json.dumps(config))
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab"],
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not answers(port):
            assert process.poll() is None, "JupyterLab did not start"
            time.sleep(0.002)
        wall_ms = (time.perf_counter() - begin) * 1000
        at_once = taken(process.pid)
        time.sleep(SETTLED_S)
        return Start(wall_ms, *at_once, *taken(process.pid))
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    address = f"http://127.0.0.1:{port}/api/status?token=bench"
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:  # not listening yet
        return False


def taken(process: int) -> tuple[float, float]:
    """Milliseconds of CPU and megabytes of memory so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    ticks = int(fields[11]) + int(fields[12])
    return 1000 * ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(runs: int) -> None:
    pairs: list[tuple[Start, Start]] = []
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder), ours=True)  # warms up bytecode and the disk's cache
        for number in range(runs):
            order = (True, False) if number % 2 else (False, True)
            both = {ours: start(Path(folder), ours=ours) for ours in order}
            pairs.append((both[True], both[False]))
            print(f"start {number + 1} of {runs}", file=sys.stderr)
    with_us = [median(column) for column in zip(*(astuple(one) for one, _ in pairs), strict=True)]
    added = [
        median(a - b for a, b in column)
        for column in zip(
            *(zip(astuple(one), astuple(bare), strict=True) for one, bare in pairs), strict=True
        )
    ]
    print(f"| of {runs} pairs, median | with us | added | goal |\n|---|---|---|---|")
    for name, value, more, goal in zip(NAMES, with_us, added, GOALS, strict=True):
        print(f"| {name} | {value:,.0f} | {more:+,.1f} | {goal} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
