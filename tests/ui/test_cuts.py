"""A tab that the server loses, in every way: the person's typing and the edits reported to the
agent as done are both there, once.
"""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from playwright.sync_api import Route

from tests.gates import FOREVER
from tests.ui.conftest import OpenPage
from tests.ui.counting import CELL, Counting, Person
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

CUTS = 20


@pytest.fixture
def counted(open_page: OpenPage) -> OpenNotebook:
    notebook = open_page([CELL, "other = 1"])
    notebook.wait_until_linked()
    return notebook


@pytest.mark.story
def test_twenty_cuts_while_typing_lose_and_double_nothing(counted: OpenNotebook, seed: int) -> None:
    agent, person = Counting(counted.lab, counted.path), Person(counted)
    choose = random.Random(seed)

    with agent.at_work():
        for number in range(CUTS):
            word = f" + A{number}"
            before = choose.randrange(len(word))
            person.type(word[:before])
            sockets = counted.sockets()
            counted.cut_socket()
            person.type(word[before:])
            eventually(counted.sockets, lambda now, before=sockets: now > before)  # type: ignore[misc]
    agent.append()
    assert agent.done[-1] == agent.last
    agent.told_the_truth(counted.sources()["c0"], person.typed)
    assert counted.ids() == ["c0", "c1"]
    seen = counted.lab.notebook(counted.path)["cells"][0]["source"]
    assert seen == counted.sources()["c0"] == counted.shown()["c0"]
    eventually(counted.saved, lambda saved: saved == counted.sources())
    assert counted.page.locator(".jp-Dialog").count() == 0


def test_a_server_killed_and_started_again_finds_the_tab_as_it_is_but_for_the_run_that_died(
    open_page: OpenPage,
) -> None:
    endless = f"print('begun', flush=True)\n{FOREVER}"
    counted = open_page([CELL, endless])
    counted.wait_until_linked()
    lab = counted.lab
    agent, person = Counting(lab, counted.path), Person(counted)
    lab.run(counted.path, "c1", wait=0)
    eventually(lambda: counted.output_text("c1").strip(), "begun".__eq__)
    assert counted.prompt("c1") == "[*]:"

    with agent.at_work():
        person.type(" + before")
        eventually(lambda: len(agent.done) > 3, bool)
        lab.kill()
        person.type(" + meanwhile")
    assert agent.unknown  # the call in which the server died was never reported as done
    lab.start()
    counted.dismiss_dialogs()  # Lab's own: that its server and its kernel are gone
    counted.edit("c0")
    person.type(" + after")
    counted.come_back()
    counted.wait_until_linked()
    agent.append()
    assert agent.done[-1] == agent.last
    agent.told_the_truth(counted.sources()["c0"], person.typed)
    assert counted.ids() == ["c0", "c1"]
    eventually(lambda: counted.prompt("c1"), "[ ]:".__eq__)
    assert counted.output_text("c1").strip() == "begun"
    assert counted.saved() == counted.sources()


@pytest.mark.story
def test_what_a_closing_tab_never_confirmed_is_not_reported_as_done_and_the_next_edit_says_so(
    counted: OpenNotebook, open_page: OpenPage
) -> None:
    agent, person = Counting(counted.lab, counted.path), Person(counted)
    person.type(" + saved")
    agent.append()
    person.type(" + never saved")
    counted.hold_changes()

    def close() -> None:
        eventually(counted.held, bool)
        counted.page.close()

    with ThreadPoolExecutor(1) as thread:
        appended = thread.submit(agent.append)
        close()
        appended.result()
    assert list(agent.unknown) == [2]
    assert "unknown" in agent.unknown[2]
    agent.told_the_truth(counted.saved()["c0"], " + saved")
    cell = f"notebooks/{quote(counted.path)}/cells/c1"
    told = eventually(  # "busy" as long as the server does not know that the tab is gone
        lambda: counted.lab.call("PATCH", cell, {"old_string": "1", "new_string": "2"}),
        lambda answer: answer.status == 200,
    )
    assert "unsaved work of that tab is not in it" in told.body["note"]
    again = open_page(path=counted.path)
    agent.told_the_truth(again.sources()["c0"], " + saved")
    assert again.sources()["c1"] == "other = 2"
    assert again.ids() == ["c0", "c1"]


@pytest.mark.story
def test_two_tabs_with_work_of_their_own_both_keep_it(
    counted: OpenNotebook, open_page: OpenPage
) -> None:
    counted.wait_for_kernel()
    counted.save()
    other = open_page(path=counted.path)
    other.edit("c1")
    other.type(" + unsaved")
    counted.page.bring_to_front()
    agent, person = Counting(counted.lab, counted.path), Person(counted)
    for number in range(3):
        person.type(f" + A{number}")
        agent.append()
    assert agent.done == [0, 1, 2, 3]
    other.page.bring_to_front()
    other.type(" too")
    other.page.keyboard.press("Control+s")
    eventually(other.dirty, False.__eq__)
    agent.append()  # in this tab now: the person was here last
    eventually(counted.sources, lambda now: now == other.sources())
    for tab in (counted, other):
        agent.told_the_truth(tab.sources()["c0"], person.typed)
        assert tab.sources()["c1"] == "other = 1 + unsaved too"
        assert tab.ids() == ["c0", "c1"]
        assert tab.dialogs() == []
    assert other.saved() == other.sources()


def test_what_is_typed_while_a_second_tab_reloads_is_kept(
    counted: OpenNotebook, open_page: OpenPage
) -> None:
    counted.wait_for_kernel()
    counted.save()
    second = open_page(path=counted.path)
    held: list[Route] = []
    second.page.route(re.compile(r"/api/contents/.*content=1"), lambda route: held.append(route))
    counted.page.bring_to_front()
    counted.edit("c1")  # the person was last in the first tab: the agent works there
    agent = Counting(counted.lab, counted.path)
    with ThreadPoolExecutor(1) as thread:
        appended = thread.submit(agent.append)
        eventually(lambda: second.page.wait_for_timeout(10), lambda _: held)
        second.edit("c0")
        second.type(" + typed")
        for route in held:
            route.continue_()
        second.page.unroute_all()
        eventually(lambda: second.page.wait_for_timeout(10), lambda _: appended.done())
    agent.told_the_truth(second.sources()["c0"], " + typed")
    eventually(second.dirty, False.__eq__)
    agent.told_the_truth(second.saved()["c0"], " + typed")
    assert second.dialogs() == []
