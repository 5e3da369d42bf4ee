"""Calls that only read are tried again if the tab or the kernel was busy; no others are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.permissions import Policy, Rule
from jupyter_agent.errors import Busy, ToolError
from jupyter_agent.tools.base import Action, Effect, Progress, Result
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.workspace.lease import Lease
from tests.fakes import ScriptedModel

from .conftest import Bench, TinyTool, desk_of


class Reach(TinyTool):
    """Is busy this many times."""

    name: ClassVar[str] = "reach"
    busy: int

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        log = desk_of(nb).log
        log.append("try")
        if len(log) <= self.busy:
            raise Busy("The tab is away.")
        return Result(text="reached")


class Poke(Reach):
    """The same for a tool that changes something."""

    name: ClassVar[str] = "poke"
    effect: ClassVar[Effect] = "edit"
    action: ClassVar[Action] = "edit"


class Miss(TinyTool):
    """Fails for good."""

    name: ClassVar[str] = "miss"

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        desk_of(nb).log.append("try")
        raise ToolError("There is none.")


async def attempt(
    bench: Bench, tool: str, retries: Mapping[str, int], rule: Rule | None = None, **given: int
) -> tuple[str, list[float]]:
    """The result of a call and its pauses; this rule applies from the first pause on."""
    pauses: list[float] = []
    policy = Policy(mode="auto")

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        policy.rules = [rule] if rule else []

    door = Dispatcher(
        Toolbox([Reach, Poke, Miss]), record=bench._record, retries=retries, sleep=pause
    )
    work = bench.turn(ScriptedModel([])).work
    try:
        result = await door.call(tool, given, work, policy)
    except ToolError as error:
        return error.message, pauses
    return result.text, pauses


async def test_a_read_is_tried_again_after_longer_and_longer_pauses(bench: Bench) -> None:
    assert await attempt(bench, "reach", {"*": 3}, busy=3) == ("reached", [0.5, 1.0, 2.0])
    assert [audit.outcome for audit in bench.audits] == ["done"]


@pytest.mark.parametrize(
    ("retries", "tries"), [({"*": 2}, 3), ({"*": 2, "reach": 1}, 2), ({"reach": 0}, 1), ({}, 1)]
)
async def test_the_limit_is_that_of_the_tool_and_then_the_model_is_told(
    bench: Bench, retries: dict[str, int], tries: int
) -> None:
    told, _ = await attempt(bench, "reach", retries, busy=9)
    assert told == "The tab is away."
    assert bench.desk.log == ["try"] * tries
    assert [audit.outcome for audit in bench.audits] == ["failed"]


async def test_each_try_is_decided_for_itself(bench: Bench) -> None:
    told, _ = await attempt(bench, "reach", {"*": 3}, Rule(verdict="deny"), busy=1)
    assert told == "A rule forbids `reach` here."
    assert bench.desk.log == ["try"]
    assert [audit.outcome for audit in bench.audits] == ["refused"]


async def test_what_changes_something_is_tried_once(bench: Bench) -> None:
    assert await attempt(bench, "poke", {"*": 5}, busy=1) == ("The tab is away.", [])


async def test_what_does_not_pass_is_tried_once(bench: Bench) -> None:
    assert await attempt(bench, "miss", {"*": 5}) == ("There is none.", [])
