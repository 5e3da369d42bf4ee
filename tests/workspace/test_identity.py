"""Resolving paths below the root of a contents manager."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.contents.manager import ContentsManager

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.errors import InvalidInput
from jupyter_agent.workspace.paths import Identities


@pytest.fixture
def paths(tmp_path: Path) -> Identities:
    (tmp_path / "root").mkdir()
    files = AsyncFileContentsManager(root_dir=str(tmp_path / "root"))
    return Identities(files, Notebooks(files, Tabs()).locate)


async def test_case_is_folded_where_the_file_system_folds_it(
    paths: Identities, tmp_path: Path
) -> None:
    (tmp_path / "root" / "1").write_text("")
    assert not (await paths.of("x.ipynb")).folds_case, "no name to tell by"
    (tmp_path / "root" / "x.ipynb").write_text("")
    assert not (await paths.of("x.ipynb")).folds_case
    os.link(tmp_path / "root" / "x.ipynb", tmp_path / "root" / "X.IPYNB")
    assert (await paths.of("x.ipynb")).folds_case


@pytest.mark.parametrize("path", ["a\0b", "\ud800.ipynb"])
async def test_what_cannot_be_a_path_is_refused_in_words(paths: Identities, path: str) -> None:
    with pytest.raises(InvalidInput, match="[Pp]ath"):
        await paths.of(path)


async def test_what_is_too_long_to_be_there_is_named_all_the_same(paths: Identities) -> None:
    path = f"{'fifteen-letters/' * 250}b"
    assert (await paths.of(path)).name == path
    with pytest.raises(InvalidInput, match="at most 4,096 characters"):
        await paths.of(f"{'a/' * 5000}b")


@pytest.mark.parametrize("path", ["..", "../root-of-others/x", "a/../../x"])
async def test_what_is_outside_of_the_root_is_for_no_model(paths: Identities, path: str) -> None:
    assert "is outside of the folder" in (await paths.of(path)).refusal


@pytest.mark.parametrize("path", ["", ".", "/", "a/.."])
async def test_the_root_has_an_empty_name(paths: Identities, path: str) -> None:
    root = await paths.of(path)
    assert (root.path, root.name, root.linked, root.refusal) == ("", "", False, "")


async def test_a_root_that_is_a_link_itself_links_nothing(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    (tmp_path / "real" / "x.ipynb").write_text("")
    files = AsyncFileContentsManager(root_dir=str(tmp_path / "root"))
    named = await Identities(files, Notebooks(files, Tabs()).locate).of("x.ipynb")
    assert (named.name, named.linked, named.refusal) == ("x.ipynb", False, "")


async def test_links_that_lead_in_circles_are_for_no_model(
    paths: Identities, tmp_path: Path
) -> None:
    (tmp_path / "root" / "a").symlink_to("b")
    (tmp_path / "root" / "b").symlink_to("a")
    assert "cannot be opened: Too many levels" in (await paths.of("a/x.ipynb")).refusal


async def test_other_managers_have_no_links(tmp_path: Path) -> None:
    async def locate(path: str) -> str:
        return path

    named = await Identities(ContentsManager(), locate).of("drive:cafe\u0301/x.ipynb")
    assert (named.name, named.refusal) == ("drive:caf\u00e9/x.ipynb", "")
