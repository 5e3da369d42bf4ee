"""SIGTERM, whatever waits: the process ends within seconds and leaves complete data."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import sqlite3
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply, Script
from tests.fakes.server import in_thread

from ..gates import FOREVER
from ..programs import Server, jupyter_server
from ..waiting import eventually, until
from .conftest import PATH, Call, ask, frames

PROGRAM = Path(__file__).parent.parent / "mcp" / "program.py"
COMMAND = "jupyter server --port 8888 --IdentityProvider.token=secret"
WITHIN = 5.0
"""Seconds in which the process ends (R2), plus the time of an idle one, for slow machines."""
BEGINS = f"import pathlib\npathlib.Path('begun').touch()\n{FOREVER}"


@dataclass
class Desk:
    """A folder with a slow notebook, its server, and the server's fake model service."""

    folder: Path
    api: FakeAnthropic
    server: Server
    pool: ThreadPoolExecutor

    def send(self, route: str, body: Any = None, method: str = "POST") -> None:
        """Sends a request without waiting for its answer."""
        self.pool.submit(self.server.request, method, route, body)

    def ask(self, **more: Any) -> None:
        """A question in the conversation `talk`."""
        self.send("chat", question(**more))

    def script(self, *replies: Any) -> None:
        self.api.asked.clear()
        self.api.script = Script(replies)

    def until(self, true: Callable[[], Any]) -> None:
        """Polls, since another process cannot notify us."""
        try:
            eventually(true, bool)
        except AssertionError:
            pytest.fail((self.folder / "server.log").read_text())

    def begun(self) -> bool:
        """Whether the slow cell runs."""
        return (self.folder / "begun").exists()

    def called(self, tool: str) -> bool:
        """Whether the MCP server program has received this call."""
        log = self.folder / "mcp.jsonl"
        return log.exists() and f'"name":"{tool}"' in log.read_text()

    def state(self) -> str | None:
        """State of the conversation, as now stored."""
        listed = self.server.request("GET", "conversations")["conversations"]
        return listed[0]["state"] if listed else None


