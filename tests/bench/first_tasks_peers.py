"""The tasks of tests/bench/first_tasks.py in other assistants, with the pointer:

    python -m tests.bench.first_tasks_peers {nbi,lite} PYTHON [--json FILE]

PYTHON is that of an environment with notebook-intelligence 6.2 or jupyterlite-ai 0.20. Their model
is a strict fake of an API. A task that is not possible there gets a sentence instead of its cost.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from playwright.sync_api import Locator, Page, Route

from jupyter_agent.models.base import Block
from tests.bench.first_tasks import (
    CELLS,
    CHANGED,
    REASON,
    TASKS,
    Done,
    Hands,
    a_page,
    line,
    shows_change,
)
from tests.fakes import FakeAnthropic, calls, in_thread, says
from tests.fakes.chat import ChatCompletions, serving
from tests.ui.conftest import launched, new_file
from tests.ui.lab import Replies, running_lab
from tests.ui.page import OpenNotebook

NOTEBOOK = "first minutes.ipynb"
KEY = "sk-test-0123456789"
MOST_SCROLLS = 15
Task: TypeAlias = Callable[[], None]
Step: TypeAlias = tuple[Task | None, Task | str, str]
"""The set-up of a task, the task or why it is impossible, and a remark."""
Found: TypeAlias = tuple[Done | None, str]
"""The cost of a task, and a remark; None with the reason if it is not possible."""


class Pointer(Hands):
    """More actions for these pages."""

    def __init__(self, page: Page) -> None:
        super().__init__(page, keyboard=False)

    def press_on(self, control: Locator) -> None:
        """Click it, even if mouse-down already puts something on top."""
        control.wait_for()
        box = control.bounding_box()
        assert box
        self._begin(f"click {control.get_attribute('title')}")
        self.done.clicks += 1
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def choose(self, choice: Locator, label: str) -> None:
        """Choose from a list that a click opens, with a second click."""
        choice.wait_for()
        self._begin(f"choose {label}")
        self.done.clicks += 2
        choice.select_option(label=label)

    def scroll(self, pixels: int) -> None:
        """Turn the wheel at the pointer, and wait for the page."""
        self._begin(f"scroll {pixels}")
        self.done.scrolls += 1
        self.page.mouse.wheel(0, pixels)
        self.page.wait_for_timeout(200)  # milliseconds; nothing tells when it is drawn


class NotebookIntelligence:
    """What is not possible was observed in its agent mode with its notebook tools enabled, by three
    calls of set_cell_type_and_source and one of run_cell: they took effect at once. Undo in a
    changed cell did nothing, as the cell is a new one. The notebook's undo took the changes back
    one by one from the last, or all three together if they came at once. Its tool for commands asks
    whether to approve or cancel, without a reason. Its Claude mode was not tried: by its source it
    also edits cells without asking, asks before it runs one, and takes no reason there either.
    """

    def __init__(self, page: Page, replies: Replies, api: ChatCompletions) -> None:
        self.page = page
        self.hands = Pointer(page)
        self.api = api
        self.steps: list[Step] = [
            (None, self.find, ""),
            (None, self.set_key, "checked with a request"),
            (None, "not possible: the chat has each new source in JSON, not what it replaced", ""),
            (None, "not possible: it has no undo, and JupyterLab's takes back the last first", ""),
            (None, "not possible: tools for notebooks do not ask, and others take no reason", ""),
        ]
        replies.append([says("Yes.")])

    def find(self) -> None:
        """Its tour starts while its tab is pressed. Without a provider there is no chat."""
        self.hands.press_on(self.page.locator(".jp-SideBar [title='Notebook Intelligence']"))
        self.hands.use(self.page.get_by_text("Skip tour"))
        self.page.locator(".nbi-tour-root").wait_for(state="detached")
        self.page.get_by_text("Change provider").wait_for()

    def set_key(self) -> None:
        """The address of the fake is filled in without being counted; the check is a request."""
        self.hands.use(self.page.get_by_text("Change provider"))
        provider = self.page.locator("select", has_text="LiteLLM Compatible").first
        self.hands.choose(provider, "OpenAI Compatible")
        self.page.get_by_placeholder("Base URL").first.fill(self.api.url)
        self.hands.write(self.page.get_by_placeholder("API key", exact=True).first, KEY)
        self.hands.write(self.page.get_by_placeholder("Model (must support").first, "fake-1")
        self.hands.use(self.page.get_by_text("Test the endpoint"))
        self.hands.use(self.page.get_by_text("Run it"))
        self.page.get_by_text("Live completion").wait_for()
        self.page.get_by_text("Ready. Nothing needs configuring.").wait_for()
        assert KEY in str(self.api.headers)


class JupyterLiteAI:
    """Its changes are marked in the cells, each with a button to reject and accept it. It asks
    before it runs a cell, not before it edits one.
    """

    def __init__(
        self, page: Page, notebook: OpenNotebook, replies: Replies, api: FakeAnthropic
    ) -> None:
        self.page = page
        self.notebook = notebook
        self.replies = replies
        self.api = api
        self.hands = Pointer(page)
        self.steps: list[Step] = [
            (None, self.find, ""),
            (None, self.set_key, "not checked"),
            (self.change_three, self.say_what_changed, ""),
            (None, self.undo_one, ""),
            (
                self.ask_first,
                self.deny,
                "to run a cell; edits do not ask. The reason is a new message",
            ),
        ]
        page.route(f"{api.url}/**", take_from_a_page)

    def find(self) -> None:
        self.hands.use(self.page.locator(".jp-SideBar [title='Chat with AI assistant']"))
        self.page.get_by_placeholder("Select a chat").wait_for()

    def set_key(self) -> None:
        """A key for Anthropic, which it proposes. It is not checked. The address of the fake is
        filled in without being counted."""
        self.hands.use(self.page.locator("jp-button[title='Open AI Settings']"))
        self.hands.use(self.page.get_by_text("Add Provider").first)
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_placeholder("https://api.example.com/v1").fill(f"{self.api.url}/v1")
        self.page.keyboard.press("Enter")
        self.hands.write(dialog.get_by_placeholder("e.g., My Anthropic"), "Mine")
        self.hands.write(dialog.get_by_placeholder("Enter your API key"), self.api.api_key)
        self.hands.use(dialog.get_by_role("button", name="Add Provider"))
        self.page.get_by_text("anthropic •").wait_for()

    def say_what_changed(self) -> None:
        """Nothing leads from one change to the next: the notebook is scrolled."""
        self.point_at_notebook()
        for month in CHANGED:
            self.look_for(month, 700)

    def undo_one(self) -> None:
        """The button has no name, only a picture."""
        month = CHANGED[1]
        self.point_at_notebook()
        self.look_for(month, -700)
        cell = self.page.locator(".jp-Cell").filter(
            has=self.page.get_by_text(f"# Month {month}", exact=True)
        )
        button = cell.locator(".jp-merge-reject-button")
        self.hands.use(button)
        button.wait_for(state="detached")
        assert [
            cell for n, cell in enumerate(CELLS) if self.notebook.sources()[f"c{n}"] != cell
        ] == [CELLS[month - 1] for month in (CHANGED[0], CHANGED[2])]

    def deny(self) -> None:
        """Reject takes no reason. The model is asked without it, and then with the next message."""
        self.hands.use(self.page.get_by_role("button", name="Reject", exact=True))
        self.hands.write(self.message, REASON)
        self.hands.press("Enter")
        self.page.get_by_text("As you like.").wait_for()
        assert REASON in str(self.api.requests[-1]["messages"][-1])
        assert REASON not in str(self.api.requests[-2]["messages"])

    # ---- set-up of tasks

    def change_three(self) -> None:
        """A chat, and an answer in it that changes three cells."""
        for month in CHANGED:
            content = CELLS[month - 1].replace(f"{line(month)}\n", f"{line(month, 10)}\n")
            self.replies.append([command("set-cell-content", f"c{month - 1}", content=content)])
        self.replies.append([says("Done.")])
        self.page.locator("#jp-main-dock-panel .lm-TabBar-tab").first.click()
        self.page.locator("jp-button[title='Create a new chat']").first.click()
        self.ask("Correct the fourth day.")
        self.page.get_by_text("Done.", exact=True).wait_for()

    def ask_first(self) -> None:
        """A question that waits."""
        self.replies.append([command("run-cell", "c0")])
        self.replies.append([says("Why not?")])
        self.replies.append([says("As you like.")])
        self.ask("Run month 1.")
        self.page.get_by_role("button", name="Reject", exact=True).wait_for()

    # ---- helpers

    @property
    def message(self) -> Locator:
        return self.page.get_by_placeholder("Type a chat message").first

    def ask(self, text: str) -> None:
        self.message.fill(text)
        self.message.press("Enter")

    def point_at_notebook(self) -> None:
        box = self.page.locator(".jp-WindowedPanel-outer").bounding_box()
        assert box
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def look_for(self, month: int, pixels: int) -> None:
        for _ in range(MOST_SCROLLS):
            if shows_change(self.page, month):
                return
            self.hands.scroll(pixels)
        raise AssertionError(f"The change of month {month} is not there")


def command(name: str, cell: str, **more: str) -> Block:
    """A call of its tool that runs commands, on this cell."""
    args = {"notebookPath": NOTEBOOK, "cellId": cell, **more}
    return calls("execute_command", commandId=f"jupyterlab-ai-commands:{name}", args=args)


def take_from_a_page(route: Route) -> None:
    """Its requests come from the page itself, which the real API allows and the fake does not; nor
    does the fake accept a temperature."""
    allowed = {f"access-control-allow-{what}": "*" for what in ("origin", "headers", "methods")}
    if route.request.method == "OPTIONS":
        route.fulfill(status=204, headers=allowed)
    else:
        body = dict(route.request.post_data_json or {})
        body.pop("temperature", None)
        answer = route.fetch(post_data=json.dumps(body))
        route.fulfill(response=answer, headers={**answer.headers, **allowed})


def measure(name: str, page: Page, python: str) -> list[Found]:
    """In a fresh server."""
    replies = Replies()
    completions = ChatCompletions(replies)
    with (
        tempfile.TemporaryDirectory() as folder,
        in_thread(serving(completions)),
        running_lab(Path(folder) / "lab", replies, python=python, panel=False) as lab,
    ):
        notebook = OpenNotebook(page, lab, new_file(lab, Path(NOTEBOOK).stem, CELLS)).open()
        notebook.wait_for_kernel()
        peer = (
            NotebookIntelligence(page, replies, completions)
            if name == "nbi"
            else JupyterLiteAI(page, notebook, replies, lab.fake)
        )
        found: list[Found] = []
        for before, task, remark in peer.steps:
            if before:
                before()
            if isinstance(task, str):
                found.append((None, task))
                continue
            with peer.hands.task() as took:
                task()
            print(f"  {TASKS[len(found)]}: {took}", file=sys.stderr, flush=True)
            found.append((took, remark))
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("nbi", "lite"))
    parser.add_argument("python")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with launched() as browser, a_page(browser) as page:
        found = measure(options.peer, page, options.python)
    print(f"| task | {options.peer} |\n|---|---|")
    for task, (took, remark) in zip(TASKS, found, strict=True):
        print(f"| {task} | {'; '.join(str(part) for part in (took, remark) if part)} |")
    if options.json:
        rows = [(took and dataclasses.asdict(took), remark) for took, remark in found]
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
