"""The parts of a turn, its log, and its ending."""

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
from jupyter_agent.legible import ModelText
from jupyter_agent.models.base import Model, ServerTool
from jupyter_agent.models.facts import Facts
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.workspace import Workspace

State: TypeAlias = Literal["done", "stopped", "failed"]

Entry: TypeAlias = Event | MessageAdded | Audit | Approval
"""An entry in the log of a turn: an event to show as it is, a message of the history, the outcome
of a call, or a question."""


def events_of(entry: Entry) -> Iterable[Event]:
    """The events that followers of the turn see for an entry."""
    match entry:
        case MessageAdded():
            return ()
        case Audit() | Approval():
            return entry.events
    return (entry,)


class Log(Protocol):
    """The record of everything that happens in a turn, in order.

    Entries given to it are logged even if the caller is cancelled.
    """

    async def append(self, *entries: Entry) -> None:
        """Store the entries, with all that were shown before, in one transaction; then show them.
        Without entries, store all that were shown.

        Raises StoreUnavailable; the entries are then stored with the next ones.
        """

    async def show(self, *entries: Entry) -> None:
        """Show the entries at once. They are stored soon, or with the next `append`."""


class Answers(Protocol):
    """The source of the answers to questions."""

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """Answers by approval id, once all are there; one that did not come in time is missing.

        The questions must be in the log by then. Can be called more than once in a step.
        """


class Authors(Protocol):
    """Finds out who changed cells."""

    async def __call__(self, news: News) -> str:
        """Who made these changes, as a sentence; empty if that is unknown."""


async def _never_exhausted(model: Model) -> str | None:
    return None


async def _unknown_authors(news: News) -> str:
    return ""


class Stop:
    """A request to stop a turn. It can be made at any time, even before the turn starts."""

    def __init__(self) -> None:
        self.requested = False
        self._act: Callable[[], object] | None = None

    def request(self) -> None:
        """Stop the turn. Further requests have no effect."""
        if not self.requested:
            self.requested = True
            if self._act is not None:
                self._act()

    def set_action(self, act: Callable[[], object]) -> None:
        """Set the function that stops the turn."""
        self._act = act


@dataclass(frozen=True, kw_only=True)
class Fallback:
    """Another model, which answers if the turn would fail otherwise or the first model refuses."""

    model: Model
    facts: Facts = Facts()
    """Known facts about the model."""
    notices: tuple[Notice, ...] = ()
    """Notices to show before anything is sent to it."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Everything that one turn needs."""

    model: Model
    transcript: Transcript
    """Ends with the user's message."""
    dispatcher: Dispatcher
    work: Workspace
    policy: Policy
    system: ModelText
    log: Log
    answers: Answers
    options: TurnOptions = TurnOptions()
    authors: Authors = _unknown_authors
    limits: Limits = Limits()
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that services run themselves for their models."""
    facts: Facts = Facts()
    """Known facts about the model."""
    fallback: Fallback | None = None
    """None if there is no other model, and once it has taken over."""
    container: str | None = None
    """Id of the container in which the model's service ran code; the next step finds its files
    there."""
    stop: Stop = field(default_factory=Stop)
    why_exhausted: Callable[[Model], Awaitable[str | None]] = _never_exhausted
    """The usage of the month, as part of a sentence, if the user may use no more of that model this
    month; None otherwise."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before a retry; a test has its own clock."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a turn ended, with the turn's last event."""

    state: State
    event: TurnFinished | TurnAborted | TurnFailed
    stop_reason: str
    """The model's stop reason, or `stopped`, or the kind of the error."""
    usage: Usage
    steps: int
    limit: Limit | None = None
    """The limit that made the last step the last."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For a failure: `said`, the service's own words; `until`, when to ask again; and the service's
    `request_id`."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The last events of the turn; the notice keeps a failure in the history of the answer."""
        if not isinstance(self.event, TurnFailed):
            return (self.event,)
        return (failure_notice(self.stop_reason, self.event.error, self.facts), self.event)

    @property
    def log_reason(self) -> str:
        """Why the turn ended, for the server's operator."""
        return f"{self.stop_reason} ({self.limit} limit)" if self.limit else self.stop_reason


def finish_ending(reason: FinishReason, stop_reason: str, meter: Meter) -> Ending:
    """The ending of a turn that the model or a limit finished."""
    event = TurnFinished(
        finish_reason=reason,
        stop_reason=stop_reason,
        steps=meter.steps,
        usage=meter.usage,
        step_limit_reached=meter.limit == "steps",
        budget_reached=meter.limit in ("tokens", "cost", "month"),
    )
    return _ending("done", event, stop_reason, meter)


def stop_ending(meter: Meter) -> Ending:
    """The ending of a turn that a person stopped."""
    return _ending("stopped", TurnAborted(), "stopped", meter)


def model_failure_ending(error: ModelError, meter: Meter) -> Ending:
    """The ending of a turn whose model service failed for good."""
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


def failure_notice(reason: str, error: str, facts: Mapping[str, Any] | None = None) -> Notice:
    """Why a turn failed, as a part of its answer; the error event itself is not part of that."""
    return Notice(kind="failed", text="", facts={"reason": reason, "error": error, **(facts or {})})


def internal_failure_ending(error: str, stop_reason: str) -> Ending:
    """The ending of a turn that our own fault broke off; its usage is unknown."""
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
