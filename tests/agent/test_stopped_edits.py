"""N2: an edit that is done is journalled, wherever a stop finds the turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_agent.agent.dispatch import Audit
from jupyter_agent.agent.loop import run_turn
from jupyter_agent.events import CallOutput, CellsChanged, Event
from jupyter_agent.testing import ScriptedModel, calls, says

from .conftest import Bench


class Slow(Bench):
    """Stops the turn at its first audit entry, or at its first event of one kind."""

    at: type[Any] | None = None
    running: asyncio.Task[Any]

    async def _record(self, audit: Audit) -> None:
        if self.at is Audit:
            self.running.cancel()
            await asyncio.sleep(0)
        await super()._record(audit)

    async def _emit(self, event: Event) -> None:
        if self.at is not None and isinstance(event, self.at):
            self.running.cancel()
            await asyncio.sleep(0)
        await super()._emit(event)


@pytest.mark.parametrize("at", [Audit, CallOutput, CellsChanged])
async def test_n2_an_edit_that_is_done_is_told_also_when_the_turn_is_stopped(
    at: type[Any],
) -> None:
    bench = Slow()
    bench.at = at
    model = ScriptedModel([[calls("write", cell_id="a", source="x = 2")], [says("Done.")]])
    turn = bench.turn(model)
    bench.running = asyncio.create_task(run_turn(turn))
    assert (await bench.running).state == "stopped"
    bench.check_history(turn)
    assert bench.desk.cells["a"] == "x = 2"
    (told,) = bench.told(CellsChanged)
    assert told.changes[0]["after"]["source"] == "x = 2"
    assert len(bench.told(CallOutput)) == 1
    assert len(bench.audits) == 1
    assert len(model.requests) == 1
