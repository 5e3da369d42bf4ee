"""A JupyterLab server of our own, with the assistant and a scripted model, as a process."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jupyter_agent
from tests.fakes import FakeAnthropic, in_thread
from tests.fakes.script import FakeReply
from tests.programs import free_port
from tests.waiting import eventually

_NO_AREA = {"collapsed": None}
INTRODUCED: dict[str, Any] = {"introduced": True}
"""Settings of a user who has seen the notification about the assistant."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; `body` is its JSON, else its text."""

    status: int
    body: Any


class Replies:
    """The model's next answers, in order; tests append to it."""

    def __init__(self) -> None:
        self._left: deque[FakeReply] = deque()

    def append(self, reply: FakeReply) -> None:
        self._left.append(reply)

    def clear(self) -> None:
        self._left.clear()

    def __iter__(self) -> Iterator[FakeReply]:
        return self

    def __next__(self) -> FakeReply:
        if not self._left:
            raise StopIteration
        return self._left.popleft()


class Lab:
    """The running server, spoken to over HTTP."""

    def __init__(
        self,
        url: str,
        token: str,
        root: Path,
        log: Path,
        fake: FakeAnthropic,
        start: Callable[[], subprocess.Popen[bytes]],
    ) -> None:
        self.url = url
        self.token = token
        self.root = root
        self.fake = fake
        self._log = log
        self._logged = 0
        self._start = start
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = 0  # how often
        self.paths: set[str] = set()
        """Of all notebooks that tests have made."""

    def start(self) -> None:
        """Returns when the server answers."""
        self._process = self._start()
        try:
            eventually(self._has_ended_or_answers, bool)
        except AssertionError:
            pass  # its log says more
        else:
            if self._process.poll() is None:
                return
        raise RuntimeError(f"JupyterLab did not start:\n{self.log()}")

    def _has_ended_or_answers(self) -> bool:
        assert self._process is not None
        try:
            answers = self.request("GET", "api/status", timeout=5).status == 200
        except OSError:  # nobody listens yet
            answers = False
        return answers or self._process.poll() is not None

    def stop(self) -> None:
        """As from a terminal: in order, and kernels end with it."""
        if self._process is None:
            return
        self.ended += 1
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Without a warning, like a crash or a power cut."""
        if self._process is not None:
            self.ended += 1
            self._process.kill()
            self._process.wait()

    @property
    def process(self) -> int:
        """The id of the server's process."""
        assert self._process is not None
        return self._process.pid

    @contextmanager
    def kept_settings(self) -> Iterator[Callable[[], bool]]:
        """Restore JupyterLab's settings afterwards; yields a function that tells whether they
        have changed. The server stores them, so other tests' pages would load them too.
        """
        settings = self.root.parent / "settings"
        before = _files(settings)
        yield lambda: _files(settings) != before
        if _files(settings) != before:
            shutil.rmtree(settings)
            for path, content in before.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = 60,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request to a route of the assistant; an error is an answer too."""
        return self.request(method, f"api/agent/{path}", body, timeout=timeout, headers=headers)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = 60,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request to any route of the server."""
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={
                "Authorization": f"token {self.token}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return _answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.read())

    def ask(self, text: str, notebook: str, **more: Any) -> Any:
        """Ask in a new conversation, in mode `auto`, and wait for the end of the turn."""
        message = {"role": "user", "parts": [{"type": "text", "text": text}]}
        body = {"messages": [message], "notebook": notebook, "mode": "auto", "stream": False}
        answer = self.call("POST", "chat", {**body, **more})
        assert answer.status == 200, answer
        return answer.body

    def notebook(self, path: str) -> Any:
        """The notebook as the assistant currently sees it."""
        answer = self.call("GET", f"notebooks/{quote(path)}")
        assert answer.status == 200, answer
        return answer.body

    def edit(self, path: str, cell_id: str, **change: Any) -> Any:
        """The cell after that edit; see PATCH of a cell for what `change` may be."""
        answer = self.call("PATCH", f"notebooks/{quote(path)}/cells/{cell_id}", change)
        assert answer.status == 200, answer
        return answer.body

    def run(self, path: str, cell_id: str, **how: Any) -> Any:
        """The result of running the cell; with `wait`, the result so far."""
        answer = self.call("POST", f"notebooks/{quote(path)}/cells/{cell_id}/run", how)
        assert answer.status in (200, 202), answer
        return answer.body

    def stop_turns(self) -> None:
        """Those too that wait for an answer, which the next page would be asked for."""
        for turn in self.call("GET", "status").body["turns"]:
            self.call("POST", f"chat/{turn['conversation_id']}/stop")

    def shut_down_kernels(self) -> None:
        for session in self.request("GET", "api/sessions").body:
            self.request("DELETE", f"api/sessions/{session['id']}")

    def log(self) -> str:
        """The server's output since the last call."""
        with self._log.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._logged)
            text = file.read()
            self._logged = file.tell()
        return text


