"""A person types in a notebook while the agent edits it: random interleavings with real keys.

The person writes words of capital letters, the agent everything else, so that both can be
distinguished in the result whatever the order was.
"""

from __future__ import annotations

import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from string import ascii_uppercase
from typing import Any
from urllib.parse import quote

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from playwright.sync_api import BrowserContext, Route, expect

from tests.ui.conftest import OpenPage, new_file
from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

CELLS = 4
LINES = 5


def cell_text(number: int) -> str:
    return "\n".join(f"v{number}{line} = 0" for line in range(LINES))


class Person:
    """Types words that occur nowhere else, at random places, at random speed."""

    def __init__(self, notebook: OpenNotebook, random: random.Random) -> None:
        self.notebook = notebook
        self._random = random
        self._words = count(1)
        self.written: dict[str, list[str]] = {}
        """The words in each cell."""

    def type_a_word(self) -> tuple[str, str]:
        """The cell and the word."""
        cell_id = f"c{self._random.randrange(CELLS)}"
        word = self._word()
        line, end = self._random.randrange(LINES), self._random.choice((False, True))
        self.notebook.edit_line(cell_id, line, end=end)  # the agent changes text there too
        for key in word:
            self.notebook.type(key)
            time.sleep(self._random.choice((0, 0, 0.005, 0.02)))
        self.written.setdefault(cell_id, []).append(word)
        return cell_id, word

    def _word(self) -> str:
        """Two letters that repeat in no other word as they do in this, and a number in letters."""
        number = "".join(ascii_uppercase[int(digit)] for digit in f"{next(self._words):03d}")
        return f"Q{number}" + "".join(self._random.choices("TUVWXY", k=6)) + "Z"


class Agent:
    """Changes the notebook over HTTP and knows its expected content."""

    def __init__(self, lab: Lab, path: str, random: random.Random) -> None:
        self._lab = lab
        self._path = path
        self._random = random
        self._numbers = count(1)
        self.texts = {f"c{number}": cell_text(number) for number in range(CELLS)}
        """Each cell without what the person typed."""
        self.refused = 0
        self._own: list[str] = []

    def work(self) -> None:
        """A few changes one after the other."""
        for _ in range(self._random.randint(1, 4)):
            time.sleep(self._random.choice((0, 0.01, 0.05)))
            self._random.choices(
                (self._replace, self._rewrite, self._insert, self._delete, self._move),
                weights=(5, 2, 1, 1, 1),
            )[0]()

    def _replace(self) -> None:
        cell_id = self._random.choice(list(self.texts))
        line = self._random.choice(self.texts[cell_id].splitlines())
        written = f"{line.split(' = ')[0]} = {next(self._numbers)}"
        self._edit(cell_id, line, written, {"old_string": line, "new_string": written})

    def _rewrite(self) -> None:
        """Reads the cell, thinks, and writes it as a whole."""
        cell_id = self._random.choice(list(self.texts))
        call = {"notebook": self._path, "mode": "auto", "conversation_id": "rewrites"}
        read = {"cell_ids": [cell_id]}
        self._lab.call("POST", "tools/read_cells", {**call, "input": read})
        seen = self._lab.call("GET", f"notebooks/{quote(self._path)}/cells/{cell_id}").body
        time.sleep(self._random.choice((0, 0.05)))
        line = self._random.choice(self.texts[cell_id].splitlines())
        written = f"{line.split(' = ')[0]} = {next(self._numbers)}"
        if seen["source"].count(line) != 1:
            return
        source = seen["source"].replace(line, written)
        answer = self._lab.call(
            "POST",
            "tools/update_cell",
            {**call, "input": {"cell_id": cell_id, "source": source}},
        )
        if answer.body["is_error"]:
            self.refused += 1
        else:
            self.texts[cell_id] = self.texts[cell_id].replace(line, written)

    def _insert(self) -> None:
        source = f"n{next(self._numbers)} = 0"
        answer = self._call("POST", "cells", {"source": source, "index": self._random.randrange(4)})
        assert answer.status == 201, answer
        self.texts[answer.body["id"]] = source
        self._own.append(answer.body["id"])

    def _delete(self) -> None:
        if self._own:
            cell_id = self._own.pop()
            assert self._call("DELETE", f"cells/{cell_id}").status == 204
            del self.texts[cell_id]

    def _move(self) -> None:
        cell_id = self._random.choice(list(self.texts))
        index = self._random.randrange(len(self.texts))
        assert self._call("POST", f"cells/{cell_id}/move", {"index": index}).status == 200

    def _edit(self, cell_id: str, old: str, new: str, body: dict[str, str]) -> None:
        answer = self._call("PATCH", f"cells/{cell_id}", body)
        if answer.status == 200:
            self.texts[cell_id] = self.texts[cell_id].replace(old, new)
        else:  # the line was not there as it was: the person typed into it
            assert answer.status == 409, answer
            self.refused += 1

    def _call(self, method: str, what: str, body: Any = None) -> Any:
        return self._lab.call(method, f"notebooks/{quote(self._path)}/{what}", body)


