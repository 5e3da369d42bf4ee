"""Random turns, with and without people working at the same time: undo takes back the turn and
nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import LargeFileManager
from tornado.web import HTTPError

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.namings import StoredNamings
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.document.cell import Cell, CellType, Change
from jupyter_agent.document.edit_result import Edit
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, MetadataPatch, Move, Step, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.document.values import are_same
from jupyter_agent.errors import ToolError
from tests.notebook.editing import make_edit

from .browser import Tab
from .conftest import cells_of, code, markdown

Write = Callable[..., Path]
pytestmark = pytest.mark.parametrize("contents", [LargeFileManager], ids=["sync"], indirect=True)
SEED = int(os.environ.get("JUPYTER_AGENT_FUZZ_SEED", 20261124))
TYPES: list[CellType] = ["code", "markdown", "raw"]
CUT_OFF = "[... the cell was taken from its run, whose later outputs are not here ...]\n"
TEXT = "\n".join(f"{side}{line}" for line in range(6) for side in ("agent", "person"))


@pytest.fixture
def notebook(
    notebooks: Notebooks, write: Write, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Notebook:
    shown = {"output_type": "stream", "name": "stdout", "text": "at first"}
    cells = [
        code(f"c{number}", TEXT, [shown], execution_count=number + 1, metadata={"n": number})
        for number in range(5)
    ]
    write("a.ipynb", [*cells, markdown("m", TEXT, attachments={"p": {"image/png": "aGk="}})])
    return jp_asyncio_loop.run_until_complete(notebooks.get("a.ipynb"))


class Writer:
    """Edits at random; the lines of the cells that begin with its name are its own."""

    def __init__(self, name: str, notebook: Notebook, random_: random.Random) -> None:
        self.changes: list[Change] = []
        """Its changes, as the store has them."""
        self.inserted: set[str] = set()
        self.deleted: set[str] = set()
        self._name = name
        self._notebook = notebook
        self._random = random_
        self._count = 0

    async def edit(self, kinds: str) -> None:
        self._count += 1
        cells = self._notebook.cached_cells()
        cell = self._random.choice(cells) if cells else None
        kind = self._random.choice(kinds.split()) if cell else "insert"
        if kind == "insert":
            index = self._random.randrange(len(cells) + 1)
            done = await make_edit(
                self._notebook, Insert(source=f"{self._name} made {self._count}", index=index)
            )
            assert done.cell is not None
            self.inserted.add(done.cell.id)
            self._note(done)
        elif cell is not None:
            await getattr(self, f"_{kind}")(cell)

    async def _update(self, cell: Cell) -> None:
        lines = cell.source.split("\n")
        own = [at for at, line in enumerate(lines) if line.startswith(self._name)]
        if own:
            lines[self._random.choice(own)] = f"{self._name} {self._count}"
            source = "\n".join(lines)
            self._note(
                await make_edit(
                    self._notebook, Update(cell_id=cell.id, source=source, base=cell.source)
                )
            )

    async def _extend(self, cell: Cell) -> None:
        """Lines of their own, between those of others."""
        lines = cell.source.split("\n")
        lines.insert(self._random.randrange(len(lines) + 1), f"{self._name} new {self._count}")
        source = "\n".join(lines)
        self._note(
            await make_edit(
                self._notebook, Update(cell_id=cell.id, source=source, base=cell.source)
            )
        )

    async def _move(self, cell: Cell) -> None:
        index = self._random.randrange(len(self._notebook.cached_cells()))
        self._note(await make_edit(self._notebook, Move(cell_id=cell.id, index=index)))

    async def _delete(self, cell: Cell) -> None:
        self._note(await make_edit(self._notebook, Delete(cell_id=cell.id)))
        self.deleted.add(cell.id)

    async def _retype(self, cell: Cell) -> None:
        kind: Any = self._random.choice(["code", "markdown", "raw"])
        self._note(await make_edit(self._notebook, Update(cell_id=cell.id, type=kind)))

    async def _run(self, cell: Cell) -> None:
        if cell.type != "code":
            return
        before = self._notebook.cached_cell(cell.id).state()
        outputs = self._notebook.outputs(cell.id)
        outputs.start()
        outputs.stream("stdout", f"{self._name} ran {self._count}")
        outputs.finish(100 + self._count)
        await self._notebook.save()
        after = self._notebook.cached_cell(cell.id).state()
        if before != after:
            change = Change(
                notebook="a.ipynb", cell_id=cell.id, kind="outputs", before=before, after=after
            )
            self._note(Edit(None, [change], None))  # type: ignore[arg-type]

    def _note(self, edit: Edit) -> None:
        kept = [json.loads(json.dumps(change.to_json())) for change in edit.changes]
        self.changes += [Change.from_json(value) for value in kept]


many = pytest.mark.parametrize(
    "turns", [8, pytest.param(400, marks=pytest.mark.long)], ids=["few", "many"]
)


@pytest.mark.full
@many
async def test_any_turn_is_taken_back_exactly(notebook: Notebook, root: Path, turns: int) -> None:
    before = (root / "a.ipynb").read_bytes()
    for seed in range(SEED, SEED + turns):
        agent = Writer("agent", notebook, random.Random(seed))
        for _ in range(15):
            await agent.edit("insert update update extend move delete retype run")
        result = await undo(notebook, agent.changes)
        assert result.conflicts == [], seed
        assert (root / "a.ipynb").read_bytes() == before, seed


@many
async def test_what_people_did_in_and_after_a_turn_stays(
    notebook: Notebook, root: Path, turns: int
) -> None:
    original = (root / "a.ipynb").read_bytes()
    for seed in range(SEED, SEED + turns):
        (root / "a.ipynb").write_bytes(original)
        random_ = random.Random(seed)
        await notebook.read()
        agent, person = Writer("agent", notebook, random_), Writer("person", notebook, random_)
        for _ in range(12):
            await agent.edit("insert update extend move delete run")
            await person.edit("insert update update run delete")
        for _ in range(4):
            await person.edit("insert update update run")
        result = await undo(notebook, agent.changes)
        check(cells_of(root / "a.ipynb"), agent, person, result.conflicts, seed)


def lines_of(person: Writer) -> dict[str, list[str]]:
    """Cell id -> the lines that the person wrote into it, in each original cell."""
    lines: dict[str, list[str]] = {}
    for number in [*(f"c{n}" for n in range(5)), "m"]:
        written = [line for line in TEXT.split("\n") if line.startswith("person")]
        for change in person.changes:
            if change.cell_id == number and change.kind == "update":
                assert change.before is not None
                assert change.after is not None
                old = change.before.source.split("\n")
                new = change.after.source.split("\n")
                ((was, now),) = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
                written[written.index(was)] = now
        lines[number] = written
    return lines


def ran_last(person: Writer, cell_id: str) -> str | None:
    runs = [each for each in person.changes if each.cell_id == cell_id and each.kind == "outputs"]
    return runs[-1].after.outputs[0]["text"] if runs and runs[-1].after else None


def check(
    cells: list[dict[str, Any]],
    agent: Writer,
    person: Writer,
    conflicts: list[dict[str, Any]],
    seed: int,
) -> None:
    expected = lines_of(person)
    by_id = {cell["id"]: cell for cell in cells}
    left_alone = {conflict["cell_id"] for conflict in conflicts}
    originals = [cell_id for cell_id in expected if cell_id not in person.deleted]
    assert [cell["id"] for cell in cells if cell["id"] in originals] == originals, seed
    assert [cell_id for cell_id in person.inserted - person.deleted if cell_id not in by_id] == []
    assert person.deleted.isdisjoint(by_id), seed
    assert agent.inserted & by_id.keys() <= left_alone, seed
    for cell_id in originals:
        lines = by_id[cell_id]["source"].split("\n")
        assert [line for line in lines if line.startswith("person")] == expected[cell_id], seed
        if cell_id not in left_alone:
            own = [line for line in lines if line.startswith("agent")]
            assert own == [f"agent{line}" for line in range(6)], seed
            shown = json.dumps(by_id[cell_id].get("outputs", []))
            assert "agent ran" not in shown, seed
            assert (ran_last(person, cell_id) or "") in shown, seed
    for cell_id in person.inserted & by_id.keys() - left_alone:
        texts = [
            change.after.source
            for change in person.changes
            if change.cell_id == cell_id and change.after
        ]
        assert by_id[cell_id]["source"].split("\n") == [
            line for line in texts[-1].split("\n") if line.startswith("person")
        ], seed


SHAPES = ["nav", "x = 1", "", "a = 1\nb = 2\nc = 3", "# T"]
"""The cells of a notebook have one, two or three of these texts, so that many cells are the
same.
"""


def write_without_ids(path: Path, cells: Sequence[tuple[str, str]]) -> None:
    """A notebook as Jupyter wrote it before format 4.5."""
    content = {
        "cells": [
            {
                "cell_type": kind,
                **({"execution_count": None} if kind == "code" else {}),
                "metadata": {},
                **({"outputs": []} if kind == "code" else {}),
                "source": source.splitlines(keepends=True),
            }
            for kind, source in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


async def change_something(notebook: Notebook, number: int, random_: random.Random) -> Edit:
    """One operation of any kind, which often leaves cells with the same text."""
    cells = await notebook.read()
    kinds = "update line insert delete move retype tag".split() if cells else ["insert"]
    kind = random_.choice(kinds)
    text = random_.choice([f"new {number}", *SHAPES[:2]])
    if kind == "insert":
        index = random_.randrange(len(cells) + 1)
        return await make_edit(
            notebook, Insert(source=text, index=index, type=random_.choice(TYPES))
        )
    cell = random_.choice(cells)
    match kind:
        case "update":
            return await make_edit(notebook, Update(cell_id=cell.id, source=text, base=cell.source))
        case "line":
            lines = cell.source.split("\n")
            lines[random_.randrange(len(lines))] = f"line {number}"
            return await make_edit(
                notebook, Update(cell_id=cell.id, source="\n".join(lines), base=cell.source)
            )
        case "delete":
            return await make_edit(notebook, Delete(cell_id=cell.id))
        case "move":
            return await make_edit(
                notebook, Move(cell_id=cell.id, index=random_.randrange(len(cells)))
            )
        case "retype":
            return await make_edit(notebook, Update(cell_id=cell.id, type=random_.choice(TYPES)))
    tag = MetadataPatch(add_tags=[f"t{number}"])
    (edit,) = await notebook.make([Update(cell_id=cell.id, metadata=tag)])
    return edit


@pytest.mark.sample(1)
@pytest.mark.parametrize("pairs", [60, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.parametrize("then", ["the server restarts", "a page opens it", "ids are forgotten"])
async def test_without_ids_an_undo_leaves_the_same_bytes_or_says_that_it_does_not(
    contents: Any, root: Path, tmp_path: Path, then: str, pairs: int
) -> None:
    """Two operations in notebooks of 40 shapes whose cells have the same text; then a program that
    opens the notebook gives the cells other ids.
    """
    path, store = root / "a.ipynb", tmp_path / "store.db"
    log = logging.getLogger("test")
    for seed in range(SEED, SEED + pairs):
        shape, random_ = random.Random(seed % 40), random.Random(seed)
        says = shape.sample(SHAPES, shape.choice([1, 2, 2, 3]))
        cells = [(shape.choice(TYPES[:2]), shape.choice(says)) for _ in range(shape.randint(3, 6))]
        write_without_ids(path, cells)
        before = path.read_bytes()
        store.unlink(missing_ok=True)
        database = Database(store, MIGRATIONS, log)
        notebooks = Notebooks(contents, Tabs(), namings=StoredNamings(database))
        notebook = await notebooks.get("a.ipynb")
        edits = [await change_something(notebook, number, random_) for number in range(2)]
        ids = [cell.id for cell in await notebook.read()]
        kept = json.dumps([change.to_json() for edit in edits for change in edit.changes])
        await notebooks.close()
        database.close()
        if then == "ids are forgotten":
            store.unlink()
        database, tabs = Database(store, MIGRATIONS, log), Tabs()
        again = Notebooks(contents, tabs, namings=StoredNamings(database))
        if then == "a page opens it":
            await Tab(tabs, contents, "a.ipynb").open()
        notebook = await again.get("a.ipynb")
        if then == "the server restarts":
            assert [cell.id for cell in await notebook.read()] == ids, seed
        undone = await undo(notebook, [Change.from_json(each) for each in json.loads(kept)])
        await again.close()
        database.close()
        same = path.read_bytes() == before
        if then == "a page opens it":  # and writes the rest in its own form
            same = json.loads(path.read_bytes())["cells"] == json.loads(before)["cells"]
        assert same or (undone.conflicts and then == "ids are forgotten"), seed
        assert then == "ids are forgotten" or undone.conflicts == [], seed


Cells = list[dict[str, Any]]


def said(source: str, kind: str = "code") -> dict[str, Any]:
    bare = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return bare | ({"execution_count": None, "outputs": []} if kind == "code" else {})


@pytest.mark.parametrize("then", ["at once", "after a restart", "in a page"])
@pytest.mark.parametrize(
    ("since", "left"),
    [
        (lambda cells: [cells[2], *cells[:2], cells[3]], ["a", "b", "c"]),
        (lambda cells: [said("b"), *cells], ["b", "a", "b", "c"]),
        (lambda cells: [cells[0], *cells[2:]], ["a", "c"]),
        (lambda cells: [*cells[:2], said("mine"), *cells[2:]], ["a", "b", "mine", "c"]),
        (lambda cells: [cells[0], said("B\nmine"), *cells[2:]], ["a", "b\nmine", "c"]),
        (lambda cells: [cells[0], said("mine", "raw"), *cells[2:]], None),
        (lambda cells: [cells[0], cells[1], said("new\nmine"), *cells[3:]], None),
        (lambda cells: [*cells[:2], said("c\nnew")], None),
    ],
    ids=[
        "the new cell moved",
        "what was there before written again",
        "the changed cell deleted",
        "another between",
        "a line added",
        "another in its place",
        "the new cell edited",
        "the new cell merged",
    ],
)
async def test_without_ids_an_undo_finds_its_cells_or_tells_whatever_a_program_did_since(
    contents: Any,
    root: Path,
    then: str,
    since: Callable[[Cells], Cells],
    left: list[str] | None,
) -> None:
    """The turn made `B` of `b` and put `new` below it. No change of a turn is left silently, and
    none of the program's is lost; `left` None: the report is what counts.
    """
    path = root / "a.ipynb"
    write_without_ids(path, [("code", "a"), ("code", "b"), ("code", "c")])
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")
    first = await make_edit(
        notebook, Update(cell_id=(await notebook.read())[1].id, source="B", base="b")
    )
    assert first.cell is not None
    second = await make_edit(notebook, Insert(source="new", after=first.cell.id))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"] = since(content["cells"])
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    tabs = Tabs()
    if then != "at once":
        await notebooks.close()
        notebooks = Notebooks(contents, tabs, namings=notebooks.namings)
    if then == "in a page":
        await Tab(tabs, contents, "a.ipynb").open()
    undone = await undo(await notebooks.get("a.ipynb"), [*first.changes, *second.changes])
    await notebooks.close()
    texts = [cell["source"] for cell in cells_of(path)]
    if left is not None:
        assert texts == left
    else:
        assert undone.conflicts or undone.remarks
    assert "mine" in "".join(texts) or "mine" not in json.dumps(content["cells"])


async def test_a_failed_save_leaves_the_ids_of_cells_that_store_none(
    contents: Any, root: Path, notebooks: Notebooks
) -> None:
    write_without_ids(root / "a.ipynb", [("code", ""), ("code", ""), ("code", "x"), ("code", "")])
    notebook = await notebooks.get("a.ipynb")
    ids = [cell.id for cell in await notebook.read()]

    def refuse(**_: Any) -> None:
        raise HTTPError(507, "No space left on device")

    contents.pre_save_hook = refuse
    with pytest.raises(ToolError):
        await make_edit(notebook, Delete(cell_id=ids[0]))
    contents.pre_save_hook = None
    assert [cell.id for cell in await notebook.read()] == ids


@pytest.mark.parametrize("oldest_first", [True, False])
async def test_of_two_changes_of_the_same_part_the_later_is_undone_first_or_both_apart(
    notebooks: Notebooks, write: Write, oldest_first: bool
) -> None:
    """Tags are undone one by one; a run again has to be undone first."""
    path = write("a.ipynb", [code("tagged", "x"), code("ran", "y")])
    before = path.read_bytes()
    notebook = await notebooks.get("a.ipynb")
    turns: list[list[Change]] = []
    for number in (1, 2):
        tag = MetadataPatch(add_tags=[f"t{number}"])
        (edit,) = await notebook.make([Update(cell_id="tagged", metadata=tag)])
        was = notebook.cached_cell("ran").state()
        run = notebook.outputs("ran")
        run.start()
        run.stream("stdout", f"run {number}")
        run.finish(number)
        await notebook.save()
        now = notebook.cached_cell("ran").state()
        outputs = Change(notebook="a.ipynb", cell_id="ran", kind="outputs", before=was, after=now)
        turns.append([*edit.changes, outputs])
    if not oldest_first:
        turns.reverse()
    first, second = [await undo(notebook, changes) for changes in turns]
    assert first.conflicts == second.conflicts == []
    if oldest_first:
        assert [change.cell_id for change in first.undone] == ["tagged"]
        assert first.remarks == ["Cell `ran` was run again since: those outputs stay."]
        await undo(notebook, [change for change in turns[0] if change.cell_id == "ran"])
    assert path.read_bytes() == before


async def test_cells_are_undone_one_by_one_in_their_places(
    notebooks: Notebooks, write: Write
) -> None:
    """The first one has moved back beside a cell that is deleted."""
    ids = ["c0", "c1", "c2", "c3", "m"]
    path = write("a.ipynb", [code(cell_id, "x") for cell_id in ids])
    notebook = await notebooks.get("a.ipynb")
    moved, deleted = (
        [*(await make_edit(notebook, Move(cell_id="c3", index=1))).changes],
        [*(await make_edit(notebook, Delete(cell_id="c1"))).changes],
    )
    await undo(notebook, moved, [*moved, *deleted])
    await undo(notebook, deleted, [replace(moved[0], undone=True), *deleted])
    assert [cell["id"] for cell in cells_of(path)] == ids


@pytest.mark.parametrize("retyped", ["markdown", "code"])
async def test_what_only_the_new_type_of_a_cell_has_is_not_lost_by_an_undo(
    notebooks: Notebooks, write: Write, retyped: CellType
) -> None:
    """Someone pastes a picture, or runs it."""
    former = code("a", "x") if retyped == "markdown" else markdown("a", "x")
    path = write("a.ipynb", [former])
    notebook = await notebooks.get("a.ipynb")
    edit = await make_edit(notebook, Update(cell_id="a", type=retyped))
    shown = {"output_type": "stream", "name": "stdout", "text": "hours of work"}
    since = (
        markdown("a", "x", attachments={"p.png": {"image/png": "aGk="}})
        if retyped == "markdown"
        else code("a", "x", [shown], execution_count=1)
    )
    write("a.ipynb", [since])
    theirs = path.read_bytes()
    undone = await undo(notebook, edit.changes)
    assert [conflict["reason"] for conflict in undone.conflicts] == ["changed"]
    assert path.read_bytes() == theirs


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"tags": ["a,b"]}},
        {"metadata": {"collapsed": "false"}},
        {"execution_count": -1},
        {"outputs": [{"output_type": "unknown"}]},
    ],
    ids=["tags", "collapsed", "count", "output"],
)
async def test_a_deleted_cell_that_nbformat_would_refuse_comes_back_with_the_rest(
    notebooks: Notebooks, write: Write, odd: dict[str, Any]
) -> None:
    path = write("a.ipynb", [code("odd", "x"), code("b", "y")])
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"][0] |= odd
    path.write_text(json.dumps(content), encoding="utf-8")
    before = cells_of(path)
    notebook = await notebooks.get("a.ipynb")
    edits = [
        await make_edit(notebook, Delete(cell_id="odd")),
        await make_edit(notebook, Update(cell_id="b", old_string="y", new_string="z")),
    ]
    undone = await undo(notebook, [change for edit in edits for change in edit.changes])
    assert undone.conflicts == []
    assert cells_of(path) == before


async def test_a_cell_whose_metadata_has_no_number_is_undone(
    notebooks: Notebooks, write: Write
) -> None:
    path = write("a.ipynb", [code("a", "x"), code("b", "y")])
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"][0]["metadata"] = {"n": float("nan"), "in": [float("inf"), float("nan")]}
    path.write_text(json.dumps(content), encoding="utf-8")
    before = cells_of(path)
    notebook = await notebooks.get("a.ipynb")
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x", new_string="z"))
    changes = [json.loads(json.dumps(change.to_json())) for change in edit.changes]
    undone = await undo(notebook, [Change.from_json(change) for change in changes])
    assert undone.conflicts == []
    assert are_same(cells_of(path), before)


@pytest.mark.parametrize(
    "between",
    ["another format", "a page", "a page, some ids kept", "a page in the turn"],
)
async def test_a_turn_is_undone_though_the_cells_have_got_other_ids(
    contents: Any, root: Path, between: str
) -> None:
    path, tabs = root / "a.ipynb", Tabs()
    write_without_ids(path, [("code", "a"), ("code", "b"), ("code", "c")])
    if "some ids" in between:
        content = json.loads(path.read_text(encoding="utf-8"))
        content["cells"][0]["id"] = "own"
        path.write_text(json.dumps(content), encoding="utf-8")
    notebooks = Notebooks(contents, tabs)
    notebook = await notebooks.get("a.ipynb")
    edits = [
        await make_edit(notebook, Insert(source="new", index=3)),
        await make_edit(
            notebook, Update(cell_id=(await notebook.read())[1].id, source="B", base="b")
        ),
    ]
    if between == "another format":
        nbformat.write(nbformat.v4.upgrade(nbformat.read(path, as_version=4)), path)
    else:
        await Tab(tabs, contents, "a.ipynb").open()
        notebook = await notebooks.get("a.ipynb")
    if "turn" in between:
        edits.append(
            await make_edit(notebook, Move(cell_id=(await notebook.read())[3].id, index=0))
        )
    undone = await undo(notebook, [change for edit in edits for change in edit.changes])
    await notebooks.close()
    assert undone.conflicts == []
    assert [cell["source"] for cell in cells_of(path)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "since",
    [
        [("a", "x = 1"), ("b", "new = 2\nnewer = 3")],
        [("b", "new = 2\nnewer = 3"), ("a", "x = 1")],
        [("a", "x = 1"), ("n", "a note"), ("b", "# mine\nnew = 2"), ("c", "newer = 3")],
        [("a", "x = 1"), ("b", "newer = 3")],
    ],
    ids=["split", "the last part keeps the id", "parts edited and moved", "one line taken away"],
)
async def test_an_undo_tells_where_lines_are_that_somebody_took_to_other_cells(
    notebooks: Notebooks, write: Write, since: list[tuple[str, str]]
) -> None:
    """The cell no longer has them; their loss is not reported."""
    path = write("a.ipynb", [code("a", "x = 1"), code("z", "z")])
    notebook = await notebooks.get("a.ipynb")
    edit = await make_edit(
        notebook, Update(cell_id="a", source="x = 1\nnew = 2\nnewer = 3", base="x = 1")
    )
    write("a.ipynb", [code(cell_id, source) for cell_id, source in since])
    undone = await undo(notebook, edit.changes)
    assert undone.conflicts == []
    (sentence,) = undone.remarks
    assert [cell_id for cell_id, _ in since if f"`{cell_id}`" in sentence] == [
        cell_id for cell_id, source in since if cell_id == "a" or "new" in source
    ]
    assert [(cell["id"], cell["source"]) for cell in cells_of(path)] == since


async def test_an_undo_tells_of_lines_that_somebody_took_to_a_cell_that_the_turn_changed_too(
    notebooks: Notebooks, write: Write
) -> None:
    """But not of lines that the turn itself took from there: they are back."""
    path = write("a.ipynb", [code("a", "x = 1\nold = 1"), code("b", "y = 1"), code("z", "z")])
    notebook = await notebooks.get("a.ipynb")
    (insert, *rest) = await notebook.make(
        [
            Insert(source="new = 1\nold = 1", index=3),
            Update(cell_id="a", source="x = 1", base="x = 1\nold = 1"),
            Move(cell_id="b", index=0),
        ]
    )
    made = insert.changes[0].cell_id
    merged = [code("b", "y = 1\nnew = 1"), code("a", "x = 1"), code("z", "z")]
    write("a.ipynb", merged)  # someone merged the new cell into `b`
    undone = await undo(
        notebook, [*insert.changes, *(each for one in rest for each in one.changes)]
    )
    assert undone.conflicts == []
    (sentence,) = undone.remarks
    assert f"written into cell `{made}`" in sentence
    assert "the same lines are in `b`." in sentence
    assert [cell["source"] for cell in cells_of(path)] == [
        "x = 1\nold = 1", "y = 1\nnew = 1", "z"
    ]  # fmt: skip


def number_cells(path: Path) -> None:
    """As nbstripout does."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for number, cell in enumerate(content["cells"]):
        cell["id"] = str(number)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("then", ["at once", "in a page", "later", "after a kill"])
