"""The tools shorten work: fewer model calls for the same tasks, at no higher price."""

from __future__ import annotations

import json

import pytest

from ..bench.steps import BASELINE, TASKS, Figures, play, total


@pytest.mark.full
def test_thirty_tasks_take_a_third_fewer_model_calls_and_cost_no_more() -> None:
    before = {name: Figures(**each) for name, each in json.loads(BASELINE.read_text()).items()}
    assert len(TASKS) == 30
    assert before.keys() == {task.name for task in TASKS}
    now = total(play(single=False))
    assert now.calls <= total(before).calls * 2 / 3
    assert now.price <= total(before).price
