"""Real-time collaboration (jupyter-collaboration): people in several pages and the agent are in one
room, and see no difference.
"""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from jupyter_ydoc import YNotebook
from playwright.sync_api import Browser, expect

from tests.fakes import calls, says
from tests.notebook.rooms import forget_saves, skip_without_plugs
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.test_panel import Panel
from tests.ui.test_typing import (
    CELLS,
    LINUX,
    WINDOWS,
    Agent,
    Person,
    cell_text,
    is_stored_as_it_is_shown,
    nothing_is_lost,
    windows_file,
    write_windows_lines,
)
from tests.waiting import eventually

ROUNDS = 15
HTML = "from IPython.display import HTML\nHTML('<b class=shown>bold</b><script>x = 1</script>')"


@pytest.fixture(scope="module")
def lab(
    browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A server with collaboration switched on."""
    skip_without_plugs()
    on = {"YDocExtension": {"disable_rtc": False}}
    with running_lab(tmp_path_factory.mktemp("rooms") / "lab", script, config=on) as lab:
        yield lab


def is_in_a_room(notebook: OpenNotebook) -> None:
    """Collaboration is on for Lab and the server, and the tab bridge stays out of it."""
    assert notebook.lab.notebook(notebook.path)["carrier"] == "room"
    assert notebook.page.evaluate(
        "path => agentTest.panel(path).context.model.collaborative", notebook.path
    )
    assert notebook.sockets() == 0


def test_edits_and_a_turn_of_the_panel_with_its_undo_show_in_each_page_at_once_and_are_saved(
    open_page: OpenPage, replies: Replies
) -> None:
    one = open_page(["x = 1", "print('x is', x)", "y = 1"])
    two = open_page(path=one.path)
    is_in_a_room(one)
    answer = one.lab.edit(one.path, "c2", old_string="1", new_string="2")
    assert answer["saved"]
    for page in (one, two):
        eventually(page.shown, lambda shown: shown["c2"] == "y = 2")
    assert one.saved()["c2"] == "y = 2"
    two.edit("c2")
    two.type(" + 3")
    eventually(lambda: one.lab.notebook(one.path)["cells"][2]["source"], "y = 2 + 3".__eq__)
    one.lab.edit(one.path, "c2", old_string="y = 2", new_string="total = 2")
    for page in (one, two):
        eventually(page.shown, lambda shown: shown["c2"] == "total = 2 + 3")
    eventually(one.saved, lambda saved: saved["c2"] == "total = 2 + 3")
    panel = Panel(one.page).open("auto")
    replies.append([calls("update_cell", cell_id="c0", old_string="x = 1", new_string="x = 7")])
    replies.append([calls("run_cells")])
    replies.append([says("Done.")])
    panel.ask("Make x seven and run it.")
    expect(panel.button("Undo")).to_be_visible()
    for page in (one, two):
        eventually(page.shown, lambda shown: shown["c0"] == "x = 7")
        eventually(lambda page=page: page.output_text("c1").strip(), "x is 7".__eq__)
        eventually(lambda page=page: page.prompt("c1"), "[2]:".__eq__)
    eventually(one.saved, lambda saved: saved["c0"] == "x = 7")
    two.edit("c1")
    two.type("  # mine")
    panel.button("Undo").click()
    for page in (one, two):
        eventually(page.shown, lambda shown: shown["c0"] == "x = 1")
        assert page.shown()["c1"].endswith("  # mine")
    eventually(one.saved, lambda saved: saved["c0"] == "x = 1")
    assert one.dialogs() == two.dialogs() == []


def test_the_undo_keys_take_back_only_what_the_person_typed(notebook: OpenNotebook) -> None:
    is_in_a_room(notebook)
    notebook.edit("c0")
    notebook.type(" + ONE")
    eventually(
        lambda: notebook.lab.notebook(notebook.path)["cells"][0]["source"], "x = 1 + ONE".__eq__
    )
    notebook.lab.edit(notebook.path, "c0", old_string="x", new_string="total")
    eventually(notebook.shown, lambda shown: shown["c0"] == "total = 1 + ONE")
    for _ in range(4):
        notebook.page.keyboard.press("Control+z")
    eventually(notebook.shown, lambda shown: shown["c0"] == "total = 1")


def test_an_approved_runs_html_is_shown_as_after_an_own_run(notebook: OpenNotebook) -> None:
    is_in_a_room(notebook)
    notebook.lab.edit(notebook.path, "c0", old_string="x = 1", new_string=HTML)
    notebook.lab.run(notebook.path, "c0")
    # A page shows outputs of others with scripts and widgets once it trusts them.
    bold = notebook.cell("c0").locator(".jp-OutputArea-output b.shown")
    expect(bold).to_have_text("bold")
    eventually(
        lambda: notebook.page.evaluate("path => agentTest.cells(path)[0].trusted", notebook.path),
        bool,
    )


def test_windows_lines_are_stored_as_they_are_shown(
    open_page: OpenPage, lab: Lab, request: pytest.FixtureRequest
) -> None:
    path = windows_file(lab, request.node.name)
    one = open_page(path=path)
    two = open_page(path=path)
    is_in_a_room(one)
    write_windows_lines(one)
    one.page.evaluate(
        "([path, text]) => agentTest.cells(path)[0].sharedModel.setSource(text)",
        [path, f"{WINDOWS}\r\n\r\n"],
    )
    eventually(lambda: two.sources()["c0"], f"{LINUX}\n\n".__eq__)
    one.lab.edit(path, "c0", source=WINDOWS)
    is_stored_as_it_is_shown(one)
    eventually(two.shown, one.shown().__eq__)


def test_nothing_that_is_typed_is_lost_while_the_agent_rewrites(
    open_page: OpenPage, seed: int
) -> None:
    notebook = open_page([cell_text(number) for number in range(CELLS)])
    is_in_a_room(notebook)
    person = Person(notebook, random.Random(seed))
    agent = Agent(notebook.lab, notebook.path, random.Random(seed + 1))
    with ThreadPoolExecutor(1) as thread:
        for _ in range(ROUNDS):
            work = thread.submit(agent.work)
            person.type_a_word()
            work.result()
    eventually(notebook.shown, lambda shown: shown == notebook.sources())
    seen = eventually(
        lambda: {c["id"]: c["source"] for c in notebook.lab.notebook(notebook.path)["cells"]},
        lambda seen: seen == notebook.sources(),
    )
    assert seen.keys() == agent.texts.keys()
    nothing_is_lost(notebook, person, agent)
    assert agent.refused < ROUNDS / 2
    assert notebook.dialogs() == []


@pytest.mark.parametrize(
    "edit", [{"index": 2}, {"index": 0}, {"type": "markdown"}], ids=["down", "up", "retyped"]
)
def test_a_cell_that_the_agent_replaces_keeps_the_focus_and_the_keys_of_who_has_just_clicked_in(
    open_page: OpenPage, edit: dict[str, Any]
) -> None:
    notebook = open_page(["x = 0", "y = 1", "z = 2"])
    is_in_a_room(notebook)
    notebook.wait_for_kernel()
    eventually(notebook.dirty, False.__eq__)  # the kernel's name, which JupyterLab writes into it
    notebook.edit("c0")
    notebook.hold_changes(in_room=True)
    cell = f"notebooks/{notebook.path}/cells/c1"
    method, route = ("PATCH", cell) if "type" in edit else ("POST", f"{cell}/move")
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(notebook.lab.call, method, route, edit)
        eventually(notebook.held, bool)
        notebook.edit("c1")  # the server has moved it, and the page does not know yet
        answer = work.result()
    assert answer.status == 200, answer
    notebook.let_go()
    notebook.type("WORD")
    assert notebook.cursor() == ("c1", len("y = 1WORD"))
    assert notebook.sources()["c1"] == "y = 1WORD"
    assert notebook.ids().index("c1") == edit.get("index", 1)
    eventually(lambda: notebook.saved()["c1"], "y = 1WORD".__eq__)


SAVE = """path => {
  window.agentSaved = '';
  agentTest.panel(path).context.save().then(
    () => (window.agentSaved = 'saved'),
    error => (window.agentSaved = String(error))
  );
}"""


@pytest.mark.story
def test_who_saves_before_the_page_knows_of_our_save_is_not_asked_about_a_changed_file(
    notebook: OpenNotebook,
) -> None:
    is_in_a_room(notebook)
    notebook.hold_changes(in_room=True)
    assert notebook.lab.edit(notebook.path, "c0", old_string="1", new_string="2")["saved"]
    assert notebook.held()
    with notebook.page.expect_response(lambda response: "hash=1" in response.url):
        notebook.page.evaluate(SAVE, notebook.path)
    notebook.let_go()
    came = eventually(
        lambda: (notebook.page.evaluate("agentSaved"), notebook.dialogs()), any, timeout=20
    )
    assert came == ("saved", [])
    assert notebook.saved()["c0"] == "x = 2"


PATH_AGAIN = """path => {
  const { ydoc } = agentTest.panel(path).context.model.sharedModel;
  ydoc.getMap('state').set('path', path);
}"""
"""What about each second start of a server does to the documents of its rooms."""


@pytest.mark.story
def test_who_saves_after_a_restart_of_the_server_tears_nobodys_words(open_page: OpenPage) -> None:
    one = open_page(["x = 1", "words ="])
    two = open_page(path=one.path)
    is_in_a_room(one)
    one.page.evaluate(PATH_AGAIN, one.path)
    puts: list[str] = []
    one.page.on("request", lambda request: puts.extend([request.url] * (request.method == "PUT")))
    words = [f"word{letter}" for letter in "abcd"]
    one.edit("c0")
    one.type(" + 1")
    two.edit("c1")
    for word in words:
        two.type(f" {word[:3]}")
        one.page.evaluate(SAVE, one.path)
        two.type(word[3:])
        eventually(lambda: one.page.evaluate("agentSaved"), "saved".__eq__)
        assert one.saved()["c0"] == "x = 1 + 1"
    assert [url for url in puts if "/api/contents/" in url] == []
    expected = {"c0": "x = 1 + 1", "c1": " ".join(["words =", *words])}
    for page in (one, two):
        eventually(page.sources, expected.__eq__)
        assert page.dialogs() == []
    eventually(one.saved, expected.__eq__)


def test_what_another_program_writes_beside_unsaved_words_is_merged_or_decided_by_the_user(
    open_page: OpenPage,
) -> None:
    one = open_page(["x = 1", "y = 1\n\nz = 1", "w = 1"])
    two = open_page(path=one.path)
    is_in_a_room(one)
    panels = [Panel(page.page).open() for page in (one, two)]
    for page in (one, two):
        page.toggle_autosave()
    one.edit("c0")
    one.type("2")
    two.edit("c1")
    two.type("2")
    for page in (one, two):
        eventually(page.sources, {"c0": "x = 12", "c1": "y = 1\n\nz = 12", "c2": "w = 1"}.__eq__)
    file = one.lab.root / one.path
    text = file.read_text()
    for former, now in ("x = 1", "x = 3"), ("y = 1", "y = 3"), ("w = 1", "w = 3"):
        text = text.replace(former, now)
    file.write_text(text)
    cards = [
        panel.page.get_by_role("group", name="Changed here and in the file") for panel in panels
    ]
    for card in cards:
        card.get_by_text("Cell 1 was changed here and in the file. Which one?").wait_for()
    merged = {"c1": "y = 3\n\nz = 12", "c2": "w = 3"}
    for page in (one, two):
        eventually(page.sources, ({"c0": "x = 12"} | merged).__eq__)
    two.type("4")  # whoever types is not disturbed
    merged["c1"] += "4"
    cards[0].get_by_role("button", name="Use the file’s").click()
    for page, card in zip((one, two), cards, strict=True):
        eventually(page.sources, ({"c0": "x = 3"} | merged).__eq__)
        card.wait_for(state="detached")
    one.page.evaluate(SAVE, one.path)
    eventually(one.saved, ({"c0": "x = 3"} | merged).__eq__)
    assert one.dialogs() == two.dialogs() == []
    one.toggle_autosave()


def is_stored(lab: Lab, text: str) -> bool:
    """Whether the store of a room has a cell with this text, a moment after the pages."""
    documents = defaultdict[str, YNotebook](YNotebook)
    with closing(sqlite3.connect(lab.root.parent / ".jupyter_ystore.db")) as store:
        for path, update in store.execute("SELECT path, yupdate FROM yupdates ORDER BY timestamp"):
            documents[path].ydoc.apply_update(update)
    cells = [cell for document in documents.values() for cell in document.ycells]
    return any(str(cell["source"]) == text for cell in cells)


def type_at_the_end(page: OpenNotebook, cell_id: str, text: str) -> None:
    """Again where JupyterLab's dialog about its server came first and took the keys."""
    before = page.sources()[cell_id]

    def typed() -> str:
        if page.sources()[cell_id] == before:
            page.edit(cell_id)
            page.type(text)
        return page.sources()[cell_id]

    eventually(typed, f"{before}{text}".__eq__)


@pytest.mark.full
def test_what_was_typed_before_a_kill_stays_or_is_put_back_from_the_panel(
    open_page: OpenPage,
) -> None:
    one = open_page(["x = wor", "y = 1"])
    two = open_page(path=one.path)
    is_in_a_room(one)
    panels = [Panel(page.page).open() for page in (one, two)]
    for page in (one, two):
        page.toggle_autosave()  # a kill in the second before it saves
        # JupyterLab says that its server is gone, in front of everything, sooner or later.
        page.page.add_locator_handler(
            page.page.locator(".jp-Dialog"), lambda dialog: dialog.page.keyboard.press("Escape")
        )
    one.edit("c0")
    one.type("d and te")
    eventually(lambda: is_stored(one.lab, "x = word and te"), bool)
    one.lab.kill()
    type_at_the_end(one, "c0", "x")  # whoever types does not notice
    one.lab.start()
    for page in (one, two):
        eventually(page.sources, {"c0": "x = word and tex", "c1": "y = 1"}.__eq__)
    assert one.saved()["c0"] == "x = wor"
    eventually(lambda: is_stored(one.lab, "x = word and tex"), bool)
    one.lab.kill()
    forget_saves(one.lab.root.parent / ".jupyter_ystore.db")
    type_at_the_end(one, "c0", "t")
    one.lab.start()
    cards = [panel.page.get_by_role("group", name="Not saved", exact=True) for panel in panels]
    for card in cards:
        card.get_by_text("Recent typing in Cell 1 was not saved. Restore it?").wait_for()
    for page in (one, two):
        eventually(page.sources, {"c0": "x = wort", "c1": "y = 1"}.__eq__)
    two.edit("c1")
    two.type("2")
    cards[1].get_by_role("button", name="Restore").click()
    whole = {"c0": "x = word and text", "c1": "y = 12"}
    for page, card in zip((one, two), cards, strict=True):
        eventually(page.sources, whole.__eq__)
        card.wait_for(state="detached")
    one.page.evaluate(SAVE, one.path)
    eventually(one.saved, whole.__eq__)
    one.toggle_autosave()
