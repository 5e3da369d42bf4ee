"""Costs of the first minutes, in Chromium: `python -m tests.bench.first_tasks [--json FILE]`.

Five tasks of a person who sees the page for the first time, done with the pointer and then with the
keyboard only: find the panel, set a key, say what changed, undo one of three changes, deny with a
reason. They only use what the page shows. Counts clicks, keys and typed texts, and measures the
time from the first of them until the result is visible; the person needs no time to think, nor the
model to answer. Asserts that each task was really done.

`--before PYTHON` does the same with version 0.1.0 at commit e6db4e2, installed in that environment.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from jupyter_agent.models.base import Block
from tests.fakes import FakeAnthropic, calls, in_thread, says
from tests.ui.conftest import launched, new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

TASKS = (
    "find the panel",
    "set a key",
    "say what changed",
    "undo one of three changes",
    "deny with a reason",
)
CELLS = [
    f"# Month {month}\n" + "\n".join(f"day_{month}_{day} = {month * day}" for day in range(1, 9))
    for month in range(1, 13)
]
"""More than two screens."""
CHANGED = (2, 7, 12)
"""The positions of the changed cells; one line each."""
REASON = "Use a cell of its own."
IN_SIGHT = """elements => elements.some(element => {
  const {left, top, width, height} = element.getBoundingClientRect();
  const hit = document.elementFromPoint(left + Math.min(width / 2, 10), top + height / 2);
  return hit !== null && (element.contains(hit) || hit.contains(element));
})"""
"""Whether one of them is on the screen and nothing covers it."""
IS_FOCUSED = "element => element === document.activeElement"
IS_BEFORE = """element => Boolean(
  document.activeElement.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING
)"""
NAME = "element => element.ariaLabel || element.title || element.textContent || element.tagName"
MOST_TABS = 150


@dataclass
class Done:
    """The cost of a task."""

    clicks: int = 0
    keys: int = 0
    texts: int = 0
    scrolls: int = 0
    seconds: float = 0
    steps: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = (
            ("click", self.clicks),
            ("key", self.keys),
            ("text", self.texts),
            ("scroll", self.scrolls),
        )
        words = [f"{n} {name}{'s' * (n != 1)}" for name, n in counts if n] or ["nothing to do"]
        return f"{', '.join(words)}; {self.seconds:.1f} s"


class Hands:
    """A person at a page, with or without a pointer. Counts their actions."""

    def __init__(self, page: Page, *, keyboard: bool) -> None:
        self.page = page
        self.keyboard = keyboard
        self.done = Done()
        self._start: float | None = None

    @contextmanager
    def task(self) -> Iterator[Done]:
        """One task, up to the moment when its result is visible."""
        self.done, self._start = Done(), None
        begin = time.perf_counter()
        yield self.done
        self.done.seconds = time.perf_counter() - (self._start or begin)

    def use(self, control: Locator) -> None:
        """Click it, or go there with Tab and press Enter."""
        if self.keyboard:
            self.reach(control)
            self.press("Enter")
        else:
            self._click(control)

    def write(self, target: Locator, text: str) -> None:
        """Type into a field; no need to find it if it has the focus."""
        if not target.evaluate(IS_FOCUSED):
            if self.keyboard:
                self.reach(target)
            else:
                self._click(target)
        self.type(text)

    def type(self, text: str) -> None:
        """Type at the focus."""
        self._begin(f"type “{text}”")
        self.done.texts += 1
        self.page.keyboard.insert_text(text)

    def press(self, key: str) -> None:
        self._begin(key)
        self.done.keys += 1
        self.page.keyboard.press(key)

    def command(self, words: str) -> None:
        """Run the command that JupyterLab's palette finds for these words."""
        self.press("Control+Shift+c")
        self.page.locator("#command-palette input").wait_for()
        self.type(words)
        self.page.locator("#command-palette .lm-mod-active").first.wait_for()
        self.press("Enter")

    def reach(self, control: Locator) -> None:
        """Press Tab until it has the focus, forward or back depending on its position."""
        control.wait_for()
        key = "Shift+Tab" if control.evaluate(IS_BEFORE) else "Tab"
        for _ in range(MOST_TABS):
            if control.evaluate(IS_FOCUSED):
                return
            self.press(key)
        raise AssertionError(f"Tab does not lead to {control}")

    def _click(self, control: Locator) -> None:
        control.wait_for()
        self._begin(f"click {control.evaluate(NAME)}")
        self.done.clicks += 1
        control.click()

    def _begin(self, step: str) -> None:
        self._start = self._start or time.perf_counter()
        self.done.steps.append(step)


