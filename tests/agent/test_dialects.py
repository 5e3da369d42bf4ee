"""A conversation with each service that people use, as strict as the real one: calls in sequence,
concurrent calls, a stop, and the next turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.loop import Ending
from jupyter_agent.events import Notice, TextDelta, ThinkingDelta
from jupyter_agent.models.base import Model
from jupyter_agent.models.registry import Models
from tests.fakes import Scripted, calls, says, thinks
from tests.fakes.chat import ChatCompletions, serving
from tests.fakes.script import FakeReply

from .conftest import Bench

SERVICES = (
    "openai", "azure", "deepseek", "kimi", "mistral", "groq", "ollama", "gemini", "openrouter",
    "cerebras", "not-streaming",
)  # fmt: skip
PRESETS = [service for service in SERVICES if service not in ("cerebras", "not-streaming")]
SILENT = ("gemini", "not-streaming")
"""Services that do not show the model's thinking."""
DUE: list[FakeReply] = [
    [thinks("First."), calls("look", cell_id="a")],
    [thinks("Second."), says("And."), calls("look", cell_id="b")],
    [thinks("Both."), calls("look", cell_id="a"), calls("look", cell_id="b")],
    [says("Done.")],
]
CLAUDE: list[dict[str, Any]] = [
    {"role": "user", "content": [says("Before.")]},
    {
        "role": "assistant",
        "model": "anthropic:claude",
        "content": [
            thinks("Private."),
            {"type": "tool_use", "id": "toolu_01AbCdEfGhIj", "name": "look", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_01AbCdEfGhIj", "content": [says("1")]}
        ],
    },
    {"role": "assistant", "model": "anthropic:claude", "content": [says("It is 1.")]},
]
"""A conversation that started with another service."""


@asynccontextmanager
async def asking(
    service: str, replies: Sequence[FakeReply], tmp_path: Path, **provider: Any
) -> AsyncIterator[tuple[ChatCompletions, Model]]:
    """A service with a model, whose provider has a neutral name."""
    async with serving(ChatCompletions(replies, dialect=service)) as api:
        lab = {"kind": "openai", "base_url": api.url, "needs_key": False, **provider}
        models = Models(
            default=None, key_file=tmp_path / "keys", providers={"lab": lab}, environment={}
        )
        try:
            yield api, models.get("lab:m")
        finally:
            await models.close()


def said(bench: Bench) -> str:
    return "".join(event.delta for event in bench.told(TextDelta))


async def stopped(bench: Bench, api: ChatCompletions, model: Model, gate: asyncio.Event) -> Ending:
    """A turn that is stopped during its reply."""
    api.asked.clear()
    running = asyncio.create_task(bench.run(model, "Go on."))
    await api.asked.wait()
    running.cancel()
    ending = await running
    gate.set()
    return ending


@pytest.mark.sample(14)
@pytest.mark.parametrize("begun", [[], CLAUDE], ids=["fresh", "begun-with-claude"])
@pytest.mark.parametrize("known", [True, False], ids=["preset", "learned"])
@pytest.mark.parametrize("service", SERVICES)
async def test_a_conversation_goes_its_way(
    bench: Bench, service: str, known: bool, begun: list[dict[str, Any]], tmp_path: Path
) -> None:
    gate = asyncio.Event()
    replies: list[FakeReply] = [
        *DUE,
        Scripted(blocks=[says("Half"), says(" a word.")], stop_after=0, gate=gate),
        [calls("look", cell_id="a")],  # without a thought
        [says("Again.")],
    ]
    preset = {"dialect": service} if known and service in PRESETS else {}
    bench.history = list(begun)
    async with asking(service, replies, tmp_path, **preset) as (api, model):
        assert (await bench.run(model)).state == "done"
        assert (await stopped(bench, api, model, gate)).state == "stopped"
        ending = await bench.run(model, "And now?")
        refusals = list(api.refusals)
    assert ending.state == "done", (ending, refusals)
    assert said(bench) == "And.Done.Again."
    assert bench.desk.log == ["look a", "look b"] * 2 + ["look a"]
    assert bench.told(Notice) == []
    assert len(refusals) <= (0 if known and service in PRESETS else 4)
    if service not in SILENT:
        thought = "".join(event.delta for event in bench.told(ThinkingDelta))
        assert "".join(thought.split()) == "First.Second.Both."
    sent = json.dumps(api.requests)
    assert "<think>" not in sent
    assert "Private." not in sent


@pytest.mark.parametrize("service", SERVICES)
async def test_a_question_after_a_call_that_was_stopped_is_taken(
    bench: Bench, service: str, tmp_path: Path
) -> None:
    replies = [[thinks("Hm."), calls("linger", gate="g")], [says("Well.")]]
    async with asking(service, replies, tmp_path) as (api, model):
        running = asyncio.create_task(bench.run(model))
        await bench.desk.reached.setdefault("g", asyncio.Event()).wait()
        running.cancel()
        assert (await running).state == "stopped"
        ending = await bench.run(model, "And now?")
    assert ending.state == "done", (ending, api.refusals)
    assert said(bench) == "Well."


async def test_reasoning_goes_back_within_the_turn_under_its_own_name(
    bench: Bench, tmp_path: Path
) -> None:
    replies = [*DUE, [calls("look", cell_id="a")], [says("Again.")]]
    for service, name in (("azure", "reasoning_content"), ("groq", "reasoning")):
        async with asking(service, replies, tmp_path) as (api, model):
            await bench.run(model)
            await bench.run(model, "And now?")
        steps = [
            [message.get(name) for message in sent["messages"] if "tool_calls" in message][-3:]
            for sent in api.requests
        ]
        assert steps[3] == ["First.", "Second.", "Both."]
        assert steps[4] == [None, None, None]
