"""People who enter a cell and type at the very moment the agent takes that cell away.

The agent works over REST; each person has real keys, in their own page. A page's connections to the
server can be slow, or cut at the very frame that brings the edit, and the page can be busy for
longer than the server waits.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from tests.ui.lab import Answer, Lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

TIMEOUT = 0.6
"""Seconds that the server is set to wait for a page here."""
FROZEN = 1200
"""Milliseconds for which a page is frozen, so that it passes that time."""
CELLS = 6
LETTERS = "EGNPQTUW"
"""In JupyterLab's command mode these do nothing."""

Kind = Literal["delete", "move", "retype", "rewrite"]
Fault = Literal["before", "after", "swallow"]

SLOW_LINES = """
(() => {
  const wire = (window.agentWire = { delay: 0, fault: null, cuts: 0 });
  const isEdit = (data, inRoom) => {
    if (typeof data === 'string') {
      return data.includes('"op": "edit"');
    }
    const [message, kind] = new Uint8Array(data);
    return !inRoom || (message === 0 && kind === 2);
  };
  const later = (queue, work) => {
    if (!wire.delay && !queue.length) {
      work();
    } else {
      queue.push(work);
      setTimeout(() => queue.shift()?.(), wire.delay);
    }
  };
  window.WebSocket = class extends WebSocket {
    constructor(url, protocols) {
      super(url, protocols);
      const inRoom = String(url).includes('api/collaboration/room');
      if (!inRoom && !String(url).includes('api/agent/tab')) {
        return;
      }
      const incoming = [];
      const outgoing = [];
      let deliver = null;
      let deaf = false;
      let mute = false;
      Object.defineProperty(this, 'onmessage', {
        get: () => deliver,
        set: handler => (deliver = handler)
      });
      const take = event => {
        const { fault } = wire;
        if (isEdit(event.data, inRoom) || String(event.data).includes('takeback')) {
          wire.note?.(typeof event.data === 'string' ? event.data : 'update');
        }
        if (deaf) {
          return;
        }
        if (!fault || !isEdit(event.data, inRoom)) {
          deliver?.(event);
          return;
        }
        wire.fault = null;
        wire.cuts++;
        mute = fault === 'swallow';
        if (fault !== 'before') {
          deliver?.(event);
        }
        deaf = true;
        setTimeout(() => this.close());
      };
      this.addEventListener('message', event => later(incoming, () => take(event)));
      this.addEventListener('close', () => {
        deaf = mute = true;
      });
      this.send = data =>
        later(outgoing, () => {
          if (!mute) {
            super.send(data);
          }
        });
    }
  };
})();
"""
"""Connections with latency (`agentWire.delay`, milliseconds each way), which can be cut once, at
the next frame that changes the document: `before` it arrives, `after` it, or after it with the
page's answers swallowed."""

WATCH_ENTERING = """
(() => {
  const race = (window.agentRace = { entered: null, trace: [] });
  const note = what => {
    const { activeCell, mode } = agentTest.notebook(path);
    race.trace.push(`${Math.round(performance.now())} ${what} [${activeCell?.model.id} ${mode}]`);
  };
  agentWire.note = note;
  document.addEventListener('keydown', ({ key }) => note(key), true);
  document.addEventListener('focusout', () => note('out'), true);
  document.addEventListener(
    'focusin',
    ({ target }) => {
      const cell = agentTest
        .notebook(path)
        .widgets.find(({ editor }) => editor?.editor.contentDOM === target);
      race.entered ??= cell?.model.id ?? null;
      note(`in ${cell?.model.id ?? target.className}`);
    },
    true
  );
})()
"""

CELLS_OF = """
agentTest.cells(path).map(cell => [cell.id, [cell.type, cell.sharedModel.getSource()]])
"""


