"""Whoever else writes the same file at the same moment: nothing is overwritten in silence."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.errors import Busy, Conflict

from .conftest import cells_of, code, notebook_json

Write = Callable[..., Path]
THEIRS = notebook_json([code("a", "x = 1"), code("b", "theirs")]).replace('"a"', ' "a"')
"""As no Jupyter would write it: it has to come back to the byte."""


def in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def atomically(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


@pytest.fixture
def copies(contents: Any, tmp_path: Path) -> Iterator[RecoveryCopies]:
    database = Database(tmp_path / "store.db", MIGRATIONS, contents.log)
    yield RecoveryCopies(database)
    database.close()


@pytest.mark.parametrize("way", [in_place, atomically])
async def test_what_another_program_saves_while_we_save_stays_in_the_file(
    contents: Any, write: Write, copies: RecoveryCopies, way: Callable[[Path, str], None]
) -> None:
    """It writes after our last look at the file, when Jupyter is about to write it."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebooks = Notebooks(contents, Tabs(), recovery=copies.keep)
    notebook = await notebooks.get("a.ipynb", turn_id="t")
    writes = [THEIRS]
    contents.pre_save_hook = lambda **_: way(path, writes.pop()) if writes else None
    with pytest.raises(Conflict, match="saved `a.ipynb` at the same moment.*nothing was changed"):
        await notebook.update("a", old_string="1", new_string="2")
    assert path.read_text(encoding="utf-8") == THEIRS
    kept = [await copies.content("a.ipynb", copy["id"]) for copy in await copies.of("a.ipynb")]
    assert json.loads(THEIRS) in kept
    await notebook.update("a", old_string="1", new_string="2")
    assert [cell["source"] for cell in cells_of(path)] == ["x = 2", "theirs"]
    assert sorted(os.listdir(path.parent)) == [".ipynb_checkpoints", "a.ipynb"]
    await notebooks.close()


async def test_of_two_programs_that_save_at_once_the_later_one_is_in_the_file(
    contents: Any, write: Write, copies: RecoveryCopies
) -> None:
    """It writes while we save, and again while what it wrote is given back."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebooks = Notebooks(contents, Tabs(), recovery=copies.keep)
    notebook = await notebooks.get("a.ipynb", turn_id="t")
    later = THEIRS.replace("theirs", "later")
    writes = [later, THEIRS]
    contents.pre_save_hook = lambda **_: atomically(path, writes.pop()) if writes else None
    with pytest.raises(Conflict, match="nothing was changed"):
        await notebook.update("a", old_string="1", new_string="2")
    assert writes == []
    assert path.read_text(encoding="utf-8") == later
    await notebooks.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who writes a file")
async def test_what_another_program_writes_once_the_copy_is_made_is_told_of(
    notebooks: Notebooks, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No date and no copy has a trace of it; a program that writes after our save loses nothing."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    writes, copied = [THEIRS], shutil.copystat

    def then_write(*names: Any, **options: Any) -> None:
        copied(*names, **options)
        if writes:
            in_place(path, writes.pop())

    monkeypatch.setattr(shutil, "copystat", then_write)
    edit = await notebook.update("a", old_string="1", new_string="2")
    assert edit.saved.note == (
        "Another program wrote `a.ipynb` at the very moment when it was saved: what that wrote may "
        "not be in it."
    )
    assert [cell.source for cell in await notebook.read()] == ["x = 2", "y"]
    assert not (await notebook.update("a", old_string="2", new_string="3")).saved.note


async def test_a_hook_that_writes_the_file_after_each_save_is_no_other_program(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1")])
    contents.post_save_hook = lambda **_: in_place(path, path.read_text(encoding="utf-8"))
    notebook = await notebooks.get("a.ipynb")
    assert not (await notebook.update("a", old_string="1", new_string="2")).saved.note


async def test_a_program_in_the_middle_of_writing_is_told_of(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    """What it has written so far is no notebook: nobody could say what is to come."""
    path = write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    notebook = await notebooks.get("a.ipynb")
    halves = [""]
    contents.pre_save_hook = lambda **_: in_place(path, halves.pop()) if halves else None
    with pytest.raises(Conflict, match="was writing `a.ipynb` at the same moment.*may be lost"):
        await notebook.update("a", old_string="1", new_string="2")
    assert [cell.source for cell in await notebook.read()] == ["x = 2", "y"]


async def test_two_servers_on_one_folder_lose_no_confirmed_edit(
    contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "0"), code("b", "0")])
    other = AsyncLargeFileManager(root_dir=contents.root_dir)
    other.notary.db_file = ":memory:"

    async def edits(manager: Any, cell_id: str) -> None:
        notebooks, done = Notebooks(manager, Tabs()), 0
        for _ in range(2000):
            notebook = await notebooks.get("a.ipynb")
            with suppress(Busy, Conflict):  # also where its last edit is not there any more
                await notebook.update(cell_id, source=str(done + 1), base=str(done))
                done += 1
            if done == 20:
                break
        await notebooks.close()

    await asyncio.gather(edits(contents, "a"), edits(other, "b"))
    assert [cell["source"] for cell in cells_of(path)] == ["20", "20"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("times", "seed"), [(30, 1), pytest.param(1000, 12, marks=pytest.mark.long)]
)
def test_an_editor_that_writes_at_any_moment_is_never_overwritten_in_silence(
    times: int, seed: int
) -> None:
    """It is in the file, or a recovery copy has it, or the edit's answer says what happened."""
    command = [sys.executable, "-m", "tests.notebook.races", str(times), str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    print(f"seed {seed}: {found}")  # noqa: T201
    assert sum(found.values()) == times
    assert not [end for end in found if "silent" in end]
