"""Changes that wait for a person's review, over HTTP and in the model's context."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask


def edit(cell_id: str, old: str, new: str) -> dict[str, Any]:
    return calls("update_cell", cell_id=cell_id, old_string=old, new_string=new)


async def pending(call: Call, path: str = PATH) -> list[dict[str, Any]]:
    answer = await call("GET", "notebooks", path, "changes")
    assert answer.status == 200
    found: list[dict[str, Any]] = answer.body
    return found


def told(fake: FakeAnthropic) -> str:
    """The facts before the last question."""
    text: str = fake.requests[-1]["messages"][-1]["content"][0]["text"]
    return text


@pytest.mark.full
async def test_what_turns_changed_waits_until_it_is_kept_or_taken_back(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [edit("b2", "1", "2"), calls("run_cell", cell_id="b2"), calls("delete_cell", cell_id="a1")],
        [says("First.")],
        [edit("c3", "is", "was"), edit("b2", "2", "3")],
        [says("Second.")],
    ]
    turns = [
        (await call("POST", "chat", body=ask(text, stream=False))).body["turn_id"]
        for text in ("Change.", "Once more.")
    ]
    found = await pending(call)
    assert [(each["turn_id"], each["kind"], each["cell_id"]) for each in found] == [
        (turns[0], "update", "b2"),
        (turns[0], "delete", "a1"),
        (turns[1], "update", "c3"),
        (turns[1], "update", "b2"),
    ]
    deleted = found[1]
    assert (deleted["before"]["source"], deleted["after"]) == ("# Sales", None)
    assert deleted["before"]["below"][0] == "b2", "where it stood"
    b2 = {"cells": [{"notebook": PATH, "cell_id": "b2"}]}
    await call("POST", "turns", turns[1], "accept", body=b2)
    assert [each["cell_id"] for each in await pending(call)] == ["b2", "a1", "c3"]
    await call("POST", "turns", turns[0], "undo")
    kept, other = await pending(call)
    assert (kept["cell_id"], other["cell_id"]) == ("b2", "c3")
    assert kept["conflict"] == "These lines were edited since.", "a later turn did"
    assert other["conflict"] is None
    assert await pending(call, "other.ipynb") == []


async def test_the_model_is_told_what_was_taken_back_and_what_nobody_has_reviewed(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [calls("get_notebook_state")],
        [edit("b2", "1", "2"), edit("c3", "is", "was")],
        [says("Changed.")],
        [says("I see.")],
        [says("Yes.")],
        [calls("get_notebook_state")],
        [says("It is as it was.")],
    ]
    first = (await call("POST", "chat", body=ask("Change both.", stream=False))).body
    await call("POST", "chat", body=ask("And now?"))
    assert (
        f"not reviewed by the person yet: your changes to cell `b2` in {PATH}, `c3` in {PATH}."
    ) in told(fake)
    b2 = {"cells": [{"notebook": PATH, "cell_id": "b2"}]}
    await call("POST", "turns", first["turn_id"], "undo", body=b2)
    await call("POST", "chat", body=ask("And now?"))
    assert f"The person took back your changes to cell `b2` in {PATH}." in told(fake)
    assert f"your changes to cell `c3` in {PATH}." in told(fake)
    there = re.search(r"- Cell `b2` is now:\n<(\w+)>\nx = 1\n</\1>", told(fake))
    assert there, "the text that is there"
    await call("POST", "turns", first["turn_id"], "accept")
    await call("POST", "chat", body=ask("What is there?"))
    facts = fake.requests[-2]["messages"][-1]["content"][0]["text"]
    assert "reviewed" not in facts
    assert "took back your changes" not in facts, "it has been told"
    (result,) = fake.requests[-1]["messages"][-1]["content"]
    assert "x = 1" in str(result)
    assert "print('x was', x)" in str(result)