def question(**more: Any) -> dict[str, Any]:
    return {
        "id": "talk",
        "notebook": "work.ipynb",
        "model": "anthropic:claude-sonnet-5-5",
        "messages": [{"role": "user", "content": "Do it."}],
        "stream": True,
        **more,
    }


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    cells = [new_code_cell(BEGINS, id="a")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "work.ipynb")
    config = tmp_path / ".config" / "jupyter_server_config.py"
    config.parent.mkdir()
    with in_thread(FakeAnthropic([])) as api:
        providers = {"anthropic": {"base_url": api.url, "api_key": api.api_key}}
        program = [sys.executable, str(PROGRAM), "old", str(tmp_path / "mcp.jsonl")]
        config.write_text(
            f"c.JupyterAgent.providers = {providers!r}\n"
            f"c.JupyterAgent.mcp_servers = { ({'s': {'command': program}})!r}\n"
        )
        with (
            ThreadPoolExecutor(8) as pool,
            jupyter_server(tmp_path, COMMAND) as server,
        ):
            try:
                yield Desk(tmp_path, api, server, pool)
            finally:
                server.process.kill()  # or the requests of the pool never end


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Seconds that an idle server takes to stop."""
    with jupyter_server(tmp_path_factory.mktemp("idle"), COMMAND) as server:
        server.request("GET", "status")
        return terminated(server)


def terminated(server: Server) -> float:
    """Seconds from SIGTERM to the end of the process."""
    told = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)
    return time.monotonic() - told


def silent() -> Scripted:
    """A reply that never starts."""
    return Scripted(blocks=[says("Never.")], stop_after=0, then="wait", gate=asyncio.Event())


def cut_off() -> Scripted:
    """A reply that never ends."""
    blocks = [says("On and on and on.")]
    return Scripted(blocks=blocks, stop_after=4, then="wait", gate=asyncio.Event())


# -- what may wait


def verify_under_way(desk: Desk) -> None:
    desk.send("notebooks/work.ipynb/verify", {})
    desk.until(desk.begun)


def verify_in_a_turn(desk: Desk) -> None:
    desk.script([calls("verify_notebook")])
    desk.ask(mode="auto")
    desk.until(desk.begun)


def verify_as_a_tool(desk: Desk) -> None:
    body = {"notebook": "work.ipynb", "mode": "auto"}
    desk.send("tools/verify_notebook", body)
    desk.until(desk.begun)


def approval_waits_with_a_stream(desk: Desk) -> None:
    desk.script([calls("run_cell", cell_id="a")])
    desk.ask(mode="ask")
    desk.until(lambda: desk.state() == "waiting")


def approval_waits_without_a_stream(desk: Desk) -> None:
    desk.script([calls("run_cell", cell_id="a")])
    assert desk.server.request("POST", "chat", question(mode="ask", stream=False))["approvals"]


def approval_answered_with_a_wait(desk: Desk) -> None:
    desk.script([calls("run_cell", cell_id="a")])
    waiting = desk.server.request("POST", "chat", question(mode="ask", stream=False))
    given = [{"id": waiting["approvals"][0]["id"], "approved": True}]
    desk.send("chat/talk/approvals", {"approvals": given, "wait": 600})
    desk.until(desk.begun)


def provider_silent_with_a_stream(desk: Desk) -> None:
    desk.script(silent())
    desk.ask()
    desk.until(desk.api.asked.is_set)


def provider_silent_without_a_stream(desk: Desk) -> None:
    desk.script(silent())
    desk.ask(stream=False)
    desk.until(desk.api.asked.is_set)


def provider_limits_the_rate(desk: Desk) -> None:
    error = ("rate_limit_error", "Slow down.")
    desk.script(Scripted(status=429, error=error, headers={"retry-after": "600"}))
    desk.ask(stream=False)
    desk.until(desk.api.asked.is_set)


def compaction_waits(desk: Desk) -> None:
    desk.script([says("Hello.")], [says("Hello again.")], silent())
    for _ in range(2):
        assert desk.server.request("POST", "chat", question(stream=False))["state"] == "done"
    desk.api.asked.clear()
    desk.send("conversations/talk/compact", {})
    desk.until(desk.api.asked.is_set)


def run_with_a_wait(desk: Desk) -> None:
    desk.send("notebooks/work.ipynb/cells/a/run", {"wait": 600})
    desk.until(desk.begun)


def run_of_a_turn(desk: Desk) -> None:
    desk.script([calls("run_cell", cell_id="a")])
    desk.ask(mode="auto")
    desk.until(desk.begun)


def stream_of_a_live_turn(desk: Desk) -> None:
    desk.script(cut_off())
    desk.ask()
    desk.until(lambda: desk.state() == "running")
    address = f"http://localhost:{desk.server.port}/api/agent/chat/talk/stream"
    headers = {"Authorization": f"token {desk.server.token}"}
    stream = urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60)
    assert stream.readline().startswith(b"id: ")
    desk.pool.submit(_read_to_the_end, stream)


def tab_is_open(desk: Desk) -> None:
    """A tab that stays open until the process ends: the socket is this test's."""
    connected = socket.create_connection(("localhost", desk.server.port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    connected.sendall(
        f"GET /api/agent/tab?token={desk.server.token} HTTP/1.1\r\nHost: localhost\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    assert b" 101 " in connected.recv(100)
    hello = json.dumps({"op": "hello", "protocol": 2, "version": "2.0.0", "path": "work.ipynb"})
    payload = hello.encode()
    connected.sendall(bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4))
    connected.sendall(payload)
    desk.pool.submit(_read_to_the_end, connected.makefile("rb"))
    connected.close()  # the file keeps it open


def _read_to_the_end(stream: Any) -> None:
    with stream, suppress(OSError):
        stream.read()


def verify_waits_for_its_kernel(desk: Desk) -> None:
    spec = {"argv": [sys.executable, "-c", BEGINS], "display_name": "deaf", "language": "python"}
    kernels = desk.folder / ".data" / "kernels" / "deaf"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps(spec))
    metadata = {"kernelspec": {"name": "deaf", "display_name": "deaf"}}
    cells = [new_code_cell(BEGINS, id="a")]
    nbformat.write(new_notebook(cells=cells, metadata=metadata), desk.folder / "work.ipynb")
    desk.send("notebooks/work.ipynb/verify", {})
    desk.until(desk.begun)


def mcp_call_without_an_answer(desk: Desk) -> None:
    desk.script([calls("mcp__s__never")])
    desk.ask(mode="auto")
    desk.until(lambda: desk.called("never"))


def mcp_server_that_does_not_want_to_end(desk: Desk) -> None:
    desk.send("tools/mcp__s__stubborn", {"mode": "auto"})
    desk.until(lambda: desk.called("stubborn"))


ROUTES: Mapping[Callable[[Desk], None], str | None] = {
    verify_under_way: None,
    verify_waits_for_its_kernel: None,
    verify_in_a_turn: "stopped",
    verify_as_a_tool: None,
    approval_waits_with_a_stream: "stopped",
    approval_waits_without_a_stream: "stopped",
    approval_answered_with_a_wait: "stopped",
    provider_silent_with_a_stream: "stopped",
    provider_silent_without_a_stream: "stopped",
    provider_limits_the_rate: "stopped",
    compaction_waits: "done",
    run_with_a_wait: None,
    run_of_a_turn: "stopped",
    stream_of_a_live_turn: "stopped",
    tab_is_open: None,
    mcp_call_without_an_answer: "stopped",
    mcp_server_that_does_not_want_to_end: None,
}
"""What the process waits for, and the state of its conversation afterwards."""


NEED_PLUGS = {mcp_call_without_an_answer, mcp_server_that_does_not_want_to_end}


@pytest.mark.full
@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(
            waits, id=waits.__name__, marks=[pytest.mark.plugs] if waits in NEED_PLUGS else []
        )
        for waits in ROUTES
    ],
)
def test_a_server_that_is_told_to_end_ends_whatever_waits(
    desk: Desk, idle: float, waits: Callable[[Desk], None]
) -> None:
    waits(desk)
    seconds = terminated(desk.server)
    log = (desk.folder / "server.log").read_text()
    assert seconds <= WITHIN + idle, f"{seconds:.1f} s, idle: {idle:.1f} s\n{log}"
    assert "/jupyter_agent/" not in log, f"a traceback of ours\n{log}"
    assert "Exception in callback" not in log

    store = desk.folder / ".data" / "agent"
    assert list((store / "servers").iterdir()) == [], "it said that it is gone"
    assert not (store / "conversations.db-wal").exists(), "the store was closed"
    database = sqlite3.connect(store / "conversations.db")
    states = [state for (state,) in database.execute("SELECT state FROM turns")]
    database.close()
    assert set(states) <= {ROUTES[waits]}
    assert bool(states) == (ROUTES[waits] is not None)
    notebook = nbformat.read(desk.folder / "work.ipynb", as_version=4)
    assert [cell.source for cell in notebook.cells] == [BEGINS]


