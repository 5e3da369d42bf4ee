"""A notebook that is not open anywhere: people's files stay theirs."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tornado.web import HTTPError

from jupyter_agent.carriers.plain_files import PlainFiles
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import Exists, InvalidInput, NotConfirmed, ToolError
from tests.notebook.editing import make_edit
from tests.waiting import eventually, until

from .conftest import cells_of, code, markdown, notebook_json

Write = Callable[..., Path]
SAMPLES = Path(__file__).parent / "samples"
BOOKS = Path(os.environ.get("JUPYTER_AGENT_BOOKS", SAMPLES))
RICH = {
    "output_type": "display_data",
    "data": {"text/html": "<b>1</b>", "text/plain": "1"},
    "metadata": {},
}


def changed_lines(before: str, after: str) -> list[str]:
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if line[0] in "+-" and line[:3] not in ("+++", "---")]


async def test_a_one_line_edit_is_a_one_line_diff(notebooks: Notebooks, write: Write) -> None:
    odd = {
        "zz": {"b": [1, 2.5, None], "a": 2**60},
        "tags": ["parameters", "é😀"],
        "slideshow": {"slide_type": "slide"},
    }
    output = {
        "output_type": "execute_result",
        "data": {"text/plain": "1\n2", "application/x+json": {"n": 2**60 + 1, "f": 1.0}},
        "metadata": {"m": {"x": 1}},
        "execution_count": 7,
    }
    picture = {"a.png": {"image/png": "aGVsbG8="}}
    path = write(
        "a.ipynb",
        [
            code("a", "x = 1\ny = 2\n", [output], metadata=odd, execution_count=7),
            markdown("b", "![](attachment:a.png)", attachments=picture, metadata=odd),
            markdown("c", "", attachments={}),
        ],
        kernelspec={"name": "python3", "display_name": "Python 3", "extra": 1},
        unknown={"n": 2**60 + 1},
    )
    before = path.read_text(encoding="utf-8")
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 10"))
    after = path.read_text(encoding="utf-8")
    assert changed_lines(before, after) == ['-    "x = 1\\n",', '+    "x = 10\\n",']


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.ipynb")))
async def test_a_real_notebook_keeps_every_other_line(
    notebooks: Notebooks, root: Path, name: str
) -> None:
    path = root / name
    shutil.copy(SAMPLES / name, path)
    old = path.read_text(encoding="utf-8")
    notebook = await notebooks.get(name)
    cell = next(cell for cell in await notebook.read() if cell.source and not cell.locked)
    edit = await make_edit(
        notebook, Update(cell_id=cell.id, source=cell.source + " # 1", base=cell.source)
    )
    assert edit.saved.note == ""
    gone, come = changed_lines(old, path.read_text(encoding="utf-8"))
    assert (gone[0], come[0]) == ("-", "+")
    assert " # 1" in come
    await make_edit(notebook, Update(cell_id=cell.id, old_string=" # 1", new_string=""))
    assert path.read_text(encoding="utf-8") == old


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.ipynb")))
async def test_a_turn_in_a_notebook_of_an_older_format_is_undone_to_the_byte(
    notebooks: Notebooks, contents: Any, root: Path, name: str
) -> None:
    path = root / name
    shutil.copy(SAMPLES / name, path)
    before = path.read_bytes()
    assert json.loads(before)["nbformat_minor"] < 5
    notebook = await notebooks.get(name)
    first, second, third = [cell.id for cell in await notebook.read() if not cell.locked][:3]
    edits = [
        await make_edit(
            notebook, Update(cell_id=first, source="# new", base=notebook.cached_cell(first).source)
        ),
        await make_edit(notebook, Insert(source="new = 1", after=first)),
        await make_edit(notebook, Move(cell_id=second, index=0)),
        await make_edit(notebook, Delete(cell_id=third)),
    ]
    text = path.read_text(encoding="utf-8")
    nbformat.validate(json.loads(text))
    assert '"id": ' not in text
    changes = [change for edit in edits for change in edit.changes]
    await notebooks.close()
    again = Notebooks(contents, Tabs(), namings=notebooks.namings)  # after a restart
    undone = await undo(await again.get(name), changes)
    assert undone.conflicts == []
    assert undone.undone == [replace(change, undone=True) for change in changes]
    assert path.read_bytes() == before
    await again.close()


@pytest.mark.parametrize("signed", [True, False])
async def test_trust_stays_as_it_came(
    notebooks: Notebooks, contents: Any, write: Write, signed: bool
) -> None:
    path = write("a.ipynb", [code("a", "x = 1", [RICH]), code("b", "")])
    if signed:
        contents.notary.sign(nbformat.read(path, as_version=4))
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    new = (await make_edit(notebook, Insert(source="html"))).cell
    assert new is not None
    assert contents.notary.check_signature(nbformat.read(path, as_version=4)) is signed
    outputs = notebook.outputs(new.id)
    outputs.start()
    outputs.display(RICH)
    outputs.finish(1)
    await notebook.save()
    await make_edit(notebook, Delete(cell_id="a"))
    assert contents.notary.check_signature(nbformat.read(path, as_version=4)) is signed


async def test_an_untrusted_notebook_is_signed_once_all_outputs_come_from_approved_runs(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1", [RICH]), code("b", "y", [RICH])])
    notebook = await notebooks.get("a.ipynb")
    for cell_id, signed in (("a", False), ("b", True)):
        outputs = notebook.outputs(cell_id)
        outputs.start()
        outputs.display(RICH)
        outputs.finish(1)
        await notebook.trust(cell_id)
        await notebook.save()
        assert contents.notary.check_signature(nbformat.read(path, as_version=4)) is signed


async def test_outputs_that_a_hook_strips_stay_in_the_live_document(
    notebooks: Notebooks, contents: Any, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1", [RICH], execution_count=3), code("b", "")])

    def strip(model: Any, **_: Any) -> None:
        for cell in model["content"]["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None

    contents.pre_save_hook = strip
    notebook = await notebooks.get("a.ipynb")
    edit = await make_edit(notebook, Update(cell_id="b", source="y", base=""))
    assert edit.saved.saved
    assert cells_of(path)[0]["outputs"] == []
    assert notebook.cached_cell("a").outputs == [RICH]
    written = path.stat().st_mtime_ns
    await notebook.save()
    assert path.stat().st_mtime_ns == written
    await notebooks.close()
    assert (await notebooks.get("a.ipynb")).cached_cell("a").outputs == []


async def test_a_notebook_is_made_once(notebooks: Notebooks, root: Path) -> None:
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [{"source": "# T", "type": "markdown"}, {"source": "1"}]
    notebook = await notebooks.create("new.ipynb", kernelspec=spec, cells=cells)
    assert [(cell.type, cell.source) for cell in await notebook.read()] == [
        ("markdown", "# T"),
        ("code", "1"),
    ]
    assert (await notebook.metadata())["kernelspec"] == spec
    before = (root / "new.ipynb").read_bytes()
    with pytest.raises(Exists):
        await notebooks.create("new.ipynb")
    with pytest.raises(InvalidInput):
        await notebooks.create("new.txt")
    assert (root / "new.ipynb").read_bytes() == before


async def test_a_new_notebook_that_cannot_be_read_back_is_told_to_be_there(
    notebooks: Notebooks, contents: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(path: str, **more: Any) -> Any:
        raise HTTPError(503, "the storage does not answer")

    contents.register_post_save_hook(lambda **_: monkeypatch.setattr(contents, "get", unreadable))
    with pytest.raises(NotConfirmed, match="`x.ipynb` was created, and could not be read"):
        await notebooks.create("x.ipynb", cells=[{"source": "y = 1"}])
    assert cells_of(root / "x.ipynb")[0]["source"] == "y = 1"


async def test_the_folder_of_a_new_notebook_is_made_and_goes_again_where_it_is_refused(
    notebooks: Notebooks, contents: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "there").mkdir()
    (root / "file.txt").write_text("text", encoding="utf-8")
    assert (await notebooks.create("new/deep/x.ipynb")).path == "new/deep/x.ipynb"
    assert (root / "new" / "deep" / "x.ipynb").exists()
    save = contents.save

    def refuses(kind: str) -> Any:
        def saves(model: Any, path: str) -> Any:
            if model["type"] != kind:
                return save(model, path)
            said = f"[Errno 28] No space left on device: '{root / path}'"
            raise HTTPError(500, said) from OSError(28, "No space left on device", str(root / path))

        return saves

    for kind, path, told in (
        ("notebook", "there/a/b/x.ipynb", "`there/a/b/x.ipynb` could not be saved"),
        ("directory", "there/a/b/x.ipynb", "`there/a` could not be saved"),
        ("none", "file.txt/a/x.ipynb", "No notebook can be created at `file.txt/a/x.ipynb`"),
    ):
        monkeypatch.setattr(contents, "save", refuses(kind))
        with pytest.raises(ToolError) as raised:
            await notebooks.create(path)
        assert told in raised.value.message
        assert str(root) not in raised.value.message
        assert list((root / "there").iterdir()) == []


async def test_a_notebook_of_another_program_is_valid_afterwards(
    notebooks: Notebooks, root: Path
) -> None:
    text = notebook_json([code("a", "x"), markdown("b", "y")]).replace(
        '"cells"', '"extra": 1, "cells"'
    )
    (root / "a.ipynb").write_text(json.dumps(json.loads(text), indent=4), encoding="utf-8")
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="x", new_string="z"))
    content = json.loads((root / "a.ipynb").read_text(encoding="utf-8"))
    assert content["extra"] == 1


@pytest.mark.full
async def test_each_of_many_quick_writes_is_seen(
    notebooks: Notebooks, root: Path, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1000")])
    notebook = await notebooks.get("a.ipynb")
    text = path.read_text(encoding="utf-8")
    for number in range(1001, 1500):  # all of one size, many within one tick of the file system
        path.write_text(text.replace("1000", str(number)), encoding="utf-8")
        assert [cell.source for cell in await notebook.read()] == [f"x = {number}"]
    for number in range(1500, 1520):
        await make_edit(
            notebook, Update(cell_id="a", source=f"x = {number}", base=f"x = {number - 1}")
        )
        after = path.read_text(encoding="utf-8").replace(str(number), "9999")
        path.write_text(after, encoding="utf-8")
        assert (await notebook.cell("a")).source == "x = 9999"
        await make_edit(notebook, Update(cell_id="a", source=f"x = {number}", base="x = 9999"))


def test_a_file_is_not_known_by_a_time_that_its_next_write_may_have_too(
    contents: Any, write: Write
) -> None:
    path, files = write("a.ipynb", [code("a", "x = 1")]), PlainFiles(contents)
    eventually(lambda: files.trace("a.ipynb"), bool)  # a tick of the file system later
    later = time.time_ns() + 3_600 * 10**9 + 1
    os.utime(path, ns=(later, later))
    assert files.trace("a.ipynb") is None


async def test_a_file_that_nobody_wrote_is_not_read_again(
    notebooks: Notebooks, contents: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("a.ipynb")
    reads: list[str] = []
    get = contents.get

    def counted(path: str, **options: Any) -> Any:
        reads.append(path)
        return get(path, **options)

    files = PlainFiles(contents)
    monkeypatch.setattr(contents, "get", counted)
    await until(lambda: files.trace("a.ipynb"))  # a later write would have another time
    await notebook.read()
    reads.clear()
    for _ in range(10):
        assert [cell.source for cell in await notebook.read()] == ["x = 1"]
    assert reads == []


async def test_every_part_of_a_cell_that_another_program_wrote_stays(
    notebooks: Notebooks, write: Write
) -> None:
    pictures = {"a.png": {"image/png": "aGk="}}
    path = write("a.ipynb", [markdown("m", "text", attachments=pictures), code("c", "1")])
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"][0]["odd"] = {"k": 1, "same": 2**60}
    path.write_text(json.dumps(content), encoding="utf-8")
    notebook = await notebooks.get("a.ipynb")
    more = {**pictures, "b.png": {"image/png": "aG8="}}
    content["cells"][0] |= {"attachments": more, "metadata": {"n": [2]}, "new": 1}
    content["cells"][0]["odd"]["k"] = 2
    path.write_text(json.dumps(content), encoding="utf-8")
    await make_edit(notebook, Update(cell_id="c", old_string="1", new_string="2"))
    assert cells_of(path)[0] == {**content["cells"][0], "source": "text"}


@pytest.mark.parametrize("kept", [0, 1, 40, 90, 0.5, -3, "mid-character"])
async def test_a_save_that_was_cut_off_is_put_right_from_the_copy_of_the_contents_manager(
    notebooks: Notebooks, write: Write, kept: Any
) -> None:
    """Wherever the save stopped, even inside a character, where Jupyter gives up."""
    path = write("a.ipynb", [code("a", "x = 'é'"), code("b", "y")])
    before = path.read_bytes()
    backup = path.with_name(".~a.ipynb")
    shutil.move(path, backup)
    if kept == "mid-character":
        kept = before.index("é".encode()) + 1
    cut = before[: int(len(before) * kept) if isinstance(kept, float) else kept]
    path.write_bytes(cut)
    os.utime(path, (0, 0))  # whoever started that save is not writing any more
    told = await notebooks.mend("a.ipynb", _no_copy)
    assert "`a.ipynb` was cut off" in told
    assert "`a.ipynb.invalid`" in told
    assert path.read_bytes() == before
    assert path.with_name("a.ipynb.invalid").read_bytes() == cut
    assert not backup.exists()
    assert "delete the leftover file" in await notebooks.mend("a.ipynb", _no_copy)


async def _no_copy() -> None:
    return None


@pytest.mark.full
async def test_a_save_that_was_cut_off_is_put_right_when_it_is_read(
    notebooks: Notebooks, write: Write
) -> None:
    """The server need not have been killed: another one, or Jupyter's own, may have been."""
    path = write("a.ipynb", [code("a", "x = 1")])
    before = path.read_bytes()
    shutil.move(path, path.with_name(".~a.ipynb"))
    path.write_bytes(before[:50])
    notebook = await notebooks.get("a.ipynb")
    assert notebook.cached_cell("a").source == "x = 1"
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert "`a.ipynb.invalid`" in edit.saved.note


