"""Stock clients of the AI SDK, versions 6 and 7, drive turns of a real server."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant
from tests.fakes import Scripted, calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call

CLIENT = Path(__file__).parents[2] / "labextension" / "test" / "stock.mjs"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None or not (CLIENT.parents[1] / "node_modules" / "ai7").exists():
        pytest.skip("no AI SDK: run `jlpm install` in labextension")
    return found


def held(text: str) -> tuple[Scripted, asyncio.Event]:
    """A reply that waits in the middle of its text."""
    gate = asyncio.Event()
    return Scripted(blocks=[says(text)], stop_after=5, then="wait", gate=gate), gate


def part(told: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in told["parts"] if part["type"] == kind]


@pytest.mark.parametrize("package", ["ai", "ai7"])
async def test_a_stock_client_asks_answers_leaves_comes_back_and_is_stopped(
    call: Call,
    agent: Assistant,
    replies: list[FakeReply],
    notebook: Path,
    node: str,
    package: str,
    jp_http_port: int,
    jp_base_url: str,
) -> None:
    later, gate = held("A beginning, and an end that takes its time to come.")
    never, _ = held("On and on and on and on, without an end.")
    replies += [
        [says("I look."), calls("get_notebook_state"), calls("read_cells", cell_ids=["b2"])],
        [says("There is an x.")],
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")],
        [says("It is set.")],
        later,
        never,
    ]
    api = f"http://127.0.0.1:{jp_http_port}{jp_base_url}api/agent"
    pipe = asyncio.subprocess.PIPE
    client = await asyncio.create_subprocess_exec(
        node,
        str(CLIENT),
        package,
        api,
        agent.server.identity_provider.token,
        PATH,
        stdin=pipe,
        stdout=pipe,
    )
    assert client.stdin
    assert client.stdout
    told = _reader(client.stdout)

    plain = await told("plain")
    assert (plain["status"], plain["ended"]) == ("ready", {"isAbort": False, "isError": False})
    assert [call["state"] for call in part(plain, "dynamic-tool")] == ["output-available"] * 2
    assert [text["text"] for text in part(plain, "text")] == ["I look.", "There is an x."]
    assert plain["metadata"]["stopReason"] == "end_turn"

    asked = await told("asked")
    assert part(asked, "dynamic-tool")[0]["state"] == "approval-requested"
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 1"
    approved = await told("approved")
    assert [call["state"] for call in part(approved, "dynamic-tool")] == ["output-available"]
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 2"

    late = await told("late")
    assert late["status"] == "error"
    assert json.loads(late["error"])["reason"] == "approval_closed"
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 2"

    assert (await told("left"))["status"] == "ready"
    resumed = await told("resumed")
    assert resumed["status"] == "streaming"
    gate.set()
    client.stdin.write(b"go\n")
    finished = await told("finished")
    assert finished["ended"] == {"isAbort": False, "isError": False}
    assert part(finished, "text")[0]["text"].endswith("to come.")
    assert len(part(finished, "text")) == 1, "from its start, not twice"

    await told("going")
    assert (await call("POST", "chat", "stopped", "stop")).status == 200
    client.stdin.write(b"go\n")
    stopped = await told("stopped")
    assert stopped["status"] == "ready"
    assert stopped["error"] is None
    assert part(stopped, "text")[0]["text"].startswith("On and on")
    assert await client.wait() == 0


def _reader(stream: asyncio.StreamReader) -> Callable[[str], Awaitable[dict[str, Any]]]:
    async def told(what: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            line = await stream.readline()
        found: dict[str, Any] = json.loads(line)
        assert found["what"] == what
        return {"error": None, **found}

    return told
