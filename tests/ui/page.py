"""A notebook open in JupyterLab in a browser, as a person sees and uses it."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import nbformat
from playwright.sync_api import Locator, Page

from tests.ui.lab import Lab
from tests.waiting import eventually

T = TypeVar("T")

NOTEBOOK_FILES = re.compile(r"/api/contents/.*\.ipynb")
"""Requests for notebook files; JupyterLab has its own dialog for a folder that it cannot list."""

HELPERS = """
window.agentTest = {
  panel: path => [...window.jupyterapp.shell.widgets('main')].find(w => w.context?.path === path),
  notebook: path => window.agentTest.panel(path).content,
  cells: path => [...window.agentTest.notebook(path).model.cells],
  widget: (path, id) =>
    window.agentTest.notebook(path).widgets.find(cell => cell.model.id === id),
  view: (path, id) => window.agentTest.widget(path, id).editor.editor,
  text: node => [...node.querySelectorAll('.cm-line')].map(line => line.textContent).join('\\n')
};
"""


WATCH_SOCKETS = """
window.agentSockets = [];
window.agentRooms = [];
window.WebSocket = class extends WebSocket {
  constructor(url, protocols) {
    const isGone = window.agentOffline && String(url).includes('api/agent/tab');
    super(isGone ? 'ws://127.0.0.1:9/' : url, protocols);
    if (String(url).includes('api/agent/tab')) {
      window.agentSockets.push(this);
    }
    if (String(url).includes('api/collaboration/room/json:notebook')) {
      window.agentRooms.push(this);
    }
  }
};
"""


WATCH_OPENING = """
Object.defineProperty(window, 'jupyterapp', {
  configurable: true,
  set: app => {
    Object.defineProperty(window, 'jupyterapp', { value: app });
    window.agentOpened = new Promise((resolve, reject) =>
      app.commands.commandExecuted.connect((_, { id, result }) => {
        if (id === 'filebrowser:open-path') {
          result.then(() => resolve(), reject);
        }
      })
    );
  }
});
"""
"""A notebook of the last session is there before JupyterLab opens what the address names, which
takes the focus once more."""


HOLD = """inRoom => {
  const socket = (inRoom ? agentRooms : agentSockets).at(-1);
  const isUpdate = data => {
    if (!inRoom) {
      return typeof data !== 'string';
    }
    const [message, kind] = new Uint8Array(data);
    return message === 0 && kind === 2;
  };
  const deliver = socket.onmessage;
  window.agentHeld = [];
  socket.onmessage = event => {
    if (agentHeld.length || isUpdate(event.data)) {
      agentHeld.push(event);
    } else {
      deliver(event);
    }
  };
  window.agentLetGo = () => {
    socket.onmessage = deliver;
    agentHeld.forEach(deliver);
  };
}"""


GO_TO = """(() => {
  const socket = agentSockets.at(-1);
  const said = [];
  socket.send = frame => void said.push(frame) ?? WebSocket.prototype.send.call(socket, frame);
  agentTest.notebook(path).activeCellIndex = at;
  delete socket.send;
  return said;
})()"""


IS_LAYOUT_SAVED = """async () => {
  const [, id] = /workspaces[/]([^/]+)/.exec(location.pathname) ?? [, 'default'];
  const {data} = await jupyterapp.serviceManager.workspaces.fetch(id).catch(() => ({}));
  const saved = JSON.stringify(data ?? {}).matchAll(/"notebook:([^"]+)"/g);
  const open = [...jupyterapp.shell.widgets('main')].map(widget => widget.context?.path);
  return [...saved].every(([, path]) => open.includes(path));
}"""
"""Whether JupyterLab would restore no notebook that was closed since, as by the test before."""


class OpenNotebook:
    """One notebook in one page. Cells are named by their ids."""

    def __init__(self, page: Page, lab: Lab, path: str) -> None:
        self.page = page
        self.lab = lab
        self.path = path

    def open(self, address: str | None = None) -> OpenNotebook:
        """Load JupyterLab with only this notebook, or with the page at `address`."""
        self.page.add_init_script(WATCH_SOCKETS)
        self.page.add_init_script(WATCH_OPENING)
        workspace = f"{self.lab.url}/lab/workspaces/{uuid4().hex}"
        own = f"{workspace}/tree/{quote(self.path)}?token={self.lab.token}"
        self.page.goto(address or own)
        self._wait_until_ready()
        return self

    def show(self) -> OpenNotebook:
        """Open it in the current page."""
        self.page.evaluate(
            """async path => {
                const shown = await jupyterapp.commands.execute('docmanager:open', {path});
                await Promise.all([shown.context.ready, shown.revealed]);
            }""",
            self.path,
        )
        return self

    def reload(self) -> None:
        """As with the browser's button. JupyterLab opens what the address names, and what it has
        saved of the layout, which it does only after a while."""
        self.page.evaluate(
            """path => {
                const [workspace] = location.pathname.split('/tree/');
                if (workspace.includes('/lab/')) { // not in Notebook 7
                    history.replaceState(null, '', `${workspace}/tree/${encodeURI(path)}`);
                }
            }""",
            self.path,
        )
        if "/lab/" in self.page.url:
            eventually(lambda: self.page.evaluate(IS_LAYOUT_SAVED), bool)
        self.page.reload()
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """Until the notebook is shown and has the focus for good."""
        self.page.wait_for_function("() => window.jupyterapp")
        self.page.evaluate("() => window.jupyterapp.restored")
        self.page.evaluate(HELPERS)
        self.page.evaluate("() => window.agentOpened")
        self._evaluate("agentTest.panel(path).context.ready")
        self._evaluate("agentTest.panel(path).revealed")

    def wait_until_linked(self) -> None:
        """Until the assistant works in this tab."""
        eventually(lambda: self.lab.notebook(self.path)["carrier"], lambda name: name == "tab")

    def wait_for_kernel(self) -> None:
        """Until the kernel has said its language, which Lab writes into the notebook."""
        eventually(
            lambda: self._evaluate("agentTest.notebook(path).model.getMetadata('language_info')"),
            lambda language: language and "version" in language,
            timeout=60,
        )

    # ---- the content

    def ids(self) -> list[str]:
        return self._list("agentTest.cells(path).map(cell => cell.id)")

    def sources(self) -> dict[str, str]:
        """Source by cell id, of the model."""
        pairs = self._list("agentTest.cells(path).map(c => [c.id, c.sharedModel.getSource()])")
        return dict(pairs)

    def shown(self) -> dict[str, str]:
        """Source by cell id, of the lines on the screen."""
        pairs = self._list(
            "agentTest.notebook(path).widgets.map(c => [c.model.id, agentTest.text(c.node)])"
        )
        return dict(pairs)

    def outputs(self, cell_id: str) -> list[dict[str, Any]]:
        """Outputs of the model, as nbformat has them."""
        return self._list(
            "agentTest.cells(path).find(c => c.id === id).outputs.toJSON()", id=cell_id
        )

    def cell(self, cell_id: str) -> Locator:
        """The cell on the screen."""
        return self.page.locator(".jp-Cell").nth(self.ids().index(cell_id))

    def output_text(self, cell_id: str) -> str:
        """The output on the screen under the cell."""
        return "".join(self.cell(cell_id).locator(".jp-OutputArea-output").all_inner_texts())

    def prompt(self, cell_id: str) -> str:
        """`[ ]:`, `[*]:` or `[3]:`."""
        return self.cell(cell_id).locator(".jp-InputPrompt").inner_text()

    def dirty(self) -> bool:
        return bool(self._evaluate("agentTest.notebook(path).model.dirty"))

    def dialogs(self) -> list[str]:
        """The text of Lab's modal dialog."""
        return self.page.locator(".jp-Dialog").all_inner_texts()

    def dismiss_dialogs(self) -> None:
        while self.dialogs():
            self.page.keyboard.press("Escape")

    # ---- the file on disk

    def on_disk(self) -> Any:
        """The file, which has to be a valid notebook."""
        path = self.lab.root / self.path
        # Jupyter empties a file before it writes it.
        text = eventually(lambda: path.read_text(encoding="utf-8"), bool)
        found = nbformat.reads(text, as_version=4)
        nbformat.validate(found)
        return found

    def saved(self) -> dict[str, str]:
        """Source by cell id, of the file."""
        return {cell.id: cell.source for cell in self.on_disk().cells}

    # ---- the person's position and actions

    def edit(self, cell_id: str, at: int | None = None) -> None:
        """Click into the cell and put the cursor there (UTF-16 units); at its end by default."""
        self.cell(cell_id).locator(".cm-content").click()
        self._evaluate(
            """(() => {
                const view = agentTest.view(path, id);
                view.focus();
                view.dispatch({selection: {anchor: at ?? view.state.doc.length}});
            })()""",
            id=cell_id,
            at=at,
        )

    def edit_line(self, cell_id: str, line: int, *, end: bool) -> None:
        """Put the cursor at the start or end of a line, in one step: the text may be changing."""
        self._evaluate(
            """(async () => {
                await agentTest.widget(path, id).ready;
                const view = agentTest.view(path, id);
                const {from, to} = view.state.doc.line(line + 1);
                view.focus();
                view.dispatch({selection: {anchor: end ? to : from}});
            })()""",
            id=cell_id,
            line=line,
            end=end,
        )

    def type(self, text: str) -> None:
        """Press the keys where the focus is."""
        self.page.keyboard.type(text)

    def cursor(self) -> tuple[str, int] | None:
        """The cell with the focus and the offset in it, or None."""
        found = self._evaluate(
            """(() => {
                for (const cell of agentTest.notebook(path).widgets) {
                    const view = cell.editor?.editor;
                    if (view?.hasFocus) {
                        return [cell.model.id, view.state.selection.main.head];
                    }
                }
                return null;
            })()"""
        )
        return None if found is None else (found[0], found[1])

    def save(self) -> None:
        self._evaluate("agentTest.panel(path).context.save()")

    def toggle_autosave(self) -> None:
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:toggle-autosave')")

    def cut_socket(self) -> None:
        """Lose the connection of the bridge, as a proxy or a sleeping laptop does."""
        self.page.evaluate("() => agentSockets.at(-1).close()")

    def go_to(self, index: int) -> list[dict[str, Any]]:
        """Make another cell active, without a key or a click; returns the page's message to the
        server about it.
        """
        return [json.loads(frame) for frame in self._list(GO_TO, at=index)]

    def sockets(self) -> int:
        """How many connections the bridge has had."""
        return int(self.page.evaluate("() => agentSockets.filter(one => one.readyState).length"))

    def go_away(self) -> None:
        """The laptop sleeps or the Wi-Fi is gone: no request of the page arrives any more."""
        self.page.route(NOTEBOOK_FILES, lambda route: route.abort())
        self.page.evaluate("() => { window.agentOffline = true; agentSockets.at(-1).close(); }")

    def return_(self) -> None:
        """It is back."""
        self.page.unroute(NOTEBOOK_FILES)
        self.page.evaluate("() => { window.agentOffline = false; }")
        self.come_back()

    def come_back(self) -> None:
        """The network is back: the page ends its reconnection pause."""
        self.page.evaluate("() => void window.dispatchEvent(new Event('online'))")

    def hold_changes(self, *, in_room: bool = False) -> None:
        """The page receives no updates from the server's next change on."""
        self.page.evaluate(HOLD, in_room)

    def held(self) -> int:
        """Number of updates withheld from it."""
        return int(self.page.evaluate("() => agentHeld.length"))

    def let_go(self) -> None:
        """Deliver the withheld updates."""
        self.page.evaluate("() => agentLetGo()")

    # ---- how

    def _list(self, expression: str, **values: Any) -> list[Any]:
        found: list[Any] = self._evaluate(expression, **values)
        return found

    def _evaluate(self, expression: str, **values: Any) -> Any:
        return self.page.evaluate(
            f"({{path, id, at, line, end}}) => {expression}", {"path": self.path, **values}
        )
