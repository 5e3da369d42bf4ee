"""The same tasks with another harness under the same scripted model, so that only it differs.

jupyter-mcp-server runs as an extension of its own JupyterLab, with real-time collaboration, in an
environment of its own. A loop plays a task's script with its tools (`counterparts`), and the same
person does the same meanwhile.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nbformat import NotebookNode

from jupyter_agent import __version__
from jupyter_agent.tools import toolbox
from nbeval.check import read
from nbeval.counterparts import COUNTERPARTS, EDITS, READS, Failed
from nbeval.person import Person, chromium, person
from nbeval.play import NOTEBOOK, attend, begin, scored, size
from nbeval.run import Answers, attempts, played
from nbeval.score import Score
from nbeval.servers import Lab, Script, peer_lab
from nbeval.sides import Side
from nbeval.tasks import Task
from tests.mcp_client import McpClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Reply: TypeAlias = Sequence[Mapping[str, Any]]

NAME = "jupyter-mcp-server"
_IN_A_PAGE = "its tools act in its own page, and nothing here types into its chat yet"
NOT_PLAYED: Mapping[str, str] = {
    "notebook-intelligence": f"{_IN_A_PAGE} (6.2.0)",
    "jupyterlite-ai": f"{_IN_A_PAGE} (0.20.1)",
    "jupyter-ai": "its agents are programs of others (ACP) or an extra: none was run (3.2.0)",
}
"""Other harnesses, and why they are not played; from their packages, none was tried."""
_BEGINS = "begins with "
_FAILED = re.compile(r"\[(?:TIMEOUT )?ERROR|Failed to |'[^\n]*' (?:not found|is not connected)")
"""How results begin that are errors, though they are not marked as such."""
_CELL = re.compile(r"=+Cell (\d+) \|")
_ROW = re.compile(r"^\d+\t(\w+)\t", re.MULTILINE)
_LOOK_S = 0.05
_QUIET_S = 3
"""A room saves a second after the last change, or later where much else runs."""


@dataclass(frozen=True)
class Answer:
    """Of a tool: what a model is shown."""

    blocks: Sequence[Mapping[str, Any]]
    failed: bool

    @property
    def text(self) -> str:
        return "\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def source(self) -> str:
        """Of `read_cell`, below a line about the cell."""
        return "".join(block["text"] for block in self.blocks[1:2])


class Mcp:
    """A client of the peer's MCP server, as far as a loop needs one."""

    def __init__(self, lab: Lab) -> None:
        self._client = McpClient(lab.url, lab.token, "/mcp")
        self.version = self._client.version

    def definitions(self) -> list[dict[str, Any]]:
        """Its tools as a model is offered them."""
        return [
            {
                "name": tool["name"],
                "description": tool["description"],
                "input_schema": tool["inputSchema"],
            }
            for tool in self._client.ask("tools/list", {})["result"]["tools"]
        ]

    def call(self, tool: str, input: Mapping[str, Any]) -> Answer:
        reply = self._client.ask("tools/call", {"name": tool, "arguments": dict(input)})
        if "error" in reply:
            return Answer([{"type": "text", "text": reply["error"]["message"]}], failed=True)
        result = reply["result"]
        answer = Answer([_block(each) for each in result["content"]], bool(result.get("isError")))
        return Answer(answer.blocks, answer.failed or bool(_FAILED.match(answer.text)))


def _block(content: Mapping[str, Any]) -> dict[str, Any]:
    """As the Messages API takes it."""
    if content["type"] == "image":
        kind, data = content["mimeType"], content["data"]
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": kind, "data": data},
        }
    return _text(content.get("text", ""))


