"""Fresh text of the notebook in place of stale copies; summaries on request."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from jupyter_agent.assistant import Assistant
from jupyter_agent.carriers.timeouts import Timeouts
from tests.agent.test_context import without_marks
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply
from tests.notebook.browser import Tab
from tests.waiting import until

from .conftest import PATH, Call, ask, frames


def mark_of(request: dict[str, Any]) -> str:
    """The mark of the turn that a request belongs to."""
    marks: list[str] = re.findall(r"Mark of this turn: (\w+)", json.dumps(request["messages"]))
    return marks[-1]


async def changed_while_the_model_writes(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], change: Any
) -> list[dict[str, Any]]:
    """The chunks of a turn of three steps, with `change` made while the second is written."""
    gate = asyncio.Event()
    second = Scripted(
        blocks=[calls("search_notebook", query="x")], stop_after=3, then="wait", gate=gate
    )
    replies += [[calls("get_notebook_state")], second, [says("I see.")]]
    running = asyncio.create_task(call("POST", "chat", body=ask("Watch.")))
    while len(fake.requests) < 2:
        fake.asked.clear()
        await fake.asked.wait()
    await change()
    gate.set()
    return frames((await running).text)


async def test_what_changed_since_it_was_read_is_told_at_the_next_step(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    async def change() -> None:
        await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 7"})
        await call("DELETE", "notebooks", PATH, "cells", "c3")
        body = {"source": "y = 5", "before": "b2"}
        new.append((await call("POST", "notebooks", PATH, "cells", body=body)).body["id"])

    new: list[str] = []
    chunks = await changed_while_the_model_writes(call, fake, replies, change)
    (result,) = fake.requests[2]["messages"][-1]["content"]
    news = result["content"][-1]["text"]
    mark = mark_of(fake.requests[2])
    assert news.startswith(f"{mark} Changed in {PATH} since you read it, not by you:\n")
    assert f"- Cell `b2` is now:\n<{mark}>\nx = 7\n</{mark}>" in news
    assert "- Cell `c3` was deleted." in news
    assert f"is new, a code cell at position 2:\n<{mark}>\ny = 5\n</{mark}>" in news
    (notice,) = [chunk["data"] for chunk in chunks if chunk["type"] == "data-notice"]
    assert (notice["kind"], {*notice["cell_ids"]}) == ("notebook-changed", {"b2", "c3", *new})


async def test_a_file_that_changed_on_the_disk_is_told_too(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    async def change() -> None:
        changed = nbformat.read(notebook, as_version=4)
        changed.cells[1].source = "x = 8"
        nbformat.write(changed, notebook)

    await changed_while_the_model_writes(call, fake, replies, change)
    mark = mark_of(fake.requests[2])
    news = json.dumps(f"- Cell `b2` is now:\n<{mark}>\nx = 8\n</{mark}>")[1:-1]
    assert news in json.dumps(fake.requests[2]["messages"][-1])


async def test_what_nobody_else_changed_is_not_told(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [calls("get_notebook_state")],
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2\r\nw = 3")],
        [calls("update_cell", cell_id="b2", old_string="2\r\nw", new_string="2\nv")],
        [calls("update_cell", cell_id="c3", source="print(x)\r\n\r\nprint(w)")],
        [calls("create_cell", source="y = 1\r\nz = 2")],
        [says("Done.")],
    ]
    await call("POST", "chat", body=ask("Work."))
    told = json.dumps(fake.requests[-1])
    assert told.count("Edited cell") == 3
    assert "not by you" not in told
    assert "Someone typed" not in told


async def test_what_changed_between_two_turns_is_told_with_the_question(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("get_notebook_state")], [says("I see.")], [says("Yes.")]]
    await call("POST", "chat", body=ask("Look."))
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 7"})
    await call("POST", "chat", body=ask("And now?"))
    facts, question = fake.requests[-1]["messages"][-1]["content"]
    mark = mark_of(fake.requests[-1])
    assert f"- Cell `b2` is now:\n<{mark}>\nx = 7\n</{mark}>" in facts["text"]
    assert question["text"] == "And now?"


async def test_a_turn_is_not_shown_an_edit_of_others_that_is_taken_back(
    call: Call, agent: Assistant, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    agent.tabs.timeouts = Timeouts(sync=1.0)
    tab = await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    replies += [[says("One.")], [says("Two.")]]
    await call("POST", "chat", body=ask("What is it?"))
    tab.as_the_edit_arrives(tab.freeze)
    body = {"source": "x = 'unconfirmed'"}
    edit = asyncio.create_task(call("PATCH", "notebooks", PATH, "cells", "b2", body=body))
    await until(lambda: tab.frozen)
    await call("POST", "chat", body=ask("And now?"))
    assert (await edit).status == 409
    assert "unconfirmed" not in json.dumps(fake.requests[1]["messages"])


@pytest.mark.full
async def test_a_later_turn_begins_with_the_bytes_of_the_one_before(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")], [says("Yes.")], [says("No.")]]
    await call("POST", "chat", body=ask("Run it.", mode="auto"))  # from here on a kernel runs
    await call("POST", "chat", body=ask("And now?", mode="read"))
    await call("POST", "chat", body=ask("Sure?", mode="ask"))
    for earlier, later in zip(fake.requests, fake.requests[1:], strict=False):
        assert json.dumps(earlier["system"]) == json.dumps(later["system"])
        before = json.dumps(without_marks(earlier["messages"]))[:-1]
        assert json.dumps(without_marks(later["messages"])).startswith(before)
    facts = [block["text"] for block in fake.requests[-1]["messages"][-1]["content"]]
    assert "Mode `ask`" in facts[0]


async def test_a_text_too_long_to_be_told_has_to_be_read_again(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    long = "x = 7\n" * 1000

    async def change() -> None:
        await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": long})

    await changed_while_the_model_writes(call, fake, replies, change)
    (result,) = fake.requests[2]["messages"][-1]["content"]
    assert "- Cell `b2` has changed; read it again." in result["content"][-1]["text"]


async def test_a_person_can_have_a_conversation_summarised(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("Hello.")], [says("They said hello.")], [says("Yes.")]]
    await call("POST", "chat", body=ask("Hello?"))
    done = await call("POST", "conversations", "talk", "compact")
    assert done.body["compacted"]
    assert done.body["usage"]["input_tokens"] == 100

    again = await call("POST", "conversations", "talk", "compact")
    assert not again.body["compacted"]
    conversation = (await call("GET", "conversations", "talk")).body
    assert conversation["usage"]["input_tokens"] == 200
    assert [message["role"] for message in conversation["messages"]] == ["user", "assistant"]

    await call("POST", "chat", body=ask("Are you there?"))
    (message,) = fake.requests[-1]["messages"]
    summary, facts, question = (block["text"] for block in message["content"])
    assert summary == "[Summary of the conversation so far]\nThey said hello."
    assert f"Notebook: {PATH}" in facts
    assert f"[2 code b2 In[ ] {mark_of(fake.requests[-1])}]\nx = 1\n" in facts
    assert question == "Are you there?"


async def test_a_conversation_is_not_summarised_while_a_turn_runs(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    gate = asyncio.Event()
    replies.append(Scripted(blocks=[says("Hello.")], stop_after=2, then="wait", gate=gate))
    running = asyncio.create_task(call("POST", "chat", body=ask("Hello?")))
    await fake.asked.wait()
    assert (await call("POST", "conversations", "talk", "compact")).status == 409
    gate.set()
    await running


async def test_without_a_key_the_summary_is_refused_with_a_sentence(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies.append([says("Hello.")])
    await call("POST", "chat", body=ask("Hello?"))
    fake.api_key = "another"
    refused = await call("POST", "conversations", "talk", "compact")
    assert (refused.status, refused.body["reason"]) == (400, "authentication")


def first(request: dict[str, Any]) -> str:
    """The context before the last turn's question in a request, and the question."""
    asked = [
        message
        for message in request["messages"]
        if message["role"] == "user" and message["content"][0]["type"] == "text"
    ]
    return "\n".join(block["text"] for block in asked[-1]["content"])


