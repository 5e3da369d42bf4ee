"""What leaves the machine, and how its owner sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.testing import FakeAnthropic, calls, says
from jupyter_agent.testing.script import Reply

from .conftest import Call, ask, frames


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], fake: FakeAnthropic) -> dict[str, Any]:
    # The wildcard address reaches the fake too, and is none of the machine's own names.
    elsewhere = fake.url.replace("127.0.0.1", "0.0.0.0")
    far = {"kind": "anthropic", "base_url": elsewhere, "api_key": fake.api_key}
    jp_server_config["JupyterAgent"]["providers"]["far"] = far
    return jp_server_config


async def test_everything_that_was_sent_can_be_read_word_for_word(
    call: Call, fake: FakeAnthropic, replies: list[Reply], notebook: Path
) -> None:
    replies += [
        [calls("get_notebook_state")],
        [calls("update_cell", cell_id="b2", source="x = 2")],
        [says("Done.")],
    ]
    chunks = frames((await call("POST", "chat", body=ask(f"My key is {fake.api_key}."))).text)
    turn_id = chunks[0]["messageMetadata"]["turnId"]
    requests = (await call("GET", "turns", turn_id, "requests")).body
    assert len(requests) == len(fake.requests) == 3
    for kept, sent in zip(requests, fake.requests, strict=True):
        assert kept["host"] == fake.url.removeprefix("http://")
        assert kept["model"] == "anthropic:claude-sonnet-5-5"
        assert kept["characters"] > 1000
        assert kept["system"] == sent["system"][0]["text"]
        assert [tool["name"] for tool in kept["tools"]] == [tool["name"] for tool in sent["tools"]]
        assert len(kept["messages"]) == len(sent["messages"])
    assert fake.api_key in json.dumps(fake.requests)  # the person typed it
    assert fake.api_key not in json.dumps(requests)
    assert (await call("GET", "turns", "t_unknown", "requests")).status == 404


async def test_the_first_sending_to_a_service_says_who_gets_what(
    call: Call, fake: FakeAnthropic, replies: list[Reply], notebook: Path
) -> None:
    replies += [[says("Hello.")], [says("Hello.")], [says("Hello.")]]

    async def told(model: str) -> list[str]:
        chunks = frames((await call("POST", "chat", body=ask("Hello?", model=model))).text)
        notices = [chunk["data"] for chunk in chunks if chunk["type"] == "data-notice"]
        return [notice["text"] for notice in notices if notice["kind"] == "provider"]

    assert await told("anthropic:claude-sonnet-5-5") == []  # nothing leaves the machine
    (notice,) = await told("far:claude-sonnet-5-5")
    assert "0.0.0.0:" in notice
    assert "outputs" in notice
    assert await told("far:claude-sonnet-5-5") == []
