"""Models behind an OpenAI-compatible chat completions endpoint: OpenAI, Ollama, vLLM, Groq, ...

Chat completions and not Responses, which such servers implement only in part. The shapes are made
at this edge: the history stays Anthropic's.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import ModelEvent, ModelRequest
from jupyter_agent.models.chat import ChunkReader, chat_messages, chat_tools, used_call_ids
from jupyter_agent.models.endpoint import Endpoint
from jupyter_agent.models.faults import api_error, broken_off, network_error, unreadable
from jupyter_agent.models.network import DIRECT, Network
from jupyter_agent.models.options import LIMITS

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

_UNKNOWN = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not (permitted|allowed)"
    r"|extra (inputs?|fields?)|additional propert",
    re.IGNORECASE,
)


class OpenAIModel(Endpoint):
    """A model at an OpenAI-compatible service.

    `options` are sent in every request and win over ours. `supports_tool_choice` is False for
    servers that take no `tool_choice`: they get no tools where they must answer. `limits` has by
    the model's id the name that its service takes for the limit of a reply, as far as it is known;
    what this model learns is added to it.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str,
        base_url: str | None = None,
        options: Mapping[str, Any] | None = None,
        provider: str = "openai",
        supports_tool_choice: bool = True,
        network: Network = DIRECT,
        limits: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            name,
            api_key=api_key,
            base_url=base_url,
            home="https://api.openai.com",
            options=options,
            provider=provider,
            network=network,
        )
        self._provider = provider
        self._supports_tool_choice = supports_tool_choice
        self._limits = {} if limits is None else limits
        self._configured_limit = self._options.take_limit()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply's events. Raises ModelError."""
        client = await self._connected()
        reader = ChunkReader(used_call_ids(request.messages))
        with self._own_errors():
            stream = await self._open(client, request)
            async with stream:
                async for chunk in stream:
                    for event in reader.feed(chunk.model_dump(mode="json", warnings=False)):
                        yield event
            for event in reader.end():
                yield event

    async def _open(self, client: Any, request: ModelRequest) -> Any:
        """The SDK's stream. The name of the limit is learned from a refusal, by asking once more
        with the other one: some models take only the new name, some servers only the old.
        """
        import openai

        name = self._limit_name()
        try:
            return await self._create(client, request, name)
        except openai.APIStatusError as error:
            if not _refuses(error, name):
                raise
            refused = error
        (other,) = (each for each in LIMITS if each != name)
        try:
            stream = await self._create(client, request, other)
        except openai.APIStatusError as error:
            if _refuses(error, other):
                raise refused from None
            self._limits[self.id] = other
            raise
        self._limits[self.id] = other
        return stream

    async def _create(self, client: Any, request: ModelRequest, limit_name: str) -> Any:
        limit = self._configured_limit[1] if self._configured_limit else request.max_tokens
        body = self._body(request)
        if limit is not None:
            body[limit_name] = limit
        create: Any = client.chat.completions.create  # our JSON fits no overload of it
        return await create(stream=True, **self._options.over(body))

    def _limit_name(self) -> str:
        """What was learned, else what is configured, else what is likely."""
        if self.id in self._limits:
            return self._limits[self.id]
        if self._configured_limit:
            return self._configured_limit[0]
        return "max_completion_tokens" if self._provider == "openai" else "max_tokens"

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        import httpx2
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise api_error(
                self._provider,
                self._name,
                status=error.status_code,
                error=error.body,
                headers=error.response.headers,
                mask=self._mask,
            ) from error
        except (openai.APIConnectionError, httpx2.TransportError) as error:
            raise network_error(self.host, error, self._mask) from error
        except openai.APIError as error:  # told within a stream that began well
            raise broken_off(self._provider, error.body or error.message, self._mask) from error
        except (openai.OpenAIError, ValueError, AttributeError) as error:
            raise unreadable(error) from error

    def _connect(self) -> AsyncOpenAI:
        try:
            sdk = importlib.import_module("openai")
        except ModuleNotFoundError:
            raise ModelError(
                f"`{self.id}` needs the package `openai`: pip install jupyter_agent[openai]",
                kind="not_installed",
            ) from None
        client: AsyncOpenAI = sdk.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            **self._network.client_options(sdk),
        )
        return client

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._name,
            "messages": chat_messages(request),
            "stream_options": {"include_usage": True},
        }
        if request.tools and (self._supports_tool_choice or request.tool_choice == "auto"):
            body["tools"] = chat_tools(request.tools)
            if self._supports_tool_choice:
                body["tool_choice"] = request.tool_choice
        return body


def _refuses(error: APIStatusError, name: str) -> bool:
    """Whether the service does not take a field of that name, in whichever words it says so."""
    said = str(error.body or error.message)
    return error.status_code in (400, 422) and name in said and bool(_UNKNOWN.search(said))
