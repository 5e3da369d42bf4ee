"""What turns used: tokens, costs, steps and time, added up from the turns that the store has."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Literal, TypeAlias, get_args

from jupyter_agent.conversations.database import Database
from jupyter_agent.events import Usage

Grouping: TypeAlias = Literal["day", "model", "notebook"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

_NAMES: Mapping[Grouping, str] = {
    "day": "substr(started, 1, 10)",
    "model": "model",
    "notebook": "notebook",
}
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
    """`cost` is that of the turns whose cost is known; None if that is none."""
    steps: int
    priced: int
    """Turns whose cost is known."""
    seconds: float
    """That the turns took which have ended, waiting for people included."""
    ended: int

    def to_json(self) -> dict[str, Any]:
        """As the API has it."""
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
    """What the turns of all owners used, those of deleted conversations too."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self, owner: str, by: Grouping, first: date | None, last: date | None
    ) -> dict[str, Any]:
        """See `report`."""
        return await self._database.run(lambda db: report(db, owner, by, first, last))

    async def total(self, owner: str, first: date, last: date) -> Usage:
        """What the turns used that began on these days (UTC), both included."""
        return await self._database.run(lambda db: _total(db, owner, first, last))


def report(
    db: sqlite3.Connection, owner: str | None, by: Grouping, first: date | None, last: date | None
) -> dict[str, Any]:
    """What turns used that began between two days (UTC, both included; None: without a bound).

    Days come in order, models and notebooks by what they used, the most first. `owner` None: of
    all owners.
    """
    period = _period(owner, first, last)
    rows = db.execute(f"{_select(_NAMES[by])} {_PERIOD} GROUP BY name ORDER BY name", period)
    groups = [(row["name"], _group(row)) for row in rows]
    if by != "day":
        groups.sort(key=lambda group: -group[1].usage.weighed)
    return {
        "by": by,
        "from": first and first.isoformat(),
        "to": last and last.isoformat(),
        "total": _group(db.execute(f"{_select('NULL')} {_PERIOD}", period).fetchone()).to_json(),
        "groups": [{by: name, **group.to_json()} for name, group in groups],
    }


def keep_usage(db: sqlite3.Connection, owner: str, conversation_id: str) -> None:
    """Keeps what the turns of a conversation used, which is about to be deleted."""
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
    """From the index alone: it is asked for before each step of a turn."""
    rows = db.execute(
        f"""
        SELECT {_SUMS} FROM (
            SELECT owner, started, usage FROM turns
            UNION ALL SELECT owner, started, usage FROM deleted_turns
        ) WHERE owner = ? AND started >= ? AND started < ?
        """,
        (owner, first.isoformat(), _after(last)),
    )
    return _usage(rows.fetchone())


def _period(
    owner: str | None, first: date | None, last: date | None
) -> tuple[str | None, str | None, str | None]:
    return owner, first.isoformat() if first else None, _after(last) if last else None


def _after(day: date) -> str:
    """What the times of that day are before; they begin with their day."""
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
