"""A person gets back a notebook as it was before a turn; paths follow renames."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_output

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask


async def test_a_copy_of_each_turn_can_be_had_also_when_the_notebook_is_gone(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    for old, new in (("1", "2"), ("2", "3")):
        replies += [
            [calls("update_cell", cell_id="b2", old_string=f"x = {old}", new_string=f"x = {new}")],
            [calls("create_cell", source="y")],
            [says("Done.")],
        ]
        await call("POST", "chat", body={**ask("Change it."), "stream": False})
    notebook.unlink()
    copies = (await call("GET", "notebooks", PATH, "recovery")).body["copies"]
    assert len(copies) == 2
    texts = []
    for copy in reversed(copies):
        content = (await call("GET", "notebooks", PATH, "recovery", str(copy["id"]))).body
        texts.append({cell["id"]: cell["source"] for cell in content["cells"]})
    assert [text["b2"] for text in texts] == ["x = 1", "x = 2"]
    assert list(texts[0]) == ["a1", "b2", "c3"]
    for missing in ("999", "x", "9" * 30):
        answer = await call("GET", "notebooks", PATH, "recovery", missing)
        assert (answer.status, answer.body["reason"]) == (404, "not_found")


async def test_a_notebook_renamed_in_the_middle_of_a_turn_is_followed_and_undone(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
    agent: Assistant,
    jp_fetch: Any,
) -> None:
    """The model continues with the path it knows; no file is created there again."""
    before = json.loads(notebook.read_text(encoding="utf-8"))
    after = "sales, Q3/second look.ipynb"
    renamed = asyncio.Event()

    async def rename() -> None:
        await jp_fetch(
            "api", "contents", *PATH.split("/"), method="PATCH", body=json.dumps({"path": after})
        )
        renamed.set()

    replies += [
        [calls("get_notebook_state")],
        [calls("update_cell", cell_id="b2", source="x = 2")],
        [says("Half of it is done.")],
        [calls("update_cell", cell_id="b2", source="x = 3", notebook=PATH)],
        [calls("delete_cell", cell_id="c3", notebook=PATH)],
        [says("Done.")],
    ]
    first = await call("POST", "chat", body={**ask("Change it."), "stream": False})
    await rename()
    await renamed.wait()
    second = await call("POST", "chat", body={**ask("Go on."), "stream": False})
    assert not notebook.exists()
    target = notebook.with_name("second look.ipynb")
    cells = json.loads(target.read_text(encoding="utf-8"))["cells"]
    assert [(cell["id"], "".join(cell["source"])) for cell in cells] == [
        ("a1", "# Sales"),
        ("b2", "x = 3"),
    ]
    talk = await call("GET", "conversations", first.body["conversation_id"])
    asked = [message for message in talk.body["messages"] if message["role"] == "user"]
    assert asked[0]["metadata"]["notebook"] == after  # asking again is about the same one
    for turn in (second, first):
        changes = await call("GET", "turns", turn.body["turn_id"], "changes")
        assert {change["notebook"] for change in changes.body} == {after}
        undone = await call("POST", "turns", turn.body["turn_id"], "undo")
        assert undone.body["conflicts"] == []
    assert json.loads(target.read_text(encoding="utf-8"))["cells"] == before["cells"]
    # One for each turn, and one for the undo, which is outside of turns.
    assert len((await call("GET", "notebooks", after, "recovery")).body["copies"]) == 3


@pytest.mark.full
@pytest.mark.parametrize("turns", [12, pytest.param(200, marks=pytest.mark.long)])
async def test_the_store_does_not_grow_by_whole_notebooks(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
    agent: Assistant,
    turns: int,
) -> None:
    """Each turn changes one of twenty cells that show a picture of 200 KB."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for number in range(20):
        shown = new_output(
            "display_data", {"image/png": base64.b64encode(random.randbytes(190_000)).decode()}
        )
        content["cells"].append(new_code_cell(f"plot({number})", id=f"p{number}", outputs=[shown]))
    notebook.write_text(json.dumps(content), encoding="utf-8")
    assert notebook.stat().st_size > 5_000_000
    for turn in range(turns):
        changed = calls("update_cell", cell_id=f"p{turn % 20}", old_string="plot(", new_string="p(")
        if turn // 20 % 2:
            changed = calls(
                "update_cell", cell_id=f"p{turn % 20}", old_string="p(", new_string="plot("
            )
        replies += [[changed], [says("Done.")]]
        done = await call("POST", "chat", body={**ask("Change it."), "stream": False})
        assert done.body["state"] == "done"
    await agent.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = agent.database.path.stat().st_size
    assert size < 10_000_000 + 50_000_000 * turns / 200


async def test_a_notebook_cut_off_when_the_server_was_killed_is_whole_after_its_next_start(
    call: Call, notebook: Path, agent: Assistant, jp_serverapp: Any
) -> None:
    """On disk, before anyone reads it; leftovers of the save are reported."""
    body = {"old_string": "x = 1", "new_string": "x = 2"}
    assert (await call("PATCH", "notebooks", PATH, "cells", "b2", body=body)).status == 200
    whole = notebook.read_bytes()
    notebook.write_bytes(whole[:100])
    notebook.with_name(f".~{notebook.name}").write_bytes(whole)
    os.utime(notebook, (0, 0))
    await agent.start()
    assert agent.tidying is not None
    await agent.tidying
    assert notebook.read_bytes() == whole
    assert notebook.with_name(f"{notebook.name}.invalid").read_bytes() == whole[:100]
    notes = (await call("GET", "status")).body["notes"]
    assert any(f"{notebook.name}.invalid" in note for note in notes)


async def test_what_rest_edits_wrote_is_kept_when_another_program_writes_over_it(
    call: Call, notebook: Path
) -> None:
    """No journal has it: there is a copy from before, and one with the lost edits."""
    before = notebook.read_text(encoding="utf-8")
    for old, new in (("x = 1", "x = 2"), ("x = 2", "x = 3")):
        body = {"old_string": old, "new_string": new}
        assert (await call("PATCH", "notebooks", PATH, "cells", "b2", body=body)).status == 200
    notebook.write_text(before, encoding="utf-8")
    cell = (await call("GET", "notebooks", PATH, "cells", "b2")).body
    assert cell["source"] == "x = 1"
    texts = []
    for copy in (await call("GET", "notebooks", PATH, "recovery")).body["copies"]:
        content = (await call("GET", "notebooks", PATH, "recovery", str(copy["id"]))).body
        texts += [cell["source"] for cell in content["cells"] if cell["id"] == "b2"]
    assert texts == ["x = 3", "x = 1"]