async def test_a_turn_is_undone_though_a_program_gave_all_cells_other_ids(
    contents: Any, write: Write, then: str
) -> None:
    """After a kill the server knows nothing of the others: the undo says where the lines are."""
    cells = [code("a", "x = 1"), code("b", "same"), code("c", "same"), code("z", "z = 1")]
    path, tabs = write("a.ipynb", cells), Tabs()
    notebooks = Notebooks(contents, tabs)
    if then == "in a page":
        await Tab(tabs, contents, "a.ipynb").open()
    notebook = await notebooks.get("a.ipynb")
    edits = [
        await make_edit(notebook, Update(cell_id="a", source="x = 20", base="x = 1")),
        await make_edit(notebook, Update(cell_id="c", source="changed", base="same")),
        await make_edit(notebook, Insert(source="new", index=1)),
        await make_edit(notebook, Delete(cell_id="b")),
        await make_edit(notebook, Move(cell_id="z", index=0)),
    ]
    changes = [change for edit in edits for change in edit.changes]
    if then == "later":
        await notebooks.close()
    number_cells(path)
    again = notebooks
    if then not in ("at once", "in a page"):
        known = notebooks.namings if then == "later" else None
        again = Notebooks(contents, Tabs(), namings=known)
        notebook = await again.get("a.ipynb")
    undone = await undo(notebook, changes)
    if then == "after a kill":
        assert {conflict["reason"] for conflict in undone.conflicts} == {"deleted"}
        assert "cell `a` is no longer there; the same lines are in `1`." in " ".join(undone.remarks)
    else:
        assert (undone.conflicts, undone.remarks) == ([], [])
        assert [cell["source"] for cell in cells_of(path)] == ["x = 1", "same", "same", "z = 1"]
    await notebooks.close()
    await again.close()


