"""Calls that a person has to allow: the questions, their order, and the effect of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Policy, Rule
from jupyter_agent.errors import NeedsApproval, NotPermitted
from jupyter_agent.events import ApprovalRequested, CallDenied, CallFailed, CallOutput
from jupyter_agent.models.base import Block
from tests.fakes import ScriptedModel, calls, says
from tests.waiting import until

from .conftest import Answering, Bench, approving, with_limits


def asking(bench: Bench, *blocks: Block, mode: str = "ask") -> ScriptedModel:
    bench.policy = Policy(mode=mode)  # type: ignore[arg-type]
    return ScriptedModel([list(blocks), [says("Done.")]])


def sent(model: ScriptedModel) -> list[str]:
    """The results that the model got for its calls."""
    return [block["content"][0]["text"] for block in model.requests[1].messages[-1]["content"]]


def meanwhile(act: Callable[[], None]) -> Answering:
    """A person who allows everything after some other action."""

    async def answer(approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        act()
        return await approving()(approvals)

    return answer


def groups(asked: Sequence[Approval]) -> list[list[str]]:
    """The tools of each group, in the order of their questions."""
    found: dict[str, list[str]] = {}
    for approval in asked:
        found.setdefault(approval.group, []).append(approval.tool)
    return list(found.values())


async def test_a_person_sees_what_would_change_and_allows_it(bench: Bench) -> None:
    bench.answering = approving()
    await bench.run(asking(bench, calls("write", cell_id="a", source="x = 2")))
    assert bench.desk.cells["a"] == "x = 2"
    (told,) = bench.told(ApprovalRequested)
    shown = dict(told.approval)
    assert shown.pop("id") == told.approval_id
    assert shown.pop("expires").endswith("Z")
    assert shown.pop("group")
    assert shown == {
        "call_id": "toolu_1",
        "tool": "write",
        "input": {"cell_id": "a", "source": "x = 2"},
        "notebook": "home.ipynb",
        "cell_id": "a",
        "diff": "-x = 1\n+x = 2",
    }


async def test_the_questions_of_a_step_are_asked_together_and_answered_apart(bench: Bench) -> None:
    bench.answering = approving()
    await bench.run(
        asking(bench, calls("write", cell_id="a", source="1"), calls("execute", cell_id="b"))
    )
    (asked,) = bench.asked
    assert groups(asked) == [["write"], ["execute"]]
    assert bench.desk.log == ["write a", "run y = 2"]


async def test_an_edit_and_the_run_of_it_are_one_question(bench: Bench) -> None:
    bench.answering = approving()
    await bench.run(
        asking(bench, calls("write", cell_id="a", source="x = 2"), calls("execute", cell_id="a"))
    )
    ((edit, run),) = bench.asked
    assert groups([edit, run]) == [["write", "execute"]]
    assert run.question.code == "x = 2"  # the call runs what the approved edit leaves, or nothing
    assert edit.id != run.id
    assert edit.binding != run.binding
    assert bench.desk.log == ["write a", "run x = 2"]


async def test_the_edits_of_a_step_are_one_question_with_all_diffs(bench: Bench) -> None:
    bench.answering = approving()
    await bench.run(
        asking(
            bench,
            calls("write", cell_id="a", source="1"),
            calls("write", cell_id="b", source="2"),
            calls("write", cell_id="a", source="3"),
            calls("restart"),
        )
    )
    (asked,) = bench.asked
    assert groups(asked) == [["write", "write", "write"], ["restart"]]
    assert [approval.question.diff for approval in asked[:3]] == [
        "-x = 1\n+1",
        "-y = 2\n+2",
        "-1\n+3",
    ]
    assert bench.desk.log == ["write a", "write b", "write a", "restart"]


async def test_when_the_edit_does_not_come_as_it_was_approved_its_run_does_not_run(
    bench: Bench,
) -> None:
    bench.answering = meanwhile(lambda: bench.desk.cells.update(a="import os"))
    await bench.run(
        asking(bench, calls("write", cell_id="a", source="x = 2"), calls("execute", cell_id="a"))
    )
    assert bench.desk.log == []
    assert len(bench.told(CallFailed)) == 2


async def test_a_denied_edit_stops_nothing_and_its_run_is_asked_about_again_as_the_cell_is(
    bench: Bench,
) -> None:
    bench.answering = approving("write")
    model = asking(bench, calls("write", cell_id="a", source="1"), calls("execute", cell_id="a"))
    await bench.run(model)
    assert [[approval.question.code for approval in asked] for asked in bench.asked] == [
        [None, "1"],
        ["x = 1"],
    ]
    assert bench.desk.log == ["run x = 1"]
    assert sent(model) == [
        "The user declined this call. They said: Not today. "
        "Do not try the same in another way; continue or ask.",
        "ran x = 1",
    ]
    assert [event.call_id for event in bench.told(CallDenied)] == ["toolu_1"]
    assert [audit.outcome for audit in bench.audits] == ["refused", "done"]


async def test_without_an_answer_in_time_nothing_is_done(bench: Bench) -> None:
    async def silence(approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        return {}

    bench.answering = silence
    model = asking(bench, calls("write", cell_id="a", source="1"))
    await bench.run(model)
    assert bench.desk.log == []
    assert "Nobody answered in time" in sent(model)[0]


async def test_what_only_reads_or_is_allowed_does_not_wait_for_the_answer(bench: Bench) -> None:
    done: list[str] = []

    async def answer(approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        done.extend(event.call_id for event in bench.told(CallOutput) if not event.preliminary)
        return await approving()(approvals)

    bench.answering = answer
    await bench.run(
        asking(
            bench,
            calls("execute", cell_id="a"),
            calls("look", cell_id="a"),
            calls("write", cell_id="b", source="0"),
            mode="edit",
        )
    )
    assert done == ["toolu_2", "toolu_3"]


async def test_a_run_waits_for_every_answer_before_it(bench: Bench) -> None:
    bench.answering = approving()
    await bench.run(asking(bench, calls("restart"), calls("execute", cell_id="a"), mode="auto"))
    assert bench.desk.log == ["restart", "run x = 1"]


async def test_a_person_is_asked_about_the_code_as_the_whole_step_leaves_it(bench: Bench) -> None:
    bench.answering = approving()
    run, edit = calls("execute", cell_id="a"), calls("write", cell_id="a", source="x = 2")
    await bench.run(asking(bench, run, edit, mode="edit"))
    ((approval,),) = bench.asked
    assert approval.question.code == "x = 2"
    assert bench.desk.log == ["write a", "run x = 2"]


async def test_a_question_is_as_new_as_the_end_of_what_is_read_beside_it(bench: Bench) -> None:
    with_limits(bench, approval_seconds=3600)
    bench.answering = approving()
    edit, read = calls("write", cell_id="a", source="x = 2"), calls("linger", gate="read")
    running = asyncio.create_task(bench.run(asking(bench, edit, read)))
    await until(lambda: "read" in bench.desk.reached)
    bench.desk.cells["a"] = "x = typed"
    since = datetime.now(UTC)
    bench.desk.gates["read"].set()
    await running
    ((approval,),) = bench.asked
    assert approval.question.diff == "-x = typed\n+x = 2"
    assert approval.expires >= since + timedelta(seconds=3600)
    assert bench.desk.cells["a"] == "x = 2"


async def test_code_that_changed_since_it_was_shown_is_not_run(bench: Bench) -> None:
    bench.answering = meanwhile(lambda: bench.desk.cells.update(a="import os"))
    model = asking(bench, calls("execute", cell_id="a"))
    await bench.run(model)
    assert bench.desk.log == []
    assert "has changed since" in sent(model)[0]
    assert bench.told(CallFailed)


async def test_an_approval_for_one_kernel_is_none_for_another(bench: Bench) -> None:
    bench.answering = meanwhile(lambda: setattr(bench.desk, "kernel", "k:1"))
    await bench.run(asking(bench, calls("execute", cell_id="a")))
    assert bench.desk.log == []


async def test_two_runs_in_a_notebook_without_a_kernel_need_no_second_question(
    bench: Bench,
) -> None:
    bench.desk.kernel = ""
    bench.answering = approving()
    await bench.run(asking(bench, calls("execute", cell_id="a"), calls("execute", cell_id="b")))
    assert bench.desk.log == ["run x = 1", "run y = 2"]


async def test_a_question_that_cannot_be_put_is_an_error_and_not_a_question(bench: Bench) -> None:
    model = asking(bench, calls("write", cell_id="gone", source="1"))
    await bench.run(model)
    assert bench.asked == []
    assert sent(model) == ["No cell `gone`. Cells now: a, b."]


async def test_a_change_elsewhere_is_asked_for_once(bench: Bench) -> None:
    bench.answering = approving()
    bench.policy = Policy(mode="edit")
    there = calls("write", notebook="other.ipynb", cell_id="a", source="1")
    await bench.run(ScriptedModel([[there], [there], [says("Done.")]]))
    assert len(bench.asked) == 1
    assert bench.desk.log == ["write a", "write a"]


async def test_what_a_person_allowed_is_trusted_and_what_runs_by_itself_is_not(
    bench: Bench,
) -> None:
    bench.answering = approving()
    await bench.run(asking(bench, calls("execute", cell_id="a")))
    bench.policy = Policy(mode="auto")
    await bench.run(ScriptedModel([[calls("execute", cell_id="a")], [says("Done.")]]))
    assert bench.desk.trusted == [True, False]


async def test_a_refusing_mode_is_told_to_the_model(bench: Bench) -> None:
    model = asking(bench, calls("execute", cell_id="a"), mode="read")
    await bench.run(model)
    assert "Mode `read` forbids `execute`" in sent(model)[0]
    assert bench.told(CallDenied)


async def test_the_authorizer_comes_before_every_mode_and_rule(bench: Bench) -> None:
    bench.forbidden = {("execute", "kernels")}
    bench.policy = Policy(
        mode="auto", preapproved_tools=frozenset({"execute"}), rules=[Rule(verdict="allow")]
    )
    model = ScriptedModel([[calls("execute", cell_id="a")], [says("Done.")]])
    await bench.run(model)
    assert bench.desk.log == []
    assert "not allowed to execute kernels" in sent(model)[0]


async def test_stop_while_a_question_waits_answers_its_call(bench: Bench) -> None:
    waiting = asyncio.Event()

    async def wait(approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench.answering = wait
    running = asyncio.create_task(bench.run(asking(bench, calls("execute", cell_id="a"))))
    await waiting.wait()
    running.cancel()
    assert (await running).state == "stopped"
    assert bench.stored[-1]["content"][0]["is_error"]


# -- when no one can be asked


async def test_where_nobody_can_be_asked_a_call_runs_only_if_it_is_allowed_by_name(
    bench: Bench,
) -> None:
    turn = bench.turn(ScriptedModel([]))

    async def execute(policy: Policy) -> str:
        return (await turn.dispatcher.call("execute", {"cell_id": "a"}, turn.work, policy)).text

    with pytest.raises(NeedsApproval, match=r'name it in `allow` \(\["execute"\]\)'):
        await execute(Policy(mode="ask"))
    assert bench.audits[-1].outcome == "refused"
    with pytest.raises(NotPermitted, match="Mode `read` forbids"):
        await execute(Policy(mode="read"))
    assert (
        await execute(Policy(mode="ask", preapproved_tools=frozenset({"execute"}))) == "ran x = 1"
    )
