"""Saves, renames and reloads of an open notebook, in every order: typing stays in the tab, and
reaches its file.
"""

from __future__ import annotations

import os
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Route

from tests.ui.conftest import OpenPage, new_file
from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

RENAMES_IN_A_ROW = 10
RENAMES = {
    "notebook": "([path, name]) => void agentTest.panel(path).context.rename(name)",
    "file browser": (
        "([path, name]) => void jupyterapp.serviceManager.contents.rename(path, name)"
    ),
}


@pytest.fixture
def quiet(notebook: OpenNotebook) -> OpenNotebook:
    """A linked notebook without unsaved changes."""
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    notebook.save()
    assert not notebook.dirty()
    return notebook


class Held:
    """Requests of the page to the contents API that do not reach the server until `let_go`."""

    def __init__(self, notebook: OpenNotebook, method: str, query: str = "") -> None:
        self._routes: list[Route] = []
        self._notebook = notebook
        self._method, self._query = method, query
        self.seen: list[str] = []
        """The methods of all writing requests since, in order."""
        notebook.page.route("**/api/contents/**", self._take)

    def wait(self) -> None:
        eventually(self.pump, lambda _: self._routes)

    def pump(self) -> None:
        """Lets playwright call `_take`."""
        self._notebook.page.wait_for_timeout(10)

    def let_go(self) -> None:
        for route in self._routes:
            route.continue_()
        self._notebook.page.unroute("**/api/contents/**")

    def _is_asked_for(self, route: Route) -> bool:
        return route.request.method == self._method and self._query in route.request.url

    def _take(self, route: Route) -> None:
        request = route.request
        if request.method != "GET":
            self.seen.append(request.method)
        if not self._routes and self._is_asked_for(route):
            self._routes.append(route)
        else:
            route.continue_()


def path_in_page(notebook: OpenNotebook) -> Any:
    return notebook.page.evaluate(
        "() => [...jupyterapp.shell.widgets('main')].find(w => w.context?.model.cells).context.path"
    )


@pytest.mark.story
@pytest.mark.sample(1)
@pytest.mark.parametrize("door", RENAMES)
def test_a_rename_while_the_tab_saves_loses_nothing_and_leaves_no_second_file(
    quiet: OpenNotebook, door: str
) -> None:
    old, new = quiet.path, f"renamed {quiet.path}"
    quiet.edit("c1")
    quiet.type("  # mine")
    held = Held(quiet, "PUT")
    quiet.page.keyboard.press("Control+s")
    held.wait()
    quiet.page.evaluate(RENAMES[door], [old, new])
    quiet.type(" too")
    for _ in range(20):
        held.pump()
    assert held.seen == ["PUT"]  # the rename waits
    held.let_go()
    eventually(lambda: path_in_page(quiet), lambda path: path == new)
    quiet.path = new
    quiet.lab.notebook(new)  # a mere look
    edit = quiet.lab.edit(new, "c0", old_string="1", new_string="2")
    assert edit["saved"] is True
    text = "print('x is', x)  # mine too"
    assert quiet.sources() == quiet.saved() == {"c0": "x = 2", "c1": text}
    assert not (quiet.lab.root / old).exists()
    assert quiet.dialogs() == []


def test_a_notebook_that_is_renamed_again_and_again_while_everybody_works_in_it_keeps_every_word(
    quiet: OpenNotebook, seed: int
) -> None:
    chance = random.Random(seed)
    first, words, numbers = quiet.path, [], []
    with ThreadPoolExecutor(1) as threads:
        for turn in range(RENAMES_IN_A_ROW):
            edit = threads.submit(
                quiet.lab.call,
                "PATCH",
                f"notebooks/{quote(quiet.path)}/cells/c0",
                {"old_string": "x = ", "new_string": f"n{turn} = 0\nx = "},
            )
            words.append(f"W{turn}Q")
            quiet.edit("c1")
            quiet.type(f" {words[-1]}")
            quiet.page.wait_for_timeout(chance.choice((0, 20, 100, 300)))
            new = f"{turn} {first}"
            quiet.page.evaluate(RENAMES[chance.choice(list(RENAMES))], [quiet.path, new])
            eventually(lambda: path_in_page(quiet), new.__eq__)
            answer = edit.result()
            quiet.path = new
            if answer.status == 200:
                numbers.append(f"n{turn} = 0")
    quiet.save()
    quiet.lab.notebook(quiet.path)
    assert quiet.sources() == quiet.saved()
    assert [word for word in words if word not in quiet.sources()["c1"]] == []
    assert [line for line in numbers if line not in quiet.sources()["c0"]] == []
    assert len(numbers) > RENAMES_IN_A_ROW // 2
    assert [path.name for path in quiet.lab.root.glob(f"*{first}")] == [quiet.path]
    assert quiet.dialogs() == []


