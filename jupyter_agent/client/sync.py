"""The assistant for scripts and notebook cells: each call blocks until it is done, inside a running
event loop, too.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from urllib.parse import quote

from jupyter_agent.choices import Mode, Share
from jupyter_agent.client.chat import Chat
from jupyter_agent.client.runs import CellRuns, is_live
from jupyter_agent.client.servers import (
    Server,
    ServerRefused,
    Unreachable,
    existing,
    find,
    serving,
)
from jupyter_agent.document.cell import Cell, CellType, Change, Output
from jupyter_agent.errors import AgentError, InvalidInput, ModelError, RequestError, tool_error
from jupyter_agent.events import (
    ApprovalRequested,
    CallDenied,
    CellsChanged,
    Continuable,
    Event,
    Notice,
    TextDelta,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
    UsageUpdated,
)
from jupyter_agent.server.wire import event as event_of
from jupyter_agent.text.outputs import output_text

if TYPE_CHECKING:
    from jupyter_agent.agent.approval import Answer

ApprovalAnswer: TypeAlias = "bool | str | Answer"
"""`True` allows it, `False` denies it; a text denies it and tells the model why."""
Approve: TypeAlias = Callable[[ApprovalRequested], ApprovalAnswer]
TurnStatus: TypeAlias = Literal["running", "done", "stopped", "failed"]
CellName: TypeAlias = str | Cell
"""A cell's id, or a cell that was read: with that, an edit is refused (`Conflict`) if the text has
changed since."""

_ALL = 10_000_000
"""Characters of outputs, in effect unlimited."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """The result of running a cell."""

    run_id: str
    cell_id: str
    status: str
    """`ok`, `error`, `timeout`, `interrupted`, `died`, `restarted` or `deleted`."""
    execution_count: int | None
    outputs: Sequence[Output]
    """As in nbformat 4."""
    seconds: float
    saved: bool
    """Whether the outputs are saved."""
    note: str = ""
    """Anything else to know, such as why they are not saved, or may be incomplete."""

    @property
    def ok(self) -> bool:
        """Whether all of its code ran without an error."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """The outputs as text; for an error its name, message and relevant frames."""
        return output_text(self.outputs, limit=_ALL, rows=None)


@dataclass(frozen=True, kw_only=True)
class UndoResult:
    """What an undo took back, and what it left because people changed it since."""

    changes: Sequence[Change]
    conflicts: Sequence[Mapping[str, Any]]
    """With `notebook`, `cell_id`, `why` and `current`, the cell as it is now."""
    message: str


@contextmanager
def _raising(route: str = "") -> Iterator[None]:
    """Turns a server's refusal into the corresponding error."""
    try:
        yield
    except Unreachable as error:
        reason = error.reason or "unreachable"
        raise RequestError(error.status or 503, reason, str(error)) from None
    except ServerRefused as error:
        raise _error(error, route) from None


def _error(refused: ServerRefused, route: str) -> AgentError:
    message, reason, facts = str(refused), refused.reason, refused.facts
    if refused.status == 400 and not reason.startswith("invalid") and route == "chat":
        return ModelError(message, kind=reason)
    named = tool_error(reason, message, facts)
    if named is None or (reason == "not_found" and not route.startswith("notebooks")):
        return RequestError(refused.status or 503, reason or "refused", message, **facts)
    return named


class Door:
    """A notebook and its server, while an agent is open."""

    def __init__(self, notebook: Path, store: Path | None) -> None:
        self.notebook = notebook
        self._store = store
        self._opened = ExitStack()
        self._server: Server | None = None

    def open(self) -> None:
        """Finds the running server of the notebook, or starts one. Raises AgentError."""
        if self._server is None:
            with _raising("notebooks"):
                self.notebook = existing(self.notebook)
                self._server = self._opened.enter_context(serving(self.notebook, self._store))

    def close(self) -> None:
        """Stops the server if it was started for this; `open` works again."""
        self._server = None
        self._opened.close()

    @property
    def server(self) -> Server:
        """Raises AgentError if it is not open, or its own server is no longer the right one."""
        if self._server is None:
            raise InvalidInput("Not open: use `with SyncAgent(...)`, or `open()` and `close()`.")
        if self._server.own and self._store is None:
            with _raising():
                other = find(self.notebook)
            if other is not None:
                raise RequestError(
                    409,
                    "served_elsewhere",
                    f"The Jupyter server at {other.url} was started since and serves that "
                    "notebook, which may be open there. Close this agent and open it again to "
                    "work through that server.",
                )
        return self._server

    def ask(self, method: str, route: str, body: Any = None, version: str | None = None) -> Any:
        """The route's answer. Raises AgentError."""
        headers = {"If-Match": f'"{version}"'} if version is not None else {}
        with _raising(route):
            return self.server.ask(method, route, body, headers=headers)

    def route(self, *more: str) -> str:
        """A route of the notebook."""
        return self.server.route(self.notebook, *more)


