"""A person who works in a notebook with keys, at random."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from playwright.sync_api import Error as PageError

from tests.history.checker import (
    LOADING,
    Cell,
    Did,
    Moved,
    Question,
    Told,
    Typed,
    tokens,
)
from tests.ui.page import HELPERS, OpenNotebook
from tests.ui.players.scene import MOST_CELLS, Where

FILE_CHANGED = "File Changed"

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
        const merges = 'preservingPlace' in Object(transaction.origin); // ours, of the file
        agentRecords.push({ at, own: transaction.local && !merges, token, cell, by });
      }
    }
    last = now;
  });
}
"""
"""Records each word that appears or disappears, and whether the page or someone else did it."""

CONFLICTS = """
() => Object.entries(localStorage)
  .filter(([key]) => key.startsWith('jupyter-agent:conflicts'))
  .flatMap(([, value]) => JSON.parse(value))
"""

CELLS = "agentTest.cells(path).map(c => [c.id, c.type, c.sharedModel.getSource()])"


class Person:
    """A person with a page and keys."""

    def __init__(self, name: str, notebook: OpenNotebook, where: Where, seed: int) -> None:
        self.name = name
        self.notebook = notebook
        self.page = notebook.page
        self._where = where
        self._log = where.log
        self._random = random.Random(seed)
        self._aimed: set[str] = set()
        self._clipped: set[str] = set()
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
        """Record changes in the page from now on."""
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
        """One random action."""
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
        if kind in LOADING:
            filed = self._where.filed()
        self._filed = filed
        self._before = self.words() if kind in LOADING else Counter[str]()
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
                dict(self._before),
                self._after,
            )
        )
        self._log.done[f"person {name}"] += 1

    def answer_questions(self, rule: str | None = None) -> None:
        """Answer any question of JupyterLab: `Cancel` by default."""
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
        """Answer the panel's questions, cell by cell."""
        for conflict in self.page.evaluate(CONFLICTS):
            theirs = (conflict["theirs"] or {}).get("source", "")
            told = frozenset(tokens("\0".join((conflict["mine"] or "", theirs))))
            self._log.events.append(Told(self._log.now(), told, "the panel"))

    def _drain(self, name: str | None) -> tuple[Moved, ...]:
        """Log the changes since; the page's own count as the person's."""
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
        """Go into a cell's text, at the start or end of a line; returns the cell or None."""
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
        """Type one word; if JupyterLab asks something during it, it counts as perhaps written."""
        token = self._where.words.next()
        if self.notebook.dialogs() or self._focus() is None:
            return
        sure, asked = False, self._asked()
        try:
            write(token)
            sure = not self.notebook.dialogs() and self._asked() == asked
        finally:
            self._log.events.append(Typed(self._log.now(), self.name, token, sure))

    def _asked(self) -> int:
        """How often JupyterLab has asked something: a space may have answered it already."""
        return int(self.page.evaluate("agentDialogs"))

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
        """In the text of the person's cell, in which they would notice a slip."""
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
        self._clipped = set()

    def _cut(self) -> None:
        self._take_away("x")
        self._clipped = set(self._aimed)

    def _delete(self) -> None:
        self._take_away("d", "d")

    def _take_away(self, *keys: str) -> None:
        if len(self.cells()) > 3 and (cell := self._go_to()) is not None:
            self._aimed = {cell}
            for key in keys:
                self.page.keyboard.press(key)

    def _paste(self) -> None:
        # JupyterLab pastes a cell that was cut with its id, also where the file brought it back.
        cells = self.cells()
        if len(cells) < MOST_CELLS and self._clipped.isdisjoint(cell.id for cell in cells):
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
            self._before = self.words()  # with the agent's last edit
            self._take_from_file(
                "context.listCheckpoints()"
                ".then(found => context.restoreCheckpoint(found.at(-1).id))"
                ".then(() => context.revert())"
            )
            # Not before: the checkpoint of the last Ctrl-S may still be made until then.
            cells = json.loads(kept.read_text(encoding="utf-8"))["cells"]
            self._filed = tokens("\0".join("".join(cell["source"]) for cell in cells))

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
