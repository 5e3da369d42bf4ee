"""What the user's turns used, and what is left of the month's budget."""

from __future__ import annotations

from datetime import date

from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.usage import GROUPINGS
from jupyter_agent.errors import RequestError
from jupyter_agent.server.answers import UsageAnswer
from jupyter_agent.server.base import AgentHandler, operation


class UsageHandler(AgentHandler):
    """`GET usage`"""

    def initialize(self, runner: TurnRunner) -> None:
        self.runner = runner

    async def ready(self) -> None:
        await self.runner.recover()

    @operation("read", query={"by": GROUPINGS, "from": date, "to": date}, gives=UsageAnswer)
    async def get(self) -> None:
        """Tokens, costs, steps and time of the user's turns by day, model or notebook, with
        averages; days are those of UTC on which turns began. And this month's budget."""
        by = self.choice("by", GROUPINGS)
        first, last = self._day("from"), self._day("to")
        if first and last and first > last:
            raise RequestError(400, "invalid_query", "`from` has to be no later than `to`.")
        report = await self.runner.stores.usage.report(self.owner, by, first, last)
        month = await self.runner.budgets.month(self.person)
        self.answer({**report, "month": month.to_json()})

    def _day(self, name: str) -> date | None:
        """A day of the query."""
        text = self.get_query_argument(name, None)
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            message = f"`{name}` has to be a day such as 2026-11-23."
            raise RequestError(400, "invalid_query", message) from None
