"""Tokens, costs, steps and time of turns, and the budget of a user per calendar month (UTC)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from jupyter_agent.agent.people import Person
from jupyter_agent.conversations.allowances import Allowance, Allowances
from jupyter_agent.conversations.database import Database
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Usage

Grouping: TypeAlias = Literal["day", "model", "notebook"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

_NAMES: Mapping[Grouping, str] = {
    "day": "substr(started, 1, 10)",
    "model": "CASE WHEN model GLOB '* " + "[0-9a-f]" * 6 + "'"
    " THEN substr(model, 1, length(model) - 7) ELSE model END",
    "notebook": "notebook",
}
"""A program has one row, whatever `name_client` added to its name."""
_SUMS = """
    coalesce(sum(json_extract(usage, '$.input_tokens')), 0) AS input_tokens,
    coalesce(sum(json_extract(usage, '$.output_tokens')), 0) AS output_tokens,
    coalesce(sum(json_extract(usage, '$.cache_read_tokens')), 0) AS cache_read_tokens,
    coalesce(sum(json_extract(usage, '$.cache_write_tokens')), 0) AS cache_write_tokens,
    sum(json_extract(usage, '$.cost')) AS cost
"""
_PERIOD = """
    FROM used WHERE (?1 IS NULL OR owner = ?1)
    AND (?2 IS NULL OR started >= ?2) AND (?3 IS NULL OR started < ?3)
"""


@dataclass(frozen=True, kw_only=True)
class UsageGroup:
    """The turns of one day, model or notebook, or all of them."""

    turns: int
    usage: Usage
    """`cost` is the sum over the turns whose cost is known; None without such turns."""
    steps: int
    priced: int
    """Turns whose cost is known."""
    seconds: float
    """Time of the turns that have ended, including waits for people."""
    ended: int
    """Turns that have ended."""

    def to_json(self) -> dict[str, Any]:
        """The object of the API."""
        return {
            "turns": self.turns,
            "priced_turns": self.priced,
            "steps": self.steps,
            "usage": asdict(self.usage),
            "average": {
                "steps": _mean(self.steps, self.turns),
                "cost": _mean(self.usage.cost or 0.0, self.priced),
                "seconds": _mean(self.seconds, self.ended),
            },
        }


class UsageStore:
    """The usage of all owners' turns, including those of deleted conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self, owner: str, by: Grouping, first: date | None, last: date | None
    ) -> dict[str, Any]:
        """See `report`."""
        return await self._database.run(lambda db: report(db, owner, by, first, last))

    async def total(self, owner: str, first: date, last: date) -> Usage:
        """The usage of the turns that started on these days (UTC), both included."""
        return await self._database.run(lambda db: _total(db, owner, first, last))


def report(
    db: sqlite3.Connection, owner: str | None, by: Grouping, first: date | None, last: date | None
) -> dict[str, Any]:
    """The usage of turns that started between two days (UTC, both included; None: no bound).

    Days are in order, models and notebooks sorted by usage, the most first. `owner` None: all
    owners.
    """
    period = _period(owner, first, last)
    rows = db.execute(f"{_select(_NAMES[by])} {_PERIOD} GROUP BY name ORDER BY name", period)
    groups = [(row["name"], _group(row)) for row in rows]
    if by != "day":
        groups.sort(key=lambda group: -group[1].usage.weighted_tokens)
    return {
        "by": by,
        "from": first and first.isoformat(),
        "to": last and last.isoformat(),
        "total": _group(db.execute(f"{_select('NULL')} {_PERIOD}", period).fetchone()).to_json(),
        "groups": [{by: name, **group.to_json()} for name, group in groups],
    }


def keep_usage(db: sqlite3.Connection, owner: str, conversation_id: str) -> None:
    """Keep the usage of a conversation's turns before the conversation is deleted."""
    db.execute(
        """
        INSERT INTO deleted_turns (id, owner, model, notebook, steps, usage, started, ended)
        SELECT id, owner, json_extract(request, '$.model'), json_extract(request, '$.notebook'),
            steps, usage, started, ended
        FROM turns WHERE owner = ? AND conversation_id = ?
        """,
        (owner, conversation_id),
    )


