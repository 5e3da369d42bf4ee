"""The kinds of API, each with the bytes of its replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.plugs.providers.responses import ResponsesModel
from tests.fakes import Scripted, calls, says, thinks
from tests.fakes.dialects import written_as_documented
from tests.fakes.responses import events as response_events

KEY = "sk-test-0123456789"
CALL = {**calls("look", cell_id="ä"), "id": "toolu_1"}
REPLY = Scripted(blocks=[thinks("Hm."), says("Grüße, wörld 🙂."), CALL])


def frame(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def messages(reply: Scripted) -> Iterator[bytes]:
    return map(frame, reply.events())


def chat_completion(reply: Scripted) -> Iterator[bytes]:
    for chunk in written_as_documented(reply):
        yield f"data: {json.dumps(chunk)}\n\n".encode()
    yield b"data: [DONE]\n\n"


def response(reply: Scripted) -> Iterator[bytes]:
    return map(frame, response_events(reply))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """An API."""

    model: Callable[..., Any]
    writes: Callable[[Scripted], Iterator[bytes]]
    end: bytes
    """The start of a reply's last part, without which it is incomplete."""
    no_tools: Any
    """The fields that forbid tool calls."""
    root: str = "/v1"

    def frames(self, reply: Scripted = REPLY) -> list[bytes]:
        return list(self.writes(reply))


KINDS = {
    "anthropic": Kind(
        model=AnthropicModel,
        writes=messages,
        end=b"event: message_stop",
        no_tools={"type": "none"},
        root="",
    ),
    "chat-completions": Kind(
        model=OpenAIModel, writes=chat_completion, end=b'"finish_reason": "', no_tools="none"
    ),
    "responses": Kind(
        model=ResponsesModel, writes=response, end=b"event: response.completed", no_tools="none"
    ),
}
