"""A machine without a network: everything opens, no requests are sent, and messages say why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..programs import jupyter_server
from .test_restart import EXAMPLE, question

WITHOUT_NETWORK = """
import errno, socket, sys

def loopback(host):
    return host in ("localhost", "127.0.0.1", "::1")

def refuse(event, args):
    host = args[0] if event == "socket.getaddrinfo" else None
    if event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    elif event == "socket.bind" and isinstance(args[1], tuple) and not loopback(args[1][0]):
        with open("bound.log", "a") as log:
            log.write(f"{args[1]}\\n")
    host = host.decode() if isinstance(host, bytes) else host
    if host not in (None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"):
        with open("asked.log", "a") as log:
            log.write(f"{host}\\n")
        if event == "socket.connect":
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

sys.addaudithook(refuse)
c.JupyterAgent.providers = {"anthropic": {"api_key": "sk-ant-test-0123456789"}}
"""


@pytest.mark.full
def test_without_a_network_everything_opens_and_says_so(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    config = tmp_path / ".config" / "jupyter_server_config.py"
    config.parent.mkdir()
    config.write_text(WITHOUT_NETWORK)
    asked, bound = tmp_path / "asked.log", tmp_path / "bound.log"
    with jupyter_server(tmp_path) as server:
        assert server.request("GET", "status")["store"]
        models = server.request("GET", "models")
        assert models["default"].startswith("anthropic:")
        assert server.request("GET", "conversations")["conversations"] == []
        done = server.request("POST", "chat", question("run all", mode="auto"))
        assert done["state"] == "done"
        assert not asked.exists()
        assert not bound.exists()  # nothing listens for other machines

        ask = question("Hello?", id="claude", model=models["default"])
        failed = server.request("POST", "chat", ask)
        assert failed["state"] == "failed"
        assert "api.anthropic.com cannot be resolved" in str(failed["message"])
        assert set(asked.read_text().split()) == {"api.anthropic.com"}
