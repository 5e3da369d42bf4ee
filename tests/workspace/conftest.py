"""Fixtures: a notebook on disk with a real kernel, and the runs of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp
from room import Room

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.workspace.runs import Runs
from tests.gates import Gate


@pytest.fixture
def room(
    jp_serverapp: ServerApp,
    jp_root_dir: Path,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
    tmp_path: Path,
) -> Iterator[Room]:
    file = jp_root_dir / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), file)
    kernels = Kernels(
        jp_serverapp.session_manager, jp_serverapp.kernel_manager, jp_serverapp.kernel_spec_manager
    )
    notebooks, runs = Notebooks(jp_serverapp.contents_manager, Tabs()), Runs()

    async def opened() -> Room:
        notebook = await notebooks.get("a.ipynb")
        kernel = await kernels.get("a.ipynb")
        return Room(notebook, kernel, runs, file, kernels, notebooks, Gate(tmp_path / "gate"))

    async def closed() -> None:
        await runs.close()
        await notebooks.close()
        await kernels.close()

    yield jp_asyncio_loop.run_until_complete(opened())
    jp_asyncio_loop.run_until_complete(closed())
