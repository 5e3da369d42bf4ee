"""People, an agent, other programs and bad luck in one notebook, with a log of what each of them
did and was told. What has to be there at the end `tests/history/checker.py` decides from the log.

Each word that anybody writes occurs once in the world. People have real keys in real pages, the
agent works over HTTP beside them. No call here waits for a question of JupyterLab: it is noted and
answered by a rule, and what was typed while it was there counts as perhaps typed.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from playwright.sync_api import Error as PageError
from playwright.sync_api import Route

from jupyter_agent.testing import calls, says
from tests.history.checker import (
    TOKEN,
    Cell,
    Did,
    Edit,
    End,
    Event,
    Fault,
    Moved,
    Outcome,
    Question,
    Told,
    Typed,
    Wrote,
    faults,
    tokens,
)
from tests.ui.lab import Answer, Lab, Replies
from tests.ui.page import HELPERS, OpenNotebook

LONG = 3.0
"""Seconds after which the server takes a tab for closed."""
MOST_CELLS = 9
FILE_CHANGED = "File Changed"

LINES = """
(() => {
  window.agentLines = [];
  window.agentOffline = false;
  const isOurs = url => /api\\/agent\\/tab|api\\/collaboration/.test(String(url));
  window.WebSocket = class extends WebSocket {
    constructor(url, protocols) {
      super(isOurs(url) && window.agentOffline ? 'ws://127.0.0.1:65534/' : url, protocols);
      if (isOurs(url)) {
        window.agentLines.push(this);
      }
    }
  };
})();
"""
"""Connections that can be cut and refused."""

RECORD = """
path => {
  const doc = agentTest.notebook(path).model.sharedModel.ydoc;
  if (window.agentRecorded === doc) {
    return;
  }
  window.agentRecorded = doc;
  window.agentRecords = [];
  const count = () => {
    const found = new Map();
    for (const cell of doc.getArray('cells').toArray()) {
      for (const token of String(cell.get('source')).match(/W[EGNQTU]{6}W/g) ?? []) {
        const key = `${token} ${cell.get('id')}`;
        found.set(key, (found.get(key) ?? 0) + 1);
      }
    }
    return found;
  };
  let last = count();
  doc.on('afterTransaction', transaction => {
    if (!transaction.changed.size) {
      return;
    }
    const now = count();
    for (const key of new Set([...last.keys(), ...now.keys()])) {
      const by = (now.get(key) ?? 0) - (last.get(key) ?? 0);
      if (by) {
        const [token, cell] = key.split(' ');
        const at = Date.now() / 1000;
        agentRecords.push({ at, own: transaction.local, token, cell, by });
      }
    }
    last = now;
  });
}
"""
"""Notes each word that comes and goes, and whether the page itself or somebody else did it."""

CONFLICTS = """
() => Object.entries(localStorage)
  .filter(([key]) => key.startsWith('jupyter-agent:conflicts'))
  .flatMap(([, value]) => JSON.parse(value))
"""

CELLS = "agentTest.cells(path).map(c => [c.id, c.type, c.sharedModel.getSource()])"


def words() -> Iterator[str]:
    """Words that are no command where they are typed into a page in command mode."""
    for letters in itertools.product("EGNQTU", repeat=6):
        yield f"W{''.join(letters)}W"


@dataclass
class Log:
    """What everybody did, in the checker's words, and remarks for whoever looks for a cause."""

    events: list[Event] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    """Operations by who and what."""
    start: float = field(default_factory=time.time)

    def now(self) -> float:
        """Seconds since the start."""
        return time.time() - self.start

    def note(self, text: str) -> None:
        self.remarks.append(f"{self.now():.2f} {text}")

    def about(self, token: str) -> str:
        """All that the log says of a word."""
        return "\n    ".join(line for line in self.lines() if token in line)

    def lines(self) -> list[str]:
        """Everything, in the order in which it ended; of files that were loaded only that."""
        told = [
            replace(event, file={}, after=None) if isinstance(event, Did) else event
            for event in self.events
        ]
        lines = [*self.remarks, *(f"{_when(event):.2f} {event}" for event in told)]
        return sorted(lines, key=lambda line: float(line.split()[0]))


class Words:
    """One word after the other, for several threads."""

    def __init__(self) -> None:
        self._words, self._lock = words(), threading.Lock()

    def next(self) -> str:
        with self._lock:
            return next(self._words)


