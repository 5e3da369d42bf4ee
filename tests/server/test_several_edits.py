"""Several edits in one request, all or none; edits of scripts that name themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant
from tests.notebook.browser import Tab

from .conftest import PATH, Call

EDITS = ("notebooks", PATH, "edits")


def sources(notebook: Path) -> dict[str, str]:
    return {cell.id: cell.source for cell in nbformat.read(notebook, as_version=4).cells}


async def test_several_edits_are_made_together_with_a_diff_each(
    call: Call, notebook: Path, jp_root_dir: Path
) -> None:
    edits = [
        {"cell_id": "b2", "old_string": "1", "new_string": "2"},
        {"cell_id": "b2", "old_string": "x = 2", "new_string": "x = 2\ny = 3", "add_tags": ["t"]},
        {"op": "insert", "source": "z = 1", "before": "a1", "metadata": {"why": "asked"}},
        {"op": "move", "cell_id": "a1"},
        {"op": "delete", "cell_id": "c3"},
    ]
    answer = await call("POST", *EDITS, body={"edits": edits})
    assert answer.status == 200, answer.text
    results = answer.body["edits"]
    assert [each["op"] for each in results] == ["update", "update", "insert", "move", "delete"]
    assert results[0]["diff"] == "@@ -1 +1 @@\n-x = 1\n+x = 2"
    assert results[1]["diff"] == "@@ -1 +1,2 @@\n x = 2\n+y = 3"
    assert results[2]["diff"].endswith("+z = 1")
    assert results[4]["cell"] is None
    assert answer.body["saved"] is True
    new = results[2]["cell_id"]
    assert sources(notebook) == {new: "z = 1", "b2": "x = 2\ny = 3", "a1": "# Sales"}
    on_disk = nbformat.read(notebook, as_version=4).cells
    assert [cell.metadata for cell in on_disk] == [{"why": "asked"}, {"tags": ["t"]}, {}]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("bad", "status", "reason"),
    [
        ({"cell_id": "c3", "old_string": "nowhere", "new_string": "y"}, 409, "not_once"),
        ({"cell_id": "c3", "source": "y", "version": "0" * 16}, 412, "changed"),
        ({"op": "delete", "cell_id": "c3", "version": "0" * 16}, 412, "changed"),
        ({"op": "move", "cell_id": "c3", "after": "zz"}, 404, "cell_not_found"),
        ({"cell_id": "zz", "source": "y"}, 404, "cell_not_found"),
        ({"cell_id": "c3"}, 400, "invalid_input"),
        ({"cell_id": "c3", "new_string": "y"}, 400, "invalid_input"),
        ({"op": "insert", "source": "y", "after": "a1", "index": 0}, 400, "invalid_input"),
        ({"cell_id": "c3", "metadata": {"deletable": None}}, 409, "locked"),
        ({"cell_id": "c3", "add_tags": ["one,two"]}, 400, "invalid_input"),
        ({"op": "explode", "cell_id": "c3"}, 400, "invalid_body"),
        ({"cell_id": "c3", "sauce": "y"}, 400, "invalid_body"),
    ],
)
async def test_one_edit_that_cannot_be_made_refuses_all(
    call: Call, notebook: Path, bad: dict[str, Any], status: int, reason: str
) -> None:
    before = notebook.read_bytes()
    good = {"cell_id": "b2", "source": "x = 5"}
    fresh = {"op": "insert", "source": "new"}
    answer = await call(
        "POST", *EDITS, body={"edits": [good, {"op": "move", "cell_id": "a1"}, fresh, bad]}
    )
    assert (answer.status, answer.body["reason"]) == (status, reason)
    if reason != "invalid_body" and "one,two" not in str(bad):
        assert answer.body["edit"] == 4
    if reason in ("not_once", "changed"):
        assert answer.body["current"]["source"] == "print('x is', x)"
        assert "None of the 4 edits was made, because of edit 4." in answer.body["message"]
    assert notebook.read_bytes() == before
    cells = (await call("GET", "notebooks", PATH)).body["cells"]
    assert [cell["id"] for cell in cells] == ["a1", "b2", "c3"]


async def test_in_an_open_tab_all_or_none_and_what_is_typed_stays(
    call: Call, notebook: Path, agent: Assistant
) -> None:
    tab = await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    tab.type("b2", "\n# typed")
    edits = [
        {"cell_id": "b2", "source": "x = 7", "base": "x = 1"},
        {"op": "delete", "cell_id": "a1"},
        {"cell_id": "c3", "old_string": "x", "new_string": "y"},
    ]
    refused = await call("POST", *EDITS, body={"edits": edits})
    assert (refused.status, refused.body["edit"]) == (409, 3)
    assert [tab.source(cell_id) for cell_id in ("a1", "b2")] == ["# Sales", "x = 1\n# typed"]
    edits[2]["old_string"] = ", x"
    edits[2]["new_string"] = ", x, x"
    made = await call("POST", *EDITS, body={"edits": edits})
    assert made.status == 200, made.text
    assert made.body["edits"][0]["merged"] is True
    assert tab.source("b2") == "x = 7\n# typed"
    assert tab.source("c3") == "print('x is', x, x)"
    assert "a1" not in [cell["id"] for cell in (await call("GET", "notebooks", PATH)).body["cells"]]


async def test_what_a_script_did_is_named_and_taken_back_in_one_call(
    call: Call, notebook: Path, agent: Assistant
) -> None:
    before = sources(notebook)
    by = {"by": "Nightly"}
    edits = [
        {"cell_id": "b2", "source": "x = 2\ny = 1"},
        {"op": "delete", "cell_id": "a1"},
    ]
    first = (await call("POST", *EDITS, body={"edits": edits}, params=by)).body
    inserted = await call("POST", "notebooks", PATH, "cells", body={"source": "z"}, params=by)
    assert inserted.body["turn_id"] == first["turn_id"]
    tagged = {"metadata": {"why": "x"}, "add_tags": ["parameters"]}
    await call("PATCH", "notebooks", PATH, "cells", "c3", body=tagged, params=by)
    turn = (await call("GET", "turns", first["turn_id"])).body
    assert turn["client"] == "Nightly"
    assert [each["tool"] for each in turn["calls"]] == ["edit_cells", "create_cell", "update_cell"]
    assert {entry["outcome"] for entry in turn["audit"]} == {"done"}
    listed = (await call("GET", "turns", params={"notebook": PATH})).body["turns"]
    assert [(each["id"], each["client"]) for each in listed] == [(first["turn_id"], "Nightly")]
    blamed = (await call("GET", "notebooks", PATH, "blame")).body["cells"]
    assert {each["model"] for each in blamed} == {"Nightly"}
    # A person edits the script's text, which stays.
    await call(
        "PATCH", "notebooks", PATH, "cells", "b2", body={"old_string": "2", "new_string": "2  # me"}
    )
    undone = await call("POST", "turns", first["turn_id"], "undo")
    assert [each["cell_id"] for each in undone.body["conflicts"]] == ["b2"]
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 2\ny = 1"})
    again = await call("POST", "turns", first["turn_id"], "undo")
    assert again.body["conflicts"] == []
    assert sources(notebook) == before
    assert "metadata" not in nbformat.read(notebook, as_version=4).cells[2].metadata
    third = await call("POST", "notebooks", PATH, "cells", body={"source": "z"}, params=by)
    assert third.body["turn_id"] != first["turn_id"], "an undone turn is over"
    params = {**by, "new_turn": "true"}
    fourth = await call("POST", "notebooks", PATH, "cells", body={"source": "z"}, params=params)
    assert fourth.body["turn_id"] != third.body["turn_id"]


async def test_a_refused_edit_of_a_script_is_in_its_turn_as_failed(
    call: Call, notebook: Path
) -> None:
    good = await call(
        "PATCH", "notebooks", PATH, "cells", "b2", body={"source": "y"}, params={"by": "S"}
    )
    body = {"old_string": "nowhere", "new_string": "z"}
    bad = await call("PATCH", "notebooks", PATH, "cells", "b2", body=body, params={"by": "S"})
    assert (bad.status, bad.body["reason"]) == (409, "not_once")
    turn = (await call("GET", "turns", good.body["turn_id"])).body
    assert [each["state"] for each in turn["calls"]] == ["done", "failed"]
    assert len(turn["changes"]) == 1


@pytest.mark.full
async def test_outputs_are_cleared_and_come_back_with_undo(call: Call, notebook: Path) -> None:
    await call("POST", "notebooks", PATH, "run")
    cleared = await call("POST", "notebooks", PATH, "clear", params={"by": "Me"})
    assert cleared.status == 200, cleared.text
    assert (cleared.body["cleared"], cleared.body["saved"]) == (["b2", "c3"], True)
    cells = nbformat.read(notebook, as_version=4).cells
    assert [(cell.outputs, cell.execution_count) for cell in cells[1:]] == [([], None)] * 2
    none = await call("POST", "notebooks", PATH, "clear", body={"cells": ["a1"]})
    assert (none.status, none.body["reason"]) == (400, "invalid_input")
    undone = await call("POST", "turns", cleared.body["turn_id"], "undo")
    assert undone.body["conflicts"] == []
    cells = nbformat.read(notebook, as_version=4).cells
    assert cells[2].outputs[0].text == "x is 1\n"
    assert cells[2].execution_count == 2


async def test_tags_and_metadata_of_cells_and_notebook(call: Call, notebook: Path) -> None:
    cell = ("notebooks", PATH, "cells", "b2")
    made = await call("PATCH", *cell, body={"add_tags": ["a", "b"], "metadata": {"k": {"n": 1}}})
    assert made.body["metadata"] == {"k": {"n": 1}, "tags": ["a", "b"]}
    made = await call("PATCH", *cell, body={"remove_tags": ["a"], "metadata": {"k": None}})
    assert made.body["metadata"] == {"tags": ["b"]}
    for key in ("trusted", "editable", "deletable", "nbgrader"):
        refused = await call("PATCH", *cell, body={"metadata": {key: True}})
        assert (refused.status, refused.body["reason"]) == (409, "locked")
    whole = await call("PATCH", "notebooks", PATH, body={"metadata": {"title": "Q3"}})
    assert whole.body["metadata"]["title"] == "Q3"
    assert nbformat.read(notebook, as_version=4).metadata["title"] == "Q3"
    bad = await call("PATCH", "notebooks", PATH, body={"metadata": {"kernelspec": {}}})
    assert (bad.status, bad.body["reason"]) == (400, "invalid_input")
    await call("PATCH", "notebooks", PATH, body={"metadata": {"title": None}})
    assert "title" not in nbformat.read(notebook, as_version=4).metadata
    assert "title" not in (await call("GET", "notebooks", PATH)).body["metadata"]
    assert (await call("PATCH", "notebooks", PATH, body={"metadata": {}})).status == 400


async def test_the_metadata_of_an_open_notebook_change_in_its_tab(
    call: Call, notebook: Path, agent: Assistant
) -> None:
    tab = await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    await call("PATCH", "notebooks", PATH, body={"metadata": {"title": "Q3", "more": 1}})
    await call("PATCH", "notebooks", PATH, body={"metadata": {"more": None}})
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"add_tags": ["a"]})
    shown = (await call("GET", "notebooks", PATH)).body
    assert shown["carrier"] == "tab"
    assert shown["metadata"]["title"] == "Q3"
    assert "more" not in shown["metadata"]
    assert tab.notebook.source["metadata"]["title"] == "Q3"
    assert tab.notebook.source["cells"][1]["metadata"]["tags"] == ["a"]


async def test_two_agents_in_one_cell_merge_or_are_told_the_current_text(
    call: Call, notebook: Path
) -> None:
    async def tool(who: str, name: str, **input: Any) -> Any:
        body = {"notebook": PATH, "mode": "auto", "conversation_id": who, "input": input}
        return (await call("POST", "tools", name, body=body)).body

    text = "x = 1\n\ny = 2"
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": text})
    for who in ("one", "two"):
        await tool(who, "read_cells", cell_ids=["b2"])
    first = await tool("one", "update_cell", cell_id="b2", source=text.replace("1", "10"))
    second = await tool("two", "update_cell", cell_id="b2", source=text.replace("2", "20"))
    assert (first["is_error"], second["is_error"]) == (False, False)
    assert "the merged text is:\nx = 10\n\ny = 20" in second["text"]
    late = await tool("one", "update_cell", cell_id="b2", source="x = 10\n\ny = 30")
    assert late["reason"] == "changed"
    assert late["current"]["source"] == "x = 10\n\ny = 20"
    assert "x = 10\n\ny = 20" in late["text"]