def line(month: int, factor: int = 1) -> str:
    """The changed line of the cell at this position, before or after."""
    return f"day_{month}_4 = {month * 4 * factor}"


def in_sight(page: Page, text: str) -> bool:
    return bool(page.get_by_text(text, exact=True).evaluate_all(IN_SIGHT))


def shows_change(page: Page, month: int) -> bool:
    """Whether the old line and the new one are visible."""
    return in_sight(page, line(month)) and in_sight(page, line(month, 10))


def unseen(page: Page, months: Sequence[int]) -> list[int]:
    return [month for month in months if not shows_change(page, month)]


class Ours:
    """The tasks in this program."""

    key_field = "Anthropic API key"
    key_accepted = "Key works, 2 models"
    undo_answer = "Undo"

    def __init__(self, lab: Lab, api: FakeAnthropic, replies: Replies, hands: Hands) -> None:
        self.lab = lab
        self.api = api
        self.replies = replies
        self.hands = hands
        self.page = hands.page
        self.panel = Panel(self.page)
        path = new_file(lab, f"first minutes {hands.keyboard}", CELLS)
        self.notebook = OpenNotebook(self.page, lab, path).open()
        self.notebook.wait_until_linked()
        self.notebook.wait_for_kernel()

    # ---- the tasks

    def find(self) -> None:
        """By a button in the notebook's toolbar; with keys, by JupyterLab's palette."""
        if self.hands.keyboard:
            self.hands.command("assistant")
        else:
            self.hands.use(self.page.get_by_role("button", name="Assistant", exact=True))
        self.panel.message.wait_for()

    def set_key(self) -> None:
        self.hands.write(self.panel.region.get_by_label(self.key_field), self.api.api_key)
        self.hands.press("Enter")
        self.panel.region.get_by_text(self.key_accepted).wait_for()

    def say_what_changed(self) -> None:
        """Walk through until each cell's change was on the screen."""
        left = unseen(self.page, CHANGED)
        for number, month in enumerate(CHANGED, 1):
            if left:
                self.hands.use(self.panel.button("Next change"))
                self.panel.region.get_by_text(f"Change {number} of 3").wait_for()
                eventually(lambda: shows_change(self.page, month), bool)  # noqa: B023
                left = unseen(self.page, left)

    def undo_one(self) -> None:
        """The second one, found with the same buttons."""
        month = CHANGED[1]
        change = self.page.get_by_role("group", name=f"Change in cell {month}", exact=True)
        while not shows_change(self.page, month):
            self.hands.use(self.panel.button("Previous change"))
            eventually(lambda: shows_change(self.page, month), bool)
        self.hands.use(change.get_by_role("button", name="Undo", exact=True))
        change.wait_for(state="detached")

    def deny(self) -> None:
        self.hands.write(self.panel.message, REASON)
        self.hands.press("Enter")
        self.panel.log.get_by_text(REASON).wait_for()
        self.panel.log.get_by_text("As you like.").wait_for()

    # ---- set-up of tasks, and checks afterwards

    def change_three(self) -> None:
        """An answer that changes three cells."""
        self.replies.append([edit(month) for month in CHANGED])
        self.replies.append([says("Done.")])
        self.panel.region.get_by_label("Mode", exact=True).select_option("edit")
        self.panel.ask("Correct the fourth day.")
        self.panel.log.get_by_text("Done.").wait_for()
        self.panel.button(self.undo_answer).wait_for()

    def ask_first(self) -> None:
        """A question that waits."""
        self.replies.append([edit(4)])
        self.replies.append([says("As you like.")])
        self.panel.region.get_by_label("Mode", exact=True).select_option("ask")
        self.panel.ask("Correct month 4 too.")
        self.panel.button("Deny").wait_for()

    def run(self) -> list[Done]:
        done: list[Done] = []
        for before, task, check in (
            (None, self.find, None),
            (None, self.set_key, self.check_key),
            (self.change_three, self.say_what_changed, None),
            (None, self.undo_one, self.check_undone),
            (self.ask_first, self.deny, self.check_reason),
        ):
            if before:
                before()
            with self.hands.task() as took:
                task()
            if check:
                check()
            print(f"  {TASKS[len(done)]}: {took}", file=sys.stderr, flush=True)
            done.append(took)
        return done

    def check_key(self) -> None:
        """The key is stored, and works."""
        providers = self.lab.call("GET", "models").body["providers"]
        assert next(one for one in providers if one["name"] == "anthropic")["credentials"]

    def check_undone(self) -> None:
        now = eventually(self.notebook.sources, lambda now: line(7) in now["c6"].split("\n"))
        assert [cell for n, cell in enumerate(CELLS) if now[f"c{n}"] != cell] == [
            CELLS[month - 1] for month in (2, 12)
        ]

    def check_reason(self) -> None:
        assert REASON in str(self.api.requests[-1]["messages"][-1])
        assert self.notebook.sources()["c3"] == CELLS[3]


