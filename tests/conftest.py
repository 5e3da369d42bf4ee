"""What all tests share: a real Jupyter server's fixtures, run without pytest-asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

pytest_plugins = ["pytest_jupyter.jupyter_server"]


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
