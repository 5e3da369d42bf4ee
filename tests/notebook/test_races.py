"""Other programs that write the same file at the same moment: nothing is overwritten silently."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.carriers.contents import Disk
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.document.steps import ClearOutputs, MetadataPatch, Step, Update
from jupyter_agent.errors import Busy, Conflict, NotConfirmed, NotebookNotFound
from tests.notebook.editing import make_edit

from .conftest import cells_of, code, notebook_json, sign_in_memory

Write = Callable[..., Path]
THEIRS = notebook_json([code("a", "x = 1"), code("b", "theirs")]).replace('"a"', ' "a"')
"""As no Jupyter would write it."""
WHOLE = pytest.mark.skipif(sys.platform != "linux", reason="only there files change places")


def in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def atomically(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def as_git_does(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def copies(contents: Any, tmp_path: Path) -> Iterator[RecoveryCopies]:
    database = Database(tmp_path / "store.db", MIGRATIONS, contents.log)
    yield RecoveryCopies(database)
    database.close()


@pytest.mark.parametrize("suffix", ["ipynb", "IPYNB"])
@pytest.mark.parametrize("way", [in_place, atomically, as_git_does])
async def test_what_another_program_saves_while_we_save_is_in_the_file_as_well(
    notebooks: Notebooks,
    contents: Any,
    write: Write,
    way: Callable[[Path, str], None],
    suffix: str,
) -> None:
    """It writes after our last check of the file, when Jupyter is about to write it."""
    path = write(f"a.{suffix}", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get(path.name)
    writes = [THEIRS]
    contents.pre_save_hook = lambda **_: way(path, writes.pop()) if writes else None
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert edit.saved.note.endswith("it has both changes.")
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "theirs"]
    assert sorted(os.listdir(path.parent)) == [".ipynb_checkpoints", path.name]


@pytest.mark.parametrize("busy", [0.0, 0.3], ids=["at rest", "busy"])
async def test_a_file_that_git_deletes_and_recreates_is_not_missed(
    notebooks: Notebooks, write: Write, busy: float
) -> None:
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    path.unlink()
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, time.sleep, busy)  # nothing else runs in the server
    loop.call_later(0.1, in_place, path, THEIRS)
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "theirs"]
    path.unlink()
    with pytest.raises(NotebookNotFound):
        await make_edit(notebook, Update(cell_id="a", old_string="2", new_string="3"))


async def test_such_a_file_is_not_missed_by_a_server_that_was_busy_just_before_it_looked_again(
    notebooks: Notebooks, contents: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    get, loop = contents.get, asyncio.get_running_loop()

    async def get_late(*args: Any, **options: Any) -> Any:
        try:
            return await ensure_async(get(*args, **options))
        except HTTPError:
            time.sleep(0.3)
            loop.call_soon(in_place, path, THEIRS)
            raise

    monkeypatch.setattr(contents, "get", get_late)
    path.unlink()
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "theirs"]


@pytest.mark.parametrize(
    "cells",
    [
        [code("a", "x = 1"), code("b", "y"), code("c", "z")],
        [code("a", "x = 0"), code("b", "y")],
    ],
    ids=["another-cell", "the-same-line"],
)
async def test_where_that_cannot_be_the_file_has_what_they_saved(
    notebooks: Notebooks, contents: Any, write: Write, cells: Any
) -> None:
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    theirs = notebook_json(cells).replace('"a"', ' "a"')  # as no Jupyter would write it
    writes = [theirs]
    contents.pre_save_hook = lambda **_: in_place(path, writes.pop()) if writes else None
    with pytest.raises(Conflict, match="nothing was changed"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert path.read_text(encoding="utf-8") == theirs
    assert [cell.source for cell in await notebook.read()] == [cell["source"] for cell in cells]


SHOWN = {"output_type": "stream", "name": "stdout", "text": "shown"}
NEWER = {**SHOWN, "text": "newer"}


@pytest.mark.parametrize(
    ("step", "theirs"),
    [
        (Update(cell_id="a", metadata=MetadataPatch(add_tags=["ours"])), {"metadata": {"k": 2}}),
        (Update(cell_id="a", metadata=MetadataPatch(items={"k": 3})), {"metadata": {"k": 2}}),
        (Update(cell_id="a", old_string="1", new_string="2"), {"metadata": {"k": 2}}),
        (Update(cell_id="a", old_string="1", new_string="2"), {"outputs": [NEWER]}),
        (ClearOutputs(cell_id="a"), {"metadata": {"k": 2}}),
        (ClearOutputs(cell_id="a"), {"outputs": [NEWER]}),
        (ClearOutputs(cell_id="a"), {"outputs": []}),
    ],
    ids=[
        "a tag beside a key",
        "the same key",
        "text beside a key",
        "text beside a run",
        "clearing beside a key",
        "clearing what is not seen",
        "both clear",
    ],
)
async def test_all_parts_of_a_cell_that_another_program_saves_at_once_are_merged_or_refused(
    notebooks: Notebooks, contents: Any, write: Write, step: Step, theirs: dict[str, Any]
) -> None:
    cell = code("a", "x = 1", [SHOWN], execution_count=1, metadata={"k": 1})
    path = write("a.ipynb", [cell])
    notebook = await notebooks.get("a.ipynb")
    writes = [notebook_json([{**cell, **theirs}])]
    contents.pre_save_hook = lambda **_: in_place(path, writes.pop()) if writes else None
    with suppress(Conflict):
        await notebook.make([step])
        now = await notebook.cell("a")
        match step:
            case ClearOutputs():
                assert now.outputs == []
            case Update(new_string=str()):
                assert now.source == "x = 2"
            case Update(metadata=MetadataPatch(add_tags=[tag])):
                assert tag in now.tags
            case Update(metadata=MetadataPatch(items=items)):
                assert now.metadata["k"] == items["k"]
    (saved,) = cells_of(path)
    for key, item in theirs.items():
        in_file = [{**one, "text": "".join(one["text"])} for one in saved["outputs"]]
        if key == "metadata":
            assert saved["metadata"]["k"] == item["k"]
        else:
            assert (in_file if key == "outputs" else saved[key]) == item


@pytest.mark.parametrize("outputs", [[], [NEWER]], ids=["stripped", "an earlier run"])
async def test_a_runs_outputs_stay_whatever_another_program_saves_at_once(
    notebooks: Notebooks, contents: Any, write: Write, outputs: list[Any]
) -> None:
    cell = code("a", "x = 1", [SHOWN], execution_count=1)
    path = write("a.ipynb", [cell])
    notebook = await notebooks.get("a.ipynb")
    run = notebook.outputs("a")
    run.start()
    run.stream("stdout", "of the run")
    run.finish(5)
    writes = [notebook_json([{**cell, "outputs": outputs}])]
    contents.pre_save_hook = lambda **_: in_place(path, writes.pop()) if writes else None
    await notebook.save()
    assert writes == []
    ((output,),) = [each["outputs"] for each in cells_of(path)]
    assert "".join(output["text"]) == "of the run"


async def test_of_two_programs_that_save_at_once_the_later_one_is_in_the_file(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    """It writes while we save, and again during the merge."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    writes = [THEIRS.replace("theirs", "later"), THEIRS]
    contents.pre_save_hook = lambda **_: atomically(path, writes.pop()) if writes else None
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert writes == []
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "later"]