def put_back(file: Path, content: bytes, *, later: bool) -> None:
    """Another program writes this into the file; `later` or as of an hour ago."""
    now = file.stat().st_mtime
    file.write_bytes(content)
    when = now + 5 if later else now - 3600
    os.utime(file, (when, when))


@pytest.mark.parametrize("held_at", ["the save itself", "its look at the file", "its load"])
def test_what_another_program_writes_while_the_tab_saves_is_merged_and_nothing_is_asked(
    quiet: OpenNotebook, held_at: str
) -> None:
    """`held_at` is where the other program comes in between, once more after the save itself."""
    file = quiet.lab.root / quiet.path

    def write(old: str, new: str) -> None:
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), "utf-8")

    quiet.edit("c1")
    quiet.type("  # mine")
    if held_at != "the save itself":
        write("x = 1", "x = 'others'")
    requests = {
        "the save itself": ("PUT", ""),
        "its look at the file": ("GET", "content=0"),
        "its load": ("GET", "content=1"),
    }
    held = Held(quiet, *requests[held_at])
    quiet.page.keyboard.press("Control+s")
    held.wait()
    write("x = 1", "x = 'theirs'")
    write("x = 'others'", "x = 'theirs'")
    held.let_go()
    both = {"c0": "x = 'theirs'", "c1": "print('x is', x)  # mine"}
    eventually(quiet.saved, lambda cells: cells == both)
    eventually(quiet.dirty, lambda dirty: not dirty)
    assert quiet.sources() == both
    assert quiet.dialogs() == []


@pytest.mark.story
def test_what_another_program_writes_right_after_a_save_is_not_taken_for_what_was_saved(
    quiet: OpenNotebook,
) -> None:
    file = quiet.lab.root / quiet.path

    def write_before_the_answer(route: Route) -> None:
        if route.request.method == "PUT":
            answer = route.fetch()
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace("x = 1", "x = 'theirs'"), "utf-8")
            route.fulfill(response=answer)
        else:
            route.continue_()

    quiet.edit("c1")
    quiet.type("  # mine")
    quiet.page.route("**/api/contents/**", write_before_the_answer)
    quiet.page.keyboard.press("Control+s")
    eventually(quiet.dirty, lambda dirty: not dirty)
    quiet.page.unroute("**/api/contents/**")
    quiet.type(" too")
    quiet.save()
    both = {"c0": "x = 'theirs'", "c1": "print('x is', x)  # mine too"}
    assert quiet.saved() == quiet.sources() == both
    assert quiet.dialogs() == []


def test_an_earlier_file_that_the_tab_itself_saved_is_saved_again(quiet: OpenNotebook) -> None:
    file = quiet.lab.root / quiet.path
    quiet.edit("c1")
    quiet.type("  # one")
    quiet.save()
    earlier = file.read_bytes()
    quiet.type(" two")
    quiet.save()
    put_back(file, earlier, later=False)
    quiet.lab.notebook(quiet.path)
    assert quiet.sources()["c1"] == "print('x is', x)  # one two"
    eventually(lambda: quiet.saved()["c1"], lambda text: text.endswith("two"))
    assert quiet.lab.edit(quiet.path, "c0", old_string="1", new_string="2")["saved"] is True
    assert quiet.dialogs() == []