@dataclass
class Where:
    """What all players share."""

    lab: Lab
    path: str
    log: Log
    words: Words
    together: bool
    """The notebook is in a room."""
    pages: int
    agent_may: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)
    """The agent asks for nothing just now."""
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def agent_still(self) -> Iterator[None]:
        """The call of the agent that is under way ends, and it makes no other."""
        self.agent_may.clear()
        self.idle.wait(30)
        try:
            yield
        finally:
            self.agent_may.set()

    def file(self) -> str:
        """The file, once nobody is in the middle of writing it."""
        for _ in range(100):
            try:
                text = (self.lab.root / self.path).read_text(encoding="utf-8")
                json.loads(text)
            except (OSError, ValueError):
                time.sleep(0.02)
            else:
                return text
        self.log.note("the file is no notebook")
        return "{}"

    def filed(self) -> Counter[str]:
        """The words in the cells of the file."""
        return tokens("\0".join(cell.source for cell in self.disk()))

    def disk(self) -> list[Cell]:
        found = json.loads(self.file()).get("cells", [])
        return [
            Cell(cell.get("id", ""), cell["cell_type"], "".join(cell["source"])) for cell in found
        ]

    def server(self) -> tuple[str, list[Cell]]:
        """The carrier and the cells, as the agent sees them; none where it is not answered."""
        answer = self.lab.call("GET", f"notebooks/{quote(self.path)}")
        if answer.status != 200:
            return str(answer), []
        return answer.body["carrier"], [
            Cell(cell["id"], cell["type"], cell["source"]) for cell in answer.body["cells"]
        ]


