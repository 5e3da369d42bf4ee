"""Any history becomes one that the API accepts, and a valid one stays unchanged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jupyter_agent.agent.history import INTERRUPTED, Transcript, error_result, open_calls, repair
from jupyter_agent.models.base import Block, Message
from tests.fakes import check_messages, says, thinks


def asks(text: str = "Please.") -> Message:
    return {"role": "user", "content": [says(text)]}


def assistant(*blocks: Block) -> Message:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Block) -> Message:
    return {"role": "user", "content": list(blocks)}


def call(id: str, input: Any = None) -> Block:
    return {"type": "tool_use", "id": id, "name": "look", "input": {} if input is None else input}


def result(id: str, text: str = "ok") -> Block:
    return {"type": "tool_result", "tool_use_id": id, "content": [says(text)]}


VALID = [
    asks(),
    assistant(thinks("Hm."), says("I look."), call("1"), call("2")),
    user(result("1"), error_result("2", "No.")),
    assistant(says("Done.")),
    asks("And again?"),
    assistant(call("1")),
    user(result("1"), says("By the way.")),
]


def test_a_valid_history_stays_as_it_is() -> None:
    check_messages(VALID)
    assert repair(VALID) == VALID


def test_a_crash_while_tools_ran_leaves_their_calls_answered() -> None:
    broken = [asks(), assistant(call("1"), call("2"))]
    assert open_calls(broken) == ["1", "2"]
    answers = user(error_result("1", INTERRUPTED), error_result("2", INTERRUPTED))
    assert repair(broken) == [*broken, answers]


def test_answers_stand_before_what_the_person_wrote_next() -> None:
    broken = [asks(), assistant(call("1")), user(result("1")), asks("Never mind.")]
    assert repair(broken)[-1] == user(result("1"), says("Never mind."))


def test_an_id_that_was_used_before_does_not_count_as_answered() -> None:
    broken = [asks(), assistant(call("1")), user(result("1")), assistant(call("1")), asks("Well?")]
    assert repair(broken)[-1] == user(error_result("1", INTERRUPTED), says("Well?"))


@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        pytest.param([assistant(says("Hi.")), asks()], [asks()], id="begins-with-the-assistant"),
        pytest.param([asks(), assistant(says("  "))], [asks()], id="blank-text"),
        pytest.param(
            [asks(), user(result("9"))], [user(says("Please."))], id="result-without-call"
        ),
        pytest.param(
            [asks(), assistant({"type": "thinking", "thinking": "Hm."}, says("So."))],
            [asks(), assistant(says("So."))],
            id="unsigned-thinking",
        ),
        pytest.param([asks(), assistant(thinks("Hm."))], [asks()], id="only-thinking"),
        pytest.param(
            [asks(), assistant(call("1"), call("1")), user(result("1"))],
            [asks(), assistant(call("1")), user(result("1"))],
            id="same-id-twice",
        ),
        pytest.param(
            [asks(), assistant(call("1"), call("2")), user(result("2"), result("1"))],
            [asks(), assistant(call("1"), call("2")), user(result("1"), result("2"))],
            id="out-of-order",
        ),
        pytest.param(
            [asks(), assistant(call("1", "raw")), user(result("1"))],
            [asks(), assistant(call("1", {"INVALID_JSON": "raw"})), user(result("1"))],
            id="input-that-is-no-object",
        ),
        pytest.param(
            [asks(), assistant(call("1")), user(result("1", " "))],
            [asks(), assistant(call("1")), user(result("1", "(no output)"))],
            id="empty-result",
        ),
        pytest.param([{"role": "user", "content": "Hi"}], [asks("Hi")], id="plain-text"),
    ],
)
def test_what_the_api_refuses_is_mended(broken: list[Message], repaired: list[Message]) -> None:
    assert repair(broken) == repaired


@pytest.mark.parametrize("seed", range(300))
def test_any_mixture_of_messages_becomes_valid(seed: int) -> None:
    chance = random.Random(seed)
    ids = "12345"

    def block(role: str) -> Block:
        id = chance.choice(ids)
        kinds = [says(chance.choice(["", " ", "word"]))]
        kinds += (
            [call(id), thinks("Hm."), {"type": "thinking", "thinking": "x"}]
            if role == "assistant"
            else [result(id), result(id, "")]
        )
        return chance.choice(kinds)

    broken = [
        {"role": role, "content": [block(role) for _ in range(chance.randrange(4))]}
        for role in chance.choices(["user", "assistant"], k=chance.randrange(12))
    ]
    repaired = repair(broken)
    assert repair(repaired) == repaired
    check_messages([*repaired, asks()] if not repaired else repair([*broken, asks()]))


def test_a_transcript_finishes_what_a_crash_left_open() -> None:
    transcript = Transcript([asks(), assistant(call("1"))])
    added = [*transcript.finish(), *transcript.finish()]
    assert [each.message for each in added] == [user(error_result("1", INTERRUPTED))]
