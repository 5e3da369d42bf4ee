"""`jupyter agent demo`: an example notebook, and somebody who shows what the assistant can do."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp

from jupyter_agent.cli.servers import ALONE, Refused, is_root, own_server, request

NOTEBOOK = "coffee.ipynb"
QUESTION = "Show me what you can do in this notebook."


def lab(model: str, server: Sequence[str]) -> int:
    """JupyterLab with the example notebook and the panel open; returns when the server ends."""
    try:
        from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]
    except ImportError:
        sys.stderr.write('JupyterLab is not installed: pip install "jupyter_agent[lab]"\n')
        return 1
    with _example() as folder:
        options = [
            f"--ServerApp.root_dir={folder}",
            f"--LabApp.default_url=/lab/tree/{NOTEBOOK}",
            f"--JupyterAgent.default_model={model}",
            "--JupyterAgent.open_panel=True",
            f"--LabApp.user_settings_dir={_quiet_settings(folder)}",
            ALONE,
        ]
        if is_root():
            options.append("--allow-root")
        LabApp.launch_instance([*options, *server])
    return 0


def _quiet_settings(folder: Path) -> Path:
    """Settings of the demo's own: JupyterLab's question about news would cover the panel."""
    file = folder / ".settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"fetchNews": "false"}), encoding="utf-8")
    return folder / ".settings"


def headless(model: str, server: Sequence[str]) -> int:
    """Asks over HTTP and prints what was done to a copy of the example notebook."""
    outcome: list[int] = []
    with headless_server(model, server) as app:

        async def ask() -> None:
            try:
                outcome.append(await _ask(app))
            finally:
                app.stop()

        app.io_loop.add_callback(ask)
        app.start()
    return outcome[0] if outcome else 1


@contextlib.contextmanager
def headless_server(model: str, server: Sequence[str] = ()) -> Iterator[ServerApp]:
    """A quiet server, not yet started, with a copy of the example notebook and an empty store."""
    with _example() as folder, tempfile.TemporaryDirectory() as store:
        options = [
            f"--JupyterAgent.store_dir={store}",
            f"--JupyterAgent.default_model={model}",
            *server,
        ]
        with own_server(folder, options) as app:
            yield app


async def _ask(app: ServerApp) -> int:
    printer = _Printer()
    question = {"notebook": NOTEBOOK, "messages": [_user(QUESTION)], "mode": "auto"}
    try:
        await request(app, "POST", "chat", printer.feed, body=question)
        notebook = json.loads(await request(app, "GET", f"notebooks/{NOTEBOOK}"))
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"\n{NOTEBOOK} has {len(notebook['cells'])} cells now.")
    return 0 if printer.finished else 1


class _Printer:
    """The event stream as lines that a person can read."""

    def __init__(self) -> None:
        self.finished = False
        self._rest = ""

    def feed(self, data: bytes) -> None:
        *frames, self._rest = (self._rest + data.decode()).split("\n\n")
        for frame in frames:
            for line in frame.splitlines():
                if line.startswith("data: {"):
                    self._show(json.loads(line.removeprefix("data: ")))

    def _show(self, chunk: dict[str, Any]) -> None:
        match chunk["type"]:
            case "text-delta":
                _say(chunk["delta"], end="")
            case "text-end":
                _say("")
            case "tool-input-available":
                _say(f"\n* {chunk['toolName']} {json.dumps(chunk['input'])}")
            case "tool-output-available" if not chunk.get("preliminary"):
                _say(_indented(chunk["output"]["text"]))
            case "tool-output-error" | "error":
                _say(_indented(chunk["errorText"]))
            case "finish":
                self.finished = True


def _say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "text": text}]}


@contextlib.contextmanager
def _example() -> Iterator[Path]:
    """A folder of its own with a copy of the example notebook; gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="jupyter-agent-demo-") as folder,
        as_file(files("jupyter_agent") / "examples" / NOTEBOOK) as source,
    ):
        shutil.copy(source, Path(folder) / NOTEBOOK)
        yield Path(folder)
