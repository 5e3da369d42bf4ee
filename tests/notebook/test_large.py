"""A notebook of 10,000 cells with an output of 30 MB. How fast: `tests/bench/large.py`."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_ydoc import YNotebook

from jupyter_agent.carriers import contents as contents_module
from jupyter_agent.carriers import file, nbformat_file
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import TabLink, Tabs
from jupyter_agent.document import long_work
from jupyter_agent.document.long_work import yield_to_loop
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.plugs.rooms import room_carrier
from jupyter_agent.plugs.rooms.room_shadow import Shadow
from jupyter_agent.text.notebook import render
from tests.notebook.editing import make_edit

from . import rooms
from .browser import Tab
from .conftest import code, notebook_json


class Threads:
    """The threads that do the work on the whole notebook."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: dict[str, set[bool]] = {}
        for place, name in (
            (nbformat_file, "parse"),
            (nbformat_file, "matches"),
            (nbformat_file, "missing_ids"),
            (file, "content_of"),
            (file, "changed_cells"),
            (file, "text_of"),
            (file.FileCarrier, "_mark_trusted"),
        ):
            patch.setattr(place, name, self._told(name, getattr(place, name)))

    def _told(self, name: str, work: Any) -> Any:
        def told(*args: Any, **kwargs: Any) -> Any:
            on_loop = threading.current_thread() is threading.main_thread()
            self.seen.setdefault(name, set()).add(on_loop)
            return work(*args, **kwargs)

        return told


async def test_what_takes_long_is_done_in_threads(
    contents: Any, root: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    threads = Threads(monkeypatch)

    async def recovery(path: str, text: str) -> None: ...

    notebooks = Notebooks(contents, Tabs(), recovery=recovery)
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    await notebooks.close()
    assert threads.seen == dict.fromkeys(
        [
            "parse",
            "matches",
            "missing_ids",
            "content_of",
            "changed_cells",
            "text_of",
            "_mark_trusted",
        ],
        {False},
    )


@pytest.mark.parametrize("theirs", [False, True])
async def test_while_a_large_notebook_is_read_or_saved_garbage_is_not_looked_for_everywhere(
    contents: Any, write: Any, monkeypatch: pytest.MonkeyPatch, theirs: bool
) -> None:
    """And objects that someone else has frozen for good stay frozen."""
    write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    frozen: dict[str, bool] = {}

    def told(name: str, work: Any) -> Any:
        def tells(*args: Any, **kwargs: Any) -> Any:
            frozen[name] = gc.get_freeze_count() > 0
            return work(*args, **kwargs)

        return tells

    monkeypatch.setattr(nbformat_file, "parse", told("parse", nbformat_file.parse))
    monkeypatch.setattr(nbformat_file, "matches", told("matches", nbformat_file.matches))
    monkeypatch.setattr(contents, "save", told("save", contents.save))
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert frozen == {"parse": False, "save": False, "matches": False}
    frozen.clear()
    monkeypatch.setattr(file, "_MANY", 1)
    monkeypatch.setattr(contents_module, "_LARGE", 1)
    if theirs:
        gc.freeze()
    try:
        await make_edit(notebook, Update(cell_id="a", old_string="2", new_string="3"))
        assert frozen == {"save": True, "matches": True}
        write("a.ipynb", [code("a", "x = 1"), code("b", "z")])
        frozen.clear()
        assert [cell.source for cell in await notebook.read()] == ["x = 1", "z"]
        assert frozen == {"parse": True}
        assert (gc.get_freeze_count() > 0) is theirs
    finally:
        gc.unfreeze()
    await notebooks.close()


async def test_a_tab_tells_nothing_of_the_snapshot_that_it_takes_in(
    contents: Any, tabs: Tabs, notebooks: Notebooks, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    forward = TabLink._forward

    def tells(link: TabLink, event: Any) -> None:
        told.append(event)
        forward(link, event)

    monkeypatch.setattr(TabLink, "_forward", tells)
    write("a.ipynb", [code("a", "x = 1")])
    tab = await Tab(tabs, contents, "a.ipynb").open()
    notebook = await notebooks.get("a.ipynb")
    assert not told
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert tab.source("a") == "x = 2"
    assert told


async def test_others_run_while_an_edit_that_removes_a_cell_is_made_ready(
    room_server: rooms.RoomServer, room_notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [code("a", "x = 1"), code("b", "y"), code("c", "z")]
    (room_server.root / "a.ipynb").write_text(notebook_json(cells), encoding="utf-8")
    person = await rooms.Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    made: list[bool] = []

    class Told(Shadow):
        def __init__(self, document: YNotebook, copy: bytes | None = None) -> None:
            made.append(copy is not None)
            super().__init__(document, copy)

    async def typing() -> None:
        person.type("b", "!")
        await yield_to_loop()

    monkeypatch.setattr(room_carrier, "Shadow", Told)
    for module in (room_carrier, long_work):
        monkeypatch.setattr(module, "yield_to_loop", typing)
    edits = [await make_edit(notebook, Move(cell_id="b", index=0))]
    edits.append(await make_edit(notebook, Update(cell_id="b", type="markdown")))
    edits.append(await make_edit(notebook, Delete(cell_id="c")))
    await undo(notebook, [change for edit in edits for change in edit.changes])
    await person.sync()
    assert made == [True]  # one for as long as a page may be away
    assert person.ids() == ["a", "b", "c"]
    assert person.source("b") == notebook.cached_cell("b").source == "y!!!"


async def test_what_becomes_ready_in_a_slice_comes_before_the_next() -> None:
    loop = asyncio.get_running_loop()
    ready, other = socket.socketpair()
    heard: list[bytes] = []
    with ready, other:
        loop.add_reader(ready, lambda: heard.append(ready.recv(1)))
        other.send(b"x")
        await yield_to_loop()
        loop.remove_reader(ready)
    assert heard == [b"x"]


@pytest.mark.full
@pytest.mark.parametrize("contents", [AsyncLargeFileManager], indirect=True)
async def test_ten_thousand_cells_and_an_output_of_30_mb(notebooks: Notebooks, root: Path) -> None:
    data = {"text/plain": "q" * 30_000_000}
    large = {"output_type": "display_data", "data": data, "metadata": {}}
    cells = [code(f"c{number}", f"x{number} = {number}") for number in range(10_000)]
    path = root / "a.ipynb"
    path.write_text(notebook_json([*cells, code("large", "x", [large])]), encoding="utf-8")
    assert path.stat().st_size > 30_000_000
    notebook = await notebooks.get("a.ipynb")
    assert len(await notebook.read()) == 10_001
    await make_edit(notebook, Update(cell_id="c5000", old_string="= 5000", new_string="= -1"))
    new = (await make_edit(notebook, Insert(source="new", after="c0"))).cell
    assert new is not None
    stored_cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [cell["id"] for cell in stored_cells[:3]] == ["c0", new.id, "c1"]
    assert "".join(stored_cells[5001]["source"]) == "x5000 = -1"
    assert "".join(stored_cells[-1]["outputs"][0]["data"]["text/plain"]) == "q" * 30_000_000
    assert len(render(notebook.cached_cells()).text) < 100_000
    nbformat.validate(nbformat.from_dict(json.loads(path.read_text(encoding="utf-8"))))
