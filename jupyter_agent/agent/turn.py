"""What goes into a turn and what comes out of it: moments, and how it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.limits import Limit, Limits, Meter
from jupyter_agent.agent.options import TurnOptions
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.errors import ModelError
from jupyter_agent.events import (
    Event,
    FinishReason,
    Notice,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    Usage,
)
from jupyter_agent.models.base import Message, Model, ServerTool
from jupyter_agent.models.facts import Facts
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.workspace import Workspace

State: TypeAlias = Literal["done", "stopped", "failed"]


class Answers(Protocol):
    """Where the answers to questions come from."""

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """Answers by approval id, once all are given; one that is missing was not given in time.

        The questions were yielded before it is called. It may be called more than once in a step.
        """


class Authors(Protocol):
    """Knows who changed cells."""

    async def __call__(self, news: News) -> str:
        """Whose changes these are, as a sentence; empty if that is not known."""


async def _never(model: Model) -> str | None:
    return None


async def _unknown(news: News) -> str:
    return ""


class Stop:
    """A wish to stop a turn. It can be made at any time, also before the turn begins."""

    def __init__(self) -> None:
        self.requested = False
        self._act: Callable[[], object] | None = None

    def request(self) -> None:
        """Stops the turn; asking twice is asking once."""
        if not self.requested:
            self.requested = True
            if self._act is not None:
                self._act()

    def calls(self, act: Callable[[], object]) -> None:
        """Names what stops the turn."""
        self._act = act


@dataclass(frozen=True, kw_only=True)
class Fallback:
    """Another model, which answers where the turn would fail else, or the first one refuses to."""

    model: Model
    facts: Facts = Facts()
    """What is known of it."""
    notices: tuple[Notice, ...] = ()
    """What a person is told before it is sent anything."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Everything that one turn is made of."""

    model: Model
    transcript: Transcript
    """Ends with the user's message."""
    dispatcher: Dispatcher
    work: Workspace
    policy: Policy
    system: str
    answers: Answers
    options: TurnOptions = TurnOptions()
    authors: Authors = _unknown
    limits: Limits = Limits()
    server_tools: tuple[ServerTool, ...] = ()
    """What services may do themselves for their models."""
    facts: Facts = Facts()
    """What is known of the model."""
    fallback: Fallback | None = None
    """None also once it answers."""
    container: str | None = None
    """Where the model's service ran code so far: the next step finds its files there."""
    stop: Stop = field(default_factory=Stop)
    exhausted: Callable[[Model], Awaitable[str | None]] = _never
    """What was used where the user may not use more of that model this month, as a part of a
    sentence."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before a retry; a test has its own clock."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a turn ended. Its event is the turn's last."""

    state: State
    event: TurnFinished | TurnAborted | TurnFailed
    stop_reason: str
    """The model's own word, or `stopped`, or the kind of the fault."""
    usage: Usage
    steps: int
    limit: Limit | None = None
    """The limit that made the last step the last."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Of a failure: `said`, the service's own words, `until`, when to ask again, and the service's
    `request_id`."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The last events of the turn; the notice keeps a failure in the history of the answer."""
        if not isinstance(self.event, TurnFailed):
            return (self.event,)
        return (failure(self.stop_reason, self.event.error, self.facts), self.event)

    @property
    def why(self) -> str:
        """Why the turn ended, for the server's operator."""
        return f"{self.stop_reason} ({self.limit} limit)" if self.limit else self.stop_reason


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What belongs together: all of it is stored at once, or nothing."""

    events: tuple[Event, ...] = ()
    messages: tuple[Message, ...] = ()
    """Of the history, in order."""
    audits: tuple[Audit, ...] = ()
    questions: tuple[Approval, ...] = ()
    """Put to a person now; the turn waits for their answers."""
    streamed: bool = False
    """It may be shown before it is stored: what a model or a cell is writing, and what is stored
    with the next request to the model.
    """
    ending: Ending | None = None
    """In the turn's last moment."""

    def __add__(self, later: Moment) -> Moment:
        return Moment(
            events=self.events + later.events,
            messages=self.messages + later.messages,
            audits=self.audits + later.audits,
            questions=self.questions + later.questions,
            streamed=self.streamed and later.streamed,
            ending=later.ending,
        )


