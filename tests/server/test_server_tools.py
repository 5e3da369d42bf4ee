"""Tools of a model service itself: declared, shown, stored, and sent back unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from jupyter_agent.assistant import Assistant
from jupyter_agent.extension import JupyterAgent
from jupyter_agent.models.base import Block
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply

from .conftest import Call, ask, frames

LOOK = calls("read_cells", cell_ids=["b2"])
SEARCH: Block = {
    "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
    "input": {"query": "pandas 3 merge"},
}  # fmt: skip
FOUND: Block = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://pandas.example/merge",
            "title": "Merging frames",
            "encrypted_content": "EqgfCioIARgB",
        }
    ],
}
CITED: Block = {
    "type": "text",
    "text": "Use merge.",
    "citations": [{"type": "web_search_result_location", "encrypted_index": "Eo8B"}],
}
FAILED: Block = {
    **FOUND, "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
}  # fmt: skip
CODE: Block = {
    "type": "server_tool_use", "id": "srvtoolu_2", "name": "bash_code_execution",
    "input": {"command": "python clean.py"},
}  # fmt: skip
CODE_RAN: Block = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {
        "type": "bash_code_execution_result", "stdout": "done", "stderr": "", "return_code": 0,
        "content": [],
    },
}  # fmt: skip
CONTAINER = {"id": "container_01", "expires_at": "2026-11-23T13:00:00Z"}
PAUSED = Scripted(blocks=[says("I search."), SEARCH], stop_reason="pause_turn")


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    jp_server_config["JupyterAgent"]["server_tools"] = ["web_search", "code_execution"]
    return jp_server_config


async def asked(call: Call, text: str = "Hm?", **more: Any) -> dict[str, Any]:
    return dict((await call("POST", "chat", body=ask(text, stream=False, **more))).body)


def done(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in answer["message"]["parts"] if part["type"] == "dynamic-tool"]


def marks(value: Any) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(marks, value.values()))
    return sum(map(marks, value)) if isinstance(value, list) else 0


async def test_they_are_declared_before_ours_and_the_cache_marks_stay(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[LOOK], [says("One.")]]
    await asked(call)
    tools = fake.requests[0]["tools"]
    assert [(tool["type"], tool["name"]) for tool in tools[:2]] == [
        ("web_search_20250305", "web_search"),
        ("code_execution_20250825", "code_execution"),
    ]
    assert [n for n, tool in enumerate(tools) if "cache_control" in tool] == [len(tools) - 1]
    assert marks(fake.requests[1]) == 4
    assert fake.requests[0]["tools"] == fake.requests[1]["tools"]


async def test_what_the_service_did_is_shown_kept_and_sent_back_as_it_came(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[says("I search."), SEARCH, FOUND, CITED, LOOK], [says("One.")], [says("Again.")]]
    answer = await asked(call)
    searched, looked = done(answer)
    assert searched["toolName"] == "web_search"
    assert searched["providerExecuted"] is True
    assert searched["state"] == "output-available"
    assert searched["input"] == {"query": "pandas 3 merge"}
    assert searched["output"]["text"] == "Merging frames\nhttps://pandas.example/merge"
    assert "providerExecuted" not in looked
    for request in fake.requests[1:]:
        assert request["messages"][1]["content"][:4] == [says("I search."), SEARCH, FOUND, CITED]
    turn = (await call("GET", "turns", answer["turn_id"])).body
    assert [(each["tool"], each["state"]) for each in turn["calls"]] == [
        ("web_search", "done"),
        ("read_cells", "done"),
    ]
    assert [entry["tool"] for entry in turn["audit"]] == ["read_cells"]
    await asked(call, "And?")
    assert fake.requests[-1]["messages"][1]["content"][:4] == [
        says("I search."), SEARCH, FOUND, CITED
    ]  # fmt: skip
    assert fake.refusals == []


async def test_a_search_that_fails_is_shown_as_such(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[SEARCH, FAILED, says("No luck.")]]
    [searched] = done(await asked(call))
    assert searched["state"] == "output-error"
    assert "max_uses_exceeded" in searched["errorText"]


async def test_a_pause_continues_with_the_result_in_the_next_reply(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [PAUSED, [FOUND, CITED], [says("Again.")]]
    chunks = frames((await call("POST", "chat", body=ask("Hm?"))).text)
    of_search = [chunk for chunk in chunks if chunk.get("toolCallId") == "srvtoolu_1"]
    kinds = [chunk["type"] for chunk in of_search if chunk["type"] != "tool-input-delta"]
    assert kinds == ["tool-input-start", "tool-input-available", "tool-output-available"]
    assert all(chunk["dynamic"] for chunk in of_search if chunk["type"] != "tool-input-delta")
    assert fake.requests[1]["messages"][-1] == {
        "role": "assistant", "content": [says("I search."), SEARCH]
    }  # fmt: skip
    await asked(call, "And?")
    assert fake.refusals == []


async def test_a_search_without_a_result_ends_with_its_turn_and_is_not_sent_again(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [*[PAUSED] * 6, [says("Again.")]]
    ended = done(await asked(call, max_steps=2))
    assert {each["state"] for each in ended} == {"output-error"}
    replies.clear()
    fake.script = type(fake.script)([[says("Again.")]])
    assert (await asked(call, "And?"))["state"] == "done"
    assert "srvtoolu_1" not in json.dumps(fake.requests[-1])
    assert fake.refusals == []


@pytest.mark.full
async def test_what_it_read_counts_in_the_budget(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    usage = {"input_tokens": 400_000, "output_tokens": 10}
    replies += [Scripted(blocks=[SEARCH, FOUND, LOOK], usage=usage), [says("One.")]]
    answer = await asked(call)
    kinds = [part["data"]["kind"] for part in answer["message"]["parts"] if "data" in part]
    assert "budget" in kinds
    assert answer["usage"]["input_tokens"] == 400_100


async def test_another_model_is_told_only_the_words(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [[SEARCH, FOUND, CITED], [says("Again.")]]
    await asked(call)
    await asked(call, "And?", model="anthropic:claude-opus-5-5")
    [_, said, _] = fake.requests[-1]["messages"]
    assert said == {"role": "assistant", "content": [says("Use merge.")]}


async def test_a_model_that_lacks_one_of_them_answers_without_it(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    fake.refuses = lambda body: (
        "'claude-sonnet-5-5' does not support tool types: code_execution_20250825."
        if "code_execution_20250825" in str(body["tools"])
        else None
    )
    replies += [[says("One.")], [says("Two.")]]
    notices = []
    for _ in range(2):
        answer = await asked(call)
        assert answer["state"] == "done"
        said = [part["data"] for part in answer["message"]["parts"] if "data" in part]
        notices += [each for each in said if each["kind"] == "tools-missing"]
    assert [each["tools"] for each in notices] == [["code_execution"]]
    assert notices[0]["text"].endswith("has no code_execution, so it answers without.")
    assert len(fake.refusals) == 1
    assert fake.requests[-1]["tools"][0]["name"] == "web_search"
    assert "code_execution_20250825" not in str(fake.requests)


async def test_code_that_waits_for_a_tool_of_ours_finds_its_container_again(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    replies += [
        Scripted(blocks=[CODE, LOOK], container=CONTAINER),
        [CODE_RAN, LOOK],
        [says("Cleaned.")],
        [says("Again.")],
    ]
    assert (await asked(call))["state"] == "done"
    containers = [request.get("container") for request in fake.requests]
    assert containers == [None, "container_01", "container_01"]
    await asked(call, "And?")
    assert "container" not in fake.requests[-1]
    assert fake.refusals == []


async def test_a_container_that_has_expired_is_not_asked_for_again(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    fake.refuses = lambda body: (
        "container: Container container_01 has expired." if "container" in body else None
    )
    replies += [
        Scripted(blocks=[CODE, CODE_RAN, LOOK], container=CONTAINER),
        [LOOK],
        [says("Cleaned.")],
    ]
    assert (await asked(call))["state"] == "done"
    assert len(fake.refusals) == 1
    assert "code_execution_20250825" in str(fake.requests[-1]["tools"])


class TestSwitchedOff:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        del jp_server_config["JupyterAgent"]["server_tools"]
        return jp_server_config

    async def test_nothing_is_declared_and_nothing_of_before_is_sent(
        self,
        call: Call,
        replies: list[FakeReply],
        fake: FakeAnthropic,
        agent: Assistant,
        notebook: Path,
    ) -> None:
        replies += [[SEARCH, FOUND, CITED], [says("Again.")]]
        await asked(call)
        await asked(call, "And?")
        assert all("input_schema" in tool for tool in fake.requests[0]["tools"])
        assert fake.requests[-1]["messages"][1]["content"] == [says("Use merge.")]
        assert fake.refusals == []


def test_a_tool_that_no_service_has_is_refused_when_the_server_starts() -> None:
    with pytest.raises(TraitError, match="web_search"):
        JupyterAgent(server_tools=["telepathy"])
