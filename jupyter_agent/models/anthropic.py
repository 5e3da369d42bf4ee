"""Claude, through the official SDK.

The events are read from the SDK's response, because its helpers parse a tool's input while it is
incomplete and retry without notice, and its objects would be made only to become JSON again. The
SDK is imported on first use and off the event loop, because the import
takes longer than a server may block.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_agent.models.base import (
    VIA,
    Block,
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
from jupyter_agent.models.dialect import Dialect, learn_containers, learn_effort, learn_tools
from jupyter_agent.models.endpoint import Endpoint, Service
from jupyter_agent.models.faults import unreadable
from jupyter_agent.models.lines import AWS_STREAM, DONE, payloads, until_complete
from jupyter_agent.models.replay import replay

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_CLAUDE = Dialect(efforts=("low", "medium", "high", "max"))
_SHARES: Mapping[Effort, float] = {
    "none": 0.0, "low": 0.125, "medium": 0.25, "high": 0.5, "max": 0.75,
}  # fmt: skip
"""Shares of a reply's limit for the thinking of models that need a budget."""
_TOOL_FIELDS = {
    "input_examples": re.compile(r"\binput_examples\b"),
    "strict": re.compile(r"\bstrict\b|\bgrammar\b|schemas? (is|are) too complex", re.IGNORECASE),
}
"""Fields of tools that not all models and clouds accept, and the words of their refusals."""
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_LEAST_BUDGET = 1024
"""Source: https://platform.claude.com/docs/en/build-with-claude/extended-thinking."""
_SERVER_TOOLS: Mapping[ServerTool, str] = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
    "code_execution": "code_execution_20250825",
}
"""The versions that most models support.
Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview."""


def _has_reason(message: Any) -> bool:
    delta = message.get("delta") if isinstance(message, Mapping) else None
    return isinstance(delta, Mapping) and bool(delta.get("stop_reason"))


def _cache_mark(**ttl: str) -> Mapping[str, Any]:
    return {"cache_control": {"type": "ephemeral", **ttl}}


_CACHE_MARK = _cache_mark()
_MARKED_MESSAGES = 2
"""A cache lookup goes back only some 20 blocks, and a step with many calls can have more."""


