"""What the loop needs from a language model: one request in, one stream of events out.

Messages, content blocks, tools and stream events are Anthropic's, as plain JSON values. They are
the canonical history, kept verbatim (a thinking block is only valid with its signature); a provider
that speaks another language translates at its own edge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Block: TypeAlias = Mapping[str, Any]
"""A content block: `text`, `thinking`, `tool_use`, `tool_result`, `image`, `document` (a PDF with
its name as `title`), or another."""
VIA = "via"
"""Key of a thinking block that no signature vouches for: the name of the field in which it came,
and under which its model wants it back."""
Effort: TypeAlias = Literal["none", "low", "medium", "high", "max"]
"""How much a model thinks before it answers; `none` is not at all."""
ServerTool: TypeAlias = Literal["web_search", "web_fetch", "code_execution"]
"""What a service itself may do for its model."""
CacheTtl: TypeAlias = Literal["5m", "1h"]
"""How long a service keeps what it was sent."""
Message: TypeAlias = Mapping[str, Any]
"""`{"role": "user" | "assistant", "content": [Block, ...]}`."""
ModelEvent: TypeAlias = Mapping[str, Any]
"""`message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`,
`message_delta`, `message_stop`, or a type not known here."""


class LeftOut(dict[str, Any]):
    """An event of ours among those of a reply, which no service can send: what its request lacks,
    since the service refused it with that. `kind`, `text` and `facts` are those of a notice.
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
    """Sent to services that have them."""
    messages: Sequence[Message]
    max_tokens: int = 16_000
    tool_choice: Literal["auto", "none"] = "auto"
    effort: Effort | None = None
    """None leaves it to the model."""
    container: str | None = None
    """Id of the container in which the service ran code earlier in this turn."""
    user: str = ""
    """Name of the person who asks, for gateways that want to know; empty where nobody does."""


_MOST_TOKENS = 10**9
"""Of one reply: what is more was counted by nobody, and would not fit into a store."""


def token_count(value: Any) -> int | None:
    """What a service counted; None for what can be no count, such as a negative number."""
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if counts else None


def usage_of(prompt: Any, cached: Any, output: Any) -> dict[str, int]:
    """A reply's tokens under Anthropic's names, of a service that counts those which its cache had
    among the prompt's. Where there are more of them than that, it leaves them out of the prompt's.
    """
    read, hit = token_count(prompt) or 0, token_count(cached) or 0
    return {
        "input_tokens": read - hit if hit <= read else read,
        "cache_read_input_tokens": hit,
        "output_tokens": token_count(output) or 0,
    }


def short_id(call_id: str) -> str:
    """Another id of a call, which every service takes; the same in each request."""
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def data_url(block: Block) -> str:
    """An image or a document as a `data:` URL in base64."""
    source = block["source"]
    return f"data:{source['media_type']};base64,{source['data']}"


def is_of_service(block: Block) -> bool:
    """Whether a block is the call of a tool that the service itself has, or the result of one."""
    kind = str(block["type"])
    return kind == "server_tool_use" or (
        kind.endswith("_tool_result") and kind != "mcp_tool_result"
    )


def description_with_examples(tool: Mapping[str, Any]) -> str:
    """The description of a tool for services that take examples nowhere else."""
    examples = (json.dumps(example) for example in tool.get("input_examples", ()))
    return " ".join([tool["description"], *(f"Example: {example}." for example in examples)])


def without_service_blocks(message: Message) -> Message:
    """The message without what a service did itself, and without references to what it found."""
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
        """Where requests go, e.g. `api.anthropic.com`; empty where nothing leaves the server."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of one reply. Closing the generator closes the connection.

        Raises ModelError for everything that goes wrong on the way. It never retries what failed:
        only the loop does, because only there a retry can be told and stopped. (A request that was
        refused for a field that the model does not take may be made again without it.)
        """