class Outbox:
    """Moments on their way from the tasks of a turn to whoever iterates over it."""

    def __init__(self) -> None:
        self._held: Moment | None = None
        self._moments: deque[Moment] = deque()
        self._waiting: list[asyncio.Future[None]] = []
        self._taking: list[asyncio.Future[None]] = []
        self._changed = asyncio.Event()
        self._closed = False

    def hold(self, moment: Moment) -> None:
        """Keeps a moment, which becomes a part of the next one that is told."""
        self._held = moment if self._held is None else self._held + moment

    async def tell(self, moment: Moment) -> None:
        """Returns when the moment is dealt with. It arrives also if the caller is cancelled."""
        held, self._held = self._held, None
        self._moments.append(moment if held is None else held + moment)
        if not self._closed:
            taken = asyncio.get_running_loop().create_future()
            self._waiting.append(taken)
            self._changed.set()
            await taken

    async def flush(self) -> None:
        """Tells what was held, if anything was."""
        if self._held is not None:
            await self.tell(Moment())

    async def next(self) -> Moment | None:
        """All that was told since the last call, as one moment; None at the end."""
        while not self._moments:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        self._taking, self._waiting = self._waiting, []
        moment = self._moments.popleft()
        while self._moments and moment.ending is None and self._moments[0].ending is None:
            moment += self._moments.popleft()
        return moment

    def taken(self) -> None:
        """What `next` returned is dealt with."""
        for future in self._taking:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self._closed = True
        self._changed.set()
        for future in (*self._taking, *self._waiting):
            if not future.done():
                future.set_result(None)


def finished(reason: FinishReason, stop_reason: str, meter: Meter) -> Ending:
    """The turn came to its end by itself, or by a limit."""
    event = TurnFinished(
        finish_reason=reason,
        stop_reason=stop_reason,
        steps=meter.steps,
        usage=meter.usage,
        step_limit_reached=meter.limit == "steps",
        budget_reached=meter.limit in ("tokens", "cost", "month"),
    )
    return _ending("done", event, stop_reason, meter)


def stopped(meter: Meter) -> Ending:
    """A person stopped it."""
    return _ending("stopped", TurnAborted(), "stopped", meter)


def failed(error: ModelError, meter: Meter) -> Ending:
    """The model service failed for good."""
    request = f" (request {error.request_id})" if error.request_id else ""
    facts: dict[str, Any] = {}
    if error.said:
        facts["said"] = error.said
    if error.until:
        facts["until"] = error.until.isoformat()
    if error.request_id:
        facts["request_id"] = error.request_id
    event = TurnFailed(error=f"{error.message}{request}")
    return replace(_ending("failed", event, error.kind, meter), facts=facts)


def failure(reason: str, error: str, facts: Mapping[str, Any] | None = None) -> Notice:
    """Why a turn failed, as a part of its answer; the error event itself is none."""
    return Notice(kind="failed", text="", facts={"reason": reason, "error": error, **(facts or {})})


def broken(error: str, stop_reason: str) -> Ending:
    """It could not continue because of a fault on our side; how far it came is not known."""
    event = TurnFailed(error=error)
    return Ending(state="failed", event=event, stop_reason=stop_reason, usage=Usage(), steps=0)


def _ending(
    state: State, event: TurnFinished | TurnAborted | TurnFailed, stop_reason: str, meter: Meter
) -> Ending:
    return Ending(
        state=state,
        event=event,
        stop_reason=stop_reason,
        usage=meter.usage,
        steps=meter.steps,
        limit=meter.limit,
    )
