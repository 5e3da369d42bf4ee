"""What requests pass through: `python -m tests.bench.flow` (some 20 s).

Starts a Jupyter server on a copy of the example notebook and makes a handful of requests, among
them a chat turn of the six calls that the demo made at commit e6db4e2, through the strict fake of
Anthropic's API. For each it counts openings of the notebook, reads of the contents manager,
transactions of SQLite, and files and functions of ours; then what the repository looks like.
Beside each figure stands the one of commit e6db4e2, whose turn had no HTTP between us and the
model, and the goal.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
from jupyter_agent.carriers.file import FileCarrier
from jupyter_agent.cli import demo
from jupyter_agent.client.alone import own_server
from jupyter_agent.conversations.database import Database
from jupyter_agent.models.base import Block
from jupyter_agent.testing import FakeAnthropic, calls, in_thread, says

PACKAGE = Path(jupyter_agent.__file__).parent
FAKES = str(PACKAGE / "testing")
"""They are the service, which runs in this process."""
PLAIN = ("--ServerApp.jpserver_extensions=jupyter_agent=True",)
"""No other extensions, whatever the tests install."""
CELL = {"type": "code", "source": "flow = 1", "index": 0}
EDITED = "average"
"""A code cell of the example."""
TURN: list[list[Block]] = [
    [calls("get_notebook_state", outline=True)],
    [calls("create_cell", type="markdown", source="# A short tour")],
    [calls("create_cell", source="numbers = [3, 1, 4]\nprint(sum(numbers))")],
    [calls("run_cell", cell_id=EDITED)],
    [calls("update_cell", cell_id=EDITED, old_string=" a day", new_string=" each day")],
    [calls("run_cell", cell_id=EDITED)],
    [says("Done.")],
]


@dataclass
class Flow:
    """What one request passed through."""

    openings: int = 0
    reads: int = 0
    transactions: int = 0
    codes: set[CodeType] = field(default_factory=set)

    @property
    def functions(self) -> int:
        """How many functions of ours, without lambdas and comprehensions."""
        named = (code for code in self.codes if not code.co_name.startswith("<"))
        return len({(code.co_filename, code.co_firstlineno) for code in named})

    @property
    def files(self) -> int:
        """How many files of ours."""
        return len({code.co_filename for code in self.codes})


class Watch:
    """Counts, in every thread, what happens while a request is made."""

    def __init__(self, contents: type[ContentsManager]) -> None:
        self._flow = Flow()
        self._count(FileCarrier, "refresh", "openings")
        # Where it is defined: our product recognises Jupyter's own managers by it.
        self._count(next(each for each in contents.mro() if "get" in vars(each)), "get", "reads")
        self._count(Database, "_transaction", "transactions")
        threading.setprofile(self._seen)

    def _count(self, owner: type, name: str, figure: str) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        @wraps(work)
        def counted(*args: Any, **kwargs: Any) -> Any:
            setattr(self._flow, figure, getattr(self._flow, figure) + 1)
            return work(*args, **kwargs)

        setattr(owner, name, counted)

    def _seen(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)) and not file.startswith(FAKES):
            self._flow.codes.add(frame.f_code)

    @contextmanager
    def request(self) -> Iterator[Flow]:
        """What is counted within the block."""
        self._flow = flow = Flow()
        sys.setprofile(self._seen)
        try:
            yield flow
        finally:
            sys.setprofile(None)
            self._flow = Flow()


@dataclass(frozen=True)
class Requests:
    """Requests to our own server, as any script would make them."""

    app: ServerApp

    async def make(self, method: str, route: str, body: Any = None) -> Any:
        """The answer's JSON; for a chat, the types of its chunks."""
        response = await AsyncHTTPClient().fetch(
            HTTPRequest(
                f"{self.app.connection_url}api/agent/{route}",
                method=method,
                headers={"Authorization": f"token {self.app.identity_provider.token}"},
                body=None if body is None else json.dumps(body),
                request_timeout=0,
            )
        )
        text = response.body.decode()
        if not response.headers["Content-Type"].startswith("text/event-stream"):
            return json.loads(text or "null")
        lines = [line.removeprefix("data: ") for line in text.split("\n")]
        return [json.loads(line) for line in lines if line.startswith("{")]


async def measure(app: ServerApp) -> dict[str, Flow]:
    """What each of the requests passed through; a warm kernel runs after the second."""
    watch, requests = Watch(type(app.contents_manager)), Requests(app)
    notebook = f"notebooks/{demo.NOTEBOOK}"
    flows: dict[str, Flow] = {}

    async def counted(name: str, *request: Any) -> Any:
        await requests.make("GET", "status")
        with watch.request() as flow:
            answer = await requests.make(*request)
            await asyncio.sleep(0.5)  # what is done after the answer is part of it
        flows[name] = flow
        return answer

    await requests.make("GET", notebook)
    await counted("REST read", "GET", notebook)
    await counted("REST edit", "POST", f"{notebook}/cells", CELL)
    question = {"role": "user", "parts": [{"type": "text", "text": demo.QUESTION}]}
    asked = {"messages": [question], "mode": "auto", "notebook": demo.NOTEBOOK}
    chunks = await counted("chat turn", "POST", "chat", asked)
    made = [chunk for chunk in chunks if chunk["type"] == "tool-output-available"]
    assert len(made) == 6, chunks
    start = next(chunk for chunk in chunks if chunk["type"] == "start")
    await counted("undo", "POST", f"turns/{start['messageMetadata']['turnId']}/undo", {})
    return flows


