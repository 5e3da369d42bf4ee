"""The same work through another provider; a conversation may switch providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.fakes import FakeAnthropic, calls, says, thinks
from tests.fakes.chat import ChatCompletions
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask

TASK: list[FakeReply] = [
    [thinks("First look."), says("I look."), calls("get_notebook_state")],
    [
        calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2"),
        calls("read_cells", cell_ids=["gone"]),
        calls("create_cell", source="x * 21 + size", after="c3"),
    ],
    [calls("run_cells")],
    [calls("update_cell", cell_id="b2", old_string="x = 2", new_string="x = 2; size = 0")],
    [calls("run_cells")],
    [says("It is 42.")],
]


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], chat: ChatCompletions) -> dict[str, Any]:
    lab = {"kind": "openai", "base_url": chat.url, "needs_key": False}
    jp_server_config["JupyterAgent"]["providers"]["lab"] = lab
    jp_server_config["JupyterAgent"]["providers"]["corp"] = {
        **lab, "options": {"temperature": 0.2, "reasoning_effort": "low"}
    }  # fmt: skip
    return jp_server_config


def content(path: Path) -> list[Any]:
    """The cells of a notebook; ids of new ones are random, so they are not compared."""
    written = nbformat.read(path, as_version=4)
    nbformat.validate(written)
    return [{**cell, "id": "", "metadata": {}} for cell in written.cells]


@pytest.mark.full
async def test_the_same_task_through_both_apis_gives_the_same_notebook(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, chat: ChatCompletions, notebook: Path
) -> None:
    other = notebook.with_name("other.ipynb")
    other.write_bytes(notebook.read_bytes())
    replies += TASK
    chat.script = type(chat.script)(TASK)

    first = await call("POST", "chat", body=ask("What is it?", id="one", stream=False))
    there = {"id": "two", "notebook": "sales, Q3/other.ipynb", "model": "lab:llama"}
    second = await call("POST", "chat", body=ask("What is it?", stream=False, **there))

    assert (first.body["state"], second.body["state"]) == ("done", "done")
    assert content(notebook) == content(other)
    assert content(other)[-1]["outputs"][0]["data"]["text/plain"] == "42"
    assert (fake.refusals, chat.refusals) == ([], [])
    assert len(fake.requests) == len(chat.requests) == 6
    told = [message["content"] for message in chat.requests[2]["messages"][-3:]]
    assert told[1].startswith("Error: No cell `gone`.")


@pytest.mark.full
async def test_a_gateway_with_a_reasoning_model_and_options_of_its_own_does_the_same_task(
    call: Call, chat: ChatCompletions, notebook: Path
) -> None:
    chat.limit = "max_completion_tokens"
    chat.script = type(chat.script)(TASK)
    done = (await call("POST", "chat", body=ask("What is it?", stream=False, model="corp:o9"))).body
    assert done["state"] == "done", done
    assert content(notebook)[-1]["outputs"][0]["data"]["text/plain"] == "42"
    assert len(chat.refusals) == 1
    assert len(chat.requests) == 6
    assert {(sent["temperature"], sent["reasoning_effort"]) for sent in chat.requests} == {
        (0.2, "low")
    }
    assert all("max_tokens" not in sent for sent in chat.requests)
    parts = done["message"]["parts"]
    assert "retrying" not in {part["data"].get("kind") for part in parts if "data" in part}


async def test_the_model_may_change_in_the_middle_of_a_conversation(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, chat: ChatCompletions, notebook: Path
) -> None:
    replies += [[thinks("Hm."), calls("get_notebook_state")], [says("Three cells.")]]
    chat.script = type(chat.script)([[calls("get_notebook_state")], [says("Still three.")]])
    await call("POST", "chat", body=ask("How many?"))
    await call("POST", "chat", body=ask("And now?", model="lab:llama"))
    replies_again = [[says("Three it is.")]]
    fake.script = type(fake.script)(replies_again)
    last = await call("POST", "chat", body=ask("Sure?", stream=False))
    assert last.body["state"] == "done"
    assert (fake.refusals, chat.refusals) == ([], [])
    assert "Hm." not in json.dumps(chat.requests)
    assert "Hm." in json.dumps(fake.requests[-1])
    assert PATH in json.dumps(fake.requests[-1])


async def test_a_providers_models_are_listed_when_asked(call: Call, fake: FakeAnthropic) -> None:
    listed = await call("POST", "providers", "anthropic", "models")
    assert listed.body == {"models": ["claude-sonnet-5-5", "claude-haiku-5-5"]}
    assert (await call("POST", "providers", "moon", "models")).status == 404
    missing = await call("POST", "providers", "openai", "models")
    assert (missing.status, missing.body["reason"]) == (400, "authentication")


async def test_no_get_sends_a_key_out_and_the_answer_names_the_method_that_does(
    call: Call, fake: FakeAnthropic
) -> None:
    fake.asked.clear()
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await call("GET", "providers", "anthropic", "models", headers=headers)
        assert (answer.status, answer.body["reason"]) == (405, "method_not_allowed")
        assert "use POST" in answer.body["message"]
        assert answer.headers["Allow"] == "POST"
    assert not fake.asked.is_set()
    await call("POST", "providers", "anthropic", "models")
    assert fake.asked.is_set()
