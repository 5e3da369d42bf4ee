"""What each user may use in a calendar month (UTC): decided here, for whoever asks a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from jupyter_agent.agent.people import Person
from jupyter_agent.conversations.allowances import Allowance, Allowances
from jupyter_agent.conversations.usage import UsageStore
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Usage


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What asking a model takes from a budget: what it takes nothing from does not keep anybody
    from asking it.
    """

    tokens: bool = True
    """Not of a model within this server, which has no tokens."""
    costs: bool = True
    """Not of one whose price is nothing; of one whose price is not known, yes."""


@dataclass(frozen=True, kw_only=True)
class Month:
    """One user's month so far."""

    first: date
    usage: Usage
    allowance: Allowance
    """Tokens without a known price cost nothing of it."""

    @property
    def until(self) -> date:
        """The day with which the next month begins."""
        return (self.first + timedelta(days=31)).replace(day=1)

    def exhausted(self, charge: Charge = Charge()) -> str | None:
        """How much of the budget was used and when the next begins, as a part of a sentence; None
        if some is left of all that is charged.
        """
        tokens, cost = self.usage.weighed, self.usage.cost or 0.0
        token_budget = self.allowance.monthly_token_budget
        cost_budget = self.allowance.monthly_cost_budget
        spent = []
        if charge.tokens and token_budget is not None and tokens >= token_budget:
            spent.append(tokens_of(tokens, token_budget))
        if charge.costs and cost_budget is not None and cost >= cost_budget:
            spent.append(cost_of(cost, cost_budget))
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
            "token_budget": self.allowance.monthly_token_budget,
            "cost_budget": self.allowance.monthly_cost_budget,
            "exhausted": self.exhausted() is not None,
        }


def tokens_of(used: float, budget: int) -> str:
    """How much of a budget of tokens was used, as a part of a sentence."""
    return f"{used:,.0f} of {budget:,} tokens, weighed by their price"


def cost_of(used: float, budget: float) -> str:
    """The same of a budget of costs."""
    return f"{used:,.2f} of {budget:,.2f} in costs"


class MonthlyBudgets:
    """The months of all users of this server."""

    def __init__(
        self,
        usage: UsageStore,
        allowances: Allowances,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._usage = usage
        self._allowances = allowances
        self._clock = clock

    async def month(self, person: Person) -> Month:
        """This month of a person, with what running turns have used up to their last step.

        Raises StoreUnavailable.
        """
        first = self._clock().astimezone(UTC).date().replace(day=1)
        usage = await self._usage.total(person.name, first, date.max)
        return Month(first=first, usage=usage, allowance=self._allowances.of(person))

    async def exhausted(self, person: Person, charge: Charge) -> str | None:
        """`Month.exhausted`, without a look into the store where there is no budget."""
        if not self.applies_to(person):
            return None
        return (await self.month(person)).exhausted(charge)

    async def require(self, person: Person, charge: Charge) -> None:
        """Raises RequestError 429 that says what was used and when the next month begins, if
        nothing is left of this one.
        """
        if not self.applies_to(person):
            return
        month = await self.month(person)
        if (used := month.exhausted(charge)) is not None:
            message = f"Your budget for this month is used up: {used}."
            raise RequestError(429, "monthly_budget", message, month=month.to_json())

    def applies_to(self, person: Person) -> bool:
        """Whether that person has a budget."""
        allowance = self._allowances.of(person)
        return (allowance.monthly_token_budget, allowance.monthly_cost_budget) != (None, None)