@pytest.mark.parametrize("minor", [4, 5])
async def test_without_a_copy_of_the_contents_manager_ours_is_taken(
    contents: Any, write: Write, minor: int
) -> None:
    """The file as it was, with the line ends of its cells, and ids only in cells that had them."""
    path = write("a.ipynb", [code("a", "x = 1\r\ny = 2")])
    content = json.loads(path.read_text(encoding="utf-8"))
    content["nbformat_minor"] = minor
    if minor < 5:
        del content["cells"][0]["id"]
    path.write_text(json.dumps(content), encoding="utf-8")
    texts: list[str] = []

    async def keep(_: str, text: str) -> None:
        texts.append(text)

    async def copy() -> dict[str, Any]:
        return dict(json.loads(texts[0]))

    notebooks = Notebooks(contents, Tabs(), recovery=keep)
    notebook = await notebooks.get("a.ipynb")
    (cell,) = await notebook.read()
    await make_edit(notebook, Update(cell_id=cell.id, old_string="2", new_string="3"))
    cut = path.read_bytes()[:50]
    path.write_bytes(cut)
    os.utime(path, (0, 0))
    await notebooks.close()
    notebooks = Notebooks(contents, Tabs())
    assert "newest recovery copy" in await notebooks.mend("a.ipynb", copy)
    assert json.loads(path.read_text(encoding="utf-8"))["cells"] == content["cells"]
    assert path.with_name("a.ipynb.invalid").read_bytes() == cut
    await notebooks.close()