@pytest.mark.full
@pytest.mark.parametrize(
    ("trait", "value", "why"),
    [
        (
            "providers",
            {"lab": {"kind": "openai", "options": {"stop": {"END"}}}},
            "providers.lab.options: `stop` is not JSON",
        ),
        (
            "mcp_servers",
            {"db": {"command": "uvx x"}},
            "mcp_servers.db: `command` has to be a list of strings.",
        ),
    ],
)
def test_a_server_whose_configuration_is_refused_says_why_and_ends(
    tmp_path: Path, trait: str, value: Any, why: str
) -> None:
    config = tmp_path / ".config" / "jupyter_server_config.py"
    config.parent.mkdir()
    config.write_text(f"c.JupyterAgent.{trait} = {value!r}\n")
    with jupyter_server(tmp_path, COMMAND) as server:
        address = f"http://localhost:{server.port}/api/status?token={server.token}"
        with urllib.request.urlopen(address, timeout=60) as status:
            assert json.load(status)["kernels"] == 0
        log = eventually((tmp_path / "server.log").read_text, lambda text: why in text)
        terminated(server)
    assert "has no attribute" not in log


@pytest.mark.full
async def test_what_waits_is_told_and_what_comes_later_is_refused(
    call: Call, agent: Assistant, notebook: Path
) -> None:
    loops = {"source": "while True: pass"}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=loops)
    running = asyncio.ensure_future(
        call("POST", "notebooks", PATH, "cells", "b2", "run", body={"wait": 60})
    )
    verifying = asyncio.ensure_future(call("POST", "notebooks", PATH, "verify"))
    await until(lambda: any(run.started for run in agent.services.runs.of_turn(None)))
    await agent.requests.close()
    late = await call("GET", "status")
    for answer in (await running, await verifying, late):
        assert (answer.status, answer.body["reason"]) == (503, "stopping")


async def test_every_turn_is_stopped_and_its_stream_says_so_even_if_it_just_starts(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [silent() for _ in range(15)]
    asking = [
        asyncio.ensure_future(call("POST", "chat", body=ask("Hi.", id=f"talk-{number}")))
        for number in range(15)
    ]
    await until(lambda: len(agent.runner.running) > 4)
    await agent.stop()
    answers = await asyncio.gather(*asking)
    for answer in answers:
        if answer.status != 503:
            assert [each["type"] for each in frames(answer.text)[-2:]] == ["abort", "[DONE]"]
    database = sqlite3.connect(Path(agent.options.store_dir) / "conversations.db")
    states = [state for (state,) in database.execute("SELECT state FROM turns")]
    database.close()
    assert states == ["stopped"] * sum(answer.status == 200 for answer in answers)


async def test_what_fails_on_the_way_to_the_end_is_logged_and_the_rest_is_done(
    agent: Assistant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("a bug on the way out")

    monkeypatch.setattr(agent.services.runs, "close", broken)
    await agent.stop()
    assert "a bug on the way out" in caplog.text
    assert list((Path(agent.options.store_dir) / "servers").iterdir()) == []
