"""G10: what we add to the start of JupyterLab's server (Linux)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.bench import Bench
from tests.bench.client import cpu_seconds, memory_mb
from tests.bench.figures import Figure, Measured
from tests.programs import environment, free_port

PAIRS = 3

SETTLED_S = 5.0
"""After that, nothing more is loaded by itself."""


@dataclass
class Start:
    """The start of one server."""

    wall_ms: float
    """From the start of the process to the first answer."""
    cpu_ms: float
    memory_mb: float
    later_cpu_ms: float
    later_memory_mb: float


def starts(bench: Bench) -> Iterator[Measured]:
    """Pairs of starts, with the assistant and without, alternating."""
    pairs: list[tuple[Start, Start]] = []
    with tempfile.TemporaryDirectory() as folder:
        _start(Path(folder), ours=True)  # warms up bytecode and the disk's cache
        for number in range(PAIRS):
            order = (True, False) if number % 2 else (False, True)
            both = {ours: _start(Path(folder), ours=ours) for ours in order}
            pairs.append((both[True], both[False]))
    for what, unit, name, goal in (
        ("start of the server: until it answers", "ms", "wall_ms", 60),
        ("start of the server: CPU until it answers", "ms", "cpu_ms", None),
        ("start of the server: memory when it answers", "MB", "memory_mb", 8),
        ("start of the server: CPU 5 s later", "ms", "later_cpu_ms", None),
        ("start of the server: memory 5 s later", "MB", "later_memory_mb", None),
    ):
        added = median(getattr(ours, name) - getattr(bare, name) for ours, bare in pairs)
        without = median(getattr(bare, name) for _, bare in pairs)
        yield Figure(
            what=what,
            value=without + added,
            unit=unit,
            floors={"without us": without},
            judged="added",
            goal=goal,
        )


def _start(folder: Path, *, ours: bool) -> Start:
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
        while not _answers(port):
            assert process.poll() is None, "JupyterLab did not start"
            time.sleep(0.002)
        wall_ms = (time.perf_counter() - begin) * 1000
        at_once = _taken(process.pid)
        time.sleep(SETTLED_S)
        return Start(wall_ms, *at_once, *_taken(process.pid))
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    address = f"http://127.0.0.1:{port}/api/status?token=bench"
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:  # not listening yet
        return False


def _taken(process: int) -> tuple[float, float]:
    """Milliseconds of CPU and megabytes of memory so far."""
    return cpu_seconds(process) * 1000, memory_mb(process)