@contextmanager
def running_lab(
    folder: Path,
    replies: Replies,
    *,
    python: str = sys.executable,
    config: dict[str, Any] | None = None,
    panel: bool = True,
) -> Iterator[Lab]:
    """Serve from `folder`, with its own home, settings, notebooks and store; without `panel`,
    pages load only the labextension installed beside `python`.
    """
    root = folder / "notebooks"
    root.mkdir(parents=True)
    token = secrets.token_hex(16)
    port = free_port()
    with in_thread(FakeAnthropic(replies)) as fake, (folder / "lab.log").open("wb") as log:
        settings: dict[str, dict[str, Any]] = {
            "ServerApp": {
                "port": port,
                "port_retries": 0,
                "open_browser": False,
                "allow_root": True,
                "root_dir": str(root),
                # It replaces Jupyter's contents manager by its own: see test_d19.
                "jpserver_extensions": {"jupyterlab_jupytext": False},
            },
            "IdentityProvider": {"token": token},
            "LabApp": {"expose_app_in_browser": True},
            "YDocExtension": {"disable_rtc": True},  # tests/ui/test_rooms.py has it on
            "JupyterAgent": {
                "store_dir": str(folder / "store"),
                "default_model": "anthropic:claude-sonnet-5-5",
                "providers": {
                    "anthropic": {"base_url": fake.url, "api_key": fake.api_key},
                    # The wildcard address is not a local name, but leads to this machine too.
                    "far": {
                        "kind": "anthropic",
                        "base_url": fake.url.replace("127.0.0.1", "0.0.0.0"),
                        "api_key": fake.api_key,
                    },
                },
            },
        }
        for section, values in (config or {}).items():
            settings[section] = {**settings.get(section, {}), **values}
        # Not jupyter_lab_config: that is read too late for an extension of the server.
        config_file = folder / "config" / "jupyter_server_config.json"
        config_file.parent.mkdir()
        config_file.write_text(json.dumps(settings))
        known = folder / "settings" / "jupyter-agent" / "plugin.jupyterlab-settings"
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(INTRODUCED))
        environment = _environment(folder, panel=panel)

        def start() -> subprocess.Popen[bytes]:
            command = [python, "-m", "jupyterlab"]
            return subprocess.Popen(
                command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT
            )

        lab = Lab(f"http://127.0.0.1:{port}", token, root, folder / "lab.log", fake, start)
        try:
            lab.start()
            yield lab
        finally:
            lab.stop()


@contextmanager
def settings(lab: Lab, **values: Any) -> Iterator[None]:
    """The user's settings for the assistant, for pages loaded inside the block."""
    path = "lab/api/settings/jupyter-agent:plugin"
    for raw in (values | INTRODUCED, INTRODUCED):
        answer = lab.request("PUT", path, {"raw": json.dumps(raw)})
        assert answer.status == 204, answer
        if raw != INTRODUCED:
            yield


def workspace(lab: Lab, address: str) -> Any:
    """Lab's saved workspace at that address; empty if nothing has been saved yet."""
    saved = lab.request("GET", "lab/api/workspaces").body["workspaces"]["values"]
    found = (one for one in saved if one["metadata"]["id"].split("/")[-1] in address)
    return next(found, {"data": {}})["data"]


def right_area(lab: Lab, address: str) -> Any:
    """The right side area of that workspace."""
    return workspace(lab, address).get("layout-restorer:data", {}).get("right", _NO_AREA)


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _answer(status: int, raw: bytes) -> Answer:
    text = raw.decode()
    try:
        return Answer(status, json.loads(text))
    except ValueError:
        return Answer(status, text)


def _environment(folder: Path, *, panel: bool) -> dict[str, str]:
    """Nothing of the user's Jupyter, and the newest build of our browser code."""
    share = folder / "share"
    built = Path(jupyter_agent.__file__).parent / "labextension"
    if panel and (built / "package.json").exists():  # a checkout: newer than the installed copy
        # A copy: a build at the same time would delete files of the open pages.
        shutil.copytree(built, share / "labextensions" / "jupyter-agent")
    news = folder / "settings" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False})
    )
    (folder / "home").mkdir()
    inherited = {name: value for name, value in os.environ.items() if "JUPYTER" not in name}
    return {
        **inherited,
        "HOME": str(folder / "home"),
        "IPYTHONDIR": str(folder / "home" / "ipython"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_PATH": str(share),
        "JUPYTER_PREFER_ENV_PATH": "0",
    }
