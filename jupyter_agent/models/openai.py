"""Models behind an OpenAI-compatible chat completions endpoint: OpenAI, Ollama, vLLM, Groq, ...

Chat completions and not Responses, which such servers implement only in part. Requests are
converted here: the history stays in Anthropic's format.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import Effort, ModelEvent, ModelRequest, token_count
from jupyter_agent.models.chat import chat_messages, chat_tools
from jupyter_agent.models.chat_reader import ChunkReader
from jupyter_agent.models.dialect import Dialect, learn, preset
from jupyter_agent.models.endpoint import Endpoint, Service
from jupyter_agent.models.lines import DONE, payloads, until_complete
from jupyter_agent.packages import openai_warning

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_EFFORT_FIELDS = {"reasoning_effort", "reasoning", "thinking"}


class OpenAIModel(Endpoint):
    """A model at an OpenAI-compatible service."""

    _sdk = "openai"
    _sdk_error = "OpenAIError"
    _list = "/models"
    _home = "https://api.openai.com"

    def __init__(self, name: str, service: Service) -> None:
        provider, base_url = service.provider, service.base_url
        dialect = service.dialect or preset(None, provider=provider, base_url=base_url)
        super().__init__(name, service, dialect)
        self._limit = self._options.take_limit()
        """The configured limit of a reply: its name and value."""
        if self._limit:
            first = self._limit[0]
            others = tuple(name for name in self._preset.limits if name != first)
            self._preset = replace(self._preset, limits=(first, *others))

    async def _events(self, stream: Any, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reader = ChunkReader(think_tags=self._dialect.think_tags)
        # Held until the end, because the response is closed when this is dropped.
        chunks = payloads(stream.response.aiter_bytes(), self.host)
        async for chunk in until_complete(chunks, lambda _: reader.is_complete):
            if chunk == DONE:
                reader.mark_done()
                break
            self._check(chunk)
            for event in reader.feed(chunk):
                yield event
        for event in reader.end():
            if event["type"] == "message_stop" and reader.failure:
                raise self._stream_error(reader.failure)
            yield event

    @property
    def loads(self) -> bool:
        return self._preset.loads

    async def windows(self) -> dict[str, int]:
        """The context windows of the service's models. If it loads models on demand, this loads the
        model and returns only its window (https://docs.ollama.com/api/generate,
        https://docs.ollama.com/api/ps).
        """
        if not self.loads:
            return await super().windows()
        async with self._use_client() as client:
            root = str(client.base_url).rstrip("/").removesuffix("/v1")
            with self._own_errors():
                load = {"model": self._name, "stream": False}
                await client.post(f"{root}/api/generate", body=load, cast_to=object)
                running = await client.get(f"{root}/api/ps", cast_to=object)
        listed = running.get("models") if isinstance(running, Mapping) else None
        names = (self._name, f"{self._name}:latest")
        windows = (
            token_count(each.get("context_length"))
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, Mapping) and each.get("name") in names
        )
        window = next(filter(None, windows), None)
        return {self._name: window} if window else {}

    def _check(self, chunk: Mapping[str, Any]) -> None:
        """Raises ModelError for an error that came after status 200."""
        error = chunk.get("error") or (chunk if chunk.get("object") == "error" else None)
        if error:
            raise self._stream_error(error)

    def _learn(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        return learn(dialect, said, request.effort)

    def _fits(self, dialect: Dialect) -> bool:
        """Whether the configured limit can be sent in this dialect."""
        return bool(dialect.limits) or self._limit is None or self._limit[1] is None

    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        body = self._body(request, dialect)
        limit = self._limit[1] if self._limit else request.max_tokens
        if limit is not None and dialect.limits:
            body[dialect.limits[0]] = limit
        thinking = _effort(request.effort, dialect) if request.effort else {}
        if _EFFORT_FIELDS & self._options.fields.keys():
            thinking = {}
        create: Any = client.chat.completions.create  # our JSON matches none of its overloads
        who = self._network.headers_for(request.user)
        return await create(stream=True, **self._options.merge(body, unknown=thinking, headers=who))

    def _connect(self) -> AsyncOpenAI:
        if (missing := openai_warning()) is not None:
            raise ModelError(missing, kind="not_installed")
        sdk = importlib.import_module("openai")
        client: AsyncOpenAI = sdk.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            **self._network.client_options(sdk),
        )
        return client

    def _body(self, request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._name,
            "messages": chat_messages(request, dialect),
        }
        if dialect.usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools and (dialect.tool_choice or request.tool_choice == "auto"):
            body["tools"] = chat_tools(request.tools)
            if dialect.tool_choice:
                body["tool_choice"] = request.tool_choice
        return body


def _effort(effort: Effort, dialect: Dialect) -> dict[str, Any]:
    level = dialect.level(effort)
    if level is None:
        return {}
    match dialect.effort_field:
        case "thinking":
            return {"thinking": {"type": "disabled" if level == "none" else "enabled"}}
        case "reasoning":
            return {"reasoning": {"effort": level}}
    return {"reasoning_effort": level}