def edit(month: int) -> Block:
    """A call that changes one line of the cell at this position."""
    return calls(
        "update_cell",
        cell_id=f"c{month - 1}",
        old_string=line(month),
        new_string=line(month, 10),
    )


class Earlier(Ours):
    """Version 0.1.0 at commit e6db4e2, which was measured first."""

    key_field = "Key for Anthropic"
    key_accepted = "Sonnet 5.5 answers."  # it was not checked
    undo_answer = "Undo turn"

    def find(self) -> None:
        """By an icon at the side, named in its tooltip."""
        if self.hands.keyboard:
            self.hands.command("assistant")
        else:
            self.hands.use(self.page.locator(".jp-SideBar [title='Assistant']"))
        self.panel.message.wait_for()

    def say_what_changed(self) -> None:
        """The changes unfold below the visible part of the conversation."""
        self.hands.use(self.panel.button("Review"))
        self._review(CHANGED[-1]).wait_for()
        if unseen(self.page, CHANGED):
            self.hands.use(self.panel.button("Jump to latest"))
            eventually(lambda: unseen(self.page, CHANGED), lambda left: not left)

    def undo_one(self) -> None:
        review = self._review(CHANGED[1])
        self.hands.use(review.get_by_role("button", name="Revert"))
        review.get_by_text("Reverted").wait_for()

    def deny(self) -> None:
        """The typed reason is not shown afterwards."""
        self.hands.write(self.panel.region.get_by_label("What to do instead"), REASON)
        self.hands.press("Enter")
        self.panel.log.get_by_text("As you like.").wait_for()

    def _review(self, month: int) -> Locator:
        return self.panel.log.get_by_role("group", name=f"Cell {month}", exact=True)


@contextmanager
def without_a_key(folder: Path, api: FakeAnthropic, **how: Any) -> Iterator[Lab]:
    """JupyterLab as after the installation, with `api` in place of Anthropic's."""
    agent = {"default_model": "", "providers": {"anthropic": {"base_url": api.url}}}
    with running_lab(folder, Replies(), config={"JupyterAgent": agent}, **how) as lab:
        settings = "lab/api/settings/jupyter-agent:plugin"
        assert lab.request("PUT", settings, {"raw": "{}"}).status == 204
        yield lab


@contextmanager
def a_page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)  # milliseconds; test machines may be slow and shared
    yield context.new_page()
    context.close()


def measure(program: type[Ours], browser: Browser, *, keyboard: bool, **how: Any) -> list[Done]:
    """In a fresh server and a fresh browser."""
    replies = Replies()
    with (
        tempfile.TemporaryDirectory() as folder,
        in_thread(FakeAnthropic(replies)) as api,
        without_a_key(Path(folder) / "lab", api, **how) as lab,
        a_page(browser) as page,
    ):
        return program(lab, api, replies, Hands(page, keyboard=keyboard)).run()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", metavar="PYTHON")
    options = parser.parse_args()
    how: dict[str, Any] = {"python": options.before, "panel": False} if options.before else {}
    program = Earlier if options.before else Ours
    with launched() as browser:
        took = {
            "pointer": measure(program, browser, keyboard=False, **how),
            "keyboard": measure(program, browser, keyboard=True, **how),
        }
    print("| task | pointer | keyboard |\n|---|---|---|")
    for n, task in enumerate(TASKS):
        print(f"| {task} | {took['pointer'][n]} | {took['keyboard'][n]} |")
    found = {how: [dataclasses.asdict(one) for one in done] for how, done in took.items()}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
