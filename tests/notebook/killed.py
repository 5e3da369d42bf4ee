"""Saves that are killed: a program of its own, since it kills what it starts.

`python -m tests.notebook.killed TIMES SEED` lets a process edit a notebook without pause, kills it
at a random moment, starts as a server does, and prints the state of the file on disk as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, writes

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.document.steps import Update
from tests.notebook.editing import make_edit

from .conftest import sign_in_memory

CELLS = 40
OUTPUT = {"output_type": "stream", "name": "stdout", "text": "0123456789abcdé\n" * 500}
"""Eight kilobytes: a save takes several writes."""


def first() -> str:
    """The notebook before anything is done."""
    cells = [
        new_code_cell(f"cell {number}", id=f"id-{number}", outputs=[OUTPUT])
        for number in range(CELLS)
    ]
    return str(writes(from_dict(new_notebook(cells=cells))))


async def edit(folder: Path, tell: Callable[[bytes], object]) -> None:
    """Edits one after the other, each counted in the first cell; reports each when it is done."""
    database = Database(folder / "store.db", MIGRATIONS, logging.getLogger())
    contents = AsyncLargeFileManager(root_dir=str(folder / "root"))
    sign_in_memory(contents)
    copies = RecoveryCopies(database)
    notebooks = Notebooks(contents, Tabs(), recovery=copies.keep)
    number = 0
    while True:
        notebook = await notebooks.get("a.ipynb", turn_id=f"turn {number // 3}")
        text = notebook.cached_cell("id-0").source
        tell(b"%d\n" % number)
        number += 1
        await make_edit(notebook, Update(cell_id="id-0", source=f"edit {number}", base=text))


def killed(folder: Path, source: random.Random) -> int:
    """How many edits had been reported when it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(edit(folder, lambda line: os.write(writing, line)))
        finally:
            os._exit(1)
    os.close(writing)
    said = b""
    for _ in range(source.randrange(1, 5)):  # until so many edits are done
        if not select.select([reading], [], [], 60)[0]:
            raise TimeoutError("It edits nothing.")
        said += os.read(reading, 1 << 16)
    time.sleep(source.random() * 0.1)  # the moment is the test: an edit takes less
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    while part := os.read(reading, 1 << 16):
        said += part
    os.close(reading)
    if not os.WIFSIGNALED(status):
        raise RuntimeError("It ended before it was killed.")
    return int(said.split()[-1])


async def look(folder: Path, done: int) -> str:
    """The state of the file on disk, before or after the last edit that was started, once a server
    has started as Jupyter starts ours.
    """
    path = folder / "root" / "a.ipynb"
    if _sound(path, done):
        return "whole"
    database = Database(folder / "store.db", MIGRATIONS, logging.getLogger())
    contents = AsyncLargeFileManager(root_dir=str(folder / "root"))
    sign_in_memory(contents)
    copies = RecoveryCopies(database)
    notebooks = Notebooks(contents, Tabs(), recovery=copies.keep)
    try:
        for notebook in await copies.notebooks():
            await notebooks.mend(notebook, partial(copies.newest, notebook))
    finally:
        database.close()
    return "put right" if _sound(path, done) else "lost"


def _sound(path: Path, done: int) -> bool:
    try:
        return _is(json.loads(path.read_bytes()), done)
    except ValueError:
        return False


def _is(content: Any, done: int) -> bool:
    cells = content["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    shown = ["".join(cell["outputs"][0]["text"]) for cell in cells]
    return (
        [cell["id"] for cell in cells] == [f"id-{number}" for number in range(CELLS)]
        and texts[1:] == [f"cell {number}" for number in range(1, CELLS)]
        and texts[0] in {f"edit {done}" if done else "cell 0", f"edit {done + 1}"}
        and shown == [OUTPUT["text"]] * CELLS
    )


def looked(folder: Path, done: int) -> str:
    """`look` in a process of its own, so that this one has no threads when it forks."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, asyncio.run(look(folder, done)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    found = os.read(reading, 1 << 16).decode()
    os.close(reading)
    return found or "lost"


def main(times: int, seed: int) -> None:
    logging.disable(logging.CRITICAL)
    source = random.Random(seed)
    found: Counter[str] = Counter()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "root").mkdir()
            (folder / "root" / "a.ipynb").write_text(first(), encoding="utf-8")
            found[looked(folder, killed(folder, source))] += 1
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