class Person:
    """Somebody with a page, and with keys."""

    def __init__(self, name: str, notebook: OpenNotebook, where: Where, seed: int) -> None:
        self.name = name
        self.notebook = notebook
        self.page = notebook.page
        self._where = where
        self._log = where.log
        self._random = random.Random(seed)
        self._aimed: set[str] = set()
        self._types: dict[str, str] = {}
        self.doings: dict[str, tuple[float, Callable[[], object]]] = {
            "type": (10, self._type),
            "paste text": (2, self._paste_text),
            "complete": (1, self._complete),
            "insert": (2, self._insert),
            "undo": (2, self._undo),
            "redo": (0.5, self._redo),
            "copy": (0.7, self._copy),
            "cut": (1.2, self._cut),
            "paste": (1.5, self._paste),
            "delete": (0.8, self._delete),
            "move": (2, self._move),
            "split": (1.5, self._split),
            "merge": (1, self._merge),
            "retype": (1.5, self._retype),
            "run": (1.5, self._run),
            "save": (2.5, self._save),
            "rename": (1, self._rename),
            "reload": (0.5, self._reload),
            "reopen": (0.5, self._reopen),
            "revert": (0.5, self._revert),
            "restore": (0.4, self._restore),
        }
        if where.pages > 1:  # other pages do not follow a rename
            del self.doings["rename"]
        if where.together:
            for name_ in ("revert", "restore", "reopen"):
                del self.doings[name_]
        self.page.on("dialog", lambda dialog: dialog.accept())  # leave with unsaved work? yes

    def watch(self) -> None:
        """Note from now on what changes in the page."""
        self.evaluate(f"({RECORD})(path)")

    def evaluate(self, expression: str, **values: Any) -> Any:
        return self.page.evaluate(
            f"({{path, id, name, keys}}) => {expression}", {"path": self._where.path, **values}
        )

    def cells(self) -> list[Cell]:
        return [Cell(*cell) for cell in self.evaluate(CELLS)]

    def words(self) -> Counter[str]:
        return tokens("\0".join(cell.source for cell in self.cells()))

    def dirty(self) -> bool:
        return bool(self.evaluate("agentTest.notebook(path).model.dirty"))

    def do(self, what: str | None = None) -> None:
        """One thing, at random."""
        self.answer_questions()
        names = list(self.doings)
        weights = [weight for weight, _ in self.doings.values()]
        name = what or self._random.choices(names, weights)[0]
        self._kind = kind = {"paste text": "type"}.get(name, name)
        if self._where.together and kind == "reload":
            self._kind = "rejoin"
        self._drain(None)
        begin, filed = self._log.now(), Counter[str]()
        self._aimed, self._types = set(), {}
        self._after: Counter[str] | None = None
        if kind in ("reload", "reopen", "revert"):
            filed = self._where.filed()
        self._filed = filed
        try:
            self.doings[name][1]()
        except PageError as error:
            self._log.note(f"{self.name}: {name} failed: {str(error).splitlines()[0]}")
        moved = self._drain(name)
        self._log.events.append(
            Did(
                begin,
                self._log.now(),
                self.name,
                self._kind,
                frozenset(self._aimed),
                moved,
                dict(self._types),
                dict(self._filed),
                self._after,
            )
        )
        self._log.done[f"person {name}"] += 1

    def answer_questions(self, rule: str | None = None) -> None:
        """Whatever JupyterLab asks is answered: `Cancel` by default."""
        for _ in range(5):
            try:
                asked = self.notebook.dialogs()
            except PageError:
                return
            if not asked:
                return
            text = " ".join(asked[0].split())
            self._log.note(f"{self.name} is asked: {text}")
            if FILE_CHANGED in text:
                here, there = self.words(), self._where.filed()
                differing = {t for t in {*here, *there} if here[t] != there[t]}
                self._log.events.append(Question(self._log.now(), self.name))
                answer = rule or self._random.choice(("Cancel", "Cancel", "Overwrite", "Revert"))
                how = f"{FILE_CHANGED}: {answer}"
                self._log.events.append(Told(self._log.now(), frozenset(differing), how))
                button = self.page.locator(".jp-Dialog").get_by_role("button", name=answer)
                try:
                    button.first.click(timeout=3000)
                except PageError:
                    self.page.keyboard.press("Escape")
                self._log.note(f"{self.name} answers: {answer}")
                self.page.wait_for_timeout(300)
            else:
                self.page.keyboard.press("Escape")
                self.page.wait_for_timeout(30)

    def note_conflicts(self) -> None:
        """What the panel asks the person about, cell by cell."""
        for conflict in self.page.evaluate(CONFLICTS):
            theirs = (conflict["theirs"] or {}).get("source", "")
            told = frozenset(tokens("\0".join((conflict["mine"] or "", theirs))))
            self._log.events.append(Told(self._log.now(), told, "the panel"))

    def _drain(self, name: str | None) -> tuple[Moved, ...]:
        """What came and went since; what the page itself did counts as the person's."""
        try:
            records = self.page.evaluate("() => window.agentRecords?.splice(0) ?? []")
        except PageError:
            return ()
        for one in records:
            who = "the page" if one["own"] else "somebody else"
            self._log.remarks.append(
                f"{one['at'] - self._log.start:.2f} {self.name}'s page, during {name}: "
                f"{one['token']} {one['by']:+} in {one['cell']} by {who}"
            )
        return tuple(Moved(one["token"], one["cell"], one["by"]) for one in records if one["own"])

    # ---- where

    def _go_to(self, cell_id: str | None = None) -> str | None:
        """Be in command mode on that cell, or on any; its id."""
        ids = [cell.id for cell in self.cells()]
        if not ids:
            return None
        cell_id = cell_id or self._random.choice(ids)
        self.evaluate(
            """(() => {
                const notebook = agentTest.notebook(path);
                const at = notebook.widgets.findIndex(cell => cell.model.id === id);
                notebook.deselectAll();
                notebook.mode = 'command';
                notebook.activeCellIndex = at;
                notebook.activate();
            })()""",
            id=cell_id,
        )
        return self._active()

    def _active(self) -> str | None:
        found: str | None = self.evaluate("agentTest.notebook(path).activeCell?.model.id ?? null")
        return found

    def _enter(self) -> str | None:
        """Be in a cell's text, at the start or end of a line; the cell, None where it failed."""
        if self._go_to() is None:
            return None
        self.page.keyboard.press("Enter")
        for key in self._random.choice(
            (["Control+End"], ["Control+Home"], ["Control+Home", "End"])
        ):
            self.page.keyboard.press(key)
        return self._focus()

    def _focus(self) -> str | None:
        found = self.notebook.cursor()
        return None if found is None else found[0]

    # ---- typing

    def _keys(self, text: str) -> None:
        pace = self._random.choice((0, 0, 5, 25))
        self.page.keyboard.type(text, delay=pace)

    def _write(self, write: Callable[[str], object]) -> None:
        """One word; where JupyterLab asks something meanwhile it counts as perhaps written."""
        token = self._where.words.next()
        if self.notebook.dialogs() or self._focus() is None:
            return
        sure = False
        try:
            write(token)
            sure = not self.notebook.dialogs()
        finally:
            self._log.events.append(Typed(self._log.now(), self.name, token, sure))

    def _type(self) -> None:
        if self._enter() is not None:
            for _ in range(self._random.choice((1, 1, 1, 2))):
                around = self._random.choice((" {}", "{} ", "{}", " {} = 1"))
                self._write(lambda token, around=around: self._keys(around.format(token)))  # type: ignore[misc]

    def _paste_text(self) -> None:
        if self._enter() is not None:
            self._write(
                lambda token: self.evaluate(
                    """(() => {
                        const data = new DataTransfer();
                        data.setData('text/plain', name);
                        document.activeElement.dispatchEvent(new ClipboardEvent('paste',
                            {clipboardData: data, bubbles: true, cancelable: true}));
                    })()""",
                    name=f" {token} ",
                )
            )

    def _complete(self) -> None:
        if self._enter() is not None:
            self._write(lambda token: self._keys(f" {token} pri"))
            self.page.keyboard.press("Tab")
            self.page.wait_for_timeout(self._random.choice((20, 150)))
            if not self.notebook.dialogs():
                self.page.keyboard.press("Enter")

    def _insert(self) -> None:
        if len(self.cells()) < MOST_CELLS and self._go_to() is not None:
            self.page.keyboard.press(self._random.choice("ab"))
            self.page.keyboard.press("Enter")
            if self._focus() is not None:
                self._write(lambda token: self._keys(f"{token} = 1"))

    def _undo(self) -> None:
        self._in_active("Control+z")

    def _redo(self) -> None:
        self._in_active("Control+Shift+z")

    def _in_active(self, keys: str) -> None:
        """In the text of the cell where the person is: there is where they notice a slip."""
        if self._focus() is None and self._active() is not None:
            self.page.keyboard.press("Enter")
        if self._focus() is not None:
            for _ in range(self._random.choice((1, 1, 2, 3))):
                self.page.keyboard.press(keys)

    # ---- cells

    def _command(self, *keys: str) -> str | None:
        cell = self._go_to()
        if cell is not None:
            for key in keys:
                self.page.keyboard.press(key)
        return cell

    def _copy(self) -> None:
        self._command("c")

    def _cut(self) -> None:
        self._take_away("x")

    def _delete(self) -> None:
        self._take_away("d", "d")

    def _take_away(self, *keys: str) -> None:
        if len(self.cells()) > 3 and (cell := self._go_to()) is not None:
            self._aimed = {cell}
            for key in keys:
                self.page.keyboard.press(key)

    def _paste(self) -> None:
        if len(self.cells()) < MOST_CELLS:
            self._command("v")

    def _move(self) -> None:
        self._command(self._random.choice(("Control+Shift+ArrowUp", "Control+Shift+ArrowDown")))

    def _split(self) -> None:
        if len(self.cells()) < MOST_CELLS and self._enter() is not None:
            self.page.keyboard.press("Control+Shift+Minus")

    def _merge(self) -> None:
        if len(self.cells()) > 3:
            self._command("Shift+M")

    def _retype(self) -> None:
        key = self._random.choice("mmyyr")
        cell = self._command(key)
        if cell is not None:
            wanted = {"m": "markdown", "y": "code", "r": "raw"}[key]
            if Cell(cell, wanted, "") in [Cell(c.id, c.type, "") for c in self.cells()]:
                self._types = {cell: wanted}

    def _run(self) -> None:
        self._command(self._random.choice(("Control+Enter", "Shift+Enter")))

    # ---- the file

    def _save(self) -> None:
        self.page.keyboard.press("Control+s")
        if self._random.random() < 0.5:
            self.page.wait_for_timeout(200)

    def _rename(self) -> None:
        old = self._where.path
        new = f"n{self._random.randrange(10**6)}-{old.split('-')[-1]}"
        self.evaluate("void agentTest.panel(path).context.rename(name)", name=new)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.page.evaluate(
                "path => [...jupyterapp.shell.widgets('main')].some(w => w.context?.path === path)",
                new,
            ):
                self._where.path = self.notebook.path = new
                return
            self.page.wait_for_timeout(20)
        self._log.note(f"the rename from {old} to {new} was not done")

    def _reload(self) -> None:
        """Leave the page and open the notebook again."""
        address = (
            f"{self._where.lab.url}/lab/workspaces/{uuid4().hex}/tree/{quote(self._where.path)}"
        )
        self.page.goto(f"{address}?token={self._where.lab.token}", timeout=60_000)
        self.page.wait_for_function("() => window.jupyterapp", timeout=60_000)
        self.page.evaluate("() => window.jupyterapp.restored")
        self.page.evaluate(HELPERS)
        self._opened()

    def _reopen(self) -> None:
        """Close the notebook without saving, and open it in the same page."""
        self.evaluate("agentTest.panel(path).dispose()")
        self.evaluate("void jupyterapp.commands.execute('docmanager:open', {path})")
        self._opened()

    def _opened(self) -> None:
        self.page.wait_for_function(
            "path => agentTest.panel(path)?.context.isReady", arg=self._where.path, timeout=60_000
        )
        self.evaluate("agentTest.panel(path).revealed")
        self.watch()
        self._after = self.words()

    def _revert(self) -> None:
        self._take_from_file("context.revert()")

    def _restore(self) -> None:
        """The checkpoint of the last Ctrl-S; the agent waits, since it takes two requests."""
        with self._where.agent_still():
            file = Path(self._where.path)
            kept = self._where.lab.root / ".ipynb_checkpoints" / f"{file.stem}-checkpoint.ipynb"
            if not self._clean() or not kept.exists():
                self._kind = "save"
                return
            cells = json.loads(kept.read_text(encoding="utf-8"))["cells"]
            self._filed = tokens("\0".join("".join(cell["source"]) for cell in cells))
            self._take_from_file(
                "context.listCheckpoints()"
                ".then(found => context.restoreCheckpoint(found.at(-1).id))"
                ".then(() => context.revert())"
            )

    def _clean(self) -> bool:
        self.page.keyboard.press("Control+s")
        return self._until(lambda: not self.dirty() and not self.notebook.dialogs(), 5)

    def _take_from_file(self, how: str) -> None:
        ended = self.evaluate(
            f"(context => Promise.race([{how}.then(() => true),"
            " new Promise(end => setTimeout(() => end(false), 10000))]))"
            "(agentTest.panel(path).context)"
        )
        if ended:
            self.watch()
            self._after = self.words()

    def _until(self, holds: Callable[[], object], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if holds():
                return True
            self.page.wait_for_timeout(30)
        return False


class Agent:
    """Works over HTTP, beside the people; knows what it was answered."""

    name = "agent"

    def __init__(self, where: Where, replies: Replies, seed: int) -> None:
        self._where = where
        self._log = where.log
        self._lab = where.lab
        self._replies = replies
        self._random = random.Random(seed)
        self._own: set[str] = set()
        self.answers: Counter[str] = Counter()

    def work(self) -> None:
        """Until it is over."""
        doings = {
            self._patch: 6, self._replace: 2, self._insert: 2, self._rewrite: 2, self._stale: 2,
            self._move: 2, self._delete: 1, self._retype: 1, self._run: 1, self._turn: 0.7,
        }  # fmt: skip
        while not self._where.over.is_set():
            self._where.idle.set()
            self._where.agent_may.wait()
            self._where.idle.clear()
            if self._where.agent_may.is_set():
                doing = self._random.choices(list(doings), list(doings.values()))[0]
                try:
                    doing()
                except (OSError, http.client.HTTPException) as error:
                    self._log.note(f"the agent cannot read: {error!r}")
                    time.sleep(0.2)
                self._log.done[f"agent {doing.__name__.strip('_')}"] += 1
                self._where.idle.set()
            time.sleep(self._random.choice((0, 0.02, 0.1, 0.4)))
        self._where.idle.set()

    def _cells(self) -> list[Any]:
        answer = self._call("GET", "")
        return answer.body["cells"] if answer.status == 200 else []

    def _some(self) -> Any:
        cells = self._cells()
        return self._random.choice(cells) if cells else None

    def _with_own_word(self) -> tuple[Any, str] | None:
        """A cell and a word in it that the agent wrote, once in that cell."""
        found = [
            (cell, token)
            for cell in self._cells()
            for token, count in tokens(cell["source"]).items()
            if count == 1 and token in self._own
        ]
        return self._random.choice(found) if found else None

    # ---- what it does

    def _patch(self) -> None:
        """Writes a word behind one of its own."""
        if (found := self._with_own_word()) is None:
            return self._insert()
        (cell, old), new = found, self._new()
        between = self._random.choice((" ", "\n"))
        body = {"old_string": old, "new_string": f"{old}{between}{new}"}
        self._edit("patch", lambda: self._patched(cell, body), adds=(new,))

    def _replace(self) -> None:
        if (found := self._with_own_word()) is not None:
            (cell, old), new = found, self._new()
            body = {"old_string": old, "new_string": new}
            self._edit("replace", lambda: self._patched(cell, body), (new,), Counter([old]))

    def _insert(self) -> None:
        cells = self._cells()
        if cells and len(cells) < MOST_CELLS:
            new = self._new()
            body = {"source": f"{new} = 1", "index": self._random.randrange(len(cells) + 1)}
            self._edit("insert", lambda: self._call("POST", "/cells", body), adds=(new,))

    def _rewrite(self) -> None:
        """The whole text, if the cell is still as it was read."""
        if (cell := self._some()) is not None:
            new = self._new()
            source = self._written(cell["source"], new)
            match = {"If-Match": f'"{cell["version"]}"'}
            self._edit(
                "rewrite",
                lambda: self._patched(cell, {"source": source}, match),
                (new,),
                tokens(cell["source"]) - tokens(source),
            )

    def _stale(self) -> None:
        """The whole text, long after it was read: what was typed since is merged."""
        if (cell := self._some()) is None:
            return
        call = {"notebook": self._where.path, "mode": "auto", "conversation_id": "fuzz"}
        self._tool("read_cells", {**call, "input": {"cell_ids": [cell["id"]]}})
        again = self._call("GET", f"/cells/{cell['id']}")
        if again.status != 200 or again.body["version"] != cell["version"]:
            return
        time.sleep(self._random.choice((0, 0.1, 0.7)))
        new = self._new()
        source = self._written(cell["source"], new)
        body = {**call, "input": {"cell_id": cell["id"], "source": source}}
        removes = tokens(cell["source"]) - tokens(source)
        self._edit("stale", lambda: self._tool("update_cell", body), (new,), removes)

    def _written(self, source: str, new: str) -> str:
        """With one more line, perhaps in place of one that is there."""
        lines = source.split("\n")
        at = self._random.randrange(len(lines) + 1)
        if self._random.random() < 0.3:
            lines[at : at + 1] = [f"{new} = 1"]
        else:
            lines.insert(at, f"{new} = 1")
        return "\n".join(lines)

    def _move(self) -> None:
        cells = self._cells()
        if cells:
            cell, body = self._random.choice(cells), {"index": self._random.randrange(len(cells))}
            self._edit("move", lambda: self._call("POST", f"/cells/{cell['id']}/move", body))

    def _delete(self) -> None:
        """If it is still as it was read."""
        cells = self._cells()
        if len(cells) > 3:
            cell = self._random.choice(cells)
            match = {"If-Match": f'"{cell["version"]}"'}
            self._edit(
                "delete",
                lambda: self._call("DELETE", f"/cells/{cell['id']}", headers=match),
                removes=tokens(cell["source"]),
            )

    def _retype(self) -> None:
        if (cell := self._some()) is not None:
            body = {"type": "code" if cell["type"] != "code" else "markdown"}
            types = {cell["id"]: body["type"]}
            self._edit("retype", lambda: self._patched(cell, body), types=types)

    def _run(self) -> None:
        if (cell := self._some()) is not None:
            self._edit("run", lambda: self._call("POST", f"/cells/{cell['id']}/run", {"wait": 2}))

    def _turn(self) -> None:
        """A turn of the chat makes a cell and edits one; perhaps it is undone."""
        found, one, two = self._with_own_word(), self._new(), self._new()
        self._replies.clear()
        self._replies.append([calls("create_cell", source=f"{one} = 1")])
        adds = (one,)
        if found is not None:
            cell, old = found
            change = {"cell_id": cell["id"], "old_string": old, "new_string": f"{old} {two}"}
            self._replies.append([calls("update_cell", **change)])
            adds = (one, two)
        self._replies.append([says("Done.")])
        begin = self._log.now()
        message = {"role": "user", "parts": [{"type": "text", "text": "Please."}]}
        body = {"messages": [message], "notebook": self._where.path, "mode": "auto"}
        there: list[Any] = []
        try:
            turn = self._lab.call("POST", "chat", {**body, "stream": False}, timeout=90)
            if turn.status == 200:
                changes = self._lab.call("GET", f"turns/{turn.body['turn_id']}/changes")
                there = changes.body if changes.status == 200 else []
        except (OSError, http.client.HTTPException) as error:
            self._log.note(f"the turn died: {error!r}")
        for token in adds:
            done = any(token in (one["after"] or {}).get("source", "") for one in there)
            self._ended("turn", begin, "done" if done else "unknown", (token,))
        if not there or self._random.random() < 0.3:
            return
        begin, undone = self._log.now(), None
        try:
            answer = self._lab.call("POST", f"turns/{turn.body['turn_id']}/undo", {})
            if answer.status == 200:
                undone = [(one["before"], one["after"]) for one in answer.body["undone"]]
                self._log.note(f"undone: {answer.body}")
            else:
                self._log.note(f"the undo of {adds}: {answer}")
        except (OSError, http.client.HTTPException) as error:
            self._log.note(f"the undo died: {error!r}")
        for token in adds:
            gone = undone is None or any(
                token in (after or {}).get("source", "") + (before or {}).get("source", "")
                for before, after in undone
            )
            if gone:
                outcome: Outcome = "unknown" if undone is None else "done"
                self._ended("undo", begin, outcome, removes=Counter([token]))

    # ---- how

    def _new(self) -> str:
        token = self._where.words.next()
        self._own.add(token)
        return token

    def _call(
        self, method: str, what: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        path = f"notebooks/{quote(self._where.path)}{what}"
        return self._lab.call(method, path, body, headers=headers)

    def _patched(self, cell: Any, body: Any, headers: dict[str, str] | None = None) -> Answer:
        return self._call("PATCH", f"/cells/{cell['id']}", body, headers)

    def _tool(self, name: str, body: Any) -> Answer:
        return self._lab.call("POST", f"tools/{name}", body)

    def _edit(
        self,
        kind: str,
        act: Callable[[], Answer],
        adds: tuple[str, ...] = (),
        removes: Mapping[str, int] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        begin = self._log.now()
        saved = True
        try:
            answer = act()
        except (OSError, http.client.HTTPException) as error:
            outcome: Outcome = "unknown"
            self._log.note(f"the agent's {kind} {adds} {removes} died: {error!r}")
        else:
            body = answer.body if isinstance(answer.body, dict) else {}
            outcome = _outcome(answer, body)
            saved = bool(body.get("saved", True))
            why = body.get("reason", "")
            self.answers[f"{answer.status} {why}".strip()] += 1
            if outcome != "done" or body.get("note"):
                told = {
                    key: body[key]
                    for key in ("reason", "message", "text", "saved", "note")
                    if key in body
                }
                self._log.note(
                    f"the agent's {kind} {adds} {dict(removes or {})}: {answer.status} {told}"
                )
        self._ended(kind, begin, outcome, adds, removes, types, saved)

    def _ended(
        self,
        kind: str,
        begin: float,
        outcome: Outcome,
        adds: tuple[str, ...] = (),
        removes: Mapping[str, int] | None = None,
        types: Mapping[str, str] | None = None,
        saved: bool = True,
    ) -> None:
        edit = Edit(
            begin, self._log.now(), self.name, kind, outcome, adds, dict(removes or {}),
            dict(types or {}), saved,
        )  # fmt: skip
        self._log.events.append(edit)


def _outcome(answer: Answer, body: Mapping[str, Any]) -> Outcome:
    """What was promised. A tool answers 200 also where it says that it failed."""
    failed = answer.status >= 400 or body.get("is_error")
    if not failed:
        return "done"
    unknown = answer.status >= 500 or body.get("reason") == "not_confirmed"
    return "unknown" if unknown else "refused"


class Editor:
    """Another program that writes the file: git, another editor."""

    name = "editor"

    def __init__(self, where: Where, seed: int) -> None:
        self._where = where
        self._random = random.Random(seed)

    def write(self) -> None:
        """One word more in one cell, atomically or in place."""
        found = json.loads(self._where.file())
        if not found.get("cells"):
            return
        token = self._where.words.next()
        cell = self._random.choice(found["cells"])
        cell["source"] = [*"".join(cell["source"]).splitlines(True), f"\n{token} = 1"]
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        file = self._where.lab.root / self._where.path
        atomic = self._random.random() < 0.5
        if atomic:
            other = file.with_suffix(".new")
            other.write_text(text, encoding="utf-8")
            os.replace(other, file)
        else:
            file.write_text(text, encoding="utf-8")
        self._where.log.events.append(Wrote(self._where.log.now(), self.name, (token,)))
        self._where.log.done["editor " + ("atomic" if atomic else "in place")] += 1


def _when(event: Event) -> float:
    return event.end if isinstance(event, (Did, Edit)) else event.at


class Fuzz:
    """One session in one notebook.

    `trouble`: of `cut`, `offline`, `freeze`, `kill` and `editor` what may happen, before such a
    part (`rate`) of the operations. `gate`: the agent waits while a page is away for long.
    """

    def __init__(
        self,
        seed: int,
        notebooks: list[OpenNotebook],
        replies: Replies,
        *,
        trouble: frozenset[str] = frozenset(),
        rate: float = 0.1,
        gate: bool = True,
        together: bool = False,
    ) -> None:
        self.seed = seed
        self.log = Log()
        self._random = random.Random(seed)
        first = notebooks[0]
        self._where = Where(first.lab, first.path, self.log, Words(), together, len(notebooks))
        self._where.agent_may.set()
        self._where.idle.set()
        self._people = [
            Person(f"person {number}", notebook, self._where, seed * 10 + number)
            for number, notebook in enumerate(notebooks)
        ]
        self._agent = Agent(self._where, replies, seed * 10 + 7)
        self._editor = Editor(self._where, seed * 10 + 8)
        self._trouble = sorted(trouble)
        self._rate = rate
        self._gate = gate
        self._together = together
        self.person = self._people[0]
        self._lab = first.lab

    def work(self, operations: int) -> None:
        """That many operations of people, the agent beside them."""
        for person in self._people:
            person.notebook.page.set_default_timeout(10_000)
            person.watch()
        self.person.page.bring_to_front()
        with ThreadPoolExecutor(2) as threads:
            working = threads.submit(self._agent.work)
            try:
                for _ in range(operations):
                    self._step(threads)
                    if working.done():
                        working.result()
            finally:
                self._where.over.set()
                self._where.agent_may.set()
            working.result()

    def judge(self) -> list[Fault]:
        """Everybody comes to an end; what went wrong."""
        self._last = end = self._end()
        self.person.note_conflicts()
        alone = not self._together and len(self._people) == 1 and "editor" not in self._trouble
        return faults(self.log.events, end, alone=alone)

    def report(self, found: list[Fault]) -> str:
        """What was done, and what the log knows of what went wrong."""
        events = self.log.events
        typed = sum(isinstance(event, Typed) for event in events)
        sure = sum(isinstance(event, Typed) and event.sure for event in events)
        done = Counter[str]()
        for event in events:
            if isinstance(event, Edit):
                done[event.outcome] += len(event.adds)
        given_up = self._given_up()
        questions = sum(isinstance(event, Question) for event in events)
        lines = [
            f"seed {self.seed}: {sum(self.log.done.values())} operations"
            f" ({_by_player(self.log.done)}) in {self.log.now():.0f} s;"
            f" {typed} words typed ({sure} surely), of the agent {dict(done)};"
            f" File Changed {questions}, words given up because of it {given_up};"
            f" {len(found)} faults",
            f"  {dict(sorted(self.log.done.items()))}",
            f"  {dict(self._agent.answers)}",
        ]
        for fault in found:
            lines.append(f"  {fault}")
            if TOKEN.fullmatch(fault.what):
                lines.append(f"    {self.log.about(fault.what)}")
        if found and (folder := os.environ.get("FUZZ_LOG")):
            whole = Path(folder) / f"{self.seed}.log"
            whole.write_text("\n".join([*lines, *self.log.lines()]), encoding="utf-8")
        return "\n".join(lines)

    def _given_up(self) -> int:
        """How many words are not there, and all that speaks for it is that somebody was asked."""
        left = [event for event in self.log.events if not isinstance(event, Told)]
        without = faults(left, self._last, alone=False)
        return sum(fault.kind == "lost" for fault in without)

    # ---- what happens

    def _step(self, threads: ThreadPoolExecutor) -> None:
        if self._trouble and self._random.random() < self._rate:
            what = self._random.choice(self._trouble)
            self.log.note(f"trouble: {what}")
            match what:
                case "editor":
                    self._editor.write()
                case "kill":
                    self._kill(threads)
                case "offline":
                    self._offline()
                case "freeze":
                    self._freeze()
                case "cut":
                    self._cut()
            self.log.done[f"trouble {what}"] += what != "editor"
        if len(self._people) > 1 and self._random.random() < (0.5 if self._together else 0.1):
            self._switch()
        self.person.do()
        self.person.page.wait_for_timeout(self._random.choice((0, 20, 100, 300)))

    def _switch(self) -> None:
        """To another page. Without a room: save here, and take the file there."""
        other = self._random.choice([one for one in self._people if one is not self.person])
        if not self._together:
            self.person.do("save")
            if not self.person._until(lambda: not self.person.dirty(), 5):
                return
        other.notebook.path = self._where.path
        other.page.bring_to_front()
        self.person = other
        if not self._together:
            other.do("revert")

    def _cut(self) -> None:
        self.person.page.evaluate("() => agentLines.forEach(line => line.close())")

    def _offline(self) -> None:
        """Nothing reaches the server, for a moment or for long; the person works on."""
        page, long = self.person.page, self._random.random() < 0.5
        seconds = self._random.uniform(LONG + 0.5, 8) if long else self._random.uniform(0.3, 2)

        def refuse(route: Route) -> None:
            route.abort("internetdisconnected")

        with self._agent_aside(long):
            page.route("**/api/**", refuse)
            page.evaluate("() => (agentOffline = true, agentLines.forEach(line => line.close()))")
            self._work_on(seconds)
            page.unroute("**/api/**", refuse)
            page.evaluate("() => (agentOffline = false)")
            self._come_back()

    def _work_on(self, seconds: float) -> None:
        """What needs no server, and a save that fails."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.person.do(self._random.choice(("type", "type", "insert", "move", "split", "save")))
            self.person.page.wait_for_timeout(100)

    def _freeze(self) -> None:
        session = self.person.page.context.new_cdp_session(self.person.page)
        seconds = self._random.choice((0.5, 2, 4, 7))
        session.send("Page.setWebLifecycleState", {"state": "frozen"})
        time.sleep(seconds)
        session.send("Page.setWebLifecycleState", {"state": "active"})
        session.detach()

    def _kill(self, threads: ThreadPoolExecutor) -> None:
        """The server dies and comes again; the person works on meanwhile."""
        with self._agent_aside(True):
            self._lab.kill()
            started = threads.submit(self._lab.start)
            self._work_on(self._random.choice((0.1, 1)))
            while not started.done():
                self._work_on(0.5)
            started.result()
            self._come_back()

    @contextmanager
    def _agent_aside(self, long: bool) -> Iterator[None]:
        """With the gate it asks for nothing more while the page is away for long; what it has
        asked for already may die.
        """
        if long and self._gate:
            self._where.agent_may.clear()
        try:
            yield
        finally:
            self._where.agent_may.set()

    def _come_back(self) -> None:
        """The page does not sit out its pause."""
        self.person.page.evaluate("() => void window.dispatchEvent(new Event('online'))")
        if self._gate and not self._together:
            self._linked(self.person)

    def _linked(self, person: Person) -> None:
        if not person._until(lambda: self._carrier() == "tab", 30):
            self.log.note(f"the tab has not come back: {self._where.server()}")

    def _carrier(self) -> str:
        try:
            return self._where.server()[0]
        except (OSError, http.client.HTTPException) as error:
            return repr(error)

    # ---- the end

    def _end(self) -> End:
        """Everybody stops, the person saves, and all look until they see the same, or give up."""
        for person in self._people:
            person.answer_questions("Overwrite")
        if not self._together:
            self._linked(self.person)
        end = self._look()
        for _ in range(4):
            self.person.do("save")
            self.person._until(self._same, 5)
            self.person.answer_questions("Overwrite")
            end = self._look()
            if self._same():
                break
        return end

    def _look(self) -> End:
        people = self._people if self._together else [self.person]
        pages = {f"page {number}": person.cells() for number, person in enumerate(people)}
        try:
            server = self._where.server()[1]
        except (OSError, http.client.HTTPException) as error:
            self.log.note(f"the server cannot be read: {error!r}")
            server = []
        return End({**pages, "server": server, "disk": self._where.disk()})

    def _same(self) -> bool:
        first, *others = self._look().places.values()
        return all(other == first for other in others)


def _by_player(done: Counter[str]) -> str:
    players = Counter[str]()
    for what, count in done.items():
        players[what.split()[0]] += count
    return ", ".join(f"{player} {count}" for player, count in players.items())
