"""Claude, through the official SDK's raw event stream.

The raw stream and not the SDK's helpers: those parse a tool's input while it is cut off, and retry
where nobody sees it. The SDK is imported on first use and off the event loop, because that takes
longer than a server may stand still.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import (
    VIA,
    Block,
    CacheTtl,
    Effort,
    Message,
    ModelEvent,
    ModelRequest,
    ServerTool,
    description_with_examples,
    short_id,
    without_service_blocks,
)
from jupyter_agent.models.chat import EXTRA, this_turn
from jupyter_agent.models.dialect import Dialect, learned_containers, learned_effort, learned_tools
from jupyter_agent.models.endpoint import Endpoint
from jupyter_agent.models.faults import unreadable
from jupyter_agent.models.lines import payloads
from jupyter_agent.models.network import DIRECT, Network
from jupyter_agent.models.replay import replay

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_CLAUDE = Dialect(efforts=("low", "medium", "high", "max"))
_SHARES: Mapping[Effort, float] = {
    "none": 0.0, "low": 0.125, "medium": 0.25, "high": 0.5, "max": 0.75,
}  # fmt: skip
"""Of a reply's limit, for thinking of models that want a budget."""
_OF_TOOLS = {
    "input_examples": re.compile(r"\binput_examples\b"),
    "strict": re.compile(r"\bstrict\b|\bgrammar\b|schemas? (is|are) too complex", re.IGNORECASE),
}
"""Fields of tools that not every model and cloud takes, and words with which they are refused."""
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_LEAST_BUDGET = 1024
"""Source: https://platform.claude.com/docs/en/build-with-claude/extended-thinking."""
_SERVER_TOOLS: Mapping[ServerTool, str] = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
    "code_execution": "code_execution_20250825",
}
"""The versions that most models have.
Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview."""


def _cached(**ttl: str) -> Mapping[str, Any]:
    return {"cache_control": {"type": "ephemeral", **ttl}}


_CACHED = _cached()
_CACHED_MESSAGES = 2
"""A look-up in the cache goes back only some 20 blocks, which a step with many calls can exceed."""


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """Where Claude runs if not at Anthropic; the account is the cloud's own, found by the SDK."""

    client: Literal["AsyncAnthropicBedrock", "AsyncAnthropicVertex"]
    account: Mapping[str, Any]
    """What that client is told, e.g. `aws_region`, or `project_id` and `region`."""
    home: str
    """Where it goes without a `base_url`, but for the region."""


