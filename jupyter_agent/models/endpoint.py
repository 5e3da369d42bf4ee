"""What the models behind an SDK share: one client, made off the event loop at first use."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.dialect import Dialect
from jupyter_agent.models.network import Network
from jupyter_agent.models.options import Options

_WINDOWS = (
    "max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length",
)  # fmt: skip
"""Names of the window in `GET models`: Anthropic; OpenRouter, Together; vLLM; Groq; Mistral."""
_TEACHES = (400, 404, 422)
"""Statuses of refusals whose words may say which field was wrong; OpenRouter has 404 for images."""
_LESSONS = 6
"""How often one request is changed at most by what its refusals teach."""


def _window(model: Mapping[str, Any]) -> int | None:
    told = (model.get(name) for name in _WINDOWS)
    return next((tokens for tokens in told if isinstance(tokens, int) and tokens > 0), None)


class Endpoint(ABC):
    """A model's name at a service, and the way there.

    `base_url` is where the SDK goes; `options` are sent in every request and win over ours.
    `dialects` has by the model's id what was learned of it; what this model learns is added to it.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str,
        base_url: str | None,
        home: str,
        options: Mapping[str, Any] | None,
        provider: str,
        network: Network,
        dialect: Dialect,
        dialects: dict[str, Dialect] | None,
    ) -> None:
        """`home` is where the SDK goes without a `base_url`.

        Raises ValueError for options that cannot be sent.
        """
        self.id = f"{provider}:{name}"
        self.host = urlsplit(base_url or home).netloc
        self._name = name
        self._api_key = api_key
        self._base_url = base_url
        self._options = Options(options or {})
        self._network = network
        self._known = dialect
        self._dialects = {} if dialects is None else dialects
        self._client: Any = None
        self._connecting = asyncio.Lock()

    async def names(self) -> list[str]:
        """The models that the service has. Raises ModelError."""
        client = await self._connected()
        with self._own_errors():
            return [model.id async for model in client.models.list()]

    async def windows(self) -> dict[str, int]:
        """How many tokens models of the service can read, where it says so. Raises ModelError."""
        client = await self._connected()
        with self._own_errors():
            listed = [model.model_dump() async for model in client.models.list()]
        return {one["id"]: window for one in listed if (window := _window(one)) is not None}

    @property
    def loads(self) -> bool:
        """Whether the service loads a model first, whose window is known only then."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _connected(self) -> Any:
        """The SDK's client."""
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
        return self._client

    def _mask(self, text: str) -> str:
        return self._network.mask(text, self._api_key)

    @property
    def _dialect(self) -> Dialect:
        return self._dialects.get(self.id, self._known)

    async def _open(self, client: Any, request: ModelRequest) -> Any:
        """The SDK's stream. What a refusal teaches is tried at once, remembered if it helped."""
        status_error = self._status_error()
        dialect = self._dialect
        first: Exception | None = None
        for _ in range(_LESSONS):
            try:
                stream = await self._create(client, request, dialect)
            except status_error as error:
                refused = error.status_code in _TEACHES
                better = self._learned(dialect, _words(error), request) if refused else None
                if better is None or not self._fits(better):
                    if not refused:  # it is about something else, so what was learned holds
                        self._dialects[self.id] = dialect
                    raise (first if first and refused else error) from None
                first, dialect = first or error, better
            else:
                self._dialects[self.id] = dialect
                return stream
        assert first is not None
        raise first

    def _fits(self, dialect: Dialect) -> bool:
        """Whether what is configured can still be sent."""
        return True

    @abstractmethod
    def _learned(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        """The dialect after these words of a refusal; None where they teach nothing."""

    @abstractmethod
    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        """The SDK's stream. Raises what the SDK raises."""

    @abstractmethod
    def _status_error(self) -> type[Any]:
        """The SDK's exception for an answer with another status than 200."""

    @abstractmethod
    def _connect(self) -> Any:
        """Import the SDK and make its client. Raises ModelError."""

    @abstractmethod
    def _own_errors(self) -> AbstractContextManager[None]:
        """Turns what the SDK raises into ModelError."""


def _words(error: Any) -> str:
    """All that a refusal says, the names of fields as they are."""
    body = error.body
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
