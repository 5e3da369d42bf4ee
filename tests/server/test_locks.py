"""Locked cells stay unchanged, in every mode and through every entry."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import Call, ask

LOCKS: dict[str, dict[str, Any]] = {
    "not-editable": {"editable": False},
    "nbgrader-locked": {"nbgrader": {"locked": True, "grade": False, "solution": False}},
    "nbgrader-grade": {"nbgrader": {"grade": True, "grade_id": "a", "points": 1}},
    "injected": {"tags": ["injected-parameters"]},
}
EDITS: list[tuple[str, dict[str, Any]]] = [
    ("update_cell", {"old_string": "x = 1", "new_string": "x = 2"}),
    ("update_cell", {"source": "x = 2"}),
    ("update_cell", {"type": "markdown"}),
    ("delete_cell", {}),
]


@pytest.fixture
def locked(jp_root_dir: Path) -> Path:
    """`locked.ipynb`: a cell for each lock, one that must not be deleted, a free one."""
    cells = [
        *(new_code_cell("x = 1", id=name, metadata=lock) for name, lock in LOCKS.items()),
        new_code_cell("x = 1", id="not-deletable", metadata={"deletable": False}),
        new_markdown_cell("x = 1", id="free"),
    ]
    path = jp_root_dir / "locked.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.mark.sample(6)
@pytest.mark.parametrize("mode", ["read", "ask", "edit", "auto"])
@pytest.mark.parametrize("name", list(LOCKS))
async def test_tools_refuse_in_every_mode(call: Call, locked: Path, mode: str, name: str) -> None:
    before = locked.read_bytes()
    names = [tool for tool, _ in EDITS]
    body: dict[str, Any] = {"notebook": "locked.ipynb", "mode": mode, "allow": names}
    await call("POST", "tools", "get_notebook_state", body=body)
    for tool, wanted in EDITS:
        answer = await call(
            "POST", "tools", tool, body={**body, "input": {"cell_id": name, **wanted}}
        )
        assert answer.body["is_error"], answer.body
        assert answer.body["reason"] == "locked", answer.body
        assert "must not be" in answer.body["text"]
    assert locked.read_bytes() == before


@pytest.mark.parametrize("name", list(LOCKS))
async def test_rest_refuses(call: Call, locked: Path, name: str) -> None:
    before = locked.read_bytes()
    cell = ("notebooks", "locked.ipynb", "cells", name)
    refused = [
        await call("PATCH", *cell, body={"old_string": "1", "new_string": "2"}),
        await call("PATCH", *cell, body={"type": "raw"}),
        await call("DELETE", *cell),
    ]
    assert [(answer.status, answer.body["reason"]) for answer in refused] == [(409, "locked")] * 3
    assert locked.read_bytes() == before


async def test_a_chat_refuses_whatever_a_person_allows(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, locked: Path
) -> None:
    before = locked.read_bytes()
    edits = [calls(tool, cell_id=name, **wanted) for name in LOCKS for tool, wanted in EDITS]
    replies += [[calls("get_notebook_state")], edits, [says("They are locked.")]]
    body = {**ask("Change them."), "notebook": "locked.ipynb", "mode": "auto", "stream": False}
    await call("POST", "chat", body=body)
    results = fake.requests[2]["messages"][-1]["content"]
    answered = [block for block in results if block["type"] == "tool_result"]
    assert len(answered) == len(edits)
    assert all(block["is_error"] for block in answered)
    assert "must not be" in json.dumps(answered[0])
    assert locked.read_bytes() == before


async def test_a_cell_that_must_not_be_deleted_can_be_edited(call: Call, locked: Path) -> None:
    cell = ("notebooks", "locked.ipynb", "cells", "not-deletable")
    refused = await call("DELETE", *cell)
    assert (refused.status, refused.body["reason"]) == (409, "locked")
    edited = await call("PATCH", *cell, body={"old_string": "1", "new_string": "2"})
    assert edited.body["source"] == "x = 2"
    assert edited.body["metadata"] == {"deletable": False}


async def test_no_tool_and_no_route_takes_a_lock_away(call: Call, locked: Path) -> None:
    cell = ("notebooks", "locked.ipynb", "cells", "injected")
    assert (await call("PATCH", *cell, body={"metadata": {}})).status == 400
    body = {"notebook": "locked.ipynb", "mode": "auto"}
    wanted = {"cell_id": "injected", "metadata": {}}
    answer = await call("POST", "tools", "update_cell", body={**body, "input": wanted})
    assert answer.body["reason"] == "invalid_input"


async def test_a_read_only_file_is_refused_before_anything_is_done(
    call: Call, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = locked.read_bytes()
    # The tests may run as root, which may write anything: so the system's answer is faked.
    monkeypatch.setattr(os, "access", lambda target, mode, **_: mode != os.W_OK)
    edits: list[tuple[str, dict[str, Any]]] = [
        ("update_cell", {"cell_id": "free", "old_string": "1", "new_string": "2"}),
        ("delete_cell", {"cell_id": "free"}),
        ("move_cell", {"cell_id": "free", "before": "injected"}),
        ("create_cell", {"source": "new"}),
    ]
    for mode in ("edit", "auto"):
        for tool, wanted in edits:
            body = {"notebook": "locked.ipynb", "mode": mode, "allow": [tool], "input": wanted}
            answer = await call("POST", "tools", tool, body=body)
            assert (answer.body["is_error"], answer.body["reason"]) == (True, "locked")
            assert "read-only" in answer.body["text"]
    by_rest = await call("POST", "notebooks", "locked.ipynb", "cells", body={"source": "new"})
    assert (by_rest.status, by_rest.body["reason"]) == (409, "locked")
    assert locked.read_bytes() == before
    now = await call("GET", "notebooks", "locked.ipynb")
    assert [cell["id"] for cell in now.body["cells"]] == [*LOCKS, "not-deletable", "free"]
