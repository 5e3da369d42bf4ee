"""Which models, modes and budgets each person may use, for chat, REST and MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.agent.entries import entries_of
from jupyter_agent.agent.people import Person
from jupyter_agent.choices import Mode
from jupyter_agent.errors import RequestError


class Allowance(BaseModel):
    """An entry of the configuration, or all entries merged for one person."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    user: str = "*"
    group: str = "*"
    max_mode: Mode = "auto"
    """The freest mode that is allowed."""
    models: tuple[str, ...] = ("*",)
    """Patterns of `provider:model`."""
    default_model: str = ""
    """The model for requests that name none; empty for the server's default."""
    monthly_token_budget: int | None = Field(default=None, ge=1)
    """Tokens weighed by their price (`Usage.weighted_tokens`); None for no limit."""
    monthly_cost_budget: float | None = Field(default=None, ge=0)
    """In the currency of the prices; None for no limit."""

    def permits(self, model: str) -> bool:
        """Whether `provider:model` may be asked."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    def offers(self, provider: str) -> bool:
        """Whether a model of the provider may be asked."""
        return any(fnmatchcase(provider, each.partition(":")[0]) for each in self.models)

    def default(self, servers: str) -> str:
        """The model for requests that name none, given the server's default.

        The candidate is `default_model`, or without one the server's default. If it is not
        permitted, the first model without wildcards in `models` replaces it, if there is one.
        """
        first = self.default_model or servers
        exact = (each for each in self.models if not set(each) & set("*?["))
        return first if self.permits(first) else next(exact, first)

    def require(self, model: str) -> None:
        """Raises RequestError 403 (`model_not_allowed`) with the permitted models."""
        if not self.permits(model):
            allowed = ", ".join(f"`{each}`" for each in self.models) or "none"
            message = (
                f"Your administrator does not allow you the model `{model}`. Allowed: {allowed}."
            )
            raise RequestError(403, "model_not_allowed", message)


class Allowances:
    """The allowances of all people: the server's traits, unless an entry overrides them."""

    def __init__(self, everybody: Allowance, entries: Sequence[Mapping[str, Any]] = ()) -> None:
        """If several entries match a person, each field comes from the first that has it.

        Raises ValueError with the entry and the field that is invalid.
        """
        self._everybody = everybody
        self._entries = entries_of(Allowance, "allowances", entries)
        for place, entry in enumerate(self._entries):
            _check_default(place, entry)

    def of(self, person: Person) -> Allowance:
        """What this person may use."""
        merged = self._everybody
        for entry in reversed(self._entries):
            if person.is_among(entry.user, entry.group):
                fields = entry.model_fields_set - {"user", "group"}
                merged = merged.model_copy(update={name: getattr(entry, name) for name in fields})
        return merged


def _check_default(place: int, entry: Allowance) -> None:
    if entry.default_model and not entry.permits(entry.default_model):
        raise ValueError(
            f"allowances.{place}.default_model: `{entry.default_model}` is not among its `models`."
        )