async def test_an_edit_that_is_given_up_takes_nothing_of_theirs_back(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    writes = [THEIRS.replace("theirs", f"theirs {number}") for number in range(5)]
    contents.pre_save_hook = lambda **_: in_place(path, writes.pop()) if writes else None
    with pytest.raises(Conflict, match="nothing was changed"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    theirs = f"theirs {len(writes)}"
    assert [cell.source for cell in await notebook.read()] == ["x = 1", theirs]
    writes.clear()
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", theirs]


@pytest.mark.parametrize("ends", ["refused", "stopped"])
async def test_an_edit_that_is_taken_back_tears_no_text_of_theirs(
    notebooks: Notebooks, contents: Any, write: Write, ends: str
) -> None:
    """Their line is above the word that was replaced."""
    path = write("a.ipynb", [code("a", "a = 1\ntotal = 2")])
    notebook = await notebooks.get("a.ipynb")
    text = "a = 1\nperson = 3\ntotal = 2"
    writes = [notebook_json([code("a", text)])]
    if ends == "refused":
        writes.insert(0, notebook_json([code("a", text), code("b", "")]))

    def hook(**_: Any) -> None:
        if writes:
            in_place(path, writes.pop())
            if ends == "stopped":
                edit.cancel()

    contents.pre_save_hook = hook
    edit = asyncio.ensure_future(
        make_edit(notebook, Update(cell_id="a", old_string="total = 2", new_string="result = 2"))
    )
    with suppress(Conflict, asyncio.CancelledError):
        await edit
    assert writes == []
    assert cells_of(path)[0]["source"] == text
    assert (await notebook.cell("a")).source == text


@WHOLE
async def test_who_writes_our_file_while_another_ones_is_given_back_is_the_later_one(
    notebooks: Notebooks, contents: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program's version is in a file next to it."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    before, after, holds = [THEIRS], [THEIRS.replace("theirs", "later")], Disk.holds
    contents.pre_save_hook = lambda **_: in_place(path, before.pop()) if before else None

    def look(*args: Any) -> bool:  # at the file that ours replaced
        if after:
            in_place(path, after.pop())
        return holds(*args)

    monkeypatch.setattr(Disk, "holds", look)
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "later"]
    assert "`a.ipynb.overwritten-1`" in edit.saved.note
    assert path.with_name("a.ipynb.overwritten-1").read_text(encoding="utf-8") == THEIRS


async def test_what_was_written_at_the_same_moment_stays_also_where_a_hook_fails(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    writes = [THEIRS]

    def fail(**_: object) -> None:
        raise RuntimeError

    contents.pre_save_hook = lambda **_: in_place(path, writes.pop()) if writes else None
    contents.register_post_save_hook(fail)
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "theirs"]
    assert [name for name in os.listdir(path.parent) if name.startswith(".~")] == []


async def test_a_save_of_somebody_else_in_the_same_task_is_not_taken_for_ours(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    """As hooks, and tasks that they start, may do."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    theirs, tasks = [json.loads(THEIRS)], list[Any]()

    async def save() -> None:
        model = {"type": "notebook", "format": "json", "content": theirs.pop()}
        await ensure_async(contents.save(model, "a.ipynb"))

    contents.register_post_save_hook(
        lambda **_: tasks.append(asyncio.create_task(save())) if theirs and not tasks else None
    )
    with suppress(NotConfirmed):  # it may already be there when the edit is verified
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    await tasks[0]
    assert [cell["source"] for cell in cells_of(path)] == ["x = 1", "theirs"]
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="3"))
    assert [cell["source"] for cell in cells_of(path)] == ["x = 3", "theirs"]
    assert sorted(os.listdir(path.parent)) == [".ipynb_checkpoints", "a.ipynb"]


async def test_a_manager_that_writes_in_its_own_way_goes_on_doing_so(
    jp_environ: None, tmp_path: Path
) -> None:
    written: list[str] = []

    class Own(AsyncLargeFileManager):
        def atomic_writing(self, os_path: str, *args: Any, **kwargs: Any) -> Any:
            written.append(os_path)
            return super().atomic_writing(os_path, *args, **kwargs)

    path = tmp_path / "a.ipynb"
    path.write_text(notebook_json([code("a", "x = 1")]))
    manager: Any = Own(root_dir=str(tmp_path))
    sign_in_memory(manager)
    notebooks = Notebooks(manager, Tabs())
    await make_edit(
        await notebooks.get("a.ipynb"), Update(cell_id="a", old_string="1", new_string="2")
    )
    assert cells_of(path)[0]["source"] == "x = 2"
    assert written == [str(path)]
    await notebooks.close()


@pytest.mark.sample(1)
async def test_who_opens_a_notebook_that_is_being_edited_reads_a_whole_one(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    """As JupyterLab opens it, which moves a half-written file away."""
    path = write("a.ipynb", [code("a", "0"), code("b", "x" * 1_000_000)])
    notebook, done = await notebooks.get("a.ipynb"), asyncio.Event()

    async def edit() -> None:
        try:
            for number in range(30):
                await make_edit(
                    notebook, Update(cell_id="a", source=f"{number + 1}", base=f"{number}")
                )
        finally:
            done.set()

    async def open_again_and_again() -> list[int]:
        found = [0]
        while not done.is_set():
            read = await asyncio.to_thread(contents.get, "a.ipynb", type="notebook")
            model = await ensure_async(read)
            found.append(int(model["content"]["cells"][0]["source"]))
        return found

    _, *readers = await asyncio.gather(edit(), *(open_again_and_again() for _ in range(3)))
    assert [found == sorted(found) for found in readers] == [True] * 3
    assert cells_of(path)[0]["source"] == "30"
    assert sorted(os.listdir(path.parent)) == [".ipynb_checkpoints", "a.ipynb"]


@WHOLE
@pytest.mark.parametrize("moment", ["before", "at-the-last-moment"])
async def test_a_program_that_had_begun_to_write_before_our_save_loses_nothing(
    notebooks: Notebooks,
    contents: Any,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    """It has opened the file, and writes when the save is over."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    opened: list[Any] = []

    def begin(*_: object, **__: object) -> None:
        if not opened:
            opened.append(path.open("r+", encoding="utf-8"))

    def go_on(**_: object) -> None:
        with opened[0] as file:
            file.write(THEIRS)
            file.truncate()

    if moment == "before":
        contents.pre_save_hook = begin
        contents.register_post_save_hook(lambda **_: go_on() if not opened[0].closed else None)
        with pytest.raises(NotConfirmed, match="not in it now"):
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    else:
        monkeypatch.setattr(os, "fsync", begin)  # right before both files change places
        edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
        assert not edit.saved.note
        assert cells_of(path)[0]["source"] == "x = 2"
        go_on()
    assert [cell["source"] for cell in cells_of(path)] == ["x = 1", "theirs"]
    assert [cell.source for cell in await notebook.read()] == ["x = 1", "theirs"]
    assert [name for name in os.listdir(path.parent) if name.startswith(".~")] == []


@pytest.mark.parametrize("suffix", ["ipynb", "IPYNB"])
async def test_a_program_that_only_has_the_file_open_holds_nobody_up(
    notebooks: Notebooks, write: Write, suffix: str
) -> None:
    path = write(f"a.{suffix}", [code("a", "x = 1")])
    with path.open("r+"):
        notebook = await notebooks.get(path.name)
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert cells_of(path)[0]["source"] == "x = 2"


@WHOLE
@pytest.mark.parametrize("what", ["mode", "mark", "link", "second-name", "folder"])
async def test_a_file_stays_what_it_is(
    notebooks: Notebooks, contents: Any, write: Write, what: str
) -> None:
    """Its mode and its attributes, the target of a link, a file with two names, a folder of another
    user.
    """
    path = write("a.ipynb", [code("a", "x = 1")])
    other = path.with_name("b.ipynb")
    match what:
        case "mode":
            path.chmod(0o640)
        case "mark":
            os.setxattr(path, "user.mark", b"1")
        case "link":
            path.rename(other)
            path.symlink_to("b.ipynb")
        case "second-name":
            os.link(path, other)
        case "folder":
            path.parent.chmod(0o555)
    edit = await make_edit(
        await notebooks.get("a.ipynb"), Update(cell_id="a", old_string="1", new_string="2")
    )
    path.parent.chmod(0o755)
    assert edit.saved.saved
    assert cells_of(path)[0]["source"] == "x = 2"
    assert {
        "mode": path.stat().st_mode & 0o777 == 0o640,
        "mark": "user.mark" in os.listxattr(path),
        "link": path.is_symlink() and cells_of(other) == cells_of(path),
        "second-name": other.exists() and os.path.samefile(path, other),
        "folder": True,
    }[what]
    assert [name for name in os.listdir(path.parent) if name.startswith(".~")] == []


async def test_a_hook_that_writes_the_file_after_each_save_is_no_other_program(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1")])
    contents.post_save_hook = lambda **_: in_place(path, path.read_text(encoding="utf-8"))
    notebook = await notebooks.get("a.ipynb")
    assert not (
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    ).saved.note


async def test_a_program_that_writes_half_a_notebook_writes_the_rest(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    halves = [THEIRS[:50]]
    contents.pre_save_hook = lambda **_: in_place(path, halves.pop()) if halves else None
    with pytest.raises(Conflict, match="writes `a.ipynb` at the same moment.*nothing was changed"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    in_place(path, path.read_text(encoding="utf-8") + THEIRS[50:])
    assert [cell.source for cell in await notebook.read()] == ["x = 1", "theirs"]


async def test_two_servers_on_one_folder_lose_no_confirmed_edit(
    contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "0"), code("b", "0")])
    other = AsyncLargeFileManager(root_dir=contents.root_dir)
    sign_in_memory(other)

    async def edits(manager: Any, cell_id: str) -> None:
        notebooks, done = Notebooks(manager, Tabs()), 0
        for _ in range(2000):
            notebook = await notebooks.get("a.ipynb")
            with suppress(Busy, Conflict):  # even if its last edit is no longer there
                await make_edit(
                    notebook, Update(cell_id=cell_id, source=str(done + 1), base=str(done))
                )
                done += 1
            if done == 20:
                break
        await notebooks.close()

    await asyncio.gather(edits(contents, "a"), edits(other, "b"))
    assert [cell["source"] for cell in cells_of(path)] == ["20", "20"]


@pytest.mark.full
@pytest.mark.parametrize("who", ["agent", "page"])
@pytest.mark.parametrize(
    ("times", "seed"), [(30, 1), pytest.param(1000, 12, marks=pytest.mark.long)]
)
def test_an_editor_that_writes_at_any_moment_is_never_overwritten(
    times: int, seed: int, who: str
) -> None:
    """The text is in the file or a recovery copy, or the edit's answer says what happened."""
    command = [sys.executable, "-m", "tests.notebook.races", str(times), str(seed), who]
    run = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    print(f"seed {seed}: {found}")  # noqa: T201
    assert sum(found.values()) == times
    assert not [end for end in found if "silent" in end or "ours" in end]