@dataclass
class Figures:
    """The outcome of the words of a race, each with its round."""

    rounds: int = 0
    words: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    """The agent's edits, by kind and HTTP status."""
    torn: list[str] = field(default_factory=list)
    """Words that are not whole in the cell that the person had entered."""
    focus_lost: list[str] = field(default_factory=list)
    jumped: list[str] = field(default_factory=list)
    """The cursor was not behind the word."""
    told_otherwise: list[str] = field(default_factory=list)
    """The agent's answer does not match the notebook."""
    differing: list[str] = field(default_factory=list)
    """The page and the server differ."""
    cuts: int = 0
    freezes: int = 0

    @property
    def wrong(self) -> list[str]:
        return [
            *self.torn, *self.focus_lost, *self.jumped, *self.told_otherwise, *self.differing
        ]  # fmt: skip

    def __str__(self) -> str:
        counts = {
            "torn or lost": self.torn,
            "focus lost": self.focus_lost,
            "cursor jumped": self.jumped,
            "told otherwise": self.told_otherwise,
            "page != server": self.differing,
        }
        figures = ", ".join(f"{name} {len(found)}" for name, found in counts.items())
        asked = ", ".join(f"{what} {count}" for what, count in sorted(self.asked.items()))
        return (
            f"{self.words} words in {self.rounds} rounds: {figures}\n"
            f"cuts {self.cuts}, freezes {self.freezes}; {asked}\n" + "\n".join(self.wrong)
        )


class Typist:
    """A person with a page that was opened with `SLOW_LINES`."""

    def __init__(self, notebook: OpenNotebook) -> None:
        self.notebook = notebook
        self.evaluate(WATCH_ENTERING)

    def evaluate(self, expression: str, **values: Any) -> Any:
        return self.notebook.page.evaluate(
            f"({{path, id, line}}) => {expression}", {"path": self.notebook.path, **values}
        )

    def cells(self) -> dict[str, list[str]]:
        """Type and text by id, in order."""
        return dict(self.evaluate(CELLS_OF))

    def leave(self, cell_id: str) -> None:
        """Be in command mode, on that cell."""
        self.evaluate(
            """(() => {
                const notebook = agentTest.notebook(path);
                notebook.mode = 'command';
                const at = notebook.widgets.findIndex(cell => cell.model.id === id);
                notebook.activeCellIndex = at;
                notebook.activate();
            })()""",
            id=cell_id,
        )

    def line(self, delay: int, fault: Fault | None) -> None:
        """Set the properties of the connection from now on; no one has entered a cell yet."""
        self.evaluate(
            "(() => { Object.assign(agentWire, line);"
            " Object.assign(agentRace, { entered: null, trace: [] }); })()",
            line={"delay": delay, "fault": fault},
        )

    def freeze(self, milliseconds: int, after: float) -> None:
        """Be busy for some time, starting in this many milliseconds."""
        self.evaluate(
            "void setTimeout(() => { const end = performance.now() + line.freeze;"
            " while (performance.now() < end); }, line.after)",
            line={"freeze": milliseconds, "after": after},
        )

    def enter(self, cell_id: str, how: str) -> None:
        """Click into the cell, or press Enter on the active one."""
        if how == "Enter":
            self.notebook.page.keyboard.press("Enter")
            return
        place = self.evaluate(
            """(() => {
                const content = agentTest.widget(path, id)?.editor?.editor.contentDOM;
                const box = content?.querySelector('.cm-line').getBoundingClientRect();
                return box?.width ? [box.x + 20, box.y + box.height / 2] : null;
            })()""",
            id=cell_id,
        )
        if place is not None:
            self.notebook.page.mouse.click(*place)

    def entered(self) -> str | None:
        """The cell that they entered, or None, as when it was gone or shown as text before."""
        found: str | None = self.evaluate("agentRace.entered")
        return found

    def cuts(self) -> int:
        """How often the line was cut since the last time; it is not cut any more."""
        count: int = self.evaluate(
            "[agentWire.cuts, (agentWire.cuts = 0), (agentWire.fault = null)][0]"
        )
        return count