NUMBERED = ["import a", "b = 1\nb2 = 1", "c(2)", "print(d)", "e = [1]"]


async def numbered(contents: Any, write: Write) -> tuple[Path, Notebooks, Notebook]:
    """A notebook of these cells, whose ids are their numbers."""
    path = write("a.ipynb", [code(str(number), text) for number, text in enumerate(NUMBERED)])
    notebooks = Notebooks(contents, Tabs())
    return path, notebooks, await notebooks.get("a.ipynb")


@pytest.mark.parametrize("then", ["at once", "later"])
async def test_a_turn_is_undone_though_a_program_numbered_the_cells_again(
    contents: Any, write: Write, then: str
) -> None:
    """As nbstripout does at each commit: below a new cell each has the id of the one above it."""
    path, notebooks, notebook = await numbered(contents, write)
    edits = [
        await make_edit(notebook, Insert(source="first", index=0)),
        await make_edit(notebook, Insert(source="second", index=1)),
        await make_edit(notebook, Update(cell_id="1", old_string="b2", new_string="new")),
        await make_edit(notebook, Delete(cell_id="2")),
        await make_edit(notebook, Move(cell_id="4", index=0)),
    ]
    if then == "later":
        await notebooks.close()
    number_cells(path)
    undone = await undo(notebook, [change for edit in edits for change in edit.changes])
    assert (undone.conflicts, undone.remarks) == ([], [])
    assert [cell["source"] for cell in cells_of(path)] == NUMBERED
    await notebooks.close()


