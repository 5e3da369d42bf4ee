"""The same suite with each kind of contents manager, through that manager alone."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.utils import ensure_async
from nbformat.v4 import new_notebook

from jupyter_agent.carriers.listener import ContentsListener
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.errors import (
    Conflict,
    Locked,
    NotebookNotFound,
    ToolError,
    UnreadableNotebook,
)
from tests.notebook.editing import make_edit

from .conftest import code, markdown, notebook_json, sign_in_memory
from .managers import JUPYTEXT, STORAGES, Storage, Unsigned

pytestmark = pytest.mark.sample(5)

SHOWN = {"output_type": "display_data", "data": {"text/plain": "1"}, "metadata": {}}
CELLS = ["x = 1", "# Title", "y = 2\n\nz = 3"]


@pytest.fixture(params=list(STORAGES))
def storage(
    request: pytest.FixtureRequest,
    jp_environ: None,
    tmp_path: Path,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Storage:
    """With a notebook of three cells in it."""
    root = tmp_path / "root"
    root.mkdir()
    made: Storage = STORAGES[request.param](root)
    sign_in_memory(made.contents)
    made.contents.delete_to_trash = False
    cells = [code("one", CELLS[0]), markdown("two", CELLS[1]), code("three", CELLS[2])]
    jp_asyncio_loop.run_until_complete(put(made, cells))
    return made


@pytest.fixture
def copies() -> list[tuple[str, list[str]]]:
    """The recovery copies: path and sources."""
    return []


@pytest.fixture
def notebooks(
    storage: Storage,
    copies: list[tuple[str, list[str]]],
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[Notebooks]:
    async def recovery(path: str, text: str) -> None:
        copies.append((path, [cell["source"] for cell in json.loads(text)["cells"]]))

    opened = Notebooks(storage.contents, Tabs(), recovery=recovery)
    yield opened
    jp_asyncio_loop.run_until_complete(opened.close())


async def put(storage: Storage, cells: list[Any]) -> None:
    """Save these cells as another program does."""
    content = new_notebook(cells=cells, metadata=storage.metadata or {})
    model = {"type": "notebook", "format": "json", "content": content}
    await ensure_async(storage.contents.save(model, storage.path))


async def kept(storage: Storage, path: str | None = None) -> list[Any]:
    """The cells that the manager has."""
    got = storage.contents.get(path or storage.path, content=True, type="notebook")
    cells: list[Any] = (await ensure_async(got))["content"]["cells"]
    return cells


async def sources(storage: Storage, path: str | None = None) -> list[str]:
    return [cell["source"] for cell in await kept(storage, path)]


async def test_a_cell_has_the_same_id_at_each_reading(
    storage: Storage, notebooks: Notebooks
) -> None:
    first = await (await notebooks.get(storage.path)).read()
    assert [cell.source for cell in first] == CELLS
    other = Notebooks(storage.contents, Tabs())
    second = await (await other.get(storage.path)).read()
    await other.close()
    assert [cell.id for cell in first] == [cell.id for cell in second]
    assert len({cell.id for cell in first}) == 3


async def test_edits_by_id_arrive_one_after_the_other(
    storage: Storage, notebooks: Notebooks
) -> None:
    notebook = await notebooks.get(storage.path)
    one, two, three = [cell.id for cell in await notebook.read()]
    edit = await make_edit(notebook, Update(cell_id=one, old_string="1", new_string="10"))
    assert edit.saved.saved
    assert await sources(storage) == ["x = 10", CELLS[1], CELLS[2]]
    await make_edit(notebook, Update(cell_id=one, old_string="10", new_string="100"))
    await make_edit(notebook, Update(cell_id=three, source="y = 4", base=CELLS[2]))
    new = (await make_edit(notebook, Insert(source="w = 9", after=two))).cell
    assert new is not None
    assert await sources(storage) == ["x = 100", "# Title", "w = 9", "y = 4"]
    assert [cell.id for cell in await notebook.read()] == [one, two, new.id, three]
    await make_edit(notebook, Move(cell_id=new.id, index=0))
    await make_edit(notebook, Delete(cell_id=two))
    assert await sources(storage) == ["w = 9", "x = 100", "y = 4"]
    await notebooks.close()
    again = await notebooks.get(storage.path)
    assert [cell.id for cell in await again.read()] == [new.id, one, three]


async def test_two_edits_at_once_are_both_there(storage: Storage, notebooks: Notebooks) -> None:
    notebook = await notebooks.get(storage.path)
    one, _, three = [cell.id for cell in await notebook.read()]
    await asyncio.gather(
        make_edit(notebook, Update(cell_id=one, old_string="1", new_string="7")),
        make_edit(notebook, Update(cell_id=three, old_string="2", new_string="8")),
    )
    assert await sources(storage) == ["x = 7", "# Title", "y = 8\n\nz = 3"]


async def test_without_a_change_nothing_is_saved(
    storage: Storage, notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = await notebooks.get(storage.path)
    (one, *_) = [cell.id for cell in await notebook.read()]

    def never(*_: Any) -> None:
        raise AssertionError("saved")

    monkeypatch.setattr(storage.contents, "save", never)
    assert (
        await make_edit(notebook, Update(cell_id=one, source=CELLS[0], base=CELLS[0]))
    ).changes == []
    await notebook.save()


async def test_what_somebody_else_saved_is_merged(storage: Storage, notebooks: Notebooks) -> None:
    notebook = await notebooks.get(storage.path)
    (one, *_) = [cell.id for cell in await notebook.read()]
    await put(
        storage,
        [code("one", "x = 1\n# theirs"), markdown("two", CELLS[1]), code("three", CELLS[2])],
    )
    edit = await make_edit(notebook, Update(cell_id=one, source="x = 5", base="x = 1"))
    assert edit.merged
    assert await sources(storage) == ["x = 5\n# theirs", CELLS[1], CELLS[2]]
    with pytest.raises(Conflict) as conflict:
        await make_edit(notebook, Update(cell_id=one, source="x = 6", base="x = 1"))
    assert conflict.value.facts["current"]["source"] == "x = 5\n# theirs"


async def test_what_somebody_else_saves_at_this_moment_stays(
    storage: Storage, notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They save between our check and our write."""
    notebook = await notebooks.get(storage.path)
    (one, *_) = [cell.id for cell in await notebook.read()]
    theirs = [code("one", "theirs = 1"), markdown("two", CELLS[1]), code("three", CELLS[2])]

    async def meanwhile(path: str, text: str) -> None:
        await put(storage, theirs)

    monkeypatch.setattr(notebooks, "_recovery", meanwhile)
    with pytest.raises(Conflict, match="writes `.*` at the same moment.*nothing was changed"):
        await make_edit(notebook, Update(cell_id=one, old_string="x = 1", new_string="x = 2"))
    assert (await sources(storage))[0] == "theirs = 1"
    assert (await notebook.read())[0].source == "theirs = 1"