async def test_a_short_notebook_comes_with_the_question_as_fenced_data(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    whole = calls("update_cell", cell_id="b2", source="x = 2")
    replies += [[whole], [says("Done.")]]
    turn = (await call("POST", "chat", body=ask("Make x 2.", stream=False))).body
    request = fake.requests[0]
    mark, told = mark_of(request), first(request)
    assert f"[2 code b2 In[ ] {mark}]\nx = 1\n" in told
    assert f"[3 code c3 In[ ] {mark}]\nprint('x is', x)\n" in told
    shown = told[told.index(f"<{mark}>\n") : told.index(f"\n</{mark}>")]
    assert shown.startswith(f"<{mark}>\n{PATH}: 3 cells, kernel none running\n")
    assert told.endswith("Make x 2.")
    assert [change["kind"] for change in turn["changes"]] == ["update"]  # read, so rewritten
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 2"


async def test_what_was_sent_before_stays_the_same_and_a_later_turn_brings_the_outline(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("One.")], [says("Two.")]]
    await call("POST", "chat", body=ask("One?", stream=False))
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 7\nx"})
    await call("POST", "chat", body=ask("Two?", stream=False))
    before, after = fake.requests
    old, new = (without_marks(each["messages"]) for each in (before, after))
    assert new[: len(old)] == old
    told = first(after)
    assert f"- Cell `b2` is now:\n<{mark_of(after)}>\nx = 7\nx\n" in told
    assert f"[2 code b2 In[ ] {mark_of(after)}] x = 7 (+1 lines)\n" in told
    assert f"[3 code c3 In[ ] {mark_of(after)}]\nprint" not in told


