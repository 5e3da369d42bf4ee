"""What all tests share: a real Jupyter server's fixtures, run without pytest-asyncio."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from jupyter_client.connect import LocalPortCache

pytest_plugins = ["pytest_jupyter.jupyter_server"]


_FIRST_PORT, _PORTS = 12_000, 5_000
"""Of a worker: below the ports that the system gives to whoever asks for any (from 32,768)."""


@pytest.fixture(scope="session", autouse=True)
def ports_of_their_own() -> Iterator[None]:
    """Kernels of this process get ports that nothing else takes. jupyter_client finds a free one
    long before the kernel opens it: https://github.com/jupyter/jupyter_client/issues/487
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
    first = _FIRST_PORT + worker * _PORTS
    ports = itertools.cycle(range(first, first + _PORTS))

    def find(cache: LocalPortCache, ip: str) -> int:
        for port in ports:
            with socket.socket() as trial, suppress(OSError):
                trial.bind((ip, port))
                if port not in cache.currently_used_ports:
                    cache.currently_used_ports.add(port)
                    return port
        raise AssertionError("a cycle has no end")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPortCache, "find_available_port", find)
        yield


@pytest.fixture(autouse=True)
def jp_asyncio_loop(
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[asyncio.AbstractEventLoop]:
    """pytest-jupyter's, with an end for the tasks that a failed test leaves: the threads that
    AnyIO made for them live as long as they do, and would keep pytest from ending.
    """
    yield jp_asyncio_loop
    if left := asyncio.all_tasks(jp_asyncio_loop):
        for task in left:
            task.cancel()
        jp_asyncio_loop.run_until_complete(asyncio.wait(left, timeout=10))
