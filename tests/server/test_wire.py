"""The golden streams in tests/wire: our server's output, for the tests of the browser's side.

`RECORD=1 pytest tests/server/test_wire.py` records them again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.events import Usage, UsageUpdated
from jupyter_agent.server.wire import chunk, event
from tests.fakes import Scripted, calls, says, thinks
from tests.fakes.script import FakeReply

from ..gates import Gate
from .conftest import Call, ask, frames, live, shown_early

FOLDER = Path(__file__).parents[1] / "wire"
READ, SAY = calls("get_notebook_state"), [says("Done: $x = 2$.")]


@dataclass(frozen=True)
class Turn:
    """A turn worth recording."""

    replies: Sequence[FakeReply]
    asked: Mapping[str, Any] = field(default_factory=dict)
    answers: Sequence[Mapping[str, Any]] = ()
    """A person's answer to each question."""
    stop: bool = False
    gate: Gate | None = None
    """The gate at which a cell waits until its outputs were sent."""


def edit(cell_id: str) -> dict[str, Any]:
    return calls("update_cell", cell_id=cell_id, old_string="x", new_string="'ü \\ y'")


def shows_while_it_runs(folder: Path) -> Turn:
    gate = Gate(folder / "gate")
    source = f"print(0, flush=True)\n{gate.waits}\nprint(1)"
    return Turn([[calls("create_cell", source=source)], [calls("run_cells")], SAY], gate=gate)


TURNS: dict[str, Callable[[Path], Turn]] = {
    "server_text": lambda _: Turn([SAY]),
    "server_reasoning": lambda _: Turn([[thinks("Let me see. "), *SAY]]),
    "server_parallel_tools": lambda _: Turn([[READ, calls("read_cells", cell_ids=["b2"])], SAY]),
    "server_preliminary_outputs": shows_while_it_runs,
    "server_changes": lambda _: Turn([[edit("b2"), calls("delete_cell", cell_id="a1")], SAY]),
    "server_tool_error": lambda _: Turn([[edit("nowhere"), calls("no_such_tool", x=1)], SAY]),
    "server_approvals": lambda _: Turn(
        [[edit("b2"), calls("delete_cell", cell_id="c3"), READ], SAY],
        {"mode": "ask"},
        [{"approved": True}, {"approved": False, "reason": "Not that one."}],
    ),
    "server_limit": lambda _: Turn([[READ], SAY], {"max_steps": 2}),
    "server_notice": lambda _: Turn(
        [Scripted(status=529, error=("overloaded_error", "Busy")), SAY]
    ),
    "server_error": lambda _: Turn(
        [[says("I begin."), READ], Scripted(status=401, error=("authentication_error", "No."))]
    ),
    "server_abort": lambda _: Turn(
        [
            Scripted(
                blocks=[says("On and on and on.")], stop_after=4, then="wait", gate=asyncio.Event()
            )
        ],
        stop=True,
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", TURNS)
async def test_the_server_still_sends_what_the_golden_stream_has(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path, tmp_path: Path,
    name: str,
) -> None:  # fmt: skip
    turn = TURNS[name](tmp_path)
    replies += turn.replies
    asking = asyncio.create_task(call("POST", "chat", body=ask("Work.", **turn.asked)))
    for answer in turn.answers:
        asked = await _waiting(call, "approval-requested")
        given = {"id": asked["approval"]["id"], **answer}
        await call("POST", "chat", "talk", "approvals", body={"approvals": [given]})
    if turn.gate is not None:
        await live(agent, shown_early)
        turn.gate.open()
    if turn.stop:
        await _waiting(call, "streaming")
        await call("POST", "chat", "talk", "stop")
    chunks = _named(frames((await asking).text)[:-1])
    path = FOLDER / f"{name}.json"
    if os.environ.get("RECORD"):
        lines = ",\n  ".join(json.dumps(chunk, ensure_ascii=False) for chunk in chunks)
        path.write_text(f"[\n  {lines}\n]\n", encoding="utf-8")
    golden = json.loads(path.read_text(encoding="utf-8"))
    assert _shapes(chunks) == _shapes(golden)


async def _waiting(call: Call, state: str) -> dict[str, Any]:
    """The part of the answer in that state, once there is one."""
    async with asyncio.timeout(60):
        while True:
            body = (await call("GET", "conversations", "talk")).body
            for message in (body or {}).get("messages", [])[1:]:
                for part in message["parts"]:
                    if part.get("state") == state:
                        return dict(part)


def _named(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """With stable ids, and without clock times."""
    names: dict[str, str] = {}
    text = json.dumps([{k: v for k, v in chunk.items() if k != "seq"} for chunk in chunks])
    text = re.sub(
        r"\b([tma]|run)_[0-9a-f]{16,}",
        lambda found: names.setdefault(found[0], f"{found[1]}_{len(names) + 1}"),
        text,
    )
    text = re.sub(r'"(expires|started|ended)": "[^"]*"', r'"\1": "2026-11-21T12:00:00.000Z"', text)
    text = re.sub(r'"seconds": [0-9.]+', '"seconds": 0.6', text)
    named: list[dict[str, Any]] = json.loads(text)
    return named


def _shapes(chunks: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Type and fields of each chunk; the number of repeats in a row is not part of the contract."""
    shapes = [(str(chunk["type"]), *sorted(chunk)) for chunk in chunks]
    return [shape for shape, _ in groupby(shapes)]


@pytest.mark.parametrize("name", [*TURNS, "server_usage"])
def test_a_chunk_of_the_stream_is_its_event_again(name: str) -> None:
    if name == "server_usage":
        used = UsageUpdated(usage=Usage(output_tokens=3), step=Usage(cost=0.5), model="b")
        assert event(chunk(used)) == used
        return
    for piece in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")):
        assert chunk(event(piece)) == piece
