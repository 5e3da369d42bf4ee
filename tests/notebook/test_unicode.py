"""Every character arrives as it was, whichever way a cell is edited."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.cell import Change
from jupyter_agent.document.edit_result import Edit
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import (
    Delete,
    Insert,
    Move,
    Update,
)
from jupyter_agent.document.undo import undo
from tests.notebook.editing import make_edit

from .browser import Tab
from .conftest import code, markdown

Write = Callable[..., Path]
TEXTS = {
    "CRLF": "a\r\nb\r\n",
    "lone CR": "a\rb\r",
    "mixed line ends": "a\nb\r\nc\rd\x0be\x0cf\x1cg\x85h",
    "line and paragraph separators": "a\u2028b\u2029c",
    "combining": "e\u0301 n\u0303 " + "o" + "\u0302\u0323" * 20,
    "not normalised": "\u212b \u00c5 A\u030a \ufb01",
    "astral": "😀 𝒳 = 𠀀 # 🏳️‍🌈👩‍👩‍👧",
    "right to left": "x = 'שלום' # مرحبا \u202etxt\u202c\u200f",
    "zero width": "a\u200bb\u200dc\ufeffd",
    "NUL and escapes": "a\x00b\x1b[31mc\x7f",
    "no characters": "\uffff\ufffe\U0010ffff",
    "private use": "\ue000\U000f0000",
    "indented by tabs": "\tif x:\n\t\ty\u00a0= 1",
    "empty lines": "\n\n\n",
}
ALPHABET = "ab \n\r\t\u2028\u0301é😀𝒳שم\u200d\x00\x85\uffff"


def in_a_cell(text: str) -> str:
    """The text as a cell gets it: its lines end with one character, as an editor counts."""
    return re.sub("\r+\n", "\n", text)


def stored(path: Path) -> dict[str, str]:
    """The sources in the file, by cell id; read as bytes, so that nothing is translated."""
    cells = json.loads(path.read_bytes().decode())["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells}


async def through_all_edits(notebook: Notebook, text: str, path: Path) -> None:
    """Bring the text into cells by every kind of edit, and check each in the file."""
    given, text = text, in_a_cell(text)
    made = await make_edit(notebook, Insert(source=given, index=0))
    assert made.cell is not None
    cell_id = made.cell.id
    assert stored(path)[cell_id] == text

    await make_edit(
        notebook, Update(cell_id="a", source=given, base=notebook.cached_cell("a").source)
    )
    assert stored(path)["a"] == text

    await make_edit(notebook, Update(cell_id="b", old_string="HERE", new_string=given))
    assert stored(path)["b"] == f"é😀{text}😀é"
    await make_edit(notebook, Update(cell_id="b", old_string=f"😀{given}😀", new_string="HERE"))
    assert stored(path)["b"] == "éHEREé"

    # Someone added a line at the end since; both are in it.
    base = f"one\ntwo\n{given}"
    await make_edit(
        notebook, Update(cell_id="c", source=base, base=notebook.cached_cell("c").source)
    )
    await make_edit(notebook, Update(cell_id="c", source=f"{base}\nend", base=base))
    merged = await make_edit(
        notebook, Update(cell_id="c", source=f"{given}\ntwo\n{given}", base=base)
    )
    assert merged.merged
    assert stored(path)["c"] == in_a_cell(f"{given}\ntwo\n{given}\nend")

    for kind in ("markdown", "raw", "code"):
        await make_edit(notebook, Update(cell_id="a", type=kind))
        assert stored(path)["a"] == text
    await make_edit(notebook, Move(cell_id="a", index=0))
    assert stored(path)["a"] == text

    gone = await make_edit(notebook, Delete(cell_id="a"))
    assert "a" not in stored(path)
    assert (await undo(notebook, gone.changes)).conflicts == []
    assert stored(path)["a"] == text

    replaced = await make_edit(notebook, Update(cell_id="a", source="other", base=text))
    assert (await undo(notebook, replaced.changes)).conflicts == []
    assert stored(path)["a"] == text

    outputs = notebook.outputs("a")
    outputs.start()
    outputs.display({"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}})
    outputs.finish(1)
    await notebook.save()
    assert notebook.cached_cell("a").outputs[0]["data"]["text/plain"] == text
    assert notebook.cached_cell(cell_id).source == text


@pytest.mark.sample(10)
@pytest.mark.parametrize("carrier", [pytest.param("file", marks=pytest.mark.full), "tab"])
@pytest.mark.parametrize("name", list(TEXTS))
async def test_a_text_survives_every_edit(
    notebooks: Notebooks, contents: Any, tabs: Tabs, write: Write, name: str, carrier: str
) -> None:
    cells = [code("a", "x"), code("b", "é😀HERE😀é"), markdown("c", "", metadata={"k": "é😀"})]
    path = write("a.ipynb", cells)
    tab = await Tab(tabs, contents, "a.ipynb").open() if carrier == "tab" else None
    notebook = await notebooks.get("a.ipynb")
    await through_all_edits(notebook, TEXTS[name], path)
    assert notebook.carrier == carrier
    assert tab is None or tab.source("a") == in_a_cell(TEXTS[name])


async def test_a_file_with_these_texts_is_read_and_written_as_it_is(
    notebooks: Notebooks, write: Write
) -> None:
    path = write("a.ipynb", [code(f"t{n}", text) for n, text in enumerate(TEXTS.values())])
    before = path.read_bytes()
    notebook = await notebooks.get("a.ipynb")
    assert [cell.source for cell in await notebook.read()] == [*map(in_a_cell, TEXTS.values())]
    await notebook.save()
    assert path.read_bytes() == before
    await make_edit(notebook, Insert(source="new"))
    lines = set(path.read_bytes().splitlines())
    assert all(
        line.rstrip(b",") in {kept.rstrip(b",") for kept in lines} for line in before.splitlines()
    )


WINDOWS = "a = 1\r\nb = 2\r\nc = 3"
MIXED = "a = 1\r\nb = 2\nc = 3\r\n\r\nd = 4"


async def test_a_file_keeps_its_own_line_ends(notebooks: Notebooks, write: Write) -> None:
    cells = [code("w", WINDOWS), code("m", MIXED), code("u", "a = 1\nb = 2"), code("one", "x")]
    path = write("a.ipynb", cells)
    notebook = await notebooks.get("a.ipynb")
    seen = {cell.id: cell for cell in await notebook.read()}
    assert seen["m"].source == "a = 1\nb = 2\nc = 3\n\nd = 4"
    await make_edit(
        notebook, Update(cell_id="w", source="a = 1\nb = 22\nb2 = 0\nc = 3", base=WINDOWS)
    )
    assert stored(path)["w"] == "a = 1\r\nb = 22\r\nb2 = 0\r\nc = 3"
    edit = await make_edit(
        notebook, Update(cell_id="m", old_string="c = 3\n\n", new_string="c = 5\r\n\ne = 6\n")
    )
    assert stored(path)["m"] == "a = 1\r\nb = 2\nc = 5\r\n\r\ne = 6\r\nd = 4"
    await undo(notebook, edit.changes)
    assert stored(path)["m"] == MIXED
    await make_edit(notebook, Update(cell_id="one", source="x\r\ny", expect=seen["one"].version))
    assert stored(path)["one"] == "x\ny"
    assert stored(path)["u"] == "a = 1\nb = 2"


UNDONE: dict[str, tuple[list[str], Callable[[Notebook], Awaitable[list[Edit]]]]] = {
    "a cell of several": (
        [WINDOWS, "# T\r\n\r\ntext"],
        lambda nb: nb.make([Update(cell_id="c0", old_string="2\nc", new_string="2\nd\nc")]),
    ),
    "the last lines of the notebook": (
        [WINDOWS],
        lambda nb: nb.make([Update(cell_id="c0", source="x", base=WINDOWS)]),
    ),
    "the only cell that has lines": (
        [WINDOWS, "x"],
        lambda nb: nb.make([Delete(cell_id="c0"), Insert(source="new\ncell", index=0)]),
    ),
    "a cell among others": (
        ["a\nb", WINDOWS, "c\nd"],
        lambda nb: nb.make([Delete(cell_id="c1")]),
    ),
    "the only such line of a cell": (
        ["a\nb\r\nc\nd"],
        lambda nb: nb.make([Update(cell_id="c0", old_string="b\n", new_string="")]),
    ),
    "twice, and retyped": (
        [MIXED, "a\nb"],
        lambda nb: nb.make(
            [
                Update(cell_id="c0", old_string="c = 3\n\n", new_string="", type="markdown"),
                Move(cell_id="c0", index=1),
                Update(cell_id="c0", old_string="a = 1\nb = 2\n", new_string=""),
            ]
        ),
    ),
}


@pytest.mark.parametrize("name", list(UNDONE))
async def test_an_undo_brings_the_line_ends_back(contents: Any, write: Write, name: str) -> None:
    """Also after a restart of the server."""
    texts, edit = UNDONE[name]
    path = write("a.ipynb", [code(f"c{n}", text) for n, text in enumerate(texts)])
    before = stored(path)
    notebooks = Notebooks(contents, Tabs())
    edits = await edit(await notebooks.get("a.ipynb"))
    await notebooks.close()
    assert stored(path) != before
    journal = [json.dumps(change.to_json()) for each in edits for change in each.changes]
    notebooks = Notebooks(contents, Tabs())
    changes = [Change.from_json(json.loads(entry)) for entry in journal]
    assert (await undo(await notebooks.get("a.ipynb"), changes)).conflicts == []
    assert stored(path) == before
    await notebooks.close()


async def test_new_lines_in_a_notebook_of_windows_lines_end_as_the_others(
    notebooks: Notebooks, write: Write
) -> None:
    path = write("a.ipynb", [code("w", WINDOWS), code("one", "x")])
    notebook = await notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="one", source="x\ny", base="x"))
    await make_edit(notebook, Insert(source="new\ncell", index=0))
    assert [*stored(path).values()] == ["new\r\ncell", WINDOWS, "x\r\ny"]


async def test_a_program_that_changes_the_line_ends_of_a_file_changes_no_cell(
    notebooks: Notebooks, write: Write
) -> None:
    path = write("a.ipynb", [code("a", WINDOWS)])
    notebook = await notebooks.get("a.ipynb")
    (cell,) = await notebook.read()
    path.write_text(path.read_text(encoding="utf-8").replace("\\r\\n", "\\n"), encoding="utf-8")
    edit = await make_edit(
        notebook, Update(cell_id="a", source="a = 1\nb = 2\nc = 4", expect=cell.version)
    )
    assert stored(path)["a"] == "a = 1\nb = 2\nc = 4"
    assert not edit.merged
    path.write_text(path.read_text(encoding="utf-8").replace("\\n", "\\r\\n"), encoding="utf-8")
    assert (await undo(notebook, edit.changes)).conflicts == []
    assert stored(path)["a"] == WINDOWS


@pytest.mark.parametrize(
    ("seed", "times"), [(1, 25), pytest.param(2, 3000, marks=pytest.mark.long)]
)
async def test_texts_made_at_random(contents: Any, write: Write, seed: int, times: int) -> None:
    """Rewrites of one random text into another, whose parts are alike: small operations."""
    source = random.Random(seed)
    path = write("a.ipynb", [code("a", "")])
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")
    text = ""
    for number in range(times):
        kept = "".join(char for char in text if source.random() < 0.8)
        at = source.randrange(len(kept) + 1)
        new = kept[:at] + "".join(source.choices(ALPHABET, k=source.randrange(12))) + kept[at:]
        if source.random() < 0.1:
            new = unicodedata.normalize(source.choice(["NFC", "NFD"]), new)
        await make_edit(notebook, Update(cell_id="a", source=new, base=text))
        new = in_a_cell(new)
        assert stored(path)["a"] == new, f"seed {seed}, step {number}: {text!r} -> {new!r}"
        text = in_a_cell(new[:200])
        await make_edit(notebook, Update(cell_id="a", source=text, base=new))
    await notebooks.close()
