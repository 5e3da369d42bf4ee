"""Keystrokes that cross an edit on the way: typed into a cell that the edit has just removed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_ydoc import YNotebook
from pycrdt import Map, Text, XmlElement, XmlFragment

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import Busy, NotConfirmed
from jupyter_agent.plugs.rooms.room_shadow import Shadow
from tests.notebook.editing import make_edit
from tests.waiting import until

from . import rooms
from .browser import Tab, is_edit
from .conftest import cells_of, code, notebook_json

Write = Callable[..., Path]


@pytest.fixture
def tab(
    contents: Any,
    tabs: Tabs,
    write: Write,
    meanwhile: Meanwhile,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Tab:
    write("a.ipynb", [code("a", "x = 1"), code("b", "y = 2\nz = 3"), code("c", "")])
    return jp_asyncio_loop.run_until_complete(Tab(tabs, contents, "a.ipynb").open())


@pytest.fixture
def notebook(
    notebooks: Notebooks, tab: Tab, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Notebook:
    return jp_asyncio_loop.run_until_complete(notebooks.get("a.ipynb"))


class Meanwhile:
    """An action of the user when an edit is made and on its way to the tab."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._action: Callable[[], object] | None = None
        take = Tab._to_tab

        def to_tab(tab: Tab, frame: str | bytes) -> None:
            if self._action is not None and is_edit(frame):
                action, self._action = self._action, None
                action()
            take(tab, frame)

        monkeypatch.setattr(Tab, "_to_tab", to_tab)

    def do(self, action: Callable[[], object]) -> None:
        self._action = action


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)


async def test_what_is_typed_into_a_cell_while_it_moves_moves_with_it(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile, root: Path
) -> None:
    def switch_and_type() -> None:
        tab.edit_in("b")
        tab.type("b", " # é😀 mine", 5)
        tab.type("b", "\nmore")

    meanwhile.do(switch_and_type)
    edit = await make_edit(notebook, Move(cell_id="b", index=0))
    typed = "y = 2 # é😀 mine\nz = 3\nmore"
    assert tab.ids() == ["b", "a", "c"]
    assert tab.source("b") == typed == notebook.cached_cell("b").source
    assert edit.saved.saved
    assert cells_of(root / "a.ipynb")[0]["source"] == typed
    assert (await undo(notebook, edit.changes)).conflicts == []
    assert tab.ids() == ["a", "b", "c"]
    assert tab.source("b") == typed


async def test_what_is_typed_into_a_cell_while_it_gets_another_type_stays(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile
) -> None:
    meanwhile.do(lambda: tab.type("b", "mine = 4\n", 0))
    await make_edit(
        notebook, Update(cell_id="b", type="markdown", old_string="y = 2", new_string="y = 22")
    )
    assert tab.source("b") == "mine = 4\ny = 22\nz = 3"
    assert tab.cell("b")["cell_type"] == "markdown"


async def test_a_cell_in_which_the_person_begins_to_type_is_not_deleted(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile, root: Path
) -> None:
    meanwhile.do(lambda: tab.type("b", "\nmine"))
    with pytest.raises(Busy, match="began to type in cell `b`"):
        await make_edit(notebook, Delete(cell_id="b"))
    assert tab.ids() == ["a", "b", "c"]
    assert tab.source("b") == "y = 2\nz = 3\nmine"
    cells = await notebook.read()
    assert [cell.source for cell in cells] == ["x = 1", "y = 2\nz = 3\nmine", ""]
    await tab.save()
    assert cells_of(root / "a.ipynb")[1]["source"] == "y = 2\nz = 3\nmine"


async def test_a_cell_that_the_person_deletes_while_it_moves_does_not_come_back(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile
) -> None:
    meanwhile.do(lambda: tab.delete_cell("b"))
    with pytest.raises(NotConfirmed, match="deleted at the same moment"):
        await make_edit(notebook, Move(cell_id="b", index=0))
    assert tab.ids() == ["a", "c"]
    assert [cell.id for cell in await notebook.read()] == ["a", "c"]


async def test_typing_beside_an_undo_that_moves_and_deletes_stays(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile
) -> None:
    new = await make_edit(notebook, Insert(source="new", index=0))
    moved = await make_edit(notebook, Move(cell_id="c", index=0))
    meanwhile.do(lambda: tab.type("c", "mine"))
    assert (await undo(notebook, [*new.changes, *moved.changes])).conflicts == []
    assert tab.ids() == ["a", "b", "c"]
    assert tab.source("c") == "mine"


