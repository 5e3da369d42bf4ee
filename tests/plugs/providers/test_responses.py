"""The Responses API of OpenAI, and of servers that implement a part of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.registry import Models
from jupyter_agent.plugs.providers.responses import ResponsesModel
from tests.fakes import Scripted, calls, says, thinks
from tests.fakes.responses import Responses
from tests.fakes.responses import serving as strictly
from tests.fakes.script import FakeReply

from ...agent.conftest import Bench, bench
from ...models.conftest import Chat, read, request, serving

__all__ = ["bench"]

Json = dict[str, Any]


def sse(*events: Json) -> bytes:
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events
    )


def done(**response: Any) -> Json:
    return {"type": "response.completed", "response": {"status": "completed", **response}}


async def made_of(body: bytes) -> Reply:
    async with serving(Chat(body)) as chat:
        model = ResponsesModel("o9", Service(api_key="sk-x", base_url=chat.url, provider="lab"))
        try:
            return await read(model)
        finally:
            await model.close()


@pytest.mark.parametrize("without", [(), ("include",), ("max_output_tokens", "tool_choice")])
async def test_reasoning_goes_back_by_its_item_from_step_to_step(
    bench: Bench, without: tuple[str, ...], tmp_path: Path
) -> None:
    gate = asyncio.Event()
    replies: list[FakeReply] = [
        [thinks("First."), calls("look", cell_id="a")],
        [thinks("Then both."), calls("look", cell_id="a"), calls("look", cell_id="b")],
        [thinks("So."), says("Done.")],
        Scripted(blocks=[thinks("Long."), says("Half a word.")], stop_after=3, gate=gate),
        [calls("look", cell_id="b")],
        [says("Again.")],
    ]
    async with strictly(Responses(replies, without=without)) as api:
        lab = {"kind": "openai-responses", "base_url": api.url, "needs_key": False}
        models = Models(
            default=None, key_file=tmp_path / "keys", providers={"lab": lab}, environment={}
        )
        model = models.get("lab:o9")
        assert (await bench.run(model)).state == "done"
        api.asked.clear()
        running = asyncio.create_task(bench.run(model, "Go on."))
        await api.asked.wait()
        running.cancel()
        assert (await running).state == "stopped"
        gate.set()
        ending = await bench.run(model, "And now?")
        await models.close()
    assert ending.state == "done", api.refusals
    assert bench.desk.log == ["look a", "look a", "look b", "look b"]
    assert len(api.refusals) == len(without), "each is learned once"
    third = " ".join(item["type"] for item in api.requests[2]["input"])
    assert third == (
        "message reasoning function_call function_call_output "
        "reasoning function_call function_call function_call_output function_call_output"
    )
    assert api.requests[2]["input"][1]["id"] == "rs_6"


async def test_what_a_change_of_model_brings_is_taken(bench: Bench) -> None:
    bench.history = [
        {"role": "user", "content": [says("Before.")]},
        {
            "role": "assistant",
            "model": "anthropic:claude",
            "content": [thinks("Hm."), says("It is 1.")],
        },
    ]
    async with strictly(Responses([[says("Yes.")]])) as api:
        model = ResponsesModel("o9", Service(api_key="sk-x", base_url=api.url, provider="lab"))
        assert (await bench.run(model)).state == "done"
        await model.close()
    assert "Hm." not in json.dumps(api.requests)


async def test_an_answer_in_one_piece_is_read() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"n": 1}'}
    usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    whole = {"object": "response", "status": "completed", "output": [message, call], "usage": usage}
    for body in (
        json.dumps(whole).encode(),
        sse(
            {"type": "response.output_item.done", "output_index": 0, "item": message},
            {"type": "response.output_item.done", "output_index": 1, "item": call},
            done(usage=usage),
        ),
    ):
        reply = await made_of(body)
        assert reply.complete
        assert reply.text == [says("Hi.")]
        assert [(made.name, dict(made.input)) for made in reply.calls] == [("look", {"n": 1})]
        assert reply.stop_reason == "tool_use"
        assert (reply.usage.input_tokens, reply.usage.cache_read_tokens) == (5, 4)


HI = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
LOOK = {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"n": 1}'}
NO = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
BYE = {"type": "message", "content": [{"type": "output_text", "text": "Bye."}]}
BEGUN = {"type": "message", "content": []}
NAMELESS = {"type": "function_call", "id": "x", "name": "look", "arguments": '{"n": 1}'}
T = [{"type": "summary_text", "text": "T"}]
THOUGHT = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}


def added(place: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def ended(place: int, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def text(place: int | None, piece: str) -> Json:
    return delta("output_text", place, piece)


def delta(kind: str, place: int | None, piece: str) -> Json:
    at = {} if place is None else {"output_index": place}
    return {"type": f"response.{kind}.delta", **at, "delta": piece}


def look(id: str, n: int = 1) -> Json:
    return {**LOOK, "call_id": id, "arguments": f'{{"n": {n}}}'}


def args(place: int | None, n: int = 1) -> Json:
    return delta("function_call_arguments", place, f'{{"n": {n}}}')


SAYS_HI = ("Hi.", 0, "end_turn")
SAYS_BOTH = ("Hi.Bye.", 0, "end_turn")
CALLS_ONCE = ("", 1, "tool_use")
CALLS_TWICE = ("", 2, "tool_use")
REFUSES = ("", 0, "refusal")
SUMMED_UP = {**THOUGHT, "summary": T}
HALF = delta("function_call_arguments", 0, '{"n"')


def empty(id: str) -> Json:
    """A call whose input is still to come."""
    return {**look(id), "arguments": ""}


@pytest.mark.parametrize(
    ("events", "means"),
    [
        ([done(output=[HI])], SAYS_HI),
        ([ended(0, THOUGHT), done(output=[THOUGHT, HI, LOOK])], ("Hi.", 1, "tool_use")),
        ([text(0, "Hi"), text(0, "."), done()], SAYS_HI),
        ([text(0, "Hi."), ended(0, HI), done(output=[HI])], SAYS_HI),
        ([added(0, THOUGHT), text(0, "Hi."), done(output=[THOUGHT, HI])], SAYS_HI),
        ([added(0, {"type": "message"}), done(output=[HI])], SAYS_HI),
        # Places and ids in the list may differ: items that came are not added again.
        ([ended(0, HI), ended(0, LOOK), done(output=[THOUGHT, HI, LOOK])], ("Hi.", 1, "tool_use")),
        # Repeated, late, or at another place
        ([ended(0, HI), ended(0, HI), done(output=[HI])], SAYS_HI),
        ([text(0, "Hi."), added(0, BEGUN), ended(0, HI), done()], SAYS_HI),
        ([added(1, BEGUN), text(None, "Hi."), ended(1, HI), done()], SAYS_HI),
        ([text(None, "Hi."), ended(1, HI), done(output=[THOUGHT, HI])], SAYS_HI),
        ([ended(0, HI), text(0, "Hi."), done(output=[HI])], SAYS_HI),
        ([ended(0, HI), added(0, BEGUN), done(output=[HI])], SAYS_HI),
        ([added(0, THOUGHT), done(output=[HI])], SAYS_HI),
        ([ended(0, HI), done(output=[HI, BYE])], SAYS_BOTH),
        ([text(0, "Hi."), ended(0, HI), text(0, "Bye."), ended(0, BYE), done()], SAYS_BOTH),
        (
            [delta("reasoning_text", 0, "T"), text(0, "Hi."), ended(0, SUMMED_UP), ended(1, HI),
             done()],
            SAYS_HI,
        ),
        ([ended(0, LOOK), ended(0, LOOK), done(output=[LOOK])], CALLS_ONCE),
        ([added(1, {**LOOK, "arguments": ""}), done(output=[LOOK])], CALLS_ONCE),
        ([args(0), ended(0, LOOK), done(output=[LOOK])], CALLS_ONCE),
        ([ended(0, look("a")), done(output=[look("a"), look("b")])], CALLS_TWICE),
        ([ended(0, look("a")), done(output=[look("z")])], CALLS_ONCE),
        ([ended(0, look("a")), ended(0, look("b")), done()], CALLS_TWICE),
        ([added(0, look("a")), args(None), added(1, look("b")), args(None), done()], CALLS_TWICE),
        ([added(0, look("a")), added(1, look("b")), args(1), args(0), done()], CALLS_TWICE),
        ([added(0, NAMELESS), args(0), ended(1, {**NAMELESS, "id": "y"}), done()], CALLS_ONCE),
        # As vLLM: another id of the call in each event
        ([added(0, empty("a")), args(0), ended(0, look("b")), done(output=[look("c")])],
         CALLS_ONCE),
        ([text(0, "Hi."), text(1, "Bye."), done(output=[HI, BYE])], SAYS_BOTH),
        ([added(0, BEGUN), added(0, BEGUN), text(0, "Hi."), ended(0, HI), done()], SAYS_HI),
        ([added(0, look("a")), added(0, look("a")), ended(0, look("a")), done()], CALLS_ONCE),
        (
            [ended(0, HI), added(1, BEGUN), ended(0, HI), text(1, "Bye."), ended(1, BYE), done()],
            SAYS_BOTH,
        ),
        # The last piece did not come, but the whole text did
        ([added(0, BEGUN), text(0, "H"), ended(0, HI), done()], SAYS_HI),
        ([added(0, empty("a")), HALF, ended(0, look("a")), done()], CALLS_ONCE),
        ([ended(0, NO), done(output=[NO])], REFUSES),
        ([added(0, {"type": "message"}), done(output=[NO])], REFUSES),
        ([done(output=[NO])], REFUSES),
    ],
)  # fmt: skip
async def test_what_is_told_only_once_is_taken_wherever_it_stands(
    events: list[Json], means: tuple[str, int, str]
) -> None:
    said, called, reason = means
    reply = await made_of(sse(*events))
    assert "".join(block["text"] for block in reply.text) == said
    assert (len(reply.calls), reply.stop_reason) == (called, reason)
    assert [(dict(call.input), call.error) for call in reply.calls] == [({"n": 1}, None)] * called
    assert "".join(b["thinking"] for b in reply.content if b["type"] == "thinking") in ("", "T")
    assert reply.complete
    if reason == "refusal":
        assert reply.details["explanation"] == "I will not."


@pytest.mark.parametrize(("why", "reason"), [("max_output_tokens", "max_tokens"),
                                             ("content_filter", "refusal")])  # fmt: skip
async def test_what_is_incomplete_says_why(why: str, reason: str) -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": why}}
    reply = await made_of(sse({"type": "response.incomplete", "response": response}))
    assert (reply.complete, reply.stop_reason) == (True, reason)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "error": {"code": "insufficient_quota", "message": "-"}}, "billing"),
        ({"type": "error", "code": "server_error", "message": "Died."}, "service"),
        ({"type": "response.failed", "response": {"error": {"message": "Died."}}}, "service"),
    ],
)
async def test_a_failure_within_the_stream_is_told(event: Json, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        await made_of(sse(event))
    assert caught.value.kind == kind


async def test_what_the_service_does_itself_goes_back_by_its_item() -> None:
    search = {"type": "server_tool_use", "name": "web_search", "input": {"query": "pandas"}}
    code = {"type": "server_tool_use", "name": "code_execution", "input": {"code": "6 * 7"}}
    replies: list[FakeReply] = [
        [thinks("Hm."), {**search, "id": "s"}, {**code, "id": "c"}, says("It is 42.")],
        [says("Again.")],
    ]
    async with strictly(Responses(replies)) as api:
        model = ResponsesModel("o9", Service(provider="openai", api_key="k", base_url=api.url))
        asked = request(server_tools=("web_search", "web_fetch", "code_execution"))
        reply = await read(model, asked)
        history = [*asked.messages, {"role": "assistant", "content": reply.content}]
        follow_up = {"role": "user", "content": [says("Sure?")]}
        await read(model, replace(asked, messages=[*history, follow_up]))
        await model.close()
    kinds = [block["type"] for block in reply.content]
    assert kinds == [
        "thinking", "server_tool_use", "web_search_tool_result", "server_tool_use",
        "code_execution_tool_result", "text",
    ]  # fmt: skip
    assert [block["input"] for block in reply.content if block["type"] == "server_tool_use"] == [
        {"query": "pandas"},
        {"code": "6 * 7"},
    ]
    assert [tool["type"] for tool in api.requests[0]["tools"]] == [
        "web_search", "code_interpreter", "function"
    ]  # fmt: skip
    back = [item["type"] for item in api.requests[1]["input"]]
    assert back == [
        "message", "reasoning", "web_search_call", "code_interpreter_call", "message", "message",
    ]  # fmt: skip
    assert api.requests[1]["input"][2]["action"] == {"type": "search", "query": "pandas"}
    assert api.refusals == []


async def test_code_whose_container_has_expired_is_left_out_from_then_on() -> None:
    code = {"type": "server_tool_use", "id": "c", "name": "code_execution"}
    replies: list[FakeReply] = [
        [{**code, "input": {"code": "6 * 7"}}, says("It is 42.")], [says("Again.")], [says("Yes.")]
    ]  # fmt: skip
    async with strictly(Responses(replies)) as api:
        model = ResponsesModel("o9", Service(provider="openai", api_key="k", base_url=api.url))
        asked = request(server_tools=("code_execution",))
        reply = await read(model, asked)
        follow_up = {"role": "user", "content": [says("Sure?")]}
        history = [*asked.messages, {"role": "assistant", "content": reply.content}, follow_up]
        api.expired.add("cntr_1")
        for _ in range(2):
            await read(model, replace(asked, messages=history))
        await model.close()
    assert len(api.refusals) == 1
    assert [item["type"] for item in api.requests[-1]["input"]] == ["message"] * 3
    assert api.requests[-1]["tools"][0]["type"] == "code_interpreter"
