"""Jupyter servers for commands and scripts: a running one that serves the notebook, or one of
their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from jupyter_core.paths import jupyter_runtime_dir
from jupyter_server.utils import check_pid

from jupyter_agent.client.server import UNKNOWN_NAME, Server, ServerRefused, Unreachable
from jupyter_agent.client.stores import TurnFiles, files_of_turn, known_root

ALONE = "--YDocExtension.disable_rtc=True"
"""With jupyter-collaboration, it would leave its database in the current folder."""
_PROBE_SECONDS = 10.0
"""Timeout for a running server to say whether it has the assistant."""
_END_SECONDS = 30.0
"""Timeout for our own server to stop with its kernels; then it is killed."""
_OUTPUT_LINES = 12
"""Of the output of a server that could not be started."""
_LOADING_FAILED = "jupyter_agent | extension failed loading"
"""In the log, before the traceback."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Of servers that listen on all addresses: they announce the name of the machine, which it may not
know itself.
"""
_TOKENS = ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN")
"""Environment variables with the token of a server whose runtime file does not have it."""


def running() -> Iterator[Server]:
    """This user's servers, with or without the assistant."""
    ours = next((os.environ[name] for name in _TOKENS if os.environ.get(name)), "")
    for server in _read_runtime_files():
        root = server.get("root_dir") or server.get("notebook_dir") or "/"
        token = server.get("token") or ours
        url = server["url"]
        loopback = _LOOPBACK.get(server.get("hostname", ""))
        if loopback and not server.get("secure"):  # a certificate is for the name
            url = f"http://{loopback}:{server['port']}{server['base_url']}"
        if file := server.get("sock"):  # whose URL only quotes the slashes
            url = f"http+unix://{quote(file, safe='')}{server['base_url']}"
        yield Server(url, token, Path(root).resolve())


def _read_runtime_files() -> Iterator[dict[str, Any]]:
    """What running servers announce about themselves, as in Jupyter's `list_running_servers`, which
    takes a second to import: every command would wait for it."""
    for file in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json")):
        with contextlib.suppress(OSError, ValueError, LookupError):
            server: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if check_pid(server["pid"]):
                yield server


def ask_running(notebook: Path, route: str, *, seconds: float) -> dict[str, Any] | None:
    """The answer of a running server that serves the notebook; None without such a server.

    Raises ServerRefused.
    """
    for server in _serving(notebook):
        with contextlib.suppress(Unreachable):  # stopped, or behind a password
            answer: dict[str, Any] = server.ask(
                "GET", server.route(notebook, route), seconds=seconds
            )
            return answer
    return None


def ask_any(folder: Path, route: str, *, seconds: float) -> dict[str, Any] | None:
    """The answer of a running server, preferably one that serves the folder; None without one.
    Raises ServerRefused.
    """
    for server in sorted(running(), key=lambda server: not folder.is_relative_to(server.root)):
        with contextlib.suppress(Unreachable):
            answer: dict[str, Any] = server.ask("GET", route, seconds=seconds)
            return answer
    return None


def with_assistant(servers: Iterable[Server]) -> Iterator[Server]:
    """Those servers that have the assistant and accept this process."""
    for server in servers:
        with contextlib.suppress(ServerRefused):
            if _has_assistant(server):
                yield server


def find(notebook: Path) -> Server | None:
    """A running server with the assistant that serves the notebook, or None.

    Raises ServerRefused for one that denies access: the notebook may be open there with unsaved
    work, which a second server would not see.
    """
    return next(filter(_has_assistant, _serving(notebook)), None)


def _serving(notebook: Path) -> list[Server]:
    """The running servers whose root contains the notebook, the closest root first."""
    servers = [server for server in running() if notebook.is_relative_to(server.root)]
    return sorted(servers, key=lambda server: -len(server.root.parts))


def _has_assistant(server: Server, route: str = "models") -> bool:
    """Whether the assistant there answers the route. Raises ServerRefused if it refuses, or the
    server denies access or does not answer."""
    try:
        server.ask("GET", route, seconds=_PROBE_SECONDS)
    except Unreachable as error:
        if error.status in (401, 403):
            raise _kept_out(server) from None
        if error.reason == UNKNOWN_NAME:
            raise ServerRefused(str(error), 403, "denied") from None
        return False
    return True


def _kept_out(server: Server) -> ServerRefused:
    return ServerRefused(
        f"The Jupyter server at {server.url} serves that folder, but denies us access. "
        "Set JUPYTER_TOKEN to its token, or stop that server.",
        403,
        "denied",
    )


def existing(notebook: Path) -> Path:
    """The real path of a notebook. Raises ServerRefused if there is no such file, or no server can
    open it."""
    path = Path(os.path.realpath(notebook))  # unlike `resolve`, also for a loop of links
    if not os.path.isfile(path):
        raise ServerRefused(f"There is no notebook at {path}.", 404, "not_found")
    try:
        str(path).encode()
    except UnicodeEncodeError:  # bytes of the disk that no address can have
        message = f"The path {str(path)!r} is not UTF-8, so no server can open it: rename it."
        raise ServerRefused(message, 400, "invalid_input") from None
    return path


