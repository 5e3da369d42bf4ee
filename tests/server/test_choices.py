"""What a person chooses for a turn: how much the model thinks, and who answers if it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.testing import FakeAnthropic, calls, says
from jupyter_agent.testing.script import FakeReply

from .conftest import Call, ask

LOOK = calls("read_cells", cell_ids=["b2"])


async def test_an_effort_holds_for_each_step_of_its_turn_and_for_no_other(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[LOOK], [says("One.")], [says("Again.")]]
    first = await call("POST", "chat", body=ask("Hm?", stream=False, effort="high"))
    await call("POST", "chat", body=ask("And?", stream=False))
    efforts = [body.get("output_config") for body in fake.requests]
    assert efforts == [{"effort": "high"}, {"effort": "high"}, None]
    turn = (await call("GET", "turns", first.body["turn_id"])).body
    assert turn["effort"] == "high"
    kept = (await call("GET", "turns", first.body["turn_id"], "requests")).body
    assert [request["effort"] for request in kept] == ["high", "high"]


@pytest.mark.parametrize("wrong", ["huge", "", 3])
async def test_an_effort_that_there_is_not_is_refused_with_those_that_there_are(
    call: Call, notebook: Path, wrong: object
) -> None:
    answer = await call("POST", "chat", body=ask("Hm?", effort=wrong))
    assert answer.status == 400
    assert "effort" in answer.body["message"]
    assert "'none', 'low', 'medium', 'high' or 'max'" in answer.body["message"]