class McpPeer:
    """What a model does with the peer's tools in one task: see `counterparts.Peer`."""

    def __init__(
        self, mcp: Mcp, home: str, before: NotebookNode, is_busy: Callable[[], bool]
    ) -> None:
        self.home = home
        kernel = before.metadata.get("kernelspec", {})
        self.language: str = kernel.get("language", "python")
        self.later: Sequence[Mapping[str, Any]] = ()
        self.made: list[Any] = []
        self.requests: list[Mapping[str, Any]] = []
        """To the model, with all messages up to each."""
        self.results: list[str] = []
        self.calls = self.failed = 0
        self.seconds = 0.0
        self._mcp = mcp
        self._before = before
        self._is_busy = is_busy
        self._script: Iterator[Any] = iter(())
        self._ahead: list[Future[Any]] = []
        """The next reply, where it was asked for while a call still ran."""
        self._messages: list[dict[str, Any]] = []
        self._asked = False
        """Whether the model has not called a tool since it was asked last."""
        self._has_read = False
        self._is_stuck = False
        """Whether code does not end, which nothing but a restart helps against."""
        self._used = {home}
        self._active = home

    def answer(self, script: Script, prompts: Sequence[str], replies: Sequence[Reply]) -> str:
        """All that the model says while it plays the script, a turn a prompt."""
        said = []
        self._script = script
        for prompt in prompts:
            self._messages.append({"role": "user", "content": [_text(prompt)]})
            called = True
            while called:
                self.think()
                reply = self._ahead.pop().result() if self._ahead else next(script)
                texts = [block for block in reply if block["type"] == "text"]
                calls = _calls(reply)
                said += [block["text"] for block in texts]
                rest = [block for each in replies[script.asked :] for block in _calls(each)]
                for number, block in enumerate(calls):
                    self.later = [*calls[number + 1 :], *rest]
                    self._do(block)
                if called := bool(calls):
                    self._take_back()
            self._messages.append({"role": "assistant", "content": texts})
        return "\n".join(said)

    def _do(self, call: Mapping[str, Any]) -> None:
        name, input = call["name"], call["input"]
        counterpart = COUNTERPARTS.get(name)
        if counterpart is None:
            return
        if name in EDITS and not self._has_read:
            # Our questions come with the notebook; here a text has to be read to be changed.
            self.later = [call, *self.later]
            self._do({"name": "get_notebook_state", "input": {"notebook": input.get("notebook")}})
            self.later = self.later[1:]
            self.think()
        self._has_read |= name in READS
        try:
            counterpart(self, input)
        except Failed as error:  # the model was told
            if "No such file" in str(error) and self._finds_it_again():
                self._do(call)

    def _finds_it_again(self) -> bool:
        """The notebook under another name, where there is one other."""
        try:
            self.think()
            folder = posixpath.dirname(self.home)
            listed = self.call("list_files", path=folder, pattern="*.ipynb", limit=0)
            found = re.findall(r"^([^\t\n]+)\tnotebook\t", listed, re.MULTILINE)
            if len(found) != 1 or found[0] == self.home:
                return False
            (self.home,) = found
            self.think()
            self.activate(self.home)
        except Failed:
            return False
        return True

    def think(self) -> None:
        self._take_back()
        self.requests.append({"messages": list(self._messages)})
        self._asked = True

    def _take_back(self) -> None:
        """The last request where nothing was called in answer to it: there was no need for it."""
        if self._asked:
            self.requests.pop()
            self._asked = False

    def call(self, tool: str, **input: Any) -> str:
        if self._is_stuck and tool.startswith("execute_"):
            self.call("restart_notebook", notebook_name=self._active)
        self._is_stuck &= tool != "restart_notebook"
        given = {name: value for name, value in input.items() if value is not None}
        began = time.monotonic()
        answer = self._mcp.call(tool, given)
        self.seconds += time.monotonic() - began
        self.calls += 1
        self._tell(f"toolu_{self.calls}", tool, given, answer)
        if answer.failed:
            self.failed += 1
            self._is_stuck = "timed out" in answer.text
            raise Failed(answer.text)
        return answer.text

    def call_and_look(self, wait: float, tool: str, **input: Any) -> str:
        looked: Future[Any] = Future()
        ended = threading.Event()

        def look() -> None:
            ended.wait(wait)
            while not self._is_busy() and not ended.wait(_LOOK_S):
                pass  # a person acts on what they see running
            try:
                looked.set_result(next(self._script))
            except BaseException as error:  # noqa: BLE001 - it is raised where the reply is wanted
                looked.set_exception(error)

        self._ahead.append(looked)
        threading.Thread(target=look, daemon=True).start()
        try:
            return self.call(tool, **input)
        finally:
            ended.set()

    def _tell(self, id: str, tool: str, input: Mapping[str, Any], answer: Answer) -> None:
        if self._asked:
            self._messages += [{"role": role, "content": []} for role in ("assistant", "user")]
            self._asked = False
        call = {"type": "tool_use", "id": id, "name": tool, "input": input}
        self._messages[-2]["content"].append(call)
        marked = {"is_error": True} if answer.failed else {}
        result = {"type": "tool_result", "tool_use_id": id, "content": answer.blocks, **marked}
        self._messages[-1]["content"].append(result)
        self.results.append(answer.text)

    def use(self, notebook: str) -> None:
        if notebook not in self._used:
            self.activate(notebook)

    def activate(self, notebook: str) -> None:
        if notebook != self._active:
            self.call("use_notebook", notebook_name=notebook, notebook_path=notebook)
            self.has_activated(notebook)

    def has_activated(self, notebook: str) -> None:
        self._used.add(notebook)
        self._active = notebook

    def leave(self) -> None:
        """Its notebooks are no longer in use."""
        for notebook in sorted(self._used):
            self._mcp.call("unuse_notebook", {"notebook_name": notebook})

    def kinds(self, notebook: str) -> Sequence[str]:
        read = {"notebook_name": notebook, "response_format": "brief", "limit": 0}
        return _ROW.findall(self._mcp.call("read_notebook", read).text)

    def position(self, notebook: str, cell_id: str) -> int:
        found = _CELL.match(self._read(notebook, **self.address(notebook, cell_id)).text)
        if found is not None:
            return int(found[1])
        ids = [cell.get("id") for cell in self._before.cells]
        return ids.index(cell_id) if cell_id in ids else len(ids)

    def address(self, notebook: str, cell_id: str) -> Mapping[str, Any]:
        if not cell_id.startswith(_BEGINS):
            return {"cell_id": cell_id}
        text = cell_id.removeprefix(_BEGINS)
        for at in range(len(self.kinds(notebook))):
            if self._read(notebook, cell_index=at).source.startswith(text):
                return {"cell_index": at}
        return {"cell_id": "nowhere"}

    def source(self, notebook: str, cell_id: str) -> str:
        return self._read(notebook, **self.address(notebook, cell_id)).source

    def with_outputs(self, notebook: str) -> Sequence[str]:
        return [cell.id for cell in self._before.cells if cell.get("outputs")]

    def _read(self, notebook: str, **address: Any) -> Answer:
        cell = {"notebook_name": notebook, "include_outputs": False, **address}
        return self._mcp.call("read_cell", cell)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _calls(reply: Reply) -> list[Mapping[str, Any]]:
    return [block for block in reply if block["type"] == "tool_use"]


