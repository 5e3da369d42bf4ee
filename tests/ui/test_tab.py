"""The agent in a notebook that is open in a browser tab (LIVE.md)."""

from __future__ import annotations

from tests.ui.page import OpenNotebook, eventually


def test_an_edit_of_the_agent_is_in_the_open_cell_at_once(notebook: OpenNotebook) -> None:
    notebook.wait_until_linked()
    cell = notebook.lab.edit(notebook.path, "c0", source=None, old_string="1", new_string="2")
    assert (cell["source"], cell["saved"]) == ("x = 2", True)
    assert notebook.sources()["c0"] == "x = 2"
    eventually(notebook.shown, lambda cells: cells["c0"] == "x = 2", timeout=2)
