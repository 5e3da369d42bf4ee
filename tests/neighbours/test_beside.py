"""Beside another extension: both are there, neither disturbs the other, and a turn works.

The tests share one page, from the first to the last.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from urllib.parse import quote

from playwright.sync_api import expect

from tests.fakes import calls, says
from tests.neighbours.conftest import Seen
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

BROUGHT = {"jupyter-agent", "jupyterlab_pygments"}
"""The page's extensions without a neighbour."""


def test_the_neighbour_is_loaded(notebook: OpenNotebook, alone: Seen, together: Seen) -> None:
    together.look(notebook)
    names = ("jupyterlab", "jupyter-server", *os.environ["NEIGHBOUR"].split())
    carrier = notebook.lab.notebook(notebook.path)["carrier"]
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"{versions}; carrier {carrier}")  # noqa: T201 - for the table in docs/compatibility.md
    print("fails without us too:", *sorted(alone.faults), sep="\n  ")  # noqa: T201
    assert alone.extensions - BROUGHT
    assert together.extensions == alone.extensions | {"jupyter-agent"}


def test_a_turn_edits_runs_is_reviewed_and_undone(notebook: OpenNotebook, replies: Replies) -> None:
    assert notebook.lab.notebook(notebook.path)["carrier"] in ("tab", "room")
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("update_cell", cell_id="c0", old_string="1 + 1", new_string="7")])
    replies.append([calls("run_cells")])
    replies.append([says("Done.")])
    panel.ask("Make x seven and run all cells.")
    expect(panel.button("Undo")).to_be_visible()
    eventually(lambda: notebook.shown()["c0"], "x = 7".__eq__)
    eventually(lambda: notebook.output_text("c1").strip(), "x is 7".__eq__)
    eventually(lambda: notebook.saved()["c0"], "x = 7".__eq__)
    change = notebook.page.get_by_role("group", name="Change in cell 1", exact=True)
    expect(change).to_contain_text("Assistant +1 −1")
    panel.button("Undo").click()
    eventually(lambda: notebook.shown()["c0"], "x = 1 + 1".__eq__)
    eventually(lambda: notebook.saved()["c0"], "x = 1 + 1".__eq__)
    assert notebook.dialogs() == []


def test_nothing_fails_that_does_not_fail_without_us(
    notebook: OpenNotebook, alone: Seen, together: Seen
) -> None:
    together.look(notebook)
    assert together.faults - alone.faults == set()


def test_commands_and_keys_of_others_are_theirs(
    notebook: OpenNotebook, alone: Seen, together: Seen
) -> None:
    together.look(notebook)
    added = together.commands - alone.commands
    assert added
    assert all(command.startswith("jupyter-agent:") for command in added)
    assert alone.commands <= together.commands
    own = [one for one in together.bindings if one["command"] in added]
    others = [one for one in together.bindings if one["command"] not in added]
    assert own
    assert sorted(map(str, others)) == sorted(map(str, alone.bindings))
    assert not {one["keys"] for one in own} & {one["keys"] for one in others}


def test_routes_are_ours_below_one_address_and_those_of_others_theirs(
    notebook: OpenNotebook, lab: Lab, alone: Seen, together: Seen
) -> None:
    together.look(notebook)
    ours = [one for one in together.patterns if one.startswith("/api/agent/")]
    assert ours
    assert [one for one in together.patterns if one not in ours] == alone.patterns
    for template in lab.call("GET", "openapi.json").body["paths"]:
        path = f"/api/agent{template.format_map(Places())}"
        found = lab.request("GET", f"listed-routes?path={quote(path)}")
        assert found.body["module"].startswith("jupyter_agent."), path


class Places(dict[str, str]):
    """Values for the names in a route's template."""

    def __missing__(self, name: str) -> str:
        return "shelf/sales.ipynb" if name == "path" else "x1"
