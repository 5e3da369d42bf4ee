"""Fixtures: a real server with real kernels."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.serverapp import ServerApp

from jupyter_agent.kernel.kernels import Kernels


@pytest.fixture
def kernels(
    jp_serverapp: ServerApp, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[Kernels]:
    made = Kernels(
        jp_serverapp.session_manager,
        jp_serverapp.kernel_manager,
        jp_serverapp.kernel_spec_manager,
        start_timeout=60,
    )
    yield made
    jp_asyncio_loop.run_until_complete(made.close())


@pytest.fixture
def gateway(jp_environ: None, tmp_path: Path) -> Iterator[str]:
    """The address of a server that runs the kernels."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "kernel_gateway", f"--KernelGatewayApp.port={port}"]
    process = subprocess.Popen(
        command, env=dict(os.environ), cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()
    GatewayClient.clear_instance()
