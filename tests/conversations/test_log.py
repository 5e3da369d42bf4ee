"""The server's log: a line for each step, and why the turn ended."""

from __future__ import annotations

import logging

import pytest

from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.agent.turn import Entry, finish_ending, model_failure_ending
from jupyter_agent.conversations.server_log import ServerLog
from jupyter_agent.errors import ModelError
from jupyter_agent.events import CallReady, StepStarted, Usage, UsageUpdated
from jupyter_agent.models.facts import Facts

STEP = Usage(input_tokens=100, cache_read_tokens=700, output_tokens=64, cost=0.0125)


class Nowhere:
    """A log of a turn without readers."""

    async def append(self, *entries: Entry) -> None: ...

    async def show(self, *entries: Entry) -> None: ...


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> ServerLog:
    caplog.set_level(logging.INFO)
    clock = iter([0.0, 1.0, 3.5, 10.0])
    return ServerLog(Nowhere(), logging.getLogger("test"), "t_4", 25, lambda: next(clock))


async def test_a_step_is_one_line(log: ServerLog, caplog: pytest.LogCaptureFixture) -> None:
    await log.show(StepStarted())
    await log.show(StepStarted())  # the same step, tried again
    for call_id in ("c1", "c2"):
        await log.show(CallReady(call_id=call_id, tool="read_cells", input={"secret": "text"}))
    await log.show(UsageUpdated(usage=STEP, step=STEP))
    assert caplog.messages == [
        "Turn t_4 step 1 of 25: 2 calls (read_cells, read_cells), "
        "800 tokens in (700 cached), 64 out, cost 0.0125, 2.5 s"
    ]


def test_the_end_says_why(log: ServerLog, caplog: pytest.LogCaptureFixture) -> None:
    meter = Meter(Limits(max_steps=1), Facts())
    meter.start_step()
    meter.reach()
    meter.spend(Usage(input_tokens=100, output_tokens=10))
    log.end(finish_ending("stop", "end_turn", meter))
    assert caplog.messages == [
        "Turn t_4 is done after 1 steps: end_turn (steps limit); "
        "100 tokens in (none cached), 10 out, 1.0 s"
    ]


def test_a_fault_is_named_by_its_kind(log: ServerLog, caplog: pytest.LogCaptureFixture) -> None:
    log.end(
        model_failure_ending(ModelError("No.", kind="authentication"), Meter(Limits(), Facts()))
    )
    assert "is failed after 0 steps: authentication;" in caplog.messages[0]
