"""What a turn is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from jupyter_agent.agent.approval import Ask
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.events import Event
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
