"""The work behind requests: `python -m tests.bench.flow` (about 40 s).

Starts a Jupyter server on copies of the example notebook, closed ones and ones open in a tab (a
Python one, which speaks the page's protocol, `tests.notebook.browser`), and makes a handful of
requests: REST's, an edit over MCP, a chat turn with one edit and one of six calls, each in mode
auto and with every question answered, through the strict fake of Anthropic's API. The goals are
printed beside the figures; below them, figures of the repository. Asserts nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.manager import ContentsManager
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

import jupyter_agent
from jupyter_agent.agent.permissions import decide
from jupyter_agent.carriers.file import FileCarrier
from jupyter_agent.carriers.tab import TabCarrier
from jupyter_agent.carriers.tab_link import TabLink
from jupyter_agent.cli import demo
from jupyter_agent.client.alone import own_server
from jupyter_agent.conversations.database import Database
from jupyter_agent.mcp_server.messages import CAPABILITIES_KEY, STATELESS, VERSION_KEY
from jupyter_agent.models.base import Block
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.paths import Identities
from jupyter_agent.workspace.visibility import View
from tests.bench.sources import Sources
from tests.fakes import FakeAnthropic, calls, in_thread, says
from tests.notebook.browser import Tab

PACKAGE = Path(jupyter_agent.__file__).parent
FAKES = str(PACKAGE / "testing")
"""The fake services, which run in this process."""
PLAIN = ("--ServerApp.jpserver_extensions=jupyter_agent=True",)
"""No other extensions, whatever the tests install."""
CELL = {"type": "code", "source": "flow = 1", "index": 0}
EDITED = "average"
"""A code cell of the example."""
EDIT = calls("update_cell", cell_id=EDITED, old_string=" a day", new_string=" each day")
TURNS: Mapping[str, list[list[Block]]] = {
    "one edit": [[EDIT], [says("Done.")]],
    "six calls": [
        [calls("get_notebook_state", outline=True)],
        [calls("create_cell", type="markdown", source="# A short tour")],
        [calls("create_cell", source="numbers = [3, 1, 4]\nprint(sum(numbers))")],
        [calls("run_cell", cell_id=EDITED)],
        [EDIT],
        [calls("run_cell", cell_id=EDITED)],
        [says("Done.")],
    ],
}
CARRIERS = ("file", "tab")
MODES = ("auto", "ask")
FIGURES = (
    "openings",
    "trips",
    "saves",
    "reads",
    "SQLite",
    "leases",
    "identities",
    "decisions",
    "views",
    "files",
    "functions",
)
"""`trips` go to the page and back, one after the other; `saves` are requested from it; `reads` are
of the contents manager, including the page's own; `identities` are look-ups of what a path means.
"""
_EACH = {"leases": 7, "identities": 7, "decisions": 7, "views": 7}
GOALS: Mapping[str, Mapping[str, int]] = {
    "file, REST edit": {"openings": 1, "reads": 3},
    "file, six calls, auto": {"openings": 8, "reads": 14, "SQLite": 30, **_EACH},
    "tab, REST run": {"trips": 3},
    "tab, one edit, auto": {"trips": 2, "files": 50, "functions": 450},
    "tab, one edit, ask": {"trips": 3},
    "tab, six calls, auto": {"openings": 8, "trips": 14, "saves": 3, **_EACH},
}


@dataclass
class Flow:
    """The work for one request."""

    counts: Counter[str] = field(default_factory=Counter)
    codes: set[CodeType] = field(default_factory=set)

    def figure(self, name: str) -> int:
        """One of FIGURES."""
        if name == "files":
            return len({code.co_filename for code in self.codes})
        if name == "functions":  # without lambdas and comprehensions
            named = (code for code in self.codes if not code.co_name.startswith("<"))
            return len({(code.co_filename, code.co_firstlineno) for code in named})
        return self.counts[name]


class Watch:
    """Counts, in every thread, what happens during a request."""

    def __init__(self, contents: type[ContentsManager]) -> None:
        self._flow = Flow()
        self._count(FileCarrier, "refresh", "openings")
        self._count(TabCarrier, "refresh", "openings")
        self._count(TabLink, "_ask", "trips", lambda link, *_: not link._waiting)
        self._count(TabLink, "_ask", "saves", lambda link, op, *_: op == "save")
        # The class's own module: our product recognises Jupyter's own managers by it.
        self._count(next(each for each in contents.mro() if "get" in vars(each)), "get", "reads")
        self._count(Database, "_transaction", "SQLite")
        self._count(Lease, "__init__", "leases")
        self._count(Identities, "of", "identities")
        self._called = {decide.__code__: "decisions", View.of.__func__.__code__: "views"}  # type: ignore[attr-defined]
        threading.setprofile(self._see)

    def _count(
        self, owner: type, name: str, figure: str, counts: Callable[..., bool] = lambda *_: True
    ) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        @wraps(work)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._flow.counts[figure] += counts(*args)
            return work(*args, **kwargs)

        setattr(owner, name, counted)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(str(PACKAGE))
            and not code.co_filename.startswith(FAKES)
        ):
            self._flow.codes.add(code)
            if code in self._called:
                self._flow.counts[self._called[code]] += 1

    @contextmanager
    def request(self) -> Iterator[Flow]:
        """The counts within the block."""
        self._flow = flow = Flow()
        sys.setprofile(self._see)
        try:
            yield flow
        finally:
            sys.setprofile(None)
            self._flow = Flow()


@dataclass(frozen=True)
class Script:
    """Sends requests to our own server, as any script would."""

    app: ServerApp

    async def request(
        self, method: str, route: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The answer's JSON."""
        response = await AsyncHTTPClient().fetch(
            HTTPRequest(
                f"{self.app.connection_url}api/agent/{route}",
                method=method,
                headers={
                    "Authorization": f"token {self.app.identity_provider.token}",
                    **(headers or {}),
                },
                body=None if body is None else json.dumps(body),
                request_timeout=0,
            )
        )
        return json.loads(response.body.decode() or "null")

    async def call_tool(self, tool: str, **input: Any) -> Any:
        """A call over MCP; its result."""
        meta = {VERSION_KEY: STATELESS, CAPABILITIES_KEY: {}}
        params = {"name": tool, "arguments": input, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": STATELESS,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        answer = await self.request("POST", "mcp?mode=auto", body, headers)
        assert not answer["result"].get("isError"), answer
        return answer["result"]

    async def ask(self, notebook: str, mode: str) -> str:
        """Runs a whole turn, answering all its questions with yes; returns its id."""
        question = {"role": "user", "parts": [{"type": "text", "text": demo.QUESTION}]}
        asked = {"messages": [question], "mode": mode, "notebook": notebook, "stream": False}
        turn = await self.request("POST", "chat", asked)
        while turn["state"] == "waiting":
            answers = [{"id": each["id"], "approved": True} for each in turn["approvals"]]
            route = f"chat/{turn['conversation_id']}/approvals"
            turn = await self.request("POST", route, {"approvals": answers, "wait": 60})
        assert turn["state"] == "done", turn
        return str(turn["turn_id"])


class Bench:
    """The server, and the notebooks in it."""

    def __init__(self, app: ServerApp) -> None:
        self._app = app
        self._script = Script(app)
        self._watch = Watch(type(app.contents_manager))
        self.flows: dict[str, Flow] = {}

    async def measure(self) -> None:
        """Fills `flows`. The order of the turns is that of `served`."""
        await self._script.request("GET", "status")  # loads the assistant
        for carrier in CARRIERS:
            async with self._notebook(carrier, "rest") as path:
                await self._measure_rest(carrier, path)
            for turn in TURNS:
                for mode in MODES:
                    async with self._notebook(carrier, f"{turn} {mode}") as path:
                        await self._measure_turn(f"{carrier}, {turn}, {mode}", path, mode)

    async def _measure_rest(self, carrier: str, path: str) -> None:
        notebook = f"notebooks/{path}"
        run = ("POST", f"{notebook}/cells/{EDITED}/run", {"wait": 60})
        await self._script.request(*run)  # warms up the kernel
        await self._counted(f"{carrier}, REST read", self._script.request("GET", notebook))
        edit = self._script.request("POST", f"{notebook}/cells", CELL)
        await self._counted(f"{carrier}, REST edit", edit)
        await self._counted(f"{carrier}, REST run", self._script.request(*run))
        await self._script.call_tool("get_notebook_state", notebook=path)  # opens the turn
        edit = {"cell_id": EDITED, "old_string": " a day", "new_string": " each day"}
        call = self._script.call_tool("edit_cells", notebook=path, edits=[edit])
        await self._counted(f"{carrier}, MCP edit", call)

    async def _measure_turn(self, name: str, path: str, mode: str) -> None:
        turn_id = await self._counted(name, self._script.ask(path, mode))
        if name.endswith("six calls, auto"):
            undo = self._script.request("POST", f"turns/{turn_id}/undo", {})
            await self._counted(f"{name.split(',')[0]}, undo of six calls", undo)

    async def _counted(self, name: str, request: Any) -> Any:
        with self._watch.request() as flow:
            answer = await request
            await asyncio.sleep(0.5)  # work after the answer counts, too
        self.flows[name] = flow
        return answer

    @asynccontextmanager
    async def _notebook(self, carrier: str, name: str) -> AsyncIterator[str]:
        """A copy of the example, open in a tab for that carrier, and read once."""
        path = f"{carrier} {name}.ipynb".replace(" ", "-")
        folder = Path(self._app.root_dir)
        shutil.copy(folder / demo.NOTEBOOK, folder / path)
        tab = None
        if carrier == "tab":
            (extension,) = self._app.extension_manager.extension_apps["jupyter_agent"]
            tab = await Tab(extension._assistant.tabs, self._app.contents_manager, path).open()
        opened = await self._script.request("GET", f"notebooks/{path}")
        assert opened["carrier"] == carrier, opened["carrier"]
        yield path
        if tab is not None:
            tab.leave()


def served() -> dict[str, Flow]:
    """The flows of a fresh server."""
    replies = [reply for _ in CARRIERS for turn in TURNS.values() for _ in MODES for reply in turn]
    os.environ["JUPYTER_NO_CONFIG"] = "1"
    with ExitStack() as stack:
        folder = stack.enter_context(demo.example())
        store = stack.enter_context(TemporaryDirectory())
        fake = stack.enter_context(in_thread(FakeAnthropic(replies)))
        os.environ |= {"ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": fake.api_key}
        options = [f"--JupyterAgent.store_dir={store}", *PLAIN]
        app = stack.enter_context(own_server(folder, options))
        bench = Bench(app)

        async def measure() -> None:
            try:
                await bench.measure()
            finally:
                app.stop()

        app.io_loop.add_callback(measure)
        app.start()
    return bench.flows


def _table(flows: Mapping[str, Flow]) -> None:
    def line(name: str, cells: Mapping[str, object]) -> None:
        texts = (f"{cells.get(figure, ''):>{len(figure) + 2}}" for figure in FIGURES)
        sys.stdout.write(f"{name:26}{''.join(texts)}".rstrip() + "\n")

    line("", {figure: figure for figure in FIGURES})
    for name, flow in flows.items():
        line(name, {figure: flow.figure(figure) for figure in FIGURES})
        if name in GOALS:
            line("  goal, at most", GOALS[name])


def _say(name: str, now: object, goal: object) -> None:
    sys.stdout.write(f"{name:44} {now!s:>16} {goal!s:>20}\n")


def main() -> None:
    """Prints the tables."""
    _table(served())
    sources = Sources(PACKAGE)
    sys.stdout.write("\n")
    _say("", "now", "goal")
    core = Sources(PACKAGE, without="plugs")
    _say("Python files / lines", f"{sources.files} / {sources.lines:,}", "34,000")
    _say("  without plugs", f"{core.files} / {core.lines:,}", "120 / 29,000")
    _say("files imported by exactly one file", len(sources.imported_once), "")
    _say("  of them with less than 100 lines", len(sources.splinters), "<= 15")
    _say("longest file", sources.longest, "<= 450")
    _say("class names that stand for two things", len(sources.homonyms), 0)
    _say("functions over 60 lines", len(sources.long_functions), 0)
    broad, handlers = sources.excepts
    _say("broad excepts", f"{broad} of {handlers}", "not more")
    for name in ("splinters", "homonyms", "long_functions"):
        sys.stdout.write(f"\n{name}: {', '.join(getattr(sources, name))}\n")


if __name__ == "__main__":
    main()
