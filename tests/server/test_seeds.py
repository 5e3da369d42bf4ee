"""The behaviours of the first four issues (the seeds), row by row, over HTTP with a strict fake."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.testing import FakeAnthropic, Scripted, calls, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Call, ask, frames

LOOK = calls("read_cells", cell_ids=["b2"])
MISS = calls("read_cells", cell_ids=["gone"])
MAKE = calls("create_cell", source="print(6 * 7)")


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], request: Any) -> dict[str, Any]:
    if "prices" in request.fixturenames:
        price = {"input": 1000, "output": 10_000}
        jp_server_config["JupyterAgent"]["model_facts"] = {"anthropic:*": {"price": price}}
    return jp_server_config


@pytest.fixture
def prices() -> None:
    """A step of 100 tokens of input and 10 of output costs 0.2."""


async def turn(call: Call, **more: Any) -> dict[str, Any]:
    """One turn to its end."""
    return dict((await call("POST", "chat", body=ask("Go.", stream=False, **more))).body)


def results(request: dict[str, Any]) -> list[dict[str, Any]]:
    content = request["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"]


def parts(done: dict[str, Any], kind: str = "dynamic-tool") -> list[dict[str, Any]]:
    return [part for part in done["message"]["parts"] if part["type"] == kind]


def text(done: dict[str, Any]) -> str:
    return "".join(part["text"] for part in parts(done, "text"))


pytestmark = pytest.mark.usefixtures("notebook")


class TestSeed000:
    """Tool calls."""

    async def test_a_single_call(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("x is 1.")]]
        done = await turn(call)
        assert (done["state"], text(done)) == ("done", "x is 1.")
        assert len(fake.requests) == 2

    async def test_several_calls_in_one_reply_are_answered_in_one_message(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK, calls("search_notebook", query="x")], [says("Seen.")]]
        await turn(call)
        asked = [b["id"] for b in fake.requests[1]["messages"][-2]["content"]]
        assert [result["tool_use_id"] for result in results(fake.requests[1])] == asked

    @pytest.mark.full
    async def test_a_chain_of_three_tools(
        self, call: Call, notebook: Path, replies: list[FakeReply]
    ) -> None:
        edit = calls("update_cell", cell_id="b2", old_string="1", new_string="2")
        replies += [[LOOK], [edit], [calls("run_cell", cell_id="b2")], [says("Done.")]]
        done = await turn(call)
        assert [p["toolName"] for p in parts(done)] == ["read_cells", "update_cell", "run_cell"]
        assert nbformat.read(notebook, as_version=4).cells[1].execution_count == 1

    async def test_an_error_of_a_tool_goes_to_the_model_and_the_turn_goes_on(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[MISS], [says("There is none.")]]
        assert (await turn(call))["state"] == "done"
        assert results(fake.requests[1])[0]["is_error"] is True

    async def test_a_limit_of_steps_per_request(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("That is all.")]]
        done = await turn(call, max_steps=2)
        assert fake.requests[1]["tool_choice"] == {"type": "none"}
        assert fake.requests[1]["tools"]
        assert done["message"]["metadata"]["stepLimitReached"]

    async def test_the_order_of_the_stream(self, call: Call, replies: list[FakeReply]) -> None:
        replies += [[says("I look."), LOOK], [says("Seen.")]]
        chunks = frames((await call("POST", "chat", body=ask("Go."))).text)
        kinds = [chunk["type"] for chunk in chunks]
        wanted = [
            "start",
            "start-step",
            "text-start",
            "text-end",
            "tool-input-start",
            "tool-input-available",
            "tool-output-available",
            "finish-step",
            "finish",
            "[DONE]",
        ]
        places = [kinds.index(kind) for kind in wanted]
        assert places == sorted(places)

    async def test_ids_of_calls_and_results_match_in_stream_and_history(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK, MISS], [says("Seen.")]]
        chunks = frames((await call("POST", "chat", body=ask("Go."))).text)
        told = {chunk["toolCallId"] for chunk in chunks if "toolCallId" in chunk}
        assert told == {result["tool_use_id"] for result in results(fake.requests[1])}

    async def test_tokens_of_all_requests_are_counted(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("Seen.")]]
        usage = (await turn(call))["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (200, 20)


class TestSeed001:
    """A follow-up with the responses of tools."""

    async def test_the_follow_up_has_the_content_and_the_answer_refers_to_it(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[says("I look."), LOOK], [says("x is 1.")]]
        done = await turn(call)
        assert fake.requests[1]["messages"][-2]["content"][0] == says("I look.")
        assert "x = 1" in json.dumps(results(fake.requests[1]))
        assert text(done).endswith("x is 1.")


class TestSeed002:
    """Results of tools in the history."""

    async def test_text_and_calls_are_mixed(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[says("First."), LOOK], [says("Then."), LOOK], [says("Done.")]]
        done = await turn(call)
        assert text(done) == "First.Then.Done."

    @pytest.mark.full
    async def test_an_empty_result_is_told_as_such(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[calls("list_files", path="", pattern="*.none")], [says("Nothing.")]]
        await turn(call)
        (result,) = results(fake.requests[1])
        assert result["content"] == [{"type": "text", "text": "Nothing there."}]

    async def test_the_history_is_stored_and_sent_again(
        self, call: Call, fake: FakeAnthropic, agent: Assistant, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("x is 1.")], [says("Still.")]]
        await turn(call)
        agent.runner.forget("local", "talk")  # as after a restart
        await turn(call)
        assert "x = 1" in json.dumps(fake.requests[2]["messages"][2])

    async def test_the_flag_says_that_the_limit_was_reached(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[says("One.")], [LOOK], [says("Two.")]]
        assert not (await turn(call))["message"]["metadata"].get("stepLimitReached")
        assert (await turn(call, max_steps=2))["message"]["metadata"]["stepLimitReached"]

    async def test_a_budget_of_tokens(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("That is all.")]]
        done = await turn(call, token_budget=100)
        assert fake.requests[1]["tool_choice"] == {"type": "none"}
        assert done["message"]["metadata"]["budgetReached"]

    @pytest.mark.full
    async def test_outputs_of_a_run_are_streamed_while_it_goes_on(
        self, call: Call, notebook: Path, replies: list[FakeReply]
    ) -> None:
        slow = "import time\nfor n in range(4):\n    print(n, flush=True)\n    time.sleep(0.4)"
        replies += [[calls("run_code", code=slow)], [says("Done.")]]
        chunks = frames((await call("POST", "chat", body=ask("Go."))).text)
        assert any(chunk.get("preliminary") for chunk in chunks)

    async def test_reads_that_failed_for_a_passing_reason_are_tried_again_within_limits(
        self, agent: Assistant
    ) -> None:
        assert agent.options.read_retries == {
            "*": 2
        }  # what it does: tests/agent/test_read_retries.py


class TestSeed003:
    """The loop."""

    async def test_the_loop_ends_by_the_stop_reason(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [LOOK], [LOOK], [says("Done.")]]
        done = await turn(call)
        assert done["message"]["metadata"]["stopReason"] == "end_turn"
        assert done["message"]["metadata"]["steps"] == 4

    async def test_parts_are_live_and_stored_the_same(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[says("I look."), LOOK], [says("Seen.")]]
        done = await turn(call)
        stored = (await call("GET", "conversations", "talk")).body["messages"][-1]
        assert stored["parts"] == done["message"]["parts"]

    async def test_the_input_of_a_call_is_streamed(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[MAKE], [says("Made.")]]
        chunks = frames((await call("POST", "chat", body=ask("Go."))).text)
        pieces = [c["inputTextDelta"] for c in chunks if c["type"] == "tool-input-delta"]
        assert json.loads("".join(pieces)) == {"source": "print(6 * 7)"}

    async def test_one_turn_at_a_time_in_a_conversation(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        gate = asyncio.Event()
        replies += [Scripted(blocks=[says("One.")], stop_after=1, then="wait", gate=gate)]
        running = asyncio.create_task(turn(call))
        await fake.asked.wait()
        assert (await call("POST", "chat", body=ask("And?"))).status == 409
        gate.set()
        assert (await running)["state"] == "done"

    async def test_each_call_is_in_the_audit(self, call: Call, replies: list[FakeReply]) -> None:
        replies += [[LOOK, MAKE], [says("Made.")]]
        done = await turn(call)
        audit = (await call("GET", "turns", done["turn_id"])).body["audit"]
        assert [(each["tool"], each["outcome"]) for each in audit] == [
            ("read_cells", "done"),
            ("create_cell", "done"),
        ]

    async def test_changes_are_live_in_the_notebook(
        self, call: Call, notebook: Path, replies: list[FakeReply]
    ) -> None:
        replies += [[MAKE], [says("Made.")]]
        done = await turn(call)
        assert [change["kind"] for change in done["changes"]] == ["insert"]
        assert nbformat.read(notebook, as_version=4).cells[-1].source == "print(6 * 7)"

    async def test_a_stop_leaves_a_history_that_the_next_question_continues(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        gate = asyncio.Event()
        replies += [Scripted(blocks=[LOOK], stop_after=3, then="wait", gate=gate), [says("On.")]]
        running = asyncio.create_task(turn(call))
        await fake.asked.wait()
        await call("POST", "chat", "talk", "stop")
        assert (await running)["state"] == "stopped"
        gate.set()
        assert text(await turn(call)) == "On."
        assert fake.refusals == []

    async def test_twenty_five_steps_are_the_limit(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [*([LOOK] for _ in range(24)), [says("Enough.")]]
        done = await turn(call)
        assert len(fake.requests) == 25
        assert done["message"]["metadata"]["stepLimitReached"]


class TestSeed004:
    """Rounds and the forced answer."""

    async def test_two_rounds_and_a_forced_answer_are_three_requests(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [LOOK], [says("Forced.")]]
        await turn(call, max_steps=3)
        choices = [request["tool_choice"]["type"] for request in fake.requests]
        assert choices == ["auto", "auto", "none"]
        roles = [message["role"] for message in fake.requests[2]["messages"]]
        assert roles == ["user", "assistant", "user", "assistant", "user"]

    async def test_tools_are_offered_in_every_round(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("Seen.")]]
        await turn(call)
        assert fake.requests[0]["tools"] == fake.requests[1]["tools"]

    async def test_a_call_in_the_forced_step_is_not_run(
        self, call: Call, notebook: Path, replies: list[FakeReply]
    ) -> None:
        replies += [[says("I try."), MAKE]]
        done = await turn(call, max_steps=1)
        assert done["changes"] == []
        assert len(nbformat.read(notebook, as_version=4).cells) == 3

    async def test_tokens_are_told_round_by_round(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("Seen.")]]
        done = await turn(call)
        shown = (await call("GET", "turns", done["turn_id"])).body
        assert [step["input_tokens"] for step in shown["step_usage"]] == [100, 100]
        assert shown["usage"]["input_tokens"] == 200

    @pytest.mark.usefixtures("prices")
    async def test_analytics_average_rounds_and_costs_over_time(
        self, call: Call, agent: Assistant, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [LOOK], [says("Seen.")], [says("Yes.")]]
        first = await turn(call)
        await turn(call)
        earlier = "UPDATE turns SET started = '2026-01-31T12:00:00.000Z' WHERE id = ?"
        await agent.database.execute(earlier, first["turn_id"])
        found = (await call("GET", "usage")).body
        assert [day["average"]["steps"] for day in found["groups"]] == [3.0, 1.0]
        assert [day["usage"]["cost"] for day in found["groups"]] == [pytest.approx(0.6), 0.2]
        assert found["groups"][0]["day"] == "2026-01-31"
        assert found["total"]["average"] | {"seconds": 0} == {
            "steps": 2.0,
            "cost": pytest.approx(0.4),
            "seconds": 0,
        }

    async def test_analytics_by_model_and_notebook(
        self, call: Call, replies: list[FakeReply]
    ) -> None:
        replies += [[LOOK], [says("Seen.")], [says("Yes.")]]
        await turn(call)
        await turn(call, model="anthropic:claude-haiku-5-5", notebook=None)
        for by, names in (
            ("model", ["anthropic:claude-sonnet-5-5", "anthropic:claude-haiku-5-5"]),
            ("notebook", [PATH, None]),
        ):
            groups = (await call("GET", "usage", params={"by": by})).body["groups"]
            assert [(group[by], group["average"]["steps"]) for group in groups] == [
                (names[0], 2.0),
                (names[1], 1.0),
            ]
