"""A server to measure, clients of it, and times."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.ui.lab import Lab, Replies, running_lab


class Client:
    """One persistent connection, like a page's."""

    def __init__(self, lab: Lab) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(lab.url).netloc, timeout=600)
        self._headers = {
            "Authorization": f"token {lab.token}",
            "Content-Type": "application/json",
        }

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer. A body of bytes is sent as it is."""
        return json.loads(self._asked(method, path, body).read() or b"null")

    def agent(self, method: str, path: str, body: Any = None) -> Any:
        """The same for one of our routes."""
        return self.call(method, f"api/agent/{path}", body)

    def chat(self, question: str, notebook: str, **more: Any) -> http.client.HTTPResponse:
        """The stream of a turn in mode auto, once its first bytes are there."""
        body = {"messages": [{"role": "user", "content": question}], "notebook": notebook}
        return self._asked("POST", "api/agent/chat", {**body, "mode": "auto", **more})

    def _asked(self, method: str, path: str, body: Any) -> http.client.HTTPResponse:
        text = body if body is None or isinstance(body, bytes) else json.dumps(body)
        self._connection.request(method, f"/{path}", text, self._headers)
        answer = self._connection.getresponse()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.read()!r}")
        return answer


class Probe:
    """Asks a server for its status on a fixed schedule, in a process of its own."""

    def __init__(self, lab: Lab) -> None:
        command = [sys.executable, "-m", "tests.bench.probe", lab.url, lab.token]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun

    def end(self) -> float:
        """The milliseconds within which 99 of 100 were answered."""
        printed, _ = self._process.communicate()
        return percentile(json.loads(printed), 0.99)


def ms(work: Callable[..., object], *arguments: Any) -> float:
    """How many milliseconds it takes."""
    start = time.perf_counter()
    work(*arguments)
    return (time.perf_counter() - start) * 1000


def median_ms(times: int, work: Callable[..., object], *arguments: Any) -> float:
    """The median of so many."""
    return statistics.median(ms(work, *arguments) for _ in range(times))


def percentile(times: Sequence[float], share: float) -> float:
    """The time within which that share of them is."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def carrier_of(lab: Lab, path: str) -> str:
    """What the assistant works on: "file", "tab" or "room"."""
    return str(lab.notebook(path)["carrier"])


def cpu_seconds(process: int) -> float:
    """User and system time of a process. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int) -> float:
    """Resident memory of a process. https://man7.org/linux/man-pages/man5/proc_pid_status.5.html"""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


@contextmanager
def served(
    *,
    python: str = sys.executable,
    rooms: bool = False,
    extensions: dict[str, bool] | None = None,
    model: dict[str, str] | None = None,
) -> Iterator[Lab]:
    """JupyterLab in a folder of its own; `model` is that of the assistant, by default one that has
    no answers."""
    config: dict[str, Any] = {
        "YDocExtension": {"disable_rtc": not rooms},
        "ServerApp": {"jpserver_extensions": {"jupyterlab_jupytext": False, **(extensions or {})}},
    }
    if model is not None:
        config["JupyterAgent"] = {"providers": {"anthropic": model}}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(
            Path(folder) / "lab",
            Replies(),
            python=python,
            config=config,
            panel=python == sys.executable,
        ) as lab,
    ):
        yield lab
