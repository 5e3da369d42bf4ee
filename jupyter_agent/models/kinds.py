"""Kinds of providers: the APIs that models speak. Plugs of the group `models` add others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import Model
from jupyter_agent.models.demo import DemoModel
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel


class ServiceModel(Model, Protocol):
    """A model, and the questions that its service answers about all of its models."""

    @property
    def loads(self) -> bool:
        """See `Endpoint.loads`."""

    async def names(self) -> list[str]:
        """See `Endpoint.names`."""

    async def windows(self) -> dict[str, int]:
        """See `Endpoint.windows`."""

    async def close(self) -> None:
        """See `Endpoint.close`. Also called when the key or the network of the provider changes,
        while a turn may use the model.
        """


@dataclass(frozen=True, kw_only=True)
class Kind:
    """An API, as the `kind` of a provider."""

    make: Callable[[str, Service], ServiceModel]
    """The model with this name at that service. It opens no connection yet. Raises ModelError."""
    sdk: str | None = None
    """The module that its first request imports, if that takes long."""
    takes_key: bool = True
    """False if it needs no credentials, or finds them itself."""
    takes_options: bool = True
    """Whether its requests have fields that can be configured."""
    reads_documents: bool | None = True
    """Whether PDF files can be sent; None if that depends on the service's dialect."""
    models: Sequence[str] = ()
    """The only models, if those are fixed."""


KINDS: Mapping[str, Kind] = {
    "anthropic": Kind(make=AnthropicModel, sdk="anthropic"),
    "openai": Kind(make=OpenAIModel, sdk="openai", reads_documents=None),
    "demo": Kind(
        make=lambda name, service: DemoModel(),
        takes_key=False,
        takes_options=False,
        reads_documents=False,
        models=("tour",),
    ),
}
