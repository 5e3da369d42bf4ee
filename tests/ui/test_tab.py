"""The agent in a notebook that is open in a browser tab: docs/carriers.md, "Tab bridge"."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import APIResponse, Route, expect

from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

SLOW_LOOP = """import time
for n in range(12):
    print("line", n)
    time.sleep(0.15)"""
STEPS = """import os, time
for n in range(12):
    print("line", n, flush=True)
    while not os.path.exists(f"seen {n}"):
        time.sleep(0.01)"""
LINES = "".join(f"line {n}\n" for n in range(12))
MANY = "for n in range(130):\n    display(n)\n    if n % 40 == 0:\n        print(n)"


WATCH_CELL = """() => {
  const cell = document.querySelector('.jp-CodeCell');
  window.agentSeen = [];
  const look = () => {
    const prompt = cell.querySelector('.jp-InputPrompt').textContent.trim();
    const text = cell.querySelector('.jp-Cell-outputArea').innerText;
    const seen = [prompt, text];
    if (JSON.stringify(seen) !== JSON.stringify(agentSeen.at(-1))) {
      agentSeen.push(seen);
    }
  };
  look();
  new MutationObserver(look).observe(cell, {childList: true, subtree: true, characterData: true});
}"""
"""Records what the screen shows of the first cell, change by change."""


def printed(outputs: list[dict[str, Any]]) -> str:
    """All stream text of a cell."""
    return "".join("".join(output.get("text", "")) for output in outputs)


def test_an_edit_is_in_the_open_cell_at_once_and_the_tab_saves_it_if_it_saves_by_itself(
    notebook: OpenNotebook,
) -> None:
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    cell = notebook.lab.edit(notebook.path, "c0", old_string="1", new_string="2")
    assert (cell["source"], cell["saved"]) == ("x = 2", True)
    assert notebook.sources()["c0"] == "x = 2"
    eventually(notebook.shown, lambda cells: cells["c0"] == "x = 2")
    assert notebook.saved()["c0"] == "x = 2"
    assert not notebook.dirty()
    notebook.edit("c0")
    notebook.type(" # mine")
    notebook.page.keyboard.press("Control+s")
    eventually(lambda: notebook.saved()["c0"], lambda text: text == "x = 2 # mine")
    assert notebook.page.locator(".jp-Dialog").count() == 0
    notebook.toggle_autosave()
    cell = notebook.lab.edit(notebook.path, "c0", old_string="2", new_string="3")
    assert cell["saved"] is False
    assert "unsaved" in cell["note"]
    assert notebook.sources()["c0"] == "x = 3 # mine"
    assert notebook.dirty()
    assert notebook.saved()["c0"] == "x = 2 # mine"
    notebook.save()
    assert notebook.saved()["c0"] == "x = 3 # mine"


def test_output_appears_line_by_line_while_the_cell_runs(open_page: OpenPage) -> None:
    notebook = open_page([STEPS, MANY])
    notebook.wait_until_linked()
    notebook.page.evaluate(WATCH_CELL)
    run = notebook.lab.run(notebook.path, "c0", wait=0)
    for n in range(12):  # the cell continues once its line is on the screen
        shown = "".join(LINES.splitlines(keepends=True)[: n + 1]).strip()
        eventually(lambda: notebook.output_text("c0").strip(), shown.__eq__)
        (notebook.lab.root / f"seen {n}").touch()
    seen = eventually(
        lambda: notebook.page.evaluate("() => agentSeen"), lambda seen: seen[-1][0] == "[1]:"
    )
    assert [prompt for prompt, _ in seen[1:-1]] == ["[*]:"] * (len(seen) - 2)
    ended = eventually(
        lambda: notebook.lab.call("GET", f"runs/{run['run_id']}").body,
        lambda run: run["status"] not in ("queued", "running"),
    )
    assert ended["status"] == "ok"
    assert printed(notebook.outputs("c0")) == LINES
    eventually(lambda: printed(notebook.on_disk().cells[0].outputs), lambda text: text == LINES)
    for _ in range(2):
        many = notebook.lab.run(notebook.path, "c1")["outputs"]
        texts = [output.get("data", {}).get("text/plain", output.get("text")) for output in many]
        assert texts[:4] == ["0", "0\n", "1", "2"]
        assert len(texts) == 134
        assert notebook.outputs("c1") == many


HOLD_TRUST = """() => {
  const socket = agentSockets.at(-1);
  const deliver = socket.onmessage;
  window.agentHeld = null;
  socket.onmessage = event => {
    if (typeof event.data === 'string' && event.data.includes('"trust"')) {
      agentHeld = () => deliver(event);
    } else {
      deliver(event);
    }
  };
}"""


def test_a_run_that_is_trusted_after_its_first_output_is_shown_to_its_end(
    open_page: OpenPage,
) -> None:
    notebook = open_page([SLOW_LOOP])
    notebook.wait_until_linked()
    notebook.page.evaluate(HOLD_TRUST)
    notebook.lab.run(notebook.path, "c0", wait=0)
    eventually(lambda: notebook.output_text("c0"), lambda text: "line 1" in text)
    notebook.page.evaluate("() => agentHeld()")
    eventually(lambda: notebook.output_text("c0"), lambda text: text.strip() == LINES.strip())
    assert printed(notebook.outputs("c0")) == LINES


HOLD_ANSWERS = """() => {
  const socket = agentSockets.at(-1);
  const deliver = socket.onmessage;
  const held = [];
  window.agentTrusted = false;
  window.agentRelease = () => {
    delete socket.send;
    held.forEach(message => socket.send(message));
  };
  socket.onmessage = event => {
    if (typeof event.data === 'string' && event.data.includes('"trust"')) {
      socket.send = message => held.push(message);
      agentTrusted = true;
    }
    deliver(event);
  };
}"""
"""From when the page trusts the cell on, what it sends waits."""


def test_what_a_run_adds_while_a_page_trusts_its_cell_is_not_lost(open_page: OpenPage) -> None:
    notebook = open_page([SLOW_LOOP])
    notebook.wait_until_linked()
    notebook.page.evaluate(HOLD_ANSWERS)
    run = notebook.lab.run(notebook.path, "c0", wait=0)
    eventually(lambda: notebook.page.evaluate("() => agentTrusted"), bool)
    eventually(
        lambda: notebook.lab.call("GET", f"runs/{run['run_id']}").body["outputs"],
        lambda outputs: "line 2" in str(outputs),
    )
    notebook.page.evaluate("() => agentRelease()")
    eventually(lambda: notebook.output_text("c0"), lambda text: text.strip() == LINES.strip())
    assert printed(notebook.outputs("c0")) == LINES


def test_a_cell_that_the_person_runs_while_the_agent_runs_it_shows_the_persons_run(
    open_page: OpenPage,
) -> None:
    notebook = open_page([STEPS.replace("seen", "gone on")])
    notebook.wait_until_linked()
    notebook.wait_for_kernel()
    run = notebook.lab.run(notebook.path, "c0", wait=0)
    eventually(lambda: notebook.output_text("c0"), lambda text: text.strip() == "line 0")
    notebook.edit("c0")
    notebook.page.keyboard.press("Control+Enter")
    for n in range(12):  # the agent's run goes on to its end, then the person's runs through
        (notebook.lab.root / f"gone on {n}").touch()
    ended = eventually(
        lambda: notebook.lab.call("GET", f"runs/{run['run_id']}").body,
        lambda run: run["status"] not in ("queued", "running"),
    )
    assert (ended["status"], printed(ended["outputs"])) == ("ok", LINES)
    assert "The user has run the cell since" in ended["note"]
    eventually(lambda: notebook.prompt("c0"), lambda prompt: prompt == "[2]:")
    assert printed(notebook.outputs("c0")) == LINES
    assert notebook.output_text("c0").strip() == LINES.strip()


@pytest.mark.story
def test_undo_keys_take_back_only_what_the_person_typed(notebook: OpenNotebook) -> None:
    notebook.wait_until_linked()
    notebook.edit("c0")
    notebook.type(" + ONE")
    notebook.lab.edit(notebook.path, "c0", old_string="x", new_string="total")
    notebook.type(" + TWO")
    notebook.lab.edit(notebook.path, "c0", old_string="1", new_string="100")
    assert notebook.sources()["c0"] == "total = 100 + ONE + TWO"
    for _ in range(5):
        notebook.page.keyboard.press("Control+z")
    assert notebook.sources()["c0"] == "total = 100"
    for _ in range(5):
        notebook.page.keyboard.press("Control+Shift+z")
    assert notebook.sources()["c0"] == "total = 100 + ONE + TWO"


@pytest.mark.parametrize(
    "change",
    [
        lambda lab, path: lab.call("DELETE", f"notebooks/{path}/cells/h1"),
        lambda lab, path: lab.call("POST", f"notebooks/{path}/cells/h1/move", {"index": 4}),
        lambda lab, path: lab.edit(path, "h1", type="code"),
        lambda lab, path: lab.edit(path, "h1", source="No heading any more."),
        lambda lab, path: lab.edit(path, "h1", source="### Only this cell"),
    ],
    ids=["deleted", "moved", "retyped", "reworded", "lowered"],
)
def test_cells_of_a_collapsed_section_show_once_its_heading_covers_them_no_more(
    open_page: OpenPage, lab: Lab, change: Callable[[Lab, str], object]
) -> None:
    one = new_markdown_cell("# One", id="h1")
    part, two = new_markdown_cell("## Part", id="h2"), new_markdown_cell("# Two", id="h3")
    notebook = open_page([one, part, "x = 1", two, "y = 1"])
    notebook.wait_until_linked()
    notebook.cell("h1").hover()
    notebook.cell("h1").locator(".jp-collapseHeadingButton").click()
    expect(notebook.cell("h2")).to_be_hidden()
    notebook.cell("c4").click()
    change(lab, notebook.path)
    expect(notebook.cell("h2")).to_be_visible()
    expect(notebook.cell("c2")).to_be_visible()
    expect(notebook.page.get_by_text("2 cells hidden")).to_have_count(0)


def test_a_cell_that_the_agent_retypes_stays_in_the_persons_selection(
    open_page: OpenPage, lab: Lab
) -> None:
    notebook = open_page(["a = 1", "b = 2", "c = 3", "d = 4"])
    notebook.wait_until_linked()
    keys = notebook.page.keyboard
    notebook.edit("c0")
    for key in ("Escape", "Shift+ArrowDown", "Shift+ArrowDown"):
        keys.press(key)
    lab.edit(notebook.path, "c1", type="markdown")
    expect(notebook.page.locator(".jp-MarkdownCell.jp-mod-selected")).to_have_count(1)
    keys.press("Shift+ArrowDown")
    expect(notebook.page.locator(".jp-Cell.jp-mod-selected")).to_have_count(4)


def test_a_run_continues_in_a_page_that_is_reloaded_and_is_there_in_one_opened_again(
    open_page: OpenPage,
) -> None:
    notebook = open_page([SLOW_LOOP])
    notebook.wait_until_linked()

    def run_and(leave: Callable[[], None]) -> None:
        run = notebook.lab.run(notebook.path, "c0", wait=0)
        eventually(
            lambda: notebook.output_text("c0"),
            lambda text: "line 2" in text and "line 11" not in text,
        )
        leave()
        ended = eventually(
            lambda: notebook.lab.call("GET", f"runs/{run['run_id']}").body,
            lambda run: run["status"] not in ("queued", "running"),
            timeout=60,
        )
        assert (ended["status"], printed(ended["outputs"])) == ("ok", LINES)

    run_and(notebook.reload)
    eventually(lambda: printed(notebook.outputs("c0")), lambda text: text == LINES)
    eventually(lambda: printed(notebook.on_disk().cells[0].outputs), lambda text: text == LINES)
    assert notebook.page.locator(".jp-Dialog").count() == 0
    run_and(notebook.page.close)
    eventually(
        notebook.on_disk,
        lambda file: (file.cells[0].execution_count, printed(file.cells[0].outputs)) == (2, LINES),
    )
    assert notebook.lab.notebook(notebook.path)["carrier"] == "file"
    again = open_page(path=notebook.path)
    assert again.output_text("c0").strip() == LINES.strip()
    assert again.prompt("c0") == "[2]:"


def test_a_second_tab_follows_unless_it_has_work_of_its_own(open_page: OpenPage) -> None:
    first = open_page()
    first.wait_for_kernel()
    first.save()
    second = open_page(path=first.path)
    first.wait_until_linked()
    first.page.bring_to_front()
    first.edit("c1")
    assert not second.dirty()
    first.lab.edit(first.path, "c0", old_string="1", new_string="2")
    for tab in (first, second):
        eventually(lambda tab=tab: tab.shown()["c0"], lambda text: text == "x = 2")  # type: ignore[misc]
    second.page.bring_to_front()
    second.edit("c1")
    second.type("  # unsaved here")
    first.page.bring_to_front()
    first.edit("c1", at=0)
    answer = eventually(
        lambda: first.lab.edit(first.path, "c0", source=None, old_string="x", new_string="xx"),
        lambda cell: cell["saved"],
    )
    assert answer["source"] == "xx = 2"
    assert second.sources()["c1"] == "print('x is', x)  # unsaved here"
    assert second.page.locator(".jp-Dialog").count() == 0


def test_what_is_typed_while_the_tab_saves_stays_marked_as_unsaved(notebook: OpenNotebook) -> None:
    notebook.wait_until_linked()
    notebook.edit("c1")

    def type_before_the_answer(route: Route) -> None:
        if route.request.method == "PUT":
            response = route.fetch()
            notebook.type("!")
            route.fulfill(response=response)
        else:
            route.continue_()

    notebook.page.route("**/api/contents/**", type_before_the_answer)
    notebook.save()
    notebook.page.unroute("**/api/contents/**")
    assert notebook.sources()["c1"].endswith("!")
    assert notebook.dirty()


class HeldSave:
    """Keeps the answer to a save from the tab: the file is written, the tab does not know."""

    def __init__(self, notebook: OpenNotebook) -> None:
        self._held: list[tuple[Route, APIResponse]] = []
        self._notebook = notebook
        notebook.page.route("**/api/contents/**", self._take)

    def wait(self) -> None:
        eventually(self.pump, bool)

    def let_go(self) -> None:
        route, response = self._held[0]
        route.fulfill(response=response)
        self._notebook.page.unroute("**/api/contents/**")

    def pump(self) -> bool:
        """Whether there is one yet."""
        self._notebook.page.wait_for_timeout(10)  # lets playwright call `_take`
        return bool(self._held)

    def _take(self, route: Route) -> None:
        if route.request.method == "PUT" and not self._held:
            self._held.append((route, route.fetch()))
        else:
            route.continue_()


def test_the_agent_saves_after_a_save_of_the_person(notebook: OpenNotebook) -> None:
    notebook.wait_until_linked()
    notebook.edit("c1")
    notebook.type("  # mine")
    save = HeldSave(notebook)
    notebook.page.keyboard.press("Control+s")
    save.wait()
    with ThreadPoolExecutor() as threads:
        edit = threads.submit(
            notebook.lab.edit, notebook.path, "c0", old_string="1", new_string="2"
        )
        eventually(notebook.sources, lambda cells: cells["c0"] == "x = 2")
        notebook.page.wait_for_timeout(300)  # time enough for a second save to go wrong
        assert notebook.page.locator(".jp-Dialog").count() == 0
        save.let_go()
        eventually(lambda: save.pump() and edit.done(), bool)
    assert edit.result()["saved"] is True
    assert notebook.saved()["c0"] == "x = 2"


def test_a_save_whose_answer_a_frozen_page_never_heard_is_not_taken_for_somebody_elses(
    notebook: OpenNotebook,
) -> None:
    notebook.wait_until_linked()
    saves = []

    def lose_the_first_answer(route: Route) -> None:
        if route.request.method == "PUT":
            saves.append(route.request)
        if len(saves) == 1 and route.request.method == "PUT":
            route.fetch()  # it arrives; nothing of its answer does
        else:
            route.continue_()

    notebook.page.route("**/api/contents/**", lose_the_first_answer)
    notebook.edit("c0")
    notebook.type("0")
    notebook.page.evaluate(
        "path => void agentTest.panel(path).context.save()",
        notebook.path,
    )
    eventually(lambda: (notebook.sources(), notebook.saved()["c0"])[1], lambda now: now == "x = 10")
    notebook.page.evaluate("""() => {
        for (const type of ['freeze', 'resume']) document.dispatchEvent(new Event(type));
    }""")
    eventually(lambda: (notebook.sources(), len(saves))[1], lambda number: number == 2)
    notebook.page.wait_for_function(
        "path => !agentTest.panel(path).context.model.dirty", arg=notebook.path
    )
    assert notebook.dialogs() == []
