"""Kernels behind a gateway: another Jupyter server, reached by HTTP and websockets alone."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.serverapp import ServerApp
from shown import Shown

from jupyter_agent.kernel.session import Kernels


@pytest.fixture
def gateway(jp_environ: None, tmp_path: Path) -> Iterator[str]:
    """The address of a server that runs the kernels."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "ServerApp.port": port,
        "ServerApp.allow_root": True,
        "ServerApp.root_dir": tmp_path,
        "ServerApp.jpserver_extensions": "{}",
        "ServerApp.disable_check_xsrf": True,
        "IdentityProvider.token": "",
    }
    command = [sys.executable, "-m", "jupyter_server", "--no-browser"]
    command += [f"--{name}={value}" for name, value in options.items()]
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()
    GatewayClient.clear_instance()


async def up(url: str) -> None:
    """Wait until the gateway answers."""
    async with asyncio.timeout(30):
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{url}/api"):
                return
            await asyncio.sleep(0.05)


async def test_a_kernel_behind_a_gateway_runs_restarts_and_dies_as_any_other(
    gateway: str, jp_configurable_serverapp: Any
) -> None:
    app: ServerApp = jp_configurable_serverapp(argv=[f"--GatewayClient.url={gateway}"])
    await up(gateway)
    kernels = Kernels(app.session_manager, app.kernel_manager, app.kernel_spec_manager)
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    assert (await kernel.execute("print('hello')", shown)).status == "ok"
    assert (shown.text, kernel.language) == ("hello\n", "python")

    sleeping = Shown()
    execution = kernel.execute("print('on', flush=True)\nimport time; time.sleep(60)", sleeping)
    async with asyncio.timeout(20):
        await sleeping.printed.wait()
    generation = kernel.generation
    await kernel.restart()
    assert (await execution).status == "restarted"
    assert kernel.generation > generation

    assert (await kernel.execute("import os; os._exit(1)", Shown())).status == "died"
    assert (await kernel.execute("1", Shown())).status == "ok"
    await kernels.shutdown("a.ipynb")
    assert kernel.state == "dead"
    await kernels.close()