async def test_a_notebook_that_a_reader_has_just_taken_away_is_back_and_that_is_said(
    notebooks: Notebooks, write: Write, root: Path
) -> None:
    """As Jupyter's own reader does when it finds a half-written file of another server."""
    path = write("a.ipynb", [code("a", "x = 1")])
    notebook = await notebooks.get("a.ipynb")
    path.rename(path.with_name("a.ipynb.invalid"))
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert edit.saved.saved
    assert "It is back" in notebooks.repairs[0]
    assert cells_of(path)[0]["source"] == "x = 2"
    assert "a.ipynb.invalid" not in os.listdir(root)


@pytest.mark.skipif(sys.platform != "linux", reason="only there it is written beside")
async def test_of_what_a_killed_server_left_beside_a_notebook_nothing_is_lost(
    notebooks: Notebooks, write: Write, root: Path
) -> None:
    """Only duplicates of the file are removed, and never another program's file."""
    path = write("a.ipynb", [code("a", "x = 1")])
    other = path.read_text(encoding="utf-8").replace("x = 1", "theirs")
    left = {
        ".~a.ipynb.agent-00000000": path.read_text(encoding="utf-8"),
        ".~a.ipynb.agent-00000001": other[:50],
        ".~a.ipynb.agent-00000002": other,
        ".~a.ipynb.v2.ipynb": other,
        ".~ab.ipynb.agent-00000000": "",
    }
    for name, text in left.items():
        (root / name).write_text(text, encoding="utf-8")
    await notebooks.mend("a.ipynb", _no_copy)
    assert sorted(name for name in os.listdir(root) if name.endswith(tuple("0123456789b"))) == [
        ".~a.ipynb.v2.ipynb",
        ".~ab.ipynb.agent-00000000",
        "a.ipynb",
        "a.ipynb.overwritten-1",
    ]
    assert (root / "a.ipynb.overwritten-1").read_text(encoding="utf-8") == other
    assert "`a.ipynb.overwritten-1`" in notebooks.repairs[0]


