"""A completed edit is journalled, whenever the turn is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.agent.loop import run_turn
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.agent.turn import Entry, events_of
from jupyter_agent.events import CallFailed, CallOutput, CellsChanged
from tests.fakes import ScriptedModel, calls, says
from tests.waiting import until

from .conftest import Bench


class Slow(Bench):
    """Stops the turn while its first audit entry, or its first event of one kind, is stored."""

    at: type[Any]
    stop: Callable[[], None]
    disk: Path

    async def keep(self, entries: Sequence[Entry]) -> None:
        events = [event for entry in entries for event in events_of(entry)]
        if any(isinstance(each, self.at) for each in (*entries, *events)):
            self.stop()
            await asyncio.to_thread(self.disk.touch)
        await super().keep(entries)


@pytest.mark.parametrize("at", [Audit, CallOutput, CellsChanged])
async def test_an_edit_that_is_done_is_told_also_when_the_turn_is_stopped(
    at: type[Any], tmp_path: Path
) -> None:
    bench = Slow()
    bench.at, bench.disk = at, tmp_path / "store"
    model = ScriptedModel([[calls("write", cell_id="a", source="x = 2")], [says("Done.")]])
    turn = bench.turn(model)
    bench.stop = turn.stop.request
    assert (await run_turn(turn)).state == "stopped"
    bench.check_history(turn)
    assert bench.desk.cells["a"] == "x = 2"
    (told,) = bench.told(CellsChanged)
    assert told.changes[0]["after"]["source"] == "x = 2"
    assert len(bench.told(CallOutput)) == 1
    assert len(bench.audits) == 1
    assert len(model.requests) == 1


async def test_a_stop_while_a_reply_is_stored_ends_its_calls() -> None:
    class Stopped(Bench):
        async def keep(self, entries: Sequence[Entry]) -> None:
            added = [each.message for each in entries if isinstance(each, MessageAdded)]
            if any(message["role"] == "assistant" for message in added):
                turn.stop.request()
            await super().keep(entries)

    bench = Stopped()
    model = ScriptedModel([[calls("write", cell_id="a", source="x = 2")], [says("Done.")]])
    turn = bench.turn(model)
    assert (await run_turn(turn)).state == "stopped"
    bench.check_history(turn)
    assert bench.desk.log == []
    assert len(bench.told(CallFailed)) == 1


async def test_a_timeout_around_a_call_fires_though_its_audit_is_slow(bench: Bench) -> None:
    noted: list[Audit] = []

    limit = asyncio.timeout(0.1)

    async def slowly(audit: Audit) -> None:
        await until(limit.expired)
        noted.append(audit)

    async def call() -> None:
        turn = bench.turn(ScriptedModel([]))
        write = {"cell_id": "a", "source": "x = 2"}
        async with limit:
            door = turn.dispatcher.with_record(slowly)
            await door.call("write", write, turn.work, Policy(mode="auto"))

    with pytest.raises(TimeoutError):
        await call()
    (audit,) = noted  # and its changes are still recorded
    assert audit.outcome == "done"
    (change,) = audit.changes
    assert change.after is not None
    assert change.after.source == "x = 2"