class SyncTurn:
    """A question and its answer: iterate over its events, or `wait` for its end.

    The turn has already started. Leaving a loop over it, or Ctrl-C, stops it.
    """

    def __init__(self, chat: Chat, conversation_id: str, approve: Approve | None) -> None:
        self._chat = chat
        self._approve = approve
        self._events = self._read()
        self._asked: dict[str, Mapping[str, Any]] = {}
        self._reading = Lock()
        self._waiting = False
        self._first: Event | None = None
        self._failure: ModelError | None = None
        self.conversation_id = conversation_id
        self.id: str | None = None
        """None until the turn has started."""
        self.state: TurnStatus = "running"
        self.text = ""
        """The text of the answer so far."""
        self.changes: list[Change] = []
        """Its changes so far, in all notebooks."""
        self.denied: list[str] = []
        """Ids of denied calls: by `approve`, or because no one could be asked."""
        self.limit: str | None = None
        """The limit that the answer hit: `steps`, `tokens`, `cost` or `month`."""
        self.usage = Usage()

    def begin(self) -> Self:
        """Starts the turn. Raises AgentError if that fails."""
        if self._first is None and self.id is None:
            self._first = next(self._events)
        return self

    def __iter__(self) -> Iterator[Event]:
        """The events not read yet, to the end.

        Raises ModelError after the last one if the turn failed.
        """
        try:
            while (event := self.next()) is not None:
                yield event
        finally:
            if self.state == "running":
                self.stop()

    def wait(self) -> Self:
        """Reads to the end. Raises ModelError if the turn failed."""
        for _ in self:
            pass
        return self

    def stop(self) -> None:
        """Stops the turn and the run that it started. Raises AgentError."""
        self.halt()
        with self._reading:
            if self.begun:
                deque(self._events, maxlen=0)

    def halt(self) -> None:
        """Has the server stop it; another thread may be reading its events. Raises AgentError."""
        with _raising("chat"):
            self._chat.stop()

    def next(self) -> Event | None:
        """The next event; None at the end. Answers open questions first. Raises ModelError."""
        if self._waiting and self._approve is not None:
            self.settle(self._approve)
        if self._first is not None:
            event, self._first = self._first, None
            return event
        with self._reading:
            read = next(self._events, None)
        if read is None and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return read

    @property
    def begun(self) -> bool:
        """Whether the turn has started."""
        return self.id is not None

    @property
    def waits(self) -> bool:
        """Whether it has an open question."""
        return self._waiting

    def questions(self) -> list[list[ApprovalRequested]]:
        """The open questions by group, each after those that it depends on."""
        self._waiting = False
        with _raising("chat"):
            groups = self._chat.questions()
        return [
            [
                ApprovalRequested(approval_id=each["id"], call_id=each["call_id"], approval=each)
                for each in group
            ]
            for group in groups
        ]

    def reply(self, verdicts: Sequence[tuple[ApprovalRequested, ApprovalAnswer]]) -> None:
        """Answers the questions of a group. Raises AgentError."""
        with _raising("chat"):
            self._chat.reply([_reply(asked, verdict) for asked, verdict in verdicts])

    def settle(self, approve: Approve) -> None:
        """Answers the open questions. Raises AgentError, and what `approve` raises."""
        for group in self.questions():
            self.reply([(asked, approve(asked)) for asked in group])

    def _read(self) -> Iterator[Event]:
        with _raising("chat"):
            for chunk in self._chat.chunks():
                event = event_of(chunk)
                if isinstance(event, ApprovalRequested):
                    approval = self._asked.get(event.approval_id, {})
                    event = ApprovalRequested(
                        approval_id=event.approval_id, call_id=event.call_id, approval=approval
                    )
                self._note(event)
                yield event

    def _note(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self.id, self.conversation_id = event.turn_id, event.conversation_id
            case TextDelta():
                self.text += event.delta
            case CellsChanged():
                self.changes += [Change.from_json(each) for each in event.changes]
            case CallDenied():
                self.denied.append(event.call_id)
            case Notice(kind="approval"):
                self._asked[event.facts["approval"]["id"]] = event.facts["approval"]
                self._waiting = True
            case Notice(kind="failed"):
                self._failure = ModelError(event.text, kind=str(event.facts.get("reason")))
            case Continuable():
                self.limit = event.limit
            case UsageUpdated():
                self.usage = event.usage
            case TurnFinished(state=None):
                self.state, self.usage = "done", event.usage
            case TurnAborted():
                self.state = "stopped"
            case TurnFailed():
                self.state = "failed"
                kind = self._failure.kind if self._failure else "failed"
                self._failure = ModelError(event.error, kind=kind)


def _reply(asked: ApprovalRequested, verdict: ApprovalAnswer) -> dict[str, Any]:
    if isinstance(verdict, bool):
        answer: dict[str, Any] = {"approved": verdict}
    elif isinstance(verdict, str):
        answer = {"approved": False, "reason": verdict}
    else:
        answer = asdict(verdict)
    return {"id": asked.approval_id, **answer}


class SyncNotebook:
    """The live notebook, unsaved typing of people included: read, edit and run it as yourself."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._name = f"Python {secrets.token_hex(3)}"
        """The author of this agent's edits and runs in the journal; unique."""
        self._undone: set[str] = set()
        """Ids of turns."""

    @property
    def path(self) -> Path:
        """The notebook's file."""
        return self._door.notebook

    def cells(self) -> list[Cell]:
        """The cells as they are now, with outputs."""
        return [_cell(each) for each in self._door.ask("GET", self._door.route())["cells"]]

    def cell(self, cell_id: str) -> Cell:
        """One cell as it is now. Raises CellNotFound."""
        return _cell(self._door.ask("GET", self._door.route("cells", cell_id)))

    def stale(self) -> dict[str, str]:
        """Why outputs are out of date, by cell id."""
        cells = self._door.ask("GET", f"{self._door.route()}?outputs=none")["cells"]
        return {each["id"]: each["stale_why"] for each in cells if each["stale"]}

    def text(self, *, focus: str | None = None) -> str:
        """The notebook as a model reads it; for a large one, mostly the cells around `focus`."""
        around = f"&focus={quote(focus, '')}" if focus else ""
        return str(self._door.ask("GET", f"{self._door.route()}?format=text{around}"))

    def insert(
        self,
        source: str,
        *,
        type: CellType = "code",
        after: CellName | None = None,
        before: CellName | None = None,
        index: int | None = None,
    ) -> Cell:
        """Inserts a cell, at the end if no position is given; `index` starts at 0."""
        body = {"source": source, "type": type, **_place(after, before, index)}
        return _cell(self._door.ask("POST", self._edits("cells"), body))

    def edit(
        self,
        cell: CellName,
        source: str | None = None,
        *,
        old_string: str | None = None,
        new_string: str | None = None,
        type: CellType | None = None,
    ) -> Cell:
        """Gives a cell the text `source`, or replaces `old_string`, which has to occur once in it,
        by `new_string`; returns the cell afterwards.

        Raises Conflict, NotOnce, CellNotFound, InvalidInput, Locked, Busy, NotConfirmed.
        """
        given = {
            "source": source,
            "old_string": old_string,
            "new_string": new_string,
            "type": type,
        }
        body = {name: value for name, value in given.items() if value is not None}
        route = self._edits("cells", _id(cell))
        return _cell(self._door.ask("PATCH", route, body, _version(cell)))

    def delete(self, cell: CellName) -> None:
        """Deletes a cell. Raises Conflict, CellNotFound, Locked, Busy, NotConfirmed."""
        self._door.ask("DELETE", self._edits("cells", _id(cell)), None, _version(cell))

    def move(
        self,
        cell: CellName,
        *,
        after: CellName | None = None,
        before: CellName | None = None,
        index: int | None = None,
    ) -> Cell:
        """Moves a cell; `index` starts at 0, not counting the cell itself."""
        route = self._edits("cells", _id(cell), "move")
        return _cell(self._door.ask("POST", route, _place(after, before, index), _version(cell)))

    def undo(self) -> UndoResult:
        """Takes back this agent's own edits and runs, without those of a model: texts, outputs and
        execution counts. Later changes by people stay and are conflicts. Raises InvalidInput if
        there is nothing to undo.
        """
        server = self._door.server
        turns = self._door.ask("GET", f"turns?notebook={quote(server.path(self.path))}")["turns"]
        ids = [turn["id"] for turn in turns if turn["client"] == self._name]
        answers = [
            self._door.ask("POST", f"turns/{id}/undo", {}) for id in ids if id not in self._undone
        ]
        self._undone.update(ids)
        if not answers:
            raise InvalidInput("This agent has not edited or run anything since the last undo.")
        return _undone(answers)

    def _edits(self, *more: str) -> str:
        return f"{self._door.route(*more)}?by={quote(self._name)}"

    def run(
        self,
        *cells: CellName,
        keep_going: bool = False,
        timeout: float | None = None,
        keep_kernel: bool = True,
    ) -> list[CellResult]:
        """Runs cells in this order, all code cells if none are named, up to the first that fails
        unless `keep_going` is set or the cell is tagged `raises-exception`. The outputs are in the
        notebook afterwards.

        After `timeout` seconds a cell is interrupted; Ctrl-C interrupts it, too. With
        `keep_kernel=False` a kernel started by this call is shut down, unless someone else uses
        it. If the agent had to start a server, the kernel is a new one and stops when the agent is
        closed.
        """
        runs = self.begin(cells, keep_going, timeout, keep_kernel)
        try:
            return self.ended(runs)
        except KeyboardInterrupt:
            runs.interrupt()
            raise

    def begin(
        self, cells: Sequence[CellName], keep_going: bool, timeout: float | None, keep_kernel: bool
    ) -> CellRuns:
        """Runs that are not requested until iterated over."""
        if cells:
            chosen = [_id(cell) for cell in cells]
        else:
            every = self.cells()
            chosen = [cell.id for cell in every if cell.type == "code" and cell.source.strip()]
        return CellRuns(
            self._door.server,
            self._door.notebook,
            chosen,
            by=self._name,
            keep_going=keep_going,
            timeout=timeout,
            keep_kernel=keep_kernel,
        )

    def ended(self, runs: CellRuns) -> list[CellResult]:
        """Runs the cells and returns their results."""
        with _raising("notebooks"):
            return [_result(run) for run in runs if not is_live(run)]

    def interrupt(self) -> None:
        """Interrupts the notebook's kernel."""
        self._door.ask("POST", self._door.route("kernel"), {"action": "interrupt"})

    def restart(self) -> None:
        """Restarts the notebook's kernel: its variables are lost."""
        self._door.ask("POST", self._door.route("kernel"), {"action": "restart"})

    def verify(self) -> dict[str, Any]:
        """Runs a copy from the top in a kernel of its own and compares the outputs. Returns the
        answer of `POST notebooks/{path}/verify`, with `ok`.
        """
        answer: dict[str, Any] = self._door.ask("POST", self._door.route("verify"), {})
        return answer


class SyncAgent:
    """The assistant in one notebook. It works through the running Jupyter server that serves the
    notebook, including unsaved typing, or else starts a server, which stops with the agent.
    """

    def __init__(
        self,
        notebook: str | os.PathLike[str],
        *,
        model: str | None = None,
        mode: Mode = "ask",
        allow: Sequence[str] = (),
        approve: Approve | None = None,
        max_steps: int | None = None,
        share: Share = "all",
        conversation: str | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        """`model`: `provider:model`, by default the server's. `mode`: `read` changes nothing,
        `ask` asks before each change and run, `edit` only before runs, `auto` never. `approve`
        answers questions; without it they are denied. `allow`: tools that need no approval.
        `share`: what models may see. `conversation`: id of one to continue. `store`: a folder for
        a separate store, which always comes with a separate server.
        """
        self._door = Door(Path(notebook), Path(store) if store is not None else None)
        self._choices = {
            "model": model,
            "mode": mode,
            "allow": list(allow),
            "max_steps": max_steps,
            "share": share,
            "on_approval": None if approve else "decline",
        }
        self._approve = approve
        self._turns: list[SyncTurn] = []
        """The running ones, and the last one."""
        self.conversation_id = conversation or f"py-{secrets.token_hex(8)}"
        self.notebook = SyncNotebook(self._door)

    def open(self) -> Self:
        """As `with` does. Raises NotebookNotFound, and RequestError if no server can be used."""
        self._door.open()
        return self

    def close(self) -> None:
        """Stops running turns, and the server if it was started for this agent."""
        try:
            for turn in self._turns:
                if turn.begun and turn.state == "running":
                    turn.stop()
        finally:
            self._door.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._door.server.url

    def ask(
        self,
        prompt: str,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        allow: Sequence[str] | None = None,
        max_steps: int | None = None,
    ) -> SyncTurn:
        """Asks in the agent's conversation; missing options default to the agent's.

        Raises ModelError if the model cannot be used, RequestError, InvalidInput.
        """
        return self.turn(prompt, model=model, mode=mode, allow=allow, max_steps=max_steps).begin()

    def turn(self, prompt: str, **choices: Any) -> SyncTurn:
        """A turn that has not started."""
        if not prompt.strip():
            raise InvalidInput("Say what you want: the prompt is empty.")
        given = {name: value for name, value in choices.items() if value is not None}
        merged = {**self._choices, **given}
        server = self._door.server
        body = {
            "id": self.conversation_id,
            "messages": [{"role": "user", "content": prompt}],
            "notebook": server.path(self._door.notebook),
            **{name: value for name, value in merged.items() if value is not None},
        }
        turn = SyncTurn(Chat(server, body), self.conversation_id, self._approve)
        self._turns = [*(each for each in self._turns if each.state == "running"), turn]
        return turn

    def undo(self, turn: SyncTurn | str | None = None) -> UndoResult:
        """Takes back the changes of a turn, by default the agent's last one. Later changes by
        people stay and are conflicts; kernels keep their variables.
        """
        return _undone([self._door.ask("POST", f"turns/{self._turn_id(turn)}/undo", {})])

    def keep(self, turn: SyncTurn | str | None = None) -> None:
        """Marks the changes of a turn as reviewed, by default the agent's last one."""
        self._door.ask("POST", f"turns/{self._turn_id(turn)}/accept", {})

    def changes(self) -> dict[str, list[Change]]:
        """Changes of your turns in the notebook that no one has kept or undone, by turn id; without
        outputs.
        """
        found: dict[str, list[Change]] = {}
        for each in self._door.ask("GET", self._door.route("changes")):
            found.setdefault(each["turn_id"], []).append(_change(each))
        return found

    def _turn_id(self, turn: SyncTurn | str | None) -> str:
        chosen = turn if turn is not None else self._turns[-1] if self._turns else None
        id = chosen.id if isinstance(chosen, SyncTurn) else chosen
        if id is None:
            raise InvalidInput("No question was asked yet: name the turn; `changes()` has the ids.")
        return quote(id, "")


def _cell(value: Mapping[str, Any]) -> Cell:
    return Cell(
        id=value["id"],
        index=value["index"],
        type=value["type"],
        source=value["source"],
        metadata=value["metadata"],
        outputs=value["outputs"],
        execution_count=value["execution_count"],
    )


def _result(run: Mapping[str, Any]) -> CellResult:
    return CellResult(
        run_id=run["run_id"],
        cell_id=run["cell_id"],
        status=run["status"],
        execution_count=run["execution_count"],
        outputs=run["outputs"],
        seconds=run["seconds"],
        saved=run["saved"] is True,
        note=run.get("note", ""),
    )


def _undone(answers: Sequence[Mapping[str, Any]]) -> UndoResult:
    return UndoResult(
        changes=[_change(each) for answer in answers for each in answer["undone"]],
        conflicts=[each for answer in answers for each in answer["conflicts"]],
        message=answers[0]["message"],
    )


def _change(value: Mapping[str, Any]) -> Change:
    sides = {
        name: value[name] and {"outputs": [], "execution_count": None, **value[name]}
        for name in ("before", "after")
    }
    return Change.from_json({**value, **sides})


def _id(cell: CellName) -> str:
    return cell.id if isinstance(cell, Cell) else cell


def _version(cell: CellName) -> str | None:
    return cell.version if isinstance(cell, Cell) else None


def _place(after: CellName | None, before: CellName | None, index: int | None) -> dict[str, Any]:
    given = {
        "after": None if after is None else _id(after),
        "before": None if before is None else _id(before),
        "index": index,
    }
    return {name: value for name, value in given.items() if value is not None}