def test_of_an_earlier_file_nothing_is_taken_and_the_panel_shows_what_is_in_it(
    quiet: OpenNotebook,
) -> None:
    file = quiet.lab.root / quiet.path
    quiet.edit("c1")
    quiet.type("  # one")
    quiet.save()
    content = file.read_bytes().replace(b"# one", b"# other")
    quiet.type(" two")
    quiet.save()
    put_back(file, content, later=False)
    edit = quiet.lab.edit(quiet.path, "c0", old_string="1", new_string="2")
    assert edit["saved"] is True
    assert quiet.sources() == {"c0": "x = 2", "c1": "print('x is', x)  # one two"}
    assert quiet.saved() == quiet.sources()
    card = (
        Panel(quiet.page)
        .open("auto")
        .page.get_by_role("group", name="Changed here and in the file")
    )
    card.get_by_text("# other", exact=False).first.wait_for()
    card.get_by_role("button", name="Keep this page’s").click()
    card.wait_for(state="detached")
    assert quiet.dialogs() == []


def test_who_puts_an_earlier_state_back_sees_it_with_what_is_new_in_the_tab(
    quiet: OpenNotebook,
) -> None:
    """`git checkout` of a file that the tab itself had saved."""
    file = quiet.lab.root / quiet.path
    quiet.edit("c1")
    quiet.type("  # one")
    quiet.save()
    content = file.read_bytes()
    quiet.type(" two")
    quiet.save()
    quiet.edit("c0")
    quiet.type("  # new")
    put_back(file, content, later=True)
    quiet.lab.notebook(quiet.path)
    both = {"c0": "x = 1  # new", "c1": "print('x is', x)  # one"}
    eventually(quiet.saved, lambda cells: cells == both)
    assert quiet.sources() == both
    assert quiet.dialogs() == []


DOINGS = {
    "makes a cell": ["notebook:insert-cell-below", "notebook:enter-edit-mode"],
    "splits it": ["notebook:split-cell-at-cursor"],
    "moves it": ["notebook:move-cell-up"],
    "deletes it": ["notebook:delete-cell"],
    "retypes it": ["notebook:change-cell-to-markdown"],
}


@pytest.mark.parametrize("doing", DOINGS)
def test_what_a_person_does_to_cells_while_the_file_is_loaded_again_stays(
    quiet: OpenNotebook, doing: str
) -> None:
    file = quiet.lab.root / quiet.path
    put_back(file, file.read_bytes().replace(b"x = 1", b"x = 5"), later=True)
    held = Held(quiet, "GET", query="content=1")
    quiet.edit("c1", at=6)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(quiet.lab.call, "GET", f"notebooks/{quote(quiet.path)}")
        held.wait()
        for command in DOINGS[doing]:
            quiet.page.evaluate("command => jupyterapp.commands.execute(command)", command)
        if doing == "makes a cell":
            quiet.type("mine = 3")
        kinds = "agentTest.cells(path).map(cell => [cell.type, cell.sharedModel.getSource()])"
        done = quiet._list(kinds)
        held.let_go()
        eventually(held.pump, lambda _: answer.done())
    both = [[kind, source.replace("x = 1", "x = 5")] for kind, source in done]
    assert quiet._list(kinds) == both
    assert [[cell["type"], cell["source"]] for cell in answer.result().body["cells"]] == both
    edit = quiet.lab.edit(quiet.path, "c0", old_string="5", new_string="6")
    assert edit["saved"] is True
    assert quiet.saved() == quiet.sources()
    assert quiet.dialogs() == []