@dataclass(frozen=True)
class PeerPlayer:
    """Plays tasks in the peer's JupyterLab, as `play.Player` does in ours."""

    lab: Lab
    browser: Callable[[], Browser]

    def play(self, task: Task, replies: Sequence[Sequence[Mapping[str, Any]]]) -> Score:
        folder, before = begin(self.lab, task)
        home = f"{task.name}/{NOTEBOOK}"
        replies = [[_without_ids(block) for block in reply] for reply in replies]
        with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
            somebody: Person | None = None
            if task.meanwhile:
                there = person(self.browser(), self.lab.url, self.lab.token, home, folder)
                somebody = stack.enter_context(there)
            self._start_kernel(home, before.notebook)
            mcp = Mcp(self.lab)
            used = mcp.call("use_notebook", {"notebook_name": home, "notebook_path": home})
            for cell_id in task.first:
                mcp.call("execute_cell", {"cell_id": cell_id})
            peer = McpPeer(mcp, home, before.notebook, self._is_busy)
            script = self.lab.script
            script.follow(peer.requests)
            script.begin(replies, task.meanwhile)
            prompts = [f"{used.text}\n\n{task.prompts[0]}", *task.prompts[1:]]
            began = time.monotonic()
            answering = pool.submit(peer.answer, script, prompts, replies)
            attend(script, answering, somebody)
            try:
                answer, failure = answering.result(), ""
            except Exception as error:  # noqa: BLE001 - others are played all the same
                answer, failure = "", f"failed: {type(error).__name__}: {error}"
            seconds = time.monotonic() - began
            if somebody is not None:
                somebody.save()
            _wait_for_saves(folder)
            peer.leave()
            self.lab.close_kernels()
        return scored(
            folder,
            task,
            before,
            somebody,
            answer=answer,
            failure=failure,
            told=peer.results,
            state="failed" if failure else "done",
            model_calls=len(peer.requests),
            tool_calls=peer.calls,
            failed_calls=peer.failed,
            questions=0,
            input_tokens=sum(map(size, peer.requests)),
            output_tokens=0,
            seconds=round(seconds, 1),
            tool_seconds=round(peer.seconds, 1),
        )

    def _is_busy(self) -> bool:
        sessions = self.lab.ask("GET", "api/sessions")
        return any(each["kernel"]["execution_state"] == "busy" for each in sessions)

    def _start_kernel(self, notebook: str, before: NotebookNode) -> None:
        """As JupyterLab does when a notebook is opened; the peer works in the kernel it finds."""
        if any(each["path"] == notebook for each in self.lab.ask("GET", "api/sessions")):
            return
        kernel = before.metadata.get("kernelspec", {}).get("name", "python3")
        session = {"path": notebook, "name": NOTEBOOK, "type": "notebook"}
        self.lab.ask("POST", "api/sessions", {**session, "kernel": {"name": kernel}})


