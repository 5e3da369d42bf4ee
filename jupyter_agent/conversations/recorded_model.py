"""Requests to models: the notices before them, and the last check for text that must not leave."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from jupyter_agent.choices import Share
from jupyter_agent.conversations.records import Opening, TurnRecord
from jupyter_agent.conversations.requests import RequestLog, RequestStore, leaves_machine
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
    """The notices for a person before a turn sends anything; Nones among `others` are dropped."""
    every = [await provider_notice(store, opening.turn, model), _withheld_notice(opening), *others]
    return [notice for notice in every if notice is not None]


class RecordedModel:
    """A model whose requests are checked, stored and then sent.

    A cell may be hidden after it was read, or a key set after it was printed: the conversation then
    still has its text.
    """

    def __init__(
        self,
        model: Model,
        log: RequestLog,
        visibility: Callable[[], Awaitable[View]],
        user: str,
    ) -> None:
        """`visibility` gives the current view of what a model may see; `user` is who asks."""
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


async def provider_notice(store: RequestStore, turn: TurnRecord, model: Model) -> Notice | None:
    """Who gets which data, the first time that something is sent to the model's host; else None."""
    if not leaves_machine(model.host) or await store.has_sent_to(turn.owner, model.host):
        return None
    share: Share = turn.request["share"]
    return Notice(
        kind="provider",
        text=f"Your question, and {_SENT[share]} that the assistant reads for it, are sent to "
        f"{model.host}, for the model {model.id}. Cells tagged `{HIDDEN}` are not.",
        facts={"host": model.host, "model": model.id, "share": share},
    )


def _withheld_notice(opening: Opening) -> Notice | None:
    """The number of turns that are not sent again because more was shared in them; or None."""
    count, share = opening.withheld, opening.turn.request["share"]
    if not count:
        return None
    return Notice(
        kind="withheld",
        text=f"The model does not get {count} earlier turns of this conversation: more was shared "
        f"in them than now (`{share}`).",
        facts={"turns": count, "share": share},
    )
