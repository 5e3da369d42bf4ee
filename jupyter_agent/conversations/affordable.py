"""The models that a person may ask, and still can within the monthly budget."""

from __future__ import annotations

from jupyter_agent.agent.people import Person
from jupyter_agent.conversations.allowances import Allowances
from jupyter_agent.conversations.usage import Charge, MonthlyBudgets
from jupyter_agent.models.base import Model
from jupyter_agent.models.registry import Models


class AffordableModels:
    """Models within people's allowances and budgets."""

    def __init__(self, models: Models, allowances: Allowances, budgets: MonthlyBudgets) -> None:
        self.budgets = budgets
        self._models = models
        self._allowances = allowances

    async def get(self, person: Person, name: str | None) -> Model:
        """The model of that name, else the person's default. Raises as `Models.get`, and
        RequestError 403 for a model that the person may not use, 429 if their budget is used up.
        """
        allowance = self._allowances.of(person)
        name = name or allowance.default(self._models.default)
        allowance.require(name)
        model = self._models.get(name)
        await self.budgets.require(person, self._charge(model))
        return model

    async def fallback(self, person: Person, name: str | None, model: Model) -> Model | None:
        """The model that answers if the first one fails; None if its monthly budget is used up.

        Raises RequestError 403 for a model of that name that the person may not use; the server's
        default is then skipped.
        """
        other = self._models.fallback(name, model.id)
        allowance = self._allowances.of(person)
        if other is not None and name is not None:
            allowance.require(other.id)
        if other is None or not allowance.permits(other.id):
            return None
        return other if await self.why_exhausted(person, other) is None else None

    async def why_exhausted(self, person: Person, model: Model) -> str | None:
        """As `MonthlyBudgets.why_exhausted`, for that model."""
        return await self.budgets.why_exhausted(person, self._charge(model))

    def _charge(self, model: Model) -> Charge:
        price = self._models.facts(model.id).price
        return Charge(tokens=bool(model.host), costs=price is None or not price.is_nothing)
