"""`python -m jupyter_agent.client.alone ROOT [OPTION ...]`: the server of whoever found none.

It says its address in a line of JSON and ends when its standard input does, so it outlives its
command by no accident, not even a kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from jupyter_server.serverapp import ServerApp

from jupyter_agent.carriers.late_rooms import EXTENSION
from jupyter_agent.client.servers import ALONE, is_root

_FOR_PAGES = (
    "jupyterlab", "notebook", "notebook_shim", "nbclassic", "jupyter_lsp", EXTENSION,
    "jupyter_server_terminals",
)  # fmt: skip
"""Extensions that only browsers need; without them a command starts a second sooner."""


def main(arguments: Sequence[str]) -> None:
    """Serves until standard input ends."""
    root, *options = arguments
    token = secrets.token_hex(24)
    # Addresses, cookies and connection files of kernels are nobody else's, and gone afterwards.
    with tempfile.TemporaryDirectory(prefix="jupyter-agent-") as runtime:
        os.environ["JUPYTER_RUNTIME_DIR"] = runtime
        ours = [
            "--ServerApp.identity_provider_class=jupyter_server.auth.identity.IdentityProvider",
            f"--IdentityProvider.token={token}",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.base_url=/",
            "--ServerApp.certfile=",
            "--ServerApp.sock=",
            *(f"--ServerApp.jpserver_extensions={name}=False" for name in _FOR_PAGES),
        ]
        with own_server(Path(root), [*ours, *options]) as app:

            def tell_address() -> None:
                sys.stdout.write(json.dumps({"url": app.connection_url, "token": token}) + "\n")
                sys.stdout.flush()

            def end_with_command() -> None:
                sys.stdin.buffer.read()
                app.io_loop.add_callback(app.stop)

            app.io_loop.add_callback(tell_address)  # when the port is open
            threading.Thread(target=end_with_command, daemon=True).start()
            app.start()


@contextlib.contextmanager
def own_server(folder: Path, options: Sequence[str]) -> Iterator[ServerApp]:
    """A quiet server of that folder in this process, not yet started."""
    app = ServerApp()
    app.initialize(
        [
            f"--ServerApp.root_dir={folder}",
            f"--ServerApp.port={_free_port()}",  # of 0, Jupyter Server 2.14 tells no address
            "--ServerApp.open_browser=False",
            "--ServerApp.answer_yes=True",  # Ctrl-C ends it without a question
            "--Application.log_level=ERROR",  # lines of each step are for servers
            ALONE,
            *(["--allow-root"] if is_root() else []),
            *options,
        ]
    )
    app.log.disabled = True  # what the server says of its address is no part of the command
    yield app


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main(sys.argv[1:])