@pytest.mark.parametrize("closes", [False, True])
async def test_turns_before_and_after_a_program_numbered_the_cells_are_undone(
    contents: Any, write: Write, closes: bool
) -> None:
    """They mean different cells by the same ids."""
    path, notebooks, notebook = await numbered(contents, write)

    async def turn(*steps: Step) -> list[Change]:
        edits = [await make_edit(notebook, step) for step in steps]
        if closes:
            await notebooks.close()
        return [change for edit in edits for change in edit.changes]

    first = await turn(
        Insert(source="new", index=0),
        Update(cell_id="1", old_string="b2", new_string="b3"),
    )
    number_cells(path)
    between = [cell["source"] for cell in cells_of(path)]
    second = await turn(
        Update(cell_id="2", old_string="b = 1", new_string="b = 2"),
        Delete(cell_id="3"),
        Move(cell_id="5", index=0),
    )
    assert (await undo(notebook, second)).conflicts == []
    assert [cell["source"] for cell in cells_of(path)] == between
    assert (await undo(notebook, first)).conflicts == []
    assert [cell["source"] for cell in cells_of(path)] == NUMBERED
    await notebooks.close()


@pytest.mark.parametrize("edit", [Delete(cell_id="1"), Move(cell_id="3", index=0)])
async def test_no_cell_is_taken_for_another_that_had_its_id(
    contents: Any, write: Write, edit: Delete | Move
) -> None:
    """After a kill: a deleted cell returns under another id, a moved one is left alone."""
    texts = ["import a", "x = 1", "x = 2", "print(d)"]
    path = write("a.ipynb", [code(str(number), text) for number, text in enumerate(texts)])
    killed, again = Notebooks(contents, Tabs()), Notebooks(contents, Tabs())
    made = await make_edit(await killed.get("a.ipynb"), edit)
    number_cells(path)
    undone = await undo(await again.get("a.ipynb"), made.changes)
    if isinstance(edit, Delete):
        assert undone.conflicts == []
        assert [cell["source"] for cell in cells_of(path)] == texts
        assert len({cell["id"] for cell in cells_of(path)}) == len(texts)
    else:
        (conflict,) = undone.conflicts
        assert conflict["cell_id"] == "3"
        assert conflict["why"].startswith("The cells have no lasting ids")
        assert [cell["source"] for cell in cells_of(path)] == [texts[3], *texts[:3]]
    await killed.close()
    await again.close()


