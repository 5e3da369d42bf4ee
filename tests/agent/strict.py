"""Turns with a strict API on a real socket and the real SDK. Each leaves a valid history: the API
accepts the next question.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from jupyter_agent.agent.turn import Ending
from jupyter_agent.events import Notice, TextDelta
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ModelEvent
from jupyter_agent.models.endpoint import Service
from tests.fakes import FakeAnthropic, Scripted, calls, says, thinks
from tests.fakes.script import FakeReply

from .conftest import Bench

WRITE = calls("write", cell_id="a", source="x = 5")
FULL = [thinks("Hm."), says("I set it, größer."), {**WRITE, "id": "toolu_w"}]
"""A reply with a block of each kind."""
EVENTS = list(Scripted(blocks=FULL).events())


@asynccontextmanager
async def strict(
    replies: Sequence[FakeReply], **fake: Any
) -> AsyncIterator[tuple[FakeAnthropic, AnthropicModel]]:
    """The API with these replies, and a model that uses it."""
    async with FakeAnthropic(replies, **fake) as api:
        model = AnthropicModel(
            "claude", Service(provider="anthropic", api_key=api.api_key, base_url=api.url)
        )
        try:
            yield api, model
        finally:
            await model.close()


async def converse(
    bench: Bench, replies: Sequence[FakeReply], **fake: Any
) -> tuple[Ending, FakeAnthropic]:
    """A turn with these replies, then another question, which the API must accept."""
    async with strict(replies, **fake) as (api, model):
        ending = await bench.run(model)
        await accepted(bench, api, model)
    return ending, api


async def accepted(bench: Bench, api: FakeAnthropic, model: AnthropicModel) -> None:
    """Whatever happened, the strict API accepts the next question. Its request is not recorded."""
    api.max_chars = None
    refused, asked, told = list(api.refusals), list(api.requests), list(bench.events)
    api.script = type(api.script)([[says("Fine.")]])
    assert (await bench.run(model, "And now?")).state == "done"
    assert api.refusals == refused
    api.requests, bench.events = asked, told


def frame(event: ModelEvent) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def body(events: Sequence[ModelEvent]) -> bytes:
    return b"".join(map(frame, events))


def kinds(bench: Bench) -> list[str]:
    return [notice.kind for notice in bench.told(Notice)]


def said(bench: Bench) -> str:
    return "".join(event.delta for event in bench.told(TextDelta))


def untouched(bench: Bench) -> bool:
    return bench.desk.cells["a"] == "x = 1"