@contextlib.contextmanager
def serving(notebook: Path, store: Path | None = None) -> Iterator[Server]:
    """A server that serves the notebook: a running one, or our own, which stops with the block.
    With a `store` it is always our own, with that folder as its store.

    Raises ServerRefused.
    """
    if store is None and (server := find(notebook)) is not None:
        yield server
        return
    with own(root_for(notebook, store), store) as server:
        yield server


@contextlib.contextmanager
def knowing_turn(turn_id: str, store: Path | None = None) -> Iterator[Server]:
    """A running server that serves a notebook of the turn, preferably with the same root as the
    turn's server, or our own with that root.

    Raises ServerRefused, also if a server serves such a notebook but denies access, or does not
    know the turn: the notebook may be open there.
    """
    files = files_of_turn(store, turn_id)
    if store is None and (server := _find_turn(turn_id, files)) is not None:
        yield server
        return
    if files is None:
        raise ServerRefused(f"No turn `{turn_id}`.", 404, "not_found")
    with own(files.root, store) as server:
        yield server


def _find_turn(turn_id: str, files: TurnFiles | None) -> Server | None:
    """The running server for a turn; for one that our store does not know, any that knows it."""
    if files is None:
        for server in running():
            with contextlib.suppress(ServerRefused):
                if _has_assistant(server, _turn_route(turn_id)):
                    return server
        return None
    serving = {server.root: server for each in files.notebooks for server in _serving(each)}
    closest = sorted(serving, key=lambda root: (root != files.root, -len(root.parts)))
    return next((serving[root] for root in closest if _knows_turn(serving[root], turn_id)), None)


def _knows_turn(server: Server, turn_id: str) -> bool:
    """False for a server that is gone or has no assistant. Raises ServerRefused for any other that
    does not answer with the turn."""
    try:
        return _has_assistant(server, _turn_route(turn_id))
    except ServerRefused as error:
        if error.status != 404:
            raise
        raise ServerRefused(
            f"The Jupyter server at {server.url} serves a notebook of the turn, but has another "
            "store, without the turn. Stop that server and try again.",
            409,
            "served_elsewhere",
        ) from None


def _turn_route(turn_id: str) -> str:
    return f"turns/{quote(turn_id, '')}?outputs=none"


@contextlib.contextmanager
def anywhere(store: Path | None = None) -> Iterator[Server]:
    """A server for requests without a notebook: a running one, preferably of this folder, or our
    own. Raises ServerRefused."""
    server = _any_running() if store is None else None
    if server is not None:
        yield server
        return
    with own(Path.cwd(), store) as server:
        yield server


def _any_running() -> Server | None:
    here = Path.cwd().resolve()
    servers = sorted(running(), key=lambda server: not here.is_relative_to(server.root))
    return next(with_assistant(servers), None)


def root_for(notebook: Path, store: Path | None = None) -> Path:
    """The root for a server of our own: the root under which the store knows the notebook, or the
    current folder, as for `jupyter lab`, if that contains the notebook and does not hide it.
    """
    if (known := known_root(store, notebook)) is not None:
        return known
    here = Path.cwd().resolve()
    if notebook.is_relative_to(here):
        parts = notebook.relative_to(here).parts
        if not any(part.startswith(".") for part in parts):
            return here
    return notebook.parent


@contextlib.contextmanager
def own(root: Path, store: Path | None = None, options: Sequence[str] = ()) -> Iterator[Server]:
    """A quiet server of that folder in a separate process, which stops with the block and with this
    process, and leaves only the store. Raises ServerRefused if it cannot be started.
    """
    options = [*options, *([f"--JupyterAgent.store_dir={store.resolve()}"] if store else [])]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            # -P: modules in the current folder must not shadow Python's own
            [sys.executable, "-P", "-m", "jupyter_agent.client.alone", str(root), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # Ctrl-C is for the command, which stops its turn first
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # on Windows
        )
        try:
            yield _wait_until_started(process, root, log)
        finally:
            _end(process)


def _wait_until_started(process: subprocess.Popen[bytes], root: Path, log: IO[bytes]) -> Server:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()[-_OUTPUT_LINES:]
        raise ServerRefused("\n".join(["No Jupyter server could be started here:", *lines]))
    address = json.loads(line)
    server = Server(address["url"], address["token"], root.resolve(), own=True)
    if not _has_assistant(server):
        raise ServerRefused(_why_without_assistant(log))
    return server


def _why_without_assistant(log: IO[bytes]) -> str:
    log.seek(0)
    _, failed, traceback = log.read().decode(errors="replace").rpartition(_LOADING_FAILED)
    if failed:
        first, *more = traceback.strip().splitlines()
        *_, cause = first, *takewhile(lambda line: not line.startswith("["), more)
        return f"The assistant cannot be loaded here: {cause.strip()}"
    return (
        "The assistant is not switched on in Jupyter here: "
        "`jupyter server extension enable jupyter_agent`."
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.close()
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
    finally:
        process.wait()
        process.stdout.close()


def is_root() -> bool:
    """Jupyter refuses to start as root unless allowed to; these servers stop with their command."""
    return sys.platform != "win32" and os.geteuid() == 0
