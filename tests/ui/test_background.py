"""The agent in a tab that no one is looking at: in the background, throttled, frozen.

The agent's answers are always true, and when the person comes back the notebook is as they left it
plus the agent's changes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Playwright

from tests.ui.conftest import new_file
from tests.ui.counting import CELL, Counting, Person
from tests.ui.headed import Tab, headed_chromium
from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook

AT_ONCE = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1"
"""Throttled to one wake-up a minute after seconds, where Chromium waits five minutes."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@contextmanager
def window(
    playwright: Playwright, chromium: str, folder: Path, *flags: str
) -> Iterator[BrowserContext]:
    try:
        with headed_chromium(playwright, chromium, folder, *FLAGS, *flags) as context:
            yield context
    except FileNotFoundError as missing:
        pytest.skip(f"no {missing}: install it to see tabs in the background")


@pytest.fixture(scope="module")
def impatient(
    playwright: Playwright, chromium: str, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    with window(playwright, chromium, tmp_path_factory.mktemp("profile"), AT_ONCE) as context:
        yield context


@pytest.fixture
def notebook(
    impatient: BrowserContext, lab: Lab, request: pytest.FixtureRequest
) -> Iterator[OpenNotebook]:
    yield from opened(impatient, lab, request.node.name)


def opened(context: BrowserContext, lab: Lab, name: str) -> Iterator[OpenNotebook]:
    """A notebook in a tab in front; all tabs are closed afterwards."""
    page = context.new_page()
    notebook = OpenNotebook(page, lab, new_file(lab, name, [CELL, "other = 1"])).open()
    notebook.wait_until_linked()
    yield notebook
    context.new_page()  # without any tab Chromium ends
    for page in context.pages[:-1]:
        page.close()
    lab.shut_down_kernels()


def came_back(notebook: OpenNotebook, agent: Counting, person: Person) -> None:
    """The person is back: everything is there, once, and both can continue."""
    Tab(notebook.page).show()
    notebook.wait_until_linked()
    assert notebook.dialogs() == []
    agent.told_the_truth(notebook.sources()["c0"], person.typed)
    notebook.edit("c0")
    person.type(" + back")
    agent.append_at_last()
    agent.told_the_truth(notebook.sources()["c0"], person.typed)
    agent.told_the_truth(notebook.saved()["c0"], person.typed)
    assert notebook.ids() == ["c0", "c1"]
    assert notebook.dialogs() == []


def test_a_throttled_tab_takes_every_edit_also_after_a_cut(notebook: OpenNotebook) -> None:
    agent, person = Counting(notebook.lab, notebook.path), Person(notebook)
    person.type(" + unsaved")
    tab = Tab(notebook.page)
    tab.hide()
    tab.wait_until_throttled()
    for number in range(8):
        if number % 4 == 2:
            notebook.cut_socket()
        agent.append()
    assert agent.done == list(range(9))
    assert notebook.lab.notebook(notebook.path)["carrier"] == "tab"
    came_back(notebook, agent, person)


def test_a_frozen_tab_is_busy_and_has_nothing_twice_when_it_thaws(notebook: OpenNotebook) -> None:
    agent, person = Counting(notebook.lab, notebook.path), Person(notebook)
    agent.append()
    person.type(" + unsaved")
    tab = Tab(notebook.page)
    tab.hide()
    tab.freeze()
    agent.append()
    assert "does not answer (a frozen page" in agent.refused[2]
    assert notebook.saved()["c0"] == "agent = [0, 1]\nperson = 0"
    tab.thaw()
    agent.append_at_last()
    assert agent.done == [0, 1, agent.last]
    came_back(notebook, agent, person)


def test_a_tab_that_freezes_in_the_middle_of_an_edit_takes_it_back_when_it_thaws(
    notebook: OpenNotebook,
) -> None:
    agent, person = Counting(notebook.lab, notebook.path), Person(notebook)
    agent.append()
    tab = Tab(notebook.page)
    tab.hide()
    notebook.hold_changes()  # the tab still answers, up to the first change
    with ThreadPoolExecutor(1) as thread:
        appended = thread.submit(agent.append)
        appended.result()
    assert "does not answer" in agent.refused[2]
    assert notebook.sources()["c0"] == "agent = [0, 1]\nperson = 0"
    notebook.let_go()
    agent.append()
    assert agent.done == [0, 1, 3]
    came_back(notebook, agent, person)


def test_freezes_at_random_moments_double_and_lose_nothing(
    notebook: OpenNotebook, seed: int
) -> None:
    freeze_and_thaw(notebook, random.Random(seed), times=6, longest=1.0)


@pytest.mark.long
def test_many_long_freezes_at_random_moments(notebook: OpenNotebook, seed: int) -> None:
    freeze_and_thaw(notebook, random.Random(seed), times=40, longest=12.0)


def freeze_and_thaw(
    notebook: OpenNotebook, choose: random.Random, *, times: int, longest: float
) -> None:
    agent, person = Counting(notebook.lab, notebook.path), Person(notebook)
    tab = Tab(notebook.page)
    for _ in range(times):
        person.type(" + A")
        tab.hide()
        with agent.at_work():
            time.sleep(choose.uniform(0, 0.1))
            tab.freeze()
            time.sleep(choose.uniform(0, longest))
            tab.thaw()
            time.sleep(choose.uniform(0, 0.1))
        came_back(notebook, agent, person)
        tab.page.context.pages[-1].close()
        tab.show()
    print(agent.account())  # noqa: T201 - the figures of a long run


@pytest.mark.long
def test_minutes_in_the_background(
    playwright: Playwright, chromium: str, lab: Lab, tmp_path: Path, seed: int
) -> None:
    """Chromium's own patience: timers once a second after ten, once a minute after 300 seconds."""
    choose = random.Random(seed)
    with window(playwright, chromium, tmp_path) as context:
        for notebook in opened(context, lab, "minutes"):
            agent, person = Counting(lab, notebook.path), Person(notebook)
            person.type(" + unsaved")
            tab = Tab(notebook.page)
            tab.hide()
            end = time.monotonic() + 480
            while time.monotonic() < end:
                if choose.random() < 0.1:
                    notebook.cut_socket()
                agent.append()
                time.sleep(choose.uniform(0, 2))
            tab.wait_until_throttled()
            assert not agent.refused
            assert not agent.unknown
            came_back(notebook, agent, person)
            print(agent.account())  # noqa: T201