async def test_outputs_stay_in_the_live_document(storage: Storage, notebooks: Notebooks) -> None:
    notebook = await notebooks.get(storage.path)
    one, two, three = [cell.id for cell in await notebook.read()]
    outputs = notebook.outputs(one)
    outputs.start()
    outputs.display(SHOWN)
    outputs.finish(3)
    await notebook.save()
    await make_edit(notebook, Update(cell_id=three, old_string="2", new_string="8"))
    await make_edit(notebook, Insert(source="new", after=one))
    cell = await notebook.cell(one)
    assert (cell.outputs, cell.execution_count) == ([SHOWN], 3)
    stored = (await kept(storage))[0]
    assert (len(stored["outputs"]), stored["execution_count"]) == (
        (1, 3) if storage.keeps_outputs else (0, None)
    )
    theirs = [code("one", CELLS[0], [SHOWN] if storage.keeps_outputs else []), code("z", "theirs")]
    await put(storage, theirs)
    assert (await notebook.read())[0].outputs == [SHOWN]


async def test_a_save_that_fails_changes_nothing_and_the_next_one_succeeds(
    storage: Storage, notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = await notebooks.get(storage.path)
    (one, *_) = [cell.id for cell in await notebook.read()]

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage.contents, "save", full)
        with pytest.raises(ToolError, match="No space left"):
            await make_edit(notebook, Update(cell_id=one, old_string="1", new_string="2"))
        with pytest.raises(ToolError):
            await make_edit(notebook, Move(cell_id=one, index=1))
    assert await sources(storage) == CELLS
    assert [cell.source for cell in await notebook.read()] == CELLS
    await make_edit(notebook, Update(cell_id=one, old_string="1", new_string="3"))
    assert await sources(storage) == ["x = 3", *CELLS[1:]]


async def test_a_renamed_notebook_is_followed_and_a_deleted_one_not_made_again(
    storage: Storage, notebooks: Notebooks
) -> None:
    async def nothing(*_: str) -> None: ...

    events = storage.contents.event_logger
    moves = ContentsListener(notebooks, nothing)
    moves.listen(events)
    notebook = await notebooks.get(storage.path)
    (one, *_) = [cell.id for cell in await notebook.read()]
    await ensure_async(storage.contents.rename(storage.path, storage.renamed))
    await asyncio.gather(*events._active_listeners)
    await make_edit(notebook, Update(cell_id=one, old_string="1", new_string="2"))
    assert (await sources(storage, storage.renamed))[0] == "x = 2"
    assert not await ensure_async(storage.contents.exists(storage.path))
    await ensure_async(storage.contents.delete(storage.renamed))
    await asyncio.gather(*events._active_listeners)
    with pytest.raises(NotebookNotFound):
        await make_edit(notebook, Update(cell_id=one, old_string="2", new_string="3"))
    assert not await ensure_async(storage.contents.exists(storage.renamed))
    moves.stop(events)


