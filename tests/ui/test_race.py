"""The aimed race: a person enters a cell and types at the very moment the agent deletes, moves or
retypes it. Whatever comes first, the word stays whole and in place, focus and cursor stay, and the
agent learns the outcome of its edit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.notebook.rooms import skip_without_plugs
from tests.ui.conftest import OpenPage, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.race import CELLS, SLOW_LINES, TIMEOUT, Race

words = pytest.mark.parametrize(
    "words", [40, pytest.param(1000, marks=pytest.mark.long)], ids=["short", "long"]
)


@pytest.fixture(scope="module")
def lab(
    browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A server that waits for a page for less long than pages are frozen here."""
    config = {"JupyterAgent": {"tab_timeout": TIMEOUT}}
    with running_lab(tmp_path_factory.mktemp("race") / "lab", script, config=config) as lab:
        yield lab


@words
def test_what_is_typed_as_the_agent_takes_the_cell_away_stays_whole(
    context: BrowserContext, open_page: OpenPage, seed: int, words: int
) -> None:
    context.add_init_script(SLOW_LINES)
    notebook = open_page([f"x{number} = 0\ny = 1" for number in range(CELLS)])
    notebook.wait_until_linked()
    figures = Race(seed, notebook).run(words)
    print(figures)  # noqa: T201 - shown when the test fails, or with -s
    assert figures.wrong == []


@pytest.fixture(scope="module")
def room_lab(
    browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A server with real-time collaboration switched on."""
    skip_without_plugs()
    config = {"YDocExtension": {"disable_rtc": False}}
    with running_lab(tmp_path_factory.mktemp("race") / "rooms", script, config=config) as lab:
        yield lab


@pytest.mark.long
@pytest.mark.xfail(reason="in a room the server replaces the cell under the hands of people")
def test_what_two_people_type_in_a_room_as_the_agent_takes_the_cell_away_stays_whole(
    context: BrowserContext, room_lab: Lab, seed: int
) -> None:
    context.add_init_script(SLOW_LINES)
    path = new_file(room_lab, "race", [f"x{number} = 0\ny = 1" for number in range(CELLS)])
    pages = [OpenNotebook(context.new_page(), room_lab, path).open() for _ in range(2)]
    figures = Race(seed, *pages, carrier="room").run(100)
    print(figures)  # noqa: T201 - shown when the test fails, or with -s
    assert figures.wrong == []
