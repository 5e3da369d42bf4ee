"""A notebook that is renamed, moved or deleted while it is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.utils import ensure_async

from jupyter_agent.carriers.listener import ContentsListener
from jupyter_agent.carriers.plain_files import PlainFiles
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Insert, Update
from jupyter_agent.errors import NotebookNotFound
from tests.notebook.editing import make_edit

from .browser import Tab
from .conftest import cells_of, code

Write = Callable[..., Path]


@pytest.fixture
def stored() -> list[tuple[str, str]]:
    """The renames reported to the stores."""
    return []


@pytest.fixture(autouse=True)
def moves(
    notebooks: Notebooks, contents: Any, stored: list[tuple[str, str]]
) -> Iterator[Callable[[], Any]]:
    """Waits until all events were handled."""

    async def keep(old: str, new: str) -> None:
        stored.append((old, new))

    listener = ContentsListener(notebooks, keep)
    listener.listen(contents.event_logger)

    async def heard() -> None:
        while waiting := list(contents.event_logger._active_listeners):
            await asyncio.gather(*waiting)

    yield heard
    listener.stop(contents.event_logger)


@pytest.mark.parametrize("closed", [False, True])
async def test_a_renamed_folder_is_followed(
    notebooks: Notebooks, contents: Any, write: Write, root: Path, moves: Any, closed: bool
) -> None:
    (root / "old").mkdir()
    write("old/a.ipynb", [code("a", "x = 1")])
    write("older.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("old/a.ipynb")
    other = await notebooks.get("older.ipynb")
    if closed:
        await notebook.close()
    await ensure_async(contents.rename("old", "new"))
    await moves()
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert (notebook.path, other.path) == ("new/a.ipynb", "older.ipynb")
    assert not (root / "old").exists()
    assert cells_of(root / "new" / "a.ipynb")[0]["source"] == "x = 2"


@pytest.mark.parametrize(("old", "new"), [("old/a.ipynb", "old/b.ipynb"), ("old", "new")])
async def test_a_notebook_that_is_read_while_jupyter_renames_it_is_not_missing(
    notebooks: Notebooks, write: Write, root: Path, monkeypatch: Any, old: str, new: str
) -> None:
    (root / "old").mkdir()
    write("old/a.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("old/a.ipynb")
    (root / old).rename(root / new)  # the event about it comes later
    look = PlainFiles.is_recreated

    async def look_after_the_event(files: PlainFiles, path: str, asked: float) -> bool:
        await notebooks.note_rename(old, new)
        return await look(files, path, asked)

    monkeypatch.setattr(PlainFiles, "is_recreated", look_after_the_event)
    assert [cell.source for cell in await notebook.read()] == ["x = 1"]


async def test_a_notebook_found_by_its_new_path_before_the_rename_is_known_is_one_afterwards(
    notebooks: Notebooks, contents: Any, write: Write, moves: Any
) -> None:
    write("0.ipynb", [code("a", "x = 1")])
    first = await notebooks.get("0.ipynb")
    held = [first]  # by calls that have not ended
    for number in range(4):
        await ensure_async(contents.rename(f"{number}.ipynb", path := f"{number + 1}.ipynb"))
        early = await notebooks.get(path)
        await moves()
        held.append(early)
        assert {each.path for each in held} == {path}
        in_use = (first, early)[number % 2]
        async with in_use.hold():
            assert await notebooks.get(path) is in_use
        assert await notebooks.get("0.ipynb") is await notebooks.get(path) is in_use
        first = in_use
    assert await make_edit(early, Update(cell_id="a", source="x = 2", base="x = 1"))


async def test_who_asks_for_the_old_path_gets_a_new_notebook_that_is_there(
    notebooks: Notebooks, contents: Any, write: Write, moves: Any
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    old = await notebooks.get("a.ipynb")
    await ensure_async(contents.rename("a.ipynb", "b.ipynb"))
    await moves()
    write("a.ipynb", [code("n", "new")])
    new = await notebooks.get("a.ipynb")
    assert new is not old
    assert [cell.id for cell in await new.read()] == ["n"]
    assert [cell.id for cell in await old.read()] == ["a"]


@pytest.mark.parametrize("how", ["used", "saved", "renamed", "in a folder"])
@pytest.mark.parametrize("by_jupyter", [True, False])
async def test_a_rename_is_forgotten_once_another_notebook_was_at_the_old_path(
    notebooks: Notebooks,
    contents: Any,
    write: Write,
    root: Path,
    moves: Any,
    how: str,
    by_jupyter: bool,
) -> None:
    folder = how == "in a folder"
    path, there = ("old/a.ipynb", "new/a.ipynb") if folder else ("a.ipynb", "b.ipynb")
    (root / path).parent.mkdir(exist_ok=True)
    write(path, [code("a", "x = 1")])
    await notebooks.get(path)
    await ensure_async(contents.rename(*(("old", "new") if folder else (path, there))))
    await moves()
    assert (await notebooks.get(path)).path == there
    (root / path).parent.mkdir(exist_ok=True)
    if how == "saved":
        content = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        model = {"type": "notebook", "format": "json", "content": content}
        await ensure_async(contents.save(model, path))
    elif how == "renamed":
        write("c.ipynb", [code("n", "new")])
        await ensure_async(contents.rename("c.ipynb", path))
    else:
        write(path, [code("n", "new")])
        assert (await notebooks.get(path)).path == path
    await moves()
    if by_jupyter:
        await ensure_async(contents.delete(path))
    else:
        (root / path).unlink()
    await moves()
    with pytest.raises(NotebookNotFound):
        await (await notebooks.get(path)).read()
    assert [cell.id for cell in await (await notebooks.get(there)).read()] == ["a"]


async def test_a_notebook_that_is_renamed_back_and_forth_is_followed(
    notebooks: Notebooks,
    contents: Any,
    write: Write,
    moves: Any,
    stored: list[tuple[str, str]],
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("a.ipynb")
    renames = [("a.ipynb", "b.ipynb"), ("b.ipynb", "a.ipynb"), ("a.ipynb", "c.ipynb")]
    for old, new in renames:
        await ensure_async(contents.rename(old, new))
        await moves()
        for name in ("a.ipynb", "b.ipynb"):
            assert (await notebooks.get(name)) is notebook
        assert notebook.path == new
    assert stored == renames


async def test_a_rename_between_our_look_and_our_write_is_followed(
    notebooks: Notebooks, contents: Any, write: Write, root: Path, moves: Any
) -> None:
    """The file is renamed while a started edit waits: the edit is written at the new path."""
    write("a.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("a.ipynb")
    outputs = notebook.outputs("a")
    outputs.start()
    await ensure_async(contents.rename("a.ipynb", "b.ipynb"))
    await moves()
    outputs.finish(1)
    await notebook.save()
    assert [path.name for path in root.glob("*.ipynb")] == ["b.ipynb"]
    assert cells_of(root / "b.ipynb")[0]["execution_count"] == 1


@pytest.mark.parametrize("step", ["edit", "save of a run", "new cell"])
async def test_a_notebook_that_another_program_renamed_is_not_made_again(
    notebooks: Notebooks, write: Write, root: Path, step: str
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("a.ipynb")
    outputs = notebook.outputs("a")
    outputs.start()
    outputs.finish(1)
    (root / "a.ipynb").rename(root / "b.ipynb")
    steps = {
        "edit": lambda: make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2")),
        "new cell": lambda: make_edit(notebook, Insert(source="y")),
        "save of a run": notebook.save,
    }
    with pytest.raises(NotebookNotFound):
        await steps[step]()
    assert [path.name for path in root.glob("*.ipynb")] == ["b.ipynb"]
    assert cells_of(root / "b.ipynb")[0]["source"] == "x = 1"


async def test_a_notebook_that_jupyter_deletes_is_open_no_more(
    notebooks: Notebooks, contents: Any, write: Write, moves: Any
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    contents.delete_to_trash = False
    await notebooks.get("a.ipynb")
    await ensure_async(contents.delete("a.ipynb"))
    await moves()
    assert notebooks.open() == []


async def test_a_notebook_deleted_while_a_cell_runs_is_not_resurrected(
    notebooks: Notebooks, contents: Any, write: Write, root: Path, moves: Any
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    contents.delete_to_trash = False
    notebook = await notebooks.get("a.ipynb")
    outputs = notebook.outputs("a")
    outputs.start()
    outputs.stream("stdout", "1")
    await ensure_async(contents.delete("a.ipynb"))
    await moves()
    outputs.finish(1)
    with pytest.raises(NotebookNotFound):
        await notebook.save()
    assert list(root.glob("*.ipynb")) == []
    assert notebook.cached_cell("a").outputs[0]["text"] == "1"


async def test_a_notebook_open_in_a_tab_is_not_taken_for_closed_while_its_tab_hears_of_it(
    notebooks: Notebooks, contents: Any, tabs: Tabs, write: Write, root: Path, moves: Any
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    tab = await Tab(tabs, contents, "a.ipynb").open()
    notebook = await notebooks.get("a.ipynb")
    await ensure_async(contents.rename("a.ipynb", "b.ipynb"))
    await moves()
    assert await notebooks.get("b.ipynb") is notebook
    assert notebook.carrier == "tab"
    assert tab.source("a") == "x = 1"
    assert [path.name for path in root.glob("*.ipynb")] == ["b.ipynb"]
