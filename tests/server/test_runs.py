"""Runs through chat and REST: slow cells, busy kernels, lost kernels, closed tabs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.workspace.run import Run
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.gates import FOREVER, Gate
from tests.notebook.browser import Tab
from tests.waiting import until

from .conftest import PATH, Call, ask, frames

TRAINS = f"for epoch in range(2): print('epoch', epoch, flush=True)\n{FOREVER}"
LOOK_S = 1.5
"""Longer than a run waits for a person's cell."""


def runs(agent: Assistant) -> list[Run]:
    return list(agent.services.runs._runs.values())


def told(request: dict[str, Any]) -> str:
    """The text of the last message of a request to the model."""
    return json.dumps(request["messages"][-1], ensure_ascii=False)


async def change(call: Call, cell_id: str, source: str) -> None:
    await call("PATCH", "notebooks", PATH, "cells", cell_id, body={"source": source})


async def test_the_result_of_a_run_that_ends_while_it_is_described_is_of_one_moment(
    call: Call, agent: Assistant, notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, loop = Gate(tmp_path / "gate"), asyncio.get_running_loop()
    await change(
        call, "b2", f"display({{'image/png': 'AA=='}}, raw=True)\n{gate.waits}\nprint('late')"
    )
    await call("POST", "notebooks", PATH, "cells", "b2", "run", body={"wait": 0})
    (run,) = runs(agent)
    await until(run.outputs)

    def until_it_ended(*_: object) -> tuple[list[Any], str]:
        gate.open()
        asyncio.run_coroutine_threadsafe(run.wait(), loop).result()
        return [], ""

    monkeypatch.setattr("jupyter_agent.tools.run_results.pick_last", until_it_ended)
    body = {"notebook": PATH, "input": {"run_id": run.id, "wait": 0.01}, "mode": "auto"}
    for status, shown in (("running", False), ("ok", True)):
        result = (await call("POST", "tools", "wait_for_run", body=body)).body
        assert result["status"] == status
        assert ("is running" in result["text"]) is not shown
        assert ("late" in result["text"], "late" in str(result["outputs"])) == (shown, shown)


@asynccontextmanager
async def persons_cell(call: Call, agent: Assistant, gate: Gate) -> AsyncIterator[Any]:
    """A cell that a person runs in a browser until the gate is open; yields its reply."""
    client = await client_of(call, agent)
    reply = asyncio.ensure_future(client.execute(gate.waits, reply=True, timeout=60))
    kernel = await agent.services.kernels.get(PATH)
    await until(lambda: kernel.state == "busy")
    yield reply
    gate.open()
    await reply
    client.stop_channels()


async def client_of(call: Call, agent: Assistant) -> Any:
    """A second client of the notebook's kernel, which it starts."""
    await call("POST", "notebooks", PATH, "kernel", body={"action": "start"})
    (session,) = await agent.server.session_manager.list_sessions()
    client = agent.server.kernel_manager.get_kernel(session["kernel"]["id"]).client()
    client.start_channels(stdin=False, hb=False)
    await client.wait_for_ready(timeout=60)
    return client


class Inspector:
    """Another extension that looks into the kernel: for each code that anyone runs, it sends its
    own request, which takes longer than a run waits for a person's cell.
    """

    def __init__(self, client: Any, kind: str) -> None:
        self.looks = 0
        self._client = client
        self._kind = kind
        self._stopping = False
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while not self._stopping:
            try:
                message = await self._client.get_iopub_msg(timeout=0.1)
            except Empty:
                continue
            mine = message["parent_header"].get("session") == self._client.session.session
            if message["msg_type"] == "execute_input" and not mine:
                self.looks += 1
                if self._kind == "shown":  # to all clients of the kernel, as a person's code is
                    self._client.execute("look()", store_history=False)
                elif self._kind == "silent":
                    self._client.execute("look()", silent=True)
                else:
                    content = {"comm_id": str(self.looks), "target_name": "looks", "data": {}}
                    self._client.shell_channel.send(self._client.session.msg("comm_open", content))

    async def stop(self) -> None:
        self._stopping = True
        await self._task
        self._client.stop_channels()


@asynccontextmanager
async def inspector(call: Call, agent: Assistant, kind: str) -> AsyncIterator[Inspector]:
    client = await client_of(call, agent)
    registered = (
        f"import time\ndef look(*_): time.sleep({LOOK_S})\n"
        "get_ipython().kernel.comm_manager.register_target('looks', look)"
    )
    await client.execute(registered, silent=True, reply=True, timeout=60)
    inspector = Inspector(client, kind)
    try:
        yield inspector
    finally:
        await inspector.stop()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["silent", "comm", "shown"])
