"""Who decided and did what: over REST, in the export, and as `jupyter agent log`."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.cli.main import main
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from ..gates import FOREVER
from .conftest import PATH, Call, ask, frames

MODEL = "anthropic:claude-sonnet-5-5"


def short(audit: list[dict[str, Any]]) -> list[tuple[str, str, str | None, str]]:
    return [(each["entry"], each["tool"], each["cell_id"], each["outcome"]) for each in audit]


async def decided(call: Call, replies: list[FakeReply]) -> str:
    """A turn in which a person allows an edit, declines a run, and then undoes the edit."""
    replies += [
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")],
        [calls("run_cell", cell_id="c3"), calls("read_cells", cell_ids=["a1", "zz"])],
        [says("Done.")],
    ]
    turn = (await call("POST", "chat", body=ask("Do it.", mode="ask", stream=False))).body
    for approved in (True, False):
        (question,) = turn["approvals"]
        answer = {"id": question["id"], "approved": approved, "reason": "" if approved else "No!"}
        body = {"approvals": [answer], "wait": 60}
        turn = (await call("POST", "chat", "talk", "approvals", body=body)).body
    assert turn["state"] == "done"
    await call("POST", "turns", turn["turn_id"], "accept")
    await call("POST", "turns", turn["turn_id"], "undo")
    return str(turn["turn_id"])


EXPECTED = [
    ("person", "edit_cells", "b2", "answered"),
    ("chat", "edit_cells", "b2", "done"),
    ("chat", "read_cells", None, "failed"),
    ("person", "run_cells", "c3", "answered"),
    ("chat", "run_cells", "c3", "refused"),
    ("person", "accept", "b2", "done"),
    ("person", "undo", "b2", "done"),
]


async def test_every_decision_and_effect_is_told_with_who_when_and_which_model(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    turn_id = await decided(call, replies)
    audit = (await call("GET", "turns", turn_id)).body["audit"]
    assert short(audit) == EXPECTED
    for entry in audit:
        assert entry["owner"] == "local"
        assert entry["model"] == MODEL
        assert entry["notebook"] == PATH
        assert entry["turn_id"] == turn_id
        assert entry["time"].endswith("Z")
    assert "The user allowed it" in audit[0]["decision"]
    assert (audit[3]["why"], audit[3]["decision"]) == ("No!", "The user declined it.")
    assert audit[4]["why"].endswith("continue or ask.")
    exported = (await call("GET", "conversations", "talk", "export")).body
    assert exported["turns"][0]["audit"] == audit


async def test_a_call_for_a_notebook_that_is_not_there_is_told_like_any_other(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    gone = calls("delete_cell", notebook="gone.ipynb", cell_id="d4")
    replies += [[gone], [says("It is gone.")]]
    turn = (await call("POST", "chat", body=ask("Do it.", mode="auto", stream=False))).body
    (entry,) = (await call("GET", "turns", turn["turn_id"])).body["audit"]
    assert short([entry]) == [("chat", "delete_cell", "d4", "failed")]
    assert entry["notebook"] == "gone.ipynb"


async def test_the_audit_outlives_its_conversation_and_is_printed(
    call: Call,
    replies: list[FakeReply],
    notebook: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    turn_id = await decided(call, replies)
    audit = (await call("GET", "turns", turn_id)).body["audit"]
    await call("DELETE", "conversations", "talk")
    body = {"notebook": PATH, "mode": "auto", "input": {"source": "y = 1"}}
    await call("POST", "tools", "create_cell", body=body)

    def printed(*arguments: str) -> str:
        assert main(["log", *arguments, "--store", str(tmp_path / "store")]) == 0
        return capsys.readouterr().out

    assert json.loads(printed("--turn", turn_id, "--json")) == audit
    lines = printed(str(notebook)).splitlines()
    assert len(lines) == len(audit) + 1
    assert f"local by {MODEL}  edit_cells {PATH} b2  ask: Mode `ask`" in lines[1]
    assert lines[1].endswith("-> done")
    assert lines[3].endswith("The user declined it. -> answered (No!)")
    assert f"local by tools  create_cells {PATH}  run: Mode `auto`" in lines[-1]
    assert main(["log", "other.ipynb", "--store", str(tmp_path / "store")]) == 1
    assert "No matching audit entries" in capsys.readouterr().err
    assert main(["log", "--store", str(tmp_path / "nowhere")]) == 1
    assert "no store" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "nowhere", ignore_errors=True)


@pytest.mark.full
async def test_what_was_cut_off_by_a_stop_is_in_the_audit(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [calls("create_cell", source=f"print('on', flush=True)\n{FOREVER}", before="b2")],
        [calls("run_cells")],
    ]
    asked = asyncio.ensure_future(call("POST", "chat", body=ask("Run.")))
    runs: list[Any] = []
    while not runs or not runs[-1]["outputs"]:  # each look waits for the server
        cells = (await call("GET", "notebooks", PATH)).body["cells"]
        runs = [cell for cell in cells if "wait" in cell["source"]]
    await call("POST", "chat", "talk", "stop")
    turn_id = frames((await asked).text)[0]["messageMetadata"]["turnId"]
    audit = (await call("GET", "turns", turn_id)).body["audit"]
    assert [(entry["tool"], entry["outcome"]) for entry in audit] == [
        ("create_cells", "done"),
        ("run_cells", "stopped"),
    ]
