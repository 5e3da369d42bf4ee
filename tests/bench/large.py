"""A notebook of 50 MB: 10,000 cells and an output of 30 MB. How long it takes, and how long the
event loop is held up meanwhile. Prints; asserts nothing.

`python -m tests.bench.large [CELLS] [PROFILE]`; PROFILE is a file for the profiler's figures.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import cProfile
import logging
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, writes

from jupyter_agent.notebook.carriers import Notebooks, Tabs
from jupyter_agent.notebook.render import render

TICK = 0.002
"""Seconds between two looks at the clock."""


class Watch:
    """The longest time for which the event loop did nothing else, in seconds: by the clock, which
    other threads and programs make longer, and of the processor in its own thread.
    """

    def __init__(self) -> None:
        self.clock = self.own = 0.0

    async def run(self) -> None:
        last, own = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(TICK)
            now, used = time.perf_counter(), time.thread_time()
            self.clock, self.own = max(self.clock, now - last - TICK), max(self.own, used - own)
            last, own = now, used


def write(path: Path, cells: int) -> None:
    """Make the notebook."""
    text = "".join(f"{number:078d}\n" for number in range(25))
    stream = {"output_type": "stream", "name": "stdout", "text": text}
    large = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/plain": "q" * 30_000_000},
    }
    made = [
        new_code_cell(f"x{number} = {number}", id=f"c{number}", outputs=[stream])
        for number in range(cells)
    ]
    made.append(new_code_cell("large", id="large", outputs=[large]))
    path.write_text(writes(from_dict(new_notebook(cells=made))), encoding="utf-8")


@contextmanager
def profiled(path: str | None) -> Iterator[None]:
    if path is None:
        yield
        return
    profile = cProfile.Profile(time.thread_time)  # of the event loop alone
    with profile:
        yield
    profile.dump_stats(path)


async def main(cells: int, profile: str | None) -> None:
    root = Path(tempfile.mkdtemp())
    write(root / "a.ipynb", cells)
    print(f"{os.path.getsize(root / 'a.ipynb') / 1e6:.0f} MB, {cells} cells")
    contents = AsyncLargeFileManager(root_dir=str(root))
    contents.notary.db_file = ":memory:"
    watch = Watch()
    watching = asyncio.create_task(watch.run())

    async def took(what: str, work: Awaitable[Any]) -> Any:
        watch.clock = watch.own = 0.0
        start = time.perf_counter()
        result = await work
        spent = time.perf_counter() - start
        await asyncio.sleep(2 * TICK)
        held = f"{watch.clock * 1000:5.0f} ms, {watch.own * 1000:5.0f} ms its own"
        print(f"{what:20} {spent:6.2f} s, event loop held up {held}")
        return result

    model = await took("Jupyter's own: open", contents.get("a.ipynb", type="notebook"))
    await took("Jupyter's own: save", contents.save(model, "a.ipynb"))
    notebooks = Notebooks(contents, Tabs())
    notebook = await took("open", notebooks.get("a.ipynb"))
    with profiled(profile):
        await took("read", notebook.read())
        await took("first edit", notebook.update("c5", old_string="=", new_string="=="))
        await took("edit", notebook.update("c5", old_string="==", new_string="="))
        await took("insert", notebook.insert(source="new", index=3))
        await took("move", notebook.move("c7", index=1))
    outputs = notebook.outputs("c9")
    outputs.start()
    outputs.display({"output_type": "display_data", "data": {"text/plain": "1"}, "metadata": {}})
    outputs.finish(1)
    await took("save of a run", notebook.save())
    await took("text for a model", _rendered(notebook.cells()))
    watching.cancel()
    await notebooks.close()


async def _rendered(cells: Any) -> None:
    await asyncio.to_thread(render, cells)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    arguments = [*sys.argv[1:], *["10000", None][len(sys.argv) - 1 :]]
    asyncio.run(main(int(arguments[0] or 0), arguments[1]))
