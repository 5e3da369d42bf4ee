"""The loop: each of its paths, and the history that each leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import pytest

from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.loop import run_turn
from jupyter_agent.agent.turn import Entry, Fallback
from jupyter_agent.errors import ModelError, StoreUnavailable
from jupyter_agent.events import (
    CallFailed,
    CallInputDelta,
    CallInvalid,
    CallOutput,
    CallReady,
    CallStarted,
    CellsChanged,
    Continuable,
    Notice,
    StepFinished,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    Usage,
    UsageUpdated,
)
from jupyter_agent.models.base import Block, ModelEvent, ModelRequest
from jupyter_agent.models.facts import Facts, Price
from tests.fakes import Scripted, ScriptedModel, calls, says, thinks
from tests.waiting import soon, until

from .conftest import Bench, Gate, with_limits


def results(bench: Bench) -> list[Block]:
    """The tool results of the last stored message."""
    return list(bench.stored[-1]["content"])


async def results_of(bench: Bench, *calls: Block) -> list[Block]:
    """The results that the model gets for the calls of one step."""
    model = ScriptedModel([list(calls), [says("Done.")]])
    assert (await bench.run(model)).state == "done"
    return list(model.requests[1].messages[-1]["content"])


def text_of(result: Block) -> str:
    text: str = result["content"][0]["text"]
    return text


async def test_a_plain_answer_ends_the_turn(bench: Bench) -> None:
    ending = await bench.run(ScriptedModel([[says("Hello you.")]]))
    assert ending.state == "done"
    assert isinstance(ending.event, TurnFinished)
    assert ending.event.finish_reason == "stop"
    assert ending.event.stop_reason == "end_turn"
    assert "".join(event.delta for event in bench.told(TextDelta)) == "Hello you."
    assert bench.stored[-1]["content"] == [says("Hello you.")]
    assert ending.usage == Usage(input_tokens=100, output_tokens=10)


async def test_the_model_gets_results_and_goes_on(bench: Bench) -> None:
    model = ScriptedModel(
        [[says("I set it."), calls("write", cell_id="a", source="x = 5")], [says("Done.")]]
    )
    ending = await bench.run(model)
    assert ending.steps == 2
    assert bench.desk.cells["a"] == "x = 5"
    (result,) = model.requests[1].messages[-1]["content"]
    assert result["tool_use_id"] == "toolu_1"
    assert text_of(result) == "Wrote a."
    assert [event.tool for event in bench.told(CallReady)] == ["write"]
    assert bench.told(CallOutput)[0].output == {"text": "Wrote a.", "saved": True}
    (changed,) = bench.told(CellsChanged)
    assert changed.changes[0]["call_id"] == "toolu_1"
    assert len(bench.told(StepStarted)) == len(bench.told(StepFinished)) == 2


async def test_all_results_come_in_one_message_in_the_order_of_the_calls(bench: Bench) -> None:
    model = ScriptedModel(
        [
            [
                calls("linger", gate="late"),
                calls("look", cell_id="gone"),
                calls("look", cell_id="b"),
                calls("say", text="last"),
            ],
            [says("Done.")],
        ]
    )
    running = asyncio.create_task(bench.run(model))
    await until(lambda: len(bench.told(CallOutput)) == 2)  # the others do not wait for the slow one
    bench.desk.gates["late"].set()
    await running
    answers = model.requests[1].messages[-1]["content"]
    assert [answer["tool_use_id"] for answer in answers] == [f"toolu_{n}" for n in range(1, 5)]
    assert [answer.get("is_error", False) for answer in answers] == [False, True, False, False]


async def test_calls_that_change_run_one_after_another_in_order(bench: Bench) -> None:
    _, look, *_ = await results_of(
        bench,
        calls("write", cell_id="a", source="1"),
        calls("look", cell_id="a"),
        calls("write", cell_id="a", source="2"),
        calls("execute", cell_id="a"),
    )
    assert bench.desk.log == ["write a", "look a", "write a", "run 2"]
    assert text_of(look) == "1"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(calls("look", cell_id="c9"), "No cell `c9`. Cells now: a, b.", id="stale-id"),
        pytest.param(calls("look"), "cell_id: Field required", id="no-field"),
        pytest.param(calls("look", cell=1), "cell_id: Field required", id="wrong-field"),
        pytest.param(calls("look", cell_id="a", more=1), "more: ", id="a-field-too-many"),
        pytest.param(calls("look", cell_id=3), "cell_id: Input should be", id="wrong-type"),
        pytest.param(calls("look", cell_id=None), "cell_id: Input should be", id="null"),
        pytest.param(
            calls("write", cell_id=["a"], source={"x": 1}), "source: Input should", id="all-wrong"
        ),
        pytest.param(calls("fly"), "Unknown tool `fly`. Available: crash,", id="unknown-tool"),
    ],
)
async def test_a_call_that_fits_nothing_does_nothing_and_the_model_is_told_why(
    bench: Bench, call: Block, message: str
) -> None:
    (result,) = await results_of(bench, call)
    assert bench.desk.log == []
    assert result["is_error"]
    assert message in text_of(result)
    assert message in bench.told(CallFailed)[0].error


@pytest.mark.parametrize(
    "raw", ['{"cell_id": "a"', "[1]", '{"cell_id": NaN}', "null", '{"a": "\\ud800"}', "[" * 100_000]
)
async def test_input_that_is_no_json_object_is_never_executed(bench: Bench, raw: str) -> None:
    call = {"type": "tool_use", "name": "look", "input": raw}
    model = ScriptedModel([[call], [says("Sorry.")]])
    await bench.run(model)
    assert bench.desk.log == []
    assert bench.told(CallInvalid)[0].error.startswith("Invalid JSON in tool input: ")
    assert model.requests[1].messages[-2]["content"][0]["input"] == {"INVALID_JSON": raw}
    assert not bench.told(CallFailed)


async def test_calls_whose_ids_begin_again_in_each_reply_are_told_apart(bench: Bench) -> None:
    """Also from one that was given up, and from those that a summary replaced."""
    look = {**calls("look", cell_id="a"), "id": "call_0"}
    write = {**calls("write", cell_id="a", source="x = 3"), "id": "call_0"}
    too_long = ModelError("It is too long.", kind="context_length")
    lost = Scripted(blocks=[write], stop_after=4)
    replies = [[look], too_long, [says("All.")], lost, [write], [says("Done.")]]
    model = ScriptedModel(replies)
    assert (await bench.run(model)).state == "done"
    assert len({event.call_id for event in bench.told(CallStarted)}) == 3
    assert [event.tool for event in bench.told(CallReady)] == ["look", "write"]
    assert len({event.call_id for event in bench.told(CallOutput)}) == 2
    assert bench.desk.log == ["look a", "write a"]


async def test_a_call_without_input_is_an_empty_object(bench: Bench) -> None:
    call = {"type": "tool_use", "name": "restart", "input": ""}
    bench.policy.preapproved_tools = frozenset({"restart"})
    await bench.run(ScriptedModel([[call], [says("Done.")]]))
    assert bench.desk.log == ["restart"]


async def test_thinking_goes_back_unchanged_with_its_signature(bench: Bench) -> None:
    thought = thinks("The cell is short.")
    model = ScriptedModel([[thought, calls("look", cell_id="a")], [says("Done.")]])
    await bench.run(model)
    assert model.requests[1].messages[-2]["content"][0] == thought
    assert "".join(event.delta for event in bench.told(ThinkingDelta)) == "The cell is short."


async def test_thinking_of_another_model_is_not_sent(bench: Bench) -> None:
    await bench.run(ScriptedModel([[thinks("Hm."), says("Hello.")]], id="one:model"))
    model = ScriptedModel([[says("Hello again.")]], id="other:model")
    await bench.run(model)
    assert model.requests[0].messages[1]["content"] == [says("Hello.")]


# -- limits


def looking(usage: Mapping[str, int]) -> ScriptedModel:
    """A model that reads a cell, with this usage, and answers."""
    look = Scripted(blocks=[calls("look", cell_id="a")], usage=usage)
    return ScriptedModel([look, [says("x is 1.")]])


async def test_the_last_step_must_answer_with_the_tools_kept(bench: Bench) -> None:
    with_limits(bench, max_steps=2)
    model = ScriptedModel([[calls("look", cell_id="a")], [says("x is 1.")]])
    ending = await bench.run(model)
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    assert model.requests[0].tools == model.requests[1].tools
    assert model.requests[1].messages[-1]["content"][-1]["type"] == "tool_result"
    assert isinstance(ending.event, TurnFinished)
    assert ending.event.step_limit_reached
    assert ending.event.finish_reason == "stop"
    assert [notice.kind for notice in bench.told(Notice)] == ["step-limit"]
    assert [more.limit for more in bench.told(Continuable)] == ["steps"]


async def test_a_call_in_the_last_step_is_not_executed(bench: Bench) -> None:
    with_limits(bench, max_steps=1)
    await bench.run(ScriptedModel([[says("I try."), calls("write", cell_id="a", source="no")]]))
    assert bench.desk.cells["a"] == "x = 1"
    assert bench.stored[-1]["content"] == [says("I try.")]
    assert bench.told(CallInvalid)


@pytest.mark.parametrize(
    ("usage", "choice"),
    [
        pytest.param((501, 4_900, 0, 9), "none", id="read-costs-a-tenth"),
        pytest.param((100, 8_900, 0, 9), "auto", id="read-costs-no-more-than-a-tenth"),
        pytest.param((1, 0, 800, 0), "none", id="written-costs-a-quarter-more"),
    ],
)
async def test_spent_tokens_force_the_answer_before_the_next_request(
    bench: Bench, usage: tuple[int, int, int, int], choice: str
) -> None:
    with_limits(bench, token_budget=1000)
    names = (
        "input_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "output_tokens",
    )
    model = looking(dict(zip(names, usage, strict=True)))
    ending = await bench.run(model)
    assert [request.tool_choice for request in model.requests] == ["auto", choice]
    assert isinstance(ending.event, TurnFinished)
    assert ending.event.budget_reached == (choice == "none")
    assert not ending.event.step_limit_reached


async def test_cached_tokens_count_in_full_for_the_cap(bench: Bench) -> None:
    with_limits(bench, token_budget=2_000, token_cap=9_000)
    usage = {"input_tokens": 100, "cache_read_input_tokens": 8_900, "output_tokens": 9}
    model = looking(usage)
    ending = await bench.run(model)
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    assert ending.log_reason == "end_turn (tokens limit)"
    (notice,) = bench.told(Notice)
    assert "9,009 of at most 9,000 tokens" in notice.text


async def test_the_notice_says_what_was_spent(bench: Bench) -> None:
    with_limits(bench, token_budget=1000)
    bench.facts = DEAR
    usage = {"input_tokens": 900, "cache_read_input_tokens": 2_000, "output_tokens": 10}
    model = looking(usage)
    await bench.run(model)
    (notice,) = bench.told(Notice)
    assert notice.text == (
        "The token budget of this turn is used up (2 model calls, 1,110 of 1,000 tokens, weighed "
        "by their price; 2,910 with cached ones in full, at a cost of 1.2); this is the last "
        "answer."
    )


DEAR = Facts(price=Price(input=1000, output=10_000, cache_read=100))
"""The 100 tokens in and 10 out of a scripted reply cost 0.2."""


async def test_a_spent_budget_forces_the_answer_before_the_next_request(bench: Bench) -> None:
    with_limits(bench, cost_budget=0.2)
    bench.facts = DEAR
    model = ScriptedModel([[calls("look", cell_id="a")], [says("x is 1.")]])
    ending = await bench.run(model)
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    assert isinstance(ending.event, TurnFinished)
    assert ending.event.budget_reached
    assert ending.usage.cost == pytest.approx(0.4)
    assert ending.log_reason == "end_turn (cost limit)"
    assert [notice.kind for notice in bench.told(Notice)] == ["budget"]
    assert [more.limit for more in bench.told(Continuable)] == ["cost"]


async def test_each_step_tells_what_it_used_and_what_it_cost(bench: Bench) -> None:
    bench.facts = DEAR
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}
    await bench.run(looking(usage))
    steps = [event.step for event in bench.told(UsageUpdated)]
    assert [(step.input_tokens, step.cache_read_tokens) for step in steps] == [(10, 90), (100, 0)]
    assert [step.cost for step in steps] == [pytest.approx(0.029), pytest.approx(0.2)]
    assert bench.told(UsageUpdated)[-1].usage == steps[0] + steps[1]


async def test_where_the_price_is_unknown_only_tokens_are_counted(bench: Bench) -> None:
    with_limits(bench, cost_budget=0.0001)
    model = ScriptedModel([[calls("look", cell_id="a")], [says("x is 1.")]])
    ending = await bench.run(model)
    assert ending.usage.cost is None
    assert [request.tool_choice for request in model.requests] == ["auto", "auto"]


async def test_a_limit_reached_by_a_broken_reply_holds_for_the_next_attempt(bench: Bench) -> None:
    with_limits(bench, token_budget=100)
    broken = Scripted(blocks=[says("Half an answer")], stop_after=3)
    model = ScriptedModel([broken, [says("Hello.")]])
    await bench.run(model)
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]


# -- stop reasons


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("something_new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "stop"),
    ],
)
async def test_each_stop_reason_of_a_text_has_its_finish(
    bench: Bench, stop_reason: str, finish_reason: str
) -> None:
    model = ScriptedModel([Scripted(blocks=[says("So far")], stop_reason=stop_reason)])
    ending = await bench.run(model)
    assert isinstance(ending.event, TurnFinished)
    assert (ending.event.finish_reason, ending.event.stop_reason) == (finish_reason, stop_reason)
    assert bench.stored[-1]["content"] == [says("So far")]
    notices = [(notice.kind, "Ask to continue" in notice.text) for notice in bench.told(Notice)]
    assert notices == ([("cut-off", True)] if finish_reason == "length" else [])


async def test_calls_that_were_cut_off_are_answered_and_not_executed(bench: Bench) -> None:
    cut = Scripted(blocks=[calls("write", cell_id="a", source="half")], stop_reason="max_tokens")
    model = ScriptedModel([cut, cut, [says("I give up.")]])
    ending = await bench.run(model)
    assert bench.desk.cells["a"] == "x = 1"
    assert "cut off" in text_of(model.requests[1].messages[-1]["content"][0])
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert ending.state == "done"


async def test_a_pause_is_resumed_with_the_same_question(bench: Bench) -> None:
    searches: Block = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    model = ScriptedModel(
        [Scripted(blocks=[searches], stop_reason="pause_turn"), [says("Found it.")]]
    )
    await bench.run(model)
    assert model.requests[1].messages[-1] == {"role": "assistant", "content": [searches]}


async def test_pausing_for_ever_ends(bench: Bench) -> None:
    searches: Block = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    pause = Scripted(blocks=[searches], stop_reason="pause_turn")
    ending = await bench.run(ScriptedModel([pause] * 6))
    assert (ending.state, ending.steps) == ("done", 6)


async def test_a_refusal_leaves_the_question_alone(bench: Bench) -> None:
    refusal = Scripted(
        blocks=[says("I was about to"), calls("write", cell_id="a", source="bad")],
        stop_reason="refusal",
        stop_details={"explanation": "It is against the policy."},
    )
    ending = await bench.run(ScriptedModel([refusal]))
    assert isinstance(ending.event, TurnFinished)
    assert ending.event.finish_reason == "content-filter"
    assert bench.stored[-1]["role"] == "user"
    assert bench.desk.cells["a"] == "x = 1"
    assert "against the policy" in bench.told(Notice)[0].text
    assert bench.told(CallInvalid)[0].error == "Not executed: the model refused to answer."


async def test_a_refusal_without_a_reason_says_so(bench: Bench) -> None:
    await bench.run(ScriptedModel([Scripted(stop_reason="refusal")]))
    text = "The model refused to answer and gave no reason. Rephrase the question or choose another"
    assert bench.told(Notice)[0].text == f"{text} model."


async def test_an_empty_answer_after_results_is_asked_for_once_more(bench: Bench) -> None:
    model = ScriptedModel([[calls("look", cell_id="a")], [], [says("x is 1.")]])
    await bench.run(model)
    assert model.requests[1].messages == model.requests[2].messages
    assert bench.stored[-1]["content"] == [says("x is 1.")]


async def test_no_answer_at_all_is_told_and_leaves_no_empty_message(bench: Bench) -> None:
    ending = await bench.run(ScriptedModel([[], [says("   ")]]))
    assert ending.state == "done"
    assert bench.stored[-1]["role"] == "user"
    assert bench.told(Notice)[-1].kind == "no-answer"


TEXT_CALLS = {
    '<tool_call>\n{"name": "write", "arguments": {}}\n</tool_call>': True,
    '[TOOL_CALLS][{"name": "write", "arguments": {}}]': True,
    '<|python_tag|>{"name": "write", "parameters": {}}': True,
    "<function=write>{}</function>": True,
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0": True,
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write": True,
    "Hermes writes `<tool_call>` before each call.": False,
    "I would write it.": False,
}


@pytest.mark.parametrize("text", TEXT_CALLS)
async def test_a_call_that_is_mere_text_is_no_silent_success(bench: Bench, text: str) -> None:
    await bench.run(ScriptedModel([[says(text)]]))
    kinds = [notice.kind for notice in bench.told(Notice)]
    assert kinds == (["text-call"] if TEXT_CALLS[text] else [])


async def test_calls_count_even_where_the_service_says_the_turn_ended(bench: Bench) -> None:
    early = Scripted(blocks=[calls("look", cell_id="a")], stop_reason="end_turn")
    await bench.run(ScriptedModel([early, [says("Done.")]]))
    assert bench.desk.log == ["look a"]


# -- what tools return


async def test_an_empty_result_says_so(bench: Bench) -> None:
    (result,) = await results_of(bench, calls("say", text=" \n"))
    assert text_of(result) == "(no output)"


async def test_a_huge_result_is_cut_in_the_middle_and_says_so(bench: Bench) -> None:
    with_limits(bench, result_chars=100)
    (result,) = await results_of(bench, calls("say", text="h" * 80 + "t" * 80))
    assert "[... 60 characters cut ...]" in text_of(result)
    assert text_of(result).startswith("h" * 60)
    assert text_of(result).endswith("t" * 40)


async def test_images_go_to_the_model_and_old_ones_go_first(bench: Bench) -> None:
    model = ScriptedModel(
        [*([calls("say", text="see", image=f"{n:04}")] for n in range(22)), [says("Seen.")]]
    )
    await bench.run(model)
    sent = [
        part["source"]["data"]
        for message in model.requests[-1].messages
        for block in message["content"]
        if block["type"] == "tool_result"
        for part in block["content"]
        if part["type"] == "image"
    ]
    assert sent == [f"{n:04}" for n in range(2, 22)]


async def test_keys_are_masked_in_what_tools_return(bench: Bench) -> None:
    (result,) = await results_of(bench, calls("say", text=f"key={bench.secret}"))
    assert text_of(result) == "key=***"
    assert bench.told(CallOutput)[0].output == {"text": "key=***"}


async def test_a_running_cell_tells_its_output_before_the_result(bench: Bench) -> None:
    await bench.run(ScriptedModel([[calls("execute", cell_id="a")], [says("Done.")]]))
    first, last = bench.told(CallOutput)
    assert first.preliminary
    assert not last.preliminary
    assert last.output["status"] == "ok"


async def test_a_bug_in_a_tool_is_loud_and_leaves_a_valid_history(bench: Bench) -> None:
    model = ScriptedModel([[calls("crash"), calls("look", cell_id="a")]])
    with pytest.raises(ZeroDivisionError):
        await bench.run(model)
    assert len(results(bench)) == 2


# -- stop


async def test_stop_while_a_tool_runs_answers_every_call(bench: Bench) -> None:
    model = ScriptedModel(
        [
            [
                calls("look", cell_id="a"),
                calls("linger", gate="never"),
                calls("write", cell_id="a", source="no"),
            ]
        ]
    )
    bench.desk.reached["never"] = asyncio.Event()
    running = asyncio.create_task(bench.run(model))
    await bench.desk.reached["never"].wait()
    running.cancel()
    ending = await running
    assert ending.state == "stopped"
    assert isinstance(ending.event, TurnAborted)
    assert [result.get("is_error", False) for result in results(bench)] == [False, True, True]
    assert "may have partially run" in text_of(results(bench)[1])
    assert bench.desk.cells["a"] == "x = 1"
    assert running.cancelling() == 0


@pytest.mark.parametrize("shown", range(1, 12))
async def test_stop_while_the_model_writes_keeps_its_text(bench: Bench, shown: int) -> None:
    blocks = [thinks("Hm hm."), says("One two "), calls("look", cell_id="a")]
    gate = Gate()
    reply = Scripted(blocks=blocks, stop_after=shown, then="wait", gate=gate)
    turn = bench.turn(ScriptedModel([reply]))
    running = asyncio.create_task(run_turn(turn))
    await soon(gate.reached)
    running.cancel()
    assert (await running).state == "stopped"
    bench.check_history(turn)
    kept = [message for message in bench.stored if message["role"] == "assistant"]
    texts = [block["text"] for message in kept for block in message["content"]]
    assert texts in ([], ["One"], ["One two"])
    assert bench.desk.log == []
    assert isinstance(bench.events[-1], StepFinished)


async def test_stop_closes_the_call_that_was_being_written(bench: Bench) -> None:
    reply = Scripted(
        blocks=[calls("look", cell_id="a")], stop_after=3, then="wait", gate=asyncio.Event()
    )
    running = asyncio.create_task(bench.run(ScriptedModel([reply])))
    await until(lambda: bench.told(CallInputDelta))
    running.cancel()
    await running
    assert [event.tool for event in bench.told(CallInvalid)] == ["look"]


async def test_stop_while_a_summary_is_written_closes_the_reply_that_was_too_long(
    bench: Bench,
) -> None:
    class Small(ScriptedModel):
        """Its window is full in the middle of its first reply."""

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            first = not self.requests
            async for event in super().stream(request):
                yield event
            if first:
                raise ModelError("It is too long.", kind="context_length")

    bench.history = [{"role": "user", "content": [says("Hi.")]}]
    gate = Gate()
    reply = Scripted(blocks=[says("One two "), calls("look", cell_id="a")], stop_after=7)
    summary = Scripted(blocks=[says("All.")], stop_after=0, then="wait", gate=gate)
    turn = bench.turn(Small([reply, summary]))
    running = asyncio.create_task(run_turn(turn))
    await soon(gate.reached)
    running.cancel()
    assert (await running).state == "stopped"
    assert bench.stored[-1]["content"] == [says("One two")]
    kinds = [event.type for event in bench.events if "delta" not in event.type]
    assert kinds[1:5] == ["text-start", "text-end", "tool-input-start", "tool-input-error"]


async def test_a_turn_that_is_stopped_before_it_begins_asks_nobody(bench: Bench) -> None:
    model = ScriptedModel([[says("Hello.")]])
    turn = bench.turn(model)
    turn.stop.request()
    assert (await run_turn(turn)).state == "stopped"
    assert model.requests == []


async def test_a_stop_after_the_answer_changes_nothing() -> None:
    class Late(Bench):
        async def show(self, *entries: Entry) -> None:
            if not entries and self.told(StepFinished):
                turn.stop.request()
            await super().show(*entries)

    turn = Late().turn(ScriptedModel([[says("Hello.")]]))
    ending = await run_turn(turn)
    assert (ending.state, ending.steps, turn.stop.requested) == ("done", 1, True)


async def test_nothing_is_left_running_of_a_turn_whose_log_fails(bench: Bench) -> None:
    class Full(Bench):
        async def append(self, *entries: Entry) -> None:
            if any(isinstance(entry, Audit) for entry in entries):
                raise StoreUnavailable("The disk is full.")
            await super().append(*entries)

    full, before = Full(), asyncio.all_tasks()
    looks = [calls("look", cell_id="a"), calls("look", cell_id="none"), calls("linger", gate="g")]
    with pytest.raises(StoreUnavailable, match="disk is full"):  # not in a group
        await run_turn(full.turn(ScriptedModel([looks])))
    assert asyncio.all_tasks() == before
    assert [message["role"] for message in full.stored[1:]] == ["assistant", "user"]
    assert len(full.stored[-1]["content"]) == len(looks)


async def test_nothing_more_is_done_once_the_log_fails(bench: Bench) -> None:
    class Full(Bench):
        full = False

        async def append(self, *entries: Entry) -> None:
            self.full |= any(isinstance(entry, Audit) for entry in entries)
            if self.full:
                raise StoreUnavailable("The disk is full.")
            await super().append(*entries)

    full = Full()
    writes = [calls("write", cell_id=id, source="new") for id in ("a", "b")]
    with pytest.raises(StoreUnavailable):
        await run_turn(full.turn(ScriptedModel([writes])))
    assert full.desk.log == ["write a"]


# -- faults of the service


def fault(**facts: object) -> ModelError:
    return ModelError("The service is overloaded.", **{"kind": "overloaded", **facts})  # type: ignore[arg-type]


async def test_a_fault_that_passes_is_retried_and_told(bench: Bench) -> None:
    busy = fault(retryable=True, retry_after=7.0)
    ending = await bench.run(ScriptedModel([busy, busy, [says("Here.")]]))
    assert ending.state == "done"
    assert bench.waits == [7.0, 7.0]
    notices = bench.told(Notice)
    assert [notice.kind for notice in notices] == ["retrying", "retrying"]
    assert notices[0].facts == {"attempt": 2, "seconds": 7.0, "reason": "overloaded"}
    assert len(bench.told(StepStarted)) == 1


async def test_after_three_attempts_the_turn_fails_and_the_question_stays(bench: Bench) -> None:
    model = ScriptedModel([fault(retryable=True)] * 3)
    ending = await bench.run(model)
    assert ending.state == "failed"
    assert len(model.requests) == 3
    assert isinstance(ending.event, TurnFailed)
    assert ending.event.error == "The service is overloaded."
    assert [message["role"] for message in bench.stored] == ["user"]
    first, second = bench.waits
    assert 0.5 <= first <= 1.0 <= second <= 2.0


@pytest.mark.parametrize("error", [fault(), fault(retryable=True, retry_after=3600.0)])
async def test_what_waiting_does_not_cure_is_not_retried(bench: Bench, error: ModelError) -> None:
    assert (await bench.run(ScriptedModel([error]))).state == "failed"
    assert bench.waits == []


FAULTS = (
    ("rate_limit", True, None), ("rate_limit", True, 86_400.0), ("service", True, None),
    ("network", True, None), ("broken_stream", True, None), ("overloaded", True, None),
    ("authentication", False, None), ("billing", False, None), ("invalid_request", False, None),
    ("not_found", False, None), ("too_large", False, None), ("context_length", False, None),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "again", "wait"), FAULTS)
async def test_another_model_answers_where_the_turn_would_fail_else(
    bench: Bench, kind: str, again: bool, wait: float | None
) -> None:
    fault = ModelError("It did not work.", kind=kind, retryable=again, retry_after=wait)
    first = ScriptedModel([fault] * 9, id="a:first")
    other = ScriptedModel([[calls("look", cell_id="a")], [says("Done.")]], id="b:other")
    turn = replace(bench.turn(first), fallback=Fallback(model=other))
    assert (await run_turn(turn)).state == "done"
    retried = len(first.requests) > 1
    assert retried == (again and wait is None)
    (notice,) = [each for each in bench.told(Notice) if each.kind == "fallback"]
    assert notice.facts["reason"] == kind
    assert "It did not work." in notice.text
    assert len(other.requests) == 2, "it answers until the turn ends"


async def test_another_model_takes_over_in_a_pause_of_the_services_search(bench: Bench) -> None:
    searches: Block = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    pause = Scripted(blocks=[says("I look."), searches], stop_reason="pause_turn")
    first = ScriptedModel([pause, Scripted(stop_reason="refusal")], id="a:first")
    other = ScriptedModel([[says("Done.")]], id="b:other")
    turn = replace(bench.turn(first), fallback=Fallback(model=other))
    assert (await run_turn(turn)).state == "done"
    assert [message["role"] for message in other.requests[0].messages] == [
        "user",
        "assistant",
        "user",
    ]
    bench.check_history(turn)


async def test_a_reply_that_broke_off_is_closed_and_asked_for_again(bench: Bench) -> None:
    broken = Scripted(
        blocks=[says("I was going to say"), calls("write", cell_id="a", source="no")], stop_after=10
    )
    await bench.run(ScriptedModel([broken, [says("Hello.")]]))
    kinds = [event.type for event in bench.events if "delta" not in event.type]
    assert kinds == [
        "start-step",
        "text-start",
        "text-end",
        "tool-input-start",
        "tool-input-error",
        "finish-step",
        "data-notice",
        "start-step",
        "text-start",
        "text-end",
        "message-metadata",
        "finish-step",
    ]
    assert bench.stored[-1]["content"] == [says("Hello.")]
    assert bench.desk.cells["a"] == "x = 1"


async def test_a_reply_that_breaks_off_for_good_leaves_its_text(bench: Bench) -> None:
    broken = Scripted(blocks=[says("Half an answer")], stop_after=4)
    assert (await bench.run(ScriptedModel([broken] * 3))).state == "failed"
    assert bench.stored[-1]["content"] == [says("Half an")]


async def test_a_conversation_that_is_too_long_is_shortened_once(bench: Bench) -> None:
    too_long = ModelError("The conversation is too long.", kind="context_length")
    old, new = calls("say", text="old " * 500), calls("say", text="new " * 500)
    model = ScriptedModel([[old], [new], too_long, [says("Done.")]])
    await bench.run(model)
    earlier, _, latest = (message["content"][0] for message in model.requests[-1].messages[2:5])
    assert text_of(earlier) == "[elided, 2000 characters; call again if needed]"
    assert text_of(latest) == "new " * 500
    assert [notice.kind for notice in bench.told(Notice)] == ["compacted"]