def _total(db: sqlite3.Connection, owner: str, first: date, last: date) -> Usage:
    """Read from the index alone, because it runs before each step of a turn."""
    rows = db.execute(
        f"""
        SELECT {_SUMS} FROM (
            SELECT owner, started, usage FROM turns
            UNION ALL SELECT owner, started, usage FROM deleted_turns
        ) WHERE owner = ? AND started >= ? AND started < ?
        """,
        (owner, first.isoformat(), _end_of_day(last)),
    )
    return _usage(rows.fetchone())


def _period(
    owner: str | None, first: date | None, last: date | None
) -> tuple[str | None, str | None, str | None]:
    return owner, first.isoformat() if first else None, _end_of_day(last) if last else None


def _end_of_day(day: date) -> str:
    """A text greater than all timestamps of that day, which start with their day."""
    return (day + timedelta(days=1)).isoformat() if day < date.max else "a"


def _select(name: str) -> str:
    return f"""
        SELECT {name} AS name, count(*) AS turns, coalesce(sum(steps), 0) AS steps, {_SUMS},
            count(json_extract(usage, '$.cost')) AS priced, count(ended) AS ended,
            coalesce(sum(julianday(ended) - julianday(started)), 0) * 86400 AS seconds
    """


def _group(row: sqlite3.Row) -> UsageGroup:
    return UsageGroup(
        turns=row["turns"],
        usage=_usage(row),
        steps=row["steps"],
        priced=row["priced"],
        seconds=row["seconds"],
        ended=row["ended"],
    )


def _usage(row: sqlite3.Row) -> Usage:
    return Usage(
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        cache_read_tokens=row["cache_read_tokens"],
        cache_write_tokens=row["cache_write_tokens"],
        cost=row["cost"],
    )


def _mean(total: float, count: int) -> float | None:
    return round(total / count, 6) if count else None


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The budgets that a model uses; only these can prevent a user from asking it."""

    tokens: bool = True
    """False for a model inside this server, which has no tokens."""
    costs: bool = True
    """False for a model whose price is zero; True if the price is unknown."""


@dataclass(frozen=True, kw_only=True)
class Month:
    """One user's month so far."""

    first: date
    usage: Usage
    allowance: Allowance
    """Tokens without a known price do not count towards its costs."""

    @property
    def until(self) -> date:
        """The first day of the next month."""
        return (self.first + timedelta(days=31)).replace(day=1)

    def why_exhausted(self, charge: Charge = Charge()) -> str | None:
        """How much of the budget was used and when the next one begins, as part of a sentence; None
        if no budget of the charge is used up.
        """
        tokens, cost = self.usage.weighted_tokens, self.usage.cost or 0.0
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
        """The object of the API."""
        return {
            "from": self.first.isoformat(),
            "until": self.until.isoformat(),
            "usage": asdict(self.usage),
            "tokens": round(self.usage.weighted_tokens),
            "token_budget": self.allowance.monthly_token_budget,
            "cost_budget": self.allowance.monthly_cost_budget,
            "exhausted": self.why_exhausted() is not None,
        }


def tokens_of(used: float, budget: int) -> str:
    """How much of a token budget was used, as part of a sentence."""
    return f"{used:,.0f} of {budget:,} tokens, weighed by their price"


def cost_of(used: float, budget: float) -> str:
    """How much of a cost budget was used, as part of a sentence."""
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
        """A person's current month, including running turns up to their last step.

        Raises StoreUnavailable.
        """
        first = self._clock().astimezone(UTC).date().replace(day=1)
        usage = await self._usage.total(person.name, first, date.max)
        return Month(first=first, usage=usage, allowance=self._allowances.of(person))

    async def why_exhausted(self, person: Person, charge: Charge) -> str | None:
        """`Month.why_exhausted`; does not read the store if the person has no budget."""
        if not self.applies_to(person):
            return None
        return (await self.month(person)).why_exhausted(charge)

    async def require(self, person: Person, charge: Charge) -> None:
        """Raises RequestError 429 if the month's budget is used up; its message has the usage and
        the first day of the next month.
        """
        if not self.applies_to(person):
            return
        month = await self.month(person)
        if (used := month.why_exhausted(charge)) is not None:
            message = f"Your budget for this month is used up: {used}."
            raise RequestError(429, "monthly_budget", message, month=month.to_json())

    def applies_to(self, person: Person) -> bool:
        """Whether that person has a budget."""
        allowance = self._allowances.of(person)
        return (allowance.monthly_token_budget, allowance.monthly_cost_budget) != (None, None)
