"""Guarantees for every notebook: in its file, in an open tab, in a room (rows D14 and D15 of the
faults, and the definition of a carrier). Each test runs once for each carrier.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.utils import ensure_async

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import (
    CellNotFound,
    Conflict,
    Locked,
    NotebookNotFound,
    NotOnce,
    NotPermitted,
    NotRead,
    ToolError,
    UnreadableNotebook,
)
from jupyter_agent.tools import toolbox
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.workspace import READ, WRITE, Workspace
from tests.notebook.editing import make_edit
from tests.waiting import until

from .conftest import cells_of, code, markdown, sign_in_memory
from .desks import Desk, Program
from .play import Log
from .tool_user import Agent

CARRIERS = ("file", "tab", "room")
RICH = {
    "output_type": "display_data",
    "data": {"text/html": "<b>1</b>", "text/plain": "1"},
    "metadata": {},
}


@pytest.fixture(params=CARRIERS)
def desk(request: pytest.FixtureRequest, jp_asyncio_loop: Any, tabs: Tabs) -> Iterator[Desk]:
    """A notebook of four cells, `a` to `d`, open in each of the ways."""
    if request.param == "room":
        server = request.getfixturevalue("room_server")
        notebooks = request.getfixturevalue("room_notebooks")
        contents, root = server.contents, server.root
    else:
        server, root = None, request.getfixturevalue("tmp_path") / "root"
        request.getfixturevalue("jp_environ")
        root.mkdir()
        contents = AsyncLargeFileManager(root_dir=str(root))
        sign_in_memory(contents)
        notebooks = Notebooks(contents, tabs)
    desk = Desk(
        request.param, contents=contents, root=root, tabs=tabs, notebooks=notebooks, server=server
    )
    desk.write(
        [
            code("a", "x = 1\ny = 2"),
            markdown("b", "# é😀", metadata={"tags": ["t"]}),
            code("c", "print(x)", [RICH], execution_count=7),
            code("d", "locked", metadata={"editable": False, "deletable": False}),
        ],
        kernelspec={"name": "python3", "display_name": "Python 3"},
    )
    jp_asyncio_loop.run_until_complete(desk.sit_down())
    yield desk
    jp_asyncio_loop.run_until_complete(desk.close())


@pytest.fixture
def notebook(desk: Desk, jp_asyncio_loop: Any) -> Notebook:
    notebook: Notebook = jp_asyncio_loop.run_until_complete(desk.notebooks.get("a.ipynb"))
    assert notebook.carrier == desk.carrier
    return notebook


async def test_what_was_typed_is_read_at_once(desk: Desk, notebook: Notebook) -> None:
    (await desk.synced()).type("b", " 漢字")
    await desk.synced()
    cells = await notebook.read()
    assert [(cell.id, cell.type, cell.index) for cell in cells] == [
        ("a", "code", 0),
        ("b", "markdown", 1),
        ("c", "code", 2),
        ("d", "code", 3),
    ]
    assert cells[1].source == "# é😀 漢字"
    assert (cells[1].tags, cells[2].execution_count) == (("t",), 7)
    assert cells[2].outputs == [RICH]
    assert (await notebook.metadata())["kernelspec"]["name"] == "python3"
    with pytest.raises(CellNotFound, match="Cells now: a, b, c, d"):
        await notebook.cell("z")


async def test_an_edit_is_seen_and_on_disk_when_it_is_answered(
    desk: Desk, notebook: Notebook
) -> None:
    edit = await make_edit(
        notebook, Update(cell_id="b", old_string="é😀", new_string="\r\n\u2028é😀e\u0301")
    )
    assert edit.saved.saved
    assert dict(desk.on_disk())["b"] == "# \n\u2028é😀e\u0301"
    assert (await desk.synced()).source("b") == "# \n\u2028é😀e\u0301"
    assert not desk.dirty
    new = (await make_edit(notebook, Insert(source="z = 3", after="a"))).cell
    text = (await make_edit(notebook, Insert(source="*t*", type="markdown", index=0))).cell
    assert new is not None
    assert text is not None
    assert (await desk.synced()).ids() == [text.id, "a", new.id, "b", "c", "d"]
    assert [cell_id for cell_id, _ in desk.on_disk()] == [text.id, "a", new.id, "b", "c", "d"]
    before = cells_of(desk.file)
    await make_edit(notebook, Move(cell_id="c", index=0))
    await make_edit(notebook, Delete(cell_id="b"))
    assert (await desk.synced()).ids() == ["c", text.id, "a", new.id, "d"]
    assert cells_of(desk.file)[0] == before[4]
    await make_edit(notebook, Update(cell_id="a", type="raw"))
    assert cells_of(desk.file)[2]["cell_type"] == "raw"


async def test_windows_lines_that_somebody_else_wrote_are_edited_as_any(
    desk: Desk, notebook: Notebook
) -> None:
    (await desk.synced()).type("a", "\r\nz = 3\r\nw = 4")
    await desk.synced()
    seen = (await notebook.read())[0]
    assert seen.source == "x = 1\ny = 2\nz = 3\nw = 4"
    edit = await make_edit(
        notebook,
        Update(
            cell_id="a", old_string="y = 2\nz = 3", new_string="y = 2\nz = 5", expect=seen.version
        ),
    )
    assert edit.cell is not None
    assert edit.cell.source == "x = 1\ny = 2\nz = 5\nw = 4"
    (await desk.synced()).type("a", "0")
    await desk.synced()
    read = f"{seen.source}0".replace("\n", "\r\n")  # as Windows has it
    await make_edit(notebook, Update(cell_id="a", source=read.replace("x = 1", "x = 9"), base=read))
    assert (await notebook.read())[0].source == "x = 9\ny = 2\nz = 5\nw = 40"
    assert (await undo(notebook, edit.changes)).conflicts == []
    assert (await notebook.read())[0].source == "x = 9\ny = 2\nz = 3\nw = 40"


async def test_metadata_of_the_notebook_is_written_beside_outputs(
    desk: Desk, notebook: Notebook
) -> None:
    await notebook.read()
    info = {"name": "python", "codemirror_mode": {"name": "ipython", "version": 3}}
    notebook.write_metadata({"language_info": info})
    assert notebook.cached_metadata["language_info"] == info
    await notebook.save()
    await desk.synced()
    written = json.loads(desk.file.read_text(encoding="utf-8"))["metadata"]
    assert written["language_info"] == info
    assert written["kernelspec"] == {"name": "python3", "display_name": "Python 3"}
    assert (await notebook.metadata())["language_info"] == info


async def test_what_is_not_there_once_is_refused_with_the_text(
    desk: Desk, notebook: Notebook
) -> None:
    with pytest.raises(NotOnce, match="does not occur"):
        await make_edit(notebook, Update(cell_id="a", old_string="q", new_string="r"))
    with pytest.raises(NotRead, match="x = 1"):
        await make_edit(notebook, Update(cell_id="a", source="all new"))
    assert (await desk.synced()).source("a") == "x = 1\ny = 2"
    assert desk.saves == 0


async def test_a_rewrite_of_what_was_read_keeps_what_was_typed_since(
    desk: Desk, notebook: Notebook
) -> None:
    base = (await notebook.cell("a")).source
    (await desk.synced()).type("a", "\nz = 3")
    await desk.synced()
    edit = await make_edit(notebook, Update(cell_id="a", source="x = 10\ny = 2", base=base))
    assert edit.merged
    assert (await desk.synced()).source("a") == "x = 10\ny = 2\nz = 3"
    assert dict(desk.on_disk())["a"] == "x = 10\ny = 2\nz = 3"


async def test_both_in_the_same_line_is_refused_with_the_text_as_it_is(
    desk: Desk, notebook: Notebook
) -> None:
    base = (await notebook.cell("a")).source
    (await desk.synced()).type("a", "00", at=5)
    await desk.synced()
    with pytest.raises(Conflict, match="x = 100") as refusal:
        await make_edit(notebook, Update(cell_id="a", source="x = 11\ny = 2", base=base))
    assert refusal.value.facts["current"]["source"] == "x = 100\ny = 2"
    assert (await desk.synced()).source("a") == "x = 100\ny = 2"
    with pytest.raises(Conflict):
        await make_edit(notebook, Delete(cell_id="a", expect="0" * 16))
    assert (await desk.synced()).ids() == ["a", "b", "c", "d"]


def work_on(desk: Desk) -> Workspace:
    """As a turn that owns this notebook has it."""
    return Agent(desk.notebooks, "a.ipynb", Log(), random.Random(0)).work


async def let_others_pass(desk: Desk) -> None:
    """Anything that waits for nothing is done then."""
    elsewhere = await desk.notebooks.create("elsewhere.ipynb")
    for _ in range(3):
        await make_edit(elsewhere, Insert(source="begun later, and done"))


async def test_a_call_keeps_other_calls_out_between_its_look_and_its_edit(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    async with lease(work, None, WRITE) as nb:
        before = (await nb.take()).cells
        other = asyncio.create_task(make_edit(notebook, Delete(cell_id="c")))
        await let_others_pass(desk)
        assert not other.done()
        (edit,) = await nb.make([Insert(source="z = 3", index=0)])
        after = (await nb.read()).cells
    assert edit.cell is not None
    assert [cell.id for cell in before] == ["a", "b", "c", "d"]
    assert [cell.id for cell in after] == [edit.cell.id, "a", "b", "c", "d"]
    await other
    assert (await desk.synced()).ids() == [edit.cell.id, "a", "b", "d"]


async def test_a_call_tells_what_it_made_stale_whoever_else_looked_meanwhile(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    writer = notebook.outputs("a")
    writer.start()
    writer.finish(1)
    async with lease(work, None, WRITE) as nb:
        assert await nb.stale() == {}
        await nb.make([Update(cell_id="a", old_string="1", new_string="2")])
        await nb.release()
        async with lease(work, None, READ) as other:
            assert list(await other.stale()) == ["a", "c"]
        assert await nb.newly_stale() == ["a", "c"]


async def test_what_is_shown_of_a_notebook_waits_for_the_edit_under_way(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    async with lease(work, None, READ) as nb:
        async with notebook.hold():
            looking = asyncio.create_task(nb.look(patience=None))
            await let_others_pass(desk)
            assert not looking.done()
        assert [cell.id for cell in (await looking).cells] == ["a", "b", "c", "d"]


async def test_what_somebody_types_after_a_call_looked_is_kept(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    async with lease(work, None, WRITE) as nb:
        await nb.take()
        (await desk.synced()).type("a", "00", at=5)
        await desk.synced()
        await nb.edit_all([Update(cell_id="a", old_string="y = 2", new_string="y = 3")])
    assert (await desk.synced()).source("a") == "x = 100\ny = 3"


async def test_who_is_not_allowed_gets_no_notebook(desk: Desk) -> None:
    async def nothing(action: str, resource: str) -> bool:
        return False

    work = work_on(desk)
    with pytest.raises(NotPermitted, match="not allowed to read contents"):
        async with lease(replace(work, authorize=nothing), None, READ):
            raise AssertionError
    assert desk.notebooks.open() == []


async def test_what_is_hidden_is_kept_from_models_as_soon_as_it_arrives(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    assert (await work.visibility()).hidden_ids == set()
    (await desk.synced()).tag("c", "agent-hidden")
    await desk.synced()
    if desk.carrier == "tab":
        await until(lambda: "agent-hidden" in notebook.cached_cell("c").tags)
    assert (await work.visibility()).hidden_ids == {"c"}
    (await desk.synced()).tag("a", "agent-hidden")
    await desk.synced()
    async with lease(work, None, WRITE) as nb:  # this asks the page
        with pytest.raises(NotPermitted, match="agent-hidden"):
            await nb.refuse_hidden(["a"])


@pytest.mark.full
async def test_what_another_program_hides_is_kept_from_models(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    assert (await work.visibility()).hidden_ids == set()
    Program(desk.file).tag("a", "agent-hidden")
    if desk.carrier == "room":  # which loads a changed file by itself, after a while
        await until(lambda: "agent-hidden" in notebook.cached_cell("a").tags)
    assert (await work.visibility()).hidden_ids == {"a"}


async def test_a_call_that_changes_a_line_that_somebody_changed_is_refused_with_the_text(
    desk: Desk, notebook: Notebook
) -> None:
    work = work_on(desk)
    tools = toolbox()
    async with lease(work, None) as nb:
        await tools.parse("read_cells", {"cell_ids": ["a"]}).run(nb)
    (await desk.synced()).type("a", "00", at=5)
    await desk.synced()
    cells, file = await notebook.read(), desk.file.read_bytes()
    for source in ("x = 11\ny = 2", "y = 2"):
        edit = tools.parse("edit_cells", {"edits": [{"cell_id": "a", "source": source}]})
        async with lease(work, None) as nb:
            with pytest.raises(ToolError, match="x = 100") as refusal:
                await edit.run(nb)
        assert refusal.value.reason == "changed"
    assert await notebook.read() == cells
    assert (await desk.synced()).ids() == ["a", "b", "c", "d"]
    assert (await desk.synced()).source("a") == "x = 100\ny = 2"
    if desk.carrier != "room":  # which saves by itself what people type
        assert (desk.file.read_bytes(), desk.saves) == (file, 0)


async def test_a_locked_cell_is_left_alone(desk: Desk, notebook: Notebook) -> None:
    with pytest.raises(Locked):
        await make_edit(notebook, Update(cell_id="d", old_string="locked", new_string="free"))
    with pytest.raises(Locked):
        await make_edit(notebook, Delete(cell_id="d"))
    assert (await desk.synced()).source("d") == "locked"
    assert desk.saves == 0


async def test_outputs_come_as_they_are_and_are_saved(desk: Desk, notebook: Notebook) -> None:
    outputs = notebook.outputs("a")
    outputs.start()
    assert notebook.cached_cell("a").running
    outputs.stream("stdout", "1")
    outputs.stream("stdout", "2\n")
    outputs.display(RICH)
    outputs.finish(9)
    assert (await notebook.save()).saved
    stream = {"output_type": "stream", "name": "stdout", "text": "12\n"}
    assert await desk.outputs("a") == [stream, RICH]
    saved = cells_of(desk.file)[0]
    assert saved["execution_count"] == 9
    assert [output["output_type"] for output in saved["outputs"]] == ["stream", "display_data"]
    assert not (await notebook.cell("a")).running


async def test_undo_takes_back_the_agents_part_and_leaves_the_persons(
    desk: Desk, notebook: Notebook
) -> None:
    before = desk.on_disk()
    changes = [
        *(
            await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 5"))
        ).changes,
        *(await make_edit(notebook, Insert(source="new", after="a"))).changes,
        *(await make_edit(notebook, Delete(cell_id="c"))).changes,
        *(await make_edit(notebook, Move(cell_id="b", index=0))).changes,
    ]
    (await desk.synced()).type("a", "\n# mine")
    await desk.synced()
    undone = await undo(notebook, changes)
    assert undone.conflicts == []
    expected = [("a", "x = 1\ny = 2\n# mine"), *before[1:]]
    assert [(cell.id, cell.source) for cell in await notebook.read()] == expected
    assert (await desk.synced()).ids() == ["a", "b", "c", "d"]
    assert desk.on_disk() == expected
    assert notebook.cached_cell("c").outputs == [RICH]
    assert notebook.cached_cell("c").execution_count == 7


async def test_an_edit_is_written_once_and_no_change_is_not_written(
    desk: Desk, notebook: Notebook
) -> None:
    before = desk.file.read_bytes()
    assert (
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 1"))
    ).changes == []
    assert (await make_edit(notebook, Move(cell_id="a", index=0))).changes == []
    await notebook.read()
    await notebook.save()
    assert (desk.saves, desk.file.read_bytes()) == (0, before)
    assert (
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    ).saved.saved
    await notebook.save()
    await notebook.read()
    assert desk.saves == 1


async def test_the_notebook_is_the_same_when_it_is_opened_again(
    desk: Desk, notebook: Notebook
) -> None:
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    seen = await notebook.read()
    await desk.notebooks.close()
    assert desk.notebooks.open() == []
    assert await (await desk.notebooks.get("a.ipynb")).read() == seen
    assert (await desk.synced()).ids() == ["a", "b", "c", "d"]
    await make_edit(notebook, Update(cell_id="a", old_string="x = 2", new_string="x = 3"))
    assert (await desk.synced()).source("a") == "x = 3\ny = 2"


async def test_a_file_that_another_program_changed_is_taken_in_first(
    desk: Desk, notebook: Notebook
) -> None:
    await notebook.read()
    desk.write([code("a", "x = 1\ny = 2\n# pulled", [RICH]), code("n", "new")])
    seen = await notebook.cell("a")
    assert (seen.source, seen.outputs) == ("x = 1\ny = 2\n# pulled", [RICH])
    desk.write([code("a", "x = 1\ny = 2\n# pulled"), code("n", "newer")])
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    assert edit.saved.saved
    assert desk.on_disk() == [("a", "x = 2\ny = 2\n# pulled"), ("n", "newer")]
    assert (await desk.synced()).source("a") == "x = 2\ny = 2\n# pulled"


async def test_a_renamed_notebook_is_followed(desk: Desk, notebook: Notebook) -> None:
    await notebook.read()
    await desk.rename("b.ipynb")
    (await desk.synced()).type("a", " # typed")
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    assert edit.saved.saved
    assert notebook.path == edit.changes[0].notebook == "b.ipynb"
    assert await desk.notebooks.get("b.ipynb") is notebook
    assert notebook.carrier == desk.carrier
    assert dict(desk.on_disk())["a"] == "x = 2\ny = 2 # typed"
    assert not desk.file.with_name("a.ipynb").exists()


@pytest.mark.parametrize("by", ["another program", "jupyter"])
async def test_a_deleted_notebook_is_not_made_again(
    desk: Desk, notebook: Notebook, by: str
) -> None:
    if by == "jupyter":
        await ensure_async(desk.contents.delete("a.ipynb"))
    else:
        desk.file.unlink()
    for attempt in (
        make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2")),
        make_edit(notebook, Delete(cell_id="c")),
        notebook.save(),
        notebook.read(),
    ):
        with pytest.raises(NotebookNotFound, match="no notebook at `a.ipynb`"):
            await attempt
    assert not desk.file.exists()
    desk.write([code("n", "another one")])
    assert [cell.id for cell in await (await desk.notebooks.get("a.ipynb")).read()] == ["n"]
    await make_edit(notebook, Update(cell_id="n", old_string="one", new_string="1"))
    assert desk.on_disk() == [("n", "another 1")]


async def test_a_read_only_notebook_is_read_and_not_edited_until_it_is_writable(
    desk: Desk, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = desk.contents.get

    async def read_only(*args: Any, **kwargs: Any) -> Any:
        return {**await get(*args, **kwargs), "writable": False}

    with monkeypatch.context() as patch:
        patch.setattr(desk.contents, "get", read_only)
        if desk.carrier == "tab":
            patch.setattr(desk.somebody, "writable", False)
        await desk.notebooks.close()
        assert (await notebook.cell("a")).source == "x = 1\ny = 2"
        with pytest.raises(Locked, match="read-only"):
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
        assert (await desk.synced()).source("a") == "x = 1\ny = 2"
        assert desk.saves == 0
    assert (
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    ).saved.saved
    assert desk.on_disk()[0] == ("a", "x = 2\ny = 2")


@pytest.mark.parametrize("text", ["", "{", "[]"])
async def test_what_is_no_notebook_is_left_as_it_is(desk: Desk, text: str) -> None:
    bad = desk.file.with_name("bad.ipynb")
    bad.write_text(text)
    for _ in range(2):
        with pytest.raises(UnreadableNotebook, match="left unchanged"):
            await desk.notebooks.get("bad.ipynb")
    with pytest.raises(NotebookNotFound):
        await desk.notebooks.get("none.ipynb")
    assert bad.read_text() == text
    assert not bad.with_name("none.ipynb").exists()
    bad.write_bytes(desk.file.read_bytes())
    assert len(await (await desk.notebooks.get("bad.ipynb")).read()) == 4


async def test_a_failing_disk_is_said(
    desk: Desk, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = desk.file.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk.contents, "save", full)
    if desk.carrier == "file":
        with pytest.raises(ToolError, match="nothing was changed"):
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
        assert (await notebook.cell("a")).source == "x = 1\ny = 2"
    else:
        edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
        assert not edit.saved.saved
        assert "No space left" in edit.saved.note
        assert (await desk.synced()).source("a") == "x = 2\ny = 2"
    assert desk.file.read_bytes() == before


async def test_a_cancelled_edit_is_not_left_behind(
    desk: Desk, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving, go_on = asyncio.Event(), asyncio.Event()
    save = desk.contents.save

    async def slow(*args: Any, **kwargs: Any) -> Any:
        saving.set()
        await go_on.wait()
        return await save(*args, **kwargs)

    monkeypatch.setattr(desk.contents, "save", slow)
    edit = asyncio.create_task(
        make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    )
    await saving.wait()
    edit.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await edit
    assert (await notebook.cell("a")).source == "x = 1\ny = 2"
    assert (await desk.synced()).source("a") == "x = 1\ny = 2"
    assert dict(desk.on_disk())["a"] == "x = 1\ny = 2"


async def test_ten_edits_at_once_are_all_there(desk: Desk, notebook: Notebook) -> None:
    await asyncio.gather(*(make_edit(notebook, Insert(source=str(number))) for number in range(10)))
    seen = await desk.synced()
    ids = seen.ids()
    assert len(set(ids)) == len(ids) == 14
    assert sorted(seen.source(cell_id) for cell_id in ids[4:]) == [str(n) for n in range(10)]
    assert [cell_id for cell_id, _ in desk.on_disk()] == ids


async def test_a_cell_deleted_by_the_person_is_not_edited(desk: Desk, notebook: Notebook) -> None:
    (await desk.synced()).delete_cell("c")
    await desk.synced()
    with pytest.raises(CellNotFound):
        await make_edit(notebook, Update(cell_id="c", old_string="x", new_string="y"))
    assert (await desk.synced()).ids() == ["a", "b", "d"]
