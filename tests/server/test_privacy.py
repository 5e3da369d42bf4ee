"""The requests that leave the machine, and how its owner sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import Call, ask, frames


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], fake: FakeAnthropic) -> dict[str, Any]:
    # The wildcard address reaches the fake, too, and is not one of the machine's own names.
    elsewhere = fake.url.replace("127.0.0.1", "0.0.0.0")
    far = {"kind": "anthropic", "base_url": elsewhere, "api_key": fake.api_key}
    jp_server_config["JupyterAgent"]["providers"]["far"] = far
    return jp_server_config


async def test_everything_that_was_sent_can_be_read_word_for_word(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
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
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("Hello.")], [says("Hello.")], [says("Hello.")]]

    assert await told(call, model="anthropic:claude-sonnet-5-5") == []  # nothing leaves
    (notice,) = await told(call, model="far:claude-sonnet-5-5")
    assert "0.0.0.0:" in notice
    assert "the cells, outputs and files" in notice
    assert "agent-hidden" in notice
    assert await told(call, model="far:claude-sonnet-5-5") == []


@pytest.mark.parametrize(
    ("share", "sent"),
    [
        ("no-outputs", "the cells and files, but no outputs and no variables,"),
        ("code-only", "the code, but no Markdown, no outputs, no variables and no other files,"),
    ],
)
async def test_the_first_sending_says_what_is_shared(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path, share: str, sent: str
) -> None:
    replies += [[says("Hello.")]]
    (notice,) = await told(call, model="far:claude-sonnet-5-5", share=share)
    assert sent in notice
    (question,) = fake.requests[-1]["messages"]
    assert "Not shared with you: " in json.dumps(question)


async def told(call: Call, kind: str = "provider", **more: Any) -> list[str]:
    """The notices of that kind in a turn."""
    chunks = frames((await call("POST", "chat", body=ask("Hello?", **more))).text)
    notices = [chunk["data"] for chunk in chunks if chunk["type"] == "data-notice"]
    return [notice["text"] for notice in notices if notice["kind"] == kind]


async def test_what_was_shared_before_is_not_sent_again_once_less_is_shared(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[calls("read_cells", cell_ids=["a1", "b2"])], [says("It is about sales.")]]
    replies += [[says("Hello.")]] * 3
    assert await told(call, "withheld") == []
    assert "# Sales" in json.dumps(fake.requests[-1])
    (notice,) = await told(call, "withheld", share="code-only")
    assert "1 earlier turns" in notice
    assert "# Sales" not in json.dumps(fake.requests[-1])
    assert "about sales" not in json.dumps(fake.requests[-1])
    assert await told(call, "withheld") == []  # as much as ever
    assert "# Sales" in json.dumps(fake.requests[-1])


async def test_a_cell_that_is_hidden_after_it_was_read_is_not_sent_again(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 'KANARI 1882'")]
    ]
    replies += [[calls("read_cells", cell_ids=["b2", "c3"])], [says("It is 'KANARI 1882'.")]]
    replies += [[says("Hello.")]] * 2
    await told(call)
    assert json.dumps(fake.requests[-1]).count("KANARI") >= 2
    content = json.loads(notebook.read_text())
    content["cells"][1]["metadata"]["tags"] = ["agent-hidden"]
    notebook.write_text(json.dumps(content))
    chunks = frames((await call("POST", "chat", body=ask("And now?"))).text)
    assert "KANARI" not in json.dumps(fake.requests[-1])
    assert "print('x is', x)" in json.dumps(fake.requests[-1])
    requests = await call("GET", "turns", chunks[0]["messageMetadata"]["turnId"], "requests")
    assert "KANARI" not in requests.text
