"""Turns that the store says to run and nobody runs: what a crash or a full disk left behind."""

from __future__ import annotations

import asyncio
import logging

from jupyter_agent.conversations.compaction import open_transcript
from jupyter_agent.conversations.presence import Presence
from jupyter_agent.conversations.store import ConversationStore, TurnRecord
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import Event, TurnFailed, TurnStarted, Usage

log = logging.getLogger(__name__)


class Interrupted:
    """Ends them as `interrupted`, with a valid history. Nothing is run again."""

    def __init__(self, store: ConversationStore, presence: Presence) -> None:
        self._store = store
        self._presence = presence
        self._unended: set[str] = set()
        self._lock = asyncio.Lock()

    def add(self, turn_id: str) -> None:
        """A turn of this server is over, and its end could not be written."""
        self._unended.add(turn_id)

    async def end(self) -> None:
        """Ends those that can be ended now; a turn of another server that is alive goes on."""
        async with self._lock:
            try:
                for server, record in await self._store.live_turns():
                    if await self._left(server, record.id):
                        await self._end(record)
                        self._unended.discard(record.id)
            except StoreUnavailable as error:  # what is in the store can still be read, perhaps
                log.error("Interrupted turns are not ended yet: %s", error)

    async def _left(self, server: str, turn_id: str) -> bool:
        if server == self._presence.id:
            return turn_id in self._unended
        if await asyncio.to_thread(self._presence.alive, server):
            return False
        claimed = await self._store.claim(turn_id, server, self._presence.id)
        if claimed:
            self._unended.add(turn_id)  # it is ours now, also if its end fails
        return claimed

    async def _end(self, record: TurnRecord) -> None:
        await (await open_transcript(self._store, record)).finish()
        seq = await self._store.last_seq(record.id)
        error = "The server stopped during this turn. Nothing was run again; you can ask again."
        events: list[Event] = [] if seq else [started(record)]
        events.append(TurnFailed(error=error))
        await self._store.end(
            record.id,
            state="interrupted",
            stop_reason="interrupted",
            steps=record.steps,
            usage=Usage(),
            events=list(enumerate(events, start=seq + 1)),
        )


def started(turn: TurnRecord) -> TurnStarted:
    """The first event of a turn."""
    return TurnStarted(
        message_id=turn.answer_id,
        conversation_id=turn.conversation_id,
        turn_id=turn.id,
        model=turn.request["model"],
        notebook=turn.request["notebook"],
    )
