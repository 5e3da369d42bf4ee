"""Known facts about models: price, context window and support of images."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_MILLION = 1_000_000


class Price(BaseModel):
    """The price of a million tokens, in the administrator's currency."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    """Default: the price of input."""
    cache_write: float | None = Field(default=None, ge=0)
    """Default: the price of input."""

    def of(self, *, input: int, output: int, cache_read: int, cache_write: int) -> float:
        """The cost of so many tokens."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        spent = input * self.input + output * self.output + cache_read * read + cache_write * write
        return spent / _MILLION

    @property
    def is_nothing(self) -> bool:
        """Whether tokens are free."""
        return not any((self.input, self.output, self.cache_read, self.cache_write))


class Facts(BaseModel):
    """Facts about one model; None for unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    price: Price | None = None
    window: int | None = Field(default=None, ge=1)
    """Size of its context window in tokens."""
    images: bool | None = None
    """Whether it supports images."""


_KNOWN: Mapping[str, Facts] = {
    "anthropic:*": Facts(window=200_000, images=True),
    "demo:*": Facts(price=Price(input=0, output=0), images=False),
}
"""Without prices of services, because they change."""


class FactBook:
    """Facts by name of the model, or by pattern (`ollama:*`); the first match with a fact wins."""

    def __init__(self, configured: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Raises ValueError with the field that is invalid."""
        try:
            own = {name: Facts.model_validate(facts) for name, facts in (configured or {}).items()}
        except ValidationError as error:
            raise ValueError(f"model_facts: {error}") from None
        self._facts = [*own.items(), *_KNOWN.items()]

    def of(self, model: str) -> Facts:
        """The facts about `provider:model`."""
        matches = [facts for pattern, facts in self._facts if fnmatchcase(model, pattern)]
        return Facts(
            price=next((facts.price for facts in matches if facts.price is not None), None),
            window=next((facts.window for facts in matches if facts.window is not None), None),
            images=next((facts.images for facts in matches if facts.images is not None), None),
        )