class AnthropicModel(Endpoint):
    """A model of Anthropic, or of another service with the Messages API."""

    _sdk = "anthropic"
    _sdk_error = "AnthropicError"
    _list = "/v1/models"
    _home = "https://api.anthropic.com"

    def __init__(self, name: str, service: Service) -> None:
        super().__init__(name, service, _CLAUDE)
        ttl = service.cache_ttl
        self._prefix_mark = _CACHE_MARK if ttl == "5m" else _cache_mark(ttl=ttl)
        """For the tools and the system prompt, which all conversations share."""

    async def _events(self, stream: Any, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if stream.response.headers.get("content-type", "").startswith(AWS_STREAM):
            async for event in stream:
                yield _as_json(event)
            return
        whole = payloads(stream.response.aiter_bytes(), self.host)
        # A ping says nothing, so a stream of pings has stalled.
        messages = (each async for each in whole if each == DONE or each.get("type") != "ping")
        async for message in until_complete(messages, _has_reason):
            if message == DONE:
                break
            if message.get("type") == "error" or message.get("error"):
                raise self._api_error(200, message, stream.response.headers)
            if message.get("type") != "message":
                yield message
                continue
            used, why = message.get("usage"), message.get("stop_reason")  # a reply in one piece
            usage = used if isinstance(used, Mapping) else None
            for event in replay(message["content"], stop_reason=why, usage=usage):
                yield event

    async def _create(self, client: Any, request: ModelRequest, dialect: Dialect) -> Any:
        create: Any = client.messages.create  # our JSON matches none of its overloads
        # The SDK requires a limit, even if another one is configured.
        who = self._network.headers_for(request.user)
        body = self._options.merge(self._body(request, dialect), headers=who)
        return await create(stream=True, **{"max_tokens": request.max_tokens, **body})

    def _learn(self, dialect: Dialect, said: str, request: ModelRequest) -> Dialect | None:
        """Models differ in the fields of tools and the kinds of thinking that they accept."""
        for name, words in _TOOL_FIELDS.items():
            if name not in dialect.refused_fields and words.search(said):
                return replace(dialect, refused_fields=dialect.refused_fields | {name})
        better = learn_containers(dialect, said, [request.container] if request.container else [])
        if better != dialect:
            return better
        better = learn_tools(dialect, said, self._server_tools(request, dialect))
        if better != dialect:
            return better
        if request.effort is None:
            return None
        way = self._thinking(request, dialect).get("thinking", {}).get("type")
        if way and re.search(rf"\b{way}\b|\bthinking\b", said):
            return replace(dialect, thinking=tuple(t for t in dialect.thinking if t != way))
        better = learn_effort(dialect, said, request.effort)
        return None if better == dialect else better

    def _connect(self) -> AsyncAnthropic:
        sdk = importlib.import_module("anthropic")
        client: AsyncAnthropic = sdk.AsyncAnthropic(
            api_key=self._api_key,
            base_url=self._base_url,
            open_telemetry=False,
            **self._network.client_options(sdk),
        )
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
            *others, last = (_tool(tool, dialect.refused_fields) for tool in request.tools)
            last |= self._prefix_mark  # their own mark: tools stay cached if the system changes
            body["tools"] = [*map(_server_tool, served), *others, last]
            body["tool_choice"] = {"type": request.tool_choice}
        return body

    def _server_tools(self, request: ModelRequest, dialect: Dialect) -> Sequence[ServerTool]:
        return [tool for tool in request.server_tools if tool not in dialect.no_server_tools]

    def _thinking(self, request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
        """The fields for the requested effort, in the form that the model accepts."""
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
        """Tokens of thinking for models that need a budget; None if they must not think, because
        the limit of the reply leaves no room or this turn has calls without their thoughts.
        """
        configured = self._options.fields.get("max_tokens")
        limit = configured if isinstance(configured, int) else request.max_tokens
        budget = int(limit * _SHARES[request.effort or "low"])
        thoughtless = (
            message["role"] == "assistant"
            and not message["content"][0]["type"].endswith("thinking")
            for message in map(_own_message, this_turn(request.messages))
            if message["content"]
        )
        return budget if budget >= _LEAST_BUDGET and not any(thoughtless) else None


def _tool(tool: Mapping[str, Any], refused_fields: frozenset[str]) -> dict[str, Any]:
    """The tool without the fields that the service refuses."""
    accepted = {name: value for name, value in tool.items() if name not in refused_fields}
    if "input_examples" in refused_fields:
        accepted["description"] = description_with_examples(tool)
    return accepted


def _server_tool(name: ServerTool) -> dict[str, Any]:
    return {"type": _SERVER_TOOLS[name], "name": name}


def _own_messages(request: ModelRequest, served: Sequence[ServerTool]) -> list[Message]:
    """The history; without the service's own calls if it may not use its tools any more."""
    own = [*map(_own_message, request.messages)]
    return own if served else [without_service_blocks(message) for message in own]


def _own_message(message: Message) -> Message:
    """The message without blocks and keys for chat completions, which the history has if a provider
    changed its kind but not its name."""
    content = [_with_own_id(block) for block in message["content"] if VIA not in block]
    return {**message, "content": [{k: v for k, v in b.items() if k != EXTRA} for b in content]}


def _with_own_id(block: Block) -> Block:
    """The block with an id that the API accepts; other services, such as Kimi, use others."""
    key = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block["type"])
    if key is None or _ID.fullmatch(block[key]):
        return block
    return {**block, key: short_id(block[key])}


def _with_cache_marks(messages: Sequence[Message]) -> list[Message]:
    """The messages with cache marks at the ends of the last user messages."""
    marked = list(messages)
    positions = [n for n, message in enumerate(messages) if message["role"] == "user"]
    for position in positions[-_MARKED_MESSAGES:]:
        *content, last = marked[position]["content"]
        marked[position] = {**marked[position], "content": [*content, {**last, **_CACHE_MARK}]}
    return marked


def _as_json(event: Any) -> ModelEvent:
    if not hasattr(event, "model_dump"):
        raise unreadable(TypeError(type(event).__name__))
    # Without warnings: the SDK passes on unknown kinds of events and blocks unchecked.
    dumped: ModelEvent = event.model_dump(mode="json", exclude_none=True, warnings=False)
    return dumped