async def take_away(notebook: Notebook, how: str) -> None:
    match how:
        case "moved":
            await make_edit(notebook, Move(cell_id="b", index=0))
        case "retyped":
            await make_edit(notebook, Update(cell_id="b", type="markdown"))
        case "deleted":
            await make_edit(notebook, Delete(cell_id="b"))


takings = pytest.mark.parametrize("how", ["moved", "retyped", "deleted"])


@pytest.mark.full
@takings
async def test_what_is_typed_in_a_page_that_freezes_before_it_has_the_edit_stays(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile, how: str
) -> None:
    def freeze_and_type() -> None:
        tab.link.timeouts = Timeouts(sync=0.05)
        tab.freeze()
        tab.type("b", "\nmine")

    meanwhile.do(freeze_and_type)
    with pytest.raises(Busy, match="does not answer"):
        await take_away(notebook, how)
    tab.link.timeouts = Timeouts(sync=20.0)
    tab.thaw()
    await until(lambda: not tab.behind and "b" in tab.ids() and "mine" in tab.source("b"))
    await notebook.read()
    assert tab.ids() == ["a", "b", "c"]
    assert tab.source("b") == "y = 2\nz = 3\nmine" == notebook.cached_cell("b").source
    assert tab.cell("b")["cell_type"] == "code"


@takings
async def test_what_is_typed_while_the_socket_is_cut_in_the_midst_of_an_edit_stays(
    tab: Tab, notebook: Notebook, meanwhile: Meanwhile, how: str
) -> None:
    def cut_and_type() -> None:
        tab.cut()
        tab.type("b", "\nmine")
        asyncio.get_running_loop().call_later(0.01, tab.connect)

    if how == "deleted":  # nothing of it arrives, else its first frame
        meanwhile.do(lambda: asyncio.get_running_loop().call_soon(cut_and_type))
    else:
        meanwhile.do(cut_and_type)
    with contextlib.suppress(Busy):
        await take_away(notebook, how)
    await until(lambda: "b" in tab.ids() and "mine" in tab.source("b"))
    await notebook.read()
    assert sorted(tab.ids()) == ["a", "b", "c"]
    assert tab.source("b") == "y = 2\nz = 3\nmine" == notebook.cached_cell("b").source


@pytest.mark.parametrize("retyped", [False, True], ids=["moved", "retyped"])
async def test_what_is_typed_in_a_room_into_a_cell_that_is_taken_away_stays(
    room_server: rooms.RoomServer,
    room_notebooks: Notebooks,
    monkeypatch: pytest.MonkeyPatch,
    retyped: bool,
) -> None:
    path = room_server.root / "a.ipynb"
    path.write_text(notebook_json([code("a", "x = 1"), code("b", "y = 2")]), encoding="utf-8")
    first, second = [await rooms.Person(room_server, "a.ipynb").open() for _ in range(2)]
    notebook = await room_notebooks.get("a.ipynb")
    expect_removal = Shadow.expect_removal

    def typing(shadow: Shadow) -> None:
        """Both type before they have the edit, and the room has it before their typing."""
        expect_removal(shadow)
        first.type("b", "# é first\n", 0)
        second.type("b", "\n# second")

    monkeypatch.setattr(Shadow, "expect_removal", typing)
    if retyped:
        await make_edit(notebook, Update(cell_id="b", type="markdown"))
    else:
        await make_edit(notebook, Move(cell_id="b", index=0))
    text = "# é first\ny = 2\n# second"
    assert notebook.cached_cell("b").source == text
    for person in (first, second):
        await person.sync()
        assert person.source("b") == text
        assert person.ids() == (["a", "b"] if retyped else ["b", "a"])


