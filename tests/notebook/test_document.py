"""Edits of a notebook that is not open anywhere: their refusals, and the parts they leave alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_ydoc import YNotebook
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook
from pycrdt import Array, Doc, Map, Text

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, MetadataPatch, Move, Update
from jupyter_agent.document.values import shared_cell, shared_output
from jupyter_agent.errors import (
    CellNotFound,
    Conflict,
    InvalidInput,
    Locked,
    NotebookNotFound,
    NotOnce,
    NotRead,
)
from tests.notebook.editing import make_edit
from tests.waiting import until

from .conftest import cells_of, code, markdown

Write = Callable[..., Path]


@pytest.fixture
def notebook(
    notebooks: Notebooks, write: Write, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Notebook:
    write("a.ipynb", [code("a", "x = 1\ny = 2"), markdown("b", "# Title"), code("c", "print(x)")])
    return jp_asyncio_loop.run_until_complete(notebooks.get("a.ipynb"))


@pytest.fixture
def file(root: Path, notebook: Notebook) -> Path:
    return root / "a.ipynb"


async def test_an_inserted_cell_is_where_it_was_asked_for_and_on_disk(
    notebook: Notebook, file: Path
) -> None:
    first = await make_edit(notebook, Insert(source="1", index=0))
    after = await make_edit(notebook, Insert(source="2", after="a"))
    before = await make_edit(notebook, Insert(source="3", type="markdown", before="c"))
    last = await make_edit(notebook, Insert(source="4"))
    ids = [edit.cell.id for edit in (first, after, before, last) if edit.cell]
    expected = [ids[0], "a", ids[1], "b", ids[2], "c", ids[3]]
    assert [cell["id"] for cell in cells_of(file)] == expected
    assert last.saved.saved
    assert [change.kind for change in last.changes] == ["insert"]


async def test_a_part_of_the_text_is_replaced(notebook: Notebook, file: Path) -> None:
    edit = await make_edit(
        notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 'é😀'")
    )
    assert cells_of(file)[0]["source"] == "x = 'é😀'\ny = 2"
    (change,) = edit.changes
    assert change.before is not None
    assert change.after is not None
    assert (change.before.source, change.after.source) == ("x = 1\ny = 2", "x = 'é😀'\ny = 2")


@pytest.mark.parametrize(
    ("old", "found"),
    [
        ("z", "does not occur"),
        ("", "is empty, .* Give the whole text as `source`"),
        (" = ", "occurs 2 times \\(line 1, character 2; line 2, character 2\\)"),
    ],
)
async def test_an_old_string_must_occur_once(notebook: Notebook, old: str, found: str) -> None:
    with pytest.raises(NotOnce, match=found) as error:
        await make_edit(notebook, Update(cell_id="a", old_string=old, new_string="!"))
    assert "x = 1\ny = 2" in error.value.message
    assert error.value.facts["current"]["source"] == "x = 1\ny = 2"


@pytest.mark.parametrize(
    ("text", "old", "found"),
    [
        ("n = 'ababa'", "aba", "occurs 2 times (line 1, character 6; line 1, character 8)"),
        ("a\na\na", "a\na", "occurs 2 times (line 1, character 1; line 2, character 1)"),
        ("x = 1\nra\u200bte = 2", "rate", "(zero width space, U+200B) at line 2, character 3"),
        ("x = \ufeff'a'\xa0+ 1", "'a' + 1", None),
        ("x = \ufeff'a'\xa0+ 1", "= 'a' +", "(zero width no-break space, U+FEFF) at line 1"),
        ("x = 1", "x = \u200b1", "does not occur as given, with an invisible character"),
        ("rate\xa0= 5\nrate\u2009= 5", "rate = 5", "occurs 2 times (line 1, character 1; line 2"),
        ("rate\xa0= 5\nrate = 5", "rate = 5", None),
        ("rate = 5", "rate\u3000= 5", None),
        ("rate  = 5", "rate = 5", "does not occur in cell"),
    ],
)
async def test_what_nobody_sees_keeps_no_edit_from_its_place_or_is_named(
    notebooks: Notebooks, write: Write, text: str, old: str, found: str | None
) -> None:
    path = write("t.ipynb", [code("a", text)])
    notebook = await notebooks.get("t.ipynb")
    if found is None:
        await make_edit(notebook, Update(cell_id="a", old_string=old, new_string="HERE"))
        (cell,) = cells_of(path)
        assert cell["source"].count("HERE") == 1
        assert abs(len(cell["source"]) - len(text)) == abs(len("HERE") - len(old))
    else:
        with pytest.raises(NotOnce) as error:
            await make_edit(notebook, Update(cell_id="a", old_string=old, new_string="!"))
        assert found in error.value.message
        assert notebook.cached_cell("a").source == text


async def test_a_rewrite_needs_the_text_or_the_version_that_it_replaces(notebook: Notebook) -> None:
    with pytest.raises(NotRead, match="x = 1"):
        await make_edit(notebook, Update(cell_id="a", source="new"))
    version = notebook.cached_cell("a").version
    await make_edit(notebook, Update(cell_id="a", source="new", expect=version))
    with pytest.raises(Conflict):
        await make_edit(notebook, Update(cell_id="a", source="newer", expect=version))
    with pytest.raises(Conflict):
        await make_edit(notebook, Delete(cell_id="a", expect=version))
    assert notebook.cached_cell("a").source == "new"


async def test_another_type_keeps_id_text_and_metadata(notebooks: Notebooks, write: Write) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    cell = code("a", "# A", [output], metadata={"tags": ["keep"]}, execution_count=3)
    path = write("t.ipynb", [cell])
    notebook = await notebooks.get("t.ipynb")
    await make_edit(notebook, Update(cell_id="a", type="markdown"))
    (cell,) = cells_of(path)
    assert cell == {
        "id": "a",
        "cell_type": "markdown",
        "source": "# A",
        "metadata": {"tags": ["keep"]},
    }
    await make_edit(
        notebook, Update(cell_id="a", type="code", old_string="# A", new_string="a = 1")
    )
    (cell,) = cells_of(path)
    assert (cell["cell_type"], cell["source"], cell["outputs"]) == ("code", "a = 1", [])


async def test_a_cell_is_moved_and_deleted(notebook: Notebook, file: Path) -> None:
    edit = await make_edit(notebook, Move(cell_id="c", before="a"))
    assert [cell["id"] for cell in cells_of(file)] == ["c", "a", "b"]
    assert [change.kind for change in edit.changes] == ["move"]
    await make_edit(notebook, Move(cell_id="c", index=1))
    assert [cell["id"] for cell in cells_of(file)] == ["a", "c", "b"]
    await make_edit(notebook, Move(cell_id="a"))
    assert [cell["id"] for cell in cells_of(file)] == ["c", "b", "a"]
    edit = await make_edit(notebook, Delete(cell_id="b"))
    assert edit.cell is None
    assert [cell["id"] for cell in cells_of(file)] == ["c", "a"]


@pytest.mark.parametrize(
    "number", [float("nan"), float("-inf"), 10**400], ids=["NaN", "infinite", "huge"]
)
async def test_no_number_that_a_page_cannot_read_gets_into_a_notebook(
    notebook: Notebook, notebooks: Notebooks, file: Path, number: float
) -> None:
    """JupyterLab could no longer open it."""
    before, metadata = file.read_bytes(), {"score": [number]}
    for edit in (
        Update(cell_id="a", metadata=MetadataPatch(items=metadata)),
        Insert(source="x", metadata=metadata),
    ):
        with pytest.raises(InvalidInput, match="NaN or an infinite number, which are not JSON"):
            await notebook.make([edit])
    with pytest.raises(InvalidInput, match="Cell 1 of the new notebook is not valid: .*NaN"):
        await notebooks.create(
            "new.ipynb", cells=[{"source": ""}, {"source": "x", "metadata": metadata}]
        )
    assert file.read_bytes() == before
    assert not file.with_name("new.ipynb").exists()


async def test_unknown_cells_and_places_are_named(notebook: Notebook) -> None:
    with pytest.raises(CellNotFound, match=r"No cell `z`. Cells now: a, b, c."):
        await make_edit(notebook, Update(cell_id="z", old_string="a", new_string="b"))
    with pytest.raises(CellNotFound):
        await make_edit(notebook, Insert(source="", after="z"))
    with pytest.raises(InvalidInput, match="index"):
        await make_edit(notebook, Insert(source="", index=9))
    with pytest.raises(InvalidInput, match="only one"):
        await make_edit(notebook, Insert(source="", index=0, after="a"))
    with pytest.raises(InvalidInput, match="itself"):
        await make_edit(notebook, Move(cell_id="a", after="a"))


@pytest.mark.parametrize(
    "metadata",
    [
        {"editable": False},
        {"nbgrader": {"locked": True}},
        {"nbgrader": {"grade": True, "locked": False}},
    ],
)
async def test_a_locked_cell_stays_as_it_is(
    notebooks: Notebooks, write: Write, metadata: dict[str, Any]
) -> None:
    path = write("l.ipynb", [code("a", "x = 1", metadata=metadata)])
    before = path.read_bytes()
    notebook = await notebooks.get("l.ipynb")
    with pytest.raises(Locked):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    with pytest.raises(Locked):
        await make_edit(notebook, Update(cell_id="a", type="raw"))
    with pytest.raises(Locked):
        await make_edit(notebook, Delete(cell_id="a"))
    assert path.read_bytes() == before


async def test_an_undeletable_cell_can_be_edited_only(notebooks: Notebooks, write: Write) -> None:
    write("l.ipynb", [code("a", "x = 1", metadata={"deletable": False})])
    notebook = await notebooks.get("l.ipynb")
    with pytest.raises(Locked):
        await make_edit(notebook, Delete(cell_id="a"))
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert edit.changes


async def test_a_path_has_one_notebook(notebooks: Notebooks, notebook: Notebook) -> None:
    assert await notebooks.get("/a.ipynb/") is notebook
    assert await notebooks.get("./a.ipynb") is notebook
    assert notebooks.open() == [{"path": "a.ipynb", "carrier": "file"}]


async def test_there_is_no_notebook_at_an_unknown_path(notebooks: Notebooks, root: Path) -> None:
    for path in ("nothing.ipynb", "../outside.ipynb", ".hidden.ipynb", "no/such/folder.ipynb"):
        with pytest.raises(NotebookNotFound):
            await notebooks.get(path)
    assert notebooks.open() == []
    assert list(root.iterdir()) == []


async def test_an_idle_document_is_let_go_and_opened_again(contents: Any, write: Write) -> None:
    write("a.ipynb", [code("a", "1")])
    notebooks = Notebooks(contents, Tabs(), keep=0.01)
    notebook = await notebooks.get("a.ipynb")
    await until(lambda: not notebooks.open())
    assert await notebooks.get("a.ipynb") is notebook
    assert [cell.source for cell in await notebook.read()] == ["1"]
    await notebooks.close()


@pytest.mark.full
def test_snapshots_follow_any_change_of_the_document() -> None:
    random_ = random.Random(3)
    document = YNotebook()
    cells = SharedCells(document)
    array: Array[Any] = document.ycells
    for step in range(600):
        with document.ydoc.transaction():
            for number in range(random_.randrange(1, 4)):
                _change(array, random_, f"{step}-{number}")
        if random_.random() < 0.7:
            assert cells.values() == array.to_py()
            assert cells.ids() == [cell["id"] for cell in array.to_py() or []]
    remote: Doc[Any] = Doc()
    remote.apply_update(document.ydoc.get_update())
    for step in range(200):
        with remote.transaction():
            for number in range(random_.randrange(1, 4)):
                _change(remote.get("cells", type=Array), random_, f"r{step}-{number}")
        document.ydoc.apply_update(remote.get_update(document.ydoc.get_state()))
        assert cells.values() == array.to_py()


def _change(cells: Array[Any], random_: random.Random, name: str) -> None:
    index = random_.randrange(len(cells) + 1)
    if index == len(cells) or random_.random() < 0.25:
        new = {"id": name, "source": Text("é"), "outputs": Array([]), "metadata": Map({})}
        cells.insert(index, Map({**new, "cell_type": "code"}))
    elif random_.random() < 0.25:
        del cells[index]
    elif random_.random() < 0.5:
        cells[index]["source"].insert(0, "😀x")
    else:
        cells[index]["outputs"].append(Map({"output_type": "stream", "text": Text("t")}))


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_again_in_parts_is_what_is_there(seed: int) -> None:
    """Any change of a cell, by us or by others, in any number of steps."""
    chance = random.Random(seed)
    notebook, elsewhere = YNotebook(), YNotebook()
    outputs = [_stream("a"), {"output_type": "display_data", "data": {"text/plain": "1"}}]
    made = [new_code_cell("x", id=f"c{number}", outputs=[]) for number in range(3)]
    notebook.set(from_dict(new_notebook(cells=made)))
    cells = SharedCells(notebook)

    def live() -> Any:
        return chance.choice(list(elsewhere.ycells))

    def grow() -> None:
        for output in live()["outputs"]:
            if "text" in output:
                output["text"].insert(0, "é")

    acts: list[Callable[[], object]] = [
        lambda: live()["outputs"].append(shared_output(chance.choice(outputs))),
        lambda: live()["outputs"].insert(0, shared_output(chance.choice(outputs))),
        lambda: live()["outputs"].clear(),
        lambda: live()["outputs"].pop(),
        grow,
        lambda: live().update({"execution_count": chance.choice([None, 1.0])}),
        lambda: live().update({"execution_state": chance.choice(["idle", "running"])}),
        lambda: live()["source"].insert(0, "y"),
        lambda: live()["metadata"].update({"tags": [str(chance.random())]}),
        lambda: live().update({"outputs": Array([shared_output(outputs[0])])}),
        lambda: elsewhere.ycells.pop(),
        lambda: elsewhere.ycells.insert(0, shared_cell(code(f"n{chance.randrange(10**9)}", "z"))),
    ]
    elsewhere.ydoc.apply_update(notebook.ydoc.get_update())
    for _ in range(60):
        before = elsewhere.ydoc.get_state()
        with elsewhere.ydoc.transaction():
            for act in chance.choices(acts, k=chance.randrange(1, 4)):
                with suppress(IndexError):  # nothing is left to choose
                    act()
        notebook.ydoc.apply_update(elsewhere.ydoc.get_update(before))
        if cells.ids() and chance.random() < 0.5:
            cells.append_outputs(cells.ids()[0], chance.choices(outputs, k=3))
            elsewhere.ydoc.apply_update(notebook.ydoc.get_update(elsewhere.ydoc.get_state()))
        if chance.random() < 0.7:
            assert cells.values() == SharedCells(notebook).values()
            assert cells.all() == SharedCells(notebook).all()


def test_outputs_are_written_together_unless_they_are_large_or_odd() -> None:
    notebook = YNotebook()
    notebook.set(from_dict(new_notebook(cells=[new_code_cell("x", id="c0")])))
    cells, sizes = SharedCells(notebook), list[int]()
    outputs = [_stream(f"{number}\n") for number in range(90)]
    outputs += [{"output_type": "odd"}, {"output_type": "error", "ename": "E"}]  # of a page
    outputs[60:60] = [_stream("x" * 600_000), _stream("y" * 3_000_000), _stream("z" * 600_000)]
    notebook.ydoc.observe(lambda event: sizes.append(len(event.update)))
    cells.write_outputs("c0", outputs, 1)
    assert (len(sizes), max(sizes) < 3_100_000) == (5, True)
    with pytest.raises(KeyError):
        cells.append_outputs("c0", [_stream("new"), {"output_type": "stream"}])
    assert list(cells.get("c0").outputs) == outputs


def test_of_many_outputs_only_new_ones_are_read() -> None:
    notebook = YNotebook()
    notebook.set(from_dict(new_notebook(cells=[new_code_cell("x", id="c0")])))
    cells = SharedCells(notebook)
    for number in range(50):
        cells.append_outputs("c0", [_stream(f"{number}\n")])
    before, shown = cells.value("c0")["outputs"], cells.get("c0").outputs
    cells.append_outputs("c0", [_stream("new")])
    after = cells.value("c0")["outputs"]
    assert [output["text"] for output in after] == [*(f"{n}\n" for n in range(50)), "new"]
    assert all(one is other for one, other in zip(before, after, strict=False))
    assert all(one is other for one, other in zip(shown, cells.get("c0").outputs, strict=False))
