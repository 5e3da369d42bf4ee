"""An editor that writes the file of a notebook at random moments, while an agent edits it or a page
saves it: a program of its own, since the editor has to be one.

`python -m tests.notebook.races TIMES SEED agent|page` prints the results of so many races as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from jupyter_agent.carriers.page_saves import SEEN, PageSaves
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.document.steps import Update
from jupyter_agent.errors import Conflict, NotConfirmed, UnreadableNotebook
from tests.notebook.editing import make_edit

from .conftest import code, notebook_json, sign_in_memory

WAYS = ["atomically", "in place", "as git does"]
GAP = 0.01
"""Seconds between git's deletion of a file and its new version."""
LONGEST = 0.04
"""Seconds from the start of an edit in which the editor writes; an edit takes less."""


def text(agent: str, editor: str) -> str:
    """The notebook: a cell of each, and some that make a save take several writes."""
    cells = [code("agent", agent), code("editor", editor)]
    return notebook_json([*cells, *(code(f"id-{n}", "x = 1\n" * 200) for n in range(20))])


def editor(path: Path, orders: Connection) -> None:
    """Writes on request, in one of the ways in which editors write."""
    while order := orders.recv():
        content, way, pause = order
        data = content.encode()
        new = path.with_suffix(".new")
        if way == "atomically":
            new.write_bytes(data)
        time.sleep(pause)  # the moment is the test
        if way == "atomically":
            os.replace(new, path)
        elif way == "as git does":
            path.unlink()
            time.sleep(GAP)  # of a checkout of many files
            path.write_bytes(data)
        else:
            path.write_bytes(data)
        orders.send("written")


async def race(
    notebooks: Notebooks,
    copies: RecoveryCopies,
    path: Path,
    orders: Connection,
    number: int,
    source: random.Random,
) -> str:
    """One edit and one write of the editor, both starting from the same text. Returns the
    result.
    """
    theirs = text(f"# {number - 1}", f"# theirs {number}")
    way = source.choice(WAYS)
    notebook = await notebooks.get("a.ipynb", turn_id="t")
    orders.send((theirs, way, source.random() * LONGEST))
    told = ""
    try:
        edit = await make_edit(
            notebook, Update(cell_id="agent", source=f"# {number}", base=f"# {number - 1}")
        )
        told = edit.saved.note
        confirmed = True
    except (Conflict, NotConfirmed, UnreadableNotebook) as error:
        told, confirmed = error.message, False
    await asyncio.to_thread(orders.recv)
    try:
        cells = {cell.id: cell.source for cell in await notebook.read()}
    except UnreadableNotebook:  # both wrote into the same file at once
        return f"damaged, {'told' if told else 'silent'}"
    if cells["editor"] == f"# theirs {number}":
        merged = cells["agent"] == f"# {number}"
        return (
            "both are in it" if merged else f"theirs came last, {'later' if confirmed else 'told'}"
        )
    if told:
        return "ours came last, told"
    for copy in await copies.of("a.ipynb"):
        if theirs == await copies.content("a.ipynb", copy["id"]):
            return "ours came last, theirs is kept"
    return f"silent ({way})"


async def race_of_page(
    contents: Any, path: Path, orders: Connection, number: int, source: random.Random
) -> str:
    """The same for a save of a page."""
    theirs = text(f"# {number - 1}", f"# theirs {number}")
    ours = text(f"# {number}", "# before")
    way = source.choice(WAYS)
    seen = (await contents.get("a.ipynb", content=False, require_hash=True))["hash"]
    orders.send((theirs, way, source.random() * LONGEST / 2))
    model = {"type": "notebook", "format": "json", "content": json.loads(ours), SEEN: seen}
    refused = False
    try:
        await contents.save(model, "a.ipynb")
    except HTTPError as error:
        refused = error.status_code in (404, 409)
    except FileNotFoundError:  # Jupyter answers 500, and the page tells its user
        refused = True
    await asyncio.to_thread(orders.recv)
    now = path.read_text(encoding="utf-8")
    if now == theirs:
        return "theirs came last, told" if refused else "theirs came last, later"
    return f"silent ({way})" if "theirs" not in now else f"damaged ({way})"


async def main(times: int, seed: int, who: str) -> None:
    source = random.Random(seed)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "root").mkdir()
        path = folder / "root" / "a.ipynb"
        contents: Any = AsyncLargeFileManager(root_dir=str(folder / "root"))
        sign_in_memory(contents)
        database = Database(folder / "store.db", MIGRATIONS, logging.getLogger())
        copies = RecoveryCopies(database)
        notebooks = Notebooks(contents, Tabs(), recovery=copies.keep)
        PageSaves(contents)
        spawning = multiprocessing.get_context("spawn")
        ours, orders = spawning.Pipe()
        process = spawning.Process(target=editor, args=(path, orders))
        process.start()
        try:
            for number in range(1, times + 1):
                path.write_text(text(f"# {number - 1}", "# before"), encoding="utf-8")
                if who == "page":
                    found[await race_of_page(contents, path, ours, number, source)] += 1
                else:
                    found[await race(notebooks, copies, path, ours, number, source)] += 1
        finally:
            ours.send(None)
            process.join()
        await notebooks.close()
        database.close()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