async def test_a_copy_that_jupyter_left_long_ago_goes_with_the_next_save(
    notebooks: Notebooks, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x = 1")])
    left = path.with_name(".~a.ipynb")
    left.write_bytes(path.read_bytes())
    await make_edit(
        await notebooks.get("a.ipynb"), Update(cell_id="a", old_string="1", new_string="2")
    )
    assert not left.exists()


@pytest.mark.parametrize(
    "broken", ["<<<<<<< HEAD\n{}\n", '{"cells": [1 2]}', "[]", "\ufeff{}", "{}", "no"]
)
async def test_what_people_broke_themselves_is_left_alone(
    notebooks: Notebooks, root: Path, write: Write, broken: str
) -> None:
    """It is more than the start of a notebook: no save was cut off there."""
    path = write("a.ipynb", [code("a", "x = 1")])
    shutil.move(path, path.with_name(".~a.ipynb"))
    path.write_text(broken, encoding="utf-8")
    os.utime(path, (0, 0))
    assert await notebooks.mend("a.ipynb", _no_copy) == ""
    assert path.read_text(encoding="utf-8") == broken
    assert sorted(os.listdir(root)) == [".~a.ipynb", "a.ipynb"]


@pytest.mark.full
@pytest.mark.parametrize("folder", [SAMPLES, pytest.param(BOOKS, marks=pytest.mark.long)])
def test_real_notebooks_of_older_formats_keep_every_other_line_and_byte(folder: Path) -> None:
    """An edit changes no more lines than the same one through Jupyter's contents API, and its undo
    restores the same bytes; if Jupyter writes the file in another form, that form stays.

    The long run takes the folder that JUPYTER_AGENT_BOOKS names.
    """
    command = [sys.executable, "-m", "tests.notebook.real", str(folder), "1000"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    print(found)  # noqa: T201
    assert found["edit"].keys() <= {"one line", "as Jupyter"}
    assert found["undo"].keys() <= {"the same bytes", "as a load and save by Jupyter"}
    assert found["edit"]["one line"] > 0