def nothing_is_lost(notebook: OpenNotebook, person: Person, agent: Agent) -> None:
    """Each word is there once and in one piece, and the rest is what the agent wrote."""
    sources = notebook.sources()
    assert sources.keys() == agent.texts.keys()
    for cell_id, source in sources.items():
        for word in person.written.get(cell_id, []):
            assert source.count(word) == 1, (word, source)
            source = source.replace(word, "")
        assert source == agent.texts[cell_id], cell_id


def the_cursor_is_after(notebook: OpenNotebook, cell_id: str, word: str) -> None:
    source = notebook.sources()[cell_id]
    assert notebook.cursor() == (cell_id, source.index(word) + len(word))


@pytest.mark.story
@pytest.mark.parametrize(
    "rounds",
    [
        12,
        pytest.param(25, marks=pytest.mark.full),
        pytest.param(500, marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_and_the_cursor_stays(open_page: OpenPage, seed: int, rounds: int) -> None:
    notebook = open_page([cell_text(number) for number in range(CELLS)])
    notebook.wait_until_linked()
    person = Person(notebook, random.Random(seed))
    agent = Agent(notebook.lab, notebook.path, random.Random(seed + 1))
    with ThreadPoolExecutor(1) as thread:
        for _ in range(rounds):
            work = thread.submit(agent.work)
            cell_id, word = person.type_a_word()
            work.result()
            nothing_is_lost(notebook, person, agent)
            the_cursor_is_after(notebook, cell_id, word)
    eventually(notebook.shown, lambda shown: shown == notebook.sources())
    seen = notebook.lab.notebook(notebook.path)["cells"]
    assert {cell["id"]: cell["source"] for cell in seen} == notebook.sources()
    assert sum(map(len, person.written.values())) == rounds
    assert agent.refused < rounds / 2
    assert notebook.page.locator(".jp-Dialog").count() == 0


REPLACE_ALL = """
({path, cells}) => {
  agentTest.replacing = true;
  const replace = async ({id, old, written}) => {
    const cell = agentTest.cells(path).find(cell => cell.id === id).sharedModel;
    while (agentTest.replacing) {
      const read = cell.getSource();
      await new Promise(done => setTimeout(done, 30));
      cell.setSource(read.replace(old, written));
    }
  };
  agentTest.replaced = Promise.all(cells.map(replace));
}
"""
"""Read a source, think, and write it as a whole, as other agents do."""


def test_the_same_check_fails_where_whole_sources_are_replaced(
    open_page: OpenPage, seed: int
) -> None:
    notebook = open_page([cell_text(number) for number in range(CELLS)])
    person = Person(notebook, random.Random(seed))
    agent = Agent(notebook.lab, notebook.path, random.Random(seed + 1))

    def rounds() -> None:
        for number in range(5):
            written = f"v = {number}"
            cells = [
                {"id": cell_id, "old": text.splitlines()[0], "written": written}
                for cell_id, text in agent.texts.items()
            ]
            notebook.page.evaluate(REPLACE_ALL, {"path": notebook.path, "cells": cells})
            for cell in cells:
                text = agent.texts[cell["id"]]
                agent.texts[cell["id"]] = text.replace(cell["old"], written)
            cell_id, word = person.type_a_word()
            notebook.page.evaluate("agentTest.replacing = false; agentTest.replaced")
            nothing_is_lost(notebook, person, agent)
            the_cursor_is_after(notebook, cell_id, word)

    with pytest.raises(AssertionError):
        rounds()


HOLD_FRAMES = """
(() => {
  const held = [];
  window.agentHoldFrames = false;
  for (const name of ['requestAnimationFrame', 'requestIdleCallback']) {
    const soon = window[name].bind(window);
    window[name] = (work, options) =>
      window.agentHoldFrames ? held.push(() => soon(work, options)) : soon(work, options);
  }
  window.agentReleaseFrames = () => {
    window.agentHoldFrames = false;
    held.splice(0).forEach(resume => resume());
  };
})();
"""
"""A page that is too busy to draw: what JupyterLab does in the next frame comes much later."""
FRAMES = """async () => {
  for (let frame = 0; frame < 6; frame++) {
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
}"""


@pytest.mark.parametrize("type", ["markdown", "raw"])
def test_a_cell_that_was_retyped_takes_keys_before_the_page_has_drawn_it(
    context: BrowserContext, open_page: OpenPage, type: str
) -> None:
    context.add_init_script(HOLD_FRAMES)
    notebook = open_page()
    notebook.wait_until_linked()
    notebook.edit("c0")
    notebook.page.keyboard.press("Escape")
    notebook.page.evaluate("agentHoldFrames = true")
    notebook.lab.edit(notebook.path, "c0", type=type)
    notebook.page.keyboard.press("Enter")
    notebook.type("WORD")
    notebook.page.evaluate("agentReleaseFrames()")
    assert notebook.sources()["c0"] in ("WORDx = 1", "x = 1WORD")
    assert notebook.cursor() == ("c0", notebook.sources()["c0"].index("D") + 1)


def test_a_completion_replaces_no_text_that_an_edit_has_moved(open_page: OpenPage) -> None:
    above = "alpha_one = 1\nalpha_two = 2\nprint(1)\n\n\n"
    notebook = open_page(cells=[f"{above}last = 3\nfinal = 4"])
    notebook.wait_for_kernel()
    notebook.wait_until_linked()
    notebook.edit_line("c0", 3, end=True)
    notebook.type("alph")
    notebook.page.keyboard.press("Tab")
    completions = notebook.page.locator(".jp-Completer:not(.lm-mod-hidden)")
    expect(completions).to_be_visible()
    notebook.lab.edit(notebook.path, "c0", old_string="final = 4", new_string="final = 4\nmore = 5")
    expect(completions).to_have_count(0)
    notebook.type("a_one")
    assert notebook.sources()["c0"].endswith("print(1)\nalpha_one\n\nlast = 3\nfinal = 4\nmore = 5")


@pytest.mark.story
def test_a_panel_that_is_ready_late_takes_no_key_from_the_cell_that_was_clicked_meanwhile(
    context: BrowserContext, open_page: OpenPage
) -> None:
    context.add_init_script(HOLD_FRAMES)
    notebook = open_page()
    page = notebook.page
    loads: list[Route] = []
    page.route(re.compile("/extensions/jupyter-agent/static/"), lambda route: loads.append(route))
    page.keyboard.press("Control+Alt+g")
    eventually(lambda: page.wait_for_timeout(20) or loads, bool)
    notebook.edit("c0")
    notebook.type(" # wor")
    page.unroute_all()  # they continue
    message = Panel(page).message
    expect(message).to_be_visible()
    notebook.type("ds")
    box = notebook.cell("c1").locator(".cm-line").bounding_box()
    assert box
    page.evaluate("agentHoldFrames = true")
    page.keyboard.press("Control+Alt+g")
    page.wait_for_function("document.activeElement.matches('.jp-Agent *')", polling=50)
    page.mouse.click(box["x"] + box["width"] - 5, box["y"] + 5)
    notebook.type(" # mo")
    page.evaluate("agentReleaseFrames()")
    expect(message).to_be_visible()
    page.evaluate(FRAMES)
    notebook.type("re")
    assert notebook.sources() == {"c0": "x = 1 # words", "c1": "print('x is', x) # more"}
    assert message.input_value() == ""


WINDOWS = "p = 1\r\nq = 2\r\nr = 3"
LINUX = WINDOWS.replace("\r\n", "\n")
PASTE = """([path, id, text]) => {
  const data = new DataTransfer();
  data.setData('text/plain', text);
  const { contentDOM } = agentTest.view(path, id);
  contentDOM.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }));
}"""


def windows_file(lab: Lab, name: str) -> str:
    """A notebook of which `c4` and `c5` have the lines of Windows, and no other cell has a line."""
    return new_file(lab, name, [*["p = 1"] * 4, WINDOWS.replace("1", "0"), WINDOWS, ""])


def write_windows_lines(notebook: OpenNotebook) -> None:
    """Through every entry point, into all cells but one that has them, and into new ones."""
    lab, path = notebook.lab, notebook.path
    call = {"notebook": path, "mode": "auto", "conversation_id": path}

    def use(tool: str, **given: Any) -> None:
        answer = lab.call("POST", f"tools/{tool}", {**call, "input": given})
        assert answer.body["is_error"] is False, answer

    lab.edit(path, "c0", source=WINDOWS)
    lab.edit(path, "c1", old_string="1", new_string="1\r\nq = 2\r\nr = 3")
    use("read_cells", cell_ids=["c2"])
    use("update_cell", cell_id="c2", source=WINDOWS)
    use("update_cell", cell_id="c3", old_string="p = 1", new_string=WINDOWS)
    use("create_cell", source=WINDOWS)
    answer = lab.call("POST", f"notebooks/{quote(path)}/cells", {"source": WINDOWS})
    assert answer.status == 201, answer
    lab.edit(path, "c4", old_string="p = 0\nq", new_string="p = 1\r\nq")
    notebook.edit("c6")
    notebook.page.evaluate(PASTE, [path, "c6", WINDOWS])


def is_stored_as_it_is_shown(notebook: OpenNotebook) -> None:
    """The positions at the end of each line of each cell, where someone types."""
    lines = LINUX.split("\n")
    eventually(lambda: set(notebook.sources().values()), {LINUX}.__eq__)
    for cell_id in notebook.ids():
        for number in (2, 0, 1):
            notebook.edit_line(cell_id, number, end=True)
            notebook.type("45")
    typed = dict.fromkeys(notebook.ids(), "\n".join(f"{line}45" for line in lines))
    assert notebook.sources() == typed
    assert notebook.shown() == typed
    notebook.save()
    eventually(notebook.saved, typed.__eq__)
    assert notebook.dialogs() == []


def test_windows_lines_are_stored_as_they_are_shown(
    open_page: OpenPage, lab: Lab, request: pytest.FixtureRequest
) -> None:
    path = windows_file(lab, request.node.name)
    lab.edit(path, "c4", old_string="= 2\nr", new_string="= 2\r\nr = 3\r\nr")
    edited = WINDOWS.replace("1", "0").replace("r", "r = 3\r\nr")
    read = nbformat.read(lab.root / path, as_version=4)
    assert [cell.source for cell in read.cells] == ["p = 1"] * 4 + [edited, WINDOWS, ""]
    lab.edit(path, "c4", old_string="r = 3\n", new_string="")
    notebook = open_page(path=path)
    notebook.wait_until_linked()
    write_windows_lines(notebook)
    notebook.save()
    content = notebook.on_disk()
    content.cells.append(new_code_cell(WINDOWS, id="outside"))
    content.cells[0].source = WINDOWS
    nbformat.write(content, lab.root / notebook.path)
    notebook.save()
    is_stored_as_it_is_shown(notebook)
    for _ in range(6):
        notebook.page.keyboard.press("Control+z")
    assert notebook.sources()[notebook.ids()[-1]] == LINUX
    notebook.wait_for_kernel()
    notebook.save()
    content = notebook.on_disk()
    content.cells[0].source = WINDOWS
    nbformat.write(content, lab.root / path)
    before = (lab.root / path).read_bytes()
    notebook.reload()
    notebook.wait_for_kernel()
    assert notebook.shown()["c0"] == LINUX
    assert not notebook.dirty()
    assert (lab.root / path).read_bytes() == before