@pytest.mark.parametrize("entry", ["tools", "chat", "rest"])
async def test_run_all_comes_to_its_end_beside_an_extension_that_looks_into_the_kernel(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path,
    entry: str, kind: str,
) -> None:  # fmt: skip
    await call("POST", "notebooks", PATH, "cells", body={"source": "print('last', x)"})
    async with inspector(call, agent, kind) as peer, asyncio.timeout(60):
        if entry == "rest":
            cells = (await call("POST", "notebooks", PATH, "run")).body["cells"]
            assert [cell["status"] for cell in cells] == ["ok"] * 3
        elif entry == "tools":
            body = {"notebook": PATH, "mode": "auto", "input": {}}
            told = (await call("POST", "tools", "run_cells", body=body)).body
            assert [cell["status"] for cell in told["cells"]] == ["ok"] * 3
            one = {**body, "input": {"cell_id": "b2"}}
            assert (await call("POST", "tools", "run_cell", body=one)).body["status"] == "ok"
        else:
            replies += [[calls("run_cell", cell_id="b2")], [calls("run_cells")], [says("Done.")]]
            await call("POST", "chat", body=ask("Run all."))
            assert all("queued" not in json.dumps(request) for request in fake.requests)
        await until(lambda: peer.looks >= 3)
    last = nbformat.read(notebook, as_version=4).cells[-1]
    assert last.outputs[0].text == "last 1\n"


@pytest.mark.full
async def test_behind_an_extension_a_run_waits_as_long_as_it_may_and_says_for_what(
    call: Call, agent: Assistant, notebook: Path, tmp_path: Path
) -> None:
    client = await client_of(call, agent)
    kernel = await agent.services.kernels.get(PATH)
    await kernel.connect()
    gates = [Gate(tmp_path / name) for name in ("first", "second", "third", "fourth")]
    client.execute(gates[0].waits, silent=True)
    await until(lambda: kernel.state == "busy")
    body = {"notebook": PATH, "mode": "auto", "input": {"cell_id": "b2", "wait": 1.5}}
    first = (await call("POST", "tools", "run_cell", body=body)).body
    assert (first["status"], first["blocked_by"]) == ("queued", "extension")
    assert "The kernel has been running code (another extension's) for" in first["text"]

    body["input"] = {"run_id": first["run_id"]}
    waiting = asyncio.create_task(call("POST", "tools", "wait_for_run", body={**body}))
    gates[0].open()
    assert (await waiting).body["status"] == "ok"

    client.execute(gates[3].waits, silent=True)
    await until(lambda: kernel.state == "busy")
    looking = call("POST", "tools", "inspect_variables", body={**body, "input": {}})
    looking = asyncio.create_task(looking)
    gates[3].open()
    assert "x: int" in (await looking).body["text"]

    client.execute(gates[2].waits, silent=True)
    await until(lambda: kernel.state == "busy")
    reply = asyncio.ensure_future(client.execute(gates[1].waits, reply=True, timeout=60))
    body["input"] = {"cell_id": "c3", "wait": 60.0}
    second = asyncio.create_task(call("POST", "tools", "run_cell", body=body))
    await until(lambda: len(runs(agent)) == 2)
    gates[2].open()
    async with asyncio.timeout(30):  # behind the person's own cell: reported at once
        assert (await second).body["blocked_by"] == "user"
    gates[1].open()
    assert (await reply)["content"]["status"] == "ok"
    assert await runs(agent)[1].wait(60)
    client.stop_channels()


