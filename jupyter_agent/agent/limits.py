"""How much one turn may use, and how much it has used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from jupyter_agent.agent.window import Window
from jupyter_agent.events import Usage
from jupyter_agent.models.facts import Facts

Limit: TypeAlias = Literal["steps", "tokens", "cost"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one turn may use."""

    max_steps: int = 25
    """Model calls; the last one must answer."""
    max_tokens: int = 16_000
    """Tokens of one reply."""
    token_budget: int = 300_000
    """Tokens of all steps together, cached ones too; once spent, the next step must answer."""
    cost_budget: float | None = None
    """What all steps together may cost, where the price is known; then the next must answer."""
    attempts: int = 3
    """How often one step is tried in all when the model service fails."""
    rate_pauses: tuple[float, ...] = (2.0, 4.0, 8.0)
    """Seconds before each further attempt where the service limits the rate of requests and does
    not say for how long."""
    longest_wait: float = 900.0
    """Seconds we wait at most when the service asks for patience; longer is an error."""
    idle_seconds: float = 60.0
    """Seconds without an event after which a stream counts as broken."""
    approval_seconds: float = 1800.0
    """Seconds a question stays open before it counts as denied."""
    reply_chars: int = 2_000_000
    """Characters of one reply; more ends the turn."""
    reply_calls: int = 128
    """Tool calls of one reply; more ends the turn."""
    result_chars: int = 30_000
    """Characters of one tool result; more is cut in the middle."""


class Meter:
    """What one turn has used so far."""

    def __init__(self, limits: Limits, facts: Facts) -> None:
        self._limits = limits
        self._price = facts.price
        self.window = Window(facts.window)
        self.steps = 0
        self.usage = Usage()
        self.step_usage = Usage()
        """Of the step that goes on now."""
        self.limit: Limit | None = None
        """Which limit made this step the last."""
        self.forced = False
        """Whether the next step has to answer, whatever the limits."""
        self.replies = 0
        """Replies that began, given up ones counted."""
        self.pauses = 0
        self.cuts = 0
        self.empties = 0

    @property
    def last(self) -> bool:
        """Whether this step must answer, without tools."""
        return self.forced or self.limit is not None

    def start_step(self) -> None:
        """Count one more step."""
        self.steps += 1
        self.step_usage = Usage()

    def reach(self) -> Limit | None:
        """The limit that was reached since this was last asked; then this step is the last."""
        if self.limit is not None:
            return None
        cost, cost_budget = self.usage.cost, self._limits.cost_budget
        if self.usage.total >= self._limits.token_budget:
            self.limit = "tokens"
        elif cost is not None and cost_budget is not None and cost >= cost_budget:
            self.limit = "cost"
        elif self.steps >= self._limits.max_steps:
            self.limit = "steps"
        return self.limit

    def spend(self, usage: Usage) -> None:
        """Count the tokens of one reply, and what they cost."""
        if self._price is not None:
            cost = self._price.of(
                input=usage.input_tokens,
                output=usage.output_tokens,
                cache_read=usage.cache_read_tokens,
                cache_write=usage.cache_write_tokens,
            )
            usage = replace(usage, cost=cost)
        self.usage += usage
        self.step_usage += usage
