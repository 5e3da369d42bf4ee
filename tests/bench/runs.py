"""Costs of runs: `python -m tests.bench.runs [lines]` (about a minute; 100,000 lines by default).

Each program runs twice in the same kernel: read by `jupyter_client` alone, which stores nothing, as
the floor; and as a run of a cell into a notebook. Prints for both: seconds, and the longest time
for which the event loop was blocked (in brackets the CPU time of our thread in it; other programs
of the machine had the rest). Jupyter's server reads every message, too, on this loop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio

from jupyter_agent.document.steps import Delete, Insert
from jupyter_agent.workspace.run import RunOrigin
from jupyter_agent.workspace.runs import Runs
from tests.notebook.editing import make_edit
from tests.workshop import workshop

LOOK = 0.002
"""Seconds between two checks of the event loop's delay."""


def programs(lines: int) -> dict[str, str]:
    """The programs to run, by name."""
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

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __str__(self) -> str:
        return f"{self.wall * 1000:4.0f} ms ({self.cpu * 1000:4.0f} ms)"

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()

    async def _look(self) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(LOOK)
            now, worked = time.perf_counter(), time.thread_time()
            self.wall, self.cpu = max(self.wall, now - wall - LOOK), max(self.cpu, worked - cpu)
            wall, cpu = now, worked


@asynccontextmanager
async def plain_client(manager: Any) -> AsyncIterator[Any]:
    """A client as anyone would write it with `jupyter_client`."""
    client = manager.client()
    client.context = zmq.asyncio.Context()
    client.context.setsockopt(zmq.RCVHWM, 0)
    client.start_channels(stdin=False, hb=False)
    await client.wait_for_ready(timeout=30)
    yield client
    client.stop_channels()
    client.context.destroy(linger=0)


async def floor(client: Any, source: str) -> None:
    """Runs it and reads its messages, no more."""
    request = client.execute(source)
    while True:
        message = await client.get_iopub_msg()
        if message["parent_header"].get("msg_id") != request or message["msg_type"] != "status":
            continue
        if message["content"]["execution_state"] == "idle":
            await client.get_shell_msg()
            return


async def main(lines: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            workshop(Path(folder)) as (notebook, kernel, manager),
            plain_client(manager.get_kernel(kernel.id)) as client,
        ):
            runs = Runs()
            await floor(client, "1")
            for name, source in programs(lines).items():
                raw, ours = Lag(), Lag()
                started = time.perf_counter()
                async with raw.measured():
                    await floor(client, source)
                alone = time.perf_counter() - started
                edit = await make_edit(notebook, Insert(source=source))
                assert edit.cell is not None
                started = time.perf_counter()
                async with ours.measured():
                    run = runs.start(notebook, kernel, edit.cell, RunOrigin("bench"))
                    await run.wait()
                seconds = time.perf_counter() - started
                kept = sum(len(json.dumps(output)) for output in run.outputs())
                sys.stdout.write(
                    f"{name:26} alone {alone:6.2f} s, {raw}; as a run {seconds:6.2f} s"
                    f" = {seconds / alone:4.1f} x, {ours}; {kept:9,} characters in the cell\n"
                )
                sys.stdout.flush()
                await make_edit(notebook, Delete(cell_id=edit.cell.id))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 100_000))
