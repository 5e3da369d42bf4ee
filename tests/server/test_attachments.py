"""What goes with a question: kept with it, sent again with it, refused where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path

from jupyter_agent.testing import FakeAnthropic, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Call, ask

PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def picture(data: str = PIXEL) -> dict[str, str]:
    return {
        "type": "file",
        "mediaType": "image/gif",
        "url": f"data:image/gif;base64,{data}",
        "filename": "plot.gif",
    }


async def test_a_question_that_is_asked_again_keeps_its_notebook_and_what_was_attached(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("One.")], [says("Again.")]]
    context = [{"type": "cell", "notebook": PATH, "cell_id": "b2"}]
    await call("POST", "chat", body=ask("What is it?", id="talk", context=context))
    body = {"id": "talk", "trigger": "regenerate-message", "stream": False}
    again = await call("POST", "chat", body=body)
    assert again.status == 200
    first, second = (request["messages"][-1] for request in fake.requests)
    for message in (first, second):
        assert f"Attached cell of {PATH}" in json.dumps(message)
    (question, _answer) = (await call("GET", "conversations", "talk")).body["messages"]
    assert question["metadata"] == {"notebook": PATH, "context": context}


async def test_a_picture_is_kept_with_its_name_and_a_model_that_sees_none_is_not_asked(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies.append([says("A pixel.")])
    question = {"role": "user", "parts": [{"type": "text", "text": "What?"}, picture()]}
    body = {"id": "talk", "messages": [question], "stream": False}
    assert (await call("POST", "chat", body=body)).status == 200
    kept = (await call("GET", "conversations", "talk")).body["messages"][0]
    assert kept["parts"] == question["parts"]
    refused = await call("POST", "chat", body={**body, "model": "demo:tour"})
    assert (refused.status, refused.body["reason"]) == (400, "no_images")
    assert "does not support images" in refused.body["message"]
    images = (await call("GET", "models")).body["images"]
    assert images["demo:tour"] is False
    assert images["anthropic:claude-sonnet-5-5"] is True


async def test_a_picture_that_services_refuse_for_its_size_is_refused_before(
    call: Call, fake: FakeAnthropic
) -> None:
    question = {"role": "user", "parts": [picture("AAAA" * 1_250_001)]}
    answer = await call("POST", "chat", body={"messages": [question]})
    assert (answer.status, answer.body["reason"]) == (413, "too_large")
    assert fake.requests == []
