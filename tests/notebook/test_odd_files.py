"""Malformed notebook files are refused or upgraded in memory, and left unchanged until a write is
allowed.
"""

from __future__ import annotations

import json
import os
import random
import warnings
from pathlib import Path

import nbformat
import pytest

from jupyter_agent.analysis.stale import Executions
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.cell import Cell
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import ToolError, UnreadableNotebook
from jupyter_agent.text.notebook import pictures, render
from tests.notebook.editing import make_edit

from .conftest import code, markdown, notebook_json, sign_in_memory
from .managers import STORAGES
from .odd_files import READ, REFUSED, mutated
from .peoples_files import differences, made


def alone(root: Path, name: str = "odd.ipynb") -> bool:
    """Whether nothing was put next to the notebook."""
    return [path.name for path in root.iterdir()] == [name]


def test_the_corpus_has_forty_files() -> None:
    assert len({*REFUSED, *READ}) >= 40


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", list(REFUSED))
async def test_what_is_refused_is_left_as_it_is(
    notebooks: Notebooks, root: Path, name: str
) -> None:
    raw, why = REFUSED[name]
    path = root / "odd.ipynb"
    path.write_bytes(raw)
    with pytest.raises(UnreadableNotebook, match="left unchanged") as refused:
        await notebooks.get("odd.ipynb")
    assert why in str(refused.value)
    assert path.read_bytes() == raw
    assert alone(root)
    assert notebooks.open() == []


async def test_a_pipe_is_refused_and_not_waited_for(notebooks: Notebooks, root: Path) -> None:
    os.mkfifo(root / "odd.ipynb")
    with pytest.raises(UnreadableNotebook, match="not a regular file"):
        await notebooks.get("odd.ipynb")


