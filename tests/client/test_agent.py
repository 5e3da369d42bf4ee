"""`from jupyter_agent import Agent`: turns from Python, with and without a running server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import aclosing

import pytest

from jupyter_agent import Agent, SyncAgent
from jupyter_agent.agent.approval import Answer
from jupyter_agent.errors import (
    InvalidInput,
    ModelError,
    NotebookNotFound,
    NotPermitted,
    RequestError,
)
from jupyter_agent.events import (
    ApprovalRequested,
    CallOutput,
    CellsChanged,
    TextDelta,
    TurnFinished,
    TurnStarted,
)
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply, Scripted

from ..cli.conftest import NOTEBOOK, Desk
from ..programs import Server, jupyter_server
from ..waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("at_home")

EDIT = calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")
ENDLESS = Scripted(blocks=[says("I begin now, and more will come.")], stop_after=4, then="ping")


@pytest.mark.full
def test_a_turn_is_its_events_and_what_came_of_it_and_can_be_taken_back(
    somewhere: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [
        [says("I change it."), EDIT, calls("run_cells", cell_ids=["b2", "c3"])],
        [says("Now x is 2.")],
        [says("As I said.")],
    ]

    async def script() -> None:
        async with Agent(NOTEBOOK, mode="auto") as agent:
            turn = agent.ask("Set x to 2")
            events = [event async for event in turn]
            assert (type(events[0]), type(events[-1])) == (TurnStarted, TurnFinished)
            words = "".join(event.delta for event in events if isinstance(event, TextDelta))
            assert words == turn.text == "I change it.Now x is 2."
            outputs = [event.output for event in events if isinstance(event, CallOutput)]
            assert "x is 2" in outputs[-1]["text"]
            assert any(isinstance(event, CellsChanged) for event in events)
            assert (turn.state, turn.usage.total, turn.denied) == ("done", 220, [])
            (edited,) = [change for change in turn.changes if change.kind == "update"]
            assert edited.before is not None
            assert (edited.cell_id, edited.before.source) == ("b2", "x = 1")
            assert [each.source for each in await agent.notebook.cells()][1] == "x = 2"
            assert [*await agent.changes()] == [turn.id]
            undone = await agent.undo(turn)
            assert ("b2", "update") in [(each.cell_id, each.kind) for each in undone.changes]
            assert (undone.conflicts, await agent.changes()) == ([], {})
            again = await agent.ask("Again?", mode="read")
            assert again.text == "As I said."
            assert "Now x is 2." in json.dumps(model.requests[-1])

    asyncio.run(script())
    assert somewhere.sources()["b2"] == "x = 1"


@pytest.mark.full
def test_the_twin_that_waits_works_inside_a_running_event_loop(
    desk: Desk, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], [says("Done.")], [says("Yes.")]]

    async def cell() -> None:  # like the code of a notebook
        with SyncAgent(NOTEBOOK, mode="edit") as agent:
            assert agent.ask("Set x to 2").wait().text == "Done."
            assert desk.sources()["b2"] == "x = 2"
            assert [change.kind for change in agent.undo().changes] == ["update"]
            events = list(agent.ask("Sure?"))
            assert isinstance(events[-1], TurnFinished)

    asyncio.run(cell())
    assert desk.sources()["b2"] == "x = 1"


@pytest.mark.full
def test_what_would_be_asked_is_denied_where_nobody_can_be_asked(
    desk: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[EDIT], [says("I could not.")], [EDIT], [says("Done.")]]
    with SyncAgent(NOTEBOOK) as agent:
        turn = agent.ask("Set x to 2").wait()
        assert (turn.state, turn.changes, len(turn.denied)) == ("done", [], 1)
        assert "Nobody can answer in this turn" in json.dumps(model.requests[0])
        assert "nobody can answer" in json.dumps(model.requests[-1]["messages"][-1])
        assert agent.ask("Set x to 2", allow=["update_cell"]).wait().denied == []
    assert desk.sources()["b2"] == "x = 2"


@pytest.mark.full
def test_an_approval_is_given_for_the_exact_diff_or_denied_with_a_reason(
    desk: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    third = calls("update_cell", cell_id="c3", old_string="x is", new_string="x:")
    fourth = calls("delete_cell", cell_id="a1")
    replies += [[EDIT], [third], [fourth], [fourth], [says("Well.")]]
    asked: list[ApprovalRequested] = []
    seen: list[dict[str, str]] = []

    async def approve(question: ApprovalRequested) -> bool | str | Answer:
        seen.append(await asyncio.to_thread(desk.sources))
        asked.append(question)
        answers = ["make it three", True, False, Answer(approved=True, remember="conversation")]
        return answers[len(asked) - 1]

    async def script() -> None:
        async with Agent(NOTEBOOK, approve=approve) as agent:
            told = [event async for event in agent.ask("Go on")]
            shown = [event for event in told if isinstance(event, ApprovalRequested)]
            assert [each.approval["id"] for each in shown] == [each.approval_id for each in asked]

    asyncio.run(script())
    assert [each.approval["tool"] for each in asked] == [*2 * ["edit_cells"], *2 * ["delete_cell"]]
    assert [sources["c3"] for sources in seen] == [
        *2 * ["print('x is', x)"],
        *2 * ["print('x:', x)"],
    ]
    assert "-x = 1\n+x = 2" in asked[0].approval["diff"]
    assert "make it three" in json.dumps(model.requests[1])
    assert "Nobody can answer" not in json.dumps(model.requests)
    assert desk.sources() == {"b2": "x = 1", "c3": "print('x:', x)"}


@pytest.mark.full
def test_calls_that_rest_on_each_other_are_answered_together(
    desk: Desk, replies: list[FakeReply]
) -> None:
    replies += [[EDIT, calls("run_cells", cell_ids=["b2", "c3"])], [says("Done.")]]
    with SyncAgent(NOTEBOOK, approve=lambda asked: True) as agent:
        turn = agent.ask("Set x to 2 and run").wait()
        assert turn.denied == []
        assert agent.notebook.cell("c3").outputs[0]["text"] == "x is 2\n"


@pytest.mark.full
def test_a_cancelled_turn_is_stopped_and_what_it_did_until_then_is_known(
    served: Server, desk: Desk, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], ENDLESS]

    async def script() -> None:
        async with Agent(NOTEBOOK, mode="edit") as agent:
            turn = agent.ask("Set x to 2")

            async def read() -> None:
                await turn

            reading = asyncio.ensure_future(read())
            await until(lambda: "I begin" in turn.text)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert turn.state == "stopped"
            assert served.request("GET", "status")["turns"] == []
            assert [change.cell_id for change in (await agent.undo(turn)).changes] == ["b2"]

    asyncio.run(script())


@pytest.mark.full
def test_leaving_the_loop_over_a_turn_stops_it(desk: Desk, replies: list[FakeReply]) -> None:
    replies += [ENDLESS, ENDLESS]

    async def script() -> None:
        async with Agent(NOTEBOOK) as agent:
            turn = agent.ask("Go")
            async with aclosing(turn.__aiter__()) as events:  # `break` would close it later
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
            assert turn.state == "stopped"

    asyncio.run(script())
    with SyncAgent(NOTEBOOK) as agent:
        turn = agent.ask("Go")
        for event in turn:
            if isinstance(event, TextDelta):
                break
        assert turn.state == "stopped"


@pytest.mark.full
def test_closing_stops_what_runs_and_asks_nothing_that_was_never_read(
    desk: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [ENDLESS]

    async def script() -> None:
        async with Agent(NOTEBOOK) as agent:
            agent.ask("Never awaited")
            running = agent.ask("Go")
            events = running.__aiter__()
            assert isinstance(await anext(events), TurnStarted)
        assert running.state == "stopped"
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(script())
    assert "Never awaited" not in json.dumps(model.requests)


@pytest.mark.full
def test_failures_of_models_and_missing_notebooks_are_errors(
    desk: Desk, replies: list[FakeReply]
) -> None:
    replies.append(Scripted(status=401, error=("authentication_error", "invalid x-api-key")))
    with SyncAgent(NOTEBOOK) as agent:
        turn = agent.ask("Look")
        events = []
        with pytest.raises(ModelError, match="key"):
            events += iter(turn)  # type: ignore[arg-type]
        assert turn.state == "failed"
        with pytest.raises(ModelError, match="`nobody:nothing` is not a model"):
            agent.ask("Look", model="nobody:nothing")
        with pytest.raises(InvalidInput, match="No tool `run_cels`. Tools: clear_outputs"):
            agent.ask("Look", allow=["run_cels"])
        with pytest.raises(InvalidInput, match="`allow` is a list of tools"):
            agent.ask("Look", allow="run_cells")
        replies.append([calls("get_notebook_state")])
        assert agent.ask("Look", max_steps=1).wait().limit == "steps"
    with pytest.raises(NotebookNotFound, match="nothing.ipynb"), SyncAgent("nothing.ipynb"):
        pass


@pytest.mark.full
def test_the_server_that_has_the_notebook_is_used_and_never_worked_around(
    desk: Desk, served: Server, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], [says("Done.")]]
    with SyncAgent(NOTEBOOK, mode="edit") as agent:
        assert f":{served.port}/" in agent.url
        assert not any("client.alone" in program for program in desk.programs())
        turn = agent.ask("Set x to 2").wait()
        assert served.request("GET", f"turns/{turn.id}")["state"] == "done"
    assert served.request("GET", "status")["version"]  # the agent did not stop it
    (info,) = (desk.folder / ".runtime").glob("jpserver-*.json")
    info.write_text(json.dumps({**json.loads(info.read_text()), "token": ""}))
    with pytest.raises(NotPermitted, match="JUPYTER_TOKEN"), SyncAgent(NOTEBOOK):
        pass


@pytest.mark.full
def test_a_server_that_is_started_later_is_not_written_past(desk: Desk) -> None:
    agent = SyncAgent(NOTEBOOK).open()
    agent.notebook.edit("b2", "x = 2")
    with jupyter_server(desk.folder) as server:
        with pytest.raises(RequestError, match="was started since") as refused:
            agent.notebook.edit("b2", "x = 3")
        assert refused.value.reason == "served_elsewhere"
        assert desk.sources()["b2"] == "x = 2"
        agent.close()
        with agent:
            assert f":{server.port}/" in agent.url
            agent.notebook.edit("b2", "x = 4")
    assert desk.sources()["b2"] == "x = 4"


@pytest.mark.full
def test_a_program_that_is_killed_in_a_turn_leaves_no_server(
    desk: Desk, replies: list[FakeReply]
) -> None:
    replies.append(ENDLESS)
    code = (
        "import os, signal\n"
        "from jupyter_agent import SyncAgent\n"
        "from jupyter_agent.events import TextDelta\n"
        f"agent = SyncAgent({NOTEBOOK!r}).open()\n"
        "for event in agent.ask('Go'):\n"
        "    if isinstance(event, TextDelta): os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE, check=False)
    assert done.returncode == -signal.SIGKILL
    asyncio.run(until(lambda: desk.programs() == []))


def test_importing_the_package_stays_light() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import jupyter_agent; print(*set(sys.modules) - before)\n"
        "from jupyter_agent import Agent, SyncAgent; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package, doors = (set(line.split()) for line in done.stdout.splitlines())
    others = {name for name in package if name.split(".")[0] not in sys.stdlib_module_names}
    assert others == {"jupyter_agent"}
    heavy = {"pydantic", "pycrdt", "anthropic", "traitlets", "zmq", "nbformat"}
    assert heavy & doors == set()
