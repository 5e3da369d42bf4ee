"""Whatever a reply was and wherever the turn was stopped, the next question is accepted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_agent.events import CallReady
from tests.fakes import Scripted, says

from .conftest import Bench, Gate
from .strict import EVENTS, FULL, accepted, body, converse, strict, untouched


def begun(**block: Any) -> bytes:
    """A reply of one block that is complete from its start."""
    start, _, *_, ending, end = Scripted(blocks=[says("x")]).events()
    opened = {"type": "content_block_start", "index": 0, "content_block": block}
    return body([start, opened, {"type": "content_block_stop", "index": 0}, ending, end])


LOOKS = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"cell_id": "a"}}
HISTORIES = {
    "an-odd-name": {**LOOKS, "name": "look at/é"},
    "no-name": {**LOOKS, "name": ""},
    "a-long-name": {**LOOKS, "name": "look" * 99},
    "an-odd-id": {**LOOKS, "id": "functions.look:0"},
    "an-empty-id": {**LOOKS, "id": ""},
    "a-signature-that-is-none": {"type": "thinking", "thinking": "Hm.", "signature": 5},
    "citations-that-are-none": {"type": "text", "text": "Hm.", "citations": "x"},
    "a-number-that-is-none": {**LOOKS, "input": '{"cell_id": 1e999}'},
    "half-a-character": {**LOOKS, "name": "look\ud83d", "input": {"cell_id": "\ud83d"}},
    "a-number-that-is-none-in-an-object": {**LOOKS, "input": {"cell_id": float("inf")}},
    "no-input-of-a-search": {"type": "server_tool_use", "id": "s", "name": "web_search"},
    "a-list": {**LOOKS, "input": [1]},
}


@pytest.mark.parametrize("name", HISTORIES)
async def test_what_a_reply_leaves_behind_is_taken_with_the_next_question(
    bench: Bench, name: str
) -> None:
    odd = Scripted(body=begun(**HISTORIES[name]))
    ending, api = await converse(bench, [odd, [says("Done.")], [says("Done.")]])
    assert ending.state == "done"
    assert api.refusals == []
    assert bench.desk.log in ([], ["look a"])


async def test_an_input_that_is_there_from_the_beginning_is_read_whatever_its_form(
    bench: Bench,
) -> None:
    for input in ({"cell_id": "a"}, '{"cell_id": "a"}'):
        bench.desk.log.clear()
        odd = Scripted(body=begun(**LOOKS | {"input": input}))
        await converse(bench, [odd, [says("Done.")]])
        assert bench.desk.log == ["look a"]


@pytest.mark.parametrize("position", range(len(EVENTS)))
async def test_after_a_stop_at_any_event_the_next_question_is_accepted(
    bench: Bench, position: int
) -> None:
    gate = Gate()
    waits = Scripted(blocks=FULL, stop_after=position, then="wait", gate=gate)
    async with strict([waits]) as (api, model):
        running = asyncio.create_task(bench.run(model))
        await gate.reached.wait()
        running.cancel()
        assert (await running).state == "stopped"
        assert untouched(bench)
        await accepted(bench, api, model)


STOPS = ["end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "pause_turn",
         "refusal", "tool_use", "something_new"]  # fmt: skip


@pytest.mark.parametrize("blocks", [[], [says("So far")], FULL], ids=["empty", "text", "calls"])
@pytest.mark.parametrize("stop_reason", STOPS)
async def test_after_any_stop_reason_the_next_question_is_accepted(
    bench: Bench, stop_reason: str, blocks: Any
) -> None:
    first = Scripted(blocks=blocks, stop_reason=stop_reason)
    ending, api = await converse(bench, [first, [says("Done.")], [says("Done.")]])
    assert ending.state == "done"
    assert api.refusals == []
    executes = blocks == FULL and stop_reason not in (
        "max_tokens", "model_context_window_exceeded", "refusal"
    )  # fmt: skip
    assert untouched(bench) != executes
    assert len(bench.told(CallReady)) == (blocks == FULL)
