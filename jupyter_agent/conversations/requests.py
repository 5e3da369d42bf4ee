"""Requests to models: checked once more for secrets, then stored for their owner to look at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.choices import Share
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.store import Opening, TurnRecord
from jupyter_agent.events import Notice
from jupyter_agent.models.base import Block, Model, ModelEvent, ModelRequest
from jupyter_agent.text.notebook import HIDDEN
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.visibility import View

_PARTS = ("system", "tools", "messages", "max_tokens", "tool_choice")


def leaves_machine(host: str) -> bool:
    """Whether what is sent to that host and port goes to another machine."""
    name = urlsplit(f"//{host}").hostname
    return name is not None and name not in ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class SentRequest:
    """A request as it is kept: what it adds to the one before it in its turn, which it repeats."""

    host: str
    added: str
    """JSON."""


class RequestLog:
    """Keeps the requests of one turn, each before it is sent."""

    def __init__(
        self,
        redactor: Redactor,
        write: Callable[[Sequence[SentRequest]], Awaitable[None]],
        before: Mapping[str, Any] | None = None,
    ) -> None:
        """`redactor` takes out the keys that people wrote to a model. `write` is called for every
        request, and with none for one that stays here. `before` is the turn's last one so far
        (`RequestStore.of_turn`).
        """
        self._redactor = redactor
        self._write = write
        self._before = before or {}

    async def add(self, model: Model, request: ModelRequest) -> None:
        """Returns when the request is kept. Raises StoreUnavailable."""
        if not model.host:
            await self._write([])
            return
        parts = {part: getattr(request, part) for part in _PARTS}
        if request.server_tools:
            parts["server_tools"] = list(request.server_tools)
        if request.effort is not None:
            parts["effort"] = request.effort
        parts["messages"] = [_without_pictures(message) for message in request.messages]
        kept = {"model": model.id, **self._redactor.mask_all(parts)}
        sent = {**kept, "characters": len(json.dumps(kept, ensure_ascii=False))}
        added = json.dumps(_added(sent, self._before))
        await self._write([SentRequest(host=model.host, added=added)])
        self._before = sent


def project(db: sqlite3.Connection, turn_id: str, sent: SentRequest) -> None:
    """Within a transaction: the request is the turn's last."""
    db.execute(
        "INSERT INTO requests (turn_id, seq, host, request, made) SELECT ?1,"
        " coalesce(max(seq), 0) + 1, ?2, ?3, ?4 FROM requests WHERE turn_id = ?1",
        (turn_id, sent.host, sent.added, now()),
    )


class RequestStore:
    """The requests of all turns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_turn(self, turn_id: str) -> list[dict[str, Any]]:
        """Each request of a turn in full: `host`, `made`, `characters`, then what was sent."""
        rows = await self._database.rows(
            "SELECT host, request, made FROM requests WHERE turn_id = ? ORDER BY seq", turn_id
        )
        requests: list[dict[str, Any]] = []
        for row in rows:
            kept = json.loads(row["request"])
            before = requests[-1] if requests else {"messages": []}
            messages = before["messages"][: kept.pop("repeats", 0)] + kept.pop("messages")
            about = {"host": row["host"], "made": row["made"]}
            requests.append({**before, **about, **kept, "messages": messages})
        return requests

    async def sent_to(self, owner: str, host: str) -> bool:
        """Whether anything of this owner was sent there before."""
        row = await self._database.row(
            "SELECT 1 FROM requests r JOIN turns t ON t.id = r.turn_id"
            " WHERE t.owner = ? AND r.host = ? LIMIT 1",
            owner,
            host,
        )
        return row is not None


def _added(sent: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    added = {part: value for part, value in sent.items() if value != before.get(part)}
    pairs = zip(before.get("messages", ()), sent["messages"], strict=False)
    repeats = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return {**added, "messages": sent["messages"][repeats:], "repeats": repeats}


def _without_pictures(value: Any) -> Any:
    """The same with the bytes of images replaced by their number."""
    if isinstance(value, Mapping):
        if value.get("type") in ("image", "document"):
            return _size_of_picture(value)
        return {key: _without_pictures(item) for key, item in value.items()}
    return [_without_pictures(item) for item in value] if isinstance(value, list) else value


def _size_of_picture(image: Block) -> Block:
    source = image["source"]
    size = len(source.get("data", "")) * 3 // 4
    return {**image, "source": {**source, "data": f"({size} bytes, not kept)"}}


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
