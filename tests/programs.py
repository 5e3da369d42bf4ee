"""Jupyter as a separate program, as a person starts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from .waiting import PATIENCE, eventually

SCRIPTS = Path(sys.executable).parent


def environment(folder: Path) -> dict[str, str]:
    """An environment without the machine's own Jupyter: other folders, and our programs first."""
    own = {
        "HOME": str(folder),
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
        "JUPYTER_RUNTIME_DIR": str(folder / ".runtime"),
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
    }
    others = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**others, **own}


def run(
    folder: Path, *command: str | Path, timeout: float = 2 * PATIENCE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, in `folder`."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment(folder), **variables},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def jupyter_agent(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs our command line in `folder`."""
    return run(folder, sys.executable, "-m", "jupyter_agent.cli.main", *arguments)


@dataclass(frozen=True)
class Server:
    """A running server and its process."""

    port: int
    token: str
    process: subprocess.Popen[str]

    def request(self, method: str, route: str, body: Any = None, **headers: str) -> Any:
        """One request under `api/agent`, by token and without cookies; the text of a stream."""
        request = urllib.request.Request(
            f"http://localhost:{self.port}/api/agent/{route}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", **headers},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read().decode()
        if response.headers.get_content_type() == "text/event-stream":
            return text
        return json.loads(text or "null")


def free_port() -> int:
    """A free port of this machine, at this moment, outside of the system's range for arbitrary
    ports (32,768 and up on Linux): another test's server could take one of those before ours.
    """
    while True:
        port = SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):  # taken
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def jupyter_server(
    folder: Path, command: str = "jupyter server --port 8888 --IdentityProvider.token=secret"
) -> Iterator[Server]:
    """The command's server, on a free port or its Unix socket, in `folder`; stopped when the block
    ends.
    """
    port = free_port()
    file = command.partition("ServerApp.sock=")[2].partition(" ")[0]
    token = command.rpartition("token=")[2]
    log = folder / "server.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [*command.replace("8888", str(port)).split(), "--no-browser", "--allow-root"],
            cwd=folder,
            env=environment(folder),
            stderr=written,
            text=True,
        )
    try:
        eventually(lambda: _answers(port, file) or process.poll() is not None, bool)
        assert process.poll() is None, f"The server ended before it ran:\n{log.read_text()}"
        yield Server(port, token, process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _answers(port: int, file: str) -> bool:
    with socket.socket(socket.AF_UNIX if file else socket.AF_INET) as probe:
        return probe.connect_ex(file or ("localhost", port)) == 0
