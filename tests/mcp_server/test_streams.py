"""Long calls: progress, heartbeats, run ids, and clients that disconnect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.server import mcp as route
from jupyter_agent.server import mcp_stream
from tests.gates import FOREVER, Gate
from tests.waiting import until

from .conftest import PATH, Answer, Ask, Begin, Call, HangUp, Streaming, Tool, message, text

pytestmark = pytest.mark.full

ENDLESS = f"print('on')\n{FOREVER}"
TOKEN = {"progressToken": "p1"}


def running_to(*gates: Gate) -> dict[str, Any]:
    """A call that prints a text before each gate."""
    code = "\n".join(f"print('secret {n}')\n{gate.waits}" for n, gate in enumerate(gates))
    return {"name": "run_code", "arguments": {"notebook": PATH, "code": code}}


async def test_progress_is_told_to_who_gave_a_token_and_has_no_outputs(
    ask: Ask, streaming: Streaming, notebook: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mcp_stream, "_BETWEEN_PROGRESS_S", 0.0)
    gates = [Gate(tmp_path / "first"), Gate(tmp_path / "second")]
    async with streaming(ask, "tools/call", running_to(*gates), meta=TOKEN, mode="auto") as stream:
        told = []
        for gate in gates:
            told.append(await stream.next())
            gate.open()
        for each in told:
            assert each["method"] == "notifications/progress"
            assert each["params"]["progressToken"] == "p1"
            assert "secret" not in str(each)
        first, second = (each["params"]["progress"] for each in told)
        assert second > first
        *_, last = await stream.rest()
        assert last["id"] == 1
        assert "secret 1" in text(last["result"])
        assert last["result"]["resultType"] == "complete"


async def test_without_a_token_or_a_stream_the_answer_is_json(
    agent: Assistant, ask: Ask, session: Begin, notebook: Path, tmp_path: Path
) -> None:
    def outputs() -> int:
        events = [event for live in agent.runner.running for event in live.events]
        return sum(event.type == "tool-output-available" for event in events)

    async def running(gate: Gate, ask: Ask, *given: Any, **more: Any) -> Answer:
        """The answer to a call that reports progress before the gate opens."""
        before = outputs()
        asking = asyncio.create_task(ask(*given, **more))
        await until(lambda: outputs() > before)
        gate.open()
        return await asking

    first, second = Gate(tmp_path / "first"), Gate(tmp_path / "second")
    answer = await running(first, ask, "tools/call", running_to(first), mode="auto")
    assert answer.headers["Content-Type"] == "application/json"
    in_session = await session()
    asked = message("tools/call", {**running_to(second), "_meta": TOKEN})
    given = {"Accept": "application/json"}
    answer = await running(second, in_session, asked, {"mode": "auto"}, **given)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body["result"]["isError"] is False


async def test_a_silent_call_shows_signs_of_life(
    ask: Ask, streaming: Streaming, notebook: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(route, "_HEARTBEAT_S", 0.2)
    gate = Gate(tmp_path / "gate")
    params = {"name": "run_code", "arguments": {"notebook": PATH, "code": gate.waits}}
    async with streaming(ask, "tools/call", params, meta=TOKEN, mode="auto") as stream:
        assert (await stream.next())["params"]["message"] == "still running"
        gate.open()
        assert (await stream.rest())[-1]["result"]["isError"] is False


async def test_a_long_run_returns_a_handle_in_time(call: Call, tool: Tool, notebook: Path) -> None:
    await tool("run_code", {"notebook": PATH, "code": "1"}, mode="auto")  # the kernel is there
    asked = {"notebook": PATH, "code": ENDLESS, "wait": 0.5}
    begun = await tool("run_code", asked, mode="auto")
    run_id = begun["structuredContent"]["run_id"]
    assert "wait_for_run" in text(begun)
    more = await tool("wait_for_run", {"run_id": run_id, "wait": 0.2}, mode="auto")
    assert more["structuredContent"]["status"] == "running"
    ended = await tool(
        "interrupt_kernel", {"notebook": PATH}, mode="auto"
    )  # its own run: no question
    assert ended["isError"] is False
    over = await tool("wait_for_run", {"run_id": run_id}, mode="auto")
    assert over["structuredContent"]["status"] == "interrupted"


async def test_a_client_that_closes_its_request_cancels_it_and_the_run_goes_on(
    agent: Assistant, tool: Tool, hang_up: HangUp, notebook: Path
) -> None:
    connection = await hang_up("run_code", {"notebook": PATH, "code": ENDLESS}, "mode=auto")
    (live,) = await until(lambda: agent.runner.running)
    await until(lambda: [e for e in live.events if e.type == "tool-output-available"])
    connection.close()
    await until(lambda: not agent.requests.count)
    (run,) = agent.services.runs.of_turn(live.record.id)
    assert run.ended is None
    (failed,) = [event for event in live.events if event.type == "tool-output-error"]
    assert failed.error
    over = await tool("interrupt_kernel", {"notebook": PATH}, mode="auto")
    assert over["isError"] is False
    assert await until(lambda: run.ended)


async def test_a_session_cancels_by_a_notification(
    agent: Assistant, session: Begin, streaming: Streaming, notebook: Path
) -> None:
    ask = await session()
    params = {"name": "run_code", "arguments": {"notebook": PATH, "code": ENDLESS}, "_meta": TOKEN}
    asked = message("tools/call", params, "long")
    async with streaming(ask, asked, {"mode": "auto"}) as stream:
        assert (await stream.next())["method"] == "notifications/progress"
        note: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        assert (await ask({**note, "params": {"requestId": "long"}})).status == 202
        assert [each for each in await stream.rest() if "method" not in each] == []
    await until(lambda: not agent.requests.count)
    (run,) = agent.services.runs.of_turn(agent.runner.running[0].record.id)
    await run.interrupt()
    await asyncio.wait_for(run.wait(), 30)