async def test_a_read_that_is_cancelled_as_it_stores_former_ids_loads_the_file_again(
    contents: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is locked may take seconds, and someone stops the turn."""
    path = write("a.ipynb", [code("a", "a"), code("b", "b")])
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")
    await notebook.read()
    write("a.ipynb", [code("c", "written by another program"), code("d", "b")])
    storing = asyncio.Event()

    async def note(*_: object) -> None:
        storing.set()
        await asyncio.sleep(60)

    with monkeypatch.context() as locked:
        locked.setattr(notebooks.namings, "note", note)
        reading = asyncio.create_task(notebook.read())
        await asyncio.wait_for(storing.wait(), 20)
        reading.cancel()
        await asyncio.wait([reading])
    await make_edit(notebook, Insert(source="new", index=2))
    texts = [cell["source"] for cell in cells_of(path)]
    assert texts == ["written by another program", "b", "new"]
    await notebooks.close()


async def test_a_page_is_released_though_closing_is_cancelled_as_it_stores_ids(
    contents: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.ipynb", [code("a", "a")])
    tabs = Tabs()
    notebooks = Notebooks(contents, tabs)
    await Tab(tabs, contents, "a.ipynb").open()
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Insert(source="new", index=1))
    link = tabs.find("a.ipynb")
    storing = asyncio.Event()

    async def note(*_: object) -> None:
        storing.set()
        await asyncio.sleep(0.5)

    monkeypatch.setattr(notebooks.namings, "note", note)
    assert link is not None
    assert link.document is not None
    closing = asyncio.create_task(notebook.close())
    await asyncio.wait_for(storing.wait(), 20)
    closing.cancel()
    await asyncio.wait([closing])
    assert link.document is None
    await notebooks.close()


@pytest.mark.parametrize("edit", [Delete(cell_id="d"), Move(cell_id="c", index=0)])
async def test_a_cell_that_somebody_wrote_again_is_still_the_same(
    contents: Any, write: Write, edit: Delete | Move
) -> None:
    """A deleted one is back by an undo in the page, and was empty."""
    path = write("a.ipynb", [code("a", "a"), code("b", "b"), code("c", "c = 1"), code("d", "")])
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")
    made = await make_edit(notebook, edit)
    now = [code("a", "a"), code("b", "b"), code("c", "import numpy"), code("d", "typed")]
    write("a.ipynb", now if isinstance(edit, Delete) else [now[2], *now[:2], now[3]])
    undone = await undo(notebook, made.changes)
    assert undone.conflicts == []
    assert [cell["id"] for cell in cells_of(path)] == ["a", "b", "c", "d"]
    assert [cell["source"] for cell in cells_of(path)][2:] == ["import numpy", "typed"]
    await notebooks.close()


@pytest.mark.parametrize(
    "edit",
    [Delete(cell_id="a"), Update(cell_id="a", type="markdown")],
    ids=["deleted", "another type"],
)
@pytest.mark.parametrize("ends", ["before the undo", "after the undo"])
async def test_outputs_of_a_run_that_loses_its_cell_do_not_return_as_if_complete(
    notebooks: Notebooks, write: Write, edit: Delete | Update, ends: str
) -> None:
    """If the run has not ended by then, it shows all of its outputs in the cell."""
    path = write("a.ipynb", [code("a", "train()"), code("z", "z")])
    notebook = await notebooks.get("a.ipynb")
    run = notebook.outputs("a")
    run.start()
    run.stream("stdout", "epoch 1\n")
    run.flush()
    made = await make_edit(notebook, edit)
    run.stream("stdout", "epoch 2\n")
    if ends == "before the undo":
        run.finish(1)
    undone = await undo(notebook, made.changes)
    assert undone.conflicts == []
    assert "is back with outputs of a run that had not ended" in undone.remarks[0]
    if ends == "after the undo":
        run.finish(1)
        await notebook.save()
    (cell, _) = cells_of(path)
    texts = ["".join(output["text"]) for output in cell["outputs"]]
    if ends == "before the undo":
        assert texts == ["epoch 1\n", CUT_OFF]
        assert cell["execution_count"] is None
    else:
        assert texts == ["epoch 1\nepoch 2\n"]
        assert cell["execution_count"] == 1


@pytest.mark.parametrize(
    "theirs",
    [
        lambda text: text + "\nmine = 1",
        lambda text: "# all of it\n# is new\n" * 5,
        lambda text: text.replace("new", "mine"),
    ],
    ids=["beside", "rewritten", "the same line"],
)
async def test_without_ids_a_cell_that_somebody_changed_since_is_known_after_a_restart(
    contents: Any, root: Path, theirs: Callable[[str], str]
) -> None:
    """By its text if it is similar, else by the cells around it: the program's change stays, and if
    it was to the same lines the cell itself is named, not called deleted.
    """
    path = root / "a.ipynb"
    sources = [f"first_{number} = {number}\nsecond_{number} = {number}" for number in range(5)]
    write_without_ids(path, [("code", source) for source in sources])
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")
    target = (await notebook.read())[2]
    edit = await make_edit(
        notebook, Update(cell_id=target.id, old_string="first_2", new_string="new")
    )
    changes = [Change.from_json(json.loads(json.dumps(each.to_json()))) for each in edit.changes]
    await notebooks.close()
    content = json.loads(path.read_text(encoding="utf-8"))
    now = theirs("".join(content["cells"][2]["source"]))
    content["cells"][2]["source"] = now
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    again = Notebooks(contents, Tabs(), namings=notebooks.namings)
    notebook = await again.get("a.ipynb")
    undone = await undo(notebook, changes)
    texts = [cell.source for cell in await notebook.read()]
    if now.endswith("mine = 1"):
        assert undone.conflicts == []
        assert texts == [*sources[:2], sources[2] + "\nmine = 1", *sources[3:]]
    else:
        (conflict,) = undone.conflicts
        assert (conflict["reason"], conflict["current"]["source"]) == ("changed", now)
        assert texts == [*sources[:2], now, *sources[3:]]
    await again.close()
