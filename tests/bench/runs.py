"""What runs cost: `python -m tests.bench.runs [lines]` (about a minute; 100,000 lines by default).

Each program runs twice in the same kernel: read by a plain client that only counts messages, the
floor, and as a run of a cell into a notebook. Printed: seconds of both, how many times the floor,
and the longest time for which the server's event loop was held up.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from jupyter_agent.kernel.outputs import Discarded
from jupyter_agent.kernel.session import Kernel, Kernels
from jupyter_agent.notebook.carriers.choose import Notebooks
from jupyter_agent.notebook.carriers.tab import Tabs
from jupyter_agent.notebook.document import Notebook
from jupyter_agent.workspace.runs import Runs

LOOK = 0.002
"""Seconds between two looks at how late the event loop is."""


def programs(lines: int) -> dict[str, str]:
    """What is run, by name."""
    return {
        "one line": "print(1)",
        f"{lines:,} flushed prints": f"for i in range({lines}): print(i, flush=True)",
        "500 display_data": "for i in range(500): display({'text/plain': str(i)}, raw=True)",
        "2,000 updates of a display": (
            "h = display(0, display_id=True)\nfor i in range(2000): h.update(i)"
        ),
        "10 MB in one print": "print('x' * 10_000_000)",
        "200 MB in one output": "print('x' * 200_000_000)",
    }


class Lag:
    """The longest time for which the event loop did nothing else, in seconds."""

    longest = 0.0

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        self.longest = 0.0
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()

    async def _look(self) -> None:
        while True:
            due = time.perf_counter() + LOOK
            await asyncio.sleep(LOOK)
            self.longest = max(self.longest, time.perf_counter() - due)


@asynccontextmanager
async def workshop(folder: Path) -> AsyncIterator[tuple[Notebook, Kernel]]:
    """A notebook on disk and its kernel."""
    path = folder / "bench.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), path)
    contents = AsyncLargeFileManager(root_dir=str(folder))
    manager = AsyncMappingKernelManager(root_dir=str(folder))
    sessions = SessionManager(kernel_manager=manager, contents_manager=contents)
    kernels, notebooks = (
        Kernels(sessions, manager, KernelSpecManager()),
        Notebooks(contents, Tabs()),
    )
    yield await notebooks.get("bench.ipynb"), await kernels.get("bench.ipynb", name="python3")
    await notebooks.close()
    await kernels.close()
    await manager.shutdown_all()


async def floor(kernel: Kernel, source: str) -> float:
    """Seconds that reading the messages takes when nothing is done with them."""
    started = time.perf_counter()
    await kernel.execute(source, Discarded())
    return time.perf_counter() - started


async def main(lines: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with workshop(Path(folder)) as (notebook, kernel):
            runs, lag = Runs(), Lag()
            await floor(kernel, "1")
            for name, source in programs(lines).items():
                raw = await floor(kernel, source)
                edit = await notebook.insert(source=source)
                assert edit.cell is not None
                async with lag.measured():
                    started = time.perf_counter()
                    run = runs.start(notebook, kernel, edit.cell, owner="bench")
                    await run.wait()
                    seconds = time.perf_counter() - started
                sys.stdout.write(
                    f"{name:28} {raw:7.2f} s raw, {seconds:7.2f} s as a run"
                    f" ({seconds / raw:4.1f} x), loop held up {lag.longest * 1000:5.0f} ms\n"
                )
                await notebook.delete(edit.cell.id)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 100_000))
