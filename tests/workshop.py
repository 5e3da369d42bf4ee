"""A notebook and its kernel without a server: fast, and reusable in several tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels


@asynccontextmanager
async def workshop(folder: Path) -> AsyncIterator[tuple[Notebook, Kernel, Any]]:
    """A notebook on disk, its kernel, and the kernels' manager."""
    nbformat.write(nbformat.v4.new_notebook(), folder / "a.ipynb")
    contents = AsyncLargeFileManager(root_dir=str(folder))
    contents.notary.db_file = ":memory:"
    manager = AsyncMappingKernelManager(root_dir=str(folder))
    sessions = SessionManager(kernel_manager=manager, contents_manager=contents)
    kernels, notebooks = (
        Kernels(sessions, manager, KernelSpecManager()),
        Notebooks(contents, Tabs()),
    )
    notebook = await notebooks.get("a.ipynb")
    yield notebook, await kernels.get("a.ipynb", name="python3"), manager
    await notebooks.close()
    await kernels.close()
    await manager.shutdown_all()
