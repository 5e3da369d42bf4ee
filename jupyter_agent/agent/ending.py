"""How a turn ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jupyter_agent.events import TurnAborted, TurnFailed, TurnFinished, Usage

State: TypeAlias = Literal["done", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of a turn; whoever runs it stores the state and tells the event, its last."""

    state: State
    event: TurnFinished | TurnAborted | TurnFailed
    usage: Usage
    steps: int