async def test_a_copy_is_kept_before_the_first_write_of_each_turn(
    storage: Storage, notebooks: Notebooks, copies: list[tuple[str, list[str]]]
) -> None:
    notebook = await notebooks.get(storage.path, turn_id="t1")
    (one, *_) = [cell.id for cell in await notebook.read()]
    assert copies == []
    await make_edit(notebook, Update(cell_id=one, old_string="1", new_string="2"))
    await make_edit(notebook, Update(cell_id=one, old_string="2", new_string="3"))
    assert copies == [(storage.path, CELLS)]
    await notebooks.get(storage.path, turn_id="t2")
    await make_edit(notebook, Update(cell_id=one, old_string="3", new_string="4"))
    await notebooks.get(storage.path, turn_id="t1")
    await make_edit(notebook, Update(cell_id=one, old_string="4", new_string="5"))
    assert [text[0] for _, text in copies] == ["x = 1", "x = 3"]


async def test_a_manager_that_signs_nothing(jp_environ: None) -> None:
    storage = Storage(Unsigned(), "a.ipynb", "b.ipynb")
    await put(storage, [code("one", "x = 1")])
    notebooks = Notebooks(storage.contents, Tabs())
    notebook = await notebooks.get(storage.path)
    await make_edit(notebook, Update(cell_id="one", old_string="1", new_string="2"))
    assert await sources(storage) == ["x = 2"]
    await notebooks.close()


@pytest.fixture(params=["sync", "async"])
def jupytext(request: pytest.FixtureRequest, jp_environ: None, tmp_path: Path) -> Any:
    """A manager that wraps the errors of Jupyter's, with a notebook."""
    contents = JUPYTEXT[request.param](root_dir=str(tmp_path))
    sign_in_memory(contents)
    text = notebook_json([code("a", "x = 1")])
    (tmp_path / "a.ipynb").write_text(text, encoding="utf-8")
    return contents


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (
            errno.ENOSPC,
            "`a.ipynb` could not be saved; nothing was changed: No space left on device",
        ),
        (errno.EACCES, "`a.ipynb` is read-only; nothing was changed."),
        (errno.EROFS, "`a.ipynb` is read-only; nothing was changed."),
    ],
)
async def test_an_error_that_a_manager_wraps_is_told_as_what_it_is(
    jupytext: Any, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    def fails(path: str, *_: Any, **__: Any) -> None:
        with jupytext.perm_to_403(path):
            raise OSError(number, os.strerror(number), path)

    notebooks = Notebooks(jupytext, Tabs())
    notebook = await notebooks.get("a.ipynb")
    with monkeypatch.context() as patch:
        patch.setattr(jupytext, "_save_notebook", fails)
        with pytest.raises(ToolError) as raised:
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert raised.value.message == told
    assert isinstance(raised.value, Locked) == ("read-only" in told)
    await notebooks.close()


async def test_what_others_write_during_a_save_of_such_a_manager_is_merged(
    jupytext: Any, tmp_path: Path
) -> None:
    file = tmp_path / "a.ipynb"
    before = notebook_json([code("a", "x = 1"), code("b", "y")])
    theirs = [notebook_json([code("a", "x = 1"), code("b", "y = 2")])]
    file.write_text(before, encoding="utf-8")
    jupytext.pre_save_hook = lambda **_: theirs and file.write_text(theirs.pop(), encoding="utf-8")
    notebooks = Notebooks(jupytext, Tabs())
    edit = await make_edit(
        await notebooks.get("a.ipynb"), Update(cell_id="a", old_string="1", new_string="3")
    )
    assert edit.saved.saved
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    assert ["".join(cell["source"]) for cell in cells] == ["x = 3", "y = 2"]
    await notebooks.close()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: "", "it is empty"),
        (lambda text: "\ufeff" + text, "it starts with a byte order mark"),
        (lambda text: f"<<<<<<< HEAD\n{text}\n>>>>>>> theirs\n", "it has merge conflict markers"),
        (lambda text: text.replace('"nbformat": 4', '"nbformat": 5'), "the notebook format 5"),
        (lambda text: text + "}", "it is not valid JSON"),
    ],
)
async def test_a_file_that_a_manager_cannot_read_is_refused_with_the_reason(
    jupytext: Any, tmp_path: Path, damage: Callable[[str], str], told: str
) -> None:
    file = tmp_path / "a.ipynb"
    text = damage(file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    notebooks = Notebooks(jupytext, Tabs())
    with pytest.raises(UnreadableNotebook, match=f"`a.ipynb` cannot be edited: .*{told}"):
        await (await notebooks.get("a.ipynb")).read()
    assert file.read_text(encoding="utf-8") == text
    await notebooks.close()
