"""JupyterLab with the assistant, and the model that it asks, for one run of all tasks."""

from __future__ import annotations

import json
import os
import queue
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbeval.dabench import ANSWER
from tests.fakes import FakeAnthropic, in_thread, says

_START_S = 120
_RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")
_CELL = "$cell "


class Script:
    """The replies of the task that runs, each after what the person does before it."""

    def __init__(self) -> None:
        self.acts: queue.Queue[Act] = queue.Queue()
        """What the person has to do now; whoever has the browser does it."""
        self.asked = 0
        """How many replies the model was asked for."""
        self._replies: Sequence[Sequence[Mapping[str, Any]]] = ()
        self._meanwhile: Mapping[int, Callable[..., None]] = {}
        self._requests: Sequence[Mapping[str, Any]] = ()

    def follow(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """The requests to the model, in which a reply's `$run_id` and `$answers` are looked up, and
        the id of the `$cell` whose text begins with what follows."""
        self._requests = requests

    def begin(
        self,
        replies: Sequence[Sequence[Mapping[str, Any]]],
        meanwhile: Mapping[int, Callable[..., None]],
    ) -> None:
        """The next replies are these."""
        self._replies, self._meanwhile, self.asked = replies, meanwhile, 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.asked += 1
        if (does := self._meanwhile.get(self.asked)) is not None:
            act = Act(does)
            self.acts.put(act)
            act.wait()
        if self.asked > len(self._replies):
            return [says("Done.")]
        return [self._filled_in(block) for block in self._replies[self.asked - 1]]

    def _filled_in(self, value: Any) -> Any:
        """What is another in each run, as the model was told it last."""
        if isinstance(value, Mapping):
            return {key: self._filled_in(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled_in(each) for each in value]
        if value == "$run_id":
            return _RUN_ID.findall(self._told())[-1]
        if value == "$answers":
            found = [each.group() for each in ANSWER.finditer(self._told())]
            return "\n".join(found) or "There is no answer."
        if isinstance(value, str) and value.startswith(_CELL):
            text = re.escape(value.removeprefix(_CELL))
            return re.findall(rf"^\[\d+ \w+ (\S+) .*\]\n{text}", self._told(), re.MULTILINE)[-1]
        return value

    def _told(self) -> str:
        """What the model was told last."""
        return "\n".join(texts(self._requests[-1]["messages"][-1]["content"]))


def texts(content: Any) -> Iterator[str]:
    """The words of a message and of the results of tools in it."""
    if isinstance(content, str):
        yield content
    else:
        for block in content:
            yield from texts(block.get("text") or block.get("content") or "")


class Act:
    """Something that another thread is to do."""

    def __init__(self, does: Callable[..., None]) -> None:
        self._does = does
        self._done: queue.Queue[BaseException | None] = queue.Queue()

    def do(self, *given: Any) -> None:
        """Raises nothing: who waits for it gets the error."""
        try:
            self._does(*given)
        except BaseException as error:  # noqa: BLE001 - it is raised where the act was wanted
            self._done.put(error)
        else:
            self._done.put(None)

    def wait(self) -> None:
        """Raises what it raised."""
        error = self._done.get()
        if error is not None:
            raise error


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
def peer_lab(python: str) -> Iterator[Lab]:
    """JupyterLab of another environment, with real-time collaboration."""
    with (
        tempfile.TemporaryDirectory(prefix="nbeval-") as name,
        _lab(Path(name).resolve(), Script(), python=python) as started,
    ):
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
