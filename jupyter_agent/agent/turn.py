"""What a turn is made of, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jupyter_agent.agent.approval import Ask
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.limits import Limit, Limits, Meter
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Event, FinishReason, TurnAborted, TurnFailed, TurnFinished, Usage
from jupyter_agent.models.base import Model
from jupyter_agent.models.facts import Facts
from jupyter_agent.workspace.workspace import Workspace

Emit: TypeAlias = Callable[[Event], Awaitable[None]]
"""Stores an event and tells it."""


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
    emit: Emit
    ask: Ask
    limits: Limits = Limits()
    facts: Facts = Facts()
    """What is known of the model."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before a retry; a test has its own clock."""


State: TypeAlias = Literal["done", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of a turn; whoever runs it stores the state and tells the event, the last one."""

    state: State
    event: TurnFinished | TurnAborted | TurnFailed
    stop_reason: str
    """The model's own word, or `stopped`, or the kind of the fault."""
    usage: Usage
    steps: int
    limit: Limit | None = None
    """The limit that made the last step the last."""

    @property
    def why(self) -> str:
        """Why the turn ended, for who keeps the server."""
        return f"{self.stop_reason} ({self.limit} limit)" if self.limit else self.stop_reason


def finished(reason: FinishReason, stop_reason: str, meter: Meter) -> Ending:
    """The turn came to its end by itself, or by a limit."""
    event = TurnFinished(
        finish_reason=reason,
        stop_reason=stop_reason,
        steps=meter.steps,
        usage=meter.usage,
        step_limit_reached=meter.limit == "steps",
        budget_reached=meter.limit in ("tokens", "cost"),
    )
    return _ending("done", event, stop_reason, meter)


def stopped(meter: Meter) -> Ending:
    """A person stopped it."""
    return _ending("stopped", TurnAborted(), "stopped", meter)


def failed(error: ModelError, meter: Meter) -> Ending:
    """The model service failed for good."""
    request = f" (request {error.request_id})" if error.request_id else ""
    return _ending("failed", TurnFailed(error=f"{error.message}{request}"), error.kind, meter)


def broken(error: str, stop_reason: str) -> Ending:
    """It could not go on for a fault on our side; how far it came is not known."""
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
