"""jupyter-mcp-server under the script.

It runs as an extension of its own JupyterLab, with real-time collaboration, in an environment of
its own. A loop plays a task's script with its tools (`counterparts`), and the same person does the
same meanwhile.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from nbeval.check import kernel_of
from nbeval.counterparts import COUNTERPARTS, EDITS, READS, Failed
from nbeval.person import Person, chromium, person
from nbeval.play import NOTEBOOK, attend, begin, scored_peer, wait_for_saves
from nbeval.score import Score, Snapshot
from nbeval.script import Ahead, Reply, Script, beginning, calls_in
from nbeval.servers import Lab, peer_lab
from nbeval.spent import tokens_of
from nbeval.tasks import Task
from tests.mcp_client import McpClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FAILED = re.compile(r"\[(?:TIMEOUT )?ERROR|Failed to |'[^\n]*' (?:not found|is not connected)")
"""How results begin that are errors, though they are not marked as such."""
_CELL = re.compile(r"=+Cell (\d+) \|")
_ROW = re.compile(r"^\d+\t(\w+)\t", re.MULTILINE)


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
        self.version, self.instructions = self._client.version, self._client.instructions

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
        self,
        mcp: Mcp,
        script: Script,
        home: str,
        before: Snapshot,
        is_busy: Callable[[], bool],
    ) -> None:
        self.home = home
        self.language = before.language
        self.later: Sequence[Mapping[str, Any]] = ()
        self.made: list[Any] = []
        self.requests: list[Mapping[str, Any]] = []
        """To the model, with all messages up to each."""
        self.results: list[str] = []
        self.calls = self.failed = 0
        self.seconds = 0.0
        self._mcp = mcp
        self._script = script
        self._before = before
        self._ahead = Ahead(script, is_busy)
        self._messages: list[dict[str, Any]] = []
        self._asked = False
        """Whether the model has not called a tool since it was asked last."""
        self._has_read = False
        self._is_stuck = False
        """Whether code does not end, which nothing but a restart helps against."""
        self._used = {home}
        self._active = home

    def answer(self, prompts: Sequence[str], replies: Sequence[Reply]) -> str:
        """All that the model says while it plays the script, a turn a prompt."""
        said = []
        for prompt in prompts:
            self._messages.append({"role": "user", "content": [_text(prompt)]})
            called = True
            while called:
                self.think()
                reply = self._ahead.next()
                texts = [block for block in reply if block["type"] == "text"]
                calls = calls_in(reply)
                said += [block["text"] for block in texts]
                rest = calls_in(*replies[self._script.asked :])
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
        ended = self._ahead.take(wait)
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
        ids = [cell.get("id") for cell in self._before.notebook.cells]
        return ids.index(cell_id) if cell_id in ids else len(ids)

    def address(self, notebook: str, cell_id: str) -> Mapping[str, Any]:
        text = beginning(cell_id)
        if text is None:
            return {"cell_id": cell_id}
        for at in range(len(self.kinds(notebook))):
            if self._read(notebook, cell_index=at).source.startswith(text):
                return {"cell_index": at}
        return {"cell_id": "nowhere"}

    def source(self, notebook: str, cell_id: str) -> str:
        return self._read(notebook, **self.address(notebook, cell_id)).source

    def with_outputs(self, notebook: str) -> Sequence[str]:
        return self._before.with_outputs

    def _read(self, notebook: str, **address: Any) -> Answer:
        cell = {"notebook_name": notebook, "include_outputs": False, **address}
        return self._mcp.call("read_cell", cell)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@contextmanager
def mcp_player(python: str) -> Iterator[McpPlayer]:
    """In one JupyterLab of that environment."""
    with ExitStack() as stack:
        served = stack.enter_context(peer_lab(python))

        @cache
        def browser() -> Browser:
            return stack.enter_context(chromium())

        mcp = Mcp(served)
        yield McpPlayer(
            f"jupyter-mcp-server {mcp.version}",
            mcp.instructions,
            mcp.definitions(),
            served,
            browser,
        )


@dataclass(frozen=True)
class McpPlayer:
    """Plays tasks in the peer's JupyterLab, as `play.Player` does in ours."""

    name: str
    instructions: str
    """Of the server."""
    tools: Sequence[Mapping[str, Any]]
    lab: Lab
    browser: Callable[[], Browser]

    @property
    def definitions(self) -> int:
        return tokens_of(self.tools)

    def lacks(self, replies: Sequence[Reply]) -> str:
        return ""

    def play(self, task: Task, replies: Sequence[Reply]) -> Score:
        folder, before = begin(self.lab, task)
        home = f"{task.name}/{NOTEBOOK}"
        with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
            somebody: Person | None = None
            if task.meanwhile:
                there = person(self.browser(), self.lab.url, self.lab.token, home, folder)
                somebody = stack.enter_context(there)
            self._start_kernel(home, kernel_of(before.notebook))
            mcp = Mcp(self.lab)
            used = mcp.call("use_notebook", {"notebook_name": home, "notebook_path": home})
            for cell_id in task.first:
                mcp.call("execute_cell", {"cell_id": cell_id})
            script = self.lab.script
            peer = McpPeer(mcp, script, home, before, self.lab.is_busy)
            script.follow(peer.requests)
            script.begin(replies, task.meanwhile)
            prompts = [f"{used.text}\n\n{task.prompts[0]}", *task.prompts[1:]]
            began = time.monotonic()
            answering = pool.submit(peer.answer, prompts, replies)
            attend(script, answering, somebody)
            try:
                answer, failure = answering.result(), ""
            except Exception as error:  # noqa: BLE001 - others are played all the same
                answer, failure = "", f"failed: {type(error).__name__}: {error}"
            seconds = time.monotonic() - began
            if somebody is not None:
                somebody.save()
            wait_for_saves(folder)
            peer.leave()
            self.lab.close_kernels()
        return scored_peer(
            folder,
            task,
            before,
            somebody,
            answer=answer,
            failure=failure,
            told=peer.results,
            requests=[
                {"system": self.instructions, "tools": self.tools, **each} for each in peer.requests
            ],
            tool_calls=peer.calls,
            failed_calls=peer.failed,
            seconds=seconds,
            tool_seconds=round(peer.seconds, 1),
        )

    def _start_kernel(self, notebook: str, kernel: str) -> None:
        """As JupyterLab does when a notebook is opened; the peer works in the kernel it finds."""
        if any(each["path"] == notebook for each in self.lab.ask("GET", "api/sessions")):
            return
        session = {"path": notebook, "name": NOTEBOOK, "type": "notebook"}
        self.lab.ask("POST", "api/sessions", {**session, "kernel": {"name": kernel}})
