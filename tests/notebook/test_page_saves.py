"""Saves of JupyterLab's pages, as the contents manager gets them, while others write the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from jupyter_server.services.contents.largefilemanager import (
    AsyncLargeFileManager,
    LargeFileManager,
)
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.carriers.exchange import OVERTAKEN
from jupyter_agent.carriers.page_saves import SEEN, PageSaves

from .conftest import code, notebook_json, sign_in_memory

THEIRS = notebook_json([code("one", "# theirs")])
Save: TypeAlias = Callable[[str, str | None], Awaitable[Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "root" / "a.ipynb"
    path.parent.mkdir()
    path.write_text(notebook_json([code("one", "# first")]))
    return path


@pytest.fixture(params=[LargeFileManager, AsyncLargeFileManager])
def manager(request: pytest.FixtureRequest, path: Path, jp_environ: None) -> Any:
    manager = request.param(root_dir=str(path.parent))
    sign_in_memory(manager)
    PageSaves(manager)
    return manager


def content(source: str) -> dict[str, Any]:
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [code("one", source)],
    }


@pytest.fixture
def save(manager: Any) -> Save:
    """JupyterLab's save of one cell with this text, from a page that had seen this hash."""

    async def save(source: str, seen: str | None) -> Any:
        model = {"type": "notebook", "format": "json", "content": content(source)}
        return await ensure_async(
            manager.save({**model, **({} if seen is None else {SEEN: seen})}, "a.ipynb")
        )

    return save


async def file_hash(manager: Any) -> str:
    found = await ensure_async(manager.get("a.ipynb", content=False, require_hash=True))
    hash: str = found["hash"]
    return hash


async def test_a_save_that_has_seen_the_file_says_the_hash_of_what_it_wrote(
    manager: Any, save: Save, path: Path
) -> None:
    saved = await save("# mine", await file_hash(manager))
    assert "# mine" in path.read_text()
    assert saved["hash"] == await file_hash(manager)
    again = await save("# mine too", saved["hash"])
    assert "# mine too" in path.read_text()
    assert again["hash"] != saved["hash"]


async def test_a_save_that_has_not_seen_the_file_changes_nothing(
    manager: Any, save: Save, path: Path
) -> None:
    seen = await file_hash(manager)
    path.write_text(THEIRS)
    with pytest.raises(HTTPError, match=OVERTAKEN) as refused:
        await save("# mine", seen)
    assert refused.value.status_code == 409
    assert path.read_text() == THEIRS
    assert os.listdir(path.parent) == ["a.ipynb"]
    await save("# both", await file_hash(manager))
    assert "# both" in path.read_text()


@pytest.mark.parametrize("atomically", [False, True], ids=["in place", "atomically"])
@pytest.mark.parametrize("theirs", [THEIRS, '{"cells": ['], ids=["whole", "half"])
async def test_what_is_written_after_the_last_look_is_given_back(
    manager: Any, save: Save, path: Path, theirs: str, atomically: bool
) -> None:
    seen = await file_hash(manager)

    def write(**_: object) -> None:
        file = path.with_suffix(".new") if atomically else path
        file.write_text(theirs)
        if atomically:
            os.replace(file, path)

    manager.register_pre_save_hook(write)  # it comes after ours
    with pytest.raises(HTTPError, match=OVERTAKEN):
        await save("# mine", seen)
    assert path.read_text() == theirs


async def test_the_hash_is_that_of_what_was_saved_whatever_is_in_the_file_by_then(
    manager: Any, save: Save, path: Path
) -> None:
    seen = await file_hash(manager)
    await save("# mine", seen)
    mine = await file_hash(manager)
    path.write_text(notebook_json([code("one", "# first")]))
    listed = manager.checkpoints.list_checkpoints

    def write(checkpoint: str) -> Any:  # Jupyter asks this when it has written the file
        path.write_text(THEIRS)
        return listed(checkpoint)

    manager.checkpoints.list_checkpoints = write
    assert (await save("# mine", seen))["hash"] == mine
    assert path.read_text() == THEIRS


async def test_a_deleted_file_is_made_again_by_a_page_that_knows_it_is_gone(
    manager: Any, save: Save, path: Path
) -> None:
    """Another page looks first: git deletes a file, then recreates it."""
    seen = await file_hash(manager)
    path.unlink()
    with pytest.raises(HTTPError, match=OVERTAKEN):
        await save("# mine", seen)
    assert not path.exists()
    assert (await save("# mine", ""))["hash"] == await file_hash(manager)
    with pytest.raises(HTTPError, match=OVERTAKEN):
        await save("# mine too", "")


async def test_other_saves_are_left_alone(manager: Any, save: Save, path: Path) -> None:
    path.write_text(THEIRS)
    saved = await save("# mine", None)
    assert "# mine" in path.read_text()
    assert not saved.get("hash")


async def test_a_save_that_fails_leaves_nothing_behind(
    manager: Any, save: Save, path: Path
) -> None:
    seen = await file_hash(manager)

    def refuse(**_: object) -> None:
        raise HTTPError(403, "not today")

    manager.register_pre_save_hook(refuse)
    with pytest.raises(HTTPError, match="not today"):
        await save("# mine", seen)
    manager._pre_save_hooks.pop()
    await save("# mine", seen)
    assert sorted(os.listdir(path.parent)) == [".ipynb_checkpoints", "a.ipynb"]


async def test_a_link_is_followed(manager: Any, save: Save, path: Path) -> None:
    target = path.with_name("target.ipynb")
    path.rename(target)
    path.symlink_to("target.ipynb")
    seen = await file_hash(manager)
    target.write_text(THEIRS)
    with pytest.raises(HTTPError, match=OVERTAKEN):
        await save("# mine", seen)
    await save("# mine", await file_hash(manager))
    assert "# mine" in target.read_text()
    assert path.is_symlink()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Jupyter writes into the open file")
@pytest.mark.parametrize("has_seen", [True, False])
async def test_a_notebook_that_is_renamed_in_the_middle_of_a_save_does_not_come_back(
    manager: Any, save: Save, path: Path, monkeypatch: pytest.MonkeyPatch, has_seen: bool
) -> None:
    seen = await file_hash(manager) if has_seen else None
    new = path.with_name("b.ipynb")
    monkeypatch.setattr(os, "fsync", lambda _: path.rename(new))
    with pytest.raises(HTTPError, match=OVERTAKEN):
        await save("# mine", seen)
    assert os.listdir(path.parent) == ["b.ipynb"]
    assert "# first" in new.read_text()