@pytest.mark.full
async def test_a_ten_minute_cell_does_not_end_the_turn(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    await change(call, "b2", TRAINS)
    replies.append([calls("run_cell", cell_id="b2", wait=2.0)])
    turn = asyncio.create_task(
        call("POST", "chat", body=ask("Train it.", allow=["interrupt_kernel"]))
    )
    run = (await until(lambda: runs(agent)))[0]
    replies += [
        [calls("wait_for_run", run_id=run.id, wait=1.0)],
        [calls("interrupt_kernel")],
        [says("Stopped, as you wanted.")],
    ]
    chunks = frames((await asyncio.wait_for(turn, 60)).text)

    _, handle, again, stopped = [told(request) for request in fake.requests]
    for text in (handle, again):
        assert "is running (" in text
        assert f"run_id `{run.id}`" in text
        assert "wait_for_run" in text
        assert "interrupt_kernel" in text
        assert "epoch 0" in text
    assert again.count("epoch") >= handle.count("epoch")
    assert "Interrupted. The kernel is idle." in stopped
    assert f"Cell `b2` [1]: interrupted, {run.seconds:.1f} s." in stopped
    assert chunks[-2]["type"] == "finish"
    shown = [
        chunk["output"]
        for chunk in chunks
        if chunk["type"] == "tool-output-available" and chunk.get("preliminary")
    ]
    assert any("epoch 0" in json.dumps(output["outputs"]) for output in shown)
    assert (await call("GET", "runs", run.id)).body["status"] == "interrupted"


@pytest.mark.full
async def test_while_a_ten_minute_cell_runs_its_log_is_explained(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    await change(call, "b2", TRAINS)
    started = await call("POST", "notebooks", PATH, "cells", "b2", "run", body={"wait": 0})
    run = agent.services.runs.get(started.body["run_id"], "local")
    assert run is not None
    shows = "epoch 1"
    while shows not in str((await call("GET", "notebooks", PATH, "cells", "b2")).body["outputs"]):
        await run.wait(0.1)
    replies += [
        [calls("read_cells", cell_ids=["b2"]), calls("inspect_variables")],
        [calls("update_cell", cell_id="c3", old_string="x is", new_string="x =")],
        [says("It counts epochs.")],
    ]
    async with asyncio.timeout(60):
        chunks = frames((await call("POST", "chat", body=ask("Explain the log so far."))).text)
    assert chunks[-2]["type"] == "finish"
    assert shows in told(fake.requests[1])
    assert "The kernel is busy: a cell has been running for" in told(fake.requests[1])
    assert "Edited cell `c3`" in told(fake.requests[2])
    assert run.status == "running"
    await call("POST", "runs", run.id, "interrupt")
    assert run.status == "interrupted"


@pytest.mark.full
async def test_behind_a_persons_own_cell_a_run_says_at_once_what_it_waits_for(
    call: Call, agent: Assistant, notebook: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    async with persons_cell(call, agent, gate) as reply:
        body = {"notebook": PATH, "mode": "auto", "input": {"cell_id": "b2", "wait": 60.0}}
        async with asyncio.timeout(60):
            first = (await call("POST", "tools", "run_cell", body=body)).body
            body["input"] = {"cell_id": "c3"}
            second = (await call("POST", "tools", "run_cell", body=body)).body
        assert (first["status"], first["blocked_by"]) == ("queued", "user")
        assert "Cell `b2` is queued, run_id `" in first["text"]
        assert "The kernel has been running code (the user's own) for" in first["text"]
        assert "nothing is interrupted for it" in first["text"]
        assert second["queued"] == [first["run_id"]]
        assert f"Queued before it: `{first['run_id']}`." in second["text"]
        await change(call, "b2", "x = 5")  # edits still work; the queued version runs
        await call("POST", "runs", second["run_id"], "interrupt")
        assert not reply.done()
        gate.open()
        body["input"] = {"run_id": first["run_id"]}
        waited = (await call("POST", "tools", "wait_for_run", body=body)).body
        assert waited["status"] == "ok"
        assert (await reply)["content"]["status"] == "ok"
    assert [run.status for run in runs(agent)] == ["ok", "interrupted"]


async def test_a_notebook_renamed_in_the_middle_of_a_run_of_all_cells_keeps_its_kernel(
    call: Call, agent: Assistant, notebook: Path, tmp_path: Path, jp_fetch: Any, jp_serverapp: Any
) -> None:
    gate, path = Gate(tmp_path / "gate"), PATH

    async def rename(to: str) -> None:
        nonlocal path
        body = json.dumps({"path": to})
        await jp_fetch("api", "contents", *path.split("/"), method="PATCH", body=body)
        path = to

    await change(call, "b2", f"x = 1\n{gate.waits}")
    running = asyncio.create_task(call("POST", "notebooks", PATH, "run"))
    await until(lambda: [run.started for run in runs(agent)] if runs(agent) else None)
    await rename("sales, Q3/second look.ipynb")
    gate.open()
    cells = (await running).body["cells"]
    assert [cell["status"] for cell in cells] == ["ok", "ok"]
    await rename("third look.ipynb")
    again = (await call("POST", "notebooks", path, "cells", "c3", "run")).body
    assert (again["status"], again["execution_count"]) == ("ok", 3)
    (session,) = await jp_serverapp.session_manager.list_sessions()
    assert session["path"] == path, "as pages find it"
    assert len(jp_serverapp.kernel_manager.list_kernel_ids()) == 1


async def test_stop_does_not_interrupt_a_persons_own_cell(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    async with persons_cell(call, agent, gate) as reply:
        replies.append([calls("run_cell", cell_id="b2")])
        turn = asyncio.create_task(call("POST", "chat", body=ask("Run it.")))
        run = (await until(lambda: runs(agent)))[0]
        replies.append([calls("wait_for_run", run_id=run.id)])
        await until(lambda: agent.runner.running and agent.runner.running[0].state == "running")
        await call("POST", "chat", "talk", "stop")
        assert frames((await turn).text)[-2]["type"] == "abort"
        assert await run.wait(60)
        assert (run.status, run.started) == ("interrupted", None)
        assert not reply.done()
        gate.open()
        assert (await reply)["content"]["status"] == "ok"


@pytest.mark.full
async def test_a_death_is_told_with_what_is_lost(
    call: Call,
    agent: Assistant,
    notebook: Path,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    tmp_path: Path,
) -> None:
    heard = Gate(tmp_path / "heard")  # a process that dies at once loses its unsent messages
    dies = f"import os\nprint('last words', flush=True)\n{heard.waits}\nos._exit(1)"
    await change(call, "b2", dies)
    replies += [[calls("run_cell", cell_id="b2")], [says("It died.")]]
    turn = asyncio.create_task(call("POST", "chat", body=ask("Run it.")))
    await until(lambda: [run for run in runs(agent) if "last words" in str(run.outputs())])
    heard.open()
    await turn
    text = told(fake.requests[1])
    assert ": died, " in text
    assert "The kernel died: its process exited with code 1." in text
    assert "last words" in text
    assert text.count("all variables are gone") == 1
    assert len(fake.requests) == 2, "nothing is run again by itself"
    await (await agent.services.kernels.get(PATH)).connect()  # Jupyter starts a new one


@pytest.mark.full
async def test_code_that_ignores_an_interrupt_is_told_to_run_on(
    call: Call, agent: Assistant, notebook: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("jupyter_agent.tools.run.INTERRUPT_GRACE_S", 0.2)
    gate = Gate(tmp_path / "gate")
    code = (
        f"import signal\nold = signal.signal(signal.SIGINT, signal.SIG_IGN)\n{gate.waits}\n"
        "_ = signal.signal(signal.SIGINT, old)\nprint('finished')"
    )
    await change(call, "b2", code)
    body = {"notebook": PATH, "mode": "auto", "input": {"cell_id": "b2", "wait": 0.5}}
    await call("POST", "tools", "run_cell", body=body)
    (run,) = runs(agent)
    await until(lambda: run.started)
    body = {"notebook": PATH, "mode": "auto", "input": {}, "allow": ["interrupt_kernel"]}
    answer = (await call("POST", "tools", "interrupt_kernel", body=body)).body
    assert "did not react" in answer["text"]
    assert "restart_kernel ends it" in answer["text"]
    gate.open()
    assert await run.wait(60)
    assert (run.status, run.outputs()[0]["text"]) == ("interrupted", "finished\n")


@pytest.mark.full
async def test_a_call_keeps_as_much_of_the_outputs_as_a_card_shows(
    call: Call, notebook: Path
) -> None:
    code = "for i in range(3): display({'text/plain': str(i), 'a/b': 'x' * 150_000}, raw=True)"
    await change(call, "b2", code)
    body = {"notebook": PATH, "mode": "auto", "input": {"cell_id": "b2"}}
    answer = (await call("POST", "tools", "run_cell", body=body)).body
    assert [output["data"]["text/plain"] for output in answer["outputs"]] == ["2"]
    assert len(nbformat.read(notebook, as_version=4).cells[1].outputs) == 3


async def cull(agent: Assistant) -> None:
    """Jupyter's own culler finds the kernel idle for an hour."""
    manager = agent.server.kernel_manager
    (kernel_id,) = manager.list_kernel_ids()
    manager.get_kernel(kernel_id).last_activity -= timedelta(hours=1)
    manager.cull_idle_timeout, manager.cull_connected = 60, True
    await manager.cull_kernels()
    assert manager.list_kernel_ids() == []


async def test_a_culled_kernel_is_told_at_the_next_turn_and_once(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    await call("POST", "chat", body=ask("Set x."))
    await cull(agent)
    replies += [[calls("run_cell", cell_id="c3")], [says("x is gone.")]]
    await call("POST", "chat", body=ask("Print x."))
    gone = "ended (culled or shut down) since your last call: all variables are gone"
    assert gone in json.dumps(fake.requests[2])
    assert "NameError" in told(fake.requests[3])
    assert "all variables are gone" not in told(fake.requests[3])


@pytest.mark.full
async def test_a_kernel_that_a_person_restarts_within_a_turn_is_told(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [calls("search_notebook", query="x")]]
    restart = {"notebook": PATH, "input": {}, "mode": "auto", "allow": ["restart_kernel"]}
    replies.append([says("I run it again.")])
    turn = asyncio.create_task(call("POST", "chat", body=ask("Set x.")))
    run = (await until(lambda: runs(agent)))[0]
    await run.wait()
    await call("POST", "tools", "restart_kernel", body=restart)
    await turn
    told_at = [
        number for number, request in enumerate(fake.requests) if "are gone" in told(request)
    ]
    assert len(told_at) >= 1
    assert told(fake.requests[told_at[0]]).count("was restarted or replaced") == 1


@pytest.mark.full
async def test_a_program_that_calls_tools_is_told_too(
    call: Call, agent: Assistant, notebook: Path
) -> None:
    body = {"notebook": PATH, "mode": "auto", "input": {"cell_id": "b2"}}
    await call("POST", "tools", "run_cell", body=body)
    await cull(agent)
    lost = (await call("POST", "tools", "run_cell", body=body)).body
    assert lost["status"] == "ok"
    assert "was restarted or replaced since your last call: all variables are gone" in lost["text"]
    again = (await call("POST", "tools", "run_cell", body=body)).body
    assert "gone" not in again["text"]


async def test_a_tab_closed_in_the_middle_of_a_run_has_all_outputs_when_opened_again(
    call: Call, agent: Assistant, notebook: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    code = f"print('before', flush=True)\n{gate.waits}\nprint('after')\n6 * 7"
    await change(call, "b2", code)
    contents = agent.server.contents_manager
    tab = await Tab(agent.tabs, contents, PATH).open()
    started = await call("POST", "notebooks", PATH, "cells", "b2", "run", body={"wait": 0})
    run = agent.services.runs.get(started.body["run_id"], "local")
    assert run is not None
    await until(lambda: "before" in str(tab.cell("b2")["outputs"].to_py()))
    tab.cut()
    gate.open()
    assert await run.wait(60)
    again = await Tab(agent.tabs, contents, PATH, client="page-2").open()
    stream, result = again.cell("b2")["outputs"].to_py()
    assert stream["text"] == "before\nafter\n"
    assert result["data"]["text/plain"] == "42"
    written = nbformat.read(notebook, as_version=4)
    assert written.cells[1].execution_count == 1
    again.cut()


@pytest.mark.full
@pytest.mark.parametrize("mode", ["file", "tab"])
async def test_an_event_stream_that_nobody_reads_loses_no_output(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path, mode: str
) -> None:
    tab = None
    if mode == "tab":
        tab = await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    await change(call, "b2", "for i in range(100): print(i, flush=True)")
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    turn = asyncio.create_task(call("POST", "chat", body=ask("Run it.")))
    run = (await until(lambda: runs(agent)))[0]
    turn.cancel()
    assert await run.wait(60)
    cell = nbformat.read(notebook, as_version=4).cells[1]
    assert cell.outputs[0].text.split() == [str(number) for number in range(100)]
    if tab is not None:
        tab.cut()