def beside_ours(chosen: Sequence[Task], transcript: str, python: str) -> list[Side]:
    """Ours, and the peer of that environment."""
    ours = []
    for score in played(iter(attempts(chosen, 1)), Answers(transcript=transcript)):
        _tell("ours", score)
        ours.append(score)
    name = f"jupyter_agent {__version__}"
    return [
        Side(name, tokens_of(toolbox().specs()), ours),
        play_all(chosen, transcript, python),
    ]


def play_all(chosen: Sequence[Task], transcript: str, python: str) -> Side:
    """In one JupyterLab of that environment; tells on standard error how far it is."""
    scripts = {task.name: task.transcript(transcript) for task in chosen}
    missing = {task.name: not_offered(task, scripts[task.name]) for task in chosen}
    missing = {name: why for name, why in missing.items() if why}
    scores = []
    with ExitStack() as stack:
        served = stack.enter_context(peer_lab(python))

        @cache
        def browser() -> Browser:
            return stack.enter_context(chromium())

        mcp = Mcp(served)
        player = PeerPlayer(served, browser)
        for task in chosen:
            if task.name not in missing:
                scores.append(player.play(task, scripts[task.name]))
                _tell(NAME, scores[-1])
        return Side(f"{NAME} {mcp.version}", tokens_of(mcp.definitions()), scores, missing)


def _tell(who: str, score: Score) -> None:
    sys.stderr.write(f"{who}: {score.task}: {score.why or 'passed'}\n")


def tokens_of(value: Any) -> int:
    """A token for 4 characters."""
    return len(json.dumps(value)) // 4


def not_offered(task: Task, replies: Sequence[Reply]) -> str:
    """What the task is about that the peer does not claim to have; empty where it is one for it."""
    if task.category == "permission" or task.mode in ("read", "ask"):
        return f"modes that ask or refuse (here `{task.mode}`)"
    guarded = {cell.get("id") for cell in read(task.folder / NOTEBOOK).cells if _is_guarded(cell)}
    inputs = [block["input"] for reply in replies for block in _calls(reply)]
    edits = [edit for input in inputs for edit in (input, *input.get("edits", ()))]
    if any(edit.get("cell_id") in guarded for edit in edits):
        return "cells that only others may change"
    return ""


def _is_guarded(cell: NotebookNode) -> bool:
    """Whether it is locked, or what Papermill wrote."""
    locked = cell.metadata.get("editable", True) is False
    return locked or "injected-parameters" in cell.metadata.get("tags", ())


def _without_ids(value: Any) -> Any:
    """Ids that only our tools tell: a run is waited for where it is begun, and a cell is found by
    how its text begins."""
    if isinstance(value, Mapping):
        return {key: _without_ids(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_ids(each) for each in value]
    if isinstance(value, str) and value.startswith("$cell "):
        return _BEGINS + value.removeprefix("$cell ")
    return "" if value == "$run_id" else value


def _wait_for_saves(folder: Path) -> None:
    """Until no notebook was written for longer than a room takes, since now at the earliest."""
    since = time.time()
    while time.time() - since < _QUIET_S:
        time.sleep(0.1)
        since = max(since, *(file.stat().st_mtime for file in folder.glob("*.ipynb")))
