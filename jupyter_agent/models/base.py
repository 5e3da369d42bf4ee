"""The interface of language models: one request in, one stream of events out.

Messages, content blocks, tools and stream events are Anthropic's, as plain JSON values. They are
the canonical history, stored verbatim (a thinking block is only valid with its signature); a
provider with another format translates to and from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias
from uuid import uuid4

Block: TypeAlias = Mapping[str, Any]
"""A content block: `text`, `thinking`, `tool_use`, `tool_result`, `image`, `document` (a PDF with
its name as `title`), or another."""
VIA = "via"
"""Key of a thinking block without a signature: the name of the field in which it came and in which
its model expects it back."""
Effort: TypeAlias = Literal["none", "low", "medium", "high", "max"]
"""How much a model thinks before it answers; `none` is not at all."""
ServerTool: TypeAlias = Literal["web_search", "web_fetch", "code_execution"]
"""A tool that a service can run itself for its model."""
CacheTtl: TypeAlias = Literal["5m", "1h"]
"""How long a service caches a prompt."""
Message: TypeAlias = Mapping[str, Any]
"""`{"role": "user" | "assistant", "content": [Block, ...]}`."""
ModelEvent: TypeAlias = Mapping[str, Any]
"""`message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`,
`message_delta`, `message_stop`, or a type not known here."""


class Omission(dict[str, Any]):
    """An event of our own among those of a reply: a part that the request lacks because the service
    refused it. `kind`, `text` and `facts` are those of a notice. No service can send one.
    """


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One question to a model."""

    system: str
    """The system prompt: the same bytes in all requests of a conversation, so that it is cached."""
    tools: Sequence[Mapping[str, Any]] = ()
    """`{"name", "description", "input_schema"}`, some with `input_examples` and `strict`, sorted by
    name."""
    server_tools: Sequence[ServerTool] = ()
    """Only sent to services that have them."""
    messages: Sequence[Message]
    max_tokens: int = 16_000
    tool_choice: Literal["auto", "none"] = "auto"
    effort: Effort | None = None
    """None leaves it to the model."""
    container: str | None = None
    """Id of the container in which the service ran code earlier in this turn."""
    user: str = ""
    """Name of the person who asks, for gateways that want it; may be empty."""


_MOST_TOKENS = 10**9
"""Tokens of one reply; a larger count is wrong, and might not fit into the store."""


def token_count(value: Any) -> int | None:
    """A service's count of tokens; None for an invalid one, such as a negative number."""
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if counts else None


def usage_of(prompt: Any, cached: Any, output: Any) -> dict[str, int]:
    """A reply's tokens under Anthropic's names, for a service that counts cached tokens as part of
    the prompt. A service that reports more cached than prompt tokens counts them separately.
    """
    read, hit = token_count(prompt) or 0, token_count(cached) or 0
    return {
        "input_tokens": read - hit if hit <= read else read,
        "cache_read_input_tokens": hit,
        "output_tokens": token_count(output) or 0,
    }


def new_call_id() -> str:
    """An id for a call to which its service gave none, or one that is in use."""
    return f"call_{uuid4().hex[:24]}"


def short_id(call_id: str) -> str:
    """A shorter id for a call, which every service accepts; the same in each request."""
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def data_url(block: Block) -> str:
    """An image or a document as a `data:` URL in base64."""
    source = block["source"]
    return f"data:{source['media_type']};base64,{source['data']}"


def is_of_service(block: Block) -> bool:
    """Whether a block is a call of a tool that the service runs itself, or its result."""
    kind = str(block["type"])
    return kind == "server_tool_use" or (
        kind.endswith("_tool_result") and kind != "mcp_tool_result"
    )


def description_with_examples(tool: Mapping[str, Any]) -> str:
    """A tool's description with its examples, for services without a field for examples."""
    examples = (json.dumps(example) for example in tool.get("input_examples", ()))
    return " ".join([tool["description"], *(f"Example: {example}." for example in examples)])


def without_service_blocks(message: Message) -> Message:
    """The message without the service's own calls and results, and without citations."""
    if message["role"] != "assistant":
        return message
    kept = [block for block in message["content"] if not is_of_service(block)]
    return {
        **message,
        "content": [{k: v for k, v in block.items() if k != "citations"} for block in kept],
    }


class Model(Protocol):
    """A language model at a provider."""

    @property
    def id(self) -> str:
        """`provider:model`, e.g. `anthropic:claude-sonnet-5-5`."""

    @property
    def host(self) -> str:
        """Where requests go, e.g. `api.anthropic.com`; empty if nothing leaves the server."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of one reply. Closing the generator closes the connection.

        Raises ModelError for all errors. It never retries a failed request: only the loop does,
        which can report and stop a retry. (A request may be sent again without a field that was
        refused, or if it met the end of an idle connection.)
        """
