"""A folder with a notebook, a model that answers from a script, and a person at a terminal."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.fakes import FakeAnthropic, in_thread
from tests.fakes.script import FakeReply

from ..programs import Server, environment, jupyter_server
from ..waiting import PATIENCE

NOTEBOOK = "work/sales.ipynb"
CONFIG = """
c.JupyterAgent.default_model = "anthropic:claude-sonnet-5-5"
c.JupyterAgent.providers = {{"anthropic": {{"base_url": {url!r}, "api_key": {key!r}}}}}
"""
ESCAPE = "\x1b"


@dataclass(frozen=True)
class Desk:
    """A person's folder, in which they type commands."""

    folder: Path
    home: Path | None = None
    """The home folder for Jupyter's files, if not the default."""

    @property
    def notebook(self) -> Path:
        return self.folder / NOTEBOOK

    def type(self, *words: str, stdin: str = "", **variables: str) -> Done:
        """Runs a command to its end, without a terminal."""
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_agent.cli.main", *words],
            cwd=self.folder,
            env={**environment(self.home or self.folder), **variables},
            capture_output=True,
            text=True,
            input=stdin,
            timeout=PATIENCE * 2,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def sources(self) -> dict[str, str]:
        """The cells of the file, by id."""
        return {
            cell["id"]: "".join(cell["source"])
            for cell in json.loads(self.notebook.read_text())["cells"]
        }

    def configure(self, text: str) -> None:
        """Adds to Jupyter's configuration."""
        with (self.folder / ".config" / "jupyter_server_config.py").open("a") as file:
            file.write(text)

    def programs(self) -> list[str]:
        """Programs that still run for this person."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("HOME") == str(self.folder):
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:  # ended, or another user's
                continue
        return [line for line in found if line]

    def strays(self) -> set[str]:
        """Files that are neither the person's nor in the folders of Jupyter and IPython."""
        own = (".config", ".data", ".ipython", ".cache", "work/sales.ipynb")
        files = [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")]
        return {
            file
            for file in files
            if (self.folder / file).is_file()
            and not file.startswith(own)
            and ".ipynb_checkpoints" not in file
        }

    @contextmanager
    def terminal(
        self, *words: str, piped: str | None = None, **variables: str
    ) -> Iterator[Terminal]:
        """A command in a terminal of its own; with `piped` as its standard input."""
        master, slave = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL if piped is None else _PIPED, *words],
            cwd=self.folder,
            env={**environment(self.folder), "TERM": "xterm", "PIPED": piped or "", **variables},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        terminal = Terminal(master, process)
        try:
            yield terminal
        finally:
            process.kill()
            process.wait()
            os.close(master)


_IN_TERMINAL = """
import fcntl, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C arrives
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
from jupyter_agent.cli.main import main
sys.exit(main(sys.argv[1:]))
"""

_PIPED = """
import os
""" + _IN_TERMINAL.replace(
    "from jupyter",
    """
read, write = os.pipe()
os.write(write, os.environ["PIPED"].encode())
os.close(write)
os.dup2(read, 0)
from jupyter""",
    1,
)


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str


class Terminal:
    """What a person sees and types at a terminal."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.seen = ""

    def expect(self, text: str) -> str:
        """Reads until the text is on the screen; returns everything up to then."""
        until = time.monotonic() + PATIENCE
        while text not in self.seen:
            if time.monotonic() > until or not self._read():
                raise AssertionError(f"no {text!r} in:\n{self.seen}")
        return self.seen

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def ended(self) -> int:
        """Reads to the end; returns the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=PATIENCE)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], PATIENCE)[0]:
            raise AssertionError(f"nothing more came after:\n{self.seen}")
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # on Linux: the other end is closed
            return False
        self.seen += piece.decode().replace("\r\n", "\n")
        return bool(piece)


@pytest.fixture
def replies() -> list[FakeReply]:
    """The model's answers."""
    return []


@pytest.fixture
def model(replies: list[FakeReply]) -> Iterator[FakeAnthropic]:
    with in_thread(FakeAnthropic(replies)) as api:
        yield api


@pytest.fixture
def desk(
    tmp_path: Path, model: FakeAnthropic, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    """Cells a1 (Markdown), b2 (`x = 1`) and c3 (`print('x is', x)`); no files or programs
    remain."""
    folder = tmp_path.resolve()
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    for name in ("NO_COLOR", "JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (folder / "work").mkdir()
    cells = [
        new_markdown_cell("# Sales", id="a1"),
        new_code_cell("x = 1", id="b2"),
        new_code_cell("print('x is', x)", id="c3"),
    ]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
    nbformat.write(content, folder / NOTEBOOK)
    (folder / ".config").mkdir()
    written = CONFIG.format(url=model.url, key=model.api_key)
    (folder / ".config" / "jupyter_server_config.py").write_text(written)
    desk = Desk(folder)
    yield desk
    assert desk.programs() == []
    if not (folder / "server.log").exists():  # a running server has its own files
        assert desk.strays() == set()
        assert list(temporary.iterdir()) == []


@pytest.fixture(params=["with a server", "without a server"])
def somewhere(desk: Desk, request: Any) -> Iterator[Desk]:
    """The folder, with and without a running Jupyter that serves it."""
    if request.param == "without a server":
        yield desk
        return
    with jupyter_server(desk.folder):
        yield desk


@pytest.fixture
def served(desk: Desk) -> Iterator[Server]:
    """A running server of the folder."""
    with jupyter_server(desk.folder) as server:
        yield server
