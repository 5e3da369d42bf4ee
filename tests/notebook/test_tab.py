"""A notebook that is open in a browser tab: the tab has the original, and no keystroke in it is
lost.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.utils import ensure_async
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.carriers.plain_files import PlainFiles
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import PROTOCOL, TabLink, Tabs
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.carrier import Place
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import Busy, NotConfirmed
from jupyter_agent.workspace.lease import lease
from tests.notebook.editing import make_edit
from tests.waiting import until

from .browser import Tab, is_edit
from .conftest import cells_of, code, markdown
from .play import Log
from .tool_user import Agent

Write = Callable[..., Path]
Loop = asyncio.AbstractEventLoop


@pytest.fixture
def tab(contents: Any, tabs: Tabs, write: Write, jp_asyncio_loop: Loop) -> Tab:
    write("a.ipynb", [code("a", "x = 1\ny = 2"), markdown("b", "# é😀"), code("c", "print(x)")])
    return jp_asyncio_loop.run_until_complete(Tab(tabs, contents, "a.ipynb").open())


@pytest.fixture
def notebook(tab: Tab, notebooks: Notebooks, jp_asyncio_loop: Loop) -> Notebook:
    return jp_asyncio_loop.run_until_complete(notebooks.get("a.ipynb"))


@pytest.fixture
def file(root: Path) -> Path:
    return root / "a.ipynb"


@pytest.fixture
def impatient(tabs: Tabs) -> None:
    """For a tab that does not answer, or does not return: no one waits for seconds then."""
    tabs.timeouts = Timeouts(attach=1.0, sync=0.3, save=0.3, reconnect=0.1)
    for link in tabs:
        link.timeouts = tabs.timeouts


async def test_a_save_that_the_tab_does_not_do_is_said(notebook: Notebook, tab: Tab) -> None:
    tab.deaf_to_saves = True
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert tab.source("a") == "x = 2\ny = 2"
    assert not edit.saved.saved
    assert "unsaved changes" in edit.saved.note


@pytest.mark.usefixtures("impatient")
async def test_a_path_that_led_elsewhere_for_a_moment_does_not_keep_an_edit_from_being_saved(
    notebook: Notebook, file: Path, write: Write, contents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.rename(file.with_name("first.ipynb"))
    write("second.ipynb", [code("a", "x = 2")])

    def lead_to(target: str) -> None:
        file.with_name("link").symlink_to(target)
        file.with_name("link").replace(file)

    lead_to("first.ipynb")
    get = contents.get

    async def misled(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        lead_to("second.ipynb")
        try:
            return await ensure_async(get(*given, **options))
        finally:
            lead_to("first.ipynb")

    await until(lambda: PlainFiles(contents).trace("a.ipynb"))
    monkeypatch.setattr(contents, "get", misled)
    await notebook.read()
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="5"))
    assert (edit.saved.saved, cells_of(file)[0]["source"]) == (True, "x = 5\ny = 2")


async def test_two_who_use_one_page_at_the_same_time_both_see_and_edit_it(
    notebook: Notebook, tab: Tab, contents: Any, tabs: Tabs
) -> None:
    """As for a moment after a rename, under the old path and the new one."""
    others = Notebooks(contents, tabs)
    other = await others.get("a.ipynb")
    await notebook.read()
    for number, each in enumerate((other, notebook, other, other, notebook), start=1):
        assert [cell.id for cell in await each.read()] == ["a", "b", "c"]
        edit = await make_edit(
            each, Update(cell_id="a", old_string=f"x = {number}", new_string=f"x = {number + 1}")
        )
        assert edit.saved.saved
    assert tab.source("a") == "x = 6\ny = 2"
    await others.close()


async def test_a_frozen_tab_is_busy_and_the_edit_is_taken_back_when_it_wakes(
    notebook: Notebook, tab: Tab, file: Path
) -> None:
    before = file.read_bytes()
    tab.freeze()
    with pytest.raises(Busy, match="does not answer"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    attempts = [
        make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2")),
        make_edit(notebook, Delete(cell_id="c")),
    ]
    for attempt in attempts:
        with pytest.raises(Busy):
            await attempt
    tab.type("a", "\n# mine")
    tab.thaw()
    assert (await notebook.cell("a")).source == "x = 1\ny = 2\n# mine"
    assert tab.source("a") == "x = 1\ny = 2\n# mine"
    assert tab.ids() == ["a", "b", "c"]
    assert file.read_bytes() == before


@pytest.mark.usefixtures("impatient")
async def test_an_edit_that_a_tab_froze_over_is_taken_back(notebook: Notebook, tab: Tab) -> None:
    await notebook.read()
    tab.as_the_edit_arrives(tab.freeze)
    with pytest.raises(Busy):
        await make_edit(notebook, Move(cell_id="a", index=2))
    assert tab.ids() != ["a", "b", "c"]
    tab.type("a", " # mine")
    tab.thaw()
    cells = await notebook.read()
    assert [cell.id for cell in cells] == tab.ids() == ["a", "b", "c"]


async def test_a_page_whose_socket_was_cut_goes_on_without_loss(
    notebook: Notebook, tab: Tab
) -> None:
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    tab.cut()
    tab.type("a", "\n# offline")
    asyncio.get_running_loop().call_soon(tab.connect)
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 2", new_string="x = 3"))
    assert tab.source("a") == "x = 3\ny = 2\n# offline"
    assert notebook.carrier == "tab"
    assert edit.saved.note == ""


def cut_at(tab: Tab, *, applied: bool, client: str | None = "page-1") -> None:
    """Cut the socket when the next edit arrives, before or after it is applied; then reconnect."""
    step = tab._take

    def take(frame: str | bytes) -> None:
        if not is_edit(frame):
            return step(frame)
        tab._take = step  # type: ignore[method-assign]
        if applied:
            step(frame)
        tab.cut()
        if client is not None:
            asyncio.get_running_loop().call_soon(tab.connect, client)

    tab._take = take  # type: ignore[method-assign]


@pytest.mark.parametrize("applied", [True, False], ids=["after it arrived", "before"])
async def test_an_edit_that_is_cut_off_is_done_and_leaves_no_copy(
    notebook: Notebook, tab: Tab, applied: bool
) -> None:
    cut_at(tab, applied=applied)
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert edit.saved.saved
    assert edit.cell is not None
    assert tab.source("a") == edit.cell.source == "x = 2\ny = 2"
    cut_at(tab, applied=applied)  # the copy may be there, the original not yet deleted
    await make_edit(notebook, Move(cell_id="a", index=2))
    assert [cell.id for cell in await notebook.read()] == tab.ids() == ["b", "c", "a"]
    cut_at(tab, applied=applied)
    await make_edit(notebook, Delete(cell_id="c"))
    assert [cell.id for cell in await notebook.read()] == tab.ids() == ["b", "a"]


@contextmanager
def cut_at_frames(tab: Tab, *frames: int, applied: bool) -> Iterator[None]:
    """In the block each connection in turn is cut at its frame of this number, before or after the
    frame is applied.
    """
    step, left, seen = tab._take, list(frames), 0

    def take(frame: str | bytes) -> None:
        nonlocal seen
        seen += 1
        if not left or seen < left[0]:
            return step(frame)
        if applied:
            step(frame)
        del left[0]
        seen = 0
        tab.cut()
        asyncio.get_running_loop().call_soon(tab.connect)

    tab._take = take  # type: ignore[method-assign]
    yield
    tab._take = step  # type: ignore[method-assign]
    tab.connect()


@pytest.mark.full
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("second", range(1, 8))
@pytest.mark.parametrize("first", range(1, 6))
async def test_an_edit_cut_off_twice_is_in_the_page_if_it_was_done_and_only_then(
    notebook: Notebook, tab: Tab, first: int, second: int, applied: bool
) -> None:
    await notebook.read()

    async def attempt(edit: Coroutine[Any, Any, object], done: Callable[[], bool]) -> None:
        with cut_at_frames(tab, first, second, applied=applied):
            try:
                await edit
            except Busy:
                expected = False
            else:
                expected = True
        await notebook.read()
        assert done() is expected

    await attempt(
        make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2")),
        lambda: "2" in tab.source("a")[:5],
    )
    await attempt(
        make_edit(notebook, Move(cell_id="a", index=2)), lambda: tab.ids()[:3] == ["b", "c", "a"]
    )
    await attempt(make_edit(notebook, Delete(cell_id="c")), lambda: "c" not in tab.ids())
    assert sorted({*tab.ids(), "c"}) == ["a", "b", "c"]
    assert [cell.id for cell in await notebook.read()] == tab.ids()


@pytest.mark.sample(40)
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("third", [1, 2, 3, 5])
@pytest.mark.parametrize("second", [1, 2, 3, 5])
@pytest.mark.parametrize("first", [1, 2, 3])
async def test_also_where_the_next_call_is_cut_off_an_edit_is_in_the_page_only_if_it_was_done(
    notebook: Notebook, tab: Tab, first: int, second: int, third: int, applied: bool
) -> None:
    await notebook.read()
    expected = True
    with cut_at_frames(tab, first, second, third, third, applied=applied):
        try:
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
        except Busy:
            expected = False
        for _ in range(3):
            with suppress(Busy):
                await notebook.read()
    await notebook.read()
    assert ("2" in tab.source("a")[:5]) is expected


@pytest.mark.usefixtures("impatient")
async def test_an_edit_that_was_refused_is_taken_back_also_where_only_the_edit_arrived(
    notebook: Notebook, tab: Tab
) -> None:
    await notebook.read()
    tab.as_the_edit_arrives(tab.freeze)
    with pytest.raises(Busy, match="nothing was changed"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert tab.source("a") == "x = 2\ny = 2"
    tab.cut()  # its withdrawal was on the way
    tab.thaw()
    tab.type("a", " # mine")
    tab.connect()  # and no one requests anything
    await until(lambda: tab.source("a") == "x = 1\ny = 2 # mine")


async def test_an_edit_that_is_cancelled_while_its_page_comes_back_is_taken_back_there(
    notebook: Notebook, tab: Tab
) -> None:
    cut_at(tab, applied=True, client=None)
    call = asyncio.create_task(
        make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    )
    await until(lambda: tab.source("a") == "x = 2\ny = 2")
    call.cancel()
    tab.connect()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert tab.source("a") == "x = 1\ny = 2"


def freeze_coming_back(tab: Tab) -> None:
    """Its connection is lost with the next edit; it gets that over the next one, and freezes."""
    step = tab._take
    edited = False

    def lose(frame: str | bytes) -> None:
        if not is_edit(frame):
            return step(frame)
        tab._take = freeze  # type: ignore[method-assign]
        tab.cut()
        asyncio.get_running_loop().call_soon(tab.connect)

    def freeze(frame: str | bytes) -> None:
        nonlocal edited
        if not edited or isinstance(frame, bytes):
            edited = edited or is_edit(frame)
            step(frame)
        if isinstance(frame, str) and edited:
            tab._take = step  # type: ignore[method-assign]
            tab.freeze()

    tab._take = lose  # type: ignore[method-assign]


@pytest.mark.usefixtures("impatient")
async def test_a_page_that_freezes_as_it_comes_back_is_followed_when_it_wakes(
    notebook: Notebook, tab: Tab
) -> None:
    freeze_coming_back(tab)
    with pytest.raises(Busy, match="nothing was changed"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert tab.source("a") == "x = 2\ny = 2"
    tab.thaw()
    tab.type("a", " # mine")
    assert (await notebook.cell("a")).source == "x = 1\ny = 2 # mine"
    assert tab.source("a") == "x = 1\ny = 2 # mine"
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="3"))
    assert tab.source("a") == "x = 3\ny = 2 # mine"


@pytest.mark.usefixtures("impatient")
async def test_a_refused_removal_is_not_taken_for_the_persons_own_when_the_page_wakes(
    notebook: Notebook, tab: Tab
) -> None:
    freeze_coming_back(tab)
    with pytest.raises(Busy, match="nothing was changed"):
        await make_edit(notebook, Delete(cell_id="a"))
    assert tab.ids() == ["b", "c"]
    tab.thaw()
    assert [cell.id for cell in await notebook.read()] == tab.ids() == ["a", "b", "c"]
    assert tab.source("a") == "x = 1\ny = 2"


@pytest.mark.usefixtures("impatient")
async def test_a_refused_edit_is_taken_back_once_the_person_has_left_the_cell(
    notebook: Notebook, tab: Tab
) -> None:
    await notebook.read()
    tab.as_the_edit_arrives(tab.freeze)
    with pytest.raises(Busy, match="nothing was changed"):
        await make_edit(
            notebook, Update(cell_id="a", type="markdown", old_string="1", new_string="2")
        )
    tab.edit_in("a")  # it wakes, and they arrive before the withdrawal of the edit
    tab.thaw()
    tab.type("a", " # mine")
    await notebook.read()
    assert tab.cell("a")["cell_type"] == "markdown"  # not replaced under their hands
    tab.edit_in("b")
    await until(lambda: tab.cell("a")["cell_type"] == "code")
    assert tab.source("a") == "x = 1\ny = 2 # mine"
    assert (await notebook.cell("a")).source == "x = 1\ny = 2 # mine"


async def test_what_is_typed_while_the_page_is_asked_is_not_taken_for_the_edits_own(
    notebook: Notebook, tab: Tab
) -> None:
    tab.as_the_edit_arrives(lambda: tab.type("a", " # mine"))
    edit = await make_edit(
        notebook, Update(cell_id="a", type="raw", old_string="x = 1", new_string="x = 2")
    )
    assert tab.source("a") == "x = 2\ny = 2 # mine"
    assert [change.after.source for change in edit.changes if change.after] == ["x = 2\ny = 2"]
    tab.as_the_edit_arrives(lambda: tab.type("a", ", too"))
    assert (await undo(notebook, edit.changes)).conflicts == []
    assert tab.source("a") == "x = 1\ny = 2 # mine, too"
    assert tab.cell("a")["cell_type"] == "code"


async def test_a_cell_that_the_person_runs_is_neither_moved_nor_retyped(
    notebook: Notebook, tab: Tab
) -> None:
    tab.own_runs.add("a")
    for attempt in (
        make_edit(notebook, Move(cell_id="a", index=2)),
        make_edit(notebook, Update(cell_id="a", type="raw")),
    ):
        with pytest.raises(Busy, match="running"):
            await attempt
    tab.edit_in("b", editing=False)
    with pytest.raises(Busy, match="running"):  # the user's current cell stays: the other moves
        await make_edit(notebook, Move(cell_id="b", index=0))
    assert tab.ids() == ["a", "b", "c"]
    assert (await notebook.cell("a")).type == "code"
    await make_edit(notebook, Delete(cell_id="c"))
    assert tab.ids() == ["a", "b"]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (None, " # mine"),
        (None, "\nmine = 4"),
        (10, "2"),
        (11, "\nmine = 4"),
        (0, "mine = 4\n"),
        (17, "0"),
    ],
)
async def test_an_edit_that_somebody_types_beside_at_the_same_moment_is_done(
    notebook: Notebook, tab: Tab, file: Path, at: int | None, text: str
) -> None:
    tab.as_the_edit_arrives(lambda: tab.type("a", text, at=at))
    edit = await make_edit(
        notebook, Update(cell_id="a", old_string="y = 2", new_string="y = 2\nz = 33")
    )
    assert [change.kind for change in edit.changes] == ["update"]
    assert cells_of(file)[0]["source"] == tab.source("a")
    for part in ("z = 3", text):
        assert part in tab.source("a")


Act = Callable[[Tab], object]


@pytest.mark.parametrize(
    ("before", "act", "old", "new", "text"),
    [
        (
            "x = 1\ny = 2",
            lambda tab: tab.erase("a", "x = 1\n"),
            "y = 2",
            "y = 2\nz = 3",
            "y = 2\nz = 3",
        ),
        ("x = 1\ny = 2", lambda tab: tab.type("a", " + 2", at=5), "\ny = 2", "", "x = 1 + 2"),
        (
            "WEEEEENW = 1",
            lambda tab: tab.type("a", "\nWEEEETGW", at=8),
            "WEEEEENW",
            "WEEEETQW",
            "WEEEETQW\nWEEEETGW = 1",
        ),
    ],
    ids=["deletes the text above it", "types where it deletes", "types nearly the same"],
)
async def test_an_edit_is_done_whatever_somebody_does_beside_it_at_the_same_moment(
    notebook: Notebook, tab: Tab, before: str, act: Act, old: str, new: str, text: str
) -> None:
    await make_edit(notebook, Update(cell_id="a", source=before, base="x = 1\ny = 2"))
    tab.as_the_edit_arrives(lambda: act(tab))
    assert (await make_edit(notebook, Update(cell_id="a", old_string=old, new_string=new))).changes
    assert tab.source("a") == text


async def test_an_edit_that_somebody_takes_away_at_the_same_moment_is_not_called_done_but_kept(
    notebook: Notebook, tab: Tab
) -> None:
    tab.as_the_edit_arrives(lambda: tab.erase("a", "\nz = 3"))
    with pytest.raises(NotConfirmed, match="is not in it now") as raised:
        await make_edit(
            notebook, Update(cell_id="a", old_string="y = 2", new_string="y = 2\nz = 3")
        )
    assert tab.source("a") == "x = 1\ny = 2"
    (change,) = raised.value.changes
    assert change.after.source == "x = 1\ny = 2\nz = 3"


@pytest.mark.parametrize(
    ("at", "old", "new", "edited"),
    [
        (0, "x", "total", "WETtotal = 1"),
        (1, "x", "total", "totalWET = 1"),
        (5, "1", "one", "x = oneWET"),
        (4, "1", "one", "x = WETone"),
    ],
    ids=["in-front", "behind", "behind-a-number", "in-front-of-a-number"],
)
async def test_a_word_that_somebody_types_against_one_that_is_replaced_stays_whole(
    notebook: Notebook, tab: Tab, at: int, old: str, new: str, edited: str
) -> None:
    """The edit comes when two of its letters are there, and the third goes where their cursor is
    then.
    """
    tab.type("a", "WE", at=at)
    cursor = tab.cursor("a", at + 2)
    tab.as_the_edit_arrives(lambda: tab.type("a", "T", at=cursor()))
    assert (await make_edit(notebook, Update(cell_id="a", old_string=old, new_string=new))).changes
    assert tab.source("a") == f"{edited}\ny = 2"


async def test_a_cell_is_inserted_and_edited_also_where_somebody_retypes_it_at_the_same_moment(
    notebook: Notebook, tab: Tab, file: Path
) -> None:
    tab.as_the_edit_arrives(lambda: tab.retype(tab.ids()[1]))
    inserted = await make_edit(notebook, Insert(source="# Found", after="a"))
    tab.as_the_edit_arrives(lambda: tab.retype("a"))
    edited = await make_edit(notebook, Update(cell_id="a", old_string="y = 2", new_string="y = 3"))
    assert [edit.changes[0].kind for edit in (inserted, edited)] == ["insert", "update"]
    assert [(cell["cell_type"], cell["source"]) for cell in cells_of(file)[:2]] == [
        ("markdown", "x = 1\ny = 3"),
        ("markdown", "# Found"),
    ]


@pytest.mark.parametrize(("index", "beside"), [(1, "below"), (0, "above")])
async def test_an_edit_that_somebody_splits_off_at_the_same_moment_is_found_in_the_cell_beside(
    notebook: Notebook, tab: Tab, index: int, beside: str
) -> None:
    def split() -> None:
        tab.erase("a", "y = 2\nz = 3")
        tab.insert_cell(index, beside, "y = 2\nz = 3")

    tab.as_the_edit_arrives(split)
    with pytest.raises(NotConfirmed, match=f"split it, and the edit is in cell `{beside}`"):
        await make_edit(
            notebook, Update(cell_id="a", old_string="y = 2", new_string="y = 2\nz = 3")
        )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("applied", [True, False])
async def test_after_a_reload_of_the_page_the_text_tells(
    notebook: Notebook, tab: Tab, applied: bool
) -> None:
    cut_at(tab, applied=applied, client="page-2")
    edit = make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    if applied:
        assert (await edit).changes
    else:
        with pytest.raises(NotConfirmed, match="x = 1") as raised:
            await edit
        assert not raised.value.changes  # that page never had them
    assert tab.source("a") == ("x = 2\ny = 2" if applied else "x = 1\ny = 2")


@pytest.mark.usefixtures("impatient")
async def test_an_edit_is_unknown_when_the_tab_is_gone_for_good(
    notebook: Notebook, tab: Tab, file: Path
) -> None:
    cut_at(tab, applied=True, client=None)
    with pytest.raises(NotConfirmed, match="unknown"):
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert (await notebook.cell("a")).source == "x = 1\ny = 2"
    assert notebook.carrier == "file"
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="5"))
    assert "unsaved work of that tab is not in it" in edit.saved.note
    assert cells_of(file)[0]["source"] == "x = 5\ny = 2"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("saved", [True, False])
async def test_of_a_tab_that_was_closed_only_unsaved_work_is_told(
    notebook: Notebook, tab: Tab, file: Path, saved: bool
) -> None:
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    tab.unsaved = not saved
    tab.cut()
    tab = await tab.open()  # says whether it has unsaved work
    await notebook.read()
    tab.leave()
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 2", new_string="x = 3"))
    assert notebook.carrier == "file"
    assert ("unsaved work of that tab" in edit.saved.note) is not saved
    assert cells_of(file)[0]["source"] == "x = 3\ny = 2"


@pytest.mark.usefixtures("impatient")
async def test_an_edit_as_the_tab_closes_is_made_in_the_file(
    notebook: Notebook, tab: Tab, file: Path
) -> None:
    await notebook.read()
    tab.freeze()
    edit = asyncio.create_task(
        make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    )
    await until(lambda: not tab.at_rest)  # it is asked for the text typed there
    tab.leave()
    assert (await edit).saved.saved
    assert notebook.carrier == "file"
    assert cells_of(file)[0]["source"] == "x = 2\ny = 2"


async def test_a_turn_in_a_notebook_without_cell_ids_is_undone_in_a_page_that_opened_it_later(
    notebooks: Notebooks, contents: Any, tabs: Tabs, root: Path
) -> None:
    old: Any = new_notebook(cells=[new_code_cell(f"x = {n}") for n in (1, 1, 2, 3)])
    old.nbformat_minor = 4
    for cell in old.cells:
        del cell["id"]
    nbformat.write(old, root / "old.ipynb")
    notebook = await notebooks.get("old.ipynb")
    _, second, third, fourth = [cell.id for cell in await notebook.read()]
    edits = [
        await make_edit(notebook, Update(cell_id=third, old_string="2", new_string="20")),
        await make_edit(notebook, Insert(source="new", after=second)),
        await make_edit(notebook, Delete(cell_id=fourth)),
    ]
    first_page = await Tab(tabs, contents, "old.ipynb").open()
    typed = first_page.ids()[0]
    assert typed not in [edit.changes[0].cell_id for edit in edits]
    first_page.type(typed, " # mine")
    edits.append(
        await make_edit(
            notebook, Update(cell_id=first_page.ids()[1], old_string="1", new_string="10")
        )
    )
    await notebooks.close()
    first_page.cut()
    page = await Tab(tabs, contents, "old.ipynb", client="page-2").open()  # every id is new
    undone = await undo(notebook, [change for edit in edits for change in edit.changes])
    assert notebook.carrier == "tab"
    assert undone.conflicts == []
    assert len(undone.undone) == 4
    assert [page.source(id) for id in page.ids()] == ["x = 1 # mine", "x = 1", "x = 2", "x = 3"]
    assert "id" not in cells_of(root / "old.ipynb")[0]


async def test_a_tab_that_opens_takes_over_from_the_file_with_the_outputs_of_a_run(
    notebooks: Notebooks, contents: Any, tabs: Tabs, write: Write
) -> None:
    file = write("b.ipynb", [code("a", "x")])
    notebook = await notebooks.get("b.ipynb")
    outputs = notebook.outputs("a")
    outputs.start()
    outputs.stream("stdout", "1")
    tab = await Tab(tabs, contents, "b.ipynb").open()
    tab.type("a", " # typed")
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x", new_string="y"))
    assert notebook.carrier == "tab"
    assert edit.saved.saved
    assert cells_of(file)[0]["source"] == tab.source("a") == "y # typed"
    outputs.stream("stdout", "2")
    outputs.finish(1)
    assert (await notebook.save()).saved
    text = {"output_type": "stream", "name": "stdout", "text": "12"}
    assert tab.cell("a")["outputs"].to_py() == [text]
    assert tab.cell("a")["execution_state"] == "idle"


@pytest.mark.usefixtures("impatient")
async def test_a_tab_that_closes_leaves_its_run_to_the_file(
    notebook: Notebook, tab: Tab, file: Path
) -> None:
    outputs = notebook.outputs("a")
    outputs.start()
    outputs.stream("stdout", "1")
    await notebook.save()
    tab.cut()
    outputs.stream("stdout", "2")
    outputs.finish(7)
    await notebook.save()
    assert notebook.carrier == "file"
    assert cells_of(file)[0]["outputs"][0]["text"] == ["12"]
    assert cells_of(file)[0]["execution_count"] == 7


async def test_a_page_that_comes_back_is_told_which_runs_are_over(
    notebook: Notebook, tab: Tab
) -> None:
    ended, going_on = notebook.outputs("a"), notebook.outputs("c")
    for run in (ended, going_on):
        run.start()
    ended.finish(1)
    tab.cut()
    tab.running = ["a", "c", "of another server"]
    tab.connect()
    await until(lambda: tab.running == ["c"])
    going_on.finish(2)


async def test_the_cell_under_the_cursor_is_not_taken_away(notebook: Notebook, tab: Tab) -> None:
    tab.edit_in("a")
    assert (await notebook.cell("a")).id == "a"
    assert notebook.place == Place("a", editing=True)
    with pytest.raises(Busy, match="typing in cell `a`"):
        await make_edit(notebook, Delete(cell_id="a"))
    with pytest.raises(Busy):
        await make_edit(notebook, Update(cell_id="a", type="markdown"))
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert tab.source("a") == "x = 2\ny = 2"


@pytest.mark.parametrize(("start", "index"), [("a", 2), ("c", 0), ("b", 2), ("b", 0)])
async def test_the_cell_the_user_is_in_stays_and_its_neighbours_move(
    notebook: Notebook, tab: Tab, start: str, index: int
) -> None:
    tab.edit_in(start, editing=False)
    under_the_cursor = tab.cell(start)["source"]
    await make_edit(notebook, Move(cell_id=start, index=index))
    assert tab.ids().index(start) == index
    others = [cell_id for cell_id in "abc" if cell_id != start]
    assert [cell_id for cell_id in tab.ids() if cell_id != start] == others
    under_the_cursor.insert(0, "typed ")
    assert tab.source(start).startswith("typed ")


async def test_each_transaction_is_one_structural_change(notebook: Notebook, tab: Tab) -> None:
    steps: list[list[str]] = []

    def follow(event: Any) -> None:
        steps.append([next(iter(step)) for step in event.delta if "retain" not in step])

    subscription = tab.notebook.ycells.observe(follow)
    await make_edit(notebook, Move(cell_id="a", index=2))
    await make_edit(notebook, Update(cell_id="b", type="raw"))
    tab.notebook.ycells.unobserve(subscription)
    assert steps == [["insert"], ["delete"]] * 2
    assert tab.ids() == ["b", "c", "a"]


async def test_a_tab_with_unsaved_work_takes_in_a_change_on_disk_beside_it(
    notebook: Notebook, tab: Tab, write: Write, file: Path
) -> None:
    tab.type("a", " # mine")
    write("a.ipynb", [code("a", "x = 1\ny = 2"), markdown("b", "pulled"), code("c", "print(x)")])
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    assert edit.saved.saved
    assert tab.source("a") == cells_of(file)[0]["source"] == "x = 2\ny = 2 # mine"
    assert tab.source("b") == cells_of(file)[1]["source"] == "pulled"


async def test_what_was_saved_in_one_tab_is_in_the_others_beside_their_unsaved_work(
    notebooks: Notebooks, contents: Any, tabs: Tabs, tab: Tab
) -> None:
    clean = await Tab(tabs, contents, "a.ipynb", client="page-2").open()
    dirty = await Tab(tabs, contents, "a.ipynb", client="page-3").open()
    dirty.type("a", " # theirs")
    notebook = await notebooks.get("a.ipynb", client="page-1")
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert tab.source("a") == clean.source("a") == "x = 2\ny = 2"
    assert dirty.source("a") == "x = 2\ny = 2 # theirs"
    await notebook.read()
    assert tab.source("a") == "x = 2\ny = 2 # theirs"


def lose(tab: Tab, tabs: Tabs) -> None:
    """Its connection is lost while it has unsaved work."""
    tabs.timeouts = Timeouts(reconnect=0.1)
    tab.link.unsaved = True
    tab.type("a", " # mine")
    tab.cut()


async def test_while_a_tab_with_unsaved_work_is_away_edits_are_refused_until_it_is_back(
    notebook: Notebook, tab: Tab, tabs: Tabs, file: Path
) -> None:
    lose(tab, tabs)
    for edit in (
        lambda: make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2")),
        lambda: make_edit(notebook, Move(cell_id="a", index=2)),
        lambda: make_edit(notebook, Delete(cell_id="c")),
    ):
        with pytest.raises(Busy, match="unsaved work and is away.*nothing was changed"):
            await edit()
    assert [cell.source for cell in await notebook.read()][0] == "x = 1\ny = 2"
    assert cells_of(file)[0]["source"] == "x = 1\ny = 2"
    tabs.timeouts = Timeouts(reconnect=60.0)
    editing = asyncio.create_task(
        make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    )
    await asyncio.wait([editing], timeout=0.05)  # it may return at any moment
    tab.unsaved = True
    tab.connect()
    await editing
    assert tab.source("a") == "x = 2\ny = 2 # mine"


async def test_an_edit_goes_into_the_file_while_a_tab_is_away_if_the_caller_says_so(
    notebooks: Notebooks, notebook: Notebook, tab: Tab, tabs: Tabs, file: Path
) -> None:
    lose(tab, tabs)
    await notebooks.get("a.ipynb", while_away="write")
    await make_edit(notebook, Update(cell_id="b", old_string="# ", new_string="# new "))
    assert cells_of(file)[1]["source"] == "# new é😀"
    tab.connect()
    assert [cell.source for cell in await notebook.read()][:2] == [
        "x = 1\ny = 2 # mine",
        "# new é😀",
    ]


@pytest.mark.parametrize("why", ["closed", "nothing to save", "gone for long"])
async def test_nobody_waits_for_a_tab_that_has_nothing_to_come_back_with(
    notebook: Notebook, tab: Tab, tabs: Tabs, file: Path, why: str
) -> None:
    tabs.timeouts = Timeouts(reconnect=0.1, away=0.0 if why == "gone for long" else 60.0)
    tab.link.unsaved = why != "nothing to save"
    tab.link.closed_by_user = why == "closed"
    tab.cut()
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert cells_of(file)[0]["source"] == "x = 2\ny = 2"


async def test_the_tab_with_the_chat_is_preferred_then_the_last_active_one(
    notebooks: Notebooks, contents: Any, tabs: Tabs, tab: Tab
) -> None:
    other = await Tab(tabs, contents, "a.ipynb", client="page-2").open()
    act(other)
    notebook = await notebooks.get("a.ipynb", client="page-1")
    await make_edit(notebook, Update(cell_id="c", old_string="x", new_string="first"))
    assert tab.source("c") == "print(first)"
    assert "attach" not in other.requests
    await notebooks.get("a.ipynb", client="page-2")
    await notebook.read()
    assert "attach" in other.requests
    assert tabs.find("a.ipynb") is other.link


async def go_to(tab: Tab, cell_id: str) -> None:
    """That cell is the active one, and the server knows it if the page says so."""
    tab.edit_in(cell_id)
    await until(lambda: not tab.tells_place or tab.link.cell_id == cell_id)


def act(tab: Tab) -> None:
    """An action of the user in that tab."""
    tab.link.receive(json.dumps({"op": "active"}))


async def test_without_a_chat_the_person_is_followed_from_tab_to_tab(
    notebooks: Notebooks, contents: Any, tabs: Tabs, tab: Tab
) -> None:
    other = await Tab(tabs, contents, "a.ipynb", client="page-2").open()
    notebook = await notebooks.get("a.ipynb")
    for here, away, word in ((tab, other, "one"), (other, tab, "two"), (tab, other, "three")):
        act(here)
        await go_to(away, away.ids()[len(word) - 3])  # as our edit there may lead it
        here.type("c", f" # {word}")
        assert f"# {word}" in (await notebook.read())[2].source
        await make_edit(notebook, Update(cell_id="a", old_string="x", new_string=f"{word}.x"))
    for each in (tab, other):
        assert each.source("a").startswith("one.two.three.x")
        assert all(word in each.source("c") for word in ("one", "two", "three"))


@pytest.mark.parametrize("why", ["unsaved work", "a run"])
async def test_a_tab_is_not_left_while_something_is_only_there(
    notebooks: Notebooks, contents: Any, tabs: Tabs, tab: Tab, why: str
) -> None:
    other = await Tab(tabs, contents, "a.ipynb", client="page-2").open()
    act(tab)
    notebook = await notebooks.get("a.ipynb")
    if why == "unsaved work":
        tab.link.unsaved = True
    outputs = notebook.outputs("a") if why == "a run" else None
    act(other)
    await make_edit(notebook, Update(cell_id="c", old_string="x", new_string="first"))
    assert "attach" not in other.requests
    assert tab.source("c") == "print(first)"
    assert outputs is None or not outputs.finished


async def test_a_run_that_a_person_approved_is_trusted_in_the_tab(
    notebook: Notebook, tab: Tab
) -> None:
    await notebook.trust("a")
    assert tab.cell("a")["metadata"].to_py() == {"trusted": True}


async def test_a_page_is_asked_no_more_often_than_it_takes(
    notebook: Notebook, tab: Tab, file: Path
) -> None:
    """It may be far away. A save is requested right behind the request that it waits for."""

    async def asked(work: Awaitable[object]) -> list[str]:
        tab.requests.clear()
        await work
        return tab.requests

    await notebook.read()
    edit = make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert await asked(edit) == ["sync", "sync", "save"]
    tab.edit_in("c")
    await until(lambda: notebook.place == Place("c", editing=False))  # it reports that unasked
    assert await asked(notebook.read_live()) == []
    writer = notebook.outputs("a")
    writer.start()
    writer.stream("stdout", "6")
    writer.finish(1)
    assert await asked(notebook.save()) == ["sync", "save"]
    assert await asked(notebook.trust("a")) == ["trust"]
    unchanged = make_edit(notebook, Update(cell_id="a", old_string="x = 2", new_string="x = 2"))
    assert await asked(unchanged) == ["sync", "sync", "save"]
    file.write_text(file.read_text().replace("print(x)", "print(y)"))
    assert await asked(notebook.read_live()) != []
    assert (await notebook.read_live())[2].source == "print(y)" == tab.source("c")


async def test_where_the_person_is_a_page_says_or_is_asked_and_a_cell_that_is_gone_is_nowhere(
    notebooks: Notebooks, contents: Any, tabs: Tabs, tab: Tab
) -> None:
    tab.leave()
    older = Tab(tabs, contents, "a.ipynb", client="page-0")
    older.tells_place = False
    work = Agent(notebooks, "a.ipynb", Log(), random.Random(0)).work

    async def seen(page: Tab) -> str | None:
        async with lease(replace(work, client=page.client), None) as nb:
            place = (await nb.look()).place
        return place and place.cell_id

    for page in (await older.open(), await Tab(tabs, contents, "a.ipynb", "page-2").open()):
        for cell_id in ("a", "c"):
            await go_to(page, cell_id)
            assert await seen(page) == cell_id
    page.delete_cell("c")
    await page.save()
    assert page.link.cell_id == "c"
    assert await seen(page) is None


async def test_a_page_that_read_the_file_before_we_wrote_it_has_what_we_wrote_as_it_connects(
    notebook: Notebook, tab: Tab, contents: Any, tabs: Tabs, impatient: None
) -> None:
    tab.cut()
    page = Tab(tabs, contents, "a.ipynb", "page-2")
    await page.revert()
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert notebook.carrier == "file"
    page.connect()
    await until(lambda: page.source("a") == "x = 2\ny = 2")
    assert not page.dirty


async def test_a_closed_notebook_sends_no_more_typing(
    notebooks: Notebooks, notebook: Notebook, tab: Tab
) -> None:
    await notebooks.close()
    await until(lambda: "detach" in tab.requests)
    assert notebooks.open() == []
    assert (await notebook.cell("a")).source == "x = 1\ny = 2"


@pytest.mark.full
async def test_an_edit_that_fails_takes_back_nothing_of_the_edit_before(
    notebook: Notebook, tab: Tab
) -> None:
    """Also if both were made in one opening."""
    async with notebook.hold():
        await make_edit(notebook, Delete(cell_id="c"))
        tab.freeze()
        with pytest.raises(Busy):
            await make_edit(notebook, Insert(source="y = 2"))
    tab.thaw()
    assert [cell.id for cell in await notebook.read()] == ["a", "b"] == tab.ids()


@pytest.mark.parametrize("wrong", [{"protocol": PROTOCOL - 1}, {"version": "1.0.0"}])
async def test_the_notebook_of_a_page_from_before_an_update_is_left_alone(
    notebooks: Notebooks, tabs: Tabs, write: Write, wrong: dict[str, Any]
) -> None:
    """Its work may be unsaved, and it cannot be asked for anything."""
    file = write("a.ipynb", [code("a", "x = 1")])
    before = file.read_bytes()
    sent: list[str | bytes] = []
    hello = {"protocol": PROTOCOL, "version": "2.0.0", "path": "a.ipynb", "client": "c"}
    tabs.add(page := TabLink(sent.append, {**hello, **wrong}))
    with pytest.raises(Busy, match="reload that page"):
        await notebooks.get("a.ipynb")
    assert file.read_bytes() == before
    assert not sent
    page.close()
    tabs.discard(page)
    notebook = await notebooks.get("a.ipynb")
    assert (
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    ).saved.saved