async def test_a_long_notebook_comes_as_its_outline(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], jp_root_dir: Path
) -> None:
    cells = [new_code_cell(f"a{n} = {n}\n" + "#" * 300, id=f"c{n}") for n in range(200)]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "long.ipynb")
    replies += [[says("Long.")]]
    await call("POST", "chat", body=ask("Look.", notebook="long.ipynb", stream=False))
    told = first(fake.requests[0])
    assert "200 cells" in told
    assert "###" not in told
    assert "a0 = 0 (+1 lines)" in told
    assert len(told) < 10_000


UNCHANGED = "The outline is the same as when the notebook was last shown to you."


@pytest.fixture
def long(jp_root_dir: Path) -> str:
    """Path of a notebook so large that its outline comes with the question."""
    cells = [new_code_cell(f"a{n} = {n}\n" + "#" * 300, id=f"c{n}") for n in range(80)]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "long.ipynb")
    return "long.ipynb"


def has_outline(request: dict[str, Any]) -> bool:
    """Whether the last question of a request has an outline, or a note that it is known."""
    told = first(request)
    shown = re.search(r"^ *\[\d+ code \w+ In\[.\] .*\]( x = |.*\+1 lines)", told, re.MULTILINE)
    assert bool(shown) != (UNCHANGED in told), told
    return bool(shown)


async def test_an_outline_that_the_model_has_is_sent_again_only_once_it_differs(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], long: str
) -> None:
    async def question(text: str, **more: Any) -> bool:
        replies.append([says(f"To {text}")])
        body = ask(text, notebook=long, stream=False, **more)
        assert (await call("POST", "chat", body=body)).body["state"] == "done"
        return has_outline(fake.requests[-1])

    assert await question("One?")
    assert not await question("Two?")
    assert not await question("Three?")
    assert not await question("Read?", mode="read")  # the mode is among the facts anyway
    before, after = (without_marks(each["messages"]) for each in fake.requests[-2:])
    assert after[: len(before)] == before

    source = {"source": "b = 3\n#"}
    await call("PATCH", "notebooks", long, "cells", "c3", body=source)
    assert await question("Edited?")
    assert not await question("And now?")
    await call("POST", "notebooks", long, "kernel", body={"action": "start"})
    await call("POST", "notebooks", long, "cells", "c3", "run")
    assert await question("Run?")
    assert await question("Less?", share="code-only")
    assert await question("Elsewhere?", id="other")
    assert not await question("Back?", share="code-only")

    replies.append([says("They asked much.")])
    assert (await call("POST", "conversations", "talk", "compact")).body["compacted"]
    assert await question("What was it?", share="code-only")
    assert not await question("Sure?", share="code-only")


async def test_a_short_notebook_that_was_shown_whole_needs_no_outline_until_it_differs(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("One.")], [says("Two.")], [calls("run_cell", cell_id="b2")], [says("Ran.")]]
    replies += [[says("Four.")]]
    for text in ("One?", "Two?", "Run it.", "Four?"):
        await call("POST", "chat", body=ask(text, stream=False))
    _, two, run, _, four = fake.requests
    assert [has_outline(each) for each in (two, run, four)] == [False, False, True]


async def test_what_is_hidden_or_not_shared_does_not_come_with_the_question(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], jp_root_dir: Path
) -> None:
    output = new_output("stream", text="the output 4711")
    cells = [
        new_code_cell("secret = 'geheim'", id="a1", metadata={"tags": ["agent-hidden"]}),
        new_code_cell("print('shown')", id="b2", outputs=[output]),
    ]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "part.ipynb")
    replies += [[says("I see little.")]]
    body = ask("Look.", notebook="part.ipynb", share="no-outputs", stream=False)
    await call("POST", "chat", body=body)
    told = json.dumps(fake.requests)
    assert "print('shown')" in told
    assert "geheim" not in told
    assert "4711" not in told


class TestRules:
    """The notebook comes with the question only if the model itself might have read it."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        rules = [{"verdict": "deny", "tool": "get_notebook_state", "notebook": "sales*"}]
        jp_server_config["JupyterAgent"]["rules"] = rules
        return jp_server_config

    async def test_a_rule_that_forbids_to_look_holds_for_the_question_too(
        self, call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
    ) -> None:
        replies += [[says("I see nothing.")]]
        await call("POST", "chat", body=ask("Look.", stream=False))
        assert "print('x is', x)" not in json.dumps(fake.requests)
