"""Claude in a cloud, through the SDK's clients, which find the cloud's own credentials."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from jupyter_agent.errors import ModelError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ModelRequest, ServerTool
from jupyter_agent.models.dialect import Dialect
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.kinds import Kind

_CREDENTIAL_ERRORS = {
    "botocore.exceptions": "BotoCoreError",
    "google.auth.exceptions": "GoogleAuthError",
}


class CloudModel(AnthropicModel):
    """A model of Anthropic in a cloud; the provider's `account` is for the SDK's client."""

    _sdk_client: ClassVar[str]

    def __init__(self, name: str, service: Service) -> None:
        super().__init__(name, service)
        self._account = dict(service.account)

    async def names(self) -> list[str]:
        """Raises ModelError: a cloud does not list its models."""
        raise ModelError(
            f"{self.host} does not list its models. Write the name of one after the provider's.",
            kind="not_found",
        )

    async def windows(self) -> dict[str, int]:
        """Empty: a cloud does not list its models."""
        return {}

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        with super()._own_errors():
            try:
                yield
            except _credential_errors() as error:
                raise ModelError(
                    f"There are no credentials for {self.host} ({self._mask(str(error))}). This "
                    "server must run with an identity that may use it.",
                    kind="authentication",
                ) from error

    def _connect(self) -> Any:
        sdk = importlib.import_module("anthropic")
        client = getattr(sdk, self._sdk_client)
        options = self._network.client_options(sdk)
        try:
            return client(**self._account, base_url=self._base_url, open_telemetry=False, **options)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"The account of `{self.id}` cannot be used: {self._mask(str(error))}",
                kind="configuration",
            ) from error

    def _server_tools(self, request: ModelRequest, dialect: Dialect) -> Sequence[ServerTool]:
        return ()  # clouds do not have Anthropic's own tools


class BedrockModel(CloudModel):
    """A model at Amazon; `account` has `aws_region`."""

    _sdk_client = "AsyncAnthropicBedrock"
    _home = "https://bedrock-runtime.amazonaws.com"


class VertexModel(CloudModel):
    """A model at Google; `account` has `project_id` and `region`."""

    _sdk_client = "AsyncAnthropicVertex"
    _home = "https://aiplatform.googleapis.com"


def _credential_errors() -> tuple[type[Exception], ...]:
    """The exceptions of the clouds' packages for missing credentials, as far as the packages are
    imported.
    """
    imported = [
        getattr(sys.modules[module], name)
        for module, name in _CREDENTIAL_ERRORS.items()
        if module in sys.modules
    ]
    return (RuntimeError, OSError, *imported)


BEDROCK = Kind(make=BedrockModel, sdk="anthropic", takes_key=False)
VERTEX = Kind(make=VertexModel, sdk="anthropic", takes_key=False)
