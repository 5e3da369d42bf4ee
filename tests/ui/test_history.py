"""A person with keys, an agent over HTTP, other programs, lost connections and dying servers, at
random in one notebook. Their actions are logged, and `tests/history` derives losses from the log.

`SEED=` makes the choices of an earlier run once more (not its timing); `OPERATIONS=` says after how
many a long run ends, those of people, the agent and other programs together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser

from tests.notebook.rooms import skip_without_plugs
from tests.ui.conftest import new_file
from tests.ui.fuzz import LINES, Fuzz
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook

TEXTS = ["a = 0", "x = 1\ny = 2", "", "print(x)"]
SESSION = 80
"""Operations of people in one notebook of a long run."""
LINE = frozenset({"cut", "freeze"})
ALL = LINE | {"offline", "kill"}


TAKE_A_WORD = """
path => {
  const texts = agentTest.cells(path).map(cell => cell.sharedModel);
  const text = texts.find(text => /W[EGNQTU]{6}W/.test(text.getSource()));
  const [word] = text.getSource().match(/W[EGNQTU]{6}W/);
  text.setSource(text.getSource().replace(word, ''));
  return word;
}
"""


class Sessions:
    """Sessions of the fuzz, each in a notebook and a browser of its own."""

    def __init__(self, browser: Browser, lab: Lab, replies: Replies, seed: int, name: str) -> None:
        self._browser, self._lab, self._replies, self._seed = browser, lab, replies, seed
        self._name = name

    def short(self, operations: int, *trouble: str, pages: int = 1, together: bool = False) -> None:
        """One, with so many operations of people."""
        self._play(self._seed, operations, frozenset(trouble), pages, together, rate=0.4)

    def long(
        self,
        operations: int,
        trouble: frozenset[str] = frozenset(),
        *,
        pages: int = 1,
        together: bool = False,
        gate: bool = True,
    ) -> None:
        """One after the other, until the total is reached; failures are collected."""
        wanted, done, failed = int(os.environ.get("OPERATIONS", operations)), 0, []
        while done < wanted:
            try:
                done += self._play(self._seed, SESSION, trouble, pages, together, gate=gate)
            except AssertionError as error:
                failed.append(str(error))
                done += SESSION
            self._seed += 1
        assert not failed, "\n".join(failed)

    def _play(
        self,
        seed: int,
        operations: int,
        trouble: frozenset[str],
        pages: int,
        together: bool,
        *,
        rate: float = 0.1,
        gate: bool = True,
    ) -> int:
        """How many operations there were."""
        with self.opened(seed, pages, together) as notebooks:
            fuzz = Fuzz(
                seed,
                notebooks,
                self._replies,
                trouble=trouble,
                rate=rate,
                gate=gate,
                together=together,
            )
            fuzz.work(operations)
            found = fuzz.judge()
            report = fuzz.report(found)
            print(report)  # noqa: T201 - shown when the test fails, or with -s
            assert not found, report
            return sum(fuzz.log.done.values())

    @contextmanager
    def opened(self, seed: int, pages: int, together: bool) -> Iterator[list[OpenNotebook]]:
        """A notebook in so many pages of a new browser."""
        context = self._browser.new_context(viewport={"width": 1280, "height": 900})
        try:
            context.add_init_script(LINES)
            path = new_file(self._lab, f"{self._name}-{seed}", TEXTS)
            notebooks = [
                OpenNotebook(context.new_page(), self._lab, path).open() for _ in range(pages)
            ]
            for notebook in notebooks:
                notebook.wait_for_kernel()
            if not together:
                notebooks[-1].save()
                notebooks[-1].wait_until_linked()
            yield notebooks
        finally:
            context.close()
            self._lab.stop_turns()
            self._lab.shut_down_kernels()


@pytest.fixture
def sessions(
    browser: Browser, lab: Lab, replies: Replies, seed: int, request: pytest.FixtureRequest
) -> Sessions:
    return Sessions(browser, lab, replies, seed, request.node.name)


@pytest.fixture(scope="module")
def room_lab(
    browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A server with real-time collaboration switched on."""
    skip_without_plugs()
    config = {"YDocExtension": {"disable_rtc": False}}
    with running_lab(tmp_path_factory.mktemp("history") / "rooms", script, config=config) as lab:
        yield lab


@pytest.fixture
def rooms(
    browser: Browser, room_lab: Lab, replies: Replies, seed: int, request: pytest.FixtureRequest
) -> Sessions:
    return Sessions(browser, room_lab, replies, seed, request.node.name)


# ---- short


def test_whatever_a_person_and_an_agent_do_in_a_tab_no_word_is_lost(sessions: Sessions) -> None:
    sessions.short(20)


def test_no_word_is_lost_where_the_line_is_cut_meanwhile(sessions: Sessions) -> None:
    sessions.short(15, "cut")


def test_no_word_is_lost_where_two_people_and_an_agent_are_in_a_room(rooms: Sessions) -> None:
    rooms.short(15, pages=2, together=True)


def test_the_same_fuzz_finds_a_word_that_a_page_has_lost(
    sessions: Sessions, replies: Replies, seed: int
) -> None:
    with sessions.opened(seed, 1, False) as (notebook,):
        fuzz = Fuzz(seed, [notebook], replies)
        fuzz.work(5)
        fuzz.person.do("insert")
        fuzz.person.do("type")
        lost = notebook.page.evaluate(TAKE_A_WORD, notebook.path)
        assert [(fault.kind, fault.what) for fault in fuzz.judge()] == [("lost", lost)]


# ---- long


@pytest.mark.long
def test_long_sessions_in_a_tab_lose_no_word(sessions: Sessions) -> None:
    sessions.long(2500)


@pytest.mark.long
def test_long_sessions_on_a_bad_line_lose_no_word(sessions: Sessions) -> None:
    sessions.long(1500, LINE)


@pytest.mark.long
def test_long_sessions_with_every_fault_lose_no_word(sessions: Sessions) -> None:
    """The agent waits while the tab is away for more than 3 s: see the next."""
    sessions.long(2500, ALL)


@pytest.mark.long
def test_a_tab_that_is_away_while_the_agent_works_on_loses_no_word(sessions: Sessions) -> None:
    sessions.long(500, ALL, gate=False)


@pytest.mark.long
def test_long_sessions_beside_other_programs_lose_no_word(sessions: Sessions) -> None:
    sessions.long(500, frozenset({"editor"}))


@pytest.mark.long
def test_long_sessions_in_two_tabs_lose_no_word(sessions: Sessions) -> None:
    sessions.long(1000, pages=2)


@pytest.mark.long
def test_long_sessions_of_two_people_in_a_room_lose_no_word(rooms: Sessions) -> None:
    rooms.long(1500, pages=2, together=True)


@pytest.mark.long
def test_long_sessions_in_a_room_on_a_bad_line_lose_no_word(rooms: Sessions) -> None:
    rooms.long(500, LINE | {"offline"}, pages=2, together=True)
