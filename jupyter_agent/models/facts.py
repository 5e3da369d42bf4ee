"""What is known of a model besides how to ask it: what it costs and how much it can read."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_MILLION = 1_000_000


class Price(BaseModel):
    """What a million tokens cost, in whatever currency the administrator reckons in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    """As input where it is left out."""
    cache_write: float | None = Field(default=None, ge=0)
    """As input where it is left out."""

    def of(self, *, input: int, output: int, cache_read: int, cache_write: int) -> float:
        """What so many tokens cost."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        spent = input * self.input + output * self.output + cache_read * read + cache_write * write
        return spent / _MILLION

    @property
    def is_nothing(self) -> bool:
        """Whether no number of tokens costs anything."""
        return not any((self.input, self.output, self.cache_read, self.cache_write))


class Facts(BaseModel):
    """One model; None is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    price: Price | None = None
    window: int | None = Field(default=None, ge=1)
    """Tokens that its context window holds."""
    images: bool | None = None
    """Whether it looks at pictures."""


_KNOWN: Mapping[str, Facts] = {
    "anthropic:*": Facts(window=200_000, images=True),
    "demo:*": Facts(price=Price(input=0, output=0), images=False),
}
"""Prices change, so none of a service is built in."""


class FactBook:
    """Facts by name of the model, or by pattern (`ollama:*`); the first that says it counts."""

    def __init__(self, configured: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Raises ValueError that names the field for facts that do not fit."""
        try:
            own = {name: Facts.model_validate(facts) for name, facts in (configured or {}).items()}
        except ValidationError as error:
            raise ValueError(f"model_facts: {error}") from None
        self._facts = [*own.items(), *_KNOWN.items()]

    def of(self, model: str) -> Facts:
        """What is known of `provider:model`."""
        found = [facts for pattern, facts in self._facts if fnmatchcase(model, pattern)]
        return Facts(
            price=next((facts.price for facts in found if facts.price is not None), None),
            window=next((facts.window for facts in found if facts.window is not None), None),
            images=next((facts.images for facts in found if facts.images is not None), None),
        )
