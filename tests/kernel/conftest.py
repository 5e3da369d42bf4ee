"""A real server and its real kernels."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
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