def test_what_is_typed_into_a_notebook_without_cell_ids_while_it_is_loaded_again_stays(
    quiet: OpenNotebook, open_page: OpenPage
) -> None:
    path = f"old {quiet.path}"
    file = quiet.lab.root / path
    text = (quiet.lab.root / quiet.path).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if '"id": "c' not in line]
    old = "\n".join(lines).replace('"nbformat_minor": 5', '"nbformat_minor": 4') + "\n"
    file.write_text(old, encoding="utf-8")
    page = open_page(path=path)
    page.wait_until_linked()
    page.wait_for_kernel()
    page.save()
    put_back(file, file.read_bytes().replace(b"x = 1", b"x = 5"), later=True)
    held = Held(page, "GET", query="content=1")
    second = page.ids()[1]
    page.edit(second)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(page.lab.call, "GET", f"notebooks/{quote(path)}")
        held.wait()
        page.type("  # mine")
        held.let_go()
        eventually(held.pump, lambda _: answer.done())
    assert [*page.sources().values()] == ["x = 5", "print('x is', x)  # mine"]
    assert [cell.source for cell in page.on_disk().cells] == ["x = 5", "print('x is', x)  # mine"]


def test_after_a_save_that_arrived_and_was_never_answered_nothing_is_asked(
    quiet: OpenNotebook,
) -> None:
    """As if the server died, or the connection broke, in the middle of it."""

    def lose_the_answer(route: Route) -> None:
        if route.request.method == "PUT":
            route.fetch()
            route.abort()
        else:
            route.continue_()

    quiet.page.route("**/api/contents/**", lose_the_answer)
    quiet.edit("c1")
    quiet.type("  # one")
    save = "path => void agentTest.panel(path).context.save().catch(() => null)"
    quiet.page.evaluate(save, quiet.path)
    eventually(quiet.dialogs, bool)  # JupyterLab's own: that it could not save
    quiet.page.unroute("**/api/contents/**")
    quiet.dismiss_dialogs()
    assert quiet.saved()["c1"].endswith("# one")
    quiet.edit("c1")
    quiet.type(" two")
    quiet.page.keyboard.press("Control+s")
    eventually(lambda: quiet.dialogs() or quiet.saved()["c1"].endswith("two"), bool)
    assert quiet.dialogs() == []
    assert quiet.saved() == quiet.sources()


def test_an_edit_of_the_file_that_a_page_is_just_loading_stays(
    context: BrowserContext, lab: Lab
) -> None:
    path = new_file(lab, "loading", ["x = 1", "y = 1"])
    edits: list[bool] = []

    def edit_meanwhile(route: Route) -> None:
        answer = route.fetch()
        if not edits:
            edits.append(lab.edit(path, "c0", old_string="1", new_string="2")["saved"])
        route.fulfill(response=answer)

    page = context.new_page()
    page.route(re.compile(r"/api/contents/loading.*content=1"), edit_meanwhile)
    notebook = OpenNotebook(page, lab, path).open()
    assert edits == [True]
    notebook.edit("c1")
    notebook.type("  # mine")
    page.evaluate(RENAMES["notebook"], [path, f"renamed {path}"])
    eventually(lambda: path_in_page(notebook), lambda now: now == f"renamed {path}")
    notebook.path = f"renamed {path}"
    page.keyboard.press("Control+s")
    eventually(lambda: notebook.saved()["c1"].endswith("mine") or notebook.dialogs(), bool)
    assert notebook.saved() == {"c0": "x = 2", "c1": "y = 1  # mine"}
    assert notebook.dialogs() == []


@pytest.mark.long
def test_a_notebook_that_is_opened_while_it_is_edited_is_whole(
    context: BrowserContext, lab: Lab
) -> None:
    """Again and again, with 90 kB in it; no edit that was confirmed goes."""
    path = new_file(lab, "opened", ["0", *["x = 1\n" * 150] * 90])
    over = threading.Event()
    confirmed = 0

    def edit() -> None:
        nonlocal confirmed
        while not over.is_set():
            change = {"source": str(confirmed + 1)}
            if lab.call("PATCH", f"notebooks/{quote(path)}/cells/c0", change).status == 200:
                confirmed += 1

    with ThreadPoolExecutor(1) as threads:
        edits = threads.submit(edit)
        try:
            for _ in range(30):
                opened = OpenNotebook(context.new_page(), lab, path).open()
                assert opened.dialogs() == []
                opened.page.close()
        finally:
            over.set()
            edits.result()
    assert lab.call("GET", f"notebooks/{quote(path)}/cells/c0").body["source"] == str(confirmed)
    assert confirmed > 100
