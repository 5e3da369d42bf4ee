"""A notebook of 50 MB: 10,000 cells and an output of 30 MB, as a file and in a tab. Prints how long
operations take, and how long they block the event loop; asserts nothing.

`python -m tests.bench.large [CELLS] [PROFILE]`; PROFILE is a file for the profiler's figures.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import cProfile
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_ydoc import YNotebook
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, writes

from jupyter_agent.analysis.stale import Executions
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import PROTOCOL, TabLink, Tabs
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.text.notebook import render
from jupyter_agent.text.search import search
from tests.notebook.editing import make_edit

Took: TypeAlias = Callable[[str, Awaitable[Any]], Awaitable[Any]]

TICK = 0.002
"""Seconds between two looks at the clock."""


class Watch:
    """The longest time for which the event loop did nothing else, in seconds: by the clock, which
    other threads and programs prolong, and in CPU time of its own thread.
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
    """Makes the notebook."""
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
    profile = cProfile.Profile(time.thread_time)  # only the event loop's
    with profile:
        yield
    profile.dump_stats(path)


class Tab(threading.Thread):
    """A browser tab in a thread of its own, so that its work does not count as the event loop's."""

    def __init__(self, tabs: Tabs, model: Mapping[str, Any]) -> None:
        super().__init__(daemon=True)
        self._model = model
        self._frames: SimpleQueue[str | bytes | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        hello = {"protocol": PROTOCOL, "path": "a.ipynb", "client": "page"}
        hello["version"] = YNotebook().version
        self._link = TabLink(self._frames.put, hello)
        tabs.add(self._link)

    def run(self) -> None:
        notebook = YNotebook()
        notebook.set(self._model["content"])
        while (frame := self._frames.get()) is not None:
            if isinstance(frame, bytes):
                notebook.ydoc.apply_update(frame)
                continue
            request = json.loads(frame)
            if request["op"] == "attach":
                self._send(notebook.ydoc.get_update())
            elif request["op"] == "edit":
                self._send(self._edited(notebook, request["edit"]))
            if "id" in request:
                self._send(json.dumps({"re": request["id"], "hash": self._model["hash"]}))

    @staticmethod
    def _edited(notebook: YNotebook, edit: Mapping[str, Any]) -> bytes:
        """The update for the page's own deletion or move of a cell."""
        before, cells = notebook.ydoc.get_state(), SharedCells(notebook)
        if edit["kind"] == "remove":
            asyncio.run(cells.delete(edit["cell"]))
        else:
            asyncio.run(cells.move(edit["cell"], edit["index"]))
        cells.close()
        return notebook.ydoc.get_update(before)

    def close(self) -> None:
        self._frames.put(None)
        self.join()

    def _send(self, frame: str | bytes) -> None:
        self._loop.call_soon_threadsafe(self._link.receive, frame)


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
    del model
    tabs = Tabs()
    notebooks = Notebooks(contents, tabs)
    with profiled(profile):
        await measure(notebooks, took)
    await notebooks.close()
    tab = Tab(tabs, await contents.get("a.ipynb", type="notebook", require_hash=True))
    tab.start()
    with profiled(profile and f"{profile}-tab"):
        await measure(notebooks, took)
    watching.cancel()
    await notebooks.close()
    await asyncio.to_thread(tab.close)


async def measure(notebooks: Notebooks, took: Took) -> None:
    """Prints the time of each operation in the notebook's carrier."""
    notebook = await took("open", notebooks.get("a.ipynb"))
    print(f"-- as a {notebook.carrier}")
    await took("read", notebook.read())
    await took(
        "first edit", make_edit(notebook, Update(cell_id="c5", old_string="=", new_string="=="))
    )
    await took("edit", make_edit(notebook, Update(cell_id="c5", old_string="==", new_string="=")))
    made = (await took("insert", make_edit(notebook, Insert(source="new", index=3)))).cell
    await took("move", make_edit(notebook, Move(cell_id="c7", index=1)))
    await took("delete", make_edit(notebook, Delete(cell_id=made.id)))
    outputs = notebook.outputs("c9")
    outputs.start()
    outputs.display({"output_type": "display_data", "data": {"text/plain": "1"}, "metadata": {}})
    outputs.finish(1)
    await took("save of a run", notebook.save())
    await took(
        "which are stale", Executions().stale("a.ipynb", notebook.cached_cells(), "python", "")
    )
    await took("text for a model", asyncio.to_thread(render, notebook.cached_cells()))
    await took("search", search(notebook.cached_cells(), "x77"))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    arguments = [*sys.argv[1:], *["10000", None][len(sys.argv) - 1 :]]
    asyncio.run(main(int(arguments[0] or 0), arguments[1]))
