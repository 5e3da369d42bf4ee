"""Several cells in one call: one question, all or nothing, one transaction; and code in no cell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from ..gates import FOREVER
from ..waiting import until
from .conftest import PATH, Call, ask

SECTION = calls(
    "create_cells",
    cells=[
        {"source": "## Twice", "type": "markdown"},
        {"source": "y = 21"},
        {"source": "print(y * 2)"},
    ],
    after="a1",
    run=True,
)
BOTH = calls(
    "edit_cells",
    edits=[
        {"cell_id": "c3", "old_string": "'x is'", "new_string": "'x:'"},
        {"cell_id": "b2", "old_string": "x = 1", "new_string": "x = 2"},
    ],
    run=True,
)


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def printed(path: Path, index: int) -> str:
    """What the only output of a cell printed."""
    (output,) = nbformat.read(path, as_version=4).cells[index].outputs
    return str(output["text"])


async def asked(call: Call, **more: Any) -> dict[str, Any]:
    """The only approval that a turn in mode `ask` waits for."""
    waiting = (await call("POST", "chat", body=ask("Go.", mode="ask", stream=False, **more))).body
    assert waiting["state"] == "waiting", waiting
    (approval,) = waiting["approvals"]
    return dict(approval)


async def allow(call: Call, approval: dict[str, Any], **more: Any) -> dict[str, Any]:
    reply = {"id": approval["id"], "approved": True, **more}
    body = {"approvals": [reply], "wait": 60}
    return dict((await call("POST", "chat", "talk", "approvals", body=body)).body)


def results(fake: FakeAnthropic) -> list[dict[str, Any]]:
    """The results in the last request."""
    content = fake.requests[-1]["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"]


def told(fake: FakeAnthropic) -> str:
    """Their text."""
    return "\n".join(
        part["text"] for each in results(fake) for part in each["content"] if "text" in part
    )


async def tool(call: Call, name: str, **more: Any) -> dict[str, Any]:
    """A call over REST, without anyone to ask."""
    body = {"notebook": PATH, "mode": "auto", **more}
    return dict((await call("POST", "tools", name, body=body)).body)


# -- create_cells


@pytest.mark.full
async def test_a_section_is_one_question_made_and_run_by_one_call_and_taken_back_by_one(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    before = notebook.read_bytes()
    cells = nbformat.read(notebook, as_version=4).cells
    replies += [[SECTION], [says("42.")]]
    approval = await asked(call)
    assert approval["edits"] == [
        {"cell_id": None, "cell_type": "markdown", "diff": "@@ -0,0 +1 @@\n+## Twice"},
        {"cell_id": None, "cell_type": "code", "diff": "@@ -0,0 +1 @@\n+y = 21"},
        {"cell_id": None, "cell_type": "code", "diff": "@@ -0,0 +1 @@\n+print(y * 2)"},
    ]
    assert approval["code"] == "y = 21\n\nprint(y * 2)"
    assert notebook.read_bytes() == before
    turn = await allow(call, approval)
    assert turn["state"] == "done"
    assert sources(notebook) == [
        "# Sales",
        "## Twice",
        "y = 21",
        "print(y * 2)",
        "x = 1",
        "print('x is', x)",
    ]
    assert printed(notebook, 3) == "42\n"
    assert "42" in told(fake)
    assert [change["kind"] for change in turn["changes"]] == 3 * ["insert"] + 2 * ["outputs"]
    undone = (await call("POST", "turns", turn["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    assert nbformat.read(notebook, as_version=4).cells == cells


@pytest.mark.full
async def test_what_comes_after_an_error_does_not_run_and_stays(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    cells = [{"source": "1 / 0"}, {"source": "z = 1"}]
    replies += [[calls("create_cells", cells=cells, run=True)], [says("Oh.")]]
    await call("POST", "chat", body=ask("Go.", stream=False))
    made = nbformat.read(notebook, as_version=4).cells[-2:]
    assert [cell.execution_count for cell in made] == [1, None]
    assert "ZeroDivisionError" in told(fake)
    assert "Not run, as they come after it: 1 more." in told(fake)


async def test_what_was_not_run_is_in_the_result_with_the_reason(
    call: Call, notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.metadata["kernelspec"] = {"name": "nowhere", "display_name": "Nowhere"}
    nbformat.write(content, notebook)
    input = {"cells": [{"source": "z = 1"}], "run": True}
    answer = await tool(call, "create_cells", input=input)
    assert answer["not_run"].startswith("Not run: No kernel `nowhere`: it is not installed.")


async def test_cells_are_inserted_all_or_none(call: Call, notebook: Path) -> None:
    before = notebook.read_bytes()
    cells = [{"source": "fine"}, {"source": "odd", "type": "text"}]
    answer = await tool(call, "create_cells", input={"cells": cells})
    assert answer["reason"] == "invalid_input"
    answer = await tool(call, "create_cells", input={"cells": cells[:1], "after": "gone"})
    assert answer["reason"] == "cell_not_found"
    answer = await tool(call, "create_cells", input={"cells": []})
    assert answer["reason"] == "invalid_input"
    assert notebook.read_bytes() == before


def began(agent: Assistant) -> bool:
    """Whether code of a turn runs and has printed something."""
    runs = agent.services.runs
    return any(
        run.outputs() for turn in agent.runner.running for run in runs.of_turn(turn.record.id)
    )


@pytest.mark.full
async def test_a_turn_that_is_stopped_while_its_section_runs_can_be_taken_back(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path
) -> None:
    before = nbformat.read(notebook, as_version=4).cells
    cells = [{"source": f"print('began', flush=True)\n{FOREVER}"}]
    replies += [[calls("create_cells", cells=cells, run=True)]]
    body = ask("Go.", stream=False)
    turn = asyncio.create_task(call("POST", "chat", body=body))
    await until(lambda: began(agent))
    await call("POST", "chat", "talk", "stop")
    stopped = (await turn).body
    kinds = [change["kind"] for change in stopped["changes"]]
    assert "insert" in kinds, stopped
    (run,) = agent.services.runs.of_turn(stopped["turn_id"])
    assert await run.wait(60)
    undone = (await call("POST", "turns", stopped["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    assert sources(notebook) == ["# Sales", "x = 1", "print('x is', x)"]
    assert nbformat.read(notebook, as_version=4).cells == before


# -- edit_cells


@pytest.mark.full
async def test_edits_of_several_cells_run_from_top_to_bottom_after_one_question(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[BOTH], [says("Done.")]]
    approval = await asked(call)
    assert [(edit["cell_id"], edit["diff"]) for edit in approval["edits"]] == [
        ("b2", "@@ -1 +1 @@\n-x = 1\n+x = 2"),
        ("c3", "@@ -1 +1 @@\n-print('x is', x)\n+print('x:', x)"),
    ]
    assert approval["code"] == "x = 2\n\nprint('x:', x)"
    done = await allow(call, approval)
    assert done["state"] == "done"
    assert printed(notebook, 2) == "x: 2\n"
    counts = [cell.execution_count for cell in nbformat.read(notebook, as_version=4).cells[1:]]
    assert counts == [1, 2]


async def test_edits_of_one_cell_follow_each_other(call: Call, notebook: Path) -> None:
    edits = [
        {"cell_id": "b2", "old_string": "x = 1", "new_string": "x = 1\ny = 2"},
        {"cell_id": "b2", "old_string": "y = 2", "new_string": "y = 3"},
    ]
    answer = await tool(call, "edit_cells", input={"edits": edits})
    assert not answer["is_error"]
    assert sources(notebook)[1] == "x = 1\ny = 3"
    assert [change["kind"] for change in answer["changes"]] == ["update"]


async def test_an_edit_replaces_all_and_changes_type_and_tags(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    before = nbformat.read(notebook, as_version=4).cells
    every = {"old_string": "x", "new_string": "total", "replace_all": True}
    edits = [{"cell_id": "c3", **every, "add_tags": ["sum"]}, {"cell_id": "a1", "type": "raw"}]
    new = [{"source": "n = 3", "tags": ["parameters"]}]
    replies += [
        [calls("edit_cells", edits=edits), calls("create_cells", cells=new)],
        [calls("edit_cells", edits=[{"cell_id": "c3", "remove_tags": ["sum"]}])],
        [says("Done.")],
    ]
    turn = (await call("POST", "chat", body=ask("Go.", mode="auto", stream=False))).body
    texts = [part["output"]["text"] for part in turn["message"]["parts"] if "output" in part]
    assert texts[0] == "Edited cells `a1` (+0 -0, now raw), `c3` (+1 -1)."
    assert texts[2] == "Edited cell `c3` (+0 -0)."
    assert sources(notebook) == ["# Sales", "x = 1", "print('total is', total)", "n = 3"]
    cells = nbformat.read(notebook, as_version=4).cells
    assert [cell.cell_type for cell in cells] == ["raw", "code", "code", "code"]
    assert [cell.metadata.get("tags") for cell in cells] == [None, None, [], ["parameters"]]
    undone = (await call("POST", "turns", turn["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    assert nbformat.read(notebook, as_version=4).cells == before


async def test_outputs_are_cleared_where_it_is_allowed_and_come_back_with_undo(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    await call("POST", "notebooks", PATH, "run", body={})
    shown = [cell.get("outputs") for cell in nbformat.read(notebook, as_version=4).cells]
    replies += [[calls("clear_outputs")], [says("Done.")]]
    approval = await asked(call)
    assert (approval["tool"], approval["diff"]) == ("clear_outputs", "clear the outputs of 2 cells")
    turn = await allow(call, approval)
    cells = nbformat.read(notebook, as_version=4).cells
    assert [cell.get("execution_count") for cell in cells] == [None, None, None]
    assert [cell.get("outputs") for cell in cells] == [None, [], []]
    await call("POST", "turns", turn["turn_id"], "undo")
    assert [cell.get("outputs") for cell in nbformat.read(notebook, as_version=4).cells] == shown


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ({"cell_id": "c3", "old_string": "y", "new_string": "z"}, "not_once"),
        ({"cell_id": "c3", "source": "z"}, "not_read"),
        ({"cell_id": "gone", "source": "z"}, "cell_not_found"),
        ({"cell_id": "c3"}, "invalid_input"),
        ({"cell_id": "c3", "old_string": "x is"}, "invalid_input"),
    ],
)
async def test_where_one_edit_is_refused_nothing_is_changed(
    call: Call, notebook: Path, refused: dict[str, Any], reason: str
) -> None:
    before = notebook.read_bytes()
    fine = {"cell_id": "b2", "old_string": "x = 1", "new_string": "x = 2"}
    for edits in ([fine, refused], [refused, fine]):
        answer = await tool(call, "edit_cells", input={"edits": edits, "run": True})
        assert (answer["is_error"], answer["reason"]) == (True, reason), answer
        if reason in ("not_once", "not_read"):
            assert answer["current"]["source"] == "print('x is', x)"
            assert "None of the 2 edits was made" in answer["text"]
        assert notebook.read_bytes() == before


async def test_what_a_person_typed_meanwhile_stays_and_nothing_of_the_call_is_done(
    call: Call,
    jp_web_app: Any,
    jp_ws_fetch: Any,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    notebook: Path,
) -> None:
    replies += [[BOTH], [says("I look again.")]]
    approval = await asked(call)
    body = {"source": "print('mine', x)"}
    await call("PATCH", "notebooks", PATH, "cells", "c3", body=body)
    await allow(call, approval)
    assert sources(notebook) == ["# Sales", "x = 1", "print('mine', x)"]
    (result,) = results(fake)
    assert result["is_error"]


# -- code in no cell


@pytest.mark.full
async def test_code_runs_without_a_trace_in_the_notebook(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [
        [calls("run_cells")],
        [calls("run_code", code="print('x + 1 =', x + 1)\nx * 21")],
        [calls("run_cell", cell_id="c3")],
        [says("21.")],
    ]
    turn = (await call("POST", "chat", body=ask("Go.", stream=False))).body
    scratch = fake.requests[2]["messages"][-1]["content"][0]["content"][0]["text"]
    assert scratch.startswith("The code: ok, ")
    assert "x + 1 = 2" in scratch
    assert "21" in scratch
    cells = nbformat.read(notebook, as_version=4).cells
    assert [cell.source for cell in cells] == ["# Sales", "x = 1", "print('x is', x)"]
    assert [cell.execution_count for cell in cells[1:]] == [1, 3]
    part = next(part for part in turn["message"]["parts"] if part.get("toolName") == "run_code")
    assert part["output"]["cell_id"] is None
    assert part["output"]["outputs"][0]["text"] == "x + 1 = 2\n"
    assert [change["cell_id"] for change in turn["changes"]] == ["b2", "c3", "c3"]


@pytest.mark.full
async def test_always_allowing_code_holds_until_the_kernel_restarts(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    look = [calls("run_code", code="1 + 1")]
    again = [calls("run_code", code="2 + 2")]
    shell = [calls("run_code", code="!true")]
    replies += [look, again, shell, [says("Done.")]]
    approval = await asked(call)
    assert (approval["tool"], approval["code"]) == ("run_code", "1 + 1")
    waiting = await allow(call, approval, remember="conversation")
    assert waiting["state"] == "waiting", waiting
    assert waiting["approvals"][0]["code"] == "!true"


@pytest.mark.full
async def test_long_code_is_waited_for_by_its_handle(call: Call, notebook: Path) -> None:
    code = "import threading\ngate = threading.Event()\nprint(gate.wait(0.5))"
    answer = await tool(call, "run_code", input={"code": code, "wait": 0})
    assert "run_id" in answer["text"]
    later = await tool(call, "wait_for_run", input={"run_id": answer["run_id"], "wait": 60})
    assert "The code: ok" in later["text"]
    assert "False" in later["text"]


# -- rules


CASES: dict[str, dict[str, Any]] = {
    "run_code": {"code": "1"},
    "create_cells": {"cells": [{"source": "y"}]},
    "create_cells, run": {"cells": [{"source": "y = 1"}], "run": True},
    "edit_cells": {"edits": [{"cell_id": "b2", "old_string": "1", "new_string": "1"}]},
    "edit_cells, run": {
        "edits": [{"cell_id": "b2", "old_string": "1", "new_string": "1"}],
        "run": True,
    },
}


async def reasons(call: Call, **more: Any) -> dict[str, str]:
    """Why each case is refused, if it is."""
    found = {}
    for case, given in CASES.items():
        answer = await tool(call, case.partition(",")[0], input=given, **more)
        found[case] = answer.get("reason", "")
    return found


class TestRules:
    """Rules for tools for one cell also hold for those that do the same to several."""

    @pytest.fixture
    def jp_server_config(
        self, jp_server_config: dict[str, Any], request: pytest.FixtureRequest
    ) -> dict[str, Any]:
        jp_server_config["JupyterAgent"]["rules"] = request.param
        return jp_server_config

    @pytest.mark.full
    @pytest.mark.parametrize(
        ("jp_server_config", "refused"),
        [
            ([{"verdict": "deny", "tool": "run_cell"}], ["run_code", "*, run"]),
            ([{"verdict": "deny", "tool": "create_cell"}], ["create_cells", "create_cells, run"]),
            ([{"verdict": "deny", "tool": "update_cell"}], ["edit_cells", "edit_cells, run"]),
        ],
        indirect=["jp_server_config"],
    )
    async def test_a_deny_rule_holds_for_all_that_does_the_same(
        self, call: Call, notebook: Path, refused: list[str]
    ) -> None:
        found = await reasons(call)
        wanted = {*refused, *(case for case in CASES if "*, run" in refused and ", run" in case)}
        assert {case for case, reason in found.items() if reason} == wanted - {"*, run"}
        assert set(found.values()) == {"", "denied"}

    @pytest.mark.full
    @pytest.mark.parametrize(
        ("jp_server_config", "free"),
        [
            ([{"verdict": "allow", "tool": "run_cell"}], []),
            ([{"verdict": "allow", "tool": "create_cell*"}], ["create_cells"]),
            (
                [
                    {"verdict": "allow", "tool": "update_cell"},
                    {"verdict": "allow", "tool": "run_cell"},
                ],
                ["edit_cells", "edit_cells, run"],
            ),
            ([{"verdict": "allow", "tool": "run_code"}], ["run_code"]),
        ],
        indirect=["jp_server_config"],
    )
    async def test_an_allow_rule_frees_what_it_names_and_no_run_besides(
        self, call: Call, notebook: Path, free: list[str]
    ) -> None:
        found = await reasons(call, mode="ask")
        assert [case for case, reason in found.items() if not reason] == free
        assert set(found.values()) <= {"", "needs_approval"}


@pytest.mark.full
async def test_who_allows_beforehand_allows_the_run_by_its_name(call: Call, notebook: Path) -> None:
    given = CASES["create_cells, run"]
    for allowed in ([], ["create_cells"], ["run_cell"]):
        answer = await tool(call, "create_cells", mode="ask", allow=allowed, input=given)
        assert answer["reason"] == "needs_approval"
        assert '["create_cells", "run_cells"]' in answer["text"]
    both = ["create_cells", "run_cell"]
    answer = await tool(call, "create_cells", mode="ask", allow=both, input=given)
    assert not answer["is_error"]


# -- the plan


async def test_a_plan_is_the_same_at_every_door(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    steps = [{"text": "Load", "state": "done"}, {"text": "Plot", "state": "doing"}]
    answer = await tool(call, "write_plan", mode="read", input={"steps": steps})
    assert answer["steps"] == steps
    assert answer["text"] == "Noted: 2 steps, 1 to do."
    replies += [[calls("write_plan", steps=steps)], [says("Go.")]]
    turn = (await call("POST", "chat", body=ask("Go.", mode="read", stream=False))).body
    part = next(part for part in turn["message"]["parts"] if part.get("toolName") == "write_plan")
    assert part["output"]["steps"] == steps


async def test_the_tools_route_names_the_tool_that_was_meant(call: Call) -> None:
    answer = await call("POST", "tools", "run_cod", body={})
    assert answer.status == 404
    assert "Did you mean `run_code`?" in answer.text
