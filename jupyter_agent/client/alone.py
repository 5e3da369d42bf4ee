"""`python -m jupyter_agent.client.alone ROOT [OPTION ...]`: a server for a command that found none.

It prints its address as a line of JSON and stops when its standard input closes, so it never
outlives its command, not even after a kill.
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

from jupyter_agent.carriers.sharing import COLLABORATION
from jupyter_agent.client.servers import ALONE, is_root

_FOR_PAGES = (
    "jupyterlab", "notebook", "notebook_shim", "nbclassic", "jupyter_lsp", COLLABORATION,
    "jupyter_server_terminals",
)  # fmt: skip
"""Extensions that only browsers need; without them a command starts about a second faster."""


def main(arguments: Sequence[str]) -> None:
    """Serves until standard input closes."""
    root, *options = arguments
    token = secrets.token_hex(24)
    # Addresses, cookies and connection files of kernels are private and temporary.
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

            app.io_loop.add_callback(tell_address)  # once the port is open
            threading.Thread(target=end_with_command, daemon=True).start()
            app.start()


@contextlib.contextmanager
def own_server(folder: Path, options: Sequence[str]) -> Iterator[ServerApp]:
    """A quiet server for that folder in this process, not yet started."""
    app = ServerApp()
    app.initialize(
        [
            f"--ServerApp.root_dir={folder}",
            f"--ServerApp.port={_free_port()}",  # with 0, Jupyter Server 2.14 reports no address
            "--ServerApp.open_browser=False",
            "--ServerApp.answer_yes=True",  # Ctrl-C stops it without a question
            "--Application.log_level=ERROR",  # progress lines are for long-running servers
            ALONE,
            *(["--allow-root"] if is_root() else []),
            *options,
        ]
    )
    app.log.disabled = True  # the command's output does not include the server's address
    yield app


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main(sys.argv[1:])
