"""A turn as a script follows it: its events, its questions and what it came to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from jupyter_agent.client.chat import Chat
from jupyter_agent.client.door import raising
from jupyter_agent.document.cell import Change
from jupyter_agent.errors import ModelError
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

if TYPE_CHECKING:
    from jupyter_agent.agent.approval import Answer

ApprovalAnswer: TypeAlias = "bool | str | Answer"
"""`True` allows it, `False` denies it; a text denies it and tells the model why."""
Approve: TypeAlias = Callable[[ApprovalRequested], ApprovalAnswer]
TurnStatus: TypeAlias = Literal["running", "done", "stopped", "failed"]


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
        with raising("chat"):
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
        with raising("chat"):
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
        with raising("chat"):
            self._chat.reply([_reply(asked, verdict) for asked, verdict in verdicts])

    def settle(self, approve: Approve) -> None:
        """Answers the open questions. Raises AgentError, and what `approve` raises."""
        for group in self.questions():
            self.reply([(asked, approve(asked)) for asked in group])

    def _read(self) -> Iterator[Event]:
        with raising("chat"):
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
