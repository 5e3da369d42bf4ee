"""JupyterLab with the assistant, and the model that it asks, for one run of all tasks."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbeval.script import Script
from tests.fakes import FakeAnthropic, in_thread

_START_S = 120


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab; with `fake`, its model is ours."""

    url: str
    token: str = field(repr=False)
    root: Path
    script: Script
    fake: FakeAnthropic | None

    def ask(self, method: str, route: str, body: Any = None) -> Any:
        """What a route of the server answers, as JSON."""
        request = urllib.request.Request(
            self.url + route,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=_START_S) as response:
            return json.loads(response.read() or "null")

    def is_busy(self) -> bool:
        """Whether code runs."""
        sessions = self.ask("GET", "api/sessions")
        return any(each["kernel"]["execution_state"] == "busy" for each in sessions)

    def close_kernels(self) -> None:
        for session in self.ask("GET", "api/sessions"):
            self.ask("DELETE", f"api/sessions/{session['id']}")


@contextmanager
def lab(*, scripted: bool, facts: Mapping[str, Any] | None = None) -> Iterator[Lab]:
    """With a store and folders of its own. `scripted`: the model answers from a script. `facts`:
    what the product is told of models, such as their price."""
    with tempfile.TemporaryDirectory(prefix="nbeval-") as name:
        home, script = Path(name).resolve(), Script()
        if not scripted:
            with _lab(home, script, facts=facts) as started:
                yield started
            return
        fake = FakeAnthropic(script)
        script.follow(fake.requests)
        with in_thread(fake), _lab(home, script, fake=fake, facts=facts) as started:
            yield started


@contextmanager
def peer_lab(python: str, files: Mapping[str, Any] | None = None) -> Iterator[Lab]:
    """JupyterLab of another environment, with real-time collaboration if it has that. `files`: what
    is in its home before, as JSON."""
    with tempfile.TemporaryDirectory(prefix="nbeval-") as name:
        home = Path(name).resolve()
        for path, content in (files or {}).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(json.dumps(content))
        with _lab(home, Script(), python=python) as started:
            yield started


@contextmanager
def _lab(
    home: Path,
    script: Script,
    *,
    fake: FakeAnthropic | None = None,
    facts: Mapping[str, Any] | None = None,
    python: str | None = None,
) -> Iterator[Lab]:
    """With `python`, that of an environment in which the assistant need not be."""
    root = home / "notebooks"
    root.mkdir()
    token, port = secrets.token_hex(16), _free_port()
    agent: dict[str, Any] = {"store_dir": str(home / "store"), "model_facts": dict(facts or {})}
    if fake is not None:
        agent |= {
            "default_model": "anthropic:claude-sonnet-5-5",
            "providers": {"anthropic": {"base_url": fake.url, "api_key": fake.api_key}},
        }
    config = {
        "ServerApp": {
            "port": port,
            "port_retries": 0,
            "open_browser": False,
            "allow_root": True,
            "root_dir": str(root),
        },
        "IdentityProvider": {"token": token},
        "LabApp": {"expose_app_in_browser": True, "news_url": None},
        "YDocExtension": {"disable_rtc": python is None},
        "JupyterAgent": agent,
    }
    _add_bash(home / "data")
    (home / "config").mkdir()
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    with (home / "log").open("wb") as log:
        # In a session of its own: Ctrl-C is for who plays, and that ends the server.
        process = subprocess.Popen(
            [python or sys.executable, "-m", "jupyterlab"],
            env=environment,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started = Lab(f"http://127.0.0.1:{port}/", token, root, script, fake)
    try:
        _wait(
            started, "api/agent/status" if python is None else "api/status", process, home / "log"
        )
        with _found_in(home):
            yield started
    finally:
        process.terminate()
        process.wait(_START_S)


def _add_bash(data: Path) -> None:
    """Its kernel is known to Jupyter only once it is told of it."""
    kernel = {
        "argv": [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"],
        "display_name": "Bash",
        "language": "bash",
    }
    (data / "kernels" / "bash").mkdir(parents=True)
    (data / "kernels" / "bash" / "kernel.json").write_text(json.dumps(kernel))


@contextmanager
def _found_in(home: Path) -> Iterator[None]:
    """Agents of this process find the servers of that folder, and no others; its kernels are found
    too."""
    names = {"JUPYTER_RUNTIME_DIR": home / "runtime", "JUPYTER_DATA_DIR": home / "data"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(folder) for name, folder in names.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _wait(lab: Lab, route: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            lab.ask("GET", route)
            return
        except OSError:  # nobody listens yet
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