class AnthropicModel(Endpoint):
    """A model of Anthropic, or of a service that speaks the Messages API at `base_url`.

    `options` are sent in every request and win over ours, e.g. `{"thinking": {...}}`.
    """

    _sdk = "anthropic"
    _sdk_error = "AnthropicError"
    _list = "/v1/models"

    def __init__(
        self,
        name: str,
        *,
        api_key: str,
        base_url: str | None = None,
        options: Mapping[str, Any] | None = None,
        provider: str = "anthropic",
        network: Network = DIRECT,
        cloud: Cloud | None = None,
        dialects: dict[str, Dialect] | None = None,
        cache_ttl: CacheTtl = "5m",
    ) -> None:
        super().__init__(
            name,
            api_key=api_key,
            base_url=base_url,
            home=cloud.home if cloud else "https://api.anthropic.com",
            options=options,
            provider=provider,
            network=network,
            dialect=_CLAUDE,
            dialects=dialects,
        )
        self._cloud = cloud
        self._prefix_mark = _CACHED if cache_ttl == "5m" else _cached(ttl=cache_ttl)
        """Of the tools and the system prompt, which all conversations share."""

    async def names(self) -> list[str]:
        """The models that the service has; a cloud does not say. Raises ModelError."""
        if self._cloud is None:
            return await super().names()
        raise ModelError(
            f"{self.host} does not list its models. Write the name of one after the provider's.",
            kind="not_found",
        )

    async def windows(self) -> dict[str, int]:
        """As of any endpoint; a cloud does not say. Raises ModelError."""
        return await super().windows() if self._cloud is None else {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply's events. Raises ModelError."""
        client = await self._connected()
        with self._own_errors():
            stream, left_out = await self._open(client, request)
            for notice in left_out:
                yield notice
            async with stream:
                kind = stream.response.headers.get("content-type", "")
                if "html" in kind or "json" in kind:
                    async for event in _at_once(stream.response, self.host, self._broken_off):
                        yield event
                    return
                async for event in stream:
                    yield _as_json(event)

    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        create: Any = client.messages.create  # our JSON, which no overload of it can know
        # The SDK demands a limit, also where another one is configured.
        who = self._network.headers_for(request.user)
        body = self._options.over(self._body(request, dialect), headers=who)
        return await create(stream=True, **{"max_tokens": request.max_tokens, **body})

    def _learned(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        """Models differ in what tools may say and in how they may be made to think, and say so in
        a 400."""
        for name, words in _OF_TOOLS.items():
            if name not in dialect.without and words.search(said):
                return replace(dialect, without=dialect.without | {name})
        found = learned_containers(dialect, said, [request.container] if request.container else [])
        if found != dialect:
            return found
        with_tools = learned_tools(dialect, said, self._server_tools(request, dialect))
        if with_tools != dialect:
            return with_tools
        if request.effort is None:
            return None
        way = self._thinking(request, dialect).get("thinking", {}).get("type")
        if way and re.search(rf"\b{way}\b|\bthinking\b", said):
            return replace(dialect, thinking=tuple(t for t in dialect.thinking if t != way))
        better = learned_effort(dialect, said, request.effort)
        return None if better == dialect else better

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        with super()._own_errors():
            try:
                yield
            except ImportError as error:
                raise ModelError(
                    f"`{self.id}` needs another package of the SDK ({error}).", kind="not_installed"
                ) from None
            except self._credential_errors() as error:
                raise ModelError(
                    f"There are no credentials for {self.host} ({self._mask(str(error))}). This "
                    "server has to run with an identity that may use it.",
                    kind="authentication",
                ) from error

    def _credential_errors(self) -> tuple[type[Exception], ...]:
        """What a cloud's packages raise where they find no credentials; a package that was not
        imported has raised nothing.
        """
        if self._cloud is None:
            return ()
        named = {
            "botocore.exceptions": "BotoCoreError",
            "google.auth.exceptions": "GoogleAuthError",
        }
        found = [getattr(sys.modules[at], name) for at, name in named.items() if at in sys.modules]
        return (RuntimeError, OSError, *found)

    def _connect(self) -> AsyncAnthropic:
        sdk = importlib.import_module("anthropic")
        if self._cloud is None:
            kind, account = sdk.AsyncAnthropic, {"api_key": self._api_key}
        else:
            kind, account = getattr(sdk, self._cloud.client), dict(self._cloud.account)
        options = self._network.client_options(sdk)
        try:
            client: AsyncAnthropic = kind(
                **account, base_url=self._base_url, open_telemetry=False, **options
            )
        except (TypeError, ValueError) as error:  # `account` of a cloud is the administrator's
            raise ModelError(
                f"The account of `{self.id}` cannot be used: {self._mask(str(error))}",
                kind="configuration",
            ) from error
        return client

    def _body(self, request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
        served = self._server_tools(request, dialect)
        body: dict[str, Any] = {
            "model": self._name,
            "system": [{"type": "text", "text": request.system, **self._prefix_mark}],
            "messages": _with_cache_marks(_own_messages(request, served)),
            **self._thinking(request, dialect),
        }
        if request.container and request.container not in dialect.lost_containers:
            body["container"] = request.container
        if request.tools:
            *others, last = (_taken(tool, dialect.without) for tool in request.tools)
            last |= self._prefix_mark  # of their own: the tools stay when the system changes
            body["tools"] = [*map(_server_tool, served), *others, last]
            body["tool_choice"] = {"type": request.tool_choice}
        return body

    def _server_tools(self, request: ModelRequest, dialect: Dialect) -> list[ServerTool]:
        if self._cloud is not None:  # Anthropic's own tools are at Anthropic's only
            return []
        return [tool for tool in request.server_tools if tool not in dialect.no_server_tools]

    def _thinking(self, request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
        """How much the model is to think, as it takes it."""
        effort = request.effort
        if effort is None:
            return {}
        if effort == "none" and "disabled" in dialect.thinking:
            return {"thinking": {"type": "disabled"}}
        level = dialect.level(effort)
        body: dict[str, Any] = {"output_config": {"effort": level}} if level else {}
        way = next((way for way in dialect.thinking if way != "disabled"), None)
        if way == "adaptive":
            body["thinking"] = {"type": way}
        elif way == "enabled" and (budget := self._budget(request)):
            body["thinking"] = {"type": way, "budget_tokens": budget}
        return body

    def _budget(self, request: ModelRequest) -> int | None:
        """Tokens of thinking for models that want their number; None where they must not think:
        the limit of the reply leaves no room, or calls stand in this turn without their thoughts.
        """
        configured = self._options.fields.get("max_tokens")
        limit = configured if isinstance(configured, int) else request.max_tokens
        budget = int(limit * _SHARES[request.effort or "low"])
        thoughtless = (
            message["role"] == "assistant"
            and not message["content"][0]["type"].endswith("thinking")
            for message in map(_own, this_turn(request.messages))
            if message["content"]
        )
        return budget if budget >= _LEAST_BUDGET and not any(thoughtless) else None


def _taken(tool: Mapping[str, Any], without: frozenset[str]) -> dict[str, Any]:
    """The tool as the service takes it."""
    taken = {name: value for name, value in tool.items() if name not in without}
    if "input_examples" in without:
        taken["description"] = description_with_examples(tool)
    return taken


def _server_tool(name: ServerTool) -> dict[str, Any]:
    return {"type": _SERVER_TOOLS[name], "name": name}


def _own_messages(request: ModelRequest, served: Sequence[ServerTool]) -> list[Message]:
    """The history without what the service did itself, where it may not do so any more."""
    own = [*map(_own, request.messages)]
    return own if served else [without_service_blocks(message) for message in own]


def _own(message: Message) -> Message:
    """The message without what only services of chat completions understand; it is in the history
    where a provider changed its kind and kept its name."""
    content = [_with_own_id(block) for block in message["content"] if VIA not in block]
    return {**message, "content": [{k: v for k, v in b.items() if k != EXTRA} for b in content]}


def _with_own_id(block: Block) -> Block:
    """The block with an id that the API takes; other services have others, Kimi for example."""
    key = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block["type"])
    if key is None or _ID.fullmatch(block[key]):
        return block
    return {**block, key: short_id(block[key])}


def _with_cache_marks(messages: Sequence[Message]) -> list[Message]:
    """The messages with the ends of the last user messages marked, up to where they are cached."""
    marked = list(messages)
    positions = [n for n, message in enumerate(messages) if message["role"] == "user"]
    for position in positions[-_CACHED_MESSAGES:]:
        *content, last = marked[position]["content"]
        marked[position] = {**marked[position], "content": [*content, {**last, **_CACHED}]}
    return marked


async def _at_once(
    response: Any, host: str, broken: Callable[[object], ModelError]
) -> AsyncGenerator[ModelEvent, None]:
    """The events of a reply that came in one JSON. Raises ModelError for what is no reply."""
    async for message in payloads(response.aiter_bytes(), host):
        if message.get("type") == "error":
            raise broken(message)
        if message.get("type") != "message":  # a stream that only says that it is JSON
            yield message
            continue
        used, why = message.get("usage"), message.get("stop_reason")
        usage = used if isinstance(used, Mapping) else None
        for event in replay(message["content"], stop_reason=why, usage=usage):
            yield event


def _as_json(event: Any) -> ModelEvent:
    if not hasattr(event, "model_dump"):
        raise unreadable(TypeError(type(event).__name__))
    # Without warnings: the SDK lets unknown kinds of events and blocks through unchecked.
    dumped: ModelEvent = event.model_dump(mode="json", exclude_none=True, warnings=False)
    return dumped
