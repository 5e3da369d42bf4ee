"""What the models behind an SDK share: one client, made off the event loop at first use."""

from __future__ import annotations

import asyncio
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import LeftOut, ModelRequest, token_count
from jupyter_agent.models.dialect import LIMITS, Dialect, learned_pictures
from jupyter_agent.models.faults import api_error, broken_off, network_error, unreadable
from jupyter_agent.models.lines import is_web_page, web_page
from jupyter_agent.models.network import Network
from jupyter_agent.models.pictures import digests, refused_among, without

_OURS = ("model", "messages", "system", "tools", "stream")
_OF_THE_SDK = ("extra_body", "extra_headers", "extra_query", "timeout")
"""What is no field of the request's JSON but an argument of both SDKs."""


class Options:
    """Fields of the request's JSON, and arguments of the SDK."""

    def __init__(self, configured: Mapping[str, Any]) -> None:
        """Raises ValueError with a sentence for what cannot be sent."""
        if not isinstance(configured, Mapping) or not all(isinstance(n, str) for n in configured):
            raise ValueError("Options are a mapping of fields to what is sent in them.")
        self._request = {n: value for n, value in configured.items() if n in _OF_THE_SDK}
        _check_request(self._request)
        fields = {n: value for n, value in configured.items() if n not in _OF_THE_SDK}
        self.fields = {**fields, **self._request.pop("extra_body", {})}
        """What is sent; None leaves a field of ours out."""
        _check_fields(self.fields)

    def take_limit(self) -> tuple[str, Any] | None:
        """Takes the limit of a reply out of the fields: its name and value, where there is one."""
        for name in LIMITS:
            if name in self.fields:
                return name, self.fields.pop(name)
        return None

    def over(
        self,
        ours: Mapping[str, Any],
        *,
        unknown: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The arguments of a request: what is configured wins over ours, over what is ours but
        `unknown` to the SDK, and over `headers` of this request."""
        kept = {n: value for n, value in ours.items() if n not in self.fields}
        # Not as arguments: the SDKs know by far not each field that a service takes.
        sent = {
            n: value for n, value in {**(unknown or {}), **self.fields}.items() if value is not None
        }
        request = dict(self._request)
        if headers:
            request["extra_headers"] = {**headers, **request.get("extra_headers", {})}
        return {**kept, **request, "extra_body": sent}


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
            raise ValueError(f"`{name}` is no JSON ({error}).") from None
    if all(name in fields for name in LIMITS):
        raise ValueError(f"A service takes only one of {' and '.join(f'`{n}`' for n in LIMITS)}.")


_WINDOWS = (
    "max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length",
)  # fmt: skip
"""Names of the window in `GET models`: Anthropic; OpenRouter, Together; vLLM; Groq; Mistral."""
_TEACHES = (400, 404, 422)
"""Statuses of refusals whose words may say which field was wrong; OpenRouter has 404 for images."""
_LESSONS = 6
"""How often one request is changed at most by what its refusals teach."""
_MOST_PAGES = 20
"""Of a list of models, of which Anthropic has twenty on each."""
_NAMES = {"anthropic": "Anthropic"}
"""Of providers, as their services call themselves."""


def _window(model: Mapping[str, Any]) -> int | None:
    said = (token_count(model.get(name)) for name in _WINDOWS)
    return next(filter(None, said), None)


class Endpoint(ABC):
    """A model's name at a service, and the way there.

    `base_url` is where the SDK goes; `options` are sent in every request and win over ours.
    `dialects` has by the model's id what was learned of it; what this model learns is added to it.
    """

    _sdk: ClassVar[str]
    """The SDK's module."""
    _sdk_error: ClassVar[str]
    """The SDK's exception from which all its others are made."""
    _list: ClassVar[str]
    """Where below `base_url` the models are listed."""

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
        self._service = _NAMES.get(provider, provider)
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
        return list(dict.fromkeys(model["id"] for model in await self._listed()))

    async def windows(self) -> dict[str, int]:
        """How many tokens models of the service can read, where it says so. Raises ModelError."""
        listed = await self._listed()
        return {one["id"]: window for one in listed if (window := _window(one)) is not None}

    async def _listed(self) -> list[Mapping[str, Any]]:
        """The models as the service describes them, by which nothing is known but their `id`.

        Raises ModelError where what comes is no list.
        """
        client = await self._connected()
        found: list[Mapping[str, Any]] = []
        query: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            with self._own_errors():
                page = await client.get(self._list, cast_to=object, options={"params": query})
            paged = isinstance(page, Mapping)
            listed = page.get("data") if paged else page
            if isinstance(page, str) and is_web_page(page):
                raise web_page(self.host)
            if not isinstance(listed, list):
                raise unreadable(TypeError(type(listed).__name__))
            found += [
                each
                for each in listed
                if isinstance(each, Mapping) and isinstance(each.get("id"), str)
            ]
            last = page.get("last_id") if paged and page.get("has_more") is True else None
            if not isinstance(last, str) or last == query.get("after_id"):
                break
            query = {"after_id": last}
        return found

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

    def _broken_off(self, error: object) -> ModelError:
        """What to raise for an error that came after status 200."""
        return broken_off(self._service, error, self._mask)

    @property
    def _dialect(self) -> Dialect:
        return self._dialects.get(self.id, self._known)

    async def _open(self, client: Any, request: ModelRequest) -> tuple[Any, list[LeftOut]]:
        """The SDK's stream, and what of the request was left out for it.

        What a refusal teaches is tried at once, and remembered if it helped.
        """
        status_error = importlib.import_module(self._sdk).APIStatusError
        dialect = before = self._dialect
        first: Exception | None = None
        for _ in range(_LESSONS):
            left_out = refused_among(request.messages, dialect.refused_pictures)
            sent = replace(request, messages=without(request.messages, left_out))
            try:
                stream = await self._create(client, sent, dialect)
            except status_error as error:
                refused = error.status_code in _TEACHES
                better = self._better(dialect, _words(error), sent) if refused else None
                if better is None or not self._fits(better):
                    if not refused:  # it is about something else, so what was learned holds
                        self._dialects[self.id] = dialect
                    raise (first if first and refused else error) from None
                first, dialect = first or error, better
            else:
                self._dialects[self.id] = dialect
                return stream, list(self._left_out(before, dialect, request))
        assert first is not None
        raise first

    def _better(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        """The dialect after these words of a refusal; None if they teach nothing."""
        better = self._learned(dialect, said, request)
        return better or learned_pictures(dialect, said, digests(request.messages))

    def _left_out(self, before: Dialect, now: Dialect, request: ModelRequest) -> Iterator[LeftOut]:
        """Notices of what a request lacks: what was learned just now, and pictures of its newest
        message."""
        if tools := sorted(now.no_server_tools - before.no_server_tools):
            text = f"{self.id} has no {', '.join(tools)}, so it answers without."
            facts: dict[str, Any] = {"model": self.id, "tools": tools}
            yield LeftOut(kind="tools-missing", text=text, facts=facts)
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
            yield LeftOut(kind="pictures-left-out", text=text, facts=facts)

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
    def _connect(self) -> Any:
        """Import the SDK and make its client. Raises ModelError."""

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Turns what the SDK raises into ModelError."""
        import httpx2

        sdk = importlib.import_module(self._sdk)
        try:
            yield
        except sdk.APIStatusError as error:
            raise api_error(
                self._service,
                self._name,
                status=error.status_code,
                error=error.body,
                headers=error.response.headers,
                mask=self._mask,
            ) from error
        except (sdk.APIConnectionError, httpx2.TransportError) as error:
            raise network_error(self.host, error, self._mask) from error
        except (getattr(sdk, self._sdk_error), RecursionError, ValueError) as error:
            raise unreadable(error) from error


def _words(error: Any) -> str:
    """All that a refusal says, the names of fields as they are."""
    body = error.body
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