class Race:
    """Rounds in one notebook that is open in one or more pages."""

    def __init__(self, seed: int, *notebooks: OpenNotebook, carrier: str = "tab") -> None:
        self.figures = Figures()
        self._typists = [Typist(notebook) for notebook in notebooks]
        self._lab: Lab = notebooks[0].lab
        self._path = quote(notebooks[0].path)
        self._carrier = carrier
        self._random = random.Random(seed)
        self._number = 0

    def run(self, words: int) -> Figures:
        """Rounds until so many words were typed in a race."""
        with ThreadPoolExecutor(1) as agent:
            while self.figures.words < words:
                self.round(agent)
        return self.figures

    def round(self, agent: ThreadPoolExecutor) -> None:
        choose = self._random
        self.figures.rounds += 1
        before = self._filled_up()
        cell_id = choose.choice(list(before))
        kind: Kind = choose.choice(("delete", "move", "retype", "rewrite"))
        delay = choose.choice((0, 60))
        fault: Fault | None = choose.choices(
            (None, "before", "after", "swallow"), weights=(85, 5, 5, 5)
        )[0]
        freeze = choose.choices((0, 150, FROZEN), weights=(80, 8, 12))[0]
        entering = choose.choice(("click", "Enter"))
        words = [self._word() for _ in self._typists]
        for typist in self._typists:
            typist.leave(cell_id if entering == "Enter" else choose.choice(list(before)))
            typist.line(delay, fault)
        if freeze:
            choose.choice(self._typists).freeze(freeze, choose.uniform(0, 200))
        act, expected = self._edit(kind, cell_id, before)
        work = agent.submit(self._after, choose.uniform(0, 0.1), act)
        time.sleep(choose.uniform(0, choose.choice((0.1, 0.5)) + 0.003 * delay))
        for typist in self._typists:
            typist.enter(cell_id, entering)
        for keys in zip(*words, strict=True):
            for typist, key in zip(self._typists, keys, strict=True):
                typist.notebook.page.keyboard.press(key)
            time.sleep(choose.choice((0, 0, 0.005, 0.02, 0.04)))
        where = (
            f"round {self.figures.rounds}: {kind} {cell_id} by {entering}, {delay} ms, "
            f"fault {fault}, freeze {freeze}"
        )
        self.figures.freezes += freeze == FROZEN
        self._look_at_words(words, where, work)
        self._look_at_the_rest(kind, cell_id, before, expected, work.result(), where)

    def _filled_up(self) -> dict[str, list[str]]:
        """The cells, with new ones for those that were deleted."""
        typist = self._typists[0]
        while len(cells := typist.cells()) < CELLS:
            self._number += 1
            self._call("POST", "cells", {"source": f"x{self._number} = 0\ny = 1", "index": 1})
            for each in self._typists:
                eventually(lambda each=each: len(each.cells()), len(cells).__lt__)  # type: ignore[misc]
        return cells

    def _word(self) -> str:
        """Letters that are in no other word in this order."""
        self._number += 1
        number = "".join(LETTERS[int(digit, 8)] for digit in f"{self._number:04o}")
        return "W" + number + "".join(self._random.choices(LETTERS[:-1], k=5)) + "W"

    # ---- the agent

    def _edit(
        self, kind: Kind, cell_id: str, before: dict[str, list[str]]
    ) -> tuple[Callable[[], Answer], dict[str, str]]:
        """The request for an edit, and type by id of all cells in order once it is done."""
        types = {key: type for key, (type, _) in before.items()}
        cell = f"cells/{cell_id}"
        if kind == "delete":
            del types[cell_id]
            return lambda: self._call("DELETE", cell), types
        if kind == "move":
            ids = [key for key in types if key != cell_id]
            index = self._random.randrange(len(types))
            ids.insert(index, cell_id)
            body = {"index": index}
            moved = {key: types[key] for key in ids}
            return lambda: self._call("POST", f"{cell}/move", body), moved
        types[cell_id] = "markdown" if types[cell_id] == "code" else "code"
        change = {"type": types[cell_id]}
        if kind == "rewrite":
            change |= {"old_string": "y = ", "new_string": "y = 1"}
        return lambda: self._call("PATCH", cell, change), types

    def _after(self, pause: float, act: Callable[[], Answer]) -> Answer:
        time.sleep(pause)
        return act()

    def _call(self, method: str, what: str, body: Any = None) -> Answer:
        return self._lab.call(method, f"notebooks/{self._path}/{what}", body)

    # ---- the outcome

    def _look_at_words(self, words: list[str], where: str, work: Future[Answer]) -> None:
        work.result()
        self._settle()
        for typist, word in zip(self._typists, words, strict=True):
            if (entered := typist.entered()) is None:
                continue
            self.figures.words += 1
            cells = typist.cells()
            text = cells[entered][1] if entered in cells else None
            everything = "".join(source for _, source in cells.values())
            if text is None or text.count(word) != 1 or everything.count(word) != 1:
                what = f"{word} typed into {entered} is torn: {cells}"
                trace = "\n  ".join([str(work.result()), *typist.evaluate("agentRace.trace")])
                self.figures.torn.append(f"{where}: {what}\n  {trace}")
            elif (cursor := typist.notebook.cursor()) is None:
                self.figures.focus_lost.append(f"{where}: {word} is whole, the focus is lost")
            elif cursor != (entered, text.index(word) + len(word)):
                self.figures.jumped.append(f"{where}: {word} is whole, the cursor is at {cursor}")

    def _look_at_the_rest(
        self,
        kind: Kind,
        cell_id: str,
        before: dict[str, list[str]],
        expected: dict[str, str],
        answer: Answer,
        where: str,
    ) -> None:
        self.figures.asked[f"{kind} {answer.status}"] += 1
        for typist in self._typists:
            typist.leave(cell_id)  # they have typed what they wanted to
        self._settle()
        self.figures.cuts += sum(typist.cuts() for typist in self._typists)
        former = {key: type for key, (type, _) in before.items()}
        wanted = {2: [expected], 4: [former]}.get(answer.status // 100, [former, expected])
        if not self._becomes([list(one.items()) for one in wanted], before):
            types = self._typists[0].cells()
            self.figures.told_otherwise.append(f"{where}: told {answer}, is {types}")
        cells, seen = self._typists[0].cells(), self._seen()
        if any(typist.cells() != seen for typist in self._typists):
            self.figures.differing.append(f"{where}: page {cells}, server {seen}")

    def _becomes(self, wanted: list[list[tuple[str, str]]], before: dict[str, list[str]]) -> bool:
        """Whether the cells are soon as one of those: a page that was late takes an edit back once
        the person has left the cell. A cell that was there neither before nor afterwards is the
        person's: the cells moved up, and they clicked on "Click to add a cell".
        """
        known = before.keys() | {key for one in wanted for key, _ in one}
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            cells = self._typists[0].cells()
            if [(key, type) for key, (type, _) in cells.items() if key in known] in wanted:
                return True
            self._typists[0].notebook.page.wait_for_timeout(20)
        return False

    def _settle(self) -> None:
        """Wait until each page is linked and all have the others' changes."""
        for typist in self._typists:
            typist.evaluate("agentWire.delay = 0")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            seen = self._seen()
            if all(typist.cells() == seen for typist in self._typists):
                return
            self._typists[0].notebook.page.wait_for_timeout(20)

    def _seen(self) -> Any:
        answer = self._lab.call("GET", f"notebooks/{self._path}")
        if answer.status != 200 or answer.body["carrier"] != self._carrier:
            return answer
        return {cell["id"]: [cell["type"], cell["source"]] for cell in answer.body["cells"]}
