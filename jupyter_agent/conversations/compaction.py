"""Summarising a conversation because a person asks for it, between two turns."""

from __future__ import annotations

from jupyter_agent.agent.compaction import compact
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.conversations.store import ConversationStore, Message, TurnRecord
from jupyter_agent.events import Usage
from jupyter_agent.models.base import Model
from jupyter_agent.models.facts import Facts


async def open_transcript(store: ConversationStore, record: TurnRecord) -> Transcript:
    """The conversation's history; what is added belongs to this turn."""

    async def append(message: Message) -> None:
        await store.append(record.id, message)

    return Transcript(await store.sendable(record), append)


async def compact_after(
    store: ConversationStore, last: TurnRecord, model: Model, facts: Facts
) -> Usage | None:
    """Summarise all up to the last turn, which has ended; its usage counts what that used.

    None where nothing is left to summarise. Raises ModelError.
    """
    meter = Meter(Limits(), facts)
    transcript = await open_transcript(store, last)
    try:
        compacted = await compact(transcript, model, Limits(), meter.spend)
    finally:
        await store.add_usage(last.id, meter.usage)
    return meter.usage if compacted else None
