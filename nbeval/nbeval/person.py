"""The person who has the notebook open meanwhile: a page of JupyterLab in Chromium, real keys."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_PANEL = "[...jupyterapp.shell.widgets('main')].find(one => one.context)"
_KNOWS_LANGUAGE = f"""async () => {{
  const panel = {_PANEL};
  const {{ language_info }} = await panel.sessionContext.session.kernel.info;
  const known = panel.content.model.getMetadata('language_info');
  return known?.name === language_info.name && known.version === language_info.version;
}}"""
_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_MOMENT_S = 1.0
_SAVE_MS = 10_000
_LINES = r"""
window.nbevalLinks = [];
window.WebSocket = class extends WebSocket {
  constructor(url, protocols) {
    const linksTab = /api\/agent\/tab|api\/collaboration\/room\/json:notebook/.test(url);
    super(linksTab && window.nbevalOffline ? 'ws://127.0.0.1:9/' : url, protocols);
    if (linksTab) {
      window.nbevalLinks.push(this);
    }
  }
};
"""
"""Chromium's own way to be offline leaves open sockets as they are."""


@dataclass(frozen=True)
class Typed:
    """Keys that were pressed in a cell."""

    cell_id: str
    text: str


class Person:
    """Works in the page; what is typed is remembered, to be looked for in the end."""

    def __init__(self, page: Page, folder: Path, notebook: str) -> None:
        self.folder = folder
        self.notebook = notebook
        """What the file is called now."""
        self.typed: list[Typed] = []
        self.deleted: list[str] = []
        self.names: dict[str, str] = {}
        """The ids that cells of the page go by here: of those whose place they took."""
        self.page = page

    def type(self, cell_id: str, text: str, *, after: str | None = None) -> None:
        """Types at the end of the cell, or behind the first `after` in it."""
        if after is None:
            self._edit(cell_id)
        else:
            self._put_cursor(cell_id, after, len(after))
        self.page.keyboard.type(text)
        self.typed.append(Typed(cell_id, text))

    def undo(self) -> None:
        """Takes back what was typed last, with the keys for it."""
        self._edit(self.typed.pop().cell_id)
        self.page.keyboard.press("Control+z")

    def delete(self, cell_id: str) -> None:
        """Takes the cell away."""
        self._command(cell_id, "d", "d")
        self.deleted.append(cell_id)

    def move_up(self, cell_id: str, steps: int = 1) -> None:
        self._command(cell_id, *["Control+Shift+ArrowUp"] * steps)

    def split(self, cell_id: str, before: str) -> None:
        """In two; the part from `before` on keeps the id."""
        self._put_cursor(cell_id, before)
        self.page.keyboard.press("Control+Shift+Minus")

    def merge(self, cell_id: str, below: str) -> None:
        """With the cell below; what comes of it has an id of its own."""
        self._command(cell_id, "Shift+M")
        self.deleted += [cell_id, below]

    def make_text(self, cell_id: str) -> None:
        """Turns code into Markdown."""
        self._command(cell_id, "m")

    def run(self, cell_id: str) -> None:
        """Runs the cell and waits for its end."""
        count = f"{_PANEL}.content.activeCell.model.executionCount"
        self._edit(cell_id)
        before = self._do(count)
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(f"before => ![null, before].includes({count})", arg=before)

    def save(self) -> None:
        if not self.page.is_closed():
            # A room does not answer a save that it cancelled for a newer one, and saves by itself.
            limit = f"new Promise(ends => setTimeout(ends, {_SAVE_MS}))"
            self._do(f"Promise.race([{_PANEL}.context.save(), {limit}])")

    def rename(self, name: str) -> None:
        self._do(f"{_PANEL}.context.rename({name!r})")
        self.notebook = name

    def interrupt_kernel(self) -> None:
        self._do(f"{_PANEL}.sessionContext.session.kernel.interrupt()")

    def restart_kernel(self) -> None:
        self._do(f"{_PANEL}.sessionContext.session.kernel.restart()")

    def lose_kernel(self) -> None:
        """Its process is killed, as by a system that runs out of memory."""
        kernel = self._do(f"{_PANEL}.sessionContext.session.kernel.id")
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                started = command.read_bytes()
            except OSError:  # that process has ended
                continue
            if f"kernel-{kernel}.json".encode() in started:
                os.kill(int(command.parent.name), signal.SIGKILL)

    def disconnect(self) -> None:
        """The Wi-Fi is gone: nothing of the page's notebook reaches the server."""
        self.page.route("**/api/contents/**", lambda route: route.abort())
        self.page.evaluate("() => { nbevalOffline = true; nbevalLinks.at(-1)?.close(); }")

    def connect(self) -> None:
        """The Wi-Fi is back, and what was typed without it is saved."""
        self.page.unroute("**/api/contents/**")
        self.page.evaluate("() => { nbevalOffline = false; dispatchEvent(new Event('online')); }")
        linked = "(nbevalLinks.at(-1)?.readyState ?? WebSocket.OPEN) === WebSocket.OPEN"
        self.page.wait_for_function(f"() => {linked}")
        self.save()

    def reload(self) -> None:
        """Loads the page again, as with the browser's button."""
        self.page.reload()
        ready(self.page)

    def close(self) -> None:
        """Closes the tab. A moment before, it has told the server whether all is saved; a moment
        later the server knows that it is closed."""
        time.sleep(_MOMENT_S)
        self.page.close()
        time.sleep(_MOMENT_S)

    def _command(self, cell_id: str, *keys: str) -> None:
        """Presses keys in command mode."""
        self._edit(cell_id)
        for key in ("Escape", *keys):
            self.page.keyboard.press(key)

    def _put_cursor(self, cell_id: str, text: str, further: int = 0) -> None:
        """Puts the cursor so many characters behind the beginning of the first such text."""
        self._edit(cell_id)
        self._do(
            f"""(({{ editor }}) => {{
              const anchor = editor.state.doc.toString().indexOf({text!r}) + {further};
              editor.dispatch({{ selection: {{ anchor }} }});
            }})({_PANEL}.content.activeCell.editor)"""
        )

    def _edit(self, cell_id: str) -> None:
        """Puts the cursor at the end of the cell."""
        self._do(
            f"""(async panel => {{
              const notebook = panel.content;
              const names = {json.dumps(self.names)};
              const at = notebook.widgets.findIndex(
                ({{ model: {{ id }} }}) => (names[id] ?? id) === {cell_id!r});
              notebook.activeCellIndex = at;
              await notebook.scrollToItem(at);
              await notebook.widgets[at].ready;
              notebook.mode = 'edit';
              const editor = notebook.widgets[at].editor.editor;
              editor.focus();
              editor.dispatch({{ selection: {{ anchor: editor.state.doc.length }} }});
            }})({_PANEL})"""
        )

    def _do(self, expression: str) -> Any:
        return self.page.evaluate(f"() => {expression}")


def ready(page: Page) -> None:
    """Waits until the notebook is shown and its kernel is there."""
    page.wait_for_function("() => window.jupyterapp")
    page.evaluate("() => jupyterapp.restored")
    page.wait_for_function(f"() => {_PANEL}")
    page.evaluate(f"() => {_PANEL}.context.ready")
    page.evaluate(f"() => {_PANEL}.revealed")
    page.wait_for_function(f"() => {_PANEL}.sessionContext.session?.kernel")
    page.wait_for_function(_KNOWS_LANGUAGE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Raises ModuleNotFoundError or FileNotFoundError where there is none."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if found is None:
        raise FileNotFoundError("Tasks with a person need Chromium: install it, or set CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def person(browser: Browser, url: str, token: str, notebook: str, folder: Path) -> Iterator[Person]:
    """Somebody with the notebook open in a browser with nothing stored in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(_LINES)
    page = context.new_page()
    page.goto(f"{url}lab/workspaces/{uuid4().hex}/tree/{quote(notebook)}?token={token}")
    ready(page)
    yield Person(page, folder, Path(notebook).name)
    context.close()
