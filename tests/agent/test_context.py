"""Requests while a conversation grows: the same prefix, then shorter results, then a summary."""

from __future__ import annotations

import json
from typing import Any

from jupyter_agent.agent.compaction import SUMMARISE
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.limits import Window
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Notice, TurnFinished, Usage, UsageUpdated
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import Block, Message, ModelRequest
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.facts import Facts, Price
from tests.fakes import FakeAnthropic, Scripted, ScriptedModel, calls, says

from .conftest import Bench, with_limits
from .strict import converse

TOO_LONG = ModelError("The conversation is too long.", kind="context_length")
ELIDED = "[elided, 2000 characters; call again if needed]"


def text_of(message: Message, position: int = 0) -> str:
    block = message["content"][position]
    text: str = block["content"][0]["text"] if block["type"] == "tool_result" else block["text"]
    return text


def long(word: str) -> Block:
    return calls("say", text=f"{word} " * (2000 // (len(word) + 1)))


def notices(bench: Bench) -> list[str]:
    return [notice.kind for notice in bench.told(Notice)]


# -- the cached prefix


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    return value


async def test_over_ten_steps_each_request_begins_with_the_bytes_of_the_one_before(
    bench: Bench,
) -> None:
    looks = [[says("Next."), calls("look", cell_id="a")] for _ in range(9)]
    async with FakeAnthropic([*looks, [says("Done.")]]) as api:
        model = AnthropicModel(
            "claude-sonnet-5-5",
            Service(provider="anthropic", api_key=api.api_key, base_url=api.url),
        )
        await bench.run(model)
        await model.close()
    assert len(api.requests) == 10
    for earlier, later in zip(api.requests, api.requests[1:], strict=False):
        for part in ("tools", "system"):
            assert json.dumps(earlier[part]) == json.dumps(later[part])
        before = json.dumps(without_marks(earlier["messages"]))[:-1]
        assert json.dumps(without_marks(later["messages"])).startswith(before)
        # Earlier marks are set again or lie before another mark, so the cache finds them.
        marked = [n for n, m in enumerate(later["messages"]) if "cache_control" in json.dumps(m)]
        assert len(earlier["messages"]) - 1 in marked
    assert all(json.dumps(request).count("cache_control") <= 4 for request in api.requests)


# -- the window


def asked(characters: int) -> ModelRequest:
    return ModelRequest(system="", messages=[{"role": "user", "content": [says("x" * characters)]}])


def test_a_window_is_full_before_it_is_and_never_where_its_size_is_unknown() -> None:
    window = Window(1000)
    assert not window.is_full(asked(3000))
    assert window.is_full(asked(3400))
    assert not Window(None).is_full(asked(10_000_000))


def test_the_estimate_follows_what_the_service_counted() -> None:
    window = Window(1000)
    window.calibrate(asked(1000), Usage(input_tokens=100, cache_read_tokens=900))
    assert window.is_full(asked(900))


def test_an_image_counts_as_one_however_large_its_file_is() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
    image: Message = {"role": "user", "content": [{"type": "image", "source": source}]}
    assert not Window(10_000).is_full(ModelRequest(system="", messages=[image]))


def test_what_is_larger_than_the_window_is_reported_once() -> None:
    window = Window(1000)
    assert window.excess(asked(3000)) is None
    assert window.excess(asked(8000)) == (2_008, 1_000)
    assert window.excess(asked(9000)) is None


async def test_a_window_that_is_too_small_for_the_question_alone_is_said(bench: Bench) -> None:
    bench.facts = Facts(window=50)
    await bench.run(ScriptedModel([[says("Done.")]]))
    (notice,) = bench.told(Notice)
    assert notice.kind == "window"
    assert notice.facts["window"] == 50 < notice.facts["needed"]
    assert "reads 50 tokens at once" in notice.text


async def test_older_results_are_shortened_before_the_window_is_full(bench: Bench) -> None:
    bench.facts = Facts(window=3300)
    model = ScriptedModel(
        [Scripted(blocks=[long(word)], usage={}) for word in ("one", "two", "three")]
        + [Scripted(blocks=[says("Done.")], usage={})]
    )
    await bench.run(model)
    last = model.requests[-1].messages
    assert text_of(last[2]) == text_of(last[4]) == ELIDED
    assert text_of(last[6]).startswith("three")
    assert "compacted" in notices(bench)


async def test_the_conversation_is_summarised_when_shortening_is_not_enough(bench: Bench) -> None:
    bench.facts = Facts(window=2000)
    question = "Where is the mistake? " + "Look closely. " * 300
    first = Scripted(blocks=[says("Nowhere. " * 100)], usage={})
    await bench.run(ScriptedModel([first]), question)
    summary = Scripted(blocks=[says("They ask where the mistake is.")])
    model = ScriptedModel([summary, [says("Here.")]])
    ending = await bench.run(model, "And now?")

    assert model.requests[0].system == SUMMARISE
    assert "Where is the mistake?" in text_of(model.requests[0].messages[0])
    (message,) = model.requests[1].messages
    assert "They ask where the mistake is." in text_of(message)
    assert text_of(message, -1) == "And now?"
    assert notices(bench) == ["compacted"]
    assert ending.usage.input_tokens == 200  # the summary counts
    assert len(bench.stored) == 5  # and the transcript stays


async def test_within_a_turn_the_question_and_the_last_step_stay_verbatim(bench: Bench) -> None:
    model = ScriptedModel(
        [
            [long("old")],
            [long("new")],
            TOO_LONG,
            TOO_LONG,
            [says("It was said what is old.")],
            [says("Done.")],
        ]
    )
    await bench.run(model, "What is old?")
    summary, call, result = model.requests[-1].messages
    assert "It was said what is old." in text_of(summary)
    assert text_of(summary, -1) == "What is old?"
    assert call["content"][0]["input"]["text"].startswith("new")
    assert text_of(result).startswith("new")
    assert notices(bench) == ["compacted", "compacted"]


def test_further_summaries_within_a_turn_replace_the_one_before() -> None:
    transcript = Transcript([question("Question?")])
    stored = [
        *transcript.add_facts("Facts."),
        *transcript.add_instructions("Write British English.", "d1"),
    ]
    for n in range(1, 4):
        stored += transcript.append("assistant", [{**calls("look"), "id": f"c{n}"}])
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": "x = 1"}
        stored += transcript.append("user", [result])
        stored += transcript.replace_older(f"Summary {n}.")
        first = transcript.sendable("m")[0]["content"]
        assert [block["text"] for block in first] == [
            "Write British English.",
            f"[Summary of the conversation so far]\nSummary {n}.",
            "[The question of this turn]",
            "Facts.",
            "Question?",
        ]
    again = Transcript([question("Question?"), *(added.message for added in stored)])
    assert again.messages == transcript.messages


async def test_the_next_turn_goes_on_from_the_summary(bench: Bench) -> None:
    summarised = [[long("old")], TOO_LONG, TOO_LONG, [says("Old things.")], [says("Done.")]]
    await bench.run(ScriptedModel([[says("Hello.")]]))
    await bench.run(ScriptedModel(summarised[:1] + summarised[2:]))
    model = ScriptedModel([[says("Yes.")]])
    await bench.run(model, "And now?")
    sent = model.requests[0].messages
    assert "Old things." in text_of(sent[0])
    assert text_of(sent[-1]) == "And now?"
    assert len(sent) == 5


async def test_what_cannot_be_shortened_any_more_fails_plainly(bench: Bench) -> None:
    await bench.run(ScriptedModel([[long("old")], [says("Ok.")]]))
    model = ScriptedModel([TOO_LONG, TOO_LONG, [says("All that was said.")], TOO_LONG])
    ending = await bench.run(model)
    assert ending.state == "failed"
    assert ending.stop_reason == "context_length"
    assert notices(bench) == ["compacted", "compacted"]
    assert len(model.requests) == 4


async def test_what_the_api_refuses_as_too_long_is_summarised_and_the_turn_goes_on(
    bench: Bench,
) -> None:
    bench.history = [
        {"role": "user", "content": [says("Hello. " * 1000)]},
        {"role": "assistant", "content": [says("Hello you. " * 2000)]},
    ]
    replies = [[says("Greetings were said.")], [says("Yes.")]]
    ending, api = await converse(bench, replies, max_chars=25_000)
    assert ending.state == "done"
    assert (len(api.refusals), len(api.requests)) == (1, 2)
    assert notices(bench) == ["compacted"]


async def test_without_a_summary_the_fault_is_told_as_it_was(bench: Bench) -> None:
    await bench.run(ScriptedModel([[says("Ok.")]]))
    unable = ModelError("No.", kind="overloaded", retryable=True)
    ending = await bench.run(ScriptedModel([TOO_LONG, unable]))
    assert (ending.state, ending.stop_reason) == ("failed", "context_length")
    assert notices(bench) == []


async def test_a_summary_counts_in_the_budget(bench: Bench) -> None:
    await bench.run(ScriptedModel([[says("Ok.")]]))
    bench.facts = Facts(price=Price(input=1000, output=0))
    with_limits(bench, cost_budget=0.15)
    model = ScriptedModel([TOO_LONG, [says("All.")], [calls("look", cell_id="a")], [says("Yes.")]])
    ending = await bench.run(model)
    assert bench.told(UsageUpdated)[-2].step.cost == 0.2
    assert isinstance(ending.event, TurnFinished)
    assert ending.event.budget_reached


async def test_a_summary_that_was_of_no_use_counts_too(bench: Bench) -> None:
    await bench.run(ScriptedModel([[says("Ok.")]]))
    blank = Scripted(blocks=[says(" ")], usage={"input_tokens": 50, "output_tokens": 5})
    ending = await bench.run(ScriptedModel([TOO_LONG, blank]))
    assert (ending.state, ending.stop_reason) == ("failed", "context_length")
    assert ending.usage.total == 55


async def test_a_summary_of_a_summary_alone_is_not_made() -> None:
    said: list[Message] = [
        {"role": "user", "content": [says("Hello.")]},
        {"role": "assistant", "content": [says("Hello you.")]},
    ]
    transcript = Transcript(said)
    (stored,) = transcript.replace_older("Greetings.")
    assert transcript.older == []
    again = Transcript([*said, stored.message])
    assert again.messages == transcript.messages == [stored.message]


# -- the instructions of a project


def question(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


async def test_instructions_of_the_project_outlive_summaries() -> None:
    transcript = Transcript([question("First?")])
    stored = [
        *transcript.add_facts("Facts."),
        *transcript.add_instructions("Write British English.", "d1"),
    ]
    stored += transcript.append("assistant", [says("First.")])
    stored += transcript.append("user", [says("Second?")])
    for summary in ("Greetings.", "More greetings."):
        stored += transcript.replace_older(summary)
        sent = json.dumps(transcript.sendable("m"))
        assert sent.count("Write British English.") == 1
        assert "instructs" not in sent
        assert transcript.instructions_digest == "d1"
        stored += transcript.append("assistant", [says("Answer.")])
        stored += transcript.append("user", [says("Next?")])
    again = Transcript([question("First?"), *(added.message for added in stored)])
    assert again.messages == transcript.messages


async def test_a_summary_within_the_turn_says_the_instructions_once_before_the_question() -> None:
    transcript = Transcript([question("Question?")])
    transcript.add_facts("Facts.")
    transcript.add_instructions("Write British English.", "d1")
    transcript.append("assistant", [{**calls("look", cell_id="a"), "id": "c1"}])
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "x = 1"}
    transcript.append("user", [result])
    transcript.replace_older("They look at a.")
    texts = [block["text"] for block in transcript.sendable("m")[0]["content"]]
    assert texts[0] == "Write British English."
    assert texts[-1] == "Question?"
    assert texts.count("Write British English.") == 1


def test_an_outline_is_known_until_a_summary_stands_for_it() -> None:
    transcript = Transcript([question("First?")])
    stored = list(transcript.add_facts("[1 code a In[1]]", shows="a.ipynb", outline="d1"))
    stored += transcript.append("assistant", [says("First.")])
    stored += transcript.append("user", [says("Second?")])
    stored += transcript.add_facts("The same as before.", shows="a.ipynb")
    assert (transcript.outline_digest("a.ipynb"), transcript.outline_digest("b.ipynb")) == (
        "d1",
        "",
    )
    stored += transcript.replace_older("Greetings.")
    assert [message.get("shows") for message in transcript.messages] == [None, "a.ipynb"]
    assert transcript.outline_digest("a.ipynb") == ""
    again = Transcript([question("First?"), *(added.message for added in stored)])
    assert again.messages == transcript.messages


def test_the_plan_outlives_summaries_as_it_was_written_last() -> None:
    def plans(call_id: str, *states: str) -> list[Message]:
        steps = [{"text": f"Step {n}", "state": state} for n, state in enumerate(states, start=1)]
        call = {"type": "tool_use", "id": call_id, "name": "write_plan", "input": {"steps": steps}}
        noted = [{"type": "text", "text": "Noted."}]
        result = {"type": "tool_result", "tool_use_id": call_id, "content": noted}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    asked: Message = {"role": "user", "content": [says("Do much.")]}
    done: Message = {"role": "assistant", "content": [says("Done.")]}
    plan = "[Your plan]\n- [x] Step 1\n- [>] Step 2\n- [ ] Step 3"
    transcript = Transcript(
        [asked, *plans("p1", "doing", "open", "open"), *plans("p2", "done", "doing", "open"), done]
    )
    (stored,) = transcript.replace_older("They want much.")
    assert plan in [block["text"] for block in transcript.messages[0]["content"]]
    transcript = Transcript([stored.message, asked, done])  # as after a restart
    transcript.replace_older("They still want much.")
    assert plan in [block["text"] for block in transcript.messages[0]["content"]]
    assert transcript.messages[0].keys() - {"role", "content"}
    (sent,) = transcript.sendable("any:model")
    assert sent.keys() == {"role", "content"}