async def test_what_is_refused_is_so_whatever_manager_reads_it(
    jp_environ: None, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    storage = STORAGES["paired async"](root)
    sign_in_memory(storage.contents)
    path, notebooks = root / storage.path, Notebooks(storage.contents, Tabs())
    repaired = set[str]()
    for name, (raw, _) in REFUSED.items():
        path.write_bytes(raw)
        try:
            await notebooks.get(storage.path)
            repaired.add(name)
        except UnreadableNotebook:
            pass
        finally:
            await notebooks.close()
        assert path.read_bytes() == raw, name
    assert repaired == {"no format"}  # by the manager, as format 1
    assert alone(root, storage.path)


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", list(READ))
async def test_what_is_read_is_left_as_it_is_until_something_is_written(
    notebooks: Notebooks, contents: object, root: Path, name: str
) -> None:
    raw = READ[name]
    path = root / "odd.ipynb"
    path.write_bytes(raw)
    notebook = await notebooks.get("odd.ipynb")
    cells = await notebook.read()
    await look_at(cells)
    await notebook.save()
    assert path.read_bytes() == raw
    assert alone(root)

    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    await notebooks.close()
    notebook = await notebooks.get("odd.ipynb")
    assert [cell.id for cell in await notebook.read()] == ids

    new = (await make_edit(notebook, Insert(source="new"))).cell
    assert new is not None
    written = json.loads(path.read_text(encoding="utf-8"))
    was = json.loads(raw)
    minor = was.get("nbformat_minor", 0) if was["nbformat"] == 4 else 5
    own = [cell.get("id") for cell in was["cells"]] if minor < 5 else ids
    kept = [*own, new.id if minor >= 5 else None]
    assert [cell.get("id") for cell in written["cells"]] == kept
    assert ["".join(cell["source"]) for cell in written["cells"][:-1]] == [
        cell.source for cell in cells
    ]
    assert (written["nbformat"], written["nbformat_minor"]) == (4, minor)


@pytest.mark.parametrize("name", ["format 3", "4.5 without ids", "4.5 with equal ids"])
async def test_ids_are_given_with_the_first_write_which_says_so(
    notebooks: Notebooks, root: Path, name: str
) -> None:
    path = root / "odd.ipynb"
    path.write_bytes(READ[name])
    notebook = await notebooks.get("odd.ipynb")
    ids = [cell.id for cell in await notebook.read()]
    first = await make_edit(
        notebook, Update(cell_id=ids[1], source="# new", base=notebook.cached_cell(ids[1]).source)
    )
    assert ("without an id" if "4.5" in name else "saved as 4.5") in first.saved.note
    second = await make_edit(notebook, Update(cell_id=ids[1], old_string="new", new_string="newer"))
    assert second.saved.note == ""
    nbformat.validate(json.loads(path.read_text(encoding="utf-8")))
    assert [cell.id for cell in await notebook.read()] == ids


async def look_at(cells: list[Cell]) -> None:
    """Everything that is done with the cells of a notebook that is only read."""
    render(cells)
    await Executions().stale("", cells, "python", "")
    for cell in cells:
        pictures(cell)
        assert cell.describe()["version"] == cell.version
        assert isinstance(cell.locked, bool)
        assert isinstance(cell.deletable, bool)
        json.dumps(cell.state().to_json())


async def survive(raw: bytes, path: Path, notebooks: Notebooks) -> str:
    """Read such a file and change it; raises if that neither works nor is refused in words."""
    path.write_bytes(raw)
    try:
        notebook = await notebooks.get("odd.ipynb")
        cells = await notebook.read()
    except UnreadableNotebook:
        assert path.read_bytes() == raw
        return "refused"
    await look_at(cells)
    await notebook.metadata()
    await notebook.save()
    assert path.read_bytes() == raw
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    try:
        new = (await make_edit(notebook, Insert(source="new", index=0))).cell
        assert new is not None
        if ids:
            await make_edit(notebook, Move(cell_id=ids[-1], index=0))
            await make_edit(notebook, Delete(cell_id=new.id))
    except ToolError:
        assert path.read_bytes() == raw
        return "not changed"
    now = json.loads(path.read_text(encoding="utf-8"))
    if now["nbformat_minor"] >= 5:  # cells of earlier versions have no ids
        assert sorted(cell["id"] for cell in now["cells"]) == sorted(ids or [new.id])
    return "changed"


@pytest.mark.full
@pytest.mark.parametrize(
    ("seed", "times"), [(1, 150), pytest.param(2, 20_000, marks=pytest.mark.long)]
)
async def test_files_made_odd_at_random(
    contents: object, root: Path, seed: int, times: int
) -> None:
    error = {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["a", "b"]}
    rich = {"output_type": "display_data", "data": {"text/html": "<b>"}, "metadata": {"m": {}}}
    content = json.loads(
        notebook_json(
            [
                code("a", "x = 1\ny", [error, rich], metadata={"tags": ["t"]}, execution_count=1),
                markdown("b", "# T", attachments={"a.png": {"image/png": "aGk="}}),
                code("c", "", [{"output_type": "stream", "name": "stdout", "text": "1\n2"}]),
            ],
            kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"},
        )
    )
    source, path = random.Random(seed), root / "odd.ipynb"
    ends: dict[str, int] = {}
    for number in range(times):
        raw = mutated(content, source)
        notebooks = Notebooks(contents, Tabs())  # type: ignore[arg-type]
        try:
            with warnings.catch_warnings():
                end = await survive(raw, path, notebooks)
        except BaseException:
            print(f"seed {seed}, file {number}: {raw!r}")  # noqa: T201
            raise
        finally:
            await notebooks.close()
        ends[end] = ends.get(end, 0) + 1
    print(f"seed {seed}: {ends}")  # noqa: T201
    assert ends.keys() >= {"refused", "changed"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 300), marks=pytest.mark.full)])
async def test_what_people_bring_is_read_edited_and_put_back(
    contents: object, root: Path, seeds: range
) -> None:
    """After edits of all cells, a new one, a deleted one and the undo of everything, the file is as
    nbformat has it.
    """
    path = root / "theirs.ipynb"
    for seed in seeds:
        path.write_bytes(made(seed))
        notebooks = Notebooks(contents, Tabs())  # type: ignore[arg-type]
        notebook = await notebooks.get("theirs.ipynb")
        cells = await notebook.read()
        await look_at(cells)
        changes = [*(await make_edit(notebook, Insert(source="new", index=0))).changes]
        for cell in cells:
            edited = await make_edit(
                notebook, Update(cell_id=cell.id, source="!", base=cell.source)
            )
            changes += edited.changes
        if cells:
            changes += (await make_edit(notebook, Delete(cell_id=cells[-1].id))).changes
        assert (await undo(notebook, changes)).conflicts == [], seed
        await notebook.save()
        await notebooks.close()
        assert differences(path.read_bytes(), made(seed)) == [], seed
