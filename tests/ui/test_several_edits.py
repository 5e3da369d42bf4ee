"""Several edits in one request, in a notebook that is open in JupyterLab while a person types."""

from __future__ import annotations

from urllib.parse import quote

from tests.ui.conftest import OpenPage
from tests.waiting import eventually


def test_several_edits_and_their_undo_in_an_open_notebook_leave_the_person_alone(
    open_page: OpenPage,
) -> None:
    notebook = open_page(["x = 1\n\nw = 2", "print('y')", "z = 3"])
    notebook.wait_until_linked()
    notebook.lab.run(notebook.path, "c1")
    eventually(lambda: notebook.output_text("c1").strip(), "y".__eq__)
    notebook.edit("c0")
    notebook.type("0  # typed")
    route = f"notebooks/{quote(notebook.path)}"
    edits = [
        {"cell_id": "c0", "old_string": "x", "new_string": "count", "add_tags": ["parameters"]},
        {"op": "move", "cell_id": "c2", "before": "c0"},
        {"op": "delete", "cell_id": "c1"},
        {"op": "insert", "source": "new = 1"},
    ]
    bad = [*edits, {"cell_id": "c0", "old_string": "nowhere", "new_string": "y"}]
    refused = notebook.lab.call("POST", f"{route}/edits?by=Script", {"edits": bad})
    assert (refused.status, refused.body["edit"]) == (409, 5)
    notebook.type(" on")
    before = {"c0": "x = 1\n\nw = 20  # typed on", "c1": "print('y')", "c2": "z = 3"}
    eventually(lambda: list(notebook.sources().items()), list(before.items()).__eq__, 10)
    assert notebook.output_text("c1").strip() == "y"

    made = notebook.lab.call("POST", f"{route}/edits?by=Script", {"edits": edits})
    assert made.status == 200, made
    notebook.type("!")
    new = made.body["edits"][3]["cell_id"]
    after = {"c2": "z = 3", "c0": "count = 1\n\nw = 20  # typed on!", new: "new = 1"}
    eventually(lambda: list(notebook.sources().items()), list(after.items()).__eq__)
    assert notebook.cursor() == ("c0", len("count = 1\n\nw = 20  # typed on!"))

    undone = notebook.lab.call("POST", f"turns/{made.body['turn_id']}/undo", {})
    assert undone.body["conflicts"] == []
    before["c0"] = "x = 1\n\nw = 20  # typed on!"
    eventually(lambda: list(notebook.sources().items()), list(before.items()).__eq__)
    assert notebook.cursor() == ("c0", len("x = 1\n\nw = 20  # typed on!"))
    assert notebook.output_text("c1").strip() == "y"

    cleared = notebook.lab.call("POST", f"{route}/clear?by=Script", {})
    assert cleared.body["cleared"] == ["c1"]
    eventually(lambda: notebook.output_text("c1").strip(), "".__eq__)
    notebook.lab.call("POST", f"turns/{cleared.body['turn_id']}/undo", {})
    eventually(lambda: notebook.output_text("c1").strip(), "y".__eq__)
    assert notebook.dialogs() == []
