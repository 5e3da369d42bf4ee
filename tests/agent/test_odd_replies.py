"""Replies with one field that is missing, null or of another type: no turn crashes on them.

Each recorded or scripted reply is changed in every place. The turn uses the valid parts or asks
again, and ends properly, as does the next turn with the stored history.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from jupyter_agent.agent.turn import Turn
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import Model
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.plugs.providers.responses import ResponsesModel
from tests.fakes import Scripted, says, thinks
from tests.fakes.responses import events as response_events
from tests.fakes.rules import Refused

from ..models.conftest import RECORDINGS, Sequel, sequels
from .conftest import Bench

Json = Any
SEED = 35
FEW, MANY = 50, 4_000
"""Mutants of each kind, here and with `-m long`."""
LOST = object()
LOOKS = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"cell_id": "a"}}
FOUND = {"id": "srv_1", "name": "web_search", "input": {"query": "x"}, "type": "server_tool_use"}
PLAIN = [says("Fine.")]


@dataclass(frozen=True)
class Kind:
    """An API, and the format of its replies."""

    model: Callable[..., Any]
    plain: bytes
    replies: Sequence[Sequence[Json]]
    """Each is the JSON values of a stream's events, or a single value for all."""
    names: bool = True
    """Whether the events of a stream are named by their types."""

    def body(self, values: Sequence[Json]) -> bytes:
        if len(values) == 1:
            return json.dumps(values[0]).encode()
        pieces = []
        for value in values:
            name = value.get("type") if self.names and isinstance(value, dict) else None
            head = f"event: {name}\n" if isinstance(name, str) else ""
            pieces.append(f"{head}data: {json.dumps(value)}\n\n")
        return "".join(pieces).encode()


def recorded(*names: str) -> list[list[Json]]:
    streams = []
    for name in names:
        lines = (RECORDINGS / name).read_text().splitlines()
        data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        streams.append([json.loads(each) for each in data if each not in ("", "[DONE]")])
    return streams


def claude(blocks: Sequence[Json]) -> Json:
    usage = {"input_tokens": 9, "output_tokens": 2}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "content": blocks, "usage": usage,
        "stop_reason": "tool_use" if LOOKS in blocks else "end_turn",
    }  # fmt: skip


def chat(**message: Json) -> Json:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"a": 1}}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


CALLED = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ITEMS = list(response_events(Scripted(blocks=[thinks("Hm."), says("It is."), LOOKS])))
SERVED = list(response_events(Scripted(blocks=[FOUND, says("Found.")])))
ANSWERED = {
    "object": "response",
    "status": "completed",
    "output": [event["item"] for event in ITEMS if event["type"] == "response.output_item.done"],
    "usage": ITEMS[-1]["response"]["usage"],
}
KINDS = {
    "anthropic": Kind(
        AnthropicModel,
        Kind.body(Kind(AnthropicModel, b"", ()), list(Scripted(blocks=PLAIN).events())),
        [
            list(Scripted(blocks=[thinks("Hm."), says("It is."), LOOKS]).events()),
            *recorded(
                "anthropic/tool_use_response.txt",
                "anthropic/server_tool_use_response.txt",
                "anthropic/message_delta_fields_response.txt",
                "anthropic/refusal_response.txt",
                "anthropic/compaction_response.txt",
                "pydantic-ai/anthropic_thinking.txt",
                "pydantic-ai/anthropic_redacted_thinking.txt",
                "pydantic-ai/anthropic_mcp.txt",
            ),
        ],
    ),
    "anthropic-at-once": Kind(
        AnthropicModel,
        json.dumps(claude(PLAIN)).encode(),
        [[claude([thinks("Hm."), says("It is."), LOOKS])], [claude([FOUND, says("Found.")])]],
    ),
    "openai": Kind(
        OpenAIModel,
        json.dumps(chat(content="Fine.")).encode(),
        [
            *recorded(
                "openai/call.txt", "openai/parallel_calls.txt", "openai/refusal.txt",
                "openai/short.txt", "pydantic-ai/groq_second.txt", "pydantic-ai/openai_call.txt",
            ),
            [chat(content="Hi.", reasoning="Hm.")],
            [chat(content=[{"type": "text", "text": "Hi."}], tool_calls=[CALLED])],
        ],
        names=False,
    ),
    "openai-responses": Kind(
        ResponsesModel,
        json.dumps({**ANSWERED, "output": [ANSWERED["output"][1]]}).encode(),
        [ITEMS, SERVED, [ANSWERED]],
    ),
}  # fmt: skip


def mutants(values: Sequence[Json]) -> Iterator[Sequence[Json]]:
    """All variants of the reply with one field missing, null, or of another type."""
    for n, value in enumerate(values):
        for path in paths(value):
            for changed in others(at(value, path)):
                yield [*values[:n], replaced(value, path, changed), *values[n + 1 :]]


def paths(value: Json, path: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    if path:
        yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from paths(value[key], (*path, key))


def at(value: Json, path: Sequence[Json]) -> Json:
    for key in path:
        value = value[key]
    return value


def others(value: Json) -> list[Json]:
    kinds: list[Json] = [7, "odd", [], ["odd"], {}, {"odd": 1}, True, -1, "\ud83d"]
    return [LOST, None, *(kind for kind in kinds if type(kind) is not type(value) or kind == -1)]


def replaced(value: Json, path: Sequence[Json], other: Json) -> Json:
    copy = json.loads(json.dumps(value))
    holder = at(copy, path[:-1])
    if other is LOST:
        del holder[path[-1]]
    else:
        holder[path[-1]] = other
    return copy


class Recorded(Bench):
    """Only the real services can check their signatures of thoughts."""

    def check_history(self, turn: Turn) -> None:
        try:
            super().check_history(turn)
        except Refused as error:
            if "Invalid `signature`" not in str(error):
                raise


async def lives_on(kind: Kind, model: Model, sequel: Sequel, mutant: Sequence[Json]) -> None:
    """The turn with that reply ends properly, and the next question gets an answer."""
    bench = Recorded()
    sequel.bodies = [kind.body(mutant)]
    ending = await bench.run(model)
    assert ending.state in ("done", "failed"), ending
    usage = ending.usage
    assert min(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) >= 0
    sequel.bodies = []
    assert (await bench.run(model, "And now?")).state == "done"
    json.dumps(bench.history, ensure_ascii=False).encode()  # as it is stored


@pytest.mark.sample(2)
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
async def test_no_turn_dies_of_a_reply_that_is_not_as_it_should_be(name: str, count: int) -> None:
    kind = KINDS[name]
    tried = [mutant for reply in kind.replies for mutant in mutants(reply)]
    tried = random.Random(SEED).sample(tried, min(count, len(tried)))
    died = []
    async with sequels(kind.plain) as sequel:
        model = kind.model("m", Service(provider="lab", api_key="sk-x", base_url=sequel.url))
        for mutant in tried:
            try:
                await lives_on(kind, model, sequel, mutant)
            except Exception as error:  # noqa: BLE001  whatever it is, it is what must not be
                died.append((type(error).__name__, str(error), mutant))
        await model.close()
    assert not died, (len(died), len(tried), died[0])
