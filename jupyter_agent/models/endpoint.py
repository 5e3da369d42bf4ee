"""The base class of models behind an SDK, with one client, made off the event loop at first use."""

from __future__ import annotations

import asyncio
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import CacheTtl, ModelEvent, ModelRequest, Omission, token_count
from jupyter_agent.models.dialect import LIMITS, Dialect, learn_pictures
from jupyter_agent.models.faults import api_error, network_error, stream_error, unreadable
from jupyter_agent.models.lines import is_web_page, web_page
from jupyter_agent.models.network import DIRECT, Network
from jupyter_agent.models.pictures import digests, refused_among, replace_pictures
from jupyter_agent.tasks import begin

_OURS = ("model", "messages", "system", "tools", "stream")
_SDK_ARGUMENTS = ("extra_body", "extra_headers", "extra_query", "timeout")
"""Options that are arguments of both SDKs, not fields of the request's JSON."""


class Options:
    """Configured fields of the request's JSON, and arguments of the SDK."""

    def __init__(self, configured: Mapping[str, Any]) -> None:
        """Raises ValueError with a sentence for options that cannot be sent."""
        if not isinstance(configured, Mapping) or not all(isinstance(n, str) for n in configured):
            raise ValueError("Options are a mapping of fields to values.")
        self._request = {n: value for n, value in configured.items() if n in _SDK_ARGUMENTS}
        _check_request(self._request)
        fields = {n: value for n, value in configured.items() if n not in _SDK_ARGUMENTS}
        self.fields = {**fields, **self._request.pop("extra_body", {})}
        """Fields to send; None leaves out a field that we would send."""
        _check_fields(self.fields)

    def take_limit(self) -> tuple[str, Any] | None:
        """Remove the limit of a reply from the fields: its name and value, or None."""
        for name in LIMITS:
            if name in self.fields:
                return name, self.fields.pop(name)
        return None

    def merge(
        self,
        ours: Mapping[str, Any],
        *,
        unknown: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The arguments of a request. Configured values override our own arguments, our fields that
        are `unknown` to the SDK, and the `headers` of this request."""
        arguments = {n: value for n, value in ours.items() if n not in self.fields}
        # In the body, because the SDKs do not have arguments for all fields of all services.
        sent = {
            n: value for n, value in {**(unknown or {}), **self.fields}.items() if value is not None
        }
        request = dict(self._request)
        if headers:
            request["extra_headers"] = {**headers, **request.get("extra_headers", {})}
        return {**arguments, **request, "extra_body": sent}


def _check_request(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name == "timeout":
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError("`timeout` is a number of seconds.")
        elif not isinstance(value, Mapping):
            raise ValueError(f"`{name}` is a mapping.")


def _check_fields(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if name in _OURS:
            raise ValueError(f"`{name}` is made by the assistant for each request; leave it out.")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{name}` is not JSON ({error}).") from None
    if all(name in fields for name in LIMITS):
        names = " and ".join(f"`{n}`" for n in LIMITS)
        raise ValueError(f"A service accepts only one of {names}.")


_WINDOWS = (
    "max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length",
)  # fmt: skip
"""Names of the window in `GET models`: Anthropic; OpenRouter, Together; vLLM; Groq; Mistral."""
_INSTRUCTIVE = (400, 404, 422)
"""Statuses of refusals that may say which field was wrong; OpenRouter sends 404 for images."""
_LESSONS = 6
"""How often at most a request is changed and sent again after refusals."""
_REST_SECONDS = 0.1
"""How long a response may last after the last event of its reply: as long as a new connection
would take."""
_MOST_PAGES = 20
"""Pages of a list of models; Anthropic has twenty models on each."""
_NAMES = {"anthropic": "Anthropic"}
"""Names of services by provider."""


def _window(model: Mapping[str, Any]) -> int | None:
    counts = (token_count(model.get(name)) for name in _WINDOWS)
    return next(filter(None, counts), None)


@dataclass(frozen=True, kw_only=True)
class Service:
    """A provider with its key: all that its models need to reach it."""

    provider: str
    """Its name."""
    api_key: str
    base_url: str | None = None
    """The SDK's base address; None for the SDK's own."""
    account: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every request; they override ours."""
    network: Network = DIRECT
    dialect: Dialect | None = None
    """As configured, for kinds whose services differ; None for that of the address or provider."""
    dialects: dict[str, Dialect] = field(default_factory=dict)
    """What models have learned, by id of the model; they add to it."""
    cache_ttl: CacheTtl = "5m"


class Endpoint(ABC):
    """A model at a service."""

    _sdk: ClassVar[str]
    """The SDK's module."""
    _sdk_error: ClassVar[str]
    """The base class of the SDK's exceptions."""
    _list: ClassVar[str]
    """Path of the list of models below `base_url`."""

    _home: ClassVar[str]
    """The SDK's address without a `base_url`."""

    def __init__(self, name: str, service: Service, dialect: Dialect) -> None:
        """Raises ValueError for options that cannot be sent."""
        provider = service.provider
        self.id = f"{provider}:{name}"
        self.host = urlsplit(service.base_url or self._home).netloc
        self._name = name
        self._service = _NAMES.get(provider, provider)
        self._api_key = service.api_key
        self._base_url = service.base_url
        self._options = Options(service.options)
        self._network = service.network
        self._preset = dialect
        self._dialects = service.dialects
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._users = 0
        """Requests that use the client now."""
        self._is_closed = False
        self._rests: set[asyncio.Task[None]] = set()
        """Each reads the end of a response."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply's events. Raises ModelError."""
        async with AsyncExitStack() as connection:
            client = await connection.enter_async_context(self._use_client())
            connection.enter_context(self._own_errors())
            stream, left_out = await self._open(client, request)
            await connection.enter_async_context(stream)
            for notice in left_out:
                yield notice
            events = await connection.enter_async_context(aclosing(self._events(stream, request)))
            is_complete = False
            try:
                async for event in events:
                    is_complete = event.get("type") == "message_stop"
                    yield event
                    if is_complete:
                        break
            finally:
                if is_complete:  # the rest does not concern the reply, so nobody waits for it
                    begin(_read_rest(stream.response, connection.pop_all()), self._rests)

    async def names(self) -> list[str]:
        """The names of the service's models. Raises ModelError."""
        return list(dict.fromkeys(model["id"] for model in await self._list_models()))

    async def windows(self) -> dict[str, int]:
        """The context windows of the service's models, if it lists them. Raises ModelError."""
        models = await self._list_models()
        return {one["id"]: window for one in models if (window := _window(one)) is not None}

    async def _list_models(self) -> list[Mapping[str, Any]]:
        """The service's descriptions of its models; only their `id` is certain.

        Raises ModelError if the response is not a list.
        """
        models: list[Mapping[str, Any]] = []
        query: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            async with self._use_client() as client:
                with self._own_errors():
                    page = await client.get(self._list, cast_to=object, options={"params": query})
            paged = isinstance(page, Mapping)
            listed = page.get("data") if paged else page
            if isinstance(page, str) and is_web_page(page):
                raise web_page(self.host)
            if not isinstance(listed, list):
                raise unreadable(TypeError(type(listed).__name__))
            models += [
                each
                for each in listed
                if isinstance(each, Mapping) and isinstance(each.get("id"), str)
            ]
            last = page.get("last_id") if paged and page.get("has_more") is True else None
            if not isinstance(last, str) or last == query.get("after_id"):
                break
            query = {"after_id": last}
        return models

    @property
    def loads(self) -> bool:
        """Whether the service loads a model on demand, so that its window is only known then."""
        return False

    async def close(self) -> None:
        """Close the connections; those that a request uses now, or opens later, at its end."""
        self._is_closed = True
        # Not cancelled: a task that has not begun would close nothing.
        await asyncio.gather(*self._rests, return_exceptions=True)
        await self._close_unused()

    @asynccontextmanager
    async def _use_client(self) -> AsyncIterator[Any]:
        """The SDK's client, made at the first call."""
        self._users += 1
        try:
            async with self._connecting:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._connect)
            yield self._client
        finally:
            self._users -= 1
            if self._is_closed:
                await self._close_unused()

    async def _close_unused(self) -> None:
        if self._client is not None and not self._users:
            client, self._client = self._client, None
            await client.close()

    def _mask(self, text: str) -> str:
        return self._network.mask(text, self._api_key)

    def _api_error(self, status: int, body: object, headers: Mapping[str, str]) -> ModelError:
        """The exception for a response with this status, whose error may come within a stream."""
        return api_error(
            self._service,
            self._name,
            status=status,
            error=body,
            headers=headers,
            mask=self._mask,
        )

    def _stream_error(self, error: object) -> ModelError:
        """The exception for an error that came after status 200."""
        return stream_error(self._service, error, self._mask)

    @property
    def _dialect(self) -> Dialect:
        return self._dialects.get(self.id, self._preset)

    async def _open(self, client: Any, request: ModelRequest) -> tuple[Any, list[Omission]]:
        """The SDK's stream, and notices of parts that the request had to omit.

        A dialect learned from a refusal is tried at once, and remembered if the request succeeds.
        """
        status_error = importlib.import_module(self._sdk).APIStatusError
        dialect = before = self._dialect
        first: Exception | None = None
        for _ in range(_LESSONS):
            left_out = refused_among(request.messages, dialect.refused_pictures)
            sent = replace(request, messages=replace_pictures(request.messages, left_out))
            try:
                stream = await self._create(client, sent, dialect)
            except status_error as error:
                refused = error.status_code in _INSTRUCTIVE
                better = self._learn_all(dialect, _message(error), sent) if refused else None
                if better is None or not self._fits(better):
                    if not refused:  # another error, so the request itself was accepted
                        self._dialects[self.id] = dialect
                    raise (first if first and refused else error) from None
                first, dialect = first or error, better
            else:
                self._dialects[self.id] = dialect
                return stream, list(self._omissions(before, dialect, request))
        assert first is not None
        raise first

    def _learn_all(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        """The dialect after a refusal with this message; None if it teaches nothing."""
        better = self._learn(dialect, said, request)
        return better or learn_pictures(dialect, said, digests(request.messages))

    def _omissions(
        self, before: Dialect, now: Dialect, request: ModelRequest
    ) -> Iterator[Omission]:
        """Notices of tools and pictures that were refused just now, and of omitted pictures in the
        newest message."""
        if tools := sorted(now.no_server_tools - before.no_server_tools):
            text = f"{self.id} has no {', '.join(tools)}, so it answers without."
            facts: dict[str, Any] = {"model": self.id, "tools": tools}
            yield Omission(kind="tools-missing", text=text, facts=facts)
        left_out = refused_among(request.messages, now.refused_pictures)
        if before.images and not now.images:
            left_out = digests(request.messages)
        if not left_out:
            return
        earlier = refused_among(request.messages, before.refused_pictures)
        earlier -= digests(request.messages[-1:])
        if count := len(left_out - earlier):
            which = "a picture" if count == 1 else f"{count} pictures"
            text = f"{self._service} refused {which}, so {self.id} answers without."
            facts = {"model": self.id, "count": count}
            yield Omission(kind="pictures-left-out", text=text, facts=facts)

    def _fits(self, dialect: Dialect) -> bool:
        """Whether the configured options can be sent in this dialect."""
        return True

    @abstractmethod
    def _learn(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        """The dialect after a refusal with this message; None if it teaches nothing."""

    @abstractmethod
    def _events(self, stream: Any, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the reply in the SDK's stream. Raises ModelError, or the SDK's exceptions.

        It is left at the reply's last event, and the response must not be closed by then.
        """

    @abstractmethod
    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        """The SDK's stream. Raises the SDK's exceptions."""

    @abstractmethod
    def _connect(self) -> Any:
        """Import the SDK and make its client. Raises ModelError."""

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Turn the SDK's exceptions into ModelError."""
        import httpx2

        sdk = importlib.import_module(self._sdk)
        try:
            yield
        except sdk.APIStatusError as error:
            raise self._api_error(error.status_code, error.body, error.response.headers) from error
        except (sdk.APIConnectionError, httpx2.TransportError) as error:
            raise network_error(self.host, error, self._mask) from error
        except ImportError as error:
            raise ModelError(
                f"`{self.id}` needs another package of the SDK ({error}).", kind="not_installed"
            ) from None
        except (getattr(sdk, self._sdk_error), RecursionError, ValueError) as error:
            raise unreadable(error) from error


async def _read_rest(response: Any, connection: AsyncExitStack) -> None:
    """Close the response; if it ends soon, its connection can serve another request."""
    with suppress(Exception):
        async with connection, asyncio.timeout(_REST_SECONDS):
            await response.stream.read_rest()


def _message(error: Any) -> str:
    """The whole body of a refusal as text, with unchanged names of fields."""
    body = error.body
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
