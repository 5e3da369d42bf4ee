"""A stranger's five tasks (tests/bench/first_tasks.py) by keys alone; what they take is measured
there."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.bench.first_tasks import TASKS, Ours, measure


@pytest.mark.story
def test_the_first_tasks_are_done_with_the_keyboard_only(browser: Browser) -> None:
    done = measure(Ours, browser, keyboard=True)
    assert [one.clicks for one in done] == [0] * len(TASKS)
