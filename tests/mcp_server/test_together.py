"""Several agents, scripts and a person in one notebook: no edits are lost, and all are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply
from tests.gates import Gate
from tests.notebook.browser import Tab
from tests.server.conftest import ask as question
from tests.waiting import until

from .conftest import PATH, Call, Tool, sources, text


def edit(cell_id: str, old: str, new: str) -> dict[str, Any]:
    change = {"cell_id": cell_id, "old_string": old, "new_string": new}
    return {"notebook": PATH, "edits": [change]}


def type_words(tab: Tab, words: Sequence[str]) -> None:
    """A person types two of them now, and two whenever an edit arrives in their page."""
    for word in words[:2]:
        tab.type("c3", word)
    if words:
        tab.as_the_edit_arrives(lambda: type_words(tab, words[2:]))


async def test_a_person_types_while_a_client_edits(
    agent: Assistant, jp_serverapp: Any, tool: Tool, notebook: Path
) -> None:
    contents = jp_serverapp.contents_manager
    tab = await Tab(agent.tabs, contents, PATH, "local/page-1").open()
    words = [f"# word {n}\n" for n in range(20)]
    type_words(tab, words)
    for value in range(1, 11):
        done = await tool("edit_cells", edit("b2", f"x = {value}", f"x = {value + 1}"), mode="edit")
        assert done["isError"] is False, text(done)
    new = {"notebook": PATH, "cells": [{"source": "z = 1"}]}
    assert (await tool("create_cells", new, mode="edit"))["isError"] is False
    assert all(word in tab.source("c3") for word in words)
    assert tab.source("c3").endswith("print('x is', x)") or "print('x is', x)" in tab.source("c3")
    assert tab.source("b2") == "x = 11"
    state = text(await tool("get_notebook_state", {"notebook": PATH}, mode="edit"))
    assert "# word 19" in state  # unsaved typing is read
    assert "z = 1" in state


async def test_what_a_person_typed_is_told_with_the_next_result(
    agent: Assistant, jp_serverapp: Any, tool: Tool, notebook: Path
) -> None:
    contents = jp_serverapp.contents_manager
    tab = await Tab(agent.tabs, contents, PATH, "local/page-1").open()
    await tool("read_cells", {"notebook": PATH, "cell_ids": ["b2", "c3"]}, mode="edit")
    tab.type("c3", "# mine\n")
    done = await tool("edit_cells", edit("b2", "1", "2"), mode="edit")
    assert "since you read it" in text(done)
    assert "# mine" in text(done)
    assert done["structuredContent"]["news"]
    again = await tool("read_cells", {"notebook": PATH, "cell_ids": ["b2"]}, mode="edit")
    assert "since you read it" not in text(again)


@pytest.mark.full
async def test_two_clients_and_a_script_edit_one_notebook(
    call: Call, tool: Tool, notebook: Path
) -> None:
    clients = ("Claude Code", "Codex")
    for client in clients:
        await tool("get_notebook_state", {"notebook": PATH}, mode="edit", client=client)
    wanted = {client: [f"{client[0].lower()}{n} = {n}" for n in range(8)] for client in clients}

    async def work(client: str) -> None:
        for source in wanted[client]:
            new = {"notebook": PATH, "cells": [{"source": source}]}
            done = await tool("create_cells", new, mode="edit", client=client)
            assert done["isError"] is False, text(done)

    async def script() -> None:
        for n in range(8):
            body = {"old_string": "# Sales", "new_string": f"# Sales\n\nLine {n}"}
            answer = await call("PATCH", "notebooks", PATH, "cells", "a1", body=body)
            assert answer.status == 200, answer.text

    await asyncio.gather(*map(work, clients), script())
    there = sources(notebook)
    assert set(sum(wanted.values(), [])) <= set(there.values())
    assert len(there) == 3 + 16
    assert all(f"Line {n}" in there["a1"] for n in range(8))
    blamed = (await call("GET", "notebooks", PATH, "blame")).body["cells"]
    by = [cell["model"] for cell in blamed]
    assert (by.count("Claude Code"), by.count("Codex")) == (8, 8)


async def test_each_learns_what_the_other_did_and_by_whom(tool: Tool, notebook: Path) -> None:
    both = {"notebook": PATH, "cell_ids": ["b2", "c3"]}
    await tool("read_cells", both, mode="edit")
    await tool("read_cells", both, mode="edit", client="Codex")
    await tool("edit_cells", edit("b2", "1", "7"), mode="edit", client="Codex")
    told = text(await tool("read_cells", {"notebook": PATH, "cell_ids": ["c3"]}, mode="edit"))
    assert "since you read it, not by you" in told
    assert "x = 7" in told
    assert "By Codex: `b2`." in told


async def test_whose_edit_it_is_is_known_before_the_call_that_made_it_is_over(
    tool: Tool, notebook: Path, tmp_path: Path
) -> None:
    both = {"notebook": PATH, "cell_ids": ["b2", "c3"]}
    await tool("read_cells", both, mode="edit")
    await tool("read_cells", both, mode="edit", client="Codex")
    gate = Gate(tmp_path / "gate")
    change = edit("b2", "x = 1", gate.waits) | {"run": True}
    codex = asyncio.create_task(tool("edit_cells", change, mode="auto", client="Codex"))
    await until(lambda: sources(notebook)["b2"] == gate.waits)
    one = {"notebook": PATH, "cell_ids": ["c3"]}
    seen = text(await tool("read_cells", one, mode="edit"))
    assert not codex.done()
    gate.open()
    assert (await codex)["isError"] is False, text(await codex)
    assert "By Codex: `b2`." in seen


async def test_a_rewrite_does_not_undo_what_the_other_wrote(tool: Tool, notebook: Path) -> None:
    both = {"notebook": PATH, "cell_ids": ["b2", "c3"]}
    await tool("read_cells", both, mode="edit")
    await tool("read_cells", both, mode="edit", client="Codex")
    await tool("edit_cells", edit("b2", "x = 1", "x = 1  # Codex"), mode="edit", client="Codex")
    rewrite = {"notebook": PATH, "edits": [{"cell_id": "b2", "source": "x = 5"}]}
    refused = await tool("edit_cells", rewrite, mode="edit")
    assert refused["structuredContent"]["reason"] == "changed"
    assert "# Codex" in text(refused)
    assert sources(notebook)["b2"] == "x = 1  # Codex"


async def test_two_clients_our_own_model_and_a_person_lose_nothing_and_learn_of_each_other(
    agent: Assistant,
    jp_serverapp: Any,
    call: Call,
    fake: FakeAnthropic,
    replies: list[FakeReply],
    tool: Tool,
    notebook: Path,
) -> None:
    tab = await Tab(agent.tabs, jp_serverapp.contents_manager, PATH, "local/page-1").open()
    everything = ["a1", "b2", "c3"]
    clients = ("Claude Code", "Codex")
    for client in clients:
        await tool(
            "read_cells", {"notebook": PATH, "cell_ids": everything}, mode="edit", client=client
        )
    others_are_done = asyncio.Event()
    change = {"cell_id": "c3", "old_string": "x is", "new_string": "x was"}
    replies += [
        [calls("read_cells", cell_ids=everything)],
        Scripted(
            blocks=[calls("edit_cells", edits=[change])],
            stop_after=0,
            then="wait",
            gate=others_are_done,
        ),
        [says("Done.")],
    ]
    words = [f"# word {n}\n" for n in range(20)]
    heard: dict[str, list[str]] = {client: [] for client in clients}

    async def client_work(client: str, changes: Sequence[dict[str, Any]]) -> None:
        for change in changes:
            done = await tool("edit_cells", change, mode="edit", client=client)
            assert done["isError"] is False, text(done)
            heard[client].append(text(done))

    counted = [edit("b2", f"x = {n}", f"x = {n + 1}") for n in range(1, 7)]
    titled = [edit("a1", "# Sales", f"# Sales\n\nLine {n}") for n in range(6)]
    own = asyncio.create_task(call("POST", "chat", body=question("Say was.", stream=False)))
    await until(lambda: len(fake.requests) == 2)
    type_words(tab, words)
    await asyncio.gather(client_work("Claude Code", counted), client_work("Codex", titled))
    others_are_done.set()
    answer = await own
    assert answer.status == 200, answer.text

    now = {cell: tab.source(cell) for cell in everything}
    assert now["b2"] == "x = 7"
    assert all(f"Line {line}" in now["a1"] for line in range(6))
    assert "".join(words) in now["c3"]
    assert "print('x was', x)" in now["c3"]
    assert sources(notebook) == now

    own_name = "anthropic:claude-sonnet-5-5"
    heard[own_name] = [str(fake.requests[2]["messages"][-1]["content"])]
    for client in clients:
        look = {"notebook": PATH, "cell_ids": ["b2"]}
        heard[client].append(text(await tool("read_cells", look, mode="edit", client=client)))
    wrote = {"Claude Code": "`b2`", "Codex": "`a1`", own_name: "`c3`"}
    for reader, told in heard.items():
        all_told = "\n".join(told)
        assert "since you read it" in all_told
        assert "# word 19" in all_told
        for author, cell in wrote.items():
            is_other = author != reader
            assert (f"By {author}: {cell}" in all_told) == is_other, (reader, author, all_told)