def served() -> dict[str, Flow]:
    """The flows of a server of its own."""
    flows: dict[str, Flow] = {}
    os.environ["JUPYTER_NO_CONFIG"] = "1"
    with ExitStack() as stack:
        folder = stack.enter_context(demo.example())
        store = stack.enter_context(TemporaryDirectory())
        fake = stack.enter_context(in_thread(FakeAnthropic(TURN)))
        os.environ |= {"ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": fake.api_key}
        options = [f"--JupyterAgent.store_dir={store}", *PLAIN]
        app = stack.enter_context(own_server(folder, options))

        async def ask() -> None:
            try:
                flows.update(await measure(app))
            finally:
                app.stop()

        app.io_loop.add_callback(ask)
        app.start()
    return flows


# -- the repository


class Sources:
    """What the Python files of the product look like."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._trees = {
            path: ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")
        }

    @property
    def files(self) -> int:
        """How many, those without code not counted."""
        return sum(bool(tree.body) for tree in self._trees.values())

    @property
    def lines(self) -> int:
        """How many, blank ones counted."""
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in self._trees)

    @property
    def imported_once(self) -> list[str]:
        """The files that exactly one other file of the product imports."""
        importers: defaultdict[str, set[Path]] = defaultdict(set)
        for path, tree in self._trees.items():
            for name in _imported(tree):
                importers[name].add(path)
        return sorted(name for path in self._trees if len(importers[name := _module(path)]) == 1)

    @property
    def homonyms(self) -> list[str]:
        """Names of public classes and aliases of types that stand for more than one thing."""
        names = Counter(
            name for tree in self._trees.values() for name in _classes(tree) if name[0] != "_"
        )
        return sorted(name for name, count in names.items() if count > 1)

    @property
    def long_functions(self) -> list[str]:
        """Functions of more than 60 lines."""
        return [
            node.name
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= 60
        ]

    @property
    def excepts(self) -> tuple[int, int]:
        """How many handlers catch everything, and how many there are."""
        handlers = [
            node
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ExceptHandler)
        ]
        broad = [
            handler
            for handler in handlers
            if handler.type is None
            or (isinstance(handler.type, ast.Name) and handler.type.id.endswith("Exception"))
        ]
        return len(broad), len(handlers)


def _module(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def _classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            yield ast.unparse(node.target)


def _say(name: str, then: object, now: object, goal: object) -> None:
    sys.stdout.write(f"{name:44} {then!s:>12} {now!s:>12} {goal!s:>12}\n")


def main() -> None:
    """Prints the table."""
    flows, sources = served(), Sources(PACKAGE)
    turn, edit = flows["chat turn"], flows["REST edit"]
    _say("", "e6db4e2", "now", "goal")
    _say("turn of 6 calls: openings of the notebook", 32, turn.openings, "<= 8")
    _say("  reads of the contents manager", 47, turn.reads, "<= 14")
    _say("  transactions of SQLite", 96, turn.transactions, "<= 30")
    _say("  files / functions", "85 / 635", f"{turn.files} / {turn.functions}", "60 / 450")
    now = f"{edit.files} / {edit.openings} / {edit.reads}"
    _say("REST edit: files / openings / reads", "20 / 2 / 5", now, "16 / 1 / 3")
    for name in ("REST read", "undo"):
        flow = flows[name]
        now = f"{flow.files} / {flow.openings} / {flow.reads}"
        _say(
            f"{name}: files / openings / reads",
            "17 / 1 / 1" if name[0] == "R" else "27 / 1 / 4",
            now,
            "",
        )
    now = f"{sources.files} / {sources.lines:,}"
    _say("Python files / lines", "156 / 22,387", now, "120 / 21,000")
    _say("files imported by exactly one file", 58, len(sources.imported_once), "<= 25")
    _say("class names that stand for two things", 15, len(sources.homonyms), 0)
    _say("functions over 60 lines", 2, len(sources.long_functions), 0)
    broad, handlers = sources.excepts
    _say("broad excepts", "7 of 157", f"{broad} of {handlers}", "not more")
    for name in ("imported_once", "homonyms", "long_functions"):
        sys.stdout.write(f"\n{name}: {', '.join(getattr(sources, name))}\n")


if __name__ == "__main__":
    main()
