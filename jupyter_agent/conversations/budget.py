"""What each user may use in a calendar month (UTC): decided here, for whoever asks a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from jupyter_agent.conversations.usage import UsageStore
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Usage


@dataclass(frozen=True, kw_only=True)
class MonthlyBudget:
    """What the administrator lets each user use in a month; None: as much as they like."""

    tokens: int | None = None
    """By their price (`Usage.weighed`)."""
    cost: float | None = None
    """In the currency of the prices; tokens without a known price cost nothing here."""


@dataclass(frozen=True, kw_only=True)
class Month:
    """One user's month so far."""

    first: date
    usage: Usage
    budget: MonthlyBudget

    @property
    def until(self) -> date:
        """The day with which the next month begins."""
        return (self.first + timedelta(days=31)).replace(day=1)

    @property
    def exhausted(self) -> str | None:
        """What was used of the budget, and when the next begins, as a part of a sentence; None
        where something is left.
        """
        tokens, cost = self.usage.weighed, self.usage.cost or 0.0
        budget, spent = self.budget, []
        if budget.tokens is not None and tokens >= budget.tokens:
            spent.append(f"{tokens:,.0f} of {budget.tokens:,} tokens, weighed by their price")
        if budget.cost is not None and cost >= budget.cost:
            spent.append(f"{cost:,.2f} of {budget.cost:,.2f} in costs")
        if not spent:
            return None
        return f"{' and '.join(spent)}; the next one begins on {self.until} at 00:00 UTC"

    def to_json(self) -> dict[str, Any]:
        """As the API has it."""
        return {
            "from": self.first.isoformat(),
            "until": self.until.isoformat(),
            "usage": asdict(self.usage),
            "tokens": round(self.usage.weighed),
            "token_budget": self.budget.tokens,
            "cost_budget": self.budget.cost,
            "exhausted": self.exhausted is not None,
        }


class MonthlyBudgets:
    """The months of all users of this server."""

    def __init__(
        self,
        usage: UsageStore,
        budget: MonthlyBudget,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._usage = usage
        self._budget = budget
        self._clock = clock

    async def month(self, owner: str) -> Month:
        """This month of a user, with what running turns have used up to their last step.

        Raises StoreUnavailable.
        """
        first = self._clock().astimezone(UTC).date().replace(day=1)
        usage = await self._usage.total(owner, first, date.max)
        return Month(first=first, usage=usage, budget=self._budget)

    async def exhausted(self, owner: str) -> str | None:
        """`Month.exhausted`, without a look into the store where there is no budget."""
        if self._budget == MonthlyBudget():
            return None
        return (await self.month(owner)).exhausted

    async def require(self, owner: str) -> None:
        """Raises RequestError 429 that says what was used and when the next month begins, if
        nothing is left of this one.
        """
        if self._budget == MonthlyBudget():
            return
        month = await self.month(owner)
        if month.exhausted is not None:
            message = f"Your budget for this month is used up: {month.exhausted}."
            raise RequestError(429, "monthly_budget", message, month=month.to_json())
