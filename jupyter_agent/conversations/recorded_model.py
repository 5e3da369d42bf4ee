"""What leaves for a model: who is told of it, and the last look at what must not go."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

from jupyter_agent.conversations.requests import RequestStore, leaves_machine
from jupyter_agent.conversations.store import Opening, TurnRecord
from jupyter_agent.events import Notice
from jupyter_agent.models.base import Block, Model, ModelEvent, ModelRequest
from jupyter_agent.text.notebook import HIDDEN
from jupyter_agent.workspace.visibility import Share

Redact: TypeAlias = Callable[[str], str]
_SENT: Mapping[Share, str] = {
    "all": "the cells, outputs and files",
    "no-outputs": "the cells and files, but no outputs and no variables,",
    "code-only": "the code, but no Markdown, no outputs, no variables and no other files,",
}
_NAMES = ("type", "id", "tool_use_id", "name", "role", "signature", "data", "media_type")
"""Fields that hold no text of a notebook."""


async def notices(store: RequestStore, opening: Opening, model: Model) -> Sequence[Notice]:
    """What a person is told before a turn sends anything."""
    told = [await _first_sending(store, opening.turn, model), _left_out(opening)]
    return [notice for notice in told if notice is not None]


class Sent:
    """A model that is sent nothing that quotes a hidden cell, and whose requests are kept.

    A cell may be hidden after it was read: then the conversation still holds what it said.
    """

    def __init__(
        self,
        model: Model,
        store: RequestStore,
        turn_id: str,
        redact: Callable[[], Awaitable[Redact]],
    ) -> None:
        """`redact` gives what takes quotations out of a text, as things are now."""
        self.id = model.id
        self.host = model.host
        self._model = model
        self._store = store
        self._turn_id = turn_id
        self._redact = redact
        self._last: Mapping[str, Any] | None = None
        """The request before, as it is kept; None until it was looked up."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the model's reply. Raises ModelError."""
        redact = await self._redact()
        request = replace(
            request,
            system=redact(request.system),
            messages=[_message(message, redact) for message in request.messages],
        )
        if self.host:
            if self._last is None:  # a summary follows the requests of its turn
                earlier = await self._store.of_turn(self._turn_id)
                self._last = earlier[-1] if earlier else {}
            self._last = await self._store.add(self._turn_id, self._model, request, self._last)
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                yield event


async def _first_sending(store: RequestStore, turn: TurnRecord, model: Model) -> Notice | None:
    """Who gets what, told when something is sent there for the first time."""
    if not leaves_machine(model.host) or await store.sent_to(turn.owner, model.host):
        return None
    share: Share = turn.request["share"]
    return Notice(
        kind="provider",
        text=f"Your question, and {_SENT[share]} that the assistant reads for it, are sent to "
        f"{model.host}, for the model {model.id}. Cells tagged `{HIDDEN}` are not.",
        facts={"host": model.host, "share": share},
    )


def _left_out(opening: Opening) -> Notice | None:
    """Turns that are not sent again: they were made when more was shared."""
    left, share = opening.withheld, opening.turn.request["share"]
    if not left:
        return None
    return Notice(
        kind="withheld",
        text=f"The model is not told of {left} earlier turns of this conversation: more was shared "
        f"in them than now (`{share}`).",
        facts={"turns": left},
    )


def _message(message: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": redact(content)}
    return {**message, "content": [_block(block, redact) for block in content]}


def _block(block: Block, redact: Redact) -> Block:
    if block["type"] == "thinking":  # signed: it can only go as a whole
        clean = redact(block["thinking"]) == block["thinking"]
        return block if clean else {"type": "text", "text": redact(block["thinking"])}
    redacted: Block = _strings(block, redact)
    return redacted


def _strings(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            key: item if key in _NAMES and isinstance(item, str) else _strings(item, redact)
            for key, item in value.items()
        }
    return [_strings(item, redact) for item in value] if isinstance(value, list | tuple) else value
