"""A page that was away while someone else worked in its file: both sides are kept, and conflicts
are shown and decided in the panel. JupyterLab never asks which side to discard.
"""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.fakes import calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

CELLS = ["a = 1", "b = 1\nb = 2", "c = 1"]


@pytest.fixture
def away(open_page: OpenPage) -> OpenNotebook:
    """Open, linked and saved: then the line is cut."""
    notebook = open_page(CELLS)
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    notebook.save()
    assert not notebook.dirty()
    return notebook


def edit(notebook: OpenNotebook, cell: str, old: str, new: str) -> None:
    answer = notebook.lab.call(
        "PATCH",
        f"notebooks/{quote(notebook.path)}/cells/{cell}",
        {"old_string": old, "new_string": new, "while_away": "write"},
    )
    assert answer.status == 200, answer.body
    assert answer.body["saved"] is True


def rename(notebook: OpenNotebook, name: str) -> None:
    notebook.page.evaluate(
        "([path, name]) => agentTest.panel(path).context.rename(name)", [notebook.path, name]
    )
    notebook.path = name


def test_a_turn_may_write_while_a_tab_with_unsaved_work_is_away(
    away: OpenNotebook, replies: Replies
) -> None:
    away.edit("c0")
    away.type(" # mine")
    away.go_away()
    replies.append([calls("update_cell", cell_id="c1", old_string="b = 2", new_string="b = 3")])
    replies.append([says("Done.")])
    message = {"role": "user", "parts": [{"type": "text", "text": "Please."}]}
    body = {"messages": [message], "notebook": away.path, "mode": "auto", "stream": False}
    turn = away.lab.call("POST", "chat?while_away=write", body)
    assert turn.status == 200, turn.body
    assert away.saved()["c1"] == "b = 1\nb = 3"
    away.return_()
    eventually(away.sources, {"c0": "a = 1 # mine", "c1": "b = 1\nb = 3", "c2": "c = 1"}.__eq__)


@pytest.mark.story
def test_a_page_that_comes_back_has_its_typing_and_what_was_edited_meanwhile(
    away: OpenNotebook,
) -> None:
    away.edit("c0")
    away.type(" # mine")
    away.go_away()
    away.type(" too")
    edit(away, "c1", "b = 2", "b = 3")
    edit(away, "c2", "c = 1", "c = 2")
    away.return_()
    both = {"c0": "a = 1 # mine too", "c1": "b = 1\nb = 3", "c2": "c = 2"}
    eventually(away.sources, both.__eq__)
    assert away.cursor() == ("c0", len(both["c0"]))
    rename(away, f"renamed {away.path}")
    away.page.keyboard.press("Control+s")
    eventually(away.saved, both.__eq__)
    assert away.dialogs() == []


@pytest.mark.story
def test_where_both_changed_the_same_line_the_page_keeps_its_own_and_the_panel_asks(
    away: OpenNotebook,
) -> None:
    panel = Panel(away.page).open("auto")
    away.edit("c1", 5)
    away.type("0")
    away.go_away()
    away.type("0")
    edit(away, "c1", "b = 1", "b = 7")
    edit(away, "c2", "c = 1", "c = 2")
    away.return_()
    eventually(lambda: away.sources()["c2"], "c = 2".__eq__)
    assert away.sources()["c1"] == "b = 100\nb = 2"
    rename(away, f"renamed {away.path}")
    away.save()
    assert away.dialogs() == []
    card = panel.page.get_by_role("group", name="Changed here and in the file")
    card.get_by_text("Cell 2 was changed here and in the file. Which one?").wait_for()
    card.get_by_role("button", name="Use the file’s").click()
    eventually(lambda: away.sources()["c1"], "b = 7\nb = 2".__eq__)
    card.wait_for(state="detached")
    away.save()
    assert away.saved() == away.sources()


def test_after_an_hour_it_is_as_after_a_moment(away: OpenNotebook) -> None:
    """An hour on the page's clock, in which it tries to save and reconnect without success."""
    away.page.clock.install()
    away.page.clock.resume()
    away.page.evaluate("jupyterapp.shell.currentWidget.dispose()")
    away.show()  # with timers of that clock
    away.wait_until_linked()
    away.wait_for_kernel()
    away.edit("c0")
    away.type(" # mine")
    away.go_away()
    away.type(" too")
    for _ in range(6):
        away.page.clock.fast_forward("10:00")
        away.dismiss_dialogs()  # JupyterLab's own: that it can neither save nor reach its server
    edit(away, "c1", "b = 2", "b = 3")
    away.return_()
    both = {"c0": "a = 1 # mine too", "c1": "b = 1\nb = 3", "c2": "c = 1"}
    eventually(away.sources, both.__eq__)
    away.dismiss_dialogs()
    away.save()
    assert away.saved() == both
    assert away.dialogs() == []


@pytest.mark.story
def test_a_page_is_merged_with_what_was_edited_after_its_server_was_started_again(
    away: OpenNotebook,
) -> None:
    away.edit("c0")
    away.type(" # mine")
    away.save()
    away.go_away()
    away.type(" too")  # before JupyterLab's dialog on a lost server takes the focus
    away.lab.kill()
    away.lab.start()
    edit(away, "c1", "b = 2", "b = 3")
    away.dismiss_dialogs()  # JupyterLab's own: that its server and its kernel are gone
    away.return_()
    both = {"c0": "a = 1 # mine too", "c1": "b = 1\nb = 3", "c2": "c = 1"}
    eventually(away.sources, both.__eq__)
    away.dismiss_dialogs()
    away.save()
    assert away.saved() == both
    assert away.dialogs() == []


def test_a_page_with_unsaved_work_is_waited_for_after_its_server_was_started_again(
    away: OpenNotebook,
) -> None:
    away.toggle_autosave()
    away.edit("c0")
    away.type(" # mine")
    eventually(lambda: away.lab.notebook(away.path)["cells"][0]["source"], "a = 1 # mine".__eq__)
    away.go_away()
    away.lab.kill()
    away.lab.start()
    change = {"old_string": "b = 2", "new_string": "b = 3"}
    route = f"notebooks/{quote(away.path)}/cells/c1"
    refused = away.lab.call("PATCH", route, change)
    assert (refused.status, refused.body["reason"]) == (409, "busy")
    assert "unsaved work and is away" in refused.body["message"]
    away.dismiss_dialogs()
    away.return_()
    away.wait_until_linked()
    away.dismiss_dialogs()
    answer = away.lab.call("PATCH", route, change)
    assert answer.status == 200
    assert away.sources() == {"c0": "a = 1 # mine", "c1": "b = 1\nb = 3", "c2": "c = 1"}


def test_what_ran_while_the_page_was_away_shows_when_it_is_back(open_page: OpenPage) -> None:
    html = "from IPython.display import HTML, display\nprint('ran')\ndisplay(HTML('<b>bold</b>'))"
    notebook = open_page([html, "a = 1"])
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    notebook.save()
    notebook.edit("c1")
    notebook.go_away()
    notebook.type(" # mine")
    notebook.lab.run(notebook.path, "c0")
    notebook.return_()
    eventually(lambda: notebook.output_text("c0").split(), ["ran", "bold"].__eq__)
    assert notebook.prompt("c0") == "[1]:"
    eventually(notebook.dirty, False.__eq__)
    kinds = [output["output_type"] for output in notebook.on_disk().cells[0].outputs]
    assert kinds == ["stream", "display_data"]
    assert notebook.sources()["c1"] == "a = 1 # mine"
    assert notebook.cursor() == ("c1", len("a = 1 # mine"))
    assert notebook.dialogs() == []
