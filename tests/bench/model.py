"""A strict fake of Anthropic's API in a process of its own, so that its work is in nobody's time.

`python -m tests.bench.model PORT` serves it. The newest `bench:KIND=N` in the messages says what
the model does, so any number of conversations can ask at the same time.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from jupyter_agent.models.base import Block, ModelEvent
from jupyter_agent.models.replay import replay
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.server import API_KEY
from tests.programs import free_port

STEP_S = 1.0
"""How long a model takes for a step."""
PACE_S = 0.005
"""Between two events of a paced answer."""
TYPING_S = 0.02
"""Between two events of a model that writes as fast as today's: 50 a second."""
_ORDER = re.compile(r"bench:(\w+)=(\d+)")


class Model(FakeAnthropic):
    """Answers by the order in the question; `ask` makes one."""

    def reply_to(self, body: dict[str, Any]) -> Scripted:
        self.requests.clear()  # thousands of them would fill the memory
        self.headers.clear()
        kind, number = _ORDER.findall(json.dumps(body["messages"]))[-1]
        has_results = any(
            block["type"] == "tool_result"
            for block in body["messages"][-1]["content"]
            if isinstance(block, Mapping)
        )
        match kind:
            case "step":
                step = [says("Done.") if has_results else _call("get_notebook_state")]
                events = len(list(replay(step)))
                return Scripted(blocks=step, pause_s=STEP_S / events)
            case _ if has_results:
                return Scripted(blocks=[says("Done.")])
            case "words":
                return Scripted(body=_words(int(number)))
            case "times":
                return _Times(int(number), pause_s=PACE_S)
            case "endless":
                return Scripted(blocks=[says("word " * 1_000_000)], pause_s=TYPING_S)
            case "input":
                return Scripted(body=_input(int(number)))
            case "write":
                return Scripted(blocks=[_cell(int(number))], pause_s=TYPING_S)
            case "run":
                return Scripted(blocks=[_call("run_cells", cell_ids=[f"c{number}"])])
        raise ValueError(kind)


class _Times(Scripted):
    """Each delta is the time at which it is sent, in seconds since 1970."""

    def __init__(self, number: int, *, pause_s: float) -> None:
        super().__init__(blocks=[says("1 " * number)], pause_s=pause_s)

    def frame(self, event: ModelEvent) -> bytes:
        if event["type"] == "content_block_delta":
            event = {**event, "delta": {"type": "text_delta", "text": f"{time.time():.6f} "}}
        return super().frame(event)


def ask(kind: str, number: int = 1) -> str:
    """The question for such an answer."""
    return f"bench:{kind}={number}"


@contextmanager
def served_model() -> Iterator[dict[str, str]]:
    """Its `base_url` and `api_key`, while it runs."""
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.model", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        try:
            assert out.readline() == "serving\n", "the model did not start"
            yield {"base_url": f"http://127.0.0.1:{port}", "api_key": API_KEY}
        finally:
            process.terminate()
            process.wait()


def _cell(lines: int) -> Block:
    source = "".join(f"value_{line} = {line} + 1\n" for line in range(lines))
    return _call("create_cells", cells=[{"type": "code", "source": source}])


def _call(tool: str, **input: Any) -> Block:
    return {**calls(tool, **input), "id": "toolu_1"}  # the only one of its conversation


@cache
def _words(number: int) -> bytes:
    return _whole([says("word " * number)])


@cache
def _input(characters: int) -> bytes:
    """A call with a new cell of so many characters."""
    source = ("# some words\n" * (characters // 13 + 1))[:characters]
    return _whole([_call("create_cells", cells=[{"type": "code", "source": source}])])


def _whole(blocks: list[Block]) -> bytes:
    reply = Scripted(blocks=blocks)
    return b"".join(map(reply.frame, reply.events()))


async def _serve(port: int) -> None:
    async with Model((), port=port):
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
