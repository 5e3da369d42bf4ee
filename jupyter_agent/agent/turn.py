"""What goes into a turn and what comes out of it: its log, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import MessageAdded, Transcript
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
from jupyter_agent.models.base import Model, ServerTool
from jupyter_agent.models.facts import Facts
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.workspace import Workspace

State: TypeAlias = Literal["done", "stopped", "failed"]

Entry: TypeAlias = Event | MessageAdded | Audit | Approval
"""What is written into the log of a turn: what is shown as it is, a message of the history, what
came of a call, a question."""


def events_of(entry: Entry) -> Iterable[Event]:
    """What is shown of an entry."""
    match entry:
        case MessageAdded():
            return ()
        case Audit() | Approval():
            return entry.events
    return (entry,)


class Log(Protocol):
    """Where everything that happens in a turn is written, in order.

    What is given to it is in it, also if the caller is cancelled meanwhile.
    """

    async def append(self, *entries: Entry) -> None:
        """Returns once these are stored, with all that was shown before: all of it or nothing. Then
        they are shown. Without entries: once all that was shown is stored.

        Raises StoreUnavailable; they are stored with what follows then.
        """

    async def show(self, *entries: Entry) -> None:
        """Shows these at once. They are stored soon, or with what is appended next."""


class Answers(Protocol):
    """Where the answers to questions come from."""

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """Answers by approval id, once all are given; one that is missing was not given in time.

        The questions are in the log by then. It may be called more than once in a step.
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
    log: Log
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
