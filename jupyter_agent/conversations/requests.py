"""Requests to models as they were sent, stored for their owner to look at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.conversations.database import Database, now
from jupyter_agent.models.base import Block, Model, ModelRequest
from jupyter_agent.workspace.redactor import Redactor

_PARTS = ("system", "tools", "messages", "max_tokens", "tool_choice")


def leaves_machine(host: str) -> bool:
    """Whether requests to that host and port go to another machine."""
    name = urlsplit(f"//{host}").hostname
    return name is not None and name not in ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class SentRequest:
    """A request to store, as the difference from the request before it in its turn."""

    host: str
    added: str
    """The difference, as JSON."""


class RequestLog:
    """Stores the requests of one turn, each before it is sent."""

    def __init__(
        self,
        redactor: Redactor,
        write: Callable[[Sequence[SentRequest]], Awaitable[None]],
        before: Mapping[str, Any] | None = None,
    ) -> None:
        """`redactor` masks keys that people wrote to a model. `write` is called for every request;
        without requests for one that stays on this machine. `before` is the turn's last request so
        far (`RequestStore.of_turn`).
        """
        self._redactor = redactor
        self._write = write
        self._before = before or {}

    async def add(self, model: Model, request: ModelRequest) -> None:
        """Store the request. Raises StoreUnavailable."""
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
        added = json.dumps(_difference(sent, self._before))
        await self._write([SentRequest(host=model.host, added=added)])
        self._before = sent


def project(db: sqlite3.Connection, turn_id: str, sent: SentRequest) -> None:
    """Within a transaction: append the request to those of the turn."""
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
        """Each request of a turn in full: `host`, `made`, `characters`, then its content."""
        rows = await self._database.rows(
            "SELECT host, request, made FROM requests WHERE turn_id = ? ORDER BY seq", turn_id
        )
        requests: list[dict[str, Any]] = []
        for row in rows:
            stored = json.loads(row["request"])
            before = requests[-1] if requests else {"messages": []}
            messages = before["messages"][: stored.pop("repeats", 0)] + stored.pop("messages")
            about = {"host": row["host"], "made": row["made"]}
            requests.append({**before, **about, **stored, "messages": messages})
        return requests

    async def has_sent_to(self, owner: str, host: str) -> bool:
        """Whether a request of this owner has gone to that host before."""
        row = await self._database.row(
            "SELECT 1 FROM requests r JOIN turns t ON t.id = r.turn_id"
            " WHERE t.owner = ? AND r.host = ? LIMIT 1",
            owner,
            host,
        )
        return row is not None


def _difference(sent: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    added = {part: value for part, value in sent.items() if value != before.get(part)}
    pairs = zip(before.get("messages", ()), sent["messages"], strict=False)
    repeats = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return {**added, "messages": sent["messages"][repeats:], "repeats": repeats}


def _without_pictures(value: Any) -> Any:
    """The value with the data of images and documents replaced by their size in bytes."""
    if isinstance(value, Mapping):
        if value.get("type") in ("image", "document"):
            return _size_of_picture(value)
        return {key: _without_pictures(item) for key, item in value.items()}
    return [_without_pictures(item) for item in value] if isinstance(value, list) else value


def _size_of_picture(image: Block) -> Block:
    source = image["source"]
    size = len(source.get("data", "")) * 3 // 4
    return {**image, "source": {**source, "data": f"({size} bytes, not kept)"}}
