"""A script with `SyncAgent` works in a notebook that is open here, while a person types in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_agent import SyncAgent
from tests.fakes import calls, says
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.waiting import eventually


@pytest.fixture
def agent(notebook: OpenNotebook, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncAgent]:
    """In the same notebook, on the machine of the person's server."""
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(lab.root.parent / "runtime"))
    with SyncAgent(lab.root / notebook.path, mode="auto") as agent:
        yield agent


def test_a_script_sees_unsaved_typing_shows_what_it_does_and_takes_back_only_its_own(
    notebook: OpenNotebook, lab: Lab, agent: SyncAgent, replies: Replies
) -> None:
    assert agent.url == f"{lab.url}/".replace("127.0.0.1", "localhost")
    notebook.toggle_autosave()
    notebook.edit("c0")
    notebook.type(" + 41")
    assert agent.notebook.cell("c0").source == "x = 1 + 41"
    assert notebook.saved()["c0"] == "x = 1"
    agent.notebook.edit("c0", old_string="x = 1", new_string="x = 2")
    notebook.type("  # mine")
    eventually(notebook.shown, lambda cells: cells["c0"] == "x = 2 + 41  # mine")
    (first, second) = agent.notebook.run()
    assert (first.ok, second.text) == (True, "x is 43")
    eventually(lambda: notebook.output_text("c1"), lambda text: "x is 43" in text)
    assert notebook.page.locator(".jp-Dialog").count() == 0

    replies.append([calls("update_cell", cell_id="c1", old_string="x is", new_string="now")])
    replies.append([says("Done.")])
    notebook.edit("c0")
    turn = agent.ask("Say now")
    notebook.type("0")
    assert turn.wait().text == "Done."
    eventually(notebook.shown, lambda cells: cells["c1"] == "print('now', x)")
    assert agent.undo().conflicts == []
    expected = {"c0": "x = 2 + 41  # mine0", "c1": "print('x is', x)"}
    eventually(notebook.shown, lambda cells: cells == expected)