async def test_a_cell_in_a_room_in_which_somebody_begins_to_type_is_not_deleted(
    room_server: rooms.RoomServer, room_notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = room_server.root / "a.ipynb"
    path.write_text(notebook_json([code("a", "x = 1"), code("b", "y = 2")]), encoding="utf-8")
    person = await rooms.Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    expect_removal = Shadow.expect_removal

    def typing(shadow: Shadow) -> None:
        expect_removal(shadow)
        person.type("b", "\nmine")

    monkeypatch.setattr(Shadow, "expect_removal", typing)
    with pytest.raises(Busy, match="began to type in cell `b`"):
        await make_edit(notebook, Delete(cell_id="b"))
    await person.sync()
    assert [cell.source for cell in await notebook.read()] == ["x = 1", "y = 2\nmine"]
    assert person.source("b") == "y = 2\nmine"


@pytest.fixture
def shared(room_server: rooms.RoomServer, tabs: Tabs) -> Path:
    """The file of a notebook in a room that does not wait long for pages."""
    tabs.timeouts.page = 0.1
    path = room_server.root / "a.ipynb"
    path.write_text(notebook_json([code("a", "x = 1"), code("b", "y = 2")]), encoding="utf-8")
    return path


@pytest.mark.sample(6)
@takings
@pytest.mark.parametrize(
    ("away", "ended"),
    [(False, ""), (False, "notebook"), (True, ""), (True, "notebook"), (True, "server")],
)
async def test_what_a_page_that_does_not_answer_types_into_a_cell_that_is_gone_is_brought_over(
    room_server: rooms.RoomServer,
    room_notebooks: Notebooks,
    shared: Path,
    how: str,
    away: bool,
    ended: str,
) -> None:
    person = await rooms.Person(room_server, "a.ipynb").open()
    other = await rooms.Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    if away:
        person.cut()
    else:
        person.frozen = True
    await take_away(notebook, how)
    assert ("b" in other.ids()) == (how != "deleted")
    if ended:
        await notebook.close()
    if ended == "server":
        other.cut()
        await room_server.end("a.ipynb")
        await other.connect()
    person.type("b", "# é😀 first\n", 0)
    person.type("b", "\n# second")
    if away:
        await person.connect()
    else:
        person.thaw()
    text = "# é😀 first\ny = 2\n# second"
    async with asyncio.timeout(20):
        while "b" not in other.ids() or other.source("b") != text:
            await other.sync()
    await person.sync()
    await notebook.read()
    for screen in (person, other):
        assert screen.ids() == (["b", "a"] if how == "moved" else ["a", "b"])
        assert screen.source("b") == text
    assert {cell["id"]: cell["source"] for cell in cells_of(shared)} == {"a": "x = 1", "b": text}


async def test_two_pages_that_come_back_one_after_the_other_lose_nothing(
    room_server: rooms.RoomServer, room_notebooks: Notebooks, shared: Path
) -> None:
    pages = [await rooms.Person(room_server, "a.ipynb").open() for _ in range(2)]
    notebook = await room_notebooks.get("a.ipynb")
    for number, page in enumerate(pages):
        page.cut()
        page.type("b", f"\n# of {number}")
    await make_edit(notebook, Move(cell_id="b", index=0))
    await make_edit(notebook, Update(cell_id="b", type="markdown"))
    await make_edit(notebook, Update(cell_id="b", old_string="y = 2", new_string="y = 3"))
    for page in pages:
        await page.connect()
        await notebook.read()
    for page in pages:
        await page.sync()
        assert page.ids() == ["b", "a"]
        assert sorted(page.source("b").split("\n")) == ["# of 0", "# of 1", "y = 3"]


async def test_what_somebody_deletes_while_it_moves_is_deleted(
    room_server: rooms.RoomServer, room_notebooks: Notebooks, shared: Path
) -> None:
    person = await rooms.Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    person.frozen = True
    await make_edit(notebook, Move(cell_id="b", index=0))
    person.delete_cell("b")
    person.thaw()
    async with asyncio.timeout(20):
        while [cell.id for cell in await notebook.read()] != ["a"]:
            await person.sync()
    await person.sync()
    assert person.ids() == ["a"]


async def test_a_room_is_held_for_pages_that_are_away_and_then_let_go(
    room_server: rooms.RoomServer,
    room_notebooks: Notebooks,
    shared: Path,
    tabs: Tabs,
) -> None:
    room_server.extension.document_cleanup_delay = 0
    notebook = await room_notebooks.get("a.ipynb")
    await make_edit(notebook, Delete(cell_id="b"))
    await notebook.close()
    inside = room_server.room("a.ipynb")
    assert len(inside.clients) == 1
    tabs.timeouts.offline = 0.0
    notebook = await room_notebooks.get("a.ipynb")
    await make_edit(notebook, Delete(cell_id="a"))
    await notebook.close()
    await until(lambda: not room_server.rooms)
    assert inside.on_message is None


def test_what_is_no_update_of_a_notebook_does_no_harm() -> None:
    document = YNotebook()
    document.ycells.append(Map({"id": "a", "source": Text("x")}))
    shadow = Shadow(document)
    for garbage in (b"", b"\x01\x02\x03", b"\xff" * 9):
        shadow.apply_client_update(garbage)
        shadow.apply_client_update(garbage, answer=True)
    strange = document.ydoc.get("strange", type=XmlFragment)
    strange.children.append(XmlElement("p"))
    with document.ydoc.transaction():
        strange.children.append(XmlElement("q"))
        del strange.children[0]
    shadow.expect_removal()
    del document.ycells[0]
    assert [(removed.cell_id, removed.now) for removed in shadow.removed] == [("a", "x")]
    assert shadow.pending() == {}
    shadow.close()
