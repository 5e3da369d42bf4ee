"""What leaves for a model: who is told of it, and the last look at what must not go."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from jupyter_agent.choices import Share
from jupyter_agent.conversations.requests import RequestLog, RequestStore, leaves_machine
from jupyter_agent.conversations.store import Opening, TurnRecord
from jupyter_agent.events import Notice
from jupyter_agent.models.base import Model, ModelEvent, ModelRequest
from jupyter_agent.text.notebook import HIDDEN
from jupyter_agent.workspace.visibility import View

_SENT: Mapping[Share, str] = {
    "all": "the cells, outputs and files",
    "no-outputs": "the cells and files, but no outputs and no variables,",
    "code-only": "the code, but no Markdown, no outputs, no variables and no other files,",
}


async def notices(
    store: RequestStore, opening: Opening, model: Model, *others: Notice | None
) -> Sequence[Notice]:
    """What a person is told before a turn sends anything; `others` may be None."""
    told = [await first_sending(store, opening.turn, model), _left_out(opening), *others]
    return [notice for notice in told if notice is not None]


class RecordedModel:
    """A model that is sent only what it may be told, and whose requests are kept.

    A cell may be hidden after it was read: then the conversation still holds what it said. The same
    is true of a key that was set after it was printed.
    """

    def __init__(
        self,
        model: Model,
        log: RequestLog,
        visibility: Callable[[], Awaitable[View]],
        user: str,
    ) -> None:
        """`visibility` gives what a model may be told as things are now; `user` is who asks."""
        self.id = model.id
        self.host = model.host
        self._model = model
        self._log = log
        self._visibility = visibility
        self._user = user

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the model's reply. Raises ModelError."""
        view = await self._visibility()
        system, messages = view.request(request.system, request.messages)
        request = replace(request, system=system, messages=messages, user=self._user)
        await self._log.add(self._model, request)
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                yield event


async def first_sending(store: RequestStore, turn: TurnRecord, model: Model) -> Notice | None:
    """Who gets what, told when something is sent there for the first time."""
    if not leaves_machine(model.host) or await store.sent_to(turn.owner, model.host):
        return None
    share: Share = turn.request["share"]
    return Notice(
        kind="provider",
        text=f"Your question, and {_SENT[share]} that the assistant reads for it, are sent to "
        f"{model.host}, for the model {model.id}. Cells tagged `{HIDDEN}` are not.",
        facts={"host": model.host, "model": model.id, "share": share},
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
        facts={"turns": left, "share": share},
    )
